"""A measurement on its way through the pipeline, with its ticket in the account."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from edgefirst_ros.accounting import Ticket
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.sample import CameraImage
from edgefirst_ros.topics import Route


@dataclass(slots=True)
class Entry:
    """One measurement, or the four tiles of one picture (then ``parts`` are the tiles).

    ``image`` is set once the encoded picture has been asked for, so that it is encoded once.
    """

    measurement: Measurement
    route: Route
    ticket: Ticket
    keyframe: bool = True
    unusable: str | None = None
    parts: tuple[Entry, ...] = ()
    image: Future[CameraImage] | None = None

    @property
    def time_ns(self) -> int:
        """Acquisition time on the recording's clock."""
        return self.measurement.time_ns

    @property
    def all_parts(self) -> tuple[Entry, ...]:
        """The tiles, or the entry itself."""
        return self.parts or (self,)
