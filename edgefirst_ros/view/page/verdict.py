"""Whether a drive is good, in a sentence, and everything that was lost, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from typing import Literal

from edgefirst_ros.view.page.drives import Leg, lasts_s, legs_of, time_of
from edgefirst_ros.view.page.losses import NOT_JUDGED, Loss, Silence, Silences, silences
from edgefirst_ros.view.page.reportfile import Report
from edgefirst_ros.view.page.shortfalls import Shortfall, shortfalls

Grade = Literal["good", "fair", "poor", "empty", "unknown"]
SAID = 3
"""Losses in the sentence; the others are listed below it."""
GOOD_SHARE, FAIR_SHARE = 0.9, 0.5
GOOD_LOSS, FAIR_LOSS = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """The grade, the sentence, and every loss as a sentence of its own."""

    grade: Grade
    sentence: str
    details: tuple[str, ...]


def judge(report: Report) -> Verdict:
    """Judge a report."""
    silent, short = silences(report), shortfalls(report)
    grade = _grade(report, silent, short)
    told, rest = _told(report, silent, short)
    said = told[:SAID]
    if len(told) > SAID:
        said.append(f"{len(told) - SAID} more below")
    if not said:
        if _few(report):
            said = []
        elif report.topics and not {"streams", "topics"} & report.lacking.keys():
            said = ["nothing was lost"]
        elif grade == "unknown":
            said = [report.lacking.get("topics") or "the report does not say what was lost"]
    return Verdict(grade, "; ".join((f"{grade}: {_head(report)}", *said)), (*told, *rest))


def _head(report: Report) -> str:
    """How many samples there are, and of how many frames if that is few."""
    samples = report.samples
    if samples is None:
        return "how many samples there are is not known"
    if not samples:
        return "no samples" + ("" if report.topics else ": nothing was received")
    few = _few(report)
    if report.purpose == "recording" and few:
        return f"{samples:,} of {few:,} reference frames would become samples"
    head = f"{samples:,} sample{'' if samples == 1 else 's'}"
    if report.purpose == "recording":
        return f"{head} possible"
    return f"{head} of {few:,} reference frames" if few else head


def _told(report: Report, silent: Silences, short: Iterable[Shortfall]) -> tuple[list[str], list[str]]:
    """Sentences on all that was lost, the worst first, and those on single pauses that these sum up."""
    legs, everything = legs_of(report), _all_topics(report)
    whole_s = lasts_s(legs)
    ranked: list[tuple[float, str]] = []
    rest: list[str] = []
    at_once = {topic: each for topic, each in silent.topics.items() if each.is_said_at_once}
    for share, text in _at_once(at_once, everything):
        ranked.append((share, text))
    for loss in silent.losses:
        text = _sentence(loss, legs, everything)
        if loss.kind == "pause" and at_once.keys() >= set(loss.topics):
            rest.append(text)
        else:
            ranked.append((loss.seconds / whole_s if whole_s > 0 else 1.0, text))
    ranked += [(each.share, each.text) for each in short]
    return [text for _, text in sorted(ranked, key=lambda each: -each[0])], rest


def _at_once(silent: Mapping[str, Silence], everything: frozenset[str]) -> Iterator[tuple[float, str]]:
    """A sentence for topics that paused often, and as often as one another."""
    groups: dict[tuple[int, int], list[str]] = {}
    for topic, each in silent.items():
        groups.setdefault((each.pauses, round(each.paused_s)), []).append(topic)
    for topics in groups.values():
        each = silent[topics[0]]
        times = "once" if each.pauses == 1 else f"{each.pauses:,} times"
        share = max(silent[topic].paused_s / max(silent[topic].judged_s, 1e-9) for topic in topics)
        yield share, f"{_who(sorted(topics), everything)} paused {times}, {_length(each.paused_s)} in all"


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


def _length(seconds: float) -> str:
    return f"{seconds:,.1f}".removesuffix(".0") + " s"


def _sentence(loss: Loss, legs: Ordered[Leg], everything: frozenset[str]) -> str:
    who, length = _who(loss.topics, everything), _length(loss.seconds)
    begins, of = time_of(loss.begin_ns, legs, loss.leg)
    if loss.kind == "absent":
        return f"{who} sent nothing for {length} from {begins}{of}"
    if loss.kind == "beginning" and loss.leg is not None and not loss.leg.since_ns:
        return f"{who} began {length} after the start{of}"
    if loss.kind == "end" and loss.leg is not None and loss.leg.is_last:
        return f"{who} stopped at {begins}, {length} before the end{of}"
    return f"{who} lost {length} at {begins}{of}"


def _chosen(report: Report) -> tuple[int, int]:
    """Reference frames that were selected, and those of them that became samples."""
    chosen = sum(each.reference_frames - each.skipped for each in report.sequences)
    return chosen, sum(each.sample for each in report.sequences)


def _few(report: Report) -> int:
    """Selected reference frames, 0 if most of them became samples."""
    chosen, made = _chosen(report)
    return chosen if made < GOOD_SHARE * chosen else 0


def _grade(report: Report, silent: Silences, short: Iterable[Shortfall]) -> Grade:
    if report.samples is None or {"topics", "sequences"} & report.lacking.keys():
        return "unknown"
    if not report.samples:
        return "empty"
    chosen, made = _chosen(report)
    share = made / chosen if chosen > 0 else 1.0
    worst = max(
        (*(each.share for each in silent.topics.values()), *(s.share for s in short if s.graded)), default=0.0
    )
    if share >= GOOD_SHARE and worst <= GOOD_LOSS:
        return "good"
    return "fair" if share >= FAIR_SHARE and worst <= FAIR_LOSS else "poor"
