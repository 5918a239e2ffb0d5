"""Opens datasets, and makes batches of their samples for torch's DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from numpy.lib.recfunctions import structured_to_unstructured

from edgefirst_ros.corpus.corpus import Corpus, limited
from edgefirst_ros.corpus.fetching import requests
from edgefirst_ros.corpus.places import LIST, Chosen, Found, Place, copied, find, location, read_list
from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.read.places import LocalPlace
from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound, ExtraNotInstalled
from edgefirst_ros.sources.location import Location, Url

NAME = "edgefirst"
"""The format whose datasets are read as one, and from elsewhere."""
_OPENED_AT_ONCE = 16
"""Datasets whose index is fetched: each takes two or three answers of a store, one after another."""


@overload
def open(  # noqa: A001
    place: Place | Iterable[Place],
    *,
    keys: Iterable[str] | None = None,
    group: str | None = None,
    transform: Callable[[Sample], Any] | None = None,
    labels: Iterable[str] | None = None,
    labelled: str | None = None,
    format: None = None,
) -> EdgeFirstDataset: ...


@overload
def open(  # noqa: A001
    place: Place | Iterable[Place],
    *,
    keys: Iterable[str] | None = None,
    group: str | None = None,
    transform: Callable[[Sample], Any] | None = None,
    labels: Iterable[str] | None = None,
    labelled: str | None = None,
    format: str,
) -> Any: ...  # noqa: ANN401 - each format has samples of its own


def open(  # noqa: A001 - it is called edgefirst_ros.open
    place: Place | Iterable[Place],
    *,
    keys: Iterable[str] | None = None,
    group: str | None = None,
    transform: Callable[[Sample], Any] | None = None,
    labels: Iterable[str] | None = None,
    labelled: str | None = None,
    format: str | None = None,  # noqa: A002 - as the option of commands
) -> Any:
    """Open an EdgeFirst dataset, ZIP or folder, or several as one; see ``EdgeFirstDataset`` for the samples.

    Where there is none, a dataset of another format that has samples, L5Kit: see ``help(type(dataset))``. It
    takes no further arguments; from a URL it is copied whole.

    Args:
        place: the dataset's folder, its ``.arrow`` or ``.zip``, or a folder above it, as path or URL (s3, gs,
            az, https). Of several datasets below a folder, of a list of places, and of a list of samples
            (``.parquet`` with dataset, sequence and frame) it makes a ``Corpus``.
        keys: what to read, such as ``["image", "boxes2d"]``; default: all.
        group: only samples of this group: ``train`` or ``val``.
        transform: called with each sample; returns what ``dataset[i]`` shall be.
        labels: names of the classes in the order of their numbers; by default those that are there.
        labelled: only samples that were searched for ``boxes2d``, ``boxes3d`` or ``masks``, be it without
            result: what to train on.
        format: only datasets of this format, such as ``l5kit``.

    Raises:
        DatasetNotFound: there is no finished dataset, or several of L5Kit.
        DatasetError: it is damaged, or the store does not answer.
        ConfigError: there is no such key or group, or a label that occurs is not among ``labels``.
        ExtraNotInstalled: it is a URL, and obstore is missing.
    """
    chosen: list[Chosen] | None = None
    if isinstance(place, str | PathLike | Url):
        where = _ready(location(place))
        if format not in {None, NAME}:
            return _other(where, format)
        if where.suffix == LIST:
            chosen = read_list(where)
            found = [_only(each) for each in dict.fromkeys(each.dataset for each in chosen)]
        else:
            try:
                found = find(where)
            except DatasetNotFound:
                if format == NAME or (other := _other(where)) is None:
                    raise
                return other
            if len(found) == 1:
                return EdgeFirstDataset(
                    *found[0], keys=keys, group=group, transform=transform, labels=labels, labelled=labelled
                )
    else:
        found = [each for part in place for each in find(_ready(location(part)))]
    if not found:
        raise DatasetNotFound("no dataset was named")
    wanted = None if keys is None else [keys] if isinstance(keys, str) else list(keys)
    members = _opened(found, wanted)
    order = None if chosen is None else _order(chosen, members)
    if order is None:
        members = limited(members, group, labelled)
    corpus = Corpus(
        [(each.shown, member) for each, member in zip(found, members, strict=True)],
        order,
        labels=[labels] if isinstance(labels, str) else labels,
        transform=transform,
        groups=None
        if chosen is None or all(each.group is None for each in chosen)
        else [c.group for c in chosen],
    )
    return corpus if order is None else corpus.only(group, labelled)


def _ready(place: Location) -> Location:
    """A place that is opened now."""
    if isinstance(place, Url):
        requests().open_first()
    return place


def _other(place: Location, wanted: str | None = None) -> Any:  # noqa: ANN401 - each format's own
    """The samples of a dataset of another format, or one that was asked for; None if there is none.

    Raises:
        DatasetNotFound: there are several, or none of the one that was asked for.
    """
    having = {name: each for name, each in FORMATS.items() if type(each).samples is not Format.samples}
    if wanted not in {None, *having}:
        raise ConfigError([f"format: expected one of {', '.join((NAME, *having))}, found {wanted}"])
    of: list[Format[Any]] = []

    def chosen(path: Path) -> Path | None:
        others = [each for name, each in having.items() if wanted in {None, name}]
        found = [(each, dataset) for each in others for dataset in each.find(path) if dataset.exists()]
        if len(found) > 1:
            some = ", ".join(str(place / dataset.relative_to(path).as_posix()) for _, dataset in found[:3])
            raise DatasetNotFound(f"{place}: holds {len(found)} datasets; name one of them, such as {some}")
        of.extend(each for each, _ in found)
        return found[0][1] if found else None

    if isinstance(place, Path):
        path = chosen(place) if place.is_dir() else None
    else:
        path = None if place.root.startswith("http") else copied(place, chosen)
    if path is None and wanted is not None:
        raise DatasetNotFound(f"{place}: holds no finished dataset of {wanted}")
    return None if path is None else of[0].samples(path)


def _only(place: Location) -> Found:
    """The dataset that a list names.

    Raises:
        DatasetNotFound: there is none, or several.
    """
    found = find(_ready(place))
    if len(found) > 1:
        raise DatasetNotFound(f"{place}: holds {len(found)} datasets; a list names each by itself")
    return found[0]


def _opened(found: Sequence[Found], keys: Iterable[str] | None) -> list[EdgeFirstDataset]:
    """Datasets whose index is read and whose files are closed; several at once where that takes requests."""

    def opened(each: Found) -> EdgeFirstDataset:
        dataset = EdgeFirstDataset(*each, keys=keys)
        dataset.release()
        return dataset

    if all(isinstance(each.place, LocalPlace) for each in found):
        return list(map(opened, found))
    with ThreadPoolExecutor(min(_OPENED_AT_ONCE, len(found))) as pool:
        return list(pool.map(opened, found))


def _order(chosen: Sequence[Chosen], members: Sequence[EdgeFirstDataset]) -> npt.NDArray[np.int32]:
    """Member and number there of each sample of a list."""
    numbers = {place: number for number, place in enumerate(dict.fromkeys(each.dataset for each in chosen))}
    inside = [member.numbered() for member in members]
    order = np.empty((len(chosen), 2), np.int32)
    for index, (place, sequence, frame, _) in enumerate(chosen):
        number = numbers[place]
        at = inside[number].get((sequence, frame))
        if at is None:
            raise DatasetError(f"{place}: has no frame {frame} of sequence {sequence}, which the list names")
        order[index] = number, at
    return order


CLOUDS = ("lidar", "radar")
_GRIDS = ("image", "cube", "depth", "lidar_depth", "lidar_reflect")
_LISTS = (
    "boxes2d", "labels2d", "scores2d", "ignore2d", "boxes3d", "labels3d", "scores3d", "ignore3d",
    "labels_masks", "ignore_masks",
)  # fmt: skip
_ANGLES = {"location": 2, "pose": 3}
UNKNOWN_NS = -1


def collate(samples: Sequence[Sample]) -> dict[str, Any]:
    """Make a batch of samples, as ``collate_fn`` of torch's DataLoader; runs in its workers.

    What every sample has in one size becomes one tensor, with the batch as its first dimension: ``image``
    (B, 3, H, W) uint8, ``cube`` complex64, ``depth`` and the lidar's images int32. If sizes differ, or a
    sample lacks it, it is a list of B tensors or None. ``lidar`` and ``radar`` are lists of (N, F) float32
    tensors or None, with x, y, z first; ``lidar_fields`` and ``radar_fields`` name the columns. Boxes,
    labels, scores and what is to be ignored are lists of B tensors, or None where nobody looked for them.
    Where unknown, ``location`` (B, 2) and
    ``pose`` (B, 3) float64 are NaN, and ``time_ns`` and ``frame`` (B,) int64 are -1. Others are lists of what
    the samples have.

    Raises:
        ExtraNotInstalled: torch is missing.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled("torch is not installed: pip install torch", name="torch") from error
    tensor = torch.from_numpy
    batch: dict[str, Any] = {}
    for key in samples[0]:
        values = [sample[key] for sample in samples]
        if key in _GRIDS:
            batch[key] = _stacked([None if v is None else tensor(_grid(key, v)) for v in values], torch.stack)
        elif key in CLOUDS:
            fields = fields_of(values)
            batch[key] = [None if v is None else tensor(matrix_of_cloud(v, fields)) for v in values]
            batch[f"{key}_fields"] = fields
        elif key in _LISTS:
            batch[key] = [None if value is None else tensor(value) for value in values]
        elif key in _ANGLES:
            unknown = np.full(_ANGLES[key], np.nan)
            batch[key] = tensor(np.stack([unknown if value is None else value for value in values]))
        elif key in {"frame", "time_ns"}:
            batch[key] = torch.tensor([UNKNOWN_NS if v is None else v for v in values], dtype=torch.int64)
        else:
            batch[key] = values
    return batch


def _grid(key: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if key == "image" and value.ndim == 3:
        return value.transpose(2, 0, 1)
    return value if key == "cube" else value.astype(np.int32)


def _stacked(tensors: list[Any], stack: Callable[[list[Any]], Any]) -> Any:  # noqa: ANN401 - torch has no types
    shapes = {None if each is None else (each.shape, each.dtype) for each in tensors}
    return stack(tensors) if len(shapes) == 1 and None not in shapes else tensors


def fields_of(clouds: Sequence[npt.NDArray[np.void] | None]) -> tuple[str, ...]:
    """Fields that all clouds have and that are one number a point: x, y, z, then the others in order."""
    there = [cloud.dtype for cloud in clouds if cloud is not None]
    plain = [
        name
        for name in (there[0].names or () if there else ())
        if all(name in (dtype.names or ()) and not dtype[name].shape for dtype in there)
    ]
    return tuple(sorted(plain, key=lambda name: (name not in {"x", "y", "z"}, plain.index(name))))


def matrix_of_cloud(cloud: npt.NDArray[np.void], fields: Sequence[str]) -> npt.NDArray[np.float32]:
    """The columns (N, F) of a cloud."""
    return np.array(structured_to_unstructured(cloud[list(fields)], np.float32))
