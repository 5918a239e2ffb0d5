"""What a recording or a dataset is, as data."""

from __future__ import annotations

from collections import Counter
from os import PathLike
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.corpus.corpus import Corpus
from edgefirst_ros.corpus.places import location
from edgefirst_ros.corpus.reading import open as open_dataset
from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources.info import inspect
from edgefirst_ros.sources.kinds import SUFFIXES, open_recording
from edgefirst_ros.sources.location import Location, Url


def info(place: str | PathLike[str] | Url, config: Config | None = None) -> dict[str, Any]:
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
    where = location(place)
    recording = _recording(where)
    if recording is not None:
        return inspect(open_recording(recording), config or Config())
    return _described(open_dataset(where))


def _recording(where: Location) -> Location | None:
    """The recording that a place is, or that is in a folder; None if there is none."""
    if where.suffix.lower() in SUFFIXES or (isinstance(where, Path) and where.is_file()):
        return where if where.suffix.lower() in SUFFIXES else None
    found = (
        sorted(p for p in where.glob("*") if p.suffix.lower() in SUFFIXES) if isinstance(where, Path) else []
    )
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
