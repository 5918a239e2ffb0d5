"""Reads recordings as a conversion would and writes nothing: its report, and a few samples."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.base import SampleWriter
from edgefirst_ros.naming import readable
from edgefirst_ros.offline.convert import Position, described, disorder_warnings, feed_drives
from edgefirst_ros.offline.drives import RecordedDrive
from edgefirst_ros.offline.inputs import open_recordings
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.window import Excerpt

SHOWN = 8
"""Samples that are taken out of all recordings together."""
AT_END = 0.97
"""Where the last of them lies, as a share of the drive: after it nothing may come any more."""


def outline(
    places: Sequence[str | Location],
    config: Config,
    writer: SampleWriter[Any] | None,
    *,
    excerpt: Excerpt | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
) -> dict[str, Any]:
    """The report of a conversion that is not made.

    Only the pictures of the samples that ``writer`` gets are decoded: some at regular times. In the report, a
    message that a dataset would have is counted as unpaired or written. Poses are estimated in one pass.

    Args:
        places: recordings, or folders of them, as paths or URLs.
        config: the configuration that the conversion would have.
        writer: takes the samples that are to be shown; None if none are, so that no picture is decoded.
        excerpt: the part of every drive to look at; None for all of it.
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
    one_pass = config.model_copy(update={"ego": config.ego.model_copy(update={"smoothing": "lag"})})
    due = deque(_times_ns(drives) if writer is not None else ())

    def is_shown(time_ns: int) -> bool:
        if not due or time_ns < due[0]:
            return False
        while due and time_ns >= due[0]:
            due.popleft()
        return True

    pipeline = Pipeline(one_pass, [] if writer is None else [writer], shown=is_shown)
    pipeline.notes += inputs.notes
    try:
        interrupted = feed_drives(pipeline, inputs.drives, stop, on_progress, None)
        pipeline.complete()
        pipeline.close()
    except BaseException:
        pipeline.abort()
        raise
    report = pipeline.report()
    warnings = [*(left_out.text for left_out in inputs.left_out), *disorder_warnings(drives, config)]
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
        spans = [span for part in drive.parts for span in part.spans]
        if spans:
            begin_ns, end_ns = min(a for a, _ in spans), max(b for _, b in spans)
            length_ns = (end_ns - begin_ns) * AT_END
            found += [
                begin_ns - 10**9,
                *(begin_ns + round(length_ns * n / (each - 1)) for n in range(1, each)),
            ]
    return found
