"""Whether a dataset's files are those that its manifest lists."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.crashsafe.manifest import Comparison
from edgefirst_ros.formats.l5kit.store.schema import JOURNAL, MANIFEST

MADE_BY = "l5kit"
"""What the manifests of the format say."""
MASK = re.compile(r"agents_mask[./].*", re.DOTALL)
"""What readers, L5Kit's and this package's, keep beside the arrays of what they found of the agents."""


def has_manifest(path: Path) -> bool:
    """Whether there is anything of that name in a dataset's folder."""
    return os.path.lexists(path / MANIFEST)


def differences(path: Path, *, besides: Collection[str] = ()) -> Iterator[str]:
    """What differs between a dataset and its manifest, a sentence for each kind.

    Masks are left out, and the files that are named in ``besides``.
    """
    comparison = Comparison(path / MANIFEST, MADE_BY)
    for name in sorted(_names(path)):
        if name not in {MANIFEST, JOURNAL, *besides} and not MASK.fullmatch(name):
            file = path / name
            comparison.add(name, file.lstat().st_size, file)
    yield from comparison.faults()


def refuse_changed(path: Path) -> None:
    """Refuse to make a dataset, with a manifest of its own, of one that is not as it was written.

    Raises:
        DatasetError: naming the first difference.
    """
    if has_manifest(path) and (fault := next(differences(path), "")):
        raise DatasetError(f"{path}: {MANIFEST}: {fault}")


def _names(path: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        linked = (name for name in folders if Path(folder, name).is_symlink())
        for name in (*names, *linked):
            yield Path(folder, name).relative_to(path).as_posix()
