"""How many samples for validation have a neighbour for training, which shows nearly the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.corpus.catalog import finished
from edgefirst_ros.corpus.facts import rows_of
from edgefirst_ros.formats.edgefirst.split import DEGREE_M, GROUPS
from edgefirst_ros.model.errors import EdgeFirstError

NEAR_M, NEAR_S = 20.0, 5.0
"""Nearer in both, two pictures show the same street with the same traffic."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Leak:
    """Neighbours in time and place of which one is for training and the other for validation.

    Attributes:
        val: samples for validation whose time and place are known.
        near: how many of these have a neighbour for training.
        elsewhere: how many have one in another dataset.
    """

    val: int
    near: int
    elsewhere: int

    @property
    def text(self) -> str:
        """A sentence."""
        where = f"{self.near:,} of {self.val:,} val samples ({self.near / self.val:.0%})"
        return f"{where} lie within {NEAR_M:g} m and {NEAR_S:g} s of train"


def find_leak(path: Path) -> Leak | None:
    """Neighbours in all EdgeFirst datasets at or below a path; None if no sample could have one.

    Datasets that cannot be read are passed over. In memory are time and place of each sample.
    """
    parts = [*_places(path)]
    groups = {group: [part for name, part in parts if name == group] for group in GROUPS}
    if not all(groups.values()):
        return None
    train, val = (np.concatenate(groups[group]) for group in GROUPS)
    train = train[np.argsort(train[:, 0])]
    first, last = (np.searchsorted(train[:, 0], val[:, 0] + step_s) for step_s in (-NEAR_S, NEAR_S))
    near = elsewhere = 0
    for row, start, end in zip(val, first.tolist(), last.tolist(), strict=True):
        those = train[start:end]
        east_m = math.cos(math.radians(row[1])) * DEGREE_M
        close = np.hypot((those[:, 1] - row[1]) * DEGREE_M, (those[:, 2] - row[2]) * east_m) <= NEAR_M
        near += bool(close.any())
        elsewhere += bool((those[close, 3] != row[3]).any())
    return Leak(len(val), near, elsewhere)


def _places(path: Path) -> Iterator[tuple[str, Floats]]:
    """By group, seconds since the first of all, latitude, longitude and number of the dataset (N, 4)."""
    begin_ns: int | None = None
    for number, each in enumerate(finished(path, path)):
        try:
            for rows in rows_of(each):
                known = rows.filter(rows["time"].is_valid().combine_chunks())
                known = known.filter(known["latitude"].is_valid().combine_chunks())
                times_ns = known["time"].to_numpy().astype(np.int64)
                if not len(times_ns):
                    continue
                begin_ns = int(times_ns[0]) if begin_ns is None else begin_ns
                columns = [known[name].to_numpy() for name in ("latitude", "longitude")]
                table = np.stack(
                    [(times_ns - begin_ns) / 1e9, *columns, np.full(len(times_ns), float(number))], axis=1
                )
                group = np.array(known["group"].to_pylist())
                yield from ((name, table[group == name]) for name in GROUPS if (group == name).any())
        except EdgeFirstError:  # the check itself says what is wrong with it
            continue
