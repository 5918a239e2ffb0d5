"""A message, then a measurement, on its way through the pipeline, with its ticket in the account."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from edgefirst_ros.messages.measurement import Decoded, Measurement, RawMessage
from edgefirst_ros.pipeline.ledger import Stage, Ticket
from edgefirst_ros.sample import CameraImage
from edgefirst_ros.topics import Route
from edgefirst_ros.video.bitstream import Content


@dataclass(frozen=True, slots=True)
class Heard:
    """A decoded message waiting for its time."""

    raw: RawMessage
    decoded: Decoded
    ticket: Ticket
    route: Route


@dataclass(slots=True)
class Envelope:
    """One measurement, or the four tiles of one picture (then ``parts`` are the tiles).

    ``content`` is what a packet of video holds; ``slices`` hold further parts of the
    picture. ``unshown`` is the end of a packet that only the decoder needs: its stage and the reason.
    ``size`` is the picture's width and height in pixels, as its headers tell. ``image`` is set once the
    encoded picture has been asked for, so that it is encoded once.
    """

    measurement: Measurement
    route: Route
    ticket: Ticket
    keyframe: bool = True
    unusable: str | None = None
    size: tuple[int, int] | None = None
    parts: tuple[Envelope, ...] = ()
    slices: tuple[Envelope, ...] = ()
    content: Content = Content.PICTURE
    unshown: tuple[Stage, str] | None = None
    image: Future[CameraImage] | None = None

    @property
    def time_ns(self) -> int:
        """Acquisition time on the recording's clock."""
        return self.measurement.time_ns

    @property
    def all_parts(self) -> tuple[Envelope, ...]:
        """The tiles, or the envelope itself, each followed by the envelopes that it was joined from."""
        return tuple(each for part in self.parts or (self,) for each in (part, *part.slices))
