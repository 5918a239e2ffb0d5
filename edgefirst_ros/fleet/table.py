"""What the notes on complete drives say, compacted in Parquet files beside them.

The notes decide: a row counts only while a listing has its note in the same state, and of any other note the
file is read. So whoever writes the tables last, or is killed before, costs the next run time, nothing else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from edgefirst_ros.fleet.notes import DONE, Notes, decoded, read_all
from edgefirst_ros.model.untrusted import is_fault

PLANNED, WHOLE = f"{DONE}/plan.parquet", f"{DONE}/notes.parquet"
"""A few columns of all notes, from which plans are made; all of each note, for the fleet's report."""
_ROWS = 1024
_AT_ONCE = 256
"""Whole notes in memory: of some 10 kB each."""
_KEY = [("key", pa.string()), ("state", pa.string())]
_COLUMNS = pa.schema(
    [
        *_KEY, ("drive", pa.string()), ("bytes", pa.int64()), ("recorded_s", pa.float64()),
        ("core_s", pa.float64()), ("is_empty", pa.bool_()), ("is_doubtful", pa.bool_()),
    ]
)  # fmt: skip
_NOTES = pa.schema([*_KEY, ("note", pa.string())])
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """What a plan needs of the note on a complete drive.

    Attributes:
        key: what its datasets were made from.
        drive: name of its output.
        bytes: of its inputs.
        recorded_s: how long it is.
        core_s: seconds of processors that its conversion took; of an earlier version's note by the clock.
        is_empty: there are no samples.
        is_doubtful: something of it was lost, damaged or warned of.
    """

    key: str
    drive: str
    bytes: int
    recorded_s: float
    core_s: float
    is_empty: bool
    is_doubtful: bool

    @classmethod
    def of(cls, key: str, note: Mapping[str, Any]) -> Done:
        """That of a note, which a key names."""
        report = note["report"]
        lost = report["lost"].keys() - {"never arrived"}
        return cls(
            key,
            str(note["drive"]),
            sum(file["size"] for file in note["inputs"]),
            float(note["recorded_s"]),
            float(note.get("core_s", note["seconds"])),
            not report["samples"],
            bool(report["faults"] or report["warnings"] or lost),
        )


def read_done(notes: Notes, damaged: list[str] | None = None) -> dict[str, Done]:
    """What is done, by key; ``damaged`` gets the names of notes that cannot be understood.

    Raises:
        OSError: the storage does not answer.
    """
    states = notes.states(DONE)
    found: dict[str, Done] = {}
    for columns in _batches(notes.load(PLANNED), _COLUMNS, _ROWS):
        for key, state, *values in columns:
            if states.get(key) == state and None not in values:
                found[key] = Done(key, *values)
                del states[key]  # 50,000 of them are not needed twice
    for some in _parts(states, _AT_ONCE):
        found |= {key: Done.of(key, note) for key, note in read_all(notes, DONE, some, damaged).items()}
    return found


def each_done(notes: Notes, take: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Give all notes on complete drives to a function, with their keys; then compact them, if that is due.

    Raises:
        OSError: the storage does not answer.
    """
    states = notes.states(DONE)
    data, known = notes.load(WHOLE), set[str]()
    columns = _batches(data, _NOTES, _ROWS, ["key", "state"])
    is_current = dict(row for rows in columns for row in rows) == states
    planned, whole = _Writer(_COLUMNS), _Writer(_NOTES)

    def taken(key: str, note: Mapping[str, Any], text: str) -> None:
        known.add(key)
        take(key, note)
        if not is_current:
            done = Done.of(key, note)
            planned.add((key, states[key], *(getattr(done, name) for name in _COLUMNS.names[2:])))
            whole.add((key, states[key], text))

    for rows in _batches(data, _NOTES, _AT_ONCE):
        for key, state, text in rows:
            if states.get(key) != state or key in known or text is None:
                continue
            if note := decoded(f"{DONE}/{key}", text.encode(errors="replace"), state).values:
                taken(key, note, text)
    for some in _parts([key for key in states if key not in known], _AT_ONCE):
        for key, note in read_all(notes, DONE, some).items():
            taken(key, note, json.dumps(note, separators=(",", ":")))
    if not is_current:
        notes.store(PLANNED, planned.data())
        notes.store(WHOLE, whole.data())  # the last, as it says whether they are current


class _Writer:
    """A Parquet file in memory, made row by row."""

    def __init__(self, schema: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self._schema, self._rows = schema, list[tuple[Any, ...]]()
        self._sink = pa.BufferOutputStream()
        # Keys are all different; groups of few rows take little memory to read.
        self._file = pq.ParquetWriter(self._sink, schema, compression="zstd", use_dictionary=False)

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self._flush()

    def data(self) -> bytes:
        """All of the file, which ends with that."""
        self._flush()
        self._file.close()
        return self._sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(c, field.type) for c, field in zip(columns, self._schema, strict=True)]
            self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
            self._rows = []


def _batches(
    data: bytes | None,
    schema: Any,  # noqa: ANN401 - pyarrow has no types
    rows: int,
    columns: list[str] | None = None,
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table, some at a time; none of one that is missing, damaged or of another version."""
    if data is None:
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        if not file.schema_arrow.equals(schema):
            return
        # Threads would hold all of it.
        for batch in file.iter_batches(rows, columns=columns, use_threads=False):
            yield [*zip(*(column.to_pylist() for column in batch.columns), strict=True)]
    except Exception as error:
        if not is_fault(error):
            raise
        _LOGGER.debug("a table of notes cannot be read", exc_info=error)


def _parts(keys: Iterable[str], count: int) -> Iterator[list[str]]:
    rest = iter(keys)
    while some := list(islice(rest, count)):
        yield some
