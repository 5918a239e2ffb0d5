"""The row model of each lidar, fitted while its sweeps are written, and the model elements of its sweeps.

A single sweep seldom shows every row and column: the sky and dark cars return nothing. So the first sweeps
wait for a model of all of them. How it numbers rows and columns then holds for the sequence; where they look
is refined by later sweeps until the sequence is finished. Elements follow their sweep by some others.
A sequence that was killed gets the same model: its sweeps are gone through again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.prepare.lidar import CloudGrid, RowModel, Sweeps
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, Json
from edgefirst_ros.formats.ncore.store.base import Instance, Store
from edgefirst_ros.formats.ncore.store.journal import read_facts
from edgefirst_ros.formats.pace import rest
from edgefirst_ros.formats.zarr2.array import array_records, read_array
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY, Record, under

_FIRST, _LAST = 16, 512
"""Sweeps after which a model is looked for, again at twice as many each time, and no more after the last."""
_PATIENT = 128
"""Rings in no order are waited for so long: one that was never seen could be anywhere among them."""
_EVERY = 8
"""Of the sweeps that follow the model, every so-many-th refines it."""
_TOGETHER = 2
"""Of the sweeps that waited for the model, so many get their elements with every later one."""
_GROUPS = 4
"""A driver may number some sweeps differently, such as those after a lost packet."""
_BATCH = 32
"""Records that are appended together: the elements of some sweeps."""
_ELEMENT_BYTES = 4
"""Row and column of a ray."""
_RAYS = 2048
"""So many rays of a sweep, spread over it, show whether it follows a model."""

Directions = npt.NDArray[np.float32]
Cells = npt.NDArray[np.intp]
Commit = Callable[[Instance, Sequence[Record]], int]


class LidarModels:
    """Row models of the lidars of one sequence; sweeps are passed in order, after they were stored.

    Args:
        stores: of the sequence, as far as they are begun.
        commit: appends records to the store of an instance; the bytes written. None where the sweeps were
            processed before: some have their elements already, and what is appended is not committed.
    """

    def __init__(self, stores: Mapping[str, Store], commit: Commit | None) -> None:
        self._stores = stores
        self._commit = commit
        self._lidars: dict[str, _Lidar] = {}

    @classmethod
    def replayed(cls, journal: Path, stores: Mapping[str, Store]) -> Self:
        """From what a journal and stores hold.

        Raises:
            WriteError: the disk is full or gone.
        """
        models = cls(stores, None)
        directions: dict[str, Callable[[int], Directions]] = {}
        for _, (name, end_us, shape, rings, kept) in read_facts(journal, ["sweep"]):
            store = models._store(name)
            if store is None:
                continue
            if name not in directions:
                directions[name] = _directions(store, name)
            try:
                direction = directions[name](end_us)
            except KeyError:  # the journal outlived the sweep
                continue
            grid = CloudGrid((shape[0], shape[1]), rings, kept)
            models.take(name, end_us, grid, direction, grid.cells())
        return models

    def take(self, name: str, end_us: int, grid: CloudGrid, direction: Directions, cells: Cells) -> int:
        """One sweep of a lidar; the bytes of elements that were written, of whichever sweeps.

        Args:
            name: of the instance.
            end_us: of the sweep, whose key it is.
            grid: of its cloud.
            direction: of its rays (N, 3).
            cells: of the cloud that these are of (N,).

        Raises:
            WriteError: the disk is full or gone.
        """
        if name not in self._lidars:
            store = self._store(name)
            if store is None:
                return 0
            self._lidars[name] = _Lidar(store, name, self._commit)
        return self._lidars[name].take(end_us, grid, direction, cells)

    @property
    def waiting_bytes(self) -> int:
        """About how many bytes ``finish`` appends, before they are compressed."""
        return sum(lidar.waiting_bytes for lidar in [*self._lidars.values()])

    def finish(self) -> dict[str, Json]:
        """Append what elements are left; attributes in ``intrinsics`` by lidar, of those that have a model.

        Raises:
            WriteError: the disk is full or gone.
        """
        found = {name: lidar.finish() for name, lidar in self._lidars.items()}
        return {name: attributes for name, attributes in found.items() if attributes}

    def _store(self, name: str) -> Store | None:
        return next((s for s in self._stores.values() if ("lidars", name) in s.contents.instances), None)


class _Clouds:
    """The sweeps of one shape until there is a model of them."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.waiting: deque[tuple[int, CloudGrid]] = deque()
        self._shape = shape
        self.cells = shape[0] * shape[1]
        self._rings: Counter[int | None] = Counter()
        self._groups: list[Sweeps] = []
        self._count = 0

    def add(self, end_us: int, grid: CloudGrid, direction: Directions, cells: Cells) -> bool:
        """One more; whether a model should be looked for."""
        self.waiting.append((end_us, grid))
        if not len(direction):
            return False
        self._rings[grid.rings] += 1
        self._count += 1
        some = _some(cells, self._shape)
        group = next((each for each in self._groups if each.agrees(direction[some], cells[some])), None)
        if group is None and len(self._groups) < _GROUPS:
            group = Sweeps(self._shape)
            self._groups.append(group)
        if group is not None:
            group.add(direction, cells)
        return self._count >= _FIRST and self._count.bit_count() == 1

    @property
    def spent(self) -> bool:
        """Whether every attempt to fit a model has failed."""
        return self._count >= _LAST

    def fit(self, *, final: bool) -> tuple[RowModel, Sweeps] | None:
        """The model of most sweeps, from those that are numbered alike; of which too little is seen: None."""
        largest = max(self._groups, key=lambda group: group.count, default=None)
        if largest is None:
            return None
        rings, _ = max(self._rings.items(), key=lambda item: (item[1], str(item[0])))
        model = largest.fit(rings)
        unsure = model is not None and len(largest.unplaced(model)) > 0 and self._count < _PATIENT
        return None if model is None or (unsure and not final) else (model, largest)


class _Lidar:
    """One lidar, with the model of the first shape of clouds that has one."""

    def __init__(self, store: Store, name: str, commit: Commit | None) -> None:
        self._store, self._name, self._commit = store, name, commit
        self._base = f"lidars/{name}/frames"
        self._shapes: dict[tuple[int, int], _Clouds] = {}
        self._model: RowModel | None = None
        self._waiting: deque[tuple[int, CloudGrid]] = deque()
        self._batch: list[Record] = []
        self._followed = 0
        self._there = _elements_there(store, name) if commit is None else lambda _: False

    def take(self, end_us: int, grid: CloudGrid, direction: Directions, cells: Cells) -> int:
        """One sweep; the bytes of elements that were written."""
        if self._model is None:
            clouds = self._shapes.get(grid.shape)
            if clouds is None:
                clouds = self._shapes[grid.shape] = _Clouds(grid.shape)
            if not clouds.spent and clouds.add(end_us, grid, direction, cells):
                self._begin(clouds, final=False)
                if clouds.spent:
                    clouds.waiting.clear()
            return 0
        self._catch_up(_TOGETHER)
        if grid.shape == self._model.shape:
            self._judge(end_us, direction, cells)
        return self._flush() if len(self._batch) >= _BATCH else 0

    @property
    def waiting_bytes(self) -> int:
        """About how many bytes of elements ``finish`` appends; of sweeps without a model, if they get one."""
        waiting = max(
            (len(each.waiting) * each.cells for each in [*self._shapes.values()]),
            default=0
            if self._model is None
            else len(self._waiting) * self._model.shape[0] * self._model.shape[1],
        )
        return _ELEMENT_BYTES * waiting + sum(len(data) for _, data in [*self._batch])

    def finish(self) -> Json:
        """Append what is left; the attributes of the model, empty if nothing follows one."""
        if self._model is None:
            # The shape that most sweeps have; the first of two that are as frequent.
            clouds = max(self._shapes.values(), key=lambda each: len(each.waiting), default=None)
            if clouds is not None:
                self._begin(clouds, final=True)
        self._catch_up(len(self._waiting))
        self._flush()
        if self._model is None or not self._followed:
            return {}
        self._refine()
        return self._model.attributes(self._store.contents.instances["lidars", self._name])

    def _begin(self, clouds: _Clouds, *, final: bool) -> None:
        """Take the model of clouds of one shape, if they have one; the others never get any."""
        found = clouds.fit(final=final)
        if found is None:
            return
        self._model, self._seen = found
        # Row and column in one number: that is picked several times as fast as a pair.
        every = self._model.elements(np.arange(self._model.shape[0] * self._model.shape[1]))
        self._whole = every.view(np.uint32).ravel()
        self._unplaced = self._seen.unplaced(self._model)
        self._waiting, self._shapes = clouds.waiting, {}
        self._direction = _directions(self._store, self._name)

    def _catch_up(self, count: int) -> None:
        """Judge some of the sweeps that came before the model."""
        for _ in range(min(count, len(self._waiting))):
            rest()
            end_us, grid = self._waiting.popleft()
            direction, cells = self._direction(end_us), grid.cells()
            if self._follows(direction, cells):
                self._append(end_us, cells)

    def _judge(self, end_us: int, direction: Directions, cells: Cells) -> None:
        """Refine the model by a sweep, and append its elements if it follows the model."""
        some = _some(cells, self._seen.shape)
        more = self._seen.sees_more(cells)
        follows = self._follows(direction, cells)
        if more or (follows and self._followed % _EVERY == 0):
            if self._seen.agrees(direction[some], cells[some]):
                self._seen.add(direction, cells)
            if more and not follows:
                self._refine()
                follows = self._follows(direction, cells)
        if follows:
            self._append(end_us, cells)

    def _append(self, end_us: int, cells: Cells) -> None:
        self._followed += 1
        if not self._there(end_us):
            records = array_records("model_element", self._elements(cells), COMPRESSOR)
            self._batch += under(f"{self._base}/{end_us}/ray_bundle", records)

    def _follows(self, direction: Directions, cells: Cells) -> bool:
        if self._model is None:
            return False
        if len(self._unplaced) and np.isin(self._model.rows(cells), self._unplaced).any():
            return False
        some = _some(cells, self._model.shape)
        return self._model.follows(direction[some], self._elements(cells[some]))

    def _elements(self, cells: Cells) -> npt.NDArray[np.uint16]:
        """Row and column in the model (N, 2)."""
        return self._whole[cells].view(np.uint16).reshape(-1, 2)

    def _refine(self) -> None:
        """Update the directions of rows and columns from all sweeps, if they are numbered as before."""
        if self._model is None:
            return
        refined = self._seen.fit(1 if self._model.transposed else 0)
        if refined is not None and np.array_equal(refined.order, self._model.order):
            self._model = refined

    def _flush(self) -> int:
        batch, self._batch = self._batch, []
        if batch and self._commit is not None:
            return self._commit(("lidars", self._name), batch)
        return self._store.append(batch).size if batch else 0


def _some(cells: Cells, shape: tuple[int, int]) -> slice:
    """A selection of rays from every row and column."""
    step = max(1, len(cells) // _RAYS)
    while gcd(step, shape[0] * shape[1]) > 1:
        step += 1
    return slice(None, None, step)


def _directions(store: Store, name: str) -> Callable[[int], Directions]:
    """Reads the directions of the rays of a sweep by its end; KeyError for one that is not there."""
    base = f"lidars/{name}/frames"
    payload = store.payloads(f"{base}/", "/ray_bundle/direction/")
    return lambda end_us: read_array(payload, f"{base}/{end_us}/ray_bundle/direction")


def _elements_there(store: Store, name: str) -> Callable[[int], bool]:
    base = f"lidars/{name}/frames"
    payload = store.payloads(f"{base}/", "/ray_bundle/model_element/")

    def there(end_us: int) -> bool:
        try:
            payload(f"{base}/{end_us}/ray_bundle/model_element/{ARRAY_KEY}")
        except KeyError:
            return False
        return True

    return there
