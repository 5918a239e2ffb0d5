"""Converts recordings, as the command does."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import Config, chosen_config, of_keywords, preset
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.offline.convert import Conversion, Position
from edgefirst_ros.offline.convert import convert as run
from edgefirst_ros.offline.sessions import recorded_settings
from edgefirst_ros.report import make_pages
from edgefirst_ros.sources.recording import excerpt_of

Place = str | PathLike[str]


def convert(
    recordings: Place | Sequence[Place],
    output: Place,
    config: Config | Mapping[str, Any] | Place | None = None,
    *,
    start: str | float | None = None,
    end: str | float | None = None,
    name: str = "",
    for_: str = "",
    overwrite: bool = False,
    page: bool = True,
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
    **settings: Any,  # noqa: ANN401 - the fields of the configuration
) -> Conversion:
    """Convert recordings into one dataset of each format, with the result of ``edgefirst-ros convert``.

    Args:
        recordings: files, folders of them, or URLs; one or several.
        output: folder for the datasets: ``output/edgefirst/NAME`` and so on.
        config: a configuration, its values, or a YAML file. None: that of the session for a recording of
            ``capture --record``, else the defaults.
        start: begin here: seconds from the recording's start, or a time in UTC.
        end: end before this; as ``start``.
        name: name of the dataset; default: that of the recording.
        for_: a program with settings of its own, ``studio``, as ``--for``; those that are given win.
        overwrite: replace an existing dataset once the new one is complete.
        page: also write capture_report.html; a warning if that cannot be done.
        stop: when set, from another thread, what has been read is completed.
        on_progress: called several times a second with the file, bytes read and samples written so far.
        **settings: single settings in place of those of ``config``, named as on the command line, such as
            ``rate=2``, ``every=5`` or ``require="lidar"``, or as in the file, such as ``formats=["ncore"]``
            or ``ncore={"store": "directory"}``, which leaves the other options of that block. Those that are
            None count as not given.

    Returns:
        ``paths`` of all datasets, and ``report``: what is in capture_report.json.

    Raises:
        ConfigError: a setting or program is unknown, or invalid; prefix or reference do not fit a recording.
        RecordingNotFound: a recording does not exist.
        RecordingError: a file is not a recording, or cannot be read.
        ExtraNotInstalled: the library for a URL or a bag is missing.
        OutputExists: the dataset exists and ``overwrite`` is off.
        WriteError: the output cannot be written; ``edgefirst-ros recover`` completes what was committed.
    """
    several = [recordings] if isinstance(recordings, str | PathLike) else recordings
    places = [fspath(place) for place in several or ()]
    if not places:
        raise ConfigError(["recordings: none was given"])
    chosen = of_keywords(settings)
    try:
        excerpt = excerpt_of(*(None if limit is None else str(limit) for limit in (start, end)))
        chosen = preset(for_, chosen) if for_ else chosen
    except ConfigError as error:  # which speaks of options of the command
        raise ConfigError([fault.replace("--", "") for fault in error.faults]) from error
    combined, notes = _config(places, config, chosen)
    done = run(
        places,
        Path(output),
        combined,
        excerpt=excerpt,
        dataset=name,
        overwrite=overwrite,
        stop=stop,
        on_progress=on_progress,
        notes=notes,
    )
    if not page:
        return done
    pages, fault = make_pages(done.paths)
    if fault:
        warnings.warn(fault, stacklevel=2)
    return replace(done, paths=(*done.paths, *pages))


def _config(
    places: Sequence[str], config: Config | Mapping[str, Any] | Place | None, settings: Mapping[str, Any]
) -> tuple[Config, list[str]]:
    """The configuration, and notes about where it is from and what of it is not used."""
    notes: list[str] = []
    values: Mapping[str, Any]
    if isinstance(config, Config):
        values = config.model_dump(mode="json")
    elif isinstance(config, Mapping):
        values = config
    elif config is not None:
        values = load_values(Path(config), notes)
    else:
        values, note = recorded_settings(places) or ({}, "")
        notes += [note] if note else []
    return chosen_config(values, settings), notes
