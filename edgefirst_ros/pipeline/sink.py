"""What a sequence hands on: aligned samples, every measurement, and the vehicle's poses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.settlement import Outcome
from edgefirst_ros.sample import CameraImage, EgoPose, Observation, Sample


@dataclass(frozen=True, slots=True)
class Emitted:
    """A sample whose picture may still be in the making, and the envelopes it is made of.

    ``envelopes`` begin with the reference's. ``judged`` is called once, in any thread, when it is known what
    became of the sample. ``takers`` are the formats that it is for, None if all; where there is none, the
    picture is only there if somebody else asked for it.
    """

    sample: Sample
    image: Future[CameraImage] | None
    envelopes: tuple[Envelope, ...]
    judged: Callable[[Outcome], None]
    takers: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """One measurement for the formats that take every one; its picture may still be in the making."""

    observation: Observation
    image: Future[CameraImage] | None
    envelope: Envelope
    takers: frozenset[str] | None = None


class Sink(Protocol):
    """What becomes of a sequence's samples and measurements, all in order of time."""

    observes: bool
    """Whether any format wants measurements and poses."""
    needs_pose: bool
    """Whether measurements at times of unknown pose are to be left out."""

    sheds_early: bool
    """Whether pictures are left out where measurements are handed over, which is before their samples are."""

    @property
    def keyframes_only(self) -> bool:
        """Whether there is no time to decode other pictures of a video that has key frames."""

    def sample_takers(
        self, reference: Envelope, camera: Envelope | None, *, possible: bool, better: bool
    ) -> frozenset[str] | None:
        """Formats that have time for the sample to come, by its reference and its picture; None if all.

        ``possible`` says that there is time to decode its picture, ``better`` that it costs no more than
        others; so below.
        """

    def wants_picture(self, *, possible: bool, better: bool) -> bool:
        """Where ``sheds_early``: whether the next sample's picture is to be made, should a format take it."""

    def measurement_takers(
        self, envelope: Envelope, *, possible: bool, better: bool
    ) -> frozenset[str] | None:
        """Formats that have time for a measurement; None if all."""

    def sample(self, emitted: Emitted) -> None:
        """A sample is aligned and its pose known."""

    def measurement(self, observed: Observed) -> None:
        """A measurement is in its place."""

    def pose(self, pose: EgoPose) -> None:
        """The rig's pose at the time of a navigation message."""
