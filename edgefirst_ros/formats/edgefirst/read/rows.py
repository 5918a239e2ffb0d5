"""Rows of the annotation table by sample, read from the mapped file when they are asked for.

Without polars, whose threads do not survive a fork.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.formats.crashsafe.reading import open_regular
from edgefirst_ros.formats.edgefirst.prepare.masks import outline
from edgefirst_ros.formats.edgefirst.read.files import Version, refuse_other

Ring = npt.NDArray[np.float32]
DAMAGE = (pa.ArrowException, MemoryError, OSError, UnicodeDecodeError, LookupError, TypeError, ValueError)
"""What reading a damaged table raises; Arrow has no checksums."""
LONGITUDE_FIRST = "2025.01"
"""The schema version whose locations are longitude, latitude."""


@dataclass(frozen=True, slots=True)
class Row:
    """An annotation, in the same units and order in all schema versions; what it has not is None.

    Attributes:
        label: name of the class.
        box2d: centre x, y, width and height as fractions of the picture.
        box3d: centre x, y, z and extents along x, y, z in metres.
        score2d: confidence of the 2-D box, 0 to 1.
        score3d: of the 3-D box.
        rings: outline of the mask: rings (P, 2) of x, y as fractions of the picture, filled by even-odd rule.
    """

    label: str | None
    box2d: list[float] | None
    box3d: list[float] | None
    score2d: float | None
    score3d: float | None
    rings: list[Ring] | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rows of a sample have in common.

    Attributes:
        location: latitude and longitude in degrees.
        pose: roll, pitch and yaw in degrees.
    """

    location: tuple[float, float] | None
    pose: tuple[float, float, float] | None


class AnnotationTable:
    """The annotation table of a dataset, an index of its samples in memory and the rest in the file.

    Attributes:
        path: the file.
        version: its schema version.
        samples: sequence, frame and group of each sample, in the order of the table.
        labels: all labels, sorted.

    Raises:
        DatasetNotFound: there is no table.
        DatasetError: it is damaged, or has no names and frames.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            part = path.with_name(f"{path.stem}.journal.part")
            advice = (
                f"it is unfinished: edgefirst-ros recover {path.parent} finishes it"
                if part.exists()
                else "is this the folder of a dataset?"
            )
            raise DatasetNotFound(f"{path}: no annotation table; {advice}")
        self._batches: dict[int, Any] = {}
        self._file: Any = None
        with self._readable():
            self._opened = Version.of(path)
            table = self._mapped()
            self.version = (table.schema.metadata or {}).get(b"schema_version", b"2025.01").decode()
            self._names = frozenset(table.schema.names)
            self._index(table.num_record_batches)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except DatasetError:
            raise
        except DAMAGE as error:
            raise DatasetError(f"{self.path} is not a complete Arrow file: {error}") from error

    def _mapped(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        if self._file is None:
            refuse_other(self.path, self._opened)
            open_regular(self.path).close()
            # Threads of Arrow would not survive a fork, either.
            options = pa.ipc.IpcReadOptions(use_threads=False)
            self._file = pa.ipc.open_file(pa.memory_map(str(self.path)), options=options)
        return self._file

    def _batch(self, number: int) -> Any:  # noqa: ANN401 - pyarrow has no types
        """A batch whose offsets were checked, which Arrow does not do by itself."""
        if number not in self._batches:
            batch = self._mapped().get_batch(number)
            batch.validate(full=True)
            self._batches[number] = batch
        return self._batches[number]

    def _index(self, batches: int) -> None:
        """Find the rows of each sample: runs of rows in a batch, in the order of the samples."""
        if missing := {"name", "frame"} - self._names:
            raise DatasetError(f"{self.path} has no column {' and no '.join(sorted(missing))}")
        names, groups, labels = _Codes(), _Codes(), _Codes()
        runs: list[npt.NDArray[np.int64]] = []
        for number in range(batches):
            batch = self._batch(number)
            if not batch.num_rows:
                continue
            name, frame = names.of(batch.column("name")), batch.column("frame")
            if frame.null_count or (name < 0).any():
                raise DatasetError(f"{self.path} has a row without name or frame")
            frame = frame.to_numpy(zero_copy_only=False).astype(np.int64)
            group = groups.of(batch.column("group")) if "group" in self._names else np.full(len(name), -1)
            if "label" in self._names:
                labels.of(batch.column("label"))
            starts = np.flatnonzero((np.diff(name, prepend=-1) != 0) | (np.diff(frame, prepend=-1) != 0))
            counts = np.diff(starts, append=len(name))
            at = np.full(len(starts), number)
            runs.append(np.stack([name[starts], frame[starts], group[starts], at, starts, counts], axis=-1))
        whole = np.concatenate(runs) if runs else np.empty((0, 6), np.int64)
        _, first, sample = np.unique(whole[:, :2], axis=0, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        sample = rank[sample.reshape(-1)]
        order = np.argsort(sample, kind="stable")
        self._runs = whole[order, 3:]
        self._begin = np.searchsorted(sample[order], np.arange(len(first) + 1))
        self.samples = [
            (names.values[name], frame, groups.values[group] if group >= 0 else None)
            for name, frame, group in whole[np.sort(first), :3].tolist()
        ]
        self.labels = tuple(sorted(labels.values))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None, "_batches": {}}

    def _slices(self, sample: int) -> Iterator[Any]:
        first, last = self._begin[sample : sample + 2]
        for number, start, count in self._runs[first:last].tolist():
            yield self._batch(number).slice(start, count)

    def facts(self, sample: int) -> Facts:
        """What the rows of a sample have in common; by its number in ``samples``.

        Raises:
            DatasetError: the table is damaged, or was replaced.
        """
        with self._readable():
            rows = next(self._slices(sample))
            location, pose = (
                rows.column(name)[0].as_py() if name in self._names else None for name in ("location", "pose")
            )
        if location is not None and self.version == LONGITUDE_FIRST:
            location = location[::-1]
        return Facts(location and tuple(location), pose and tuple(pose))

    def rows(self, sample: int, *, with_masks: bool = True) -> list[Row]:
        """The rows of a sample; one without annotation if it has none.

        Raises:
            DatasetError: the table is damaged, or was replaced.
        """
        with self._readable():
            return [row for each in self._slices(sample) for row in self._annotations(each, with_masks)]

    def _annotations(self, rows: Any, with_masks: bool) -> Iterator[Row]:  # noqa: ANN401 - pyarrow has no types
        nothing = [None] * rows.num_rows
        columns = [
            rows.column(name).to_pylist() if name in self._names else nothing
            for name in ("label", "box2d", "box3d", "box2d_score", "box3d_score")
        ]
        outlines = [self._rings(rows, n) if with_masks else None for n in range(rows.num_rows)]
        yield from map(Row, *columns, outlines)

    def _rings(self, rows: Any, number: int) -> list[Ring] | None:  # noqa: ANN401 - pyarrow has no types
        """The outline of a row: of the polygon, else of the mask, which is a polygon, too, or a PNG."""
        for name in ("polygon", "mask"):
            if name not in self._names or not (value := rows.column(name)[number]).is_valid:
                continue
            if not pa.types.is_nested(value.type):
                with Image.open(BytesIO(value.as_py()), formats=("PNG",)) as image:
                    return outline(np.asarray(image.convert("L")) > 0)
            if pa.types.is_floating(value.type.value_type):
                return _split(_floats(value.values))
            return [_floats(ring.values).reshape(-1, 2) for ring in value.values]
        return None


class _Codes:
    """Numbers for the texts of a column of several batches."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str, int] = {}

    def of(self, column: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401 - pyarrow has no types
        """The numbers of a column's values, -1 for null."""
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.large_string()).dictionary_encode()
        numbers = column.indices.cast(pa.int64()).fill_null(-1).to_numpy()
        texts = column.dictionary.to_pylist()
        mine = np.full(len(texts) + 1, -1)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            code = self._codes.setdefault(str(texts[number]), len(self._codes))
            if code == len(self.values):
                self.values.append(str(texts[number]))
            mine[number] = code
        found: npt.NDArray[np.int64] = mine[numbers]
        return found


def _floats(values: Any) -> Ring:  # noqa: ANN401 - pyarrow has no types
    return values.to_numpy(zero_copy_only=False).astype(np.float32)  # type: ignore[no-any-return]


def _split(flat: Ring) -> list[Ring]:
    """The rings of one list with NaN between them."""
    gaps = np.flatnonzero(np.isnan(flat))
    parts = np.split(flat, gaps)
    return [part[math.isnan(part[0]) :].reshape(-1, 2) for part in parts if len(part) > 1]
