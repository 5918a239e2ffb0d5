"""The one diagnosis of a report: whether a drive is good, in a sentence, and every finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from typing import Literal

from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.report.content import content_findings, length
from edgefirst_ros.report.drives import (
    NOT_JUDGED,
    Leg,
    Loss,
    Silence,
    Silences,
    lasts_s,
    legs_of,
    silences,
    time_of,
)
from edgefirst_ros.report.models import Recording, Report
from edgefirst_ros.report.sensors import assumed, misplaced, unstamped
from edgefirst_ros.report.shortfalls import (
    FEW_SAMPLES,
    formats_lacking,
    refused_parts,
    selected,
    sequence_findings,
    shortfalls,
    unreadable,
)

Grade = Literal["good", "fair", "poor", "empty", "unknown"]
SAID = 3
"""Losses in the sentence; the others are listed below it."""
GOOD_SHARE, FAIR_SHARE = 0.9, 0.5
GOOD_LOSS, FAIR_LOSS = 0.1, 0.5
DAMAGED = 1.01 * GOOD_LOSS
"""What is lost with a damaged place nobody knows, so that a single one makes a drive fair."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The grade, the sentence, and every finding, the worst first."""

    grade: Grade
    sentence: str
    findings: tuple[Finding, ...]
    short: tuple[str, ...] = ()
    """What it says but for how many samples there are, unless these are few."""

    @property
    def details(self) -> tuple[str, ...]:
        """Every finding as a sentence of its own."""
        return tuple(each.text for each in self.findings)


def judge(report: Report) -> Verdict:
    """Judge a report: everything that is worth saying of a drive is found here, and graded."""
    silent = silences(report)
    found = [
        *_interruption(report), *_silences(report, silent), *shortfalls(report), *unreadable(report),
        *sequence_findings(report),
        *content_findings(report), *misplaced(report), *assumed(report), *unstamped(report),
        *(each for recording in report.recordings for each in damage_of(recording)), *_unchecked(report),
    ]  # fmt: skip
    ranked = sorted(found, key=lambda e: (e.is_part, e.code is not Code.INTERRUPTED, -e.share))
    grade, told = _grade(report, silent, ranked), [each for each in ranked if not each.is_part]
    alone = f"{report.sequences[0].name}: " if len(report.sequences) == 1 else ""
    said = [each.text.removeprefix(alone) for each in told[:SAID]]
    if len(told) > SAID:
        said.append(f"{len(told) - SAID} more below")
    if not said and not _few(report):
        if report.topics and not {"streams", "topics"} & report.lacking.keys():
            said = ["nothing lost"]
        elif grade == "unknown":
            said = [report.lacking.get("topics") or "the report does not say what was lost"]
    few = [_head(report)] if _few(report) or not report.samples else []
    return Verdict(grade, "; ".join((f"{grade}: {_head(report)}", *said)), tuple(ranked), (*few, *said))


def warnings_of(report: Report) -> list[Finding]:
    """What a run warns of, in order of its sequences; what is only lost is in its table."""
    content = (each for each in content_findings(report) if each.severity > Severity.NOTE)
    # With one format the sequences' counts say what it lacks.
    lacking = formats_lacking(report) if len(report.formats) > 1 else ()
    few = (each for each in lacking if FEW_SAMPLES <= each.share < 1)
    return [
        *_emptiness(report), *sequence_findings(report),
        *misplaced(report), *unstamped(report), *refused_parts(report), *content, *few,
    ]  # fmt: skip


def _emptiness(report: Report) -> Iterator[Finding]:
    if report.samples == 0 and not report.interrupted:
        why = "" if _chosen(report)[0] > 0 else ": no camera frame arrived, or none was selected"
        yield Finding(Code.NO_SAMPLES, f"the dataset is empty{why}", share=1.0, severity=Severity.ERROR)


def _interruption(report: Report) -> Iterator[Finding]:
    if report.interrupted:
        where = f" at {report.interrupted}" if isinstance(report.interrupted, str) else ""
        yield Finding(Code.INTERRUPTED, f"stopped by you{where}", share=DAMAGED)


def damage_of(recording: Recording) -> Iterator[Finding]:
    """What could not be read of a recording, one finding for each kind: a bad card has thousands."""
    for what in dict.fromkeys(fault.what for fault in recording.faults):
        alike = [fault for fault in recording.faults if fault.what == what]
        size, first = sum(fault.bytes for fault in alike), alike[0].offset
        times, at = (f", {len(alike):,} times", "the first at") if len(alike) > 1 else ("", "at")
        text = (
            f"{recording.file}: {what}{times} ({size:,} {'byte' if size == 1 else 'bytes'}, {at} {first:,})"
        )
        share = max(size / max(recording.bytes, 1), DAMAGED)
        yield Finding(Code.RECORDING_DAMAGED, text, share=min(1.0, share))


def _unchecked(report: Report) -> Iterator[Finding]:
    """Videos that nothing vouches for: libavcodec conceals most of what is damaged in them."""
    for topic, count in ((name, each.unchecked) for name, each in report.topics.items() if each.unchecked):
        text = f"{topic}: no checksum covers {count:,} pictures of video: changed bits may go unnoticed"
        yield Finding(Code.UNCHECKED, text, (topic,), severity=Severity.NOTE)


def _head(report: Report) -> str:
    """How many samples there are, and of how many frames if that is few."""
    samples = report.samples
    if samples is None:
        return "how many samples there are is not known"
    if not samples:
        return "no samples" + ("" if report.topics or report.interrupted else ": nothing was received")
    few = _few(report)
    if report.purpose == "recording" and few:
        return f"{samples:,} of {few:,} camera frames would become samples"
    head = f"{samples:,} sample{'' if samples == 1 else 's'}"
    if report.purpose == "recording":
        return f"{head} possible"
    return f"{head} of {few:,} camera frames" if few else head


def _silences(report: Report, silent: Silences) -> Iterator[Finding]:
    """Time in which sensors sent nothing; single pauses are parts of what sums them up.

    They are notes, because the grade depends on how long a topic was silent in all.
    """
    legs, everything = legs_of(report), _all_topics(report)
    whole_s = lasts_s(legs)
    at_once = {topic: each for topic, each in silent.topics.items() if each.is_said_at_once}
    yield from _at_once(at_once, everything)
    for loss in silent.losses:
        yield Finding(
            Code(loss.kind),
            _sentence(loss, legs, everything),
            loss.topics,
            loss.seconds / whole_s if whole_s > 0 else 1.0,
            Severity.NOTE,
            loss.begin_ns,
            loss.end_ns,
            is_part=loss.kind == "pause" and at_once.keys() >= set(loss.topics),
        )


def _at_once(silent: Mapping[str, Silence], everything: frozenset[str]) -> Iterator[Finding]:
    """A sentence for topics that paused often, and as often as one another."""
    groups: dict[tuple[int, int], list[str]] = {}
    for topic, each in silent.items():
        groups.setdefault((each.pauses, round(each.paused_s)), []).append(topic)
    for topics in groups.values():
        each = silent[topics[0]]
        times = "once" if each.pauses == 1 else f"{each.pauses:,} times"
        share = max(silent[topic].paused_s / max(silent[topic].judged_s, 1e-9) for topic in topics)
        text = f"{_who(sorted(topics), everything)} paused {times}, {length(each.paused_s)} in all"
        yield Finding(Code.PAUSES, text, tuple(sorted(topics)), share, Severity.NOTE)


def _all_topics(report: Report) -> frozenset[str]:
    return frozenset(
        topic
        for sequence in report.sequences
        for topic, stream in (sequence.streams or {}).items()
        if stream.role not in NOT_JUDGED
    )


def _who(topics: Ordered[str], everything: frozenset[str]) -> str:
    names = [topic.strip("/") for topic in topics]
    if len(everything) > 2 and everything == set(topics):
        return "all sensors"
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} more topics"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _sentence(loss: Loss, legs: Ordered[Leg], everything: frozenset[str]) -> str:
    who, lasts = _who(loss.topics, everything), length(loss.seconds)
    begins, of = time_of(loss.begin_ns, legs, loss.leg)
    if loss.kind == "absent":
        return f"{who} sent nothing for {lasts} from {begins}{of}"
    if loss.kind == "beginning" and loss.leg is not None and not loss.leg.since_ns:
        return f"{who} began {lasts} after the start{of}"
    if loss.kind == "end" and loss.leg is not None and loss.leg.is_last:
        return f"{who} stopped at {begins}, {lasts} before the end{of}"
    return f"{who} lost {lasts} at {begins}{of}"


def _chosen(report: Report) -> tuple[int, int]:
    """Reference frames that were selected, and those of them that became samples."""
    chosen = sum(selected(report, each, each) for each in report.sequences)
    return chosen, sum(each.sample for each in report.sequences)


def _few(report: Report) -> int:
    """Selected reference frames, 0 if most of them became samples."""
    chosen, made = _chosen(report)
    return chosen if made < GOOD_SHARE * chosen else 0


def _grade(report: Report, silent: Silences, found: Iterable[Finding]) -> Grade:
    if report.samples is None or {"topics", "sequences"} & report.lacking.keys():
        return "unknown"
    if not report.samples:
        return "empty"
    chosen, made = _chosen(report)
    share = made / chosen if chosen > 0 else 1.0
    graded = (each.share for each in found if each.severity > Severity.NOTE)
    worst = max((*(each.share for each in silent.topics.values()), *graded), default=0.0)
    if share >= GOOD_SHARE and worst <= GOOD_LOSS:
        return "good"
    return "fair" if share >= FAIR_SHARE and worst <= FAIR_LOSS else "poor"
