"""The catalogue of a fleet's samples, brought up to date as a run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from edgefirst_ros.corpus.catalog import tables_in, update
from edgefirst_ros.corpus.facts import Dataset
from edgefirst_ros.fleet.notes import encoded
from edgefirst_ros.fleet.output import Output
from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.model.zlib_backend import crc32

CATALOG = "catalog.parquet"


def ignored(_: str) -> None:
    """Nobody is told."""


def put_catalog(output: Output, found: Sequence[Dataset], warn: Callable[[str], None]) -> Iterator[str]:
    """Bring the catalogue up to date; where it is, unless there is nothing for one.

    A dataset is read if its drive's note is not the one of the rows that there are.

    Args:
        output: where all is.
        found: the datasets of complete drives.
        warn: is told what is not in it.
    """
    if not found:
        return

    here = output.where("")

    def is_gone(shown: str) -> bool:
        return shown.startswith(here) if here else not ("://" in shown or shown.startswith("/"))

    try:
        with output.renewed(CATALOG) as path:
            faults = update(path, found, is_gone).faults
    except (EdgeFirstError, OSError) as error:
        warn(f"{CATALOG} is as it was: {error}")
        return
    for fault in faults:
        warn(f"not in {CATALOG}: {fault}")
    yield output.where(CATALOG) if "://" in output.shown else f"{output.shown}/{CATALOG}"


def datasets_of(output: Output, note: Mapping[str, Any]) -> Iterator[Dataset]:
    """The datasets of a drive that have rows."""
    files, version = note.get("files", {}), f"note {crc32(encoded(note)):08x}"
    for each in tables_in(files):
        place = str(PurePosixPath(str(note["drive"]), each.folder))
        fetch = partial(output.fetched, [f"{place}/{file}" for file in each.files])
        yield Dataset(output.where(place), each.name, version, each.is_packed, fetch)
