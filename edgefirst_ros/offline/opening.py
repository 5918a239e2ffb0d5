"""Opens datasets wherever they lie, and says what a recording or a dataset is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.formats.datasets import find as find_all
from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import (
    ConfigError,
    DatasetError,
    DatasetNotFound,
    EdgeFirstError,
    RecordingError,
    RecordingNotFound,
)
from edgefirst_ros.model.untrusted import readable
from edgefirst_ros.offline.drives import FoundFiles, find_drives, find_files, is_recording
from edgefirst_ros.offline.inputs import is_foreign, open_all, suggested
from edgefirst_ros.sources.info import glance, inspect
from edgefirst_ros.sources.location import Location, Url, location_of
from edgefirst_ros.sources.recording import Recording

if TYPE_CHECKING:
    from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, ReadOptions

Place: TypeAlias = str | PathLike[str] | Url
NAME = "edgefirst"
"""The format whose datasets are read as one."""


@overload
def open(  # noqa: A001
    place: Place | Iterable[Place], *, format: None = None, **options: Unpack[ReadOptions]
) -> EdgeFirstDataset: ...


@overload
def open(  # noqa: A001
    place: Place | Iterable[Place], *, format: str, **options: Unpack[ReadOptions]
) -> Any: ...  # noqa: ANN401 - each format has samples of its own


def open(  # noqa: A001 - it is called edgefirst_ros.open
    place: Place | Iterable[Place],
    *,
    format: str | None = None,  # noqa: A002 - as the option of commands
    **options: Unpack[ReadOptions],
) -> Any:
    """Open an EdgeFirst dataset, ZIP or folder, or several as one; see ``EdgeFirstDataset`` for the samples.

    Where there is none, a dataset of another format that has samples, L5Kit: see ``help(type(dataset))``. It
    takes no further arguments.

    Args:
        place: the dataset's folder, its ``.arrow`` or ``.zip``, or a folder above it, as path or URL (s3, gs,
            az, https), of which a copy is made and kept; several datasets are a ``Corpus``, as are those of a
            list of places, each once.
        keys: what to read, such as ``["image", "boxes2d"]``; default: all.
        group: only samples of this group: ``train`` or ``val``.
        transform: called with each sample; returns what ``dataset[i]`` shall be.
        labels: names of the classes in the order of their numbers; by default those that are there.
        labelled: only samples that were searched for ``boxes2d``, ``boxes3d`` or ``masks``, be it without
            result: what to train on.
        require: only samples that have all of these keys, such as ``("cube", "lidar")``.
        format: only datasets of this format, such as ``l5kit``.

    Raises:
        DatasetNotFound: there is no finished dataset, or several of L5Kit.
        DatasetError: it is damaged, or the store does not answer.
        ConfigError: there is no such key or group, or a label that occurs is not among ``labels``.
        WriteError: there is no room for a copy.
        ExtraNotInstalled: it is a URL, and obstore is missing.
    """
    from edgefirst_ros.formats.edgefirst.many import find, open_datasets  # noqa: PLC0415 - takes a moment

    if format not in {None, NAME, *_others()}:
        raise ConfigError([f"format: expected one of {', '.join((NAME, *_others()))}, found {format}"])
    places = [place] if isinstance(place, str | PathLike | Url) else [*(place or ())]
    paths = [nearby(located(each)) for each in places]
    if format not in {None, NAME}:
        return _other(paths, format)
    try:
        found = [*dict.fromkeys(each for path in paths for each in find(path))]
    except DatasetNotFound:
        if format == NAME or (other := _other(paths)) is None:
            raise
        return other
    return open_datasets(found, as_corpus=not isinstance(place, str | PathLike | Url), **options)


def located(place: Place) -> Location:
    """The path or URL that a user means.

    Raises:
        ConfigError: it is neither.
    """
    if not isinstance(place, str | PathLike | Url):
        raise ConfigError([f"expected a path or URL, found {place!r}"])
    return location_of(place if isinstance(place, str | Url) else Path(place))


def nearby(place: Location) -> Path:
    """The path of a dataset, of a URL that of its copy.

    Raises:
        DatasetNotFound: it is a recording.
    """
    if isinstance(place, Path):
        if is_recording(place.name) and place.is_file():
            raise DatasetNotFound(f"{place}: is a recording; edgefirst-ros info says what is in it")
        return place
    from edgefirst_ros.offline.copies import local_copy  # noqa: PLC0415 - only where a URL is given

    return local_copy(place)


def _others() -> dict[str, Format[Any]]:
    """Further formats that have samples."""
    return {name: each for name, each in FORMATS.items() if type(each).samples is not Format.samples}


def _other(paths: Sequence[Path], wanted: str | None = None) -> Any:  # noqa: ANN401 - each format's own
    """The samples of a dataset of another format, or one that was asked for; None if there is none.

    Raises:
        DatasetNotFound: there are several, or none of the one that was asked for.
    """
    others = [each for name, each in _others().items() if wanted in {None, name}]
    found = [
        (each, dataset)
        for path in paths
        for each in others
        for dataset in each.find(path)
        if dataset.exists()
    ]
    where = ", ".join(map(str, paths))
    if len(found) > 1:
        some = ", ".join(str(dataset) for _, dataset in found[:3])
        raise DatasetNotFound(f"{where}: holds {len(found)} datasets; name one of them, such as {some}")
    if not found and wanted is not None:
        raise DatasetNotFound(f"{where}: holds no finished dataset of {wanted}")
    return found[0][0].samples(found[0][1]) if found else None


def info(place: Place, config: Config | None = None) -> dict[str, Any]:
    """What a recording or a dataset is, as plain values: what ``edgefirst-ros info --json`` prints.

    Of a dataset its ``path``, number of ``samples``, ``sequences`` (name and samples), ``groups`` (samples by
    group), ``labels`` and ``schema_version``. Several below a folder also have ``datasets``, a list of these.
    A recording is read whole. A folder with both is its datasets.

    Args:
        place: path or URL of a recording, of a folder with one, or of what ``edgefirst_ros.open`` takes.
        config: which topic is used for what, by default as for a new conversion. With it, a recording has
            ``conversion``: what would become of it.

    Raises:
        RecordingNotFound: there is neither.
        RecordingError: it is damaged, or there are several recordings.
        DatasetError: it is damaged.
    """
    found = next(infos([place], config, whole=True))
    if (count := found.get("recordings", 1)) > 1:
        raise RecordingError(f"{place}: holds {count} recordings; name one of them")
    return found


def infos(
    places: Iterable[Place], config: Config | None = None, *, whole: bool = False
) -> Iterator[dict[str, Any]]:
    """What is in places: ``info`` of each file of recordings, and of the datasets at or below each place.

    Args:
        places: paths or URLs.
        config: as for ``info``.
        whole: read recordings at URLs whole, not only their summaries.

    Raises:
        RecordingNotFound: a place has neither a recording nor a dataset.
        DatasetNotFound: it has only an unfinished dataset.
        RecordingError: one of the recordings is damaged; raised at the end.
        DatasetError: a dataset is damaged.
    """
    recordings: list[Location] = []
    for where in map(located, places):
        with suppress(DatasetNotFound):
            if not is_recording(where.name) or (isinstance(where, Path) and where.is_dir()):
                yield from _datasets(nearby(where))
                continue
        recordings.append(where)
    if recordings:
        try:
            found = find_files(recordings)
        except RecordingNotFound:
            from edgefirst_ros.formats.edgefirst.many import refuse_unfinished  # noqa: PLC0415 - takes a moment

            for place in recordings:
                if isinstance(place, Path):
                    refuse_unfinished(place)
            raise
        yield from _recorded(found, config, whole=whole)


def _recorded(found: FoundFiles, config: Config | None, *, whole: bool) -> Iterator[dict[str, Any]]:
    """What is in each file; with the last of a drive, what a conversion would make, where that is asked."""
    opened = open_all([file.path for file in found.files])
    for drive in find_drives([each for each in opened if isinstance(each, Recording)]):
        foreign = [f"topics are not named as a Maivin's: edgefirst-ros suggest {drive.path} > robot.yaml"]
        is_other = is_foreign(drive.topics(), used := config or Config())
        if is_other and config is None and (whole or isinstance(drive.path, Path)):
            with suppress(EdgeFirstError):  # nothing in it can be used
                made = suggested([part.path for part in drive.parts], used)
                used = build_config(made.values) if made else used
        for part in drive.parts:
            is_brief = isinstance(part.path, Url) and not whole
            said = (glance(part, used) if is_brief else None) or inspect(part, used)
            said["hints"] = foreign if is_other else said["hints"]
            said["recordings"] = len(opened)
            said["drive"] = [readable(each.path.name) for each in drive.parts]
            if part is drive.parts[-1]:
                said["notes"] = [*drive.notes, *filter(None, [found.note])]
                if config is not None and not is_brief:
                    from edgefirst_ros.offline.forecast import forecast  # noqa: PLC0415 - it takes a second

                    said["conversion"] = forecast([each.path for each in drive.parts], config)
            yield said
    for error in opened:
        if not isinstance(error, Recording):
            raise error


def _datasets(path: Path) -> Iterator[dict[str, Any]]:
    """What is at or below a path: the EdgeFirst datasets as one, then those of other formats."""
    found = [(each, dataset) for each, dataset in find_all(path) if dataset.exists()]
    if not found:
        raise DatasetError(f"{path}: is not finished, which edgefirst-ros recover does")
    if any(each.name == NAME for each, _ in found):
        from edgefirst_ros.formats.edgefirst.many import described  # noqa: PLC0415 - takes a moment

        described_here = described(open(path, format=NAME))
        for dataset in (described_here, *described_here.get("datasets", ())):
            # As those of other formats are called, from where the user is.
            dataset["path"] = dataset["path"] if path.is_absolute() else os.path.relpath(dataset["path"])
        yield described_here
    for each, dataset in found:
        if each.name != NAME and (scenes := each.scenes(dataset)) is not None:
            yield {"format": each.name, "path": f"{dataset}", "samples": len(scenes.moments())}
