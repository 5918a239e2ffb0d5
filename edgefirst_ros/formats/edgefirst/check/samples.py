"""What the samples of a dataset consist of, in four bytes per sample."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

KINDS = (
    "camera.jpeg",
    "camera.png",
    "depth.png",
    "radar.png",
    "radar.pcd",
    "lidar.png",
    "lidar.pcd",
    "lidar.jpeg",
)
"""Kinds of sensor files; a sample has one of the first two."""

BIT = {kind: 1 << number for number, kind in enumerate(KINDS)}
CAMERA = BIT["camera.jpeg"] | BIT["camera.png"]
FILES = (1 << len(KINDS)) - 1
"""Any sensor file."""

ANNOTATED = 1 << 8
"""The table has rows with annotations for the sample."""
BARE = 1 << 9
"""The table has a row without annotation for the sample."""
ROWS = ANNOTATED | BARE

_PAGE = 64
"""Frames that are noted together; few, as a damaged table may have any numbers of frames."""


class Samples:
    """Bits of all samples by sequence and frame number, in arrays, because a day has a million samples."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[int, array[int]]] = {}

    def add(self, sequence: str, frame: int, bits: int) -> int:
        """Set bits of a sample; returns those that were set before."""
        pages = self._pages.setdefault(sequence, {})
        page = pages.get(frame // _PAGE)
        if page is None:
            page = pages[frame // _PAGE] = array("I", bytes(4 * _PAGE))
        before = page[frame % _PAGE]
        page[frame % _PAGE] = before | bits
        return before

    def sequences(self) -> list[str]:
        """Sorted names of the sequences."""
        return sorted(self._pages)

    def of(self, sequence: str) -> Iterator[tuple[int, int]]:
        """Frame number and bits of the samples of a sequence, in order."""
        pages = self._pages[sequence]
        for number in sorted(pages):
            for offset, bits in enumerate(pages[number]):
                if bits:
                    yield number * _PAGE + offset, bits
