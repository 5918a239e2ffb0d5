"""Which sequences are of one drive, when in it something was, and when its sensors sent nothing."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from edgefirst_ros.report.models import Report, Sequence, Stream, end_of

_FAR_M = 1000


def clock(seconds: float) -> str:
    """Seconds as mm:ss or h:mm:ss."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def distance(metres: float) -> str:
    """A distance in metres or kilometres."""
    return f"{metres / 1000:,.2f} km" if metres >= _FAR_M else f"{metres:,.0f} m"


def utc(time_ns: int) -> str:
    """Nanoseconds since 1970 as a time in UTC."""
    try:
        return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "at an impossible time"


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


LEAST_LOSS_S = 1.0
"""Shorter pauses are in the plots only, unless many of them add up to this."""
LATE_S, LATE_INTERVALS, LATE_SHARE = 2.0, 8, 0.1
"""A topic that begins later or ends earlier than 2 s or 8 of its intervals, and at most a tenth of the
sequence or two intervals, lost its beginning or end."""
LONE_NS = 30_000_000_000
"""A topic without a rate, such as one with a single message, may be sent so rarely."""
TOGETHER_S = 1.0
"""Pauses that begin and end this near to one another are one event."""
MOST_LOSSES = 1000
MANY_PAUSES = 8
"""More of one topic are said together."""
NOT_JUDGED = frozenset({"camera_info", "radar_info", "model_info", "tf", "robot_description", ""})
"""Roles that may be sent only now and then."""
Kind = Literal["pause", "beginning", "end", "absent"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Time in which topics sent nothing.

    Attributes:
        topics: their names.
        begin_ns: where it begins.
        end_ns: where it ends.
        kind: a pause, the beginning or the end of a sequence, or all of it.
        leg: the sequence, None if unknown.
    """

    topics: tuple[str, ...]
    begin_ns: int
    end_ns: int
    kind: Kind
    leg: Leg | None = None

    @property
    def seconds(self) -> float:
        """How long."""
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(slots=True)
class Silence:
    """How long one topic was silent in the drives that it is of, in seconds.

    Attributes:
        silent_s: in all.
        paused_s: between its messages.
        pauses: how many pauses.
        said_s: in pauses that are losses by themselves.
        judged_s: length of the drives.
    """

    silent_s: float = 0.0
    paused_s: float = 0.0
    pauses: int = 0
    said_s: float = 0.0
    judged_s: float = 0.0

    @property
    def share(self) -> float:
        """Of the time, how much it was silent."""
        return min(1.0, self.silent_s / self.judged_s) if self.judged_s > 0 else 0.0

    @property
    def is_said_at_once(self) -> bool:
        """Whether one sentence says more of its pauses than one for each."""
        return self.paused_s - self.said_s >= LEAST_LOSS_S or (
            self.pauses > MANY_PAUSES and self.paused_s >= LEAST_LOSS_S
        )


@dataclass(slots=True)
class Silences:
    """What was lost of each topic.

    Attributes:
        losses: every loss worth saying, the longest first; what topics lost together is one.
        topics: how long each judged topic was silent.
        gaps_ns: begin and end of what each topic lost, by itself.
    """

    losses: list[Loss] = field(default_factory=list)
    topics: dict[str, Silence] = field(default_factory=dict)
    gaps_ns: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


def silences(report: Report) -> Silences:
    """When, and how long in all, each judged topic sent nothing.

    A topic of any sequence of a drive is expected in all sequences of it.
    """
    legs, found = legs_of(report), Silences()
    expected: dict[int, dict[str, str]] = {}
    for leg in legs:
        for topic, stream in (leg.sequence.streams or {}).items():
            if stream.role not in NOT_JUDGED:
                expected.setdefault(leg.drive, {}).setdefault(topic, stream.role)
    longest = heapq.nlargest(
        MOST_LOSSES, _every(legs, expected, found.topics), key=lambda pair: pair[1].seconds
    )
    by_leg: dict[int, list[Loss]] = {}
    for number, loss in longest:
        by_leg.setdefault(number, []).append(loss)
        for topic in loss.topics:
            found.gaps_ns.setdefault(topic, []).append((loss.begin_ns, loss.end_ns))
    merged = [each for losses in by_leg.values() for each in _merged(losses)]
    found.losses = sorted(merged, key=lambda loss: (-loss.seconds, loss.begin_ns, loss.topics))
    return found


def _every(
    legs: Ordered[Leg], expected: Mapping[int, Mapping[str, str]], totals: dict[str, Silence]
) -> Iterator[tuple[int, Loss]]:
    """Every loss with the number of its sequence; ``totals`` gets what each topic lost."""
    for number, leg in enumerate(legs):
        streams = leg.sequence.streams
        if streams is None:
            continue
        cameras = any(stream.role == "camera" for stream in streams.values())
        absent: list[str] = []
        seconds = leg.seconds
        for topic, role in expected.get(leg.drive, {}).items():
            total = totals.setdefault(topic, Silence())
            total.judged_s += seconds
            stream = streams.get(topic)
            if stream is not None and stream.messages:
                for loss in _losses(topic, stream, leg, total):
                    yield number, loss
            elif role != "camera" or not cameras:  # a camera may go on under another name
                total.silent_s += seconds
                absent.append(topic)
        if absent and seconds >= LEAST_LOSS_S:
            yield number, Loss(tuple(sorted(absent)), leg.sequence.start_ns, leg.end_ns, "absent", leg)


def _losses(topic: str, stream: Stream, leg: Leg, total: Silence) -> Iterator[Loss]:
    begin_ns, end_ns = leg.sequence.start_ns, leg.end_ns
    known_s = outside_s = 0.0
    for first_ns, last_ns in stream.pauses.longest_ns:
        # What was stamped before the clock leapt and received after it lies far outside of the sequence.
        pause_begin_ns, pause_end_ns = max(first_ns, begin_ns), min(last_ns, end_ns)
        seconds = max(0, pause_end_ns - pause_begin_ns) / 1e9
        known_s += seconds
        outside_s += max(0, last_ns - first_ns) / 1e9 - seconds
        if seconds >= LEAST_LOSS_S:
            total.said_s += seconds
            yield Loss((topic,), pause_begin_ns, pause_end_ns, "pause", leg)
    paused_s = min(leg.seconds, max(known_s, stream.pauses.total_s - outside_s))
    total.paused_s += paused_s
    total.silent_s += paused_s
    total.pauses += max(stream.pauses.count, len(stream.pauses.longest_ns))
    late_ns = _late_ns(stream, end_ns - begin_ns)
    for kind, first_ns, last_ns in _ends(stream, begin_ns, end_ns):
        if last_ns - first_ns > late_ns:
            total.silent_s += (last_ns - first_ns) / 1e9
            yield Loss((topic,), first_ns, last_ns, kind, leg)


def _ends(stream: Stream, begin_ns: int, end_ns: int) -> Iterator[tuple[Kind, int, int]]:
    yield "beginning", begin_ns, stream.first_ns
    yield "end", stream.last_ns, end_ns


def _late_ns(stream: Stream, length_ns: int) -> float:
    """How much later than the sequence's a topic's beginning may be without being worth saying."""
    rate_hz = stream.rate_hz
    interval_ns = 1e9 / rate_hz if rate_hz else LONE_NS / LATE_INTERVALS
    most_ns = max(2 * interval_ns, LATE_SHARE * length_ns) if rate_hz else LONE_NS
    return max(LATE_S * 1e9, min(LATE_INTERVALS * interval_ns, most_ns))


def _merged(losses: Iterable[Loss]) -> Iterator[Loss]:
    groups: list[list[Loss]] = []
    for loss in sorted(losses, key=lambda each: (each.kind, each.begin_ns, each.topics)):
        for group in groups:
            first = group[0]
            apart_ns = max(abs(loss.begin_ns - first.begin_ns), abs(loss.end_ns - first.end_ns))
            if loss.kind == first.kind and apart_ns <= TOGETHER_S * 1e9:
                group.append(loss)
                break
        else:
            groups.append([loss])
    for group in groups:
        topics = tuple(sorted({topic for loss in group for topic in loss.topics}))
        longest = max(group, key=lambda loss: loss.seconds)
        yield Loss(topics, longest.begin_ns, longest.end_ns, longest.kind, longest.leg)
