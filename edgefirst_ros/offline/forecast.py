"""What a conversion would make of recordings: they are read as it would, and nothing is written."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.format import SampleWriter
from edgefirst_ros.model.untrusted import readable
from edgefirst_ros.offline.convert import Position, Reading, described, drive_warnings, feed_drives
from edgefirst_ros.offline.drives import RecordedDrive, extent_ns
from edgefirst_ros.offline.inputs import Places, open_recordings
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.sources.recording import Excerpt

SHOWN = 8
"""Samples that are taken out of all recordings together."""
AT_END = 0.97
"""Where the last of them lies, as a share of the drive: after it nothing may come any more."""


def outline(
    places: Places,
    config: Config,
    writer: SampleWriter[Any] | None,
    *,
    excerpt: Excerpt | None = None,
    unusable: Mapping[str, str] = MappingProxyType({}),
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
) -> dict[str, Any]:
    """The report of a conversion that is not made.

    Only the pictures of the samples that ``writer`` gets are decoded: some at regular times. In the report, a
    message that a dataset would have is counted as unpaired or written.

    Args:
        places: recordings, or folders of them, as paths or URLs, or an open drive.
        config: the configuration that the conversion would have.
        writer: takes the samples that are to be shown; None if none are, so that no picture is decoded.
        excerpt: the part of every drive to look at; None for all of it.
        unusable: as of ``convert``.
        stop: when set, the report is of what has been read, and says so.
        on_progress: called several times a second.

    Raises:
        RecordingNotFound: a recording does not exist.
        RecordingError: a file is not a recording, unless it is in a folder that was given.
        ConfigError: prefix or reference do not fit a recording.
    """
    inputs = open_recordings(places, config, excerpt)
    drives = [drive for drive, _ in inputs.drives]
    stop = stop or threading.Event()
    times_ns = _times_ns(drives) if writer is not None else []
    dues: dict[str, deque[int]] = defaultdict(lambda: deque(times_ns))

    def is_shown(time_ns: int, sensor: str) -> bool:
        """Of each camera what follows the same times, which is of one moment."""
        due = dues[sensor]
        if not due or time_ns < due[0]:
            return False
        while due and time_ns >= due[0]:
            due.popleft()
        return True

    pipeline = Pipeline(config, [] if writer is None else [writer], shown=is_shown)
    pipeline.tell_unusable(unusable)
    pipeline.notes += inputs.notes
    reading = Reading(pipeline, inputs.drives, stop)
    try:
        with reading.watched(on_progress):
            interrupted = feed_drives(reading, inputs.drives)
            pipeline.complete()
            pipeline.close()
    except BaseException:
        pipeline.abort()
        raise
    report = pipeline.report()
    warnings = [*(left_out.text for left_out in inputs.left_out), *drive_warnings(drives, config)]
    return {
        "dataset": readable(drives[0].path.stem),
        "recordings": [described(part, drive) for drive in drives for part in drive.parts],
        "interrupted": interrupted,
        **report,
        "warnings": [*warnings, *report["warnings"]],
    }


def _times_ns(drives: Sequence[RecordedDrive]) -> list[int]:
    """When to take a sample: at the beginning and near the end of every drive, and evenly in between."""
    each = max(2, SHOWN // len(drives))
    found: list[int] = []
    for drive in drives[: SHOWN // 2]:
        begin_ns, end_ns = extent_ns(drive.parts)
        length_ns = (end_ns - begin_ns) * AT_END
        found += [
            max(0, begin_ns - 10**9),
            *(begin_ns + round(length_ns * n / (each - 1)) for n in range(1, each)),
        ]
    return found


UNUSED = ("refused", "skipped")
"""Columns of messages that nothing uses."""


def forecast(
    places: Places,
    config: Config,
    *,
    excerpt: Excerpt | None = None,
    unusable: Mapping[str, str] = MappingProxyType({}),
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
) -> dict[str, Any]:
    """What a conversion would use and make, as plain values; nothing is written, and no picture decoded.

    Samples whose picture turns out to be damaged, or that a format leaves out, are counted all the same.

    Args:
        places: recordings, or folders of them, as paths or URLs, or an open drive.
        config: the configuration that the conversion would have.
        excerpt: the part of every drive; None for all of it.
        unusable: as of ``convert``.
        stop: when set, the result is of what has been read.
        on_progress: called several times a second.

    Raises:
        RecordingNotFound: a recording does not exist.
        RecordingError: a file is not a recording, unless it is in a folder that was given.
        ConfigError: prefix or reference do not fit a recording.
    """
    report = outline(
        places, config, None, excerpt=excerpt, unusable=unusable, stop=stop, on_progress=on_progress
    )
    sequences: Sequence[Mapping[str, Any]] = report["sequences"]
    missing: dict[str, int] = {}
    for sequence in sequences:
        for topic, count in sequence["missing"].items():
            missing[topic] = missing.get(topic, 0) + count
    return {
        "recordings": [recording["file"] for recording in report["recordings"]],
        "formats": list(config.formats),
        "reference": config.reference,
        "topics": {
            topic: _topic(account, [s for s in sequences if topic in s["streams"]], topic)
            for topic, account in report["topics"].items()
        },
        "reference_frames": sum(sequence["reference_frames"] for sequence in sequences),
        "samples": report["samples"],
        "complete": report["complete"],
        "missing": missing,
        "sequences": len(sequences),
        "interrupted": report["interrupted"],
        "notes": report["notes"],
        "hints": report["hints"],
        "warnings": report["warnings"],
    }


def _topic(account: Mapping[str, Any], of: Sequence[Mapping[str, Any]], topic: str) -> dict[str, Any]:
    """One topic's use, clock, rate and what is not used of it; ``of`` are the sequences that it is in."""
    rates = [(s["streams"][topic]["messages"], s["rates_hz"][topic]) for s in of if s["rates_hz"][topic]]
    sending_s = sum(messages / rate_hz for messages, rate_hz in rates)
    clocks = [sequence["clocks"][topic]["finding"] for sequence in of if topic in sequence["clocks"]]
    return {
        "type": account["type"],
        "role": of[0]["streams"][topic]["role"] if of else None,
        "clock": clocks[0] if clocks else None,
        "rate_hz": round(sum(messages for messages, _ in rates) / sending_s, 3) if rates else None,
        "messages": account["received"],
        "ignored": {r: n for column in UNUSED for r, n in account["reasons"].get(column, {}).items()},
    }
