"""The sequence meta file: what the stores of a sequence are and hold, with their MD5."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.model.untrusted import open_regular

VERSION = "v4"


_CHUNK = 1 << 20


def md5_of(path: Path, passed: Callable[[int], None] = lambda _: None) -> str:
    """MD5 of a store as nvidia-ncore computes it: of a file's bytes, or of a directory's names and files.

    Args:
        path: of the store.
        passed: gets how many bytes were read since it was called last.

    Raises:
        OSError: a file is missing or no regular file, or what is in the store is a symbolic link.
    """
    digest = hashlib.md5(usedforsecurity=False)
    _update(digest, path.resolve(), passed)
    return digest.hexdigest()


def _update(digest: Any, path: Path, passed: Callable[[int], None]) -> None:  # noqa: ANN401  hashlib's type
    if path.is_dir() and not path.is_symlink():
        for child in sorted(path.iterdir(), key=lambda child: str(child).lower()):
            digest.update(child.name.encode())
            _update(digest, child, passed)
        return
    with open_regular(path, follow=False) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            passed(len(chunk))


def write_meta(
    path: Path,
    sequence_id: str,
    interval_us: tuple[int, int],
    generic_meta_data: dict[str, Any],
    stores: Mapping[str, tuple[Callable[[], str], dict[str, Any]]],
) -> None:
    """Write the meta file whole or not at all.

    Args:
        path: the file.
        sequence_id: of all stores.
        interval_us: of all stores, half-open.
        generic_meta_data: of all stores.
        stores: by the name that each will have: what tells its MD5, and its components.
    """
    with ThreadPoolExecutor(max_workers=4) as pool:
        digests = list(pool.map(lambda store: store[0](), stores.values()))
    meta = {
        "sequence_id": sequence_id,
        "sequence_timestamp_interval_us": {"start": interval_us[0], "stop": interval_us[1]},
        "generic_meta_data": generic_meta_data,
        "version": VERSION,
        "component_stores": [
            {"path": name, "md5": digest, "components": components}
            for (name, (_, components)), digest in zip(stores.items(), digests, strict=True)
        ],
    }
    text = json.dumps(meta, indent=2, sort_keys=True) + "\n"
    replace_file(path, text.encode())
