"""Samples of an EdgeFirst dataset as dictionaries of numpy arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL.Image import DecompressionBombError

from edgefirst_ros.errors import ConfigError, DatasetError
from edgefirst_ros.formats.edgefirst.check.container import ZIP_DAMAGE
from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles
from edgefirst_ros.formats.edgefirst.read.pcd import read_pcd
from edgefirst_ros.formats.edgefirst.read.pictures import decode_gray, decode_rgb, taken_ns
from edgefirst_ros.formats.edgefirst.read.rows import AnnotationTable, Row
from edgefirst_ros.formats.edgefirst.store.archive import sample_name
from edgefirst_ros.messages.radar import Axis

if TYPE_CHECKING:
    import polars as pl

Sample = dict[str, Any]
Axes = dict[str, npt.NDArray[np.float64]]


def decode_cube(data: bytes) -> tuple[npt.NDArray[np.complex64] | npt.NDArray[np.float32], Axes]:
    """A radar.png as an array with the axes of the message, and the place of each bin on each axis.

    Range bins begin at the radar; the middle Doppler bin (number bins ÷ 2) has speed 0, positive is receding.
    Bins of other axes are counted from 0.

    Raises:
        DecodeError: it is not a radar.png of this package.
    """
    found = read_cube(data)
    values = found.cube.astype(np.float32)
    array = values.view(np.complex64) if found.is_complex else values
    axes: Axes = {}
    for axis, bins, scale in zip(found.layout, array.shape, found.scales, strict=True):
        name, first = axis.name.lower(), bins // 2 if axis is Axis.DOPPLER else 0
        if name in axes:
            name = f"{name}_{len(axes)}"
        axes[name] = (np.arange(bins) - first) * (scale if axis in {Axis.RANGE, Axis.DOPPLER} else 1.0)
    return array, axes


CAMERA = ("camera.jpeg", "camera.png")
"""The files of which a sample has one for its picture."""
_FILES: dict[str, tuple[tuple[str, ...], Callable[[bytes], Any]]] = {
    "time_ns": (CAMERA, taken_ns),
    "image": (CAMERA, decode_rgb),
    "lidar": (("lidar.pcd",), read_pcd),
    "radar": (("radar.pcd",), read_pcd),
    "cube": (("radar.png",), decode_cube),
    "depth": (("depth.png",), decode_gray),
    "lidar_depth": (("lidar.png",), decode_gray),
    "lidar_reflect": (("lidar.jpeg",), decode_gray),
}
"""By key, the files that it is in and what decodes them."""
ANNOTATIONS = ("boxes2d", "boxes3d", "masks")
KEYS = (*_FILES, *ANNOTATIONS)
"""What ``keys`` may name; the other keys are in every sample."""
NO_LABEL = -1
_DAMAGE = (
    *ZIP_DAMAGE, ArithmeticError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError,
    DecompressionBombError,
)  # fmt: skip
"""What libraries raise for damaged files."""


class EdgeFirstDataset:
    """The samples of an EdgeFirst dataset; ``dataset[i]`` reads one when it is asked for.

    A sample is a dictionary of numpy arrays and plain values. What it lacks is None; boxes and masks that it
    lacks are empty arrays and lists. All schema versions give the same units and orders:

    ============= ==================== ==============================================================
    key           shape, dtype         what
    ============= ==================== ==============================================================
    name          str                  sequence and frame number, as in the names of the files
    sequence      str                  name of the sequence
    frame         int                  number of the frame in its sequence
    group         str or None          train or val
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
    boxes3d       (N, 6) float32       centre x, y, z, and extents along x, y, z in metres
    labels3d      (N,) int64           as labels2d
    scores3d      (N,) float32         as scores2d
    masks         list of lists        by mask, its rings (P, 2) float32: x, y as fractions of the picture
    labels_masks  (N,) int64           as labels2d
    ============= ==================== ==============================================================

    It can be pickled, and read by any number of threads and processes, forked or spawned: each process opens
    the files for itself. In memory is only an index.

    Args:
        folder: the dataset's folder.
        name: the dataset's name, where it is not the folder's.
        keys: what to read of ``KEYS``, by default all; samples do not have the others, which cost nothing.
        group: only samples of this group, such as ``train``.
        transform: called with each sample; returns what ``dataset[i]`` shall be.

    Attributes:
        path: the dataset's folder.
        labels: names of all classes of the dataset, sorted; ``labels2d`` and the others count in it.
        schema_version: of the table.

    Raises:
        DatasetNotFound: there is no finished dataset.
        DatasetError: it is damaged.
        ConfigError: there is no such key or group.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "",
        *,
        keys: Iterable[str] | None = None,
        group: str | None = None,
        transform: Callable[[Sample], Any] | None = None,
    ) -> None:
        self.path = folder.absolute()
        self._files = DatasetFiles(self.path, name)
        self._table = AnnotationTable(self._files.table)
        self._keys = _known(keys)
        self._group, self._transform = group, transform
        samples = self._table.samples
        groups = {found for _, _, found in samples if found is not None}
        if group is not None and group not in groups:
            known = ", ".join(sorted(groups)) or "none"
            raise ConfigError([f"group: {self.path} has no group {group}; it has {known}"])
        self._chosen = [n for n, (_, _, found) in enumerate(samples) if group is None or found == group]
        self._stems = {stem.rpartition("/")[2]: stem for stem in self._files.stems()}
        self.labels = self._table.labels
        self._classes = {label: number for number, label in enumerate(self.labels)}
        self.schema_version = self._table.version

    def __repr__(self) -> str:
        group = "" if self._group is None else f", {self._group}"
        return f"<EdgeFirstDataset {self.path.name}{group}: {len(self):,} samples>"

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - what a transform returns
        """Read a sample.

        Raises:
            IndexError: there are fewer.
            DatasetError: a file of it is damaged, gone or replaced.
        """
        sample = self._read(self._number(index))
        return sample if self._transform is None else self._transform(sample)

    def with_keys(self, keys: Iterable[str]) -> EdgeFirstDataset:
        """The same samples with these keys, and without a transform.

        Raises:
            ConfigError: there is no such key.
        """
        other = copy(self)
        vars(other).update(_keys=_known(keys), _transform=None)
        return other

    def file(self, index: int, *kinds: str) -> bytes | None:
        """A sample's file as it is stored, of the first of these kinds that it has, such as ``lidar.pcd``.

        Raises:
            IndexError: there are fewer samples.
            DatasetError: the file is damaged, gone or replaced.
        """
        return self._files.read(self._stem(self._number(index)), *kinds)

    def to_polars(self) -> pl.DataFrame:
        """The annotation table as it is stored, a row an annotation, with all columns of its schema version.

        Raises:
            DatasetError: it is damaged.
        """
        import polars as pl

        from edgefirst_ros.formats.edgefirst.finish.table import read_table

        table = read_table(self._table.path)
        return table if self._group is None else table.filter(pl.col("group").cast(pl.String) == self._group)

    def _number(self, index: int) -> int:
        """The number in the table of the sample of an index."""
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        return self._chosen[number]

    def _stem(self, number: int) -> str:
        """The path of a sample's files, without sensor and extension."""
        sequence, frame, _ = self._table.samples[number]
        name = sample_name(sequence, frame)
        return self._stems.get(name, f"{sequence}/{name}")

    def _read(self, number: int) -> Sample:
        sequence, frame, group = self._table.samples[number]
        facts = self._table.facts(number)
        sample: Sample = {
            "name": sample_name(sequence, frame),
            "sequence": sequence,
            "frame": frame,
            "group": group,
            "location": None if facts.location is None else np.array(facts.location, np.float64),
            "pose": None if facts.pose is None else np.array(facts.pose, np.float64),
        }
        self._add_files(sample, self._stem(number))
        if any(key in self._keys for key in ANNOTATIONS):
            self._add_annotations(sample, self._table.rows(number, with_masks="masks" in self._keys))
        return sample

    def _add_files(self, sample: Sample, stem: str) -> None:
        read: dict[tuple[str, ...], bytes | None] = {}
        for key, (kinds, decode) in _FILES.items():
            if key not in self._keys:
                continue
            if kinds not in read:
                read[kinds] = self._files.read(stem, *kinds)
            data = read[kinds]
            try:
                sample[key] = None if data is None else decode(data)
            except _DAMAGE as error:
                kind = next(kind for kind in kinds if f"{stem}.{kind}" in self._files.names)
                raise DatasetError(f"{self.path}@{stem}.{kind} cannot be decoded: {error}") from error
        if "cube" in self._keys:
            cube = sample["cube"]
            sample["cube"], sample["cube_axes"] = cube or (None, None)

    def _add_annotations(self, sample: Sample, rows: list[Row]) -> None:
        def labels(chosen: list[Row]) -> npt.NDArray[np.int64]:
            numbers = [NO_LABEL if row.label is None else self._classes[row.label] for row in chosen]
            return np.array(numbers, np.int64)

        if "boxes2d" in self._keys:
            flat = [row for row in rows if row.box2d is not None]
            sample["boxes2d"] = np.array([row.box2d for row in flat], np.float32).reshape(-1, 4)
            sample["labels2d"] = labels(flat)
            sample["scores2d"] = np.array([row.score2d for row in flat], np.float32)
        if "boxes3d" in self._keys:
            solid = [row for row in rows if row.box3d is not None]
            sample["boxes3d"] = np.array([row.box3d for row in solid], np.float32).reshape(-1, 6)
            sample["labels3d"] = labels(solid)
            sample["scores3d"] = np.array([row.score3d for row in solid], np.float32)
        if "masks" in self._keys:
            masked = [row for row in rows if row.rings is not None]
            sample["masks"] = [row.rings for row in masked]
            sample["labels_masks"] = labels(masked)


def _known(keys: Iterable[str] | None) -> frozenset[str]:
    if keys is None:
        return frozenset(KEYS)
    chosen = [keys] if isinstance(keys, str) else list(keys)
    if unknown := [key for key in chosen if key not in KEYS]:
        raise ConfigError([f"keys: there is no {', '.join(map(str, unknown))}; there are {', '.join(KEYS)}"])
    return frozenset(chosen)
