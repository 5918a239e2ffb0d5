"""What a sequence hands on: aligned samples, every measurement, and the vehicle's poses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from edgefirst_ros.entry import Entry
from edgefirst_ros.sample import CameraImage, EgoPose, Observation, Sample
from edgefirst_ros.settlement import Verdict


@dataclass(frozen=True, slots=True)
class Emitted:
    """A sample whose picture may still be in the making, and the entries it is made of.

    ``entries`` begin with the reference's. ``judged`` is called once, in any thread, when it is known what
    became of the sample.
    """

    sample: Sample
    image: Future[CameraImage] | None
    entries: tuple[Entry, ...]
    judged: Callable[[Verdict], None]


@dataclass(frozen=True, slots=True)
class Observed:
    """One measurement for the formats that take every one; its picture may still be in the making."""

    observation: Observation
    image: Future[CameraImage] | None
    entry: Entry


class Sink(Protocol):
    """What becomes of a sequence's samples and measurements, all in order of time."""

    observes: bool
    """Whether any format wants measurements and poses."""
    needs_pose: bool
    """Whether measurements at times of unknown pose are to be left out."""

    def sample(self, emitted: Emitted) -> None:
        """A sample is aligned and its pose known."""

    def measurement(self, observed: Observed) -> None:
        """A measurement is in its place."""

    def pose(self, pose: EgoPose) -> None:
        """The rig's pose at the time of a navigation message."""
