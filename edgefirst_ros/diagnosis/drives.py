"""Which sequences are of one drive, and when in it something was."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import dataclass, replace

from edgefirst_ros.diagnosis.figures import clock
from edgefirst_ros.diagnosis.report import Report, Sequence, end_of

APART_NS = 60_000_000_000
"""Recordings that are farther apart are of several drives; within one, the clock was set."""
OVERLAP_NS = 1_000_000_000
"""Recordings that overlap by more are of several drives, or devices."""
END = frozenset({"end of the recording", ""})
"""Why the last sequence of a recording ended; empty if that is not known."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One sequence as a part of its drive.

    Attributes:
        sequence: of the report.
        end_ns: its last message, or its beginning if that is later, as in a damaged report.
        drive: number of the drive.
        name: of the drive's first sequence.
        since_ns: where it begins, in nanoseconds since the start of the drive.
        is_last: whether the drive ends with it.
    """

    sequence: Sequence
    end_ns: int
    drive: int
    name: str
    since_ns: int
    is_last: bool = True

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end_ns - self.sequence.start_ns) / 1e9


def legs_of(report: Report) -> list[Leg]:
    """The report's sequences in their drives, in order.

    A drive ends with its recording if the next one is a minute or more away. Within a recording only the
    clock leaps, which no drive does: what follows a leap follows at once.
    """
    found: list[Leg] = []
    for sequence in report.sequences:
        before = found[-1] if found else None
        end_ns = max(sequence.start_ns, end_of(sequence))
        if before is None:
            found.append(Leg(sequence, end_ns, 0, sequence.name, 0))
            continue
        apart_ns = sequence.start_ns - before.end_ns
        is_next = before.sequence.ended in END
        if is_next and not -OVERLAP_NS <= apart_ns <= APART_NS:
            found.append(Leg(sequence, end_ns, before.drive + 1, sequence.name, 0))
            continue
        since_ns = before.since_ns + before.end_ns - before.sequence.start_ns
        since_ns += max(0, apart_ns) if is_next else 0
        found[-1] = replace(before, is_last=False)
        found.append(Leg(sequence, end_ns, before.drive, before.name, since_ns))
    return found


def lasts_s(legs: Ordered[Leg]) -> float:
    """How long all drives are together, in seconds."""
    ends: dict[int, float] = {}
    for leg in legs:
        ends[leg.drive] = max(ends.get(leg.drive, 0.0), leg.since_ns / 1e9 + leg.seconds)
    return sum(ends.values())


def leg_at(time_ns: int, legs: Ordered[Leg]) -> Leg | None:
    """The sequence that a time is in, else the one that began last before it, else the first one."""
    inside = (leg for leg in legs if leg.sequence.start_ns <= time_ns <= leg.end_ns)
    earlier = (leg for leg in legs if leg.sequence.start_ns <= time_ns)
    last = max(earlier, key=lambda leg: leg.sequence.start_ns, default=None)
    return next(inside, last or next(iter(legs), None))


def since_drive_s(time_ns: int, leg: Leg | None) -> float:
    """A time in a sequence as seconds since the start of its drive."""
    return 0.0 if leg is None else (leg.since_ns + time_ns - leg.sequence.start_ns) / 1e9


def time_of(time_ns: int, legs: Ordered[Leg], leg: Leg | None = None) -> tuple[str, str]:
    """A time since the start of its drive, and, if there are several drives, " of " and the drive's name."""
    leg = leg or leg_at(time_ns, legs)
    several = leg is not None and legs[-1].drive > 0
    return clock(since_drive_s(time_ns, leg)), f" of {leg.name}" if leg is not None and several else ""
