"""A session: what messages become from one time to another, and what is kept of its sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgefirst_ros.ego.fixes import Mounting
from edgefirst_ros.model.sample import Calibration, SequenceInfo
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.context import PoseAccount
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.ledger import FrameCounts, Ledger
from edgefirst_ros.pipeline.transforms import MovedFrame
from edgefirst_ros.timing.finding import TopicClock
from edgefirst_ros.timing.gaps import StreamStats

if TYPE_CHECKING:
    from edgefirst_ros.pipeline.emission import Emission


@dataclass(frozen=True, slots=True)
class CameraResult:
    """What became of one camera's frames.

    ``paired`` and ``missing`` are the samples with and without a companion, by configured topic; one is
    missing only while its topic is alive and if a complete sample has it. ``lacking`` are the selected frames
    without a required one. Samples that are not written yet are counted in it later.
    """

    info: SequenceInfo
    frames: FrameCounts
    lacking: Mapping[str, int]
    paired: Mapping[str, int]
    missing: Mapping[str, int]
    reference_topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SequenceResult:
    """What is kept of a sequence that has ended, or whose session has.

    ``own`` is of the reference, ``cameras`` of the cameras beside it, by sensor.
    """

    own: CameraResult
    cameras: Mapping[str, CameraResult]
    poses: PoseAccount
    stats: Mapping[str, StreamStats]
    content: Mapping[str, StreamContent]
    mounting: Mounting | None
    doubts: Sequence[str]
    """Sentences on what makes its poses wrong."""
    calibration: Calibration
    """In force at its end."""
    moved: Mapping[str, MovedFrame]
    """Frames on the rig whose transform changed."""
    camera: str
    """The sensor whose pictures its own samples take."""


@dataclass(frozen=True, slots=True)
class SequenceSummary:
    """One sequence that has ended."""

    name: str
    result: SequenceResult
    findings: tuple[TopicClock, ...]
    ended: str
    """Why it ended: end of the source, break of the time base, or change of picture size."""


@dataclass(slots=True, eq=False)
class Session:
    """What messages become from one time to another: a dataset.

    Attributes:
        ledger: counts its messages.
        fanout: takes its samples and measurements.
        host: that they come from.
        name: of its next sequence; None for one made of host and time.
        drive: name of the first sequence of the drive that is read; empty before it.
        end_ns: acquisition time from which on messages belong to the next session; None while there is none.
        cut: why nothing is handed to writers any more; empty while there is time. Any thread may set it.
        notes: sentences for the user, once each.
        done: its sequences that have ended.
        current: the one under way; any thread may read it.
    """

    ledger: Ledger
    fanout: FanOut
    host: str = ""
    name: str | None = None
    drive: str = ""
    end_ns: int | None = None
    cut: str = ""
    notes: list[str] = field(default_factory=list)
    done: list[SequenceSummary] = field(default_factory=list)
    current: Emission | None = None
    recorded_ns: int = 0
    """From its first message's receipt to its last one's, in every source."""
    last_ns: int | None = None
    """Receipt of the source's newest message."""

    def received(self, receive_ns: int) -> None:
        """A message was received then, of which it is not known yet where it belongs."""
        if receive_ns <= 0:
            return  # received before there was a time
        if self.last_ns is not None and receive_ns > self.last_ns:
            self.recorded_ns += receive_ns - self.last_ns
        self.last_ns = max(receive_ns, self.last_ns or receive_ns)


def session_at(sessions: Sequence[Session], time_ns: int) -> Session:
    """The one to which what was acquired then belongs."""
    for session in sessions:
        if session.end_ns is None or time_ns < session.end_ns:
            return session
    return sessions[-1]
