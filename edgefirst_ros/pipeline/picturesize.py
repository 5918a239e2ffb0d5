"""The size of the pictures, which is one for a whole sequence, and where it changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.sample import Calibration

Size = tuple[int, int]
"""Width and height in pixels."""


@dataclass(frozen=True, slots=True)
class PictureChange:
    """A camera's pictures have another size from one on.

    Attributes:
        first: of the new size.
        before: the size of its topic's pictures until then.
        rest: that and everything after it in time that had already arrived, in order of arrival.
        known: the calibration in force then.
    """

    first: Envelope
    before: Size
    rest: tuple[Envelope, ...]
    known: Calibration

    @property
    def time_ns(self) -> int:
        """When it was."""
        return self.first.time_ns

    @property
    def reason(self) -> str:
        """What happened, for the report."""
        sizes = " to ".join("{}x{}".format(*size) for size in (self.before, self.first.size or ()))
        when = datetime.fromtimestamp(self.time_ns // 1_000_000_000, UTC)
        milli = self.time_ns // 1_000_000 % 1000
        topic = self.first.route.topic
        return f"the picture of {topic} changed from {sizes} at {when:%Y-%m-%d %H:%M:%S}.{milli:03d} UTC"


def whole_size(envelope: Envelope) -> Size | None:
    """The size of the picture that an envelope is, or is one of four tiles of; None if it is not known."""
    if envelope.size is None or not envelope.route.rule.tile:
        return envelope.size
    return 2 * envelope.size[0], 2 * envelope.size[1]


class PictureSizes:
    """Remembers every camera's first size; a picture that cannot be had has none."""

    def __init__(self) -> None:
        self._known: dict[str, Size] = {}

    def changed(self, envelope: Envelope) -> Size | None:
        """The size that a picture should have had if it has another; fed in order of time."""
        if envelope.size is None or envelope.unusable is not None:
            return None
        known = self._known.setdefault(envelope.route.topic, envelope.size)
        return None if known == envelope.size else known
