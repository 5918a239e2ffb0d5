"""What the diagnosis says: findings with a code that stays, whatever the words of their sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


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
    RECORDING_DAMAGED = "recording_damaged"
    FROZEN = "frozen"
    BLACK = "black"
    BLANK = "blank"
    DARK = "dark"
    ZERO_POINTS = "zero_points"
    EMPTY_SECTORS = "empty_sectors"
    PUBLISHERS = "publishers"
    # Of a live capture.
    SILENT = "silent"
    SLOW = "slow"
    DROPPING = "dropping"
    SHEDDING = "shedding"
    LOSING = "losing"
    REFUSED = "refused"
    UNUSABLE = "unusable"


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
