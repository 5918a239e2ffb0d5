"""What was lost of what came: messages, samples that a format lacks, and companions that rates promise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from edgefirst_ros.diagnosis.finding import Code, Finding, Severity
from edgefirst_ros.diagnosis.report import Account, Report
from edgefirst_ros.diagnosis.silence import NOT_JUDGED
from edgefirst_ros.messages.reasons import Kind

SENT_ONCE = ("/CameraInfo", "/RadarInfo", "/ModelInfo", "/TransformStamped", "/TFMessage")
THINNED = "not needed for "
"""How earlier versions began the reason of a format that takes fewer samples on purpose."""
FEW_PAIRS = 0.9
"""Of what a topic's rate promises; fewer companions are worth saying, unless hardly any are missing."""
GRADED_PAIRS = 0.8
"""Fewer than this is no jitter of stamps about the tolerance, and counts for the grade."""
LEAST_PAIRS = 3
LONGEST_REASON = 80
"""Characters of a reason that a sentence can take."""


def shortfalls(report: Report) -> list[Finding]:
    """Everything that was lost of what came, the largest share first."""
    found = [*_messages(report), *_formats(report), *_companions(report)]
    return sorted(found, key=lambda each: (-each.share, each.text))


def is_repeated(report: Report, account: Account) -> bool:
    """Whether most of what was refused came twice."""
    return report.by_kind(account, "refused")[Kind.REPEATED] > 0.5 * account.refused


def _messages(report: Report) -> Iterator[Finding]:
    roles: dict[str, str] = {}
    in_pauses: dict[str, float] = {}
    for sequence in report.sequences:
        for topic, stream in (sequence.streams or {}).items():
            roles[topic] = stream.role
            missed = stream.pauses.total_s * (stream.rate_hz or 0.0)
            in_pauses[topic] = in_pauses.get(topic, 0.0) + missed
    for topic, account in report.topics.items():
        repeats = report.by_kind(account, "refused")[Kind.REPEATED]
        early = _before_first_fix(report, topic, account)
        counts = {"refused": max(0, account.refused - repeats - early)}
        # An excerpt and a capture that goes on after a pause begin between two key frames.
        unwanted = report.by_kind(account, "skipped")[Kind.UNWANTED]
        cut = report.by_kind(account, "dropped")[Kind.UNDECODABLE_START] if unwanted else 0
        if report.purpose == "dataset":  # of a recording that is only looked at, nothing is written
            counts["dropped"] = max(0, account.dropped - cut)
        upstream = max(0, account.lost_upstream - round(in_pauses.get(topic, 0.0)))
        whole = account.received - repeats - early - unwanted - cut + upstream
        judged = topic in roles and roles[topic] not in NOT_JUDGED
        graded = judged or (topic not in roles and not account.type.endswith(SENT_ONCE))
        name = topic.strip("/")
        share = min(1.0, (sum(counts.values()) + upstream) / whole) if whole > 0 else 0.0
        words = [(count, what) for what, count in (*counts.items(), ("never arrived", upstream)) if count]
        if words:
            (count, what), *others = words
            text = f"{count:,} of {whole:,} messages of {name} {what}"
            said = ", ".join((text, *(f"{n:,} {more}" for n, more in others)))
            yield Finding(Code.MESSAGES_LOST, said, (topic,), share, _severity(graded=graded))


def _before_first_fix(report: Report, topic: str, account: Account) -> int:
    """Fixes refused before there was a position, which is normal for some time after the start."""
    count = report.by_kind(account, "refused")[Kind.NO_POSITION]
    if not account.type.endswith("/NavSatFix") or not count or 2 * count > account.received:
        return 0
    counts = {} if report.timeline is None else report.timeline.topics.get(topic, {})
    used = [n for stage in ("decoded", "written") for n, value in enumerate(counts.get(stage, [])) if value]
    if not used:
        return count if account.refused < account.received else 0
    return min(count, sum(counts.get("refused", [])[: min(used) + 1]))


def _formats(report: Report) -> Iterator[Finding]:
    samples = report.samples or 0
    for name, held in report.formats.items() if report.purpose == "dataset" and samples else ():
        left_out, thinned = _counts(held.get("left_out")), _counts(held.get("thinned"))
        on_purpose = {r: n for r, n in left_out.items() if r in thinned or r.startswith(THINNED)}
        others = {reason: n for reason, n in left_out.items() if reason not in on_purpose}
        lost = sum(others.values())
        items = held.get("samples")
        if isinstance(items, int):
            lost = max(lost, samples - items - sum(on_purpose.values()))
        if lost > 0:
            why = max(others.items(), key=lambda item: item[1], default=("", 0))[0]
            because = f" ({why})" if 0 < len(why) <= LONGEST_REASON else ""
            said = f"{name} lacks {lost:,} of {samples:,} samples{because}"
            yield Finding(Code.SAMPLES_LACKING, said, share=min(1.0, lost / samples))


def _counts(value: object) -> Mapping[str, int]:
    return value if isinstance(value, Mapping) else {}


@dataclass(slots=True)
class Pairs:
    """Samples that have a topic, those that its rate promises, and all while it was sending."""

    paired: int = 0
    promised: float = 0.0
    samples: int = 0

    @property
    def missing(self) -> int:
        """Samples without it while it was sending."""
        return self.samples - self.paired


def pairs_of(report: Report) -> dict[str, Pairs]:
    """By topic, how many samples have it, and how many could."""
    found: dict[str, Pairs] = {}
    for sequence in report.sequences:
        for topic, each in sequence.companions.items():
            pairs, samples = found.setdefault(topic, Pairs()), each.paired + each.missing
            pairs.paired += each.paired
            pairs.promised += samples * each.promised
            pairs.samples += samples
    return found


def _companions(report: Report) -> Iterable[Finding]:
    # Frames that are selected may all lie between the messages of a topic, or all beside one.
    is_chosen = any(sequence.skipped for sequence in report.sequences)
    for topic, pairs in pairs_of(report).items():
        share = pairs.paired / pairs.promised if pairs.promised >= 1 else 1.0
        if share < FEW_PAIRS and pairs.promised - pairs.paired >= LEAST_PAIRS:
            name = topic.strip("/")
            text = f"{pairs.paired:,} of {pairs.samples:,} samples have {name}"
            if pairs.promised < FEW_PAIRS * pairs.samples and not is_chosen:
                text += f", its rate promises {round(pairs.promised):,}"
            is_graded = share < GRADED_PAIRS and not is_chosen
            yield Finding(Code.FEW_PAIRS, text, (topic,), 1.0 - share, _severity(graded=is_graded))


def _severity(*, graded: bool) -> Severity:
    return Severity.WARNING if graded else Severity.NOTE
