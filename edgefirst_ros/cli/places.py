"""What a user names to look at: a recording, or the datasets of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgefirst_ros.errors import ConfigError, DatasetNotFound, RecordingNotFound
from edgefirst_ros.naming import REPORT

if TYPE_CHECKING:
    from edgefirst_ros.sources.location import Location
    from edgefirst_ros.view.runs import Run


def run_of(place: Location) -> Run | None:
    """The run of a dataset, of its report, or of a folder above one; None for recordings.

    Raises:
        DatasetNotFound: there is neither, or there are the datasets of several runs.
        DatasetError: it is a report, and damaged.
    """
    from edgefirst_ros.formats.datasets import find
    from edgefirst_ros.offline.files import find_files, is_recording
    from edgefirst_ros.sources.kinds import SUFFIXES
    from edgefirst_ros.view.runs import find_run

    if not isinstance(place, Path) or (is_recording(place.name) and not place.is_dir()):
        return None
    if not (place.name.endswith(REPORT) and place.is_file()):
        try:
            find(place)
        except DatasetNotFound:
            if not place.exists():
                raise
            try:
                find_files([place])
            except RecordingNotFound as error:
                endings = ", ".join(SUFFIXES)
                text = f"{place}: holds neither a finished dataset nor a recording ({endings})"
                raise DatasetNotFound(text) from error
            return None
    return find_run(place)


def refuse_for_datasets(place: Location, given: Mapping[str, object]) -> None:
    """Refuse options that only recordings have.

    Args:
        place: a dataset.
        given: values by option; None or False if it was not given.

    Raises:
        ConfigError: one of them was given.
    """
    names = [name for name, value in given.items() if value is not None and value is not False]
    if names:
        them = "it" if len(names) == 1 else "them"
        raise ConfigError([f"{', '.join(names)}: only for recordings, but {place} is a dataset; omit {them}"])
