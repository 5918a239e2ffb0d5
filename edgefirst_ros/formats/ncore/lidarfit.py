"""The row model of each lidar, fitted over a whole sequence, and the model elements of its sweeps.

A single sweep seldom shows every row and column: the sky and dark cars return nothing. So sweeps are written
without elements, their grids go to the journal, and the model is fitted when the sequence is finished, from
what the stores hold: a sequence that was killed is no different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.entry import COMPRESSOR, Json
from edgefirst_ros.formats.ncore.journal import read_journal
from edgefirst_ros.formats.ncore.lidarmodel import Grid, RowModel, Sweeps
from edgefirst_ros.formats.ncore.store import Store
from edgefirst_ros.formats.zarr2.array import array_records, read_array
from edgefirst_ros.formats.zarr2.metadata import Record, under

_FITTED_SWEEPS = 100
"""A model is fitted to so many sweeps, spread over the sequence."""
_GROUPS = 4
"""A driver may number some sweeps otherwise, such as those after a lost packet."""
_BATCH = 64
_DIRECTION = "/ray_bundle/direction/"

Sweep = tuple[int, Grid]
"""End of a sweep, microseconds, and its grid."""


def add_model_elements(journal: Path, stores: Mapping[str, Store]) -> dict[str, Json]:
    """Append the model elements of every sweep that follows its lidar's model.

    Args:
        journal: of the sequence, with the grids of its sweeps.
        stores: what holds the sweeps.

    Returns:
        Attributes of the lidars in ``intrinsics``, of those that have a model.

    Raises:
        WriteError: the disk is full or gone.
    """
    kinds: dict[str, Counter[tuple[tuple[int, int], int | None]]] = {}
    for name, (_, grid) in _sweeps(journal):
        kinds.setdefault(name, Counter())[grid.shape, grid.rings] += 1
    found = {}
    for name, counts in kinds.items():
        store = next((s for s in stores.values() if ("lidars", name) in s.contents.instances), None)
        if store is None:
            continue
        (shape, rings), count = max(counts.items(), key=lambda item: (item[1], str(item[0])))
        lidar = _Lidar(journal, store, name, shape)
        model = lidar.fitted(rings, count)
        if model is not None and lidar.append(model):
            found[name] = model.attributes(store.contents.instances["lidars", name])
    return found


def _sweeps(journal: Path) -> Iterator[tuple[str, Sweep]]:
    for _, value in read_journal(journal, ["sweep"]):
        name, end_us, shape, rings, kept = value
        yield name, (end_us, Grid((shape[0], shape[1]), rings, kept))


class _Lidar:
    """The sweeps of one lidar whose clouds have one shape."""

    def __init__(self, journal: Path, store: Store, name: str, shape: tuple[int, int]) -> None:
        self._journal = journal
        self._store = store
        self._base = f"lidars/{name}/frames"
        self._name = name
        self._shape = shape
        self._payload: Callable[[str], bytes] = store.payloads(f"{self._base}/", _DIRECTION)

    def fitted(self, rings: int | None, count: int) -> RowModel | None:
        """The model of most sweeps, fitted to those of some that are numbered alike."""
        groups: list[Sweeps] = []
        for _, direction, cells in self._rays(max(1, -(-count // _FITTED_SWEEPS))):
            group = next((group for group in groups if group.agrees(direction, cells)), None)
            if group is None and len(direction) and len(groups) < _GROUPS:
                group = Sweeps(self._shape)
                groups.append(group)
            if group is not None:
                group.add(direction, cells)
        largest = max(groups, key=lambda group: group.count, default=None)
        return None if largest is None else largest.fit(rings)

    def append(self, model: RowModel) -> int:
        """Append the elements of the sweeps that follow a model; how many did."""
        batch: list[Record] = []
        followed = 0
        for end_us, direction, cells in self._rays(1):
            elements = model.elements(cells)
            if model.follows(direction, elements):
                followed += 1
                records = array_records("model_element", elements, COMPRESSOR)
                batch += under(f"{self._base}/{end_us}/ray_bundle", records)
            if len(batch) >= _BATCH:
                self._store.append(batch)
                batch = []
        if batch:
            self._store.append(batch)
        return followed

    def _rays(self, step: int) -> Iterator[tuple[int, npt.NDArray[np.float32], npt.NDArray[np.intp]]]:
        """Every ``step``-th sweep: its end, the directions of its rays, and their points' indices."""
        number = 0
        for name, (end_us, grid) in _sweeps(self._journal):
            if name != self._name or grid.shape != self._shape:
                continue
            number += 1
            if (number - 1) % step:
                continue
            try:
                direction = read_array(self._payload, f"{self._base}/{end_us}/ray_bundle/direction")
            except KeyError:  # the journal outlived the sweep
                continue
            yield end_us, direction, grid.cells()
