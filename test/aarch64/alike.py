"""What two machines made of one recording: equal in bytes, or in what a reader gets to see."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ncoreread import records
from PIL import Image
from pyarrow import ipc

from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.zarr2 import read_array

TOLERANCE = 2e-6
"""Of any number: poses are rounded to micrometres, and what lies between two of them may go to either."""
FOLLOWING = (".manifest", "capture_report.html")
"""Files made of the others: of their sizes, checksums and pictures."""
_OF_THE_MACHINE = {"versions", "md5"}
"""What JSON says of libraries, and of the bytes of another file."""


class DifferentError(Exception):
    """Two machines say different things; the text says where."""


def compare(ours: Path, theirs: Path) -> dict[str, str]:
    """How files below two folders compare, by path: empty if they are equal in bytes.

    Raises:
        DifferentError: not the same files, or a reader sees a difference.
    """
    held = [{str(file.relative_to(of)) for file in of.rglob("*") if file.is_file()} for of in (ours, theirs)]
    if not held[0] or held[0] != held[1]:
        raise DifferentError(f"files of one machine only: {sorted(held[0] ^ held[1])}")
    return {name: _how(name, ours / name, theirs / name) for name in sorted(held[0])}


def _how(name: str, ours: Path, theirs: Path) -> str:
    if ours.read_bytes() == theirs.read_bytes():
        return ""
    if name.endswith(FOLLOWING):
        return "made of the others"
    seen = Differences()
    seen.look(name, _content(ours), _content(theirs))
    return str(seen)


class Differences:
    """What differs in a file.

    Attributes:
        pictures: with equal pixels in other bytes.
        most: the largest difference of two numbers.
    """

    def __init__(self) -> None:
        self.pictures, self.most = 0, 0.0

    def __str__(self) -> str:
        found = [f"{self.pictures} PNG of equal pixels"] if self.pictures else []
        found += [f"numbers to {self.most:.1g}"] if self.most else []
        return ", ".join(found) or "all but versions and checksums"

    def look(self, where: str, ours: Any, theirs: Any) -> None:  # noqa: ANN401 - of any kind
        """Take in two contents.

        Raises:
            DifferentError: they differ by more than what is allowed.
        """
        pairs = _pairs(ours, theirs)
        if pairs is not None:
            for key, one, other in pairs:
                self.look(f"{where}/{key}", one, other)
        elif _is_picture(where, ours, theirs):
            self.pictures += 1
        elif isinstance(ours, float) and isinstance(theirs, float) and abs(ours - theirs) <= TOLERANCE:
            self.most = max(self.most, abs(ours - theirs))
        elif ours != theirs and not (ours != ours and theirs != theirs):  # noqa: PLR0124 - NaN equals nothing
            raise DifferentError(f"{where}: {ours!r:.80} and {theirs!r:.80}")


def _pairs(ours: Any, theirs: Any) -> list[tuple[Any, Any, Any]] | None:  # noqa: ANN401 - of any kind
    """Key and both values of what a content holds; None if it holds nothing, or not the same keys."""
    if isinstance(ours, np.ndarray):
        ours, theirs = ours.tolist(), theirs.tolist()
    if isinstance(ours, dict) and ours.keys() == theirs.keys():
        return [(key, ours[key], theirs[key]) for key in ours if key not in _OF_THE_MACHINE]
    if isinstance(ours, (list, tuple)) and len(ours) == len(theirs):
        return list(zip(range(len(ours)), ours, theirs, strict=True))
    return None


def _is_picture(where: str, ours: Any, theirs: Any) -> bool:  # noqa: ANN401 - of any kind
    if not where.endswith(".png") or ours == theirs:
        return False
    pixels = [np.asarray(Image.open(io.BytesIO(data))) for data in (ours, theirs)]
    return np.array_equal(*pixels)


def _content(path: Path) -> Any:  # noqa: ANN401 - of any kind
    """What a reader makes of a file."""
    if path.suffix == ".json" or path.name == ".zattrs":
        return json.loads(path.read_text())
    if path.suffix == ".arrow":
        with ipc.open_file(path) as table:
            return table.read_all().to_pylist()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    if path.suffix == ".itar":
        stored = records(path)  # one of which gathers the attributes of the others
        return {name: _record(name, stored) for name in stored if not name.startswith(".zmetadata")}
    if path.parent.parent.suffix == ".zarr":
        return np.asarray(getattr(ChunkedDataset(path.parent.parent).open(), path.parent.name)[:])
    raise DifferentError(f"{path}: other bytes, and nothing here reads it")


def _record(name: str, stored: Mapping[str, bytes]) -> Any:  # noqa: ANN401 - of any kind
    """Attributes and numbers of a store's array, or bytes of what is something else."""
    folder, _, last = name.rpartition("/")
    if last == ".zattrs":
        return json.loads(stored[name])
    described = json.loads(stored.get(f"{folder}/.zarray", b"{}"))
    is_float = str(described.get("dtype", "")).startswith("<f")
    return read_array(stored.__getitem__, folder) if is_float else stored[name]
