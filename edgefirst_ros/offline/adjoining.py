"""Which files of a device may be one drive, by their names and sizes; only those are opened.

A file begins at the time in its name. It adjoins the next one of its device if it lasted until that began,
which takes so many bytes a second. How many the device records is known once one of its files is open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.offline.naming import InputFile
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.recording import Recording, device_time_s

SLOWEST_B_S = 1000.0
"""Two small fixes a second are more: nothing that is worth converting is recorded with less."""
SLOWER = 4.0
"""How much less one device may record at another time: pictures of the night, without its radar's cubes."""
NAMED_S = 6.0
"""Names have whole seconds; up to 5 s are between files that adjoin (``drives.ADJOINING_NS``)."""
APART_S = 60.0
"""What the first message may come later after the file's name than in the file before."""

Opener = Callable[[Collection[Location]], list[Recording | EdgeFirstError]]


class _Group:
    """The files of one device in one folder."""

    def __init__(self, files: Sequence[InputFile]) -> None:
        self.opened: dict[Location, Recording | EdgeFirstError] = {}
        self._files = sorted(files, key=lambda file: file.path.name)
        self._begun_s = [device_time_s(file.path.stem) for file in self._files]
        pairs = (
            (_needed_b_s(file.size, *times), n)
            for n, (file, times) in enumerate(zip(self._files, pairwise(self._begun_s), strict=False))
        )
        self._left = sorted((each for each in pairs if each[0] >= SLOWEST_B_S), reverse=True)
        self._taken: list[int] = []
        self._slowest_b_s: float | None = None
        self._probes = 1

    def wanted(self) -> list[Location]:
        """What is to be opened next: whoever may last until the next file; at first, some to learn from."""
        if (slowest := self._slowest_b_s) is None:
            count, self._probes = self._probes, 2 * self._probes
        else:
            count = sum(needed_b_s >= slowest / SLOWER for needed_b_s, _ in self._left)
        self._taken += [number for _, number in self._left[:count]]
        del self._left[:count]
        early = [self._files[n].path for n in self._taken]
        late = [self._files[n + 1].path for n in self._taken if self._reaches_next(n)]
        return [path for path in dict.fromkeys((*early, *late)) if path not in self.opened]

    def learn(self, path: Location, found: Recording | EdgeFirstError) -> None:
        """A file was opened, or cannot be."""
        self.opened[path] = found
        lasts_s = _lasts_s(found)
        if lasts_s > 0 and isinstance(found, Recording):
            rate_b_s = found.size / lasts_s
            self._slowest_b_s = min(self._slowest_b_s or rate_b_s, rate_b_s)

    def _reaches_next(self, number: int) -> bool:
        """Whether a file that is open ends about where the next one begins by their names."""
        begun_s, next_s = self._begun_s[number : number + 2]
        if (found := self.opened.get(self._files[number].path)) is None:
            return False
        lasts_s = _lasts_s(found)
        return begun_s is None or next_s is None or lasts_s + APART_S >= next_s - begun_s


def adjoining(groups: Sequence[Sequence[InputFile]], opened: Opener) -> list[Recording | EdgeFirstError]:
    """What is in files that may be one drive with others of their group; the others are not opened.

    Args:
        groups: files of one folder whose names have one host, each with a time.
        opened: opens several.
    """
    several = [_Group(files) for files in groups]
    while True:
        wanted = {path: group for group in several for path in group.wanted()}
        if not wanted:
            return [found for group in several for found in group.opened.values()]
        for (path, group), found in zip(wanted.items(), opened(wanted), strict=True):
            group.learn(path, found)


def _needed_b_s(size: int, begun_s: float | None, next_s: float | None) -> float:
    """Bytes a second that a file has if it lasts until the next one begins."""
    if size < 0 or begun_s is None or next_s is None or next_s - begun_s <= NAMED_S:
        return float("inf")
    return size / (next_s - begun_s - NAMED_S)


def _lasts_s(found: Recording | EdgeFirstError) -> float:
    spans = found.spans if isinstance(found, Recording) else []
    return (max(last for _, last in spans) - min(first for first, _ in spans)) / 1e9 if spans else 0.0
