"""What the decoder gave for each unit, and which pictures a damaged one spoiled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import av

from edgefirst_ros.video.gops import Unit
from edgefirst_ros.video.picture import Picture

GAVE_NONE = "the decoder gave no picture"
DAMAGED = "damaged in the packet or one before it"
UNREACHED = "decoding started too late for it"
"""No outcome: the picture needs a start further back."""

_NONE = -1

Outcome = Picture | str
"""A picture, or why there is none."""


class Sieve:
    """Sees every unit through the decoder, and lets pictures pass in the order of decoding.

    A decoder conceals what it cannot read, and goes on with the result, which then depends on how many
    threads it has. So a picture passes only after all those decoded before it, and nothing passes that
    came after a damaged one since its own start. Units leave in decode order, however they are shown.

    What is shown before the decoder's pictures are right, after its start, is looked at for damage only.

    Args:
        patience: so many units are fed after one before it is given up.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._inside: deque[Unit] = deque()
        self._shown: dict[int, av.VideoFrame] = {}
        self._forget_damage()

    def feed(self, unit: Unit) -> None:
        """Note that a unit is being fed."""
        self._inside.append(unit)

    def show(self, frames: Iterable[tuple[int, av.VideoFrame]]) -> list[tuple[Unit, Outcome]]:
        """Take what the decoder gave, by unit number; the units whose outcome is now certain."""
        for number, frame in frames:
            self._shown.setdefault(number, frame)
        certain = []
        while self._inside:
            unit = self._inside[0]
            overdue = self._inside[-1].number - unit.number > self._patience
            if unit.number not in self._shown and not overdue:
                break
            certain.append((unit, self._outcome(self._inside.popleft())))
        return certain

    def drain(self, frames: Iterable[tuple[int, av.VideoFrame]]) -> list[tuple[Unit, Outcome]]:
        """As ``show``, for the last time before the decoder starts anew."""
        certain = self.show(frames)
        certain += [(unit, self._outcome(unit)) for unit in self._inside]
        self._inside.clear()
        self._shown.clear()
        self._forget_damage()
        return certain

    def _forget_damage(self) -> None:
        self._first: int | None = None
        """Number of the group at which the decoder started."""
        self._spoiled = self._leading_spoiled = _NONE
        """Numbers of the latest groups with damage: in pictures that later ones build on, in leading ones."""

    def _outcome(self, unit: Unit) -> Outcome:
        number = unit.gop.number
        self._first = number if self._first is None else self._first
        frame = self._shown.pop(unit.number, None)
        if unit.start is None or unit.start < self._first:
            # The decoder calls all of them damaged; it gives none where a packet is.
            if frame is None and unit.reference and not unit.leading:
                self._spoiled = number
            return UNREACHED
        if frame is None or frame.is_corrupt or unit.damaged:
            if unit.leading:
                self._leading_spoiled = number
            else:
                self._spoiled = number
        if frame is None:
            return GAVE_NONE
        spoiled = unit.start <= self._spoiled or (unit.leading and number == self._leading_spoiled)
        return DAMAGED if spoiled else Picture(frame)
