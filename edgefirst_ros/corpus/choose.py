"""Chooses samples of a catalogue by SQL, distance and number, as a list that is opened, or as a dataset."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgefirst_ros.corpus.catalog import Groups, opened, places_of, relative_to, resolved
from edgefirst_ros.corpus.facts import COLUMNS, DATASET
from edgefirst_ros.corpus.places import location, nearby
from edgefirst_ros.corpus.subset import Picked, write_subset
from edgefirst_ros.formats.crashsafe.names import part_path, take_name
from edgefirst_ros.formats.crashsafe.sync import disk_errors, make_folder, sync_path
from edgefirst_ros.formats.edgefirst.split import DEGREE_M, GUARD_M, drive_group, is_at_border, place_group
from edgefirst_ros.model.errors import ConfigError, DatasetError, OutputExists, extra
from edgefirst_ros.model.moving import Moving
from edgefirst_ros.model.untrusted import refusing

if TYPE_CHECKING:
    import polars as pl

Split = Literal["", "drive", "place"]
LIST = pa.schema(
    [
        pa.field(DATASET, pa.string(), nullable=False),
        pa.field("sequence", pa.string(), nullable=False),
        pa.field("frame", pa.int64()),
        pa.field("group", pa.string()),
    ]
)
"""Columns of a list of samples."""
NEEDED = (DATASET, "drive", "sequence", "frame", "time", "latitude", "longitude", "speed_mps", "group")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of each drive; each applies to what those before it leave.

    Attributes:
        skip_standstill: one sample of each stop.
        where: a condition in SQL on the columns of the catalogue; those that are null do not meet it.
        every_m: least distance of two samples of a sequence, metres.
        every_n: one of so many.
        per_drive: at most so many, drawn by ``seed``.
        seed: of what is drawn.
        split: what a group is made of anew; empty for the groups that samples have.
        val_ratio: share of val.
    """

    skip_standstill: bool = False
    where: str = ""
    every_m: float = 0.0
    every_n: int = 1
    per_drive: int = 0
    seed: int = 0
    split: Split = ""
    val_ratio: float = 0.2

    def faults(self) -> Iterator[str]:
        """A sentence for every value that cannot be meant."""
        numbers = {"every_m": self.every_m, "per_drive": self.per_drive, "seed": self.seed}
        yield from (f"{name}: expected 0 or more, found {n}" for name, n in numbers.items() if not n >= 0)
        if self.every_n < 1:
            yield f"every_n: expected 1 or more, found {self.every_n}"
        if self.split not in {"", "drive", "place"}:
            yield f"split: expected drive or place, found {self.split}"
        if not 0.0 <= self.val_ratio <= 1.0:
            yield f"val_ratio: expected 0 to 1, found {self.val_ratio}"


@dataclass(slots=True)
class Selected:
    """What was chosen.

    Attributes:
        path: of the dataset or list.
        samples: how many were chosen.
        of: of how many.
        datasets: in how many datasets they are.
        notes: sentences on what could not be judged, or is left out.
    """

    path: Path
    samples: int = 0
    of: int = 0
    datasets: int = 0
    notes: list[str] = field(default_factory=list)


def select(
    catalog: str | PathLike[str],
    out: str | PathLike[str],
    *,
    where: str = "",
    every_m: float = 0.0,
    every_n: int = 1,
    skip_standstill: bool = False,
    per_drive: int = 0,
    seed: int = 0,
    split: Split = "",
    val_ratio: float = 0.2,
    overwrite: bool = False,
) -> Selected:
    """Choose samples of a catalogue, and write a list of them, or an EdgeFirst dataset that holds them.

    Args:
        catalog: of ``edgefirst_ros.catalog``; may be a URL.
        out: a list if its name ends with ``.parquet``: columns dataset, sequence, frame and group; else the
            folder of a new dataset, whose sensor files are copies and whose rows say where they are from.
        where: a condition in SQL, such as ``person > 0 and speed_mps > 5``.
        every_m: least distance of two samples of a sequence, in metres.
        every_n: one of so many.
        skip_standstill: one sample of each stop.
        per_drive: at most so many of each dataset.
        seed: draws these, and the groups of ``split``.
        split: new groups, by ``drive`` or by ``place``; see docs/corpus.md.
        val_ratio: share of val in them.
        overwrite: replace what is there.

    Raises:
        ConfigError: the condition is none, or names a column that is not there; a value out of range.
        DatasetError: the catalogue, or a dataset, is damaged, or has changed since.
        OutputExists: ``out`` is there.
        ExtraNotInstalled: polars is missing, which ``where`` needs.
    """
    wish = Wish(skip_standstill, where, every_m, every_n, per_drive, seed, split, val_ratio)
    if faults := [*wish.faults()]:
        raise ConfigError(faults)
    path = Path(out)
    is_list = path.suffix == ".parquet"
    if path.exists() and not overwrite and (is_list or not path.is_dir() or any(path.iterdir())):
        raise OutputExists(f"{path}: exists; give another name, or --overwrite")
    done = Selected(path)
    with nearby(location(catalog)) as source:
        chosen = _chosen(opened(source), wish, done, source)
        if is_list:
            _write_list(path, source, chosen, done)
            return done
        every = {shown: picked for shown, picked in chosen if picked}
        done.samples, done.datasets = sum(map(len, every.values())), len(every)
        if not every:
            raise DatasetError(f"{catalog}: no sample of {done.of:,} is as asked for, so nothing was written")
        write_subset(path, {shown: (resolved(shown, source), picked) for shown, picked in every.items()})
    return done


def _write_list(path: Path, source: Path, chosen: Iterator[tuple[str, list[Picked]]], done: Selected) -> None:
    """A row group for each dataset."""
    with disk_errors(path):
        make_folder(path.absolute().parent)
        with pq.ParquetWriter(part_path(path), LIST) as writer:
            for shown, picked in chosen:
                if not picked:
                    continue
                place = relative_to(resolved(shown, source), path)
                rows = [
                    {DATASET: place, "sequence": p.sequence, "frame": p.frame, "group": p.group}
                    for p in picked
                ]
                writer.write_table(pa.Table.from_pylist(rows, LIST))
                done.samples, done.datasets = done.samples + len(rows), done.datasets + 1
        sync_path(part_path(path))
        take_name(path)


def _chosen(
    file: pq.ParquetFile, wish: Wish, done: Selected, path: Path
) -> Iterator[tuple[str, list[Picked]]]:
    """Each dataset, and what is chosen of it; one at a time is in memory, with what is needed of it."""
    condition, names = _condition(wish.where, file, path)
    counts = {"still": 0, "unplaced": 0, "border": 0}
    groups = Groups(file, names)
    for (shown, _), numbers in places_of(file).items():
        with refusing(path, DatasetError, "is damaged"):
            rows = pa.concat_tables([groups.of(shown, number) for number in numbers])
        done.of += len(rows)
        keep, unknown = _moving(rows, Moving(skip_standstill=wish.skip_standstill), None)
        keep &= _holds(rows, condition, wish.where, file.schema_arrow.names)
        keep, unplaced = _moving(rows, Moving(wish.every_m), keep)
        counts["still"] += max(unknown, unplaced)
        at = np.flatnonzero(keep)[:: wish.every_n]
        placed = _groups(rows, wish, at, counts)
        at = np.array([row for row in at.tolist() if row in placed], np.int64)
        if wish.per_drive and len(at) > wish.per_drive:
            at = np.array(sorted(_drawn(rows, at, wish)), np.int64)
        yield shown, _picked(rows, at, placed)
    if counts["still"]:
        done.notes.append(
            f"no motion is known of {counts['still']:,} samples: they are chosen as if they were apart"
        )
    if counts["unplaced"]:
        done.notes.append(f"{counts['unplaced']:,} samples are left out: their place is not known")
    if counts["border"]:
        done.notes.append(
            f"{counts['border']:,} samples are left out: they are within {GUARD_M:g} m of the other group"
        )


def _condition(where: str, file: pq.ParquetFile, path: Path) -> tuple[pl.Expr | None, list[str]]:
    """The condition, and the columns that are needed."""
    if not where.strip():
        return None, [*NEEDED]
    with extra("polars"):
        import polars as pl
    known = file.schema_arrow.names
    try:
        found = pl.sql_expr(where)
        used = {*found.meta.root_names()}
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise ConfigError(
            [f"where: {where!r} is no condition on columns: {error}; {_there(known)}"]
        ) from error
    if missing := sorted(used - {*known}):
        names = ", ".join(missing)
        raise ConfigError([f"where: {path} has no column {names}; {_there(known)}"])
    return found, [*NEEDED, *sorted(used - {*NEEDED})]


def _there(names: list[str]) -> str:
    classes = [name for name in names if name not in COLUMNS.names]
    return f"there are {', '.join([n for n in names if n not in classes])}; of classes {', '.join(classes)}"


def _holds(rows: pa.Table, condition: pl.Expr | None, where: str, known: list[str]) -> npt.NDArray[np.bool_]:
    """Which rows meet the condition (N,)."""
    if condition is None:
        return np.ones(len(rows), np.bool_)
    import polars as pl

    frame = pl.from_arrow(rows)
    try:
        marked = frame.with_row_index("__row").lazy().filter(condition).select("__row").collect()  # type: ignore[union-attr]
    except pl.exceptions.PolarsError as error:
        what = str(error).partition("\n")[0]
        raise ConfigError([f"where: {where!r} is no condition: {what}; {_there(known)}"]) from error
    found = np.zeros(len(rows), np.bool_)
    found[marked["__row"].to_numpy()] = True
    return found


def _moving(
    rows: pa.Table, wants: Moving, keep: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.bool_], int]:
    """Those of the rows to be kept between which the rig has moved (N,), and of how many nothing is known."""
    found, unknown, of = np.ones(len(rows), np.bool_) if keep is None else keep.copy(), 0, ""
    if not wants.chooses:
        return found, 0
    places, speeds = _places(rows), rows["speed_mps"].to_pylist()
    sequences = rows["sequence"].to_pylist()
    for row in np.flatnonzero(found).tolist():
        if sequences[row] != of:
            of, wants = sequences[row], wants.anew()
        found[row] = wants.refusal(places[row], speeds[row]) is None
        unknown += wants.was_unknown
    return found, unknown


def _places(rows: pa.Table) -> list[tuple[float, float] | None]:
    """Metres east and north, by each place's own latitude; a drive is small on the earth."""
    latitude, longitude = rows["latitude"].to_pylist(), rows["longitude"].to_pylist()
    first = next((value for value in latitude if value is not None), 0.0)
    east_m = DEGREE_M * math.cos(math.radians(first))
    return [
        None if up is None or aside is None else (aside * east_m, up * DEGREE_M)
        for up, aside in zip(latitude, longitude, strict=True)
    ]


def _groups(
    rows: pa.Table, wish: Wish, at: npt.NDArray[np.int64], counts: dict[str, int]
) -> dict[int, str | None]:
    """The group of each of these rows; without those that can be in none."""
    if wish.split != "place":
        groups, drives = rows["group"].to_pylist(), rows["drive"].to_pylist()
        how = wish.val_ratio, wish.seed
        by_drive = wish.split == "drive"
        return {row: drive_group(drives[row], *how) if by_drive else groups[row] for row in at.tolist()}
    found: dict[int, str | None] = {}
    latitude, longitude = rows["latitude"].to_pylist(), rows["longitude"].to_pylist()
    for row in at.tolist():
        place = latitude[row], longitude[row]
        if None in place:
            counts["unplaced"] += 1
        elif is_at_border(*place, wish.val_ratio, wish.seed):
            counts["border"] += 1
        else:
            found[row] = place_group(*place, wish.val_ratio, wish.seed)
    return found


def _drawn(rows: pa.Table, at: npt.NDArray[np.int64], wish: Wish) -> list[int]:
    """So many of these rows as are wanted, the same whatever other drives there are."""
    sequences, frames = rows["sequence"].to_pylist(), rows["frame"].to_pylist()

    def rank(row: int) -> bytes:
        return hashlib.sha256(f"{sequences[row]}\0{frames[row]}\0{wish.seed}".encode()).digest()

    return sorted(at.tolist(), key=rank)[: wish.per_drive]


def _picked(rows: pa.Table, at: npt.NDArray[np.int64], groups: dict[int, Any]) -> list[Picked]:
    some = rows.take(pa.array(at))
    times = some["time"].cast(pa.int64()).to_pylist()
    columns = some["sequence"].to_pylist(), some["frame"].to_pylist(), times
    return [
        Picked(sequence, frame, groups[row], time or 0)
        for row, sequence, frame, time in zip(at.tolist(), *columns, strict=True)
    ]
