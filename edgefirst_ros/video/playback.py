"""Where the decoder stands, and what it must be fed next to reach a picture."""

from __future__ import annotations

from edgefirst_ros.video.gops import Gops, Unit


class Playback:
    """One run of the decoder: fed from a key frame on, without a gap, until it is drained.

    Attributes:
        first: the unit fed first, None if the decoder is empty.
        last: the unit fed last.
    """

    def __init__(self, gops: Gops) -> None:
        self._gops = gops
        self.first: Unit | None = None
        self.last: Unit | None = None

    def feed(self, unit: Unit) -> None:
        """Note that a unit is being fed."""
        self.first = self.first or unit
        self.last = unit

    def drain(self) -> None:
        """Note that the decoder was drained."""
        self.first = self.last = None

    def has_fed(self, unit: Unit) -> bool:
        """Whether the decoder was fed a unit in this run, and all that it builds on."""
        if self.first is None or self.last is None:
            return False
        if unit.start is None or unit.start < self.first.gop.number:
            return False
        return self.first.number <= unit.number <= self.last.number

    def start(self, target: Unit) -> Unit | None:
        """Where to start so that a unit is reached, None if that is no longer kept."""
        if target.start is None:
            return None
        way = [self._gops.numbered(number) for number in range(target.start, target.gop.number + 1)]
        if not all(gop is not None and (gop.linked or place == 0) for place, gop in enumerate(way)):
            return None
        return None if way[0] is None or way[0].dropped else way[0].units[0]

    def reaches(self, target: Unit) -> bool:
        """Whether feeding on from where the decoder stands reaches a unit, decoding no group in between."""
        if self.first is None or self.last is None or self.last.number >= target.number:
            return False
        start = target.start
        if start is None or self.first.gop.number > start:
            return False
        following = self.following()
        return following is not None and following.gop.number >= start

    def following(self) -> Unit | None:
        """The unit after the one fed last, None if unknown yet or not to be reached without a new start."""
        if self.last is None:
            return None
        gop = self.last.gop
        place = self.last.number + 1 - gop.units[0].number if gop.units else 0
        if place < len(gop.units):
            return gop.units[place]
        successor = self._gops.numbered(gop.number + 1)
        if successor is None or not successor.units or not successor.linked:
            return None
        return successor.units[0]
