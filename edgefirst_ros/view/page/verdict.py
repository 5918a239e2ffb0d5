"""Whether a drive is good, in a sentence, and what was lost, the worst first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from edgefirst_ros.view.page.figures import clock
from edgefirst_ros.view.page.reportfile import Report, Sequence, Stream, end_of

Grade = Literal["good", "fair", "poor", "empty"]
LEAST_LOSS_S = 1.0
"""Shorter pauses are in the plots only."""
LATE_S = 2.0
"""A topic that begins later or ends earlier than this lost its beginning or end."""
TOGETHER_S = 1.0
"""Pauses that begin and end this near to one another are one event."""
MOST_LOSSES = 1000
SAID = 3
"""Losses in the sentence; the others are listed below it."""
NOT_JUDGED = frozenset({"camera_info", "radar_info", "model_info", "tf", ""})
"""Roles that may be sent only now and then."""
GOOD_SHARE, FAIR_SHARE = 0.9, 0.5
GOOD_LOSS, FAIR_LOSS = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class Loss:
    """Time in which topics sent nothing.

    Attributes:
        topics: their names.
        begin_ns: where it begins.
        end_ns: where it ends.
        kind: a pause, or the beginning or the end of the drive.
    """

    topics: tuple[str, ...]
    begin_ns: int
    end_ns: int
    kind: Literal["pause", "beginning", "end"]

    @property
    def seconds(self) -> float:
        """How long."""
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Verdict:
    """The grade, the sentence, and every loss as a sentence of its own."""

    grade: Grade
    sentence: str
    details: tuple[str, ...]


def judge(report: Report) -> Verdict:
    """Judge a report."""
    losses = found_losses(report)
    grade = _grade(report, losses)
    everything, drives = _all_topics(report), report.drives
    told = [_sentence(loss, drives, everything) for loss in losses]
    told += _refusals(report)
    said = told[:SAID]
    if len(told) > SAID:
        said.append(f"{len(told) - SAID} more below")
    samples = report.samples
    if samples is None:
        head = "the report says nothing of samples"
    elif not samples:
        head = "no samples" + ("" if report.topics else ": nothing was received")
    else:
        few = _few(report)
        head = f"{samples:,} sample{'' if samples == 1 else 's'}"
        if report.purpose == "recording":
            head = (
                f"{samples:,} of {few:,} reference frames would become samples" if few else f"{head} possible"
            )
        elif few:
            head += f" of {few:,} reference frames"
        if report.complete is not None and report.complete < samples:
            head += f", {report.complete:,} of them complete"
    rest = "; ".join(said) if said else "nothing was lost" if "streams" not in report.lacking else ""
    return Verdict(grade, f"{grade}: {head}" + (f"; {rest}" if rest else ""), tuple(told))


def found_losses(report: Report) -> list[Loss]:
    """Every loss worth saying, the longest first; what topics lost together is one."""
    every = ((n, loss) for n, sequence in enumerate(report.sequences) for loss in _losses(sequence))
    longest: dict[int, list[Loss]] = {}
    for number, loss in heapq.nlargest(MOST_LOSSES, every, key=lambda pair: pair[1].seconds):
        longest.setdefault(number, []).append(loss)
    found = [merged for losses in longest.values() for merged in _merged(losses)]
    return sorted(found, key=lambda loss: (-loss.seconds, loss.begin_ns, loss.topics))


def _losses(sequence: Sequence) -> Iterator[Loss]:
    begin_ns, end_ns = sequence.start_ns, end_of(sequence)
    for topic, stream in (sequence.streams or {}).items():
        if stream.role in NOT_JUDGED or stream.messages < 2:
            continue
        for pause_begin_ns, pause_end_ns in stream.pauses.longest_ns:
            if pause_end_ns - pause_begin_ns >= LEAST_LOSS_S * 1e9:
                yield Loss((topic,), pause_begin_ns, pause_end_ns, "pause")
        late_ns = _late_ns(stream)
        if stream.first_ns - begin_ns > late_ns:
            yield Loss((topic,), begin_ns, stream.first_ns, "beginning")
        if end_ns - stream.last_ns > late_ns:
            yield Loss((topic,), stream.last_ns, end_ns, "end")


def _late_ns(stream: Stream) -> float:
    """How much later than the drive's a topic's beginning may be without being worth saying."""
    mean_ns = (stream.last_ns - stream.first_ns) / (stream.messages - 1)
    return max(LATE_S * 1e9, 8 * mean_ns)


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
        yield Loss(topics, longest.begin_ns, longest.end_ns, longest.kind)


def _all_topics(report: Report) -> frozenset[str]:
    return frozenset(
        topic
        for sequence in report.sequences
        for topic, stream in (sequence.streams or {}).items()
        if stream.role not in NOT_JUDGED
    )


def _sentence(loss: Loss, drives: Iterable[tuple[int, str]], everything: frozenset[str]) -> str:
    names = [topic.strip("/") for topic in loss.topics]
    if len(everything) > 2 and everything == set(loss.topics):
        who = "all sensors"
    elif len(names) > 3:
        who = f"{', '.join(names[:2])} and {len(names) - 2} more topics"
    else:
        who = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    length = f"{loss.seconds:,.1f}".removesuffix(".0") + " s"
    begins, of = time_of(loss.begin_ns, drives)
    if loss.kind == "beginning":
        return f"{who} began {length} after the start{of}"
    if loss.kind == "end":
        return f"{who} stopped at {begins}, {length} before the end{of}"
    return f"{who} lost {length} at {begins}{of}"


def time_of(time_ns: int, drives: Iterable[tuple[int, str]]) -> tuple[str, str]:
    """A time since the start of its drive, and, if there are several drives, " of " and the name of it."""
    known = list(drives)
    start_ns, name = max((d for d in known if d[0] <= time_ns), default=known[0])
    return clock((time_ns - start_ns) / 1e9), f" of {name}" if len(known) > 1 else ""


def _refusals(report: Report) -> Iterator[str]:
    """Topics of which a hundredth or more was refused; fixes are not counted, as the device repeats them."""
    for topic, account in report.topics.items():
        is_fix = account.type.endswith("/NavSatFix")
        if account.refused and not is_fix and account.refused >= account.received / 100:
            yield f"{account.refused:,} of {account.received:,} messages of {topic.strip('/')} refused"


def _few(report: Report) -> int:
    """Selected reference frames, 0 if most of them became samples."""
    chosen = sum(each.reference_frames - each.skipped for each in report.sequences)
    made = sum(each.sample for each in report.sequences)
    return chosen if made < GOOD_SHARE * chosen else 0


def _grade(report: Report, losses: Iterable[Loss]) -> Grade:
    if not report.samples:
        return "empty"
    chosen = sum(each.reference_frames - each.skipped for each in report.sequences)
    made = sum(each.sample for each in report.sequences)
    share = made / chosen if chosen else 1.0
    driven_s = sum((end_of(each) - each.start_ns) / 1e9 for each in report.sequences)
    lost_s: dict[str, float] = {}
    for loss in losses:
        for topic in loss.topics:
            lost_s[topic] = lost_s.get(topic, 0.0) + loss.seconds
    worst = max(lost_s.values(), default=0.0) / driven_s if driven_s > 0 else 0.0
    if share >= GOOD_SHARE and worst <= GOOD_LOSS:
        return "good"
    return "fair" if share >= FAIR_SHARE and worst <= FAIR_LOSS else "poor"
