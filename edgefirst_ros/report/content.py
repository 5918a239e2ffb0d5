"""What sensors show: when a condition of their content holds, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.report.drives import lasts_s, legs_of, time_of
from edgefirst_ros.report.models import Report, Sequence, Spells, Stream

MOVED_M = 3.0
"""A rig that goes this far while a sensor shows the same does not stand; positions of one that does wander
by less."""
WHOLE = 0.9
"""A sensor that showed the same for this share of its messages never worked."""
NEVER_S = 5.0
"""Of a rig that may stand, fewer seconds of a sensor that shows the same say nothing."""
NOW_S = 5.0
"""Of a live capture shorter ones are not said: whoever looks could do nothing."""
_WITH_NOISE = frozenset({"imu", "lidar_points"})
"""Roles of sensors that never say the same twice, unless they are simulated without noise."""


class Condition(StrEnum):
    """What may be wrong with what a sensor shows."""

    FROZEN = "frozen"
    """Every message says the same, to the last digit."""
    STILL = "still"
    """Video goes on to show the same picture, which a camera that stands does, too."""
    BLACK = "black"
    """Nothing can be seen in the picture."""
    BLANK = "blank"
    """All of the picture has one brightness."""
    ZERO_POINTS = "zero_points"
    """Far more points than usual are at 0,0,0."""
    EMPTY_SECTORS = "empty_sectors"
    """Far fewer directions than usual have points."""


_SAYINGS: Mapping[str, tuple[Code, str]] = {
    Condition.FROZEN: (Code.FROZEN, "{} is frozen, its messages repeat one another,"),
    Condition.STILL: (Code.FROZEN, "the picture of {} is frozen, though the rig moves,"),
    Condition.BLACK: (Code.BLACK, "the picture of {} is black"),
    Condition.BLANK: (Code.BLANK, "the picture of {} shows nothing, all of it has one brightness,"),
    Condition.ZERO_POINTS: (Code.ZERO_POINTS, "many points of {} are at 0,0,0"),
    Condition.EMPTY_SECTORS: (Code.EMPTY_SECTORS, "{} has points in far fewer directions than usual"),
}
"""How a condition is said of a topic."""


def content_findings(report: Report) -> Iterator[Finding]:
    """What is to be said of what sensors showed, the longest spell of each with its time."""
    legs = legs_of(report)
    whole_s = lasts_s(legs)
    for leg in legs:
        sequence = leg.sequence
        for topic, stream in (sequence.streams or {}).items():
            for condition, spells in stream.spells.items():
                if condition not in _SAYINGS or not _is_said(sequence, stream, condition):
                    continue
                code, say = _SAYINGS[condition]
                begin_ns, end_ns = max(spells.longest_ns, key=lambda span: span[1] - span[0])
                begins, of = time_of(begin_ns, legs, leg)
                name, length_s = topic.strip("/"), (end_ns - begin_ns) / 1e9
                text = f"{say.format(name)} for {length(length_s)} from {begins}{of}"
                if spells.count > 1:
                    text += f", {spells.count:,} times, {length(spells.total_s)} in all"
                severity = Severity.NOTE if condition == Condition.EMPTY_SECTORS else Severity.WARNING
                if condition == Condition.FROZEN and not _is_fault(sequence, stream, spells):
                    severity, text = Severity.NOTE, f"{text}; the rig seems to stand"
                share = min(1.0, spells.total_s / whole_s) if whole_s > 0 else 1.0
                yield Finding(code, text, (topic,), share, severity, begin_ns, end_ns)


def _is_said(sequence: Sequence, stream: Stream, condition: str) -> bool:
    """Whether a condition is worth a sentence of its own."""
    spells = stream.spells[condition]
    if condition == Condition.FROZEN:  # black pictures are the same, too
        others = (stream.spells.get(name) for name in (Condition.BLACK, Condition.BLANK))
        return not any(each is not None and each.total_s > spells.total_s / 2 for each in others)
    if condition == Condition.STILL:
        return any(_moved_m(sequence, *span) > MOVED_M for span in spells.longest_ns)
    return True


def content_now(contents: Mapping[str, Mapping[str, tuple[int, int]]]) -> dict[str, Finding]:
    """What is wrong now with what topics show, one finding a topic.

    Args:
        contents: by watched topic, begin and newest message of the conditions that hold.
    """
    same = {Condition.FROZEN.value, Condition.STILL.value}
    all_frozen = len(contents) > 1 and all(same & each.keys() for each in contents.values())
    found: dict[str, Finding] = {}
    for topic, conditions in contents.items():
        for condition, (begin_ns, end_ns) in conditions.items():
            if condition not in _SAYINGS.keys() - {Condition.STILL, Condition.EMPTY_SECTORS}:
                continue  # whether the rig moves is not known here
            code, say = _SAYINGS[condition]
            is_simulated = condition == Condition.FROZEN and all_frozen  # one that stands in a world at rest
            if end_ns - begin_ns >= NOW_S * 1e9 and not is_simulated:
                text = f"{say.format(topic.strip('/'))} for {length((end_ns - begin_ns) / 1e9)}"
                found[topic] = Finding(code, text, (topic,), 1.0, begin_ns=begin_ns)
    return found


def is_frozen(sequence: Sequence, role: str) -> bool:
    """Whether sensors of a role repeated themselves while the rig moved."""
    return any(
        stream.role == role and (spells := stream.spells.get(Condition.FROZEN)) is not None
        and _is_fault(sequence, stream, spells)
        for stream in (sequence.streams or {}).values()
    )  # fmt: skip


def _is_fault(sequence: Sequence, stream: Stream, spells: Spells) -> bool:
    """Whether a sensor that repeats itself is broken: in a simulated world, one that stands shows the same.

    A real sensor never does, for its noise; but a simulated one need not have any.
    """
    streams = (sequence.streams or {}).values()
    # A picture changes by what moves in it, and a simulated receiver may be the only sensor that has noise.
    others = [s for s in streams if s is not stream and s.is_watched and s.role in _WITH_NOISE]
    if any(_moved_m(sequence, *span) > MOVED_M for span in spells.longest_ns):
        return True
    whole_s = (stream.last_ns - stream.first_ns) / 1e9
    if spells.total_s < max(WHOLE * whole_s, NEVER_S):
        return False
    if stream.role == "imu" and sequence.track is not None:
        return False  # the rig stood, and simulated IMUs rarely have noise
    return not others or any(not {Condition.FROZEN, Condition.STILL} & each.spells.keys() for each in others)


def _moved_m(sequence: Sequence, begin_ns: int, end_ns: int) -> float:
    """How far the rig went, as far as its position was measured."""
    track = sequence.track
    if track is None:
        return 0.0
    inside = [point for point in track.points if begin_ns <= point[0] <= end_ns]
    if len(inside) < 2:
        return 0.0
    first = inside[0]
    return max(
        (float((p[1] - first[1]) ** 2 + (p[2] - first[2]) ** 2) ** 0.5 for p in inside if p[4] == first[4]),
        default=0.0,
    )


def length(seconds: float) -> str:
    """Seconds, to a tenth of one."""
    return f"{seconds:,.1f}".removesuffix(".0") + " s"
