"""What the report says of each sequence's streams and sensors, for plots: all of it of bounded size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from platform import python_version
from typing import Any

from pydantic_core import to_jsonable_python

from edgefirst_ros.config.model import Config
from edgefirst_ros.messages.calibration import picture_intrinsics
from edgefirst_ros.pipeline.sequence import SequenceResult
from edgefirst_ros.sample import Calibration
from edgefirst_ros.timing.gaps import StreamStats
from edgefirst_ros.timing.histogram import folded, quantile

MOST_TRANSFORMS = 64
MOST_COEFFICIENTS = 16
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
        "messages": stats.count,
        "first_ns": stats.first_ns,
        "last_ns": stats.last_ns,
        "usual_interval_ms": None if usual_ns is None else round(usual_ns / 1e6, 3),
        "frame_id": stats.frame_id,
        "pauses": {
            "count": pauses.count,
            "total_s": round(pauses.total_ns / 1e9, 3),
            "longest_ns": [list(span) for span in pauses.longest],
        },
        "latency_ms": _latency(stats.latencies),
    }


def _latency(counts: Mapping[int, int]) -> dict[str, Any] | None:
    found = folded(counts, 1.0)
    if found is None:
        return None
    return {
        "p50": quantile(counts, 0.5),
        "p95": quantile(counts, 0.95),
        "max": max(counts),
        **found,
    }


def calibration(known: Calibration) -> dict[str, Any]:
    """The camera's intrinsics, None if unknown, and the transforms between frames."""
    info = known.camera_info
    found = None if info is None else picture_intrinsics(info)
    camera = None
    if info is not None and found is not None:
        distortion = [float(value) for value in info.d[:MOST_COEFFICIENTS]]
        camera = {
            "size": list(found.size),
            "focal_px": list(found.focal_px),
            "principal_px": list(found.principal_px),
            "distortion_model": info.distortion_model,
            "distortion": distortion if all(map(math.isfinite, distortion)) else [],
        }
    return {
        "camera": camera,
        "transforms": [
            {
                "parent": each.parent,
                "child": each.child,
                "translation_m": list(each.translation_m),
                "rotation_xyzw": list(each.rotation_xyzw),
            }
            for each in islice(known.transforms.values(), MOST_TRANSFORMS)
        ],
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
