"""A capture report as it is read: validated part by part, because it may be old, damaged or hostile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.reasons import Kind, kind_of
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, parse_json, read_regular, refusing

Count = Annotated[int, Field(ge=0, le=2**53)]
Nanoseconds = Annotated[int, Field(ge=0, le=2**63)]
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
Name = Annotated[str, Field(max_length=4096)]
Counts = Annotated[list[Count], Field(max_length=4096)]
Value = TypeVar("Value")

MOST_POINTS = 6000
NEVER = "this report was made by an earlier version, which did not note it"
DAMAGED = "this part of the report is damaged"


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Account(_Part):
    """What became of one topic's messages."""

    type: Name = ""
    received: Count = 0
    decoded: Count = 0
    refused: Count = 0
    skipped: Count = 0
    unpaired: Count = 0
    dropped: Count = 0
    written: Count = 0
    lost_upstream: Count = 0
    bytes: Count = 0
    pairing_error_ms: dict[Name, Real] | None = None
    reasons: dict[Name, dict[Name, Count]] = {}
    refused_parts: dict[Name, Count] = {}
    left_out: dict[Name, dict[Name, Count]] = {}
    unchecked: Count = 0


class Latency(_Part):
    """Latencies of one topic."""

    p50: Real
    p95: Real
    max: Real


class Worst(_Part):
    """The sample whose companion is farthest off."""

    error_ms: Real
    sequence: Name
    frame: Count
    time_ns: Nanoseconds


class Pairing(_Part):
    """Companion − reference of one topic."""

    worst: Worst | None = None


class Pauses(_Part):
    """When a topic sent nothing."""

    count: Count = 0
    total_s: Real = 0.0
    longest_ns: Annotated[list[tuple[Nanoseconds, Nanoseconds]], Field(max_length=256)] = []


class Spells(_Part):
    """When a condition of a topic's content held."""

    count: Count = 0
    total_s: Real = 0.0
    longest_ns: Annotated[list[tuple[Nanoseconds, Nanoseconds]], Field(min_length=1, max_length=256)]


class Stream(_Part):
    """One topic in one sequence."""

    role: Name = ""
    sensor: Name = ""
    device: Name = ""
    messages: Count
    first_ns: Nanoseconds
    last_ns: Nanoseconds
    usual_interval_ms: Real | None = None
    frame_id: Name = ""
    other_frame_id: Name = ""
    pauses: Pauses = Pauses()
    latency_ms: Latency | None = None
    spells: Annotated[dict[Name, Spells], Field(max_length=64)] = {}
    is_watched: bool = False
    """Whether a repetition of its messages would have been noticed."""

    @property
    def rate_hz(self) -> float | None:
        """The mean rate between its pauses, None if unknown."""
        intervals = self.messages - 1 - self.pauses.count
        sending_s = (self.last_ns - self.first_ns) / 1e9 - self.pauses.total_s
        return intervals / sending_s if intervals > 0 and sending_s > 0 else None


class Companion(_Part):
    """Samples of a sequence with and without a message of a topic that was sending.

    ``promised`` is the share of samples that have one at the topic's rate, ``lacked`` frames that became no
    sample for want of one; ``entry``, ``topic``, ``policy`` and ``tolerance_ms`` are its configuration.
    """

    paired: Count = 0
    missing: Count = 0
    promised: Annotated[float, Field(ge=0, le=1)] = 0.0
    lacked: Count = 0
    entry: Name = ""
    topic: Name = ""
    policy: Name = ""
    tolerance_ms: Real | None = None


class Clock(_Part):
    """Which of its times a topic is placed by."""

    source: Name
    offset_ns: Annotated[int, Field(ge=-(2**63), le=2**63)] = 0
    clock: int | None = None
    finding: Name = ""


class Origin(_Part):
    """Where a local frame has its origin, in degrees."""

    latitude: Annotated[float, Field(ge=-90, le=90)]
    longitude: Annotated[float, Field(ge=-360, le=360)]


class Track(_Part):
    """Where the rig was; a point is time, east, north, up, number of the local frame, and basis."""

    origins: Annotated[list[Origin | None], Field(max_length=256)] = []
    bases: Annotated[list[Name], Field(max_length=16)]
    points: Annotated[
        list[tuple[Nanoseconds, Real, Real, Real, Count, Annotated[int, Field(ge=0, lt=16)]]],
        Field(max_length=4096),
    ]


class Camera(_Part):
    """A camera's intrinsics."""

    size: tuple[Count, Count]
    focal_px: tuple[Real, Real]
    principal_px: tuple[Real, Real]
    distortion_model: Name = ""
    distortion: Annotated[list[Real], Field(max_length=64)] = []


class FrameTransform(_Part):
    """Pose of a frame in its parent."""

    parent: Name
    child: Name
    translation_m: tuple[Real, Real, Real]
    rotation_xyzw: tuple[Real, Real, Real, Real]


class Calibration(_Part):
    """Where sensors are, and how cameras see, by sensor."""

    rig: Name = "base_link"
    cameras: Annotated[dict[Name, Camera], Field(max_length=256)] = {}
    transforms: Annotated[list[FrameTransform], Field(max_length=256)] = []


class Mount(_Part):
    """A frame that moved with sensors on it, how far from where it was at first, and their topics.

    Of their measurements those are ``held`` that were placed by the nearest transform only.
    """

    frame: Name
    parent: Name
    moved_m: Real
    turned_deg: Real
    held: Count = 0
    topics: Annotated[list[Name], Field(max_length=256)] = []


class Frames(_Part):
    """Frames of a sequence: the reference's, or those of a camera beside it."""

    name: Name
    start_ns: Nanoseconds
    reference_frames: Count = 0
    sample: Count = 0
    incomplete: Count = 0
    skipped: Count = 0
    unusable: Count = 0
    dropped: Count = 0
    references: Annotated[list[Name], Field(max_length=1024)] = []
    companions: Annotated[dict[Name, Companion], Field(max_length=1024)] = {}
    chief: dict[Name, tuple[Name, Count]] | None = None
    """The most frequent reason of each outcome, and how often."""


class Sequence(Frames):
    """One sequence."""

    cameras: Annotated[dict[Name, Frames], Field(max_length=256)] = {}
    """Those beside the reference that have samples of their own, by sensor."""
    ended: Name = ""
    poses_s: dict[Name, dict[Name, Real]] | None = None
    driven_m: Real | None = None
    clocks: dict[Name, Clock] = {}
    mounting: Name = ""
    doubts: Annotated[list[Name], Field(max_length=64)] = []
    streams: Annotated[dict[Name, Stream], Field(max_length=1024)] | None = None
    track: Track | None = None
    calibration: Calibration | None = None
    mounts: Annotated[list[Mount], Field(max_length=1024)] = []

    def stream_of(self, role: str, of: Frames | None = None) -> Stream | None:
        """A role's topic, of several the one that most samples have, by default its own; None if unknown."""
        of = of or self

        def samples(topic: str) -> int:
            companion = of.companions.get(topic)
            return of.sample if topic in of.references else companion.paired if companion else 0

        found = {topic: stream for topic, stream in (self.streams or {}).items() if stream.role == role}
        return found[max(found, key=samples)] if found else None

    def intrinsics_of(self, camera: Stream) -> Camera | None:
        """How a camera sees; None if nobody said."""
        return None if self.calibration is None else self.calibration.cameras.get(camera.sensor)


class Timeline(_Part):
    """Messages by time of receipt, topic and stage; reference frames by outcome."""

    start_ns: Nanoseconds
    bin_ns: Annotated[int, Field(gt=0, le=2**62)]
    bins: Annotated[list[Annotated[int, Field(ge=0, le=2**53)]], Field(max_length=2048)]
    topics: dict[Name, dict[Name, Counts]]
    reference_frames: dict[Name, Counts] = {}


class Fault(_Part):
    """A damaged place of a recording."""

    offset: Count = 0
    bytes: Count = 0
    what: Name = ""


class Recording(_Part):
    """A file that was read."""

    file: Name = ""
    bytes: Count = 0
    faults: Annotated[list[Fault], Field(max_length=100_000)] = []


Topics = Annotated[dict[Name, Account], Field(max_length=4096)]
Sequences = Annotated[list[Sequence], Field(max_length=4096)]
Texts = Annotated[list[Name], Field(max_length=100_000)]
Holding = dict[Name, Count | dict[Name, Count]]


@dataclass(slots=True)
class Report:
    """The parts of a report; a part that is not there or not sound is empty, and ``lacking`` says why."""

    dataset: str = ""
    samples: int | None = None
    complete: int | None = None
    """Samples with a message of every sensor that was alive."""
    labelled: int | None = None
    """Samples that a model looked at; None where there was none."""
    formats: Mapping[str, Holding] = field(default_factory=dict)
    topics: Mapping[str, Account] = field(default_factory=dict)
    sequences: list[Sequence] = field(default_factory=list)
    companions: Mapping[str, int] = field(default_factory=dict)
    """Samples that have each topic."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """Codes of reasons by their texts."""
    """Topics that have several."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Why, by topic: sensors of a live graph that cannot be read, so that nothing is received of them."""
    pairing: Mapping[str, Pairing] = field(default_factory=dict)
    timeline: Timeline | None = None
    notes: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool | str = False
    """Of a conversion, where it was stopped, and how long the recordings are."""
    lacking: dict[str, str] = field(default_factory=dict)
    purpose: Literal["dataset", "recording"] = "dataset"
    """Whether it is of a dataset, or of a recording that was only looked at."""

    def by_kind(self, account: Account, stage: str) -> Counter[Kind]:
        """How many of a topic's messages ended at a stage for reasons of each kind."""
        counts: Counter[Kind] = Counter()
        for text, count in account.reasons.get(stage, {}).items():
            counts[kind_of(self.codes.get(text))] += count
        return counts

    def sequence(self, name: str) -> Sequence | None:
        """The sequence of this name, else the first; None if there is none."""
        found = self.frames(name)
        return found[0] if found is not None else next(iter(self.sequences), None)

    def frames(self, name: str) -> tuple[Sequence, Frames] | None:
        """The frames of this name, a sequence's own or a camera's beside it, with the sequence."""
        every = ((s, frames) for s in self.sequences for frames in (s, *s.cameras.values()))
        return next((found for found in every if found[1].name == name), None)

    @property
    def start_ns(self) -> int:
        """Where the drive begins: the first sequence, else the first message; 0 if there is neither."""
        starts = [each.start_ns for each in self.sequences]
        return min(starts) if starts else self.timeline.start_ns if self.timeline is not None else 0

    @property
    def end_ns(self) -> int:
        """The last message that belongs to a sequence."""
        return max((end_of(each) for each in self.sequences), default=self.start_ns)


def end_of(sequence: Sequence) -> int:
    """Time of the sequence's last message."""
    streams = sequence.streams or {}
    return max((stream.last_ns for stream in streams.values()), default=sequence.start_ns)


_PARTS: Mapping[str, TypeAdapter[Any]] = {
    "dataset": TypeAdapter(Name),
    "samples": TypeAdapter(Count),
    "complete": TypeAdapter(Count),
    "labelled": TypeAdapter(Count | None),
    "formats": TypeAdapter(dict[Name, Holding]),
    "topics": TypeAdapter(Topics),
    "sequences": TypeAdapter(Sequences),
    "companions": TypeAdapter(Annotated[dict[Name, Count], Field(max_length=4096)]),
    "codes": TypeAdapter(Annotated[dict[Name, Name], Field(max_length=1024)]),
    "unreadable": TypeAdapter(Annotated[dict[Name, Name], Field(max_length=1024)]),
    "pairing": TypeAdapter(Annotated[dict[Name, Pairing], Field(max_length=4096)]),
    "timeline": TypeAdapter(Timeline),
    "notes": TypeAdapter(Texts),
    "hints": TypeAdapter(Texts),
    "warnings": TypeAdapter(Texts),
    "files": TypeAdapter(Texts),
    "recordings": TypeAdapter(Annotated[list[Recording], Field(max_length=100_000)]),
    "configuration": TypeAdapter(dict[Name, Any]),
    "versions": TypeAdapter(dict[Name, Name]),
    "interrupted": TypeAdapter(bool | Name),
}


def parsed(values: Any) -> Report:  # noqa: ANN401 - JSON
    """A report from plain values.

    Raises:
        DatasetError: it is no report at all.
    """
    if not isinstance(values, dict) or "topics" not in values or "sequences" not in values:
        raise DatasetError("not a capture report: it has no topics and sequences")
    report = Report()
    for name, adapter in _PARTS.items():
        if name not in values:
            report.lacking[name] = NEVER
            continue
        try:
            setattr(report, name, adapter.validate_python(values[name]))
        except (ValidationError, RecursionError):
            report.lacking[name] = DAMAGED
    _thin(report.sequences)
    if any(each.streams is None for each in report.sequences):
        report.lacking["streams"] = NEVER
    return report


def _thin(sequences: list[Sequence]) -> None:
    """Leave out points of tracks that are more, all together, than can be seen."""
    tracks = [each.track for each in sequences if each.track is not None]
    every = -(-sum(len(track.points) for track in tracks) // MOST_POINTS)
    for track in tracks if every > 1 else ():
        track.points[:] = track.points[::every]


def read_report(path: Path) -> Report:
    """The report in a file.

    Raises:
        DatasetError: it cannot be read, is larger than any report, or is none.
    """
    with refusing(path, DatasetError, "cannot be read as a capture report"):
        values = parse_json(read_regular(path, MOST_REPORT_BYTES))
    try:
        return parsed(values)
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from error
