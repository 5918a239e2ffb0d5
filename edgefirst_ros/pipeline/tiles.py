"""4K pictures that arrive as four tiles with equal stamps."""

from __future__ import annotations

from dataclasses import replace

from edgefirst_ros.messages.tileframes import split_tile
from edgefirst_ros.pipeline.envelope import Envelope

MISSING = "a tile of the picture is missing"


class TileGrouper:
    """Joins tiles of equal time into one envelope; fed in order of time."""

    def __init__(self) -> None:
        self._group: list[Envelope] = []

    def feed(self, tile: Envelope) -> Envelope | None:
        """Take the next tile; the previous picture if this one is of a later time."""
        done = self.advance(tile.time_ns)
        self._group.append(tile)
        return done

    def advance(self, time_ns: int) -> Envelope | None:
        """Time has come this far: the picture that is complete, or never will be."""
        return self.flush() if self._group and self._group[0].time_ns < time_ns else None

    def flush(self) -> Envelope | None:
        """The picture under way, as it is."""
        group, self._group = self._group, []
        if not group:
            return None
        by_tile = {tile.route.rule.tile: tile for tile in group}
        unusable = next((tile.unusable for tile in group if tile.unusable is not None), None)
        if len(by_tile) < 4 or len(group) > 4:
            unusable = MISSING
        first = by_tile.get("tl", group[0])
        # The picture is the camera's, and the tiles' frames are its own under other names.
        whole = replace(first.measurement, frame_id=split_tile(first.measurement.frame_id)[0])
        return replace(
            first,
            measurement=whole,
            keyframe=all(t.keyframe for t in group),
            unusable=unusable,
            parts=tuple(group),
            image=None,
        )
