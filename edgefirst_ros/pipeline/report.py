"""The capture report: what became of every message, and the likely causes of a poor result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.pipeline.details import calibration, configuration, streams, versions
from edgefirst_ros.pipeline.fanout import Output
from edgefirst_ros.pipeline.ledger import OUTCOMES, Ledger, frequent
from edgefirst_ros.pipeline.sequence import SequenceResult
from edgefirst_ros.sample import Role
from edgefirst_ros.timing.gaps import StreamStats

if TYPE_CHECKING:
    from edgefirst_ros.pipeline.sequencer import SequenceSummary

SILENT = 0.1
"""A topic that was silent for a larger share of the sequence lacks because of that."""
FORMAT = "edgefirst_ros capture report, version 1"


def build_report(
    config: Config,
    ledger: Ledger,
    sequences: Sequence[SequenceSummary],
    *,
    outputs: Mapping[str, Output],
    samples: int,
    notes: Sequence[str],
    unread: Sequence[str] = (),
    hints: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """The report of a run as plain values; contains no time of day and no path."""
    topics = accounts(ledger, [s for each in sequences for s in each.result.stats.values()])
    return {
        "format": FORMAT,
        "samples": samples,
        "complete": sum(each.result.frames.complete for each in sequences),
        "formats": _formats(outputs, topics),
        "totals": dict(ledger.totals),
        "topics": topics,
        "sequences": [_sequence(config, s) for s in sequences],
        "companions": ledger.companions(),
        "combinations": ledger.combinations(),
        "pairing": ledger.pairings(),
        "timeline": ledger.timeline(),
        "configuration": configuration(config),
        "versions": versions(),
        "notes": list(notes),
        "hints": list(hints),
        "warnings": [
            *_warnings(config, sequences, samples, unread),
            *missing,
            *_format_warnings(outputs),
        ],
    }


def _formats(outputs: Mapping[str, Output], topics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the dataset of each format contains, and the samples that it left out, on purpose or not."""
    return {
        name: {
            output.unit: output.items,
            "messages": sum(account["written_to"].get(name, 0) for account in topics.values()),
            "left_out": frequent(output.left_out),
            "thinned": frequent({r: n for r, n in output.left_out.items() if r in output.thinned}),
        }
        for name, output in outputs.items()
    }


def accounts(ledger: Ledger, streams: Iterable[StreamStats]) -> dict[str, dict[str, Any]]:
    """The ledger's counts by topic, with ``lost_upstream``: messages that never arrived, by gaps in time.

    A message that was received but never put in order of time leaves a gap as well, and is not counted twice.
    """
    missing: Counter[str] = Counter()
    for stats in streams:
        missing[stats.topic] += stats.gaps.lost
    found, ours = ledger.snapshot(), ledger.unplaced
    for topic, account in found.items():
        account["lost_upstream"] = max(0, missing[topic] - ours[topic])
    return found


def _sequence(config: Config, summary: SequenceSummary) -> dict[str, Any]:
    run = summary.result
    return {
        "name": summary.name,
        "start_ns": run.info.start_ns,
        "reference_frames": run.frames.total,
        **{kind: run.frames[kind] for kind in OUTCOMES},
        "complete": run.frames.complete,
        "missing": {config.topics[name].topic: count for name, count in run.missing.items()},
        "companions": _companions(config, run),
        "ended": summary.ended,
        "poses_s": run.poses.summary(),
        "driven_m": round(run.poses.driven_m, 1),
        "track": run.poses.track.summary(),
        "rates_hz": {s.topic: round(s.rate_hz, 3) for s in run.stats.values()},
        "clocks": {
            f.topic: {
                "source": f.source,
                "offset_ns": f.offset_ns,
                "uncertainty_ns": f.uncertainty_ns,
                "drift_ppm": f.drift_ppm,
                "latency_ns": f.latency_ns,
                "clock": f.group,
                "finding": f.text,
            }
            for f in sorted(summary.findings, key=lambda f: f.topic)
        },
        "streams": streams(run),
        "calibration": calibration(run.calibration),
    }


def _companions(config: Config, run: SequenceResult) -> dict[str, dict[str, float]]:
    """By topic, samples with and without it while it sent, and the share of them that its rate promises."""
    found = {}
    for name in sorted(run.paired.keys() | run.missing.keys()):
        paired, missing, stats = run.paired.get(name, 0), run.missing.get(name, 0), run.stats.get(name)
        if paired + missing and stats is not None:
            promised = _promised(config, run, name, stats, paired + missing)
            found[stats.topic] = {"paired": paired, "missing": missing, "promised": round(promised, 4)}
    return found


def _promised(config: Config, run: SequenceResult, name: str, stats: StreamStats, samples: int) -> float:
    """Share of samples that can have a message of a topic, without those in its silences."""
    rule, reference = config.topics[name], _reference(run)
    if reference is None or not stats.rate_hz:
        return 0.0
    frames = run.frames.total - run.frames["skipped"]
    if rule.policy == "once":  # some of its messages go to frames that become no samples
        near_s = 2 * rule.tolerance_ms / 1000 * max(samples, frames)
        sampled_s = (reference.last_ns - reference.first_ns) / 1e9
        return _share(rule, stats, max(samples, frames)) * (
            min(1.0, near_s / sampled_s) if sampled_s else 1.0
        )
    share = _share(rule, stats, samples)
    if rule.policy == "exact":
        share = min(1.0, stats.rate_hz / reference.rate_hz) if reference.rate_hz else 0.0
    interval_ns = round(1e9 / stats.rate_hz)
    whole_ns = reference.last_ns - reference.first_ns
    pauses, alive_ns = stats.pauses, round(config.alive_s * 1e9)
    # Samples are counted as missing until so long after the last message.
    silent_ns = min(pauses.total_ns, pauses.count * alive_ns) + sum(
        min(max(0, late_ns - interval_ns), alive_ns)
        for late_ns in (stats.first_ns - reference.first_ns, reference.last_ns - stats.last_ns)
    )
    silent = silent_ns / whole_ns * frames / samples if whole_ns else 0.0
    return share * max(0.0, 1.0 - silent)


def _warnings(
    config: Config, sequences: Sequence[SequenceSummary], samples: int, unread: Sequence[str]
) -> list[str]:
    found = list(unread)
    for summary in sequences:
        frames = summary.result.frames
        chosen = frames.total - frames["skipped"]
        if chosen and frames["sample"] <= chosen / 2:
            which = "selected reference" if frames["skipped"] else "reference"
            head = f"{summary.name}: {frames['sample']} of {chosen} {which} frames became samples"
            found.append(f"{head}: {_cause(config, summary)}")
        found += _unpaired(config, summary)
        found += [f"{summary.name}: {warning}" for warning in summary.result.poses.warnings()]
        if summary.result.mounting is not None:
            found.append(f"{summary.name}: {summary.result.mounting.text}")
    if not samples:
        why = "" if found else ": no reference frame arrived, or none was selected"
        found.insert(0, f"the dataset is empty{why}")
    return found


def _unpaired(config: Config, summary: SequenceSummary) -> Iterator[str]:
    """Warnings on topics that came, but of which samples have far fewer than their rates promise."""
    run = summary.result
    for name, missing in run.missing.items():
        stats, pairs = run.stats.get(name), run.paired.get(name, 0)
        samples = pairs + missing
        share = 1.0 if stats is None else _share(config.topics[name], stats, samples)
        if pairs < samples * share / 2:
            what = f"{pairs} of {samples} samples have {config.topics[name].topic}"
            yield f"{summary.name}: {what}{_why_apart(config, summary, name)}"


def _share(rule: TopicRule, stats: StreamStats, samples: int) -> float:
    """Share of so many samples that have a message of a topic, if its times are right."""
    if rule.policy == "once":
        return min(1.0, stats.count / samples)
    return min(1.0, stats.rate_hz * 2 * rule.tolerance_ns / 1e9)


def _format_warnings(outputs: Mapping[str, Output]) -> list[str]:
    """Warnings on formats that hold much less than the others, which the sequences' counts do not show."""
    found = []
    for name, output in outputs.items():
        wanted = Counter({r: n for r, n in output.left_out.items() if r not in output.thinned})
        if len(outputs) > 1 and 0 < output.items <= wanted.total():
            reason, count = max(wanted.items(), key=lambda item: (item[1], item[0]))
            whole = output.items + wanted.total()
            found.append(
                f"{name}: {output.items} {output.unit} of {whole} samples: {count} left out: {reason}"
            )
    return found


def _cause(config: Config, summary: SequenceSummary) -> str:
    """The most frequent reason why frames became no samples."""
    frames = summary.result.frames
    kind = max(("incomplete", "unusable", "dropped"), key=lambda kind: frames[kind])
    if kind == "incomplete":
        name, count = max(summary.result.lacking.items(), key=lambda item: (item[1], item[0]))
        return f"{count} lacked {config.topics[name].topic}{_why_apart(config, summary, name)}"
    reason, count = frames.chief(kind)
    return f"{count} could not be used: {reason}" if kind == "unusable" else f"{count} were dropped: {reason}"


def _why_apart(config: Config, summary: SequenceSummary, name: str) -> str:
    """Why frames have no message of a topic, as far as that can be seen; follows the topic."""
    run = summary.result
    rule, stats = config.topics[name], run.stats.get(name)
    if stats is None:
        return ", which sent nothing usable in this sequence"
    finding = next((f for f in summary.findings if f.topic == stats.topic), None)
    if finding is not None and finding.group is None and rule.role is not Role.MASK:
        return f", whose stamps cannot be used ({finding.text}); correct them with clock and offset_ms"
    apart_ns = _apart_ns(run, stats, rule.tolerance_ns)
    if apart_ns:
        return f", whose times are {apart_ns / 1e9:,.1f} s off: two clocks differ; set its clock"
    within = f"within ±{rule.tolerance_ms:g} ms"
    frames = run.frames.total - run.frames["skipped"]
    share = _share(rule, stats, max(1, frames))
    silent_s, whole_s = _silent_s(run, stats)
    if silent_s > max(SILENT, 1.0 - share) * whole_s:
        return f", which sent nothing for {silent_s:,.1f} of {whole_s:,.1f} s"
    if 0 < share < 0.9:
        more = "" if rule.policy == "once" else ", or raise its tolerance_ms"
        is_missed = run.frames["skipped"] and not run.frames["incomplete"]
        rate = f"{stats.rate_hz:.1f}"
        return (
            f", which comes at {rate} Hz: the selected frames lie between its messages; select others"
            if is_missed
            else f", which comes at {rate} Hz, so about {share:.0%} of the frames have one {within}; "
            f"the others become samples, too, without --complete (topics.{name}.required: never){more}"
        )
    return f" {within}; if its latency is known, correct it with offset_ms"


def _reference(run: SequenceResult) -> StreamStats | None:
    return next((s for s in run.stats.values() if s.topic in run.reference_topics), None)


def _silent_s(run: SequenceResult, stats: StreamStats) -> tuple[float, float]:
    """Seconds in which a stream sent nothing while the reference did, and of how many."""
    reference = _reference(run)
    if reference is None:
        return 0.0, 0.0
    late_ns = max(0, stats.first_ns - reference.first_ns) + max(0, reference.last_ns - stats.last_ns)
    return (late_ns + stats.pauses.total_ns) / 1e9, (reference.last_ns - reference.first_ns) / 1e9


def _apart_ns(run: SequenceResult, stats: StreamStats, tolerance_ns: int) -> int:
    """Nanoseconds between a stream's first message and the reference's if they never overlap, else 0."""
    reference = _reference(run)
    if reference is None:
        return 0
    overlap = (
        stats.first_ns <= reference.last_ns + tolerance_ns
        and stats.last_ns >= reference.first_ns - tolerance_ns
    )
    return 0 if overlap else abs(stats.first_ns - reference.first_ns)
