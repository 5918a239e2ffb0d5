"""What live sessions are called: by host and time, or as the user said, and never twice the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from edgefirst_ros.naming import renaming, safe_name, sequence_name


class SessionNames:
    """Names for one session after another.

    A session is called ``host_date_time``: so is its sequence, and its dataset ``host_date_time-dataset``,
    unless the user gave names; those are numbered from the second session on.

    Args:
        host: the device.
        dataset: the user's name for datasets, or empty.
        sequence: the user's name for sequences, or empty.
    """

    def __init__(self, host: str, dataset: str, sequence: str) -> None:
        self.given = bool(dataset)
        """Whether the first dataset must be called as the user said, or not at all."""
        self.host = host
        """The device."""
        self._dataset = dataset
        self._sequence = sequence
        self._taken: set[str] = set()
        self.sequence = ""
        """Name of the newest session's first sequence."""

    def candidates(self, now_ns: int) -> Iterator[tuple[str, str]]:
        """Dataset and sequence names for a session that begins now, best first."""
        sequence = self._sequence or sequence_name(self.host, now_ns)
        # Never its sequence's name: readers take a container that holds a folder of its own name for nested.
        dataset = self._dataset or f"{sequence}-dataset"
        for number in count(1):
            suffix = "" if number == 1 else f"_{number}"
            name = safe_name(dataset + suffix)
            if name not in self._taken:
                yield name, sequence + suffix

    @property
    def notes(self) -> list[str]:
        """What to say of names that the user gave and that had to be changed."""
        return [*renaming("name", self._dataset), *renaming("session name", self._sequence)]

    def take(self, dataset: str, sequence: str) -> None:
        """These names are in use."""
        self._taken.add(dataset)
        self.given, self.sequence = False, sequence
