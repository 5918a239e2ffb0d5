"""The capture report: what became of every message, and what the diagnosis needs to judge it.

What the report says of each sequence's streams and sensors, for plots: all of it of bounded size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from platform import python_version
from typing import Any

from pydantic_core import to_jsonable_python

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.config.topics import LABEL_ROLES
from edgefirst_ros.model.camera import CameraInfo, picture_intrinsics
from edgefirst_ros.model.reasons import Code, Finding, Severity, code_of
from edgefirst_ros.model.sample import Calibration
from edgefirst_ros.model.sensors import ALIVE_S
from edgefirst_ros.pipeline.fanout import Output
from edgefirst_ros.pipeline.ledger import OUTCOMES, FrameCounts, Ledger, frequent
from edgefirst_ros.pipeline.session import CameraResult, SequenceResult, SequenceSummary
from edgefirst_ros.pipeline.transforms import mounts
from edgefirst_ros.report.judge import warnings_of
from edgefirst_ros.report.models import parsed
from edgefirst_ros.timing.gaps import StreamStats, quantile

MOST_CAMERAS = 32
LIBRARIES = ("av", "numpy", "pillow", "pyarrow", "simplejpeg")
"""Those on whose version the bytes of a dataset depend."""


def streams(result: SequenceResult) -> dict[str, Any]:
    """Each topic's messages, span, pauses and latencies, by its name."""
    return {
        stats.topic: {**_stream(stats), **result.content[name].summary()}
        for name, stats in result.stats.items()
    }


def _stream(stats: StreamStats) -> dict[str, Any]:
    usual_ns, pauses = stats.gaps.usual_ns, stats.pauses
    return {
        "role": stats.role,
        "sensor": stats.sensor,
        "device": stats.device,
        "messages": stats.count,
        "first_ns": stats.first_ns,
        "last_ns": stats.last_ns,
        "usual_interval_ms": None if usual_ns is None else round(usual_ns / 1e6, 3),
        "frame_id": stats.frame_id,
        **({"other_frame_id": stats.other_frame_id} if stats.other_frame_id else {}),
        "pauses": {
            "count": pauses.count,
            "total_s": round(pauses.total_ns / 1e9, 3),
            "longest_ns": [list(span) for span in pauses.longest],
        },
        "latency_ms": _latency(stats.latencies),
    }


def _latency(counts: Mapping[int, int]) -> dict[str, Any] | None:
    if not counts:
        return None
    return {"p50": quantile(counts, 0.5), "p95": quantile(counts, 0.95), "max": max(counts)}


def calibration(known: Calibration, camera: str, rig_frame: str) -> dict[str, Any]:
    """The intrinsics of the samples' camera, None if unknown, and of all by sensor; transforms of frames."""
    infos = dict(known.other_cameras)
    if known.camera_info is not None:
        infos[camera] = known.camera_info
    cameras = {sensor: _intrinsics(info) for sensor, info in islice(sorted(infos.items()), MOST_CAMERAS)}
    return {
        "rig": rig_frame,
        "camera": None if known.camera_info is None else _intrinsics(known.camera_info),
        "cameras": {sensor: each for sensor, each in cameras.items() if each is not None},
        "transforms": [
            {
                "parent": each.parent,
                "child": each.child,
                "translation_m": list(each.translation_m),
                "rotation_xyzw": list(each.rotation_xyzw),
            }
            for each in islice(known.transforms.values(), 64)
        ],
    }


def _intrinsics(info: CameraInfo) -> dict[str, Any] | None:
    """How a camera sees; None if its CameraInfo does not say that."""
    found = picture_intrinsics(info)
    if found is None:
        return None
    distortion = [float(value) for value in info.d[:16]]
    return {
        "size": list(found.size),
        "focal_px": list(found.focal_px),
        "principal_px": list(found.principal_px),
        "distortion_model": info.distortion_model,
        "distortion": distortion if all(map(math.isfinite, distortion)) else [],
    }


def configuration(config: Config) -> dict[str, Any]:
    """All settings but those on which no result depends; of files only the names."""
    values: dict[str, Any] = to_jsonable_python(_without_places(config.model_dump(exclude={"workers"})))
    return values


def _without_places(value: Any) -> Any:  # noqa: ANN401 - any setting
    """A setting with the names of files in place of their paths."""
    if isinstance(value, dict):
        return {key: _without_places(each) for key, each in value.items()}
    return value.name if isinstance(value, Path) else value


def versions() -> dict[str, str]:
    """Of this package, Python, and the libraries whose version may change the bytes of a dataset."""
    return {"python": python_version(), **{name: _version(name) for name in ("edgefirst_ros", *LIBRARIES)}}


@cache
def _version(name: str) -> str:
    """Read once: that takes longer than a sample does."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


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
    absent: Sequence[Finding] = (),
    cut_short: bool = False,
) -> dict[str, Any]:
    """The report of a run as plain values; contains no time of day and no path."""
    topics = accounts(ledger, [s for each in sequences for s in each.result.stats.values()])
    report = {
        "format": FORMAT,
        "samples": samples,
        "complete": sum(each.result.own.frames.complete for each in sequences),
        "labelled": ledger.labelled if _has_labels(sequences) else None,
        "formats": _formats(outputs, topics),
        "totals": dict(ledger.totals),
        "topics": topics,
        "codes": _codes(topics),
        "sequences": [_sequence(config, s) for s in sequences],
        "companions": ledger.companions(),
        "pairing": ledger.pairings(),
        "timeline": ledger.timeline(),
        "configuration": configuration(config),
        "versions": versions(),
        "notes": list(notes),
        "hints": [each.text for each in absent if each.severity is Severity.NOTE],
    }
    missed = [e for e in absent if e.severity > Severity.NOTE and e.code is not Code.NO_REFERENCE]
    found = warnings_of(parsed({**report, "interrupted": cut_short}))
    return {**report, "warnings": [*(e.text for e in found), *unread, *(e.text for e in missed)]}


def _has_labels(sequences: Sequence[SequenceSummary]) -> bool:
    """Whether any model sent anything: without one, that samples have no labels is worth no word."""
    return any(s.role in LABEL_ROLES for each in sequences for s in each.result.stats.values())


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


def _codes(topics: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The codes of reasons by their texts, so that nobody needs to know the texts."""
    texts = {text for account in topics.values() for of in account["reasons"].values() for text in of}
    return {text: code for text in sorted(texts) if (code := code_of(text)) is not None}


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
        **_frames(config, run, run.own),
        "cameras": {sensor: _frames(config, run, each) for sensor, each in run.cameras.items()},
        "mounting": "" if run.mounting is None else run.mounting.text,
        **({"doubts": run.doubts} if run.doubts else {}),
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
        "calibration": calibration(run.calibration, run.camera, config.rig_frame),
        "mounts": [*mounts(run.moved, run.calibration.transforms, run.stats.values())],
    }


def _frames(config: Config, run: SequenceResult, of: CameraResult) -> dict[str, Any]:
    """What became of the reference's frames, or of a camera's beside it, and what they are paired with."""
    return {
        "name": of.info.name,
        "start_ns": of.info.start_ns,
        "reference_frames": of.frames.total,
        **{kind: of.frames[kind] for kind in OUTCOMES},
        "complete": of.frames.complete,
        "missing": {config.topics[name].topic: count for name, count in of.missing.items()},
        "references": sorted(of.reference_topics),
        "companions": _companions(config, run, of),
        "chief": {kind: of.frames.chief(kind) for kind in OUTCOMES if of.frames.chief(kind)[1]},
    }


def _companions(config: Config, run: SequenceResult, of: CameraResult) -> dict[str, dict[str, Any]]:
    """By topic, samples with and without it while it sent, and the share of them that its rate promises."""
    found = {}
    for name in sorted(of.paired.keys() | of.missing.keys() | of.lacking.keys()):
        paired, missing, stats = of.paired.get(name, 0), of.missing.get(name, 0), run.stats.get(name)
        lacked, rule = of.lacking.get(name, 0), config.topics[name]
        if paired + missing + lacked == 0 or (stats is None and not lacked):
            continue
        count, reference = paired + missing, _reference(run, of)
        promised = _promised(config, of.frames, name, count, (stats, reference)) if stats and count else 0
        found[rule.topic if stats is None else stats.topic] = {
            "paired": paired,
            "missing": missing,
            "promised": round(promised, 4),
            "lacked": lacked,
            "entry": name,
            "topic": rule.topic,
            "policy": rule.policy,
            "tolerance_ms": rule.tolerance_ms,
        }
    return found


def _promised(
    config: Config, of: FrameCounts, name: str, samples: int, streams: tuple[StreamStats, StreamStats | None]
) -> float:
    """Share of samples that can have a message of a topic, without those in its silences."""
    rule, (stats, reference) = config.topics[name], streams
    if reference is None or not stats.rate_hz:
        return 0.0
    frames = of.total - of["skipped"]
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
    pauses, alive_ns = stats.pauses, round(ALIVE_S * 1e9)
    # Samples are counted as missing until so long after the last message.
    silent_ns = min(pauses.total_ns, pauses.count * alive_ns) + sum(
        min(max(0, late_ns - interval_ns), alive_ns)
        for late_ns in (stats.first_ns - reference.first_ns, reference.last_ns - stats.last_ns)
    )
    silent = silent_ns / whole_ns * frames / samples if whole_ns else 0.0
    return share * max(0.0, 1.0 - silent)


def _share(rule: TopicRule, stats: StreamStats, samples: int) -> float:
    """Share of so many samples that have a message of a topic, if its times are right."""
    if rule.policy == "once":
        return min(1.0, stats.count / samples)
    return min(1.0, stats.rate_hz * 2 * rule.tolerance_ns / 1e9)


def _reference(run: SequenceResult, of: CameraResult) -> StreamStats | None:
    return next((s for s in run.stats.values() if s.topic in of.reference_topics), None)
