"""Reads recordings as a conversion would, for a writer that keeps no dataset."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.base import MeasurementWriter
from edgefirst_ros.offline.convert import Position, disorder_warnings, feed_drives
from edgefirst_ros.offline.inputs import open_recordings
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.pipeline.executor import worker_count
from edgefirst_ros.pipeline.processes import are_worth_it
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.window import Excerpt


def observe(
    places: Sequence[str | Location],
    config: Config,
    writer: MeasurementWriter[Any],
    *,
    excerpt: Excerpt | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
) -> list[str]:
    """Give every measurement and pose of recordings to a writer; returns warnings about the recordings.

    Poses are estimated in one pass, so that the first ones come at once.

    Args:
        places: recordings, or folders of them, as paths or URLs.
        config: the configuration that a conversion would have.
        writer: takes the measurements, of the camera those that are selected.
        excerpt: the part of every drive to read; None for all of it.
        stop: when set, what has been read is completed.
        on_progress: called several times a second.

    Raises:
        RecordingNotFound: a recording does not exist.
        RecordingError: a file is not a recording, unless it is in a folder that was given.
        ConfigError: prefix or reference do not fit a recording.
        ExtraNotInstalled: the library for a URL or a bag is missing.
    """
    inputs = open_recordings(places, config, excerpt)
    one_pass = config.model_copy(update={"ego": config.ego.model_copy(update={"smoothing": "lag"})})
    size = sum(drive.size for drive, _ in inputs.drives)
    in_processes = are_worth_it(worker_count(config.workers), size)
    pipeline = Pipeline(one_pass, [writer], processes=in_processes)
    pipeline.notes += inputs.notes
    try:
        feed_drives(pipeline, inputs.drives, stop or threading.Event(), on_progress, None)
        pipeline.complete()
        pipeline.close()
    except BaseException:
        pipeline.abort()
        raise
    left_out = [left_out.text for left_out in inputs.left_out]
    return [*left_out, *disorder_warnings([drive for drive, _ in inputs.drives], config)]
