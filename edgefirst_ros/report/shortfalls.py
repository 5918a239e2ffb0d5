"""What was lost of what came: messages, samples that a format lacks, and companions that rates promise.

Why samples of a sequence are few or lack a sensor, and what its poses rest on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from functools import partial

from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.pointcloud import TOO_FAR
from edgefirst_ros.model.reasons import Code, Finding, Kind, Severity
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.report.content import is_frozen
from edgefirst_ros.report.drives import NOT_JUDGED
from edgefirst_ros.report.models import Companion, Frames, Mount, Report, Sequence, Stream

SENT_ONCE = ("/CameraInfo", "/RadarInfo", "/ModelInfo", "/TransformStamped", "/TFMessage", "/String")
TOLD_BELOW = 0.9
"""Of what a topic's rate promises; fewer companions are worth saying, unless hardly any are missing."""
GRADED_PAIRS = 0.8
"""Fewer than this is no jitter of stamps about the tolerance, and counts for the grade."""
LEAST_PAIRS = 3
_SEEING = frozenset({Role.CAMERA, Role.DEPTH, Role.LIDAR_POINTS, Role.RADAR_TARGETS})
LONGEST_REASON = 80
"""Characters of a reason that a sentence can take."""


def shortfalls(report: Report) -> list[Finding]:
    """Everything that was lost of what came, the largest share first."""
    found = [*_messages(report), *refused_parts(report), *formats_lacking(report), *_companions(report)]
    return sorted(found, key=lambda each: (-each.share, each.text))


def _lost(report: Report) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Each topic's messages, and how many of them were lost, by how; not what came twice or nobody needs."""
    in_pauses: dict[str, float] = {}
    for sequence in report.sequences:
        for topic, stream in (sequence.streams or {}).items():
            missed = stream.pauses.total_s * (stream.rate_hz or 0.0)
            in_pauses[topic] = in_pauses.get(topic, 0.0) + missed
    for topic, account in report.topics.items():
        ignored = report.by_kind(account, "skipped")
        # A receiver has no position for some time after its start; one that has none for long is of no use.
        never = ignored[Kind.NO_POSITION] if 2 * ignored[Kind.NO_POSITION] > account.received else 0
        normal = ignored[Kind.REPEATED] + ignored[Kind.NO_POSITION] - never
        counts = {"refused": account.refused + never, "dropped": 0}
        # An excerpt and a capture that goes on after a pause begin between two key frames.
        unwanted = ignored[Kind.UNWANTED]
        cut = report.by_kind(account, "dropped")[Kind.UNDECODABLE_START] if unwanted else 0
        if report.purpose == "dataset":  # of a recording that is only looked at, nothing is written
            counts["dropped"] = max(0, account.dropped - cut)
        upstream = max(0, account.lost_upstream - round(in_pauses.get(topic, 0.0)))
        counts["never arrived"] = upstream
        yield topic, account.received - normal - unwanted - cut + upstream, counts


def losses(report: Report) -> dict[str, int]:
    """Messages and bytes that were lost in all, by how; only what is not zero.

    A fix that is refused is none: receivers have no fix in a tunnel, and poses say where that was.
    """
    found = Counter[str]()
    for topic, _, counts in _lost(report):
        is_fix = report.topics[topic].type.endswith("/NavSatFix")
        found.update(counts | {"refused": 0} if is_fix else counts)
    found["unreadable bytes"] = sum(fault.bytes for each in report.recordings for fault in each.faults)
    return {what: count for what, count in found.items() if count}


def _messages(report: Report) -> Iterator[Finding]:
    streams = ((t, s.role) for each in report.sequences for t, s in (each.streams or {}).items())
    roles = dict(streams)
    for topic, whole, counts in _lost(report):
        judged = topic in roles and roles[topic] not in NOT_JUDGED
        graded = judged or (topic not in roles and not report.topics[topic].type.endswith(SENT_ONCE))
        name = topic.strip("/")
        share = min(1.0, sum(counts.values()) / whole) if whole > 0 else 0.0
        words = [(count, what) for what, count in counts.items() if count]
        if words:
            (count, what), *others = words
            text = f"{count:,} of {whole:,} messages of {name} {what}"
            if what == "refused" and count == whole:
                of = report.topics[topic].reasons
                reasons = {**of.get("skipped", {}), **of.get("refused", {})}
                text += f": {max(reasons, key=reasons.__getitem__, default='for no known reason')}"
            said = ", ".join((text, *(f"{n:,} {more}" for n, more in others)))
            yield Finding(Code.MESSAGES_LOST, said, (topic,), share, _severity(graded=graded))


def refused_parts(report: Report) -> Iterator[Finding]:
    """Pictures and clouds that lack a part; stray points are none, nor are boxes at an edge."""
    roles = {t: s.role for each in report.sequences for t, s in (each.streams or {}).items()}
    for topic, account in report.topics.items():
        counts = {why: count for why, count in account.refused_parts.items() if why != TOO_FAR}
        if counts and roles.get(topic) in _SEEING and account.received:
            why, name = max(counts, key=counts.__getitem__), topic.strip("/")
            text = f"{counts[why]:,} of {account.received:,} messages of {name} lack a part: {why}"
            yield Finding(Code.MESSAGES_LOST, text, (topic,), min(1.0, counts[why] / account.received))


def never_arrived(report: Report) -> Iterator[Finding]:
    """What a live capture did not receive though it was sent: nothing else can bring that back."""
    lost = sorted((-counts["never arrived"], topic.strip("/")) for topic, _, counts in _lost(report))
    if listed := ", ".join(f"{-count:,} of {topic}" for count, topic in lost if count):
        yield Finding(Code.LOSING, f"lost upstream, by the network or the sender: {listed}")


def unreadable(report: Report) -> Iterator[Finding]:
    """Sensors of which nothing is received, as nothing reads their type."""
    for topic, why in report.unreadable.items():
        yield Finding(Code.UNUSABLE, f"{topic.strip('/')} is not in the dataset: {why}", (topic,), 1.0)


def formats_lacking(report: Report) -> Iterator[Finding]:
    """What formats lack of the samples, but for what they leave out on purpose."""
    samples = report.samples or 0
    for name, held in report.formats.items() if report.purpose == "dataset" and samples else ():
        left_out, thinned = _counts(held.get("left_out")), _counts(held.get("thinned"))
        on_purpose = {r: n for r, n in left_out.items() if r in thinned}
        others = {reason: n for reason, n in left_out.items() if reason not in on_purpose}
        lost = sum(others.values())
        units = ((u, n) for u, n in held.items() if isinstance(n, int) and u != "messages")
        unit, items = next(units, ("samples", 0))
        if unit == "samples":
            beside = sum(each.sample for s in report.sequences for each in s.cameras.values())
            lost = max(lost, samples + beside - items - sum(on_purpose.values()))
        if lost > 0:
            # What was shed before it became a sample is not among the report's samples.
            whole = max(items, 0) + lost
            why = max(others.items(), key=lambda item: item[1], default=("", 0))[0]
            because = f" ({why})" if 0 < len(why) <= LONGEST_REASON else ""
            said = f"{name} lacks {lost:,} of {whole:,} {unit}{because}"
            yield Finding(Code.SAMPLES_LACKING, said, share=min(1.0, lost / whole))


def _counts(value: object) -> Mapping[str, int]:
    return value if isinstance(value, Mapping) else {}


@dataclass(slots=True)
class Pairs:
    """Samples that have a topic, those that its rate promises, and all while it was sending."""

    paired: int = 0
    promised: float = 0.0
    samples: int = 0


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
        if share < TOLD_BELOW and pairs.promised - pairs.paired >= LEAST_PAIRS:
            name = topic.strip("/")
            text = f"{pairs.paired:,} of {pairs.samples:,} samples have {name}"
            if pairs.promised < TOLD_BELOW * pairs.samples and not is_chosen:
                text += f", its rate promises {round(pairs.promised):,}"
            is_graded = share < GRADED_PAIRS and not is_chosen
            yield Finding(Code.FEW_PAIRS, text, (topic,), 1.0 - share, _severity(graded=is_graded))


def _severity(*, graded: bool) -> Severity:
    return Severity.WARNING if graded else Severity.NOTE


SILENT = 0.1
"""A topic that was silent for a larger share of the sequence lacks because of that."""
EXPLAINED_BELOW = 0.5
"""Of what a topic's rate promises; fewer companions need an explanation."""
FEW_SAMPLES = 0.5
"""Of the selected frames, or of the samples that a format could have."""
FREQUENT = 0.9
"""A topic whose rate gives this share of the frames a message comes often enough."""
WORTH_SAYING_S = 1.0
"""Poses that are unknown for less are so at the first fixes of every drive."""
MOST_FOR_POSES = 0.5
"""Pictures and clouds are of use without a position, so that its lack alone makes no drive poor."""


PLACED_DEG, PLACED_M = 0.5, 0.02
"""What reconstruction asks of a sensor's place; what moves by less is as good as fixed."""
MOVES_SHARE = 0.11
"""What a sensor on a moving mount measured is there, but not where; so is all with an IMU that is turned,
or poses that are wrong. No such drive is good."""
HELD_SHARE = 0.01
"""Of measurements that are placed by the nearest transform: those at a drive's ends are fewer."""


def sequence_findings(report: Report) -> Iterator[Finding]:
    """What is to be said of each sequence, named with it."""
    for sequence in report.sequences:
        for frames in (sequence, *sequence.cameras.values()):
            yield from (*_samples(report, sequence, frames), *_pairs(sequence, frames))
        yield from _poses(sequence)
        if sequence.mounting and not is_frozen(sequence, "imu"):
            text = f"{sequence.name}: {sequence.mounting}"
            yield Finding(Code.IMU_ROTATED, text, share=MOVES_SHARE)
        for doubt in sequence.doubts:
            yield Finding(Code.POSES_DOUBTED, f"{sequence.name}: {doubt}", share=MOVES_SHARE)
        yield from map(partial(_mount, report, sequence.name), sequence.mounts)


def _mount(report: Report, name: str, mount: Mount) -> Finding:
    unaware = [name for name in report.formats if name in FORMATS and not FORMATS[name].follows_mounts]
    received = sum(report.topics[topic].received for topic in mount.topics if topic in report.topics)
    share = max(min(1.0, mount.held / max(received, 1)), MOVES_SHARE * bool(unaware))
    is_small = mount.turned_deg < PLACED_DEG and mount.moved_m < PLACED_M
    topics = ", ".join(topic.strip("/") for topic in mount.topics)
    how_far = f"by up to {mount.turned_deg:.3g} degrees and {mount.moved_m:.3g} m in {mount.parent}"
    text = f"{name}: {topics} on a mount that moves: {mount.frame} {how_far}"
    if mount.held:
        text += f"; {mount.held:,} of {received:,} measurements are placed by the nearest transform only"
    if unaware:
        text += f"; {', '.join(unaware)} does not say where it was"
    severity = Severity.NOTE if is_small or share < HELD_SHARE else Severity.WARNING
    return Finding(Code.MOUNT_MOVES, text, tuple(mount.topics), share, severity)


def selected(report: Report, sequence: Sequence, frames: Frames) -> int:
    """Reference frames that were to become samples.

    By time or distance they are no more than were due: where one lacks a sensor, the next one stands in.
    """
    due: list[float] = [frames.reference_frames - frames.skipped]
    chosen = report.configuration.get("select")
    told = report.configuration.get("rate_hz"), chosen.get("distance_m") if isinstance(chosen, dict) else 0
    rate_hz, distance_m = (each if isinstance(each, float | int) else 0 for each in told)
    for topic, stream in (sequence.streams or {}).items():
        if topic in frames.references and rate_hz > 0:
            due.append((stream.last_ns - stream.first_ns) / 1e9 * rate_hz + 1)
    if distance_m > 0 and sequence.driven_m is not None:
        due.append(sequence.driven_m / distance_m + 1)
    return max(frames.sample, int(min(due)))


def _samples(report: Report, sequence: Sequence, frames: Frames) -> Iterator[Finding]:
    chosen = selected(report, sequence, frames)
    if chosen <= 0 or frames.sample > FEW_SAMPLES * chosen or frames.chief is None:
        return
    which = "selected" if frames.skipped else "camera"
    head = f"{frames.name}: {frames.sample} of {chosen} {which} frames became samples"
    yield Finding(Code.FEW_SAMPLES, f"{head}: {_cause(sequence, frames)}", share=1 - frames.sample / chosen)


def _cause(sequence: Sequence, frames: Frames) -> str:
    """The most frequent reason why frames became no samples."""
    kind = max(("incomplete", "unusable", "dropped"), key=lambda kind: getattr(frames, kind))
    lacked = {name: each for name, each in frames.companions.items() if each.lacked}
    if kind == "incomplete" and lacked:
        topic = max(lacked, key=lambda name: (lacked[name].lacked, lacked[name].entry))
        each = lacked[topic]
        return f"{each.lacked} lacked {each.topic}{_why_apart(sequence, topic, each)}"
    reason, count = (frames.chief or {}).get(kind, ("", 0))
    return f"{count} could not be used: {reason}" if kind == "unusable" else f"{count} were dropped: {reason}"


def _pairs(sequence: Sequence, frames: Frames) -> Iterator[Finding]:
    """Topics that came, but of which samples have far fewer than their rates promise."""
    for topic, each in frames.companions.items():
        samples, stream = each.paired + each.missing, (sequence.streams or {}).get(topic)
        share = 1.0 if stream is None else _share(each, stream, samples)
        if each.missing and each.tolerance_ms is not None and each.paired < samples * share * EXPLAINED_BELOW:
            what = f"{each.paired} of {samples} samples have {each.topic}"
            text = f"{frames.name}: {what}{_why_apart(sequence, topic, each)}"
            # How much is missing is judged over all sequences.
            yield Finding(Code.FEW_PAIRS, text, (topic,), severity=Severity.NOTE)


def _share(companion: Companion, stream: Stream, samples: int) -> float:
    """Share of so many samples that have a message of a topic, if its times are right."""
    if companion.policy == "once":
        return min(1.0, stream.messages / max(1, samples))
    return min(1.0, (stream.rate_hz or 0.0) * 2 * (companion.tolerance_ms or 0.0) / 1e3)


def _why_apart(sequence: Sequence, topic: str, companion: Companion) -> str:
    """Why frames have no message of a topic, as far as that can be seen; follows the topic."""
    stream, tolerance_ms = (sequence.streams or {}).get(topic), companion.tolerance_ms or 0.0
    if stream is None:
        return ", which sent nothing usable in this sequence"
    clock = sequence.clocks.get(topic)
    if clock is not None and clock.clock is None and stream.role != "mask":
        return f", whose stamps cannot be used ({clock.finding}); correct them with clock and offset_ms"
    references = [s for t, s in (sequence.streams or {}).items() if t in sequence.references]
    apart_ns = _apart_ns(references[0], stream, round(tolerance_ms * 1e6)) if references else 0
    if apart_ns:
        return f", whose times are {apart_ns / 1e9:,.1f} s off: two clocks differ; set its clock"
    return _why_rare(sequence, companion, stream, references)


def _why_rare(sequence: Sequence, companion: Companion, stream: Stream, references: Ordered[Stream]) -> str:
    """Why a stream whose times are right has so few messages near frames."""
    frames = sequence.reference_frames - sequence.skipped
    share = _share(companion, stream, max(1, frames))
    silent_s, whole_s = _silent_s(references[0], stream) if references else (0.0, 0.0)
    if silent_s > max(SILENT, 1.0 - share) * whole_s:
        return f", which sent nothing for {silent_s:,.1f} of {whole_s:,.1f} s"
    within = f"within ±{companion.tolerance_ms or 0.0:g} ms"
    if 0 < share < FREQUENT:
        if sequence.skipped and not sequence.incomplete:
            comes = f", which comes at {stream.rate_hz or 0.0:.1f} Hz"
            return f"{comes}: the selected frames lie between its messages; select others"
        more = "" if companion.policy == "once" else ", or raise its tolerance_ms"
        return (
            f", which comes at {stream.rate_hz or 0.0:.1f} Hz, so about {share:.0%} of the frames have one "
            f"{within}; the others become samples, too, "
            f"without --require (topics.{companion.entry}.required: never){more}"
        )
    return f" {within}; if its latency is known, correct it with offset_ms"


def _silent_s(reference: Stream, stream: Stream) -> tuple[float, float]:
    """Seconds in which a stream sent nothing while the reference did, and of how many."""
    late_ns = max(0, stream.first_ns - reference.first_ns) + max(0, reference.last_ns - stream.last_ns)
    return late_ns / 1e9 + stream.pauses.total_s, (reference.last_ns - reference.first_ns) / 1e9


def _apart_ns(reference: Stream, stream: Stream, tolerance_ns: int) -> int:
    """Nanoseconds between a stream's first message and the reference's if they never overlap, else 0."""
    overlap = (
        stream.first_ns <= reference.last_ns + tolerance_ns
        and stream.last_ns >= reference.first_ns - tolerance_ns
    )
    return 0 if overlap else abs(stream.first_ns - reference.first_ns)


def _poses(sequence: Sequence) -> Iterator[Finding]:
    """For how long the position or rotation is unknown or dead-reckoned."""
    for part, spans in (sequence.poses_s or {}).items():
        whole_s = sum(spans.values())
        for basis, what, code in (
            ("assumed", "unknown", Code.POSE_UNKNOWN),
            ("dead-reckoned", "dead-reckoned", Code.POSE_DEAD_RECKONED),
        ):
            seconds = spans.get(basis, 0.0)
            if seconds >= WORTH_SAYING_S and whole_s > 0:
                text = f"{sequence.name}: the rig's {part} is {what} for {seconds:,.1f} s of {whole_s:,.1f} s"
                # Of a rig that stands the heading may be unknown, and nothing is wrong with it.
                is_graded = code is Code.POSE_UNKNOWN and part == "position"
                share = min(MOST_FOR_POSES, seconds / whole_s)
                yield Finding(
                    code, text, share=share, severity=Severity.WARNING if is_graded else Severity.NOTE
                )
