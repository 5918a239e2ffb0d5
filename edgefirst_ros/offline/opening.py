"""Opens datasets wherever they lie, and says what a recording or a dataset is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, Unpack, overload

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.edgefirst.many import Corpus, find, open_datasets
from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, ReadOptions
from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, RecordingError
from edgefirst_ros.sources.info import inspect
from edgefirst_ros.sources.location import Location, Url, location_of
from edgefirst_ros.sources.recording import SUFFIXES, open_recording

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
            list of places.
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
    if format not in {None, NAME, *_others()}:
        raise ConfigError([f"format: expected one of {', '.join((NAME, *_others()))}, found {format}"])
    places = [place] if isinstance(place, str | PathLike | Url) else [*place]
    paths = [nearby(located(each)) for each in places]
    if format not in {None, NAME}:
        return _other(paths, format)
    try:
        found = [each for path in paths for each in find(path)]
    except DatasetNotFound:
        if format == NAME or (other := _other(paths)) is None:
            raise
        return other
    return open_datasets(found, as_corpus=not isinstance(place, str | PathLike | Url), **options)


def located(place: Place) -> Location:
    """The path or URL that a user means."""
    return location_of(place if isinstance(place, str | Url) else Path(place))


def nearby(place: Location) -> Path:
    """The path of a dataset, of a URL that of its copy."""
    if isinstance(place, Path):
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
    """What a recording or a dataset is, as plain values.

    Of a recording all that ``edgefirst-ros info --json`` says of it, by the same names; it is read whole. Of
    a dataset its ``path``, number of ``samples``, ``sequences`` (name and samples), ``groups`` (samples by
    group), ``labels`` and ``schema_version``; of several below a folder also ``datasets``, a list of these.

    Args:
        place: path or URL of a recording, of a folder with one, or of what ``edgefirst_ros.open`` takes.
        config: which topic is used for what; by default as for a new conversion.

    Raises:
        RecordingNotFound, DatasetNotFound: there is neither.
        RecordingError: it is damaged, or there are several recordings.
        DatasetError: it is damaged.
    """
    where = located(place)
    recording = _recording(where)
    if recording is not None:
        return inspect(open_recording(recording), config or Config())
    return _described(open(where))


def _recording(where: Location) -> Location | None:
    """The recording that a place is, or that is in a folder; None if there is none."""
    if where.suffix.lower() in SUFFIXES or (isinstance(where, Path) and where.is_file()):
        return where if where.suffix.lower() in SUFFIXES else None
    inside = where.glob("*") if isinstance(where, Path) else ()
    found = sorted(path for path in inside if path.suffix.lower() in SUFFIXES)
    if len(found) > 1:
        raise RecordingError(f"{where}: holds {len(found)} recordings; name one of them, such as {found[0]}")
    return next(iter(found), None)


def _described(dataset: Any) -> dict[str, Any]:  # noqa: ANN401 - of any format
    found: dict[str, Any] = {"path": str(getattr(dataset, "path", "")), "samples": len(dataset)}
    if not isinstance(dataset, EdgeFirstDataset):
        return found
    names = Counter[str]()
    for name, start, stop in dataset.sequences:
        names[name] += stop - start
    found["sequences"] = [{"name": name, "samples": count} for name, count in names.items()]
    found["groups"] = {group: len(dataset.only(group)) for group in dataset.groups}
    found["labels"] = list(dataset.labels)
    found["schema_version"] = dataset.schema_version
    if isinstance(dataset, Corpus):
        found["datasets"] = [_described(member) for member in dataset.members]
    return found
