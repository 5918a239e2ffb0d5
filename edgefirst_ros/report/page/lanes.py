"""What the lanes of a page show, for its script: counts by time, and gaps.

The axis of time of a page: seconds since the start, with long pauses between drives cut out.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgefirst_ros.report.drives import NOT_JUDGED, silences
from edgefirst_ros.report.models import Report, Timeline, end_of

LONGEST_PAUSE_S = 60.0
PAUSE_SHARE = 0.25
"""A pause of all topics is cut out if it is longer than this share of the rest, too."""
CUT_SHARE = 0.02
"""Width of a pause that is cut out, as a share of the rest."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """An unbroken part of the axis: where it begins on the page, in the drive, and how long it is, in s."""

    place_s: float
    since_start_s: float
    length_s: float


class TimeAxis:
    """Maps times to places on the page.

    Args:
        start_ns: the start of the drive.
        spans_ns: when anything was received, begin and end, in any order.
    """

    def __init__(self, start_ns: int, spans_ns: Iterable[tuple[int, int]]) -> None:
        self.start_ns = start_ns
        ordered = sorted(((a - start_ns) / 1e9, (b - start_ns) / 1e9) for a, b in spans_ns)
        covered_s = sum(end - begin for begin, end in ordered)
        longest_s = max(LONGEST_PAUSE_S, PAUSE_SHARE * covered_s)
        runs: list[list[float]] = []
        for begin, end in ordered or [(0.0, 1.0)]:
            if runs and begin - runs[-1][1] <= longest_s:
                runs[-1][1] = max(runs[-1][1], end)
            else:
                runs.append([begin, end])
        place_s, cut_s = 0.0, CUT_SHARE * sum(end - begin for begin, end in runs)
        self.stretches: list[Stretch] = []
        for begin, end in runs:
            self.stretches.append(Stretch(place_s, begin, end - begin))
            place_s += end - begin + cut_s
        self.end_s = place_s - cut_s
        self._begins = [stretch.since_start_s for stretch in self.stretches]

    def place_s(self, time_ns: int) -> float:
        """The place of a time; a time within a cut is at its edge."""
        since_start_s = (time_ns - self.start_ns) / 1e9
        stretch = self.stretches[max(0, bisect_right(self._begins, since_start_s) - 1)]
        inside = min(max(0.0, since_start_s - stretch.since_start_s), stretch.length_s)
        return round(stretch.place_s + inside, 3)


MOST_LANES = 120
MOST_VALUES = 100_000
"""Counts in all lanes together: they are most of a page that has many."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "used": ("written", "decoded", "sample"),
    "unused": ("skipped", "unpaired"),
    "dropped": ("dropped", "incomplete"),
    "refused": ("refused", "unusable"),
}
"""The colours of a lane, and the stages and outcomes that have them."""
SHARED, UNUSED = "the whole rig", "not used"
"""Groups of topics beside those of devices."""
SMOOTH = 4
"""Messages that a bin of a lane has on average at the least, if that takes no more than ..."""
MOST_MERGED = 8
"""... so many bins of the report; else every bin with a message is a full one."""


@dataclass(slots=True)
class Lane:
    """One lane.

    Attributes:
        topic: name of the topic, empty for reference frames.
        plot: what the script draws.
        role: what the topic is to the dataset; empty if nothing.
        total: messages.
        rate_hz: rate while it sends, None if unknown.
        group: the device that it is of, where there are several; else empty.
        sensor: of that device.
    """

    topic: str
    plot: dict[str, Any]
    role: str = ""
    total: int = 0
    rate_hz: float | None = None
    group: str = ""
    sensor: str = ""


def time_axis(report: Report) -> TimeAxis:
    """The axis on which everything of the report is."""
    spans = [(each.start_ns, end_of(each)) for each in report.sequences]
    if (timeline := report.timeline) is not None:
        begins = (timeline.start_ns + number * timeline.bin_ns for number in timeline.bins)
        spans += [(max(begin, report.start_ns), begin + timeline.bin_ns) for begin in begins]
    return TimeAxis(report.start_ns, [(a, b) for a, b in spans if b > a])


def lanes(report: Report, axis: TimeAxis) -> list[Lane]:
    """The lanes: reference frames first, then topics that are used, by device and sensor, then the others."""
    timeline = report.timeline
    if timeline is None:
        return []
    gaps = _gaps(report, axis)
    streams = [
        (topic, stream) for sequence in report.sequences for topic, stream in (sequence.streams or {}).items()
    ]
    roles = {topic: stream.role for topic, stream in streams}
    groups = _groups(report)
    sending_s: dict[str, float] = {}
    placed: Counter[str] = Counter()
    for topic, stream in streams:
        if stream.rate_hz:
            sending_s[topic] = sending_s.get(topic, 0.0) + stream.messages / stream.rate_hz
            placed[topic] += stream.messages
    found = []
    if timeline.reference_frames:
        plot = _plot(timeline, timeline.reference_frames, axis)
        found.append(Lane("", {**plot, "gaps": []}, "", _sum(timeline.reference_frames)))
    unused = (True, UNUSED if groups else "", "")
    ranked = sorted(timeline.topics, key=lambda topic: (topic not in roles, groups.get(topic, unused), topic))
    values = 0
    for topic in ranked[:MOST_LANES]:
        values += len(timeline.topics[topic]) * len(timeline.bins)
        if values > MOST_VALUES:
            break
        counts = timeline.topics[topic]
        if report.purpose == "recording":  # which writes nothing, so this says nothing
            counts = _moved(counts, "unpaired", "written")
        plot = _plot(timeline, counts, axis)
        rate_hz = placed[topic] / sending_s[topic] if sending_s.get(topic) else None
        _, group, sensor = groups.get(topic, unused)
        found.append(
            Lane(
                topic,
                {**plot, "gaps": sorted(gaps.get(topic, set())), "spells": _spells(report, topic, axis)},
                roles.get(topic, ""),
                _sum(counts),
                rate_hz,
                group,
                sensor,
            )
        )
    return found


def _groups(report: Report) -> dict[str, tuple[bool, str, str]]:
    """By topic whether it is of no device, its device, and its sensor; empty unless there are several."""
    of = {
        topic: (not stream.device, stream.device or SHARED, stream.sensor)
        for sequence in report.sequences
        for topic, stream in (sequence.streams or {}).items()
    }
    devices = {device for is_shared, device, _ in of.values() if not is_shared}
    return of if len(devices) > 1 else {}


def _gaps(report: Report, axis: TimeAxis) -> dict[str, set[tuple[float, float]]]:
    """By topic, where it sent nothing: its pauses, short ones too, and what else it lacks."""
    gaps: dict[str, set[tuple[float, float]]] = {}
    for sequence in report.sequences:
        first_ns = sequence.start_ns
        for topic, stream in (sequence.streams or {}).items():
            if stream.role not in NOT_JUDGED:
                inside = [(max(a, first_ns), b) for a, b in stream.pauses.longest_ns if b > first_ns]
                pauses = [(axis.place_s(a), axis.place_s(b)) for a, b in inside]
                gaps.setdefault(topic, set()).update(pauses)
    for topic, spans in silences(report).gaps_ns.items():
        gaps.setdefault(topic, set()).update((axis.place_s(a), axis.place_s(b)) for a, b in spans)
    return gaps


def _spells(report: Report, topic: str, axis: TimeAxis) -> list[tuple[float, float]]:
    """Where something was wrong with what a topic showed."""
    spans = {
        span
        for sequence in report.sequences
        if (stream := (sequence.streams or {}).get(topic)) is not None
        for name, spells in stream.spells.items()
        for span in spells.longest_ns
    }
    return sorted((axis.place_s(a), axis.place_s(b)) for a, b in spans)


def _moved(counts: Mapping[str, list[int]], stage: str, other: str) -> dict[str, list[int]]:
    """Counts in which one stage is added to another."""
    found = dict(counts)
    more = found.pop(stage, [])
    size = max(len(more), len(found.get(other, [])))
    pairs = zip(_padded(more, size), _padded(found.get(other, []), size), strict=True)
    return {**found, other: [sum(pair) for pair in pairs]} if size else found


def _sum(counts: Mapping[str, list[int]]) -> int:
    return sum(sum(each) for each in counts.values())


def _plot(timeline: Timeline, counts: Mapping[str, list[int]], axis: TimeAxis) -> dict[str, Any]:
    """Counts by colour in bins that hold enough messages for a quiet picture."""
    size = len(timeline.bins)
    by_colour = {
        colour: [
            sum(values)
            for values in zip(*(_padded(counts[k], size) for k in kinds if k in counts), strict=True)
        ]
        or [0] * size
        for colour, kinds in KINDS.items()
    }
    totals = [sum(values) for values in zip(*by_colour.values(), strict=True)]
    busy = [total for total in totals if total]
    mean = statistics.fmean(busy) * len(busy) / max(1, size) if busy else 0.0
    merged = max(1, math.ceil(SMOOTH / mean)) if mean else 1
    ticks = merged > MOST_MERGED
    merged = 1 if ticks else merged
    groups: dict[int, int] = {}
    for number in timeline.bins:
        groups.setdefault(number // merged, len(groups))
    columns = {colour: [0] * len(groups) for colour in KINDS}
    for colour, values in by_colour.items():
        for number, value in zip(timeline.bins, values, strict=True):
            columns[colour][groups[number // merged]] += value
    sums = [sum(values) for values in zip(*columns.values(), strict=True)]
    full = [total for total in sums if total]
    return {
        "x": [axis.place_s(timeline.start_ns + g * merged * timeline.bin_ns) for g in groups],
        "bin": round(merged * timeline.bin_ns / 1e9, 3),
        "usual": 1 if ticks or not full else statistics.median(full),
        "counts": {colour: values for colour, values in columns.items() if any(values)},
    }


def _padded(values: list[int], size: int) -> list[int]:
    return [*values[:size], *[0] * (size - len(values))]


def clocks(report: Report) -> dict[str, list[tuple[str, str, str]]]:
    """By topic, the clock in use in each sequence as a short name and the finding, without repetitions."""
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for sequence in report.sequences:
        for topic, clock in sequence.clocks.items():
            own = clock.clock == 0
            short = clock.source if clock.source != "stamp" else "stamp" if own else "stamp, another clock"
            kind = (
                "own" if clock.source == "stamp" and own else "other" if clock.source == "stamp" else "late"
            )
            several = found.setdefault(topic, {})
            several.setdefault((short, kind), []).append(clock.finding)
    return {
        topic: [(*key, " | ".join(dict.fromkeys(findings))) for key, findings in several.items()]
        for topic, several in found.items()
    }
