"""Samples of an EdgeFirst dataset as dictionaries of numpy arrays."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict, overload

import numpy as np
import numpy.typing as npt
from numpy.lib.recfunctions import structured_to_unstructured

from edgefirst_ros.formats.edgefirst.read.decoding import DECODERS
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles, Entry, find_stems, in_order, split
from edgefirst_ros.formats.edgefirst.read.rows import AnnotationTable, Facts, Row
from edgefirst_ros.formats.edgefirst.store.arrowfile import Quality
from edgefirst_ros.model.errors import ConfigError, DatasetError, ExtraNotInstalled, extra
from edgefirst_ros.model.untrusted import refusing

if TYPE_CHECKING:
    import polars as pl


Sample = dict[str, Any]
ANNOTATIONS = ("boxes2d", "boxes3d", "masks")
QUALITY_KEY = "quality"
KEYS = (*DECODERS, *ANNOTATIONS, QUALITY_KEY)
"""What ``keys`` may name; the other keys are in every sample."""
_PARTS = {
    "boxes2d": ("boxes2d", "labels2d", "scores2d", "ignore2d"),
    "boxes3d": ("boxes3d", "labels3d", "scores3d", "ignore3d"),
    "masks": ("masks", "labels_masks", "ignore_masks"),
}
"""What samples have by key of annotations."""
_FIELDS = {"boxes2d": "box2d", "boxes3d": "box3d", "masks": "rings"}
"""What a row has of them."""
NO_LABEL = -1


class Span(NamedTuple):
    """Samples of a dataset that follow one another.

    Attributes:
        name: of the sequence.
        start: number of its first sample.
        stop: of the one after its last.
    """

    name: str
    start: int
    stop: int


class ReadOptions(TypedDict, total=False):
    """Which samples are read, and what of them; see ``EdgeFirstDataset``."""

    keys: Iterable[str] | None
    group: str | None
    transform: Callable[[Sample], Any] | None
    labels: Iterable[str] | None
    labelled: str | None
    require: Iterable[str]


class EdgeFirstDataset:
    """The samples of an EdgeFirst dataset; ``dataset[i]`` reads one when it is asked for.

    A sample is a dictionary of numpy arrays and plain values. What it lacks is None: boxes and masks, too,
    where nobody looked for them, while without any they are empty arrays and lists. All schema versions give
    the same units and orders:

    ============= ==================== ==============================================================
    key           shape, dtype         what
    ============= ==================== ==============================================================
    name          str                  sequence and frame number, as this package names files
    sequence      str                  name of the sequence; of a picture of none, the picture's
    frame         int or None          number of the frame in its sequence; None for a picture of none
    group         str or None          train or val; None for a sample without rows in the table
    location      (2,) float64         latitude, longitude in degrees
    pose          (3,) float64         roll, pitch, yaw in degrees
    time_ns       int                  acquisition of the picture, nanoseconds since 1970
    image         (H, W, 3) uint8      the camera's picture, RGB
    lidar         (N,) structured      points: x, y, z in metres, and the other fields as sent
    radar         (N,) structured      points: x, y, z (m), speed (m/s), power, noise, rcs (dB), float32
    cube          complex64            the radar cube; float32 if it is real
    cube_axes     dict                 by axis of the cube, in order, the place of each bin
    depth         (H, W) uint16        depth image in millimetres
    lidar_depth   (H, W) uint16        range image of the lidar in millimetres
    lidar_reflect (H, W) uint8         its reflectivity
    boxes2d       (N, 4) float32       centre x, y, width, height as fractions of the picture
    labels2d      (N,) int64           their classes in ``labels``, -1 without one
    scores2d      (N,) float32         their confidences, NaN if not stored
    ignore2d      (N,) bool            whether it is a region to leave out of loss and evaluation
    boxes3d       (N, 6) float32       centre x, y, z, and extents along x, y, z in metres
    labels3d      (N,) int64           as labels2d
    scores3d      (N,) float32         as scores2d
    ignore3d      (N,) bool            as ignore2d
    masks         list of lists        by mask, its rings (P, 2) float32: x, y as fractions of the picture
    labels_masks  (N,) int64           as labels2d
    ignore_masks  (N,) bool            as ignore2d
    quality       dict                 what its sensors showed, by measure; see docs/datasets.md
    ============= ==================== ==============================================================

    Samples are those that have files, a row in the table, or both, by sequence and frame. One without rows
    has no objects, by the vendor's rule. Whether somebody looked is in ``quality.parquet``; a dataset without
    it, of others or of an earlier version, does not tell, and its boxes and masks are never None.
    Rows that the table excludes, objects of no class, are left out.

    It can be pickled, and read by any number of threads and processes, forked or spawned: each process opens
    the files for itself. In memory is only an index. ``dataset[10:20]`` is a dataset of these samples.

    Args:
        folder: the dataset's folder.
        name: the dataset's name, where it is not the folder's.
        keys: what to read of ``KEYS``, by default all; samples do not have the others, which cost nothing.
        group: only samples of this group, such as ``train``.
        transform: called with each sample; returns what ``dataset[i]`` shall be.
        labels: names of the classes, so that several datasets have the same numbers.
        labelled: only samples in which somebody looked for these annotations: whose key is not None.
        require: only samples that have all of these, such as ``("cube", "lidar")``: likewise.

    Attributes:
        path: the dataset's folder.
        groups: those that samples have.
        labels: names of the classes, in which ``labels2d`` and the others count: those that were given; else
            those that the file lists, in its order, then others that occur, sorted.
        schema_version: that the table states; None if it states none, which is 2025.10 by the vendor's rule.

    Raises:
        DatasetNotFound: there is no finished dataset.
        DatasetError: it is damaged.
        ConfigError: there is no such key or group, or a label that occurs is not among those that were given.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "",
        *,
        keys: Iterable[str] | None = None,
        group: str | None = None,
        transform: Callable[[Sample], Any] | None = None,
        labels: Iterable[str] | None = None,
        labelled: str | None = None,
        require: Iterable[str] = (),
    ) -> None:
        self.path = folder.absolute()
        self._files = DatasetFiles(self.path, name)
        self._table = AnnotationTable(self._files.table_path(), len(self._files.names))
        self._keys = _known(keys)
        self._quality_read: Quality | None = None
        self._group, self._transform, self._is_part = group, transform, False
        self.groups = tuple(sorted({group for _, _, group in self._table.samples if group is not None}))
        if group is not None and group not in self.groups:
            known = ", ".join(self.groups) or "none"
            raise ConfigError([f"group: {self.path} has no group {group}; it has {known}"])
        self._stems = find_stems(self._files.names, [(name, frame) for name, frame, _ in self._table.samples])
        self._entries = in_order(self._table.samples, self._stems)
        self._entries = self._limited(group, _required(labelled, require))
        self.labels = (
            self._table.labels if labels is None else _chosen(labels, self._table.occurring, self.path)
        )
        self._classes = _numbered(self.labels)
        self.schema_version = self._table.version

    def __repr__(self) -> str:
        group = "" if self._group is None else f", {self._group}"
        return f"<EdgeFirstDataset {self.path.name}{group}: {len(self):,} samples>"

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401 - what a transform returns

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Any:
        """Read a sample; for a slice, a dataset of these samples.

        Raises:
            IndexError: there are fewer.
            DatasetError: a file of it is damaged, gone or replaced.
            ConfigError: a class in its masks is not among the labels that were given.
        """
        if isinstance(index, slice):
            return self._part(index)
        sample = self._sample(index)
        return sample if self._transform is None else self._transform(sample)

    def release(self) -> None:
        """Close all files until they are read again."""
        self._table.release()
        self._files.release()

    @property
    def sequences(self) -> list[Span]:
        """Its sequences, whose samples follow one another, in order."""
        found, start = [], 0
        for name, group in groupby(range(len(self)), lambda number: self.entry(number).sequence):
            stop = start + sum(1 for _ in group)
            found.append(Span(name, start, stop))
            start = stop
        return found

    def numbered(self) -> dict[tuple[str, int | None], int]:
        """The number of each sample by sequence and frame."""
        return {entry.key: number for number, entry in enumerate(self._entries)}

    def only(
        self, group: str | None = None, labelled: str | None = None, require: Iterable[str] = ()
    ) -> Self:
        """Its samples of a group, labelled, and with what is required; maybe none.

        Raises:
            ConfigError: there are no such annotations or keys.
        """
        wanted = _required(labelled, require)
        return self._with(_entries=self._limited(group, wanted), _group=group or self._group)

    def at(self, chosen: Iterable[int]) -> Self:
        """These of its samples, in this order."""
        return self._with(_entries=[self.entry(number) for number in chosen], _is_part=True)

    def sequence_of(self, index: int) -> str:
        """The sequence of a sample."""
        return self.entry(index).sequence

    def kinds(self, index: int) -> Counter[str]:
        """How many files of each kind a sample has."""
        stems = self._stems.get(self.entry(index).key, ())
        return Counter(kind for stem in stems for kind in self._kinds.get(stem, ()))

    def with_labels(self, labels: Iterable[str]) -> Self:
        """The same samples, with the numbers that classes have in ``labels``.

        Raises:
            ConfigError: a label that occurs is not among them.
        """
        chosen = _chosen(labels, self._table.occurring, self.path)
        return self._with(labels=chosen, _classes=_numbered(chosen))

    def with_keys(self, keys: Iterable[str]) -> Self:
        """The same samples with these keys, and without a transform.

        Raises:
            ConfigError: there is no such key.
        """
        return self._with(_keys=_known(keys), _transform=None)

    def file(self, index: int, *kinds: str) -> bytes | None:
        """A sample's file as it is stored, of the first of these kinds that it has, such as ``lidar.pcd``.

        Raises:
            IndexError: there are fewer samples.
            DatasetError: the file is damaged, gone or replaced.
        """
        name = self._find(self.entry(index), kinds)
        return None if name is None else self._files.read_path(name)

    def to_polars(self) -> pl.DataFrame:
        """The annotation table as it is stored, a row an annotation, with all columns of its schema version.

        Raises:
            DatasetError: it is damaged.
            ExtraNotInstalled: polars is missing.
        """
        with extra("polars"):
            import polars as pl

        from edgefirst_ros.formats.edgefirst.finish import read_table

        table = pl.DataFrame(read_table(self._table.path.checked(), files=len(self._files.names)))
        if self._is_part:
            keys = {"name": [e.sequence for e in self._entries], "frame": [e.frame for e in self._entries]}
            mine = pl.DataFrame(keys, {"name": pl.String, "frame": pl.Int64}).unique()
            return table.join(
                mine,
                left_on=[pl.col("name").cast(pl.String), pl.col("frame").cast(pl.Int64)],
                right_on=["name", "frame"],
                how="semi",
                nulls_equal=True,
                maintain_order="left",
            )
        return table if self._group is None else table.filter(pl.col("group").cast(pl.String) == self._group)

    def _sample(self, index: int) -> Sample:
        return self._read(self.entry(index))

    def _part(self, chosen: slice) -> Self:
        return self._with(_entries=self._entries[chosen], _is_part=True)

    def _limited(self, group: str | None, wanted: Collection[str]) -> list[Entry]:
        mine = [entry for entry in self._entries if group in {None, entry.group}]
        return [entry for entry in mine if all(self._has(entry, key) for key in wanted)]

    def _with(self, **changed: Any) -> Self:  # noqa: ANN401 - attributes
        other = copy(self)
        vars(other).update(changed)
        return other

    def entry(self, index: int) -> Entry:
        """What a sample is.

        Raises:
            IndexError: there are fewer.
        """
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        return self._entries[number]

    def _find(self, entry: Entry, kinds: tuple[str, ...]) -> str | None:
        """The path of the first of these kinds of files that a sample has."""
        stems = self._stems.get(entry.key, ())
        return next((name for stem in stems if (name := self._files.find(stem, *kinds)) is not None), None)

    @cached_property
    def _kinds(self) -> dict[str, list[str]]:
        """The kinds of files of each stem."""
        found: dict[str, list[str]] = {}
        for name in self._files.names:
            for stem, kind in split(name):
                found.setdefault(stem, []).append(kind.lower())
        return found

    @property
    def _quality(self) -> Quality:
        if self._quality_read is None:
            self._quality_read = self._files.quality()
        return self._quality_read

    def _has(self, entry: Entry, key: str) -> bool:
        """Whether a key is not None: what was added later on was looked for, too."""
        if key in DECODERS:
            return self._find(entry, DECODERS[key][0]) is not None
        if entry.row is None or key not in self._quality.unlabelled(entry.sequence, entry.frame):
            return True
        rows = self._table.rows(entry.row, with_masks=key == "masks")
        return any(getattr(row, _FIELDS[key]) is not None for row in rows)

    def _read(self, entry: Entry) -> Sample:
        facts = Facts(None, None) if entry.row is None else self._table.facts(entry.row)
        sample: Sample = {
            "name": entry.name,
            "sequence": entry.sequence,
            "frame": entry.frame,
            "group": entry.group,
            "location": None if facts.location is None else np.array(facts.location, np.float64),
            "pose": None if facts.pose is None else np.array(facts.pose, np.float64),
        }
        self._add_files(sample, entry)
        if any(key in self._keys for key in ANNOTATIONS):
            with_masks = "masks" in self._keys
            rows = [] if entry.row is None else self._table.rows(entry.row, with_masks=with_masks)
            self._add_annotations(sample, rows)
            for key in self._quality.unlabelled(entry.sequence, entry.frame) & self._keys:
                if not len(sample[key]):  # what was added to such a sample later on was looked for
                    sample.update(dict.fromkeys(_PARTS[key]))
        if QUALITY_KEY in self._keys:
            sample["quality"] = self._quality.of(entry.sequence, entry.frame)
        return sample

    def _add_files(self, sample: Sample, entry: Entry) -> None:
        kinds_of = dict.fromkeys(kinds for key, (kinds, _) in DECODERS.items() if key in self._keys)
        names = {kinds: self._find(entry, kinds) for kinds in kinds_of}
        read: dict[tuple[str, ...], bytes] = {}
        for key, (kinds, decode) in DECODERS.items():
            if key not in self._keys:
                continue
            name = names[kinds]
            if name is not None and kinds not in read:
                read[kinds] = self._files.read_path(name)
            where = f"{self.path}@{name}"
            advice = "" if key in {"image", "time_ns"} else "; keys=[...] without it reads the rest"
            with refusing(where, DatasetError, f"cannot be decoded (key {key}{advice})"):
                sample[key] = None if name is None else decode(read[kinds])
        if "cube" in self._keys:
            cube = sample["cube"]
            sample["cube"], sample["cube_axes"] = cube or (None, None)

    def _class(self, label: str | None) -> int:
        if label is None:
            return NO_LABEL
        if label not in self._classes:  # in masks of classes, which are not looked into before
            raise ConfigError([f"labels: {self.path} also has {label}; add it"])
        return self._classes[label]

    def _add_annotations(self, sample: Sample, rows: list[Row]) -> None:
        def labels(chosen: list[Row]) -> npt.NDArray[np.int64]:
            return np.array([self._class(row.label) for row in chosen], np.int64)

        if "boxes2d" in self._keys:
            flat = [row for row in rows if row.box2d is not None]
            sample["boxes2d"] = np.array([row.box2d for row in flat], np.float32).reshape(-1, 4)
            sample["labels2d"] = labels(flat)
            sample["scores2d"] = np.array([row.score2d for row in flat], np.float32)
            sample["ignore2d"] = np.array([row.is_ignored for row in flat], np.bool_)
        if "boxes3d" in self._keys:
            solid = [row for row in rows if row.box3d is not None]
            sample["boxes3d"] = np.array([row.box3d for row in solid], np.float32).reshape(-1, 6)
            sample["labels3d"] = labels(solid)
            sample["scores3d"] = np.array([row.score3d for row in solid], np.float32)
            sample["ignore3d"] = np.array([row.is_ignored for row in solid], np.bool_)
        if "masks" in self._keys:
            masked = [row for row in rows if row.rings is not None]
            sample["masks"] = [row.rings for row in masked]
            sample["labels_masks"] = labels(masked)
            sample["ignore_masks"] = np.array([row.is_ignored for row in masked], np.bool_)


def _required(labelled: str | None, require: Iterable[str]) -> frozenset[str]:
    """Keys that must not be None."""
    if labelled is not None and labelled not in ANNOTATIONS:
        raise ConfigError([f"labelled: expected one of {', '.join(ANNOTATIONS)}, found {labelled}"])
    wanted = frozenset([require] if isinstance(require, str) else require)
    if unknown := wanted - {*DECODERS, *ANNOTATIONS}:
        known = ", ".join((*DECODERS, *ANNOTATIONS))
        raise ConfigError([f"require: expected some of {known}, found {', '.join(sorted(unknown))}"])
    return wanted if labelled is None else wanted | {labelled}


def _known(keys: Iterable[str] | None) -> frozenset[str]:
    if keys is None:
        return frozenset(KEYS)
    chosen = [keys] if isinstance(keys, str) else list(keys)
    if unknown := [key for key in chosen if key not in KEYS]:
        raise ConfigError([f"keys: there is no {', '.join(map(str, unknown))}; there are {', '.join(KEYS)}"])
    return frozenset(chosen)


def _numbered(labels: Sequence[str]) -> dict[str, int]:
    return {label: number for number, label in enumerate(labels)}


def _chosen(labels: Iterable[str], found: Sequence[str], path: Path) -> tuple[str, ...]:
    """The labels that were given, if those that occur are among them."""
    chosen = (labels,) if isinstance(labels, str) else tuple(labels)
    if len(set(chosen)) < len(chosen):
        raise ConfigError(["labels: a name is there twice"])
    if missing := [label for label in found if label not in chosen]:
        raise ConfigError([f"labels: {path} also has {', '.join(missing)}; add what is missing"])
    return chosen


_CLOUDS = ("lidar", "radar")
_GRIDS = ("image", "cube", "depth", "lidar_depth", "lidar_reflect")
_LISTS = (
    "boxes2d", "labels2d", "scores2d", "ignore2d", "boxes3d", "labels3d", "scores3d", "ignore3d",
    "labels_masks", "ignore_masks",
)  # fmt: skip
_ANGLES = {"location": 2, "pose": 3}
_UNKNOWN_NS = -1


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
        elif key in _CLOUDS:
            fields = _fields_of(values)
            batch[key] = [None if v is None else tensor(_matrix_of(v, fields)) for v in values]
            batch[f"{key}_fields"] = fields
        elif key in _LISTS:
            batch[key] = [None if value is None else tensor(value) for value in values]
        elif key in _ANGLES:
            unknown = np.full(_ANGLES[key], np.nan)
            batch[key] = tensor(np.stack([unknown if value is None else value for value in values]))
        elif key in {"frame", "time_ns"}:
            batch[key] = torch.tensor([_UNKNOWN_NS if v is None else v for v in values], dtype=torch.int64)
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


def _fields_of(clouds: Sequence[npt.NDArray[np.void] | None]) -> tuple[str, ...]:
    """Fields that all clouds have and that are one number a point: x, y, z, then the others in order."""
    there = [cloud.dtype for cloud in clouds if cloud is not None]
    plain = [
        name
        for name in (there[0].names or () if there else ())
        if all(name in (dtype.names or ()) and not dtype[name].shape for dtype in there)
    ]
    return tuple(sorted(plain, key=lambda name: (name not in {"x", "y", "z"}, plain.index(name))))


def _matrix_of(cloud: npt.NDArray[np.void], fields: Sequence[str]) -> npt.NDArray[np.float32]:
    """The columns (N, F) of a cloud."""
    return np.array(structured_to_unstructured(cloud[list(fields)], np.float32))
