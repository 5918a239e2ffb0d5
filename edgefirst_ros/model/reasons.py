"""Why messages and frames were not used, and what is found of a drive or a live capture.

Each reason and each finding has a code that stays, and a text that may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Self


class Kind(Enum):
    """What a reason means for the worth of a drive."""

    LOST = "lost"
    """Something that should have been used is missing."""
    REPEATED = "repeated"
    """It was there before; nothing is lost with it."""
    NO_POSITION = "no position"
    """A receiver does not know its position; normal for some time after its start."""
    UNWANTED = "unwanted"
    """Nobody asked for it."""
    UNDECODABLE_START = "undecodable start"
    """A video that begins between key frames; no loss if that is where an excerpt begins."""


class Reason(str, Enum):  # noqa: UP042 - a member has a kind besides its text
    """A reason as it is written into the report; others, with details in their text, are plain strings."""

    kind: Kind

    def __new__(cls, text: str, kind: Kind = Kind.LOST) -> Self:
        """A reason by its text."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.kind = kind
        return member

    def __str__(self) -> str:
        """The text."""
        return str(self.value)

    def __format__(self, spec: str) -> str:
        """The text, formatted."""
        return format(self.value, spec)

    @property
    def code(self) -> str:
        """Its name in reports, whatever its text."""
        return self.name.lower()

    SAME_MESSAGE = "duplicate of an earlier message", Kind.REPEATED
    SAME_STAMP = "same stamp as the message before", Kind.REPEATED
    SAME_RECEIPT = "same receive time as the message before", Kind.REPEATED
    SAME_MASK = "the same mask twice", Kind.REPEATED
    SAME_EPOCH = "repeated fix", Kind.REPEATED

    NO_FIX = "no fix (status)", Kind.NO_POSITION
    ZERO_FIX = "0,0", Kind.NO_POSITION
    CONTRADICTORY_FIX = "a fix by its status, none by its covariance"
    NOT_FINITE_FIX = "not finite"
    FIX_OUT_OF_RANGE = "out of range"
    FROZEN_FIX = "frozen (repeats the last position while the rig moves)"
    OUTLYING_FIX = "outlier (contradicts the motion)"

    OUTSIDE = "outside --start/--end", Kind.UNWANTED
    PAUSED = "paused", Kind.UNWANTED
    NOT_SELECTED = "not selected"
    FRAME_NOT_SELECTED = "its frame was not selected"
    STANDING = "the rig does not move", Kind.UNWANTED
    TOO_NEAR = "the rig has moved less than distance_m", Kind.UNWANTED
    UNUSED = "not used"

    BEFORE_KEY = "before the first key frame", Kind.UNDECODABLE_START
    OTHER_CODEC = "its parameter sets are those of another codec than its format names"
    NO_SETS = "the picture's parameter sets are missing"
    MIXED = "slices of several pictures in one packet"
    AFTER_LOSS = "after a lost frame"
    NO_PICTURE = "no picture in the packet"
    TORN = "part of a picture that was decoded without it"
    TILE_MISSING = "a tile of the picture is missing"
    PARAMETER_SETS = "parameter sets, used for later pictures"
    SECOND_FIELD = "second field of the picture before"

    LATE = "arrived later than the look-ahead allows"
    QUEUE_FULL = "pushed out of a full queue"
    OUTRUN = "waited too long: overload"
    CUT_OFF = "not written before the end"
    SHED = "shed: overload"
    POSE_UNKNOWN = "the rig's pose is unknown at that time (unknown_pose: cut)"
    UNSURE_MASK = "the picture it was computed on is unknown"
    FORGOTTEN = "the format did not say what became of it"
    OTHERS = "other reasons"


def code_of(text: str) -> str | None:
    """The code of a reason that has one, by its present text."""
    return Reason(text).code if text in _TEXTS else None


def kind_of(code: str | None) -> Kind:
    """What a code means; what has none, or one of a later version, is taken for a loss."""
    member = Reason.__members__.get((code or "").upper())
    return Kind.LOST if member is None else member.kind


_TEXTS = frozenset(reason.value for reason in Reason)


class Code(StrEnum):
    """What was found."""

    # Of a report.
    ABSENT = "absent"
    PAUSE = "pause"
    PAUSES = "pauses"
    BEGINNING = "beginning"
    END = "end"
    MESSAGES_LOST = "messages_lost"
    SAMPLES_LACKING = "samples_lacking"
    FEW_PAIRS = "few_pairs"
    FEW_SAMPLES = "few_samples"
    NO_SAMPLES = "no_samples"
    POSE_UNKNOWN = "pose_unknown"
    POSE_DEAD_RECKONED = "pose_dead_reckoned"
    IMU_ROTATED = "imu_rotated"
    POSES_DOUBTED = "poses_doubted"
    MOUNT_MOVES = "mount_moves"
    MISPLACED = "misplaced"
    UNSTAMPED = "unstamped"
    RECORDING_DAMAGED = "recording_damaged"
    UNCHECKED = "unchecked"
    FROZEN = "frozen"
    BLACK = "black"
    BLANK = "blank"
    ZERO_POINTS = "zero_points"
    EMPTY_SECTORS = "empty_sectors"
    PUBLISHERS = "publishers"
    INTERRUPTED = "interrupted"
    # Of topics that are configured and did not come.
    NO_REFERENCE = "no_reference"
    MISSING = "missing"
    OTHER_NAME = "other_name"
    RAW_PACKETS = "raw_packets"
    UNUSABLE = "unusable"
    # Of a live capture.
    NOTHING_YET = "nothing_yet"
    NO_PUBLISHER = "no_publisher"
    SILENT = "silent"
    SLOW = "slow"
    DROPPING = "dropping"
    SHEDDING = "shedding"
    LOSING = "losing"
    REFUSED = "refused"
    DISK_FULL = "disk_full"
    DISK_FILLS = "disk_fills"
    DISK_SLOW = "disk_slow"


class Severity(IntEnum):
    """How bad a finding is."""

    NOTE = 0
    """Worth saying; the grade does not depend on it."""
    WARNING = 1
    """The grade depends on it, by its share."""
    ERROR = 2
    """Nothing useful comes of a topic, or of a session."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is worth saying of a drive or of a live capture.

    Attributes:
        code: what it is.
        text: a sentence for people.
        topics: that it is about.
        share: of the drive, of messages or of samples, how much of it is lost; 0 to 1.
        severity: how bad it is.
        begin_ns: where it begins, None if it has no place in time.
        end_ns: where it ends.
        is_part: whether another finding sums it up with others.
    """

    code: Code
    text: str
    topics: tuple[str, ...] = ()
    share: float = 0.0
    severity: Severity = Severity.WARNING
    begin_ns: int | None = None
    end_ns: int | None = None
    is_part: bool = False
