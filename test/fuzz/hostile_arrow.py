"""Structured damage of Arrow files: schema, lengths, layouts, writers, messages."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.ipc
from fuzzing import NUMBERS, mutate_bytes


def hostile_arrow(rng: random.Random, data: bytes) -> bytes:
    """An Arrow file of another schema, lengths, layout or writer, or damaged in its messages."""
    if rng.random() < 0.35:
        return _changed_messages(rng, data)
    try:
        with pa.ipc.open_file(pa.BufferReader(data)) as file:
            table = file.read_all()
        table.validate(full=True)  # or Arrow aborts below
    except (pa.ArrowException, ValueError, OSError, TypeError):
        return mutate_bytes(rng, data)
    try:
        for _ in range(rng.choice((0, 1, 1, 2))):
            table = rng.choice(_TABLES)(rng, table)
        if rng.random() < 0.2:
            table = _with_rows(rng, table)
        return _written(rng, table)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError, LookupError):
        return _changed_messages(rng, data)


def _written(rng: random.Random, table: pa.Table) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(
        compression=rng.choice((None, None, "lz4", "zstd")),
        metadata_version=rng.choice((pa.ipc.MetadataVersion.V5, pa.ipc.MetadataVersion.V4)),
        emit_dictionary_deltas=rng.random() < 0.3,
        unify_dictionaries=rng.random() < 0.5,
    )
    new = pa.ipc.new_stream if rng.random() < 0.1 else pa.ipc.new_file
    with new(sink, table.schema, options=options) as writer:
        rows = rng.choice((None, 1, 3))
        # Many rows in batches of their own take a minute to write.
        writer.write_table(table, max_chunksize=rows if table.num_rows < 1_000 else None)
    return sink.getvalue()


def _column(rng: random.Random, table: pa.Table) -> int:
    return rng.randrange(table.num_columns)


def _with_type(rng: random.Random, table: pa.Table) -> pa.Table:
    """A column in other types, nested, encoded or without a use here."""
    at = _column(rng, table)
    rows = table.num_rows
    columns = (
        lambda: pa.nulls(rows, pa.null()),
        lambda: pa.nulls(rows, rng.choice((pa.decimal128(38, 3), pa.date64(), pa.month_day_nano_interval()))),
        lambda: pa.array([b"\xff\xfe\0" * 9] * rows, pa.binary()).view(pa.string()),
        lambda: pa.array(["x" * 3_000] * rows, pa.large_string()),
        lambda: pa.array([{"a": {"b": [1, None]}}] * rows),
        lambda: pa.array([[("k", 1)]] * rows, pa.map_(pa.string(), pa.int8())),
        lambda: pa.UnionArray.from_dense(
            pa.array([0] * rows, pa.int8()), pa.array(range(rows), pa.int32()), [pa.array(range(rows))]
        ),
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array(["a"])),
        lambda: pa.array(["ab"] * rows, pa.string_view()),
        lambda: pa.array([[1.0, float("nan")]] * rows, pa.list_view(pa.float32())),
        lambda: pa.array([float("nan")] * rows, pa.float16()),
        lambda: pa.array([(1 << 63) - 1] * rows, pa.timestamp("ns", "x" * 300)),
        lambda: pa.array([[[[[0.0]]]]] * rows),
        lambda: pa.DictionaryArray.from_arrays(pa.array([5] * rows, pa.int8()), pa.array(["a"]), safe=False),
        lambda: table.column(at).combine_chunks().dictionary_encode(),
        lambda: table.column(at).cast(pa.large_string()),
    )
    return table.set_column(at, table.schema.field(at).name, rng.choice(columns)())


def _with_names(rng: random.Random, table: pa.Table) -> pa.Table:
    names = list(table.column_names)
    at = _column(rng, table)
    names[at] = rng.choice(("", "\0", "\x1b[2J", names[0], "x" * 5000, "__proto__", "../x", "\u202e"))
    return table.rename_columns(names)


def _without(rng: random.Random, table: pa.Table) -> pa.Table:
    return table.remove_column(_column(rng, table))


def _with_rows(rng: random.Random, table: pa.Table) -> pa.Table:
    """More rows than there are bytes for, or none, or repeated or in another order."""
    way = rng.randrange(5)
    if way == 0:
        # Nulls without a type take next to nothing, whatever their number.
        return pa.table({name: pa.nulls(20_000_000) for name in table.column_names})
    if way == 1:
        return table.slice(0, 0)
    if way == 2:
        return pa.concat_tables([table] * rng.choice((2, 40)))
    few = min(table.num_rows, 1000)
    return table.take([rng.randrange(few) for _ in range(few)])


def _with_metadata(rng: random.Random, table: pa.Table) -> pa.Table:
    value = rng.choice(
        (b"2025.01", b"2026.10", b"9", b"\xff", b"[" * 100_000, b"{}", b"null", b'["a"]', b"\0")
    )
    name = rng.choice((b"schema_version", b"labels", b"ARROW:extension:name", b"pandas", b"x" * 9999))
    return table.replace_schema_metadata({**(table.schema.metadata or {}), name: value})


def _with_values(rng: random.Random, table: pa.Table) -> pa.Table:
    """Other values of the same types, nulls among them."""
    at = _column(rng, table)
    field = table.schema.field(at)
    values = table.column(at).to_pylist()
    for _ in range(rng.choice((1, 3))):
        values[rng.randrange(len(values))] = rng.choice(
            (None, 0, -1, 1 << 31, 0.0, float("nan"), float("inf"), 1e300, "", "x" * 300, "../../x",
             "\x1b[2J", [], [float("nan")] * 3, [1e300] * 2, [[]], b"\xff" * 9, *values)
        )  # fmt: skip
    return table.set_column(at, field, pa.array(values, field.type))


_TABLES = (
    _with_type,
    _with_type,
    _with_names,
    _without,
    _with_rows,
    _with_metadata,
    _with_values,
    _with_values,
)
_MARK = b"\xff\xff\xff\xff"


def _changed_messages(rng: random.Random, data: bytes) -> bytes:
    """Change numbers in the flatbuffers of messages or the footer: lengths, offsets, nodes, types."""
    found = bytearray(data)
    places = [at for at in range(0, len(data) - 8, 8) if data[at : at + 4] == _MARK]
    spans = [(at + 4, at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")) for at in places]
    footer = int.from_bytes(data[-10:-6], "little", signed=True)
    spans.append((max(0, len(data) - 10 - max(0, footer)), len(data)))
    for _ in range(rng.choice((1, 1, 2, 4))):
        start, end = rng.choice(spans)
        end = min(end, len(found))
        at = rng.randrange(start, max(start + 1, end)) & ~3
        size = rng.choice((1, 2, 4, 8))
        old = int.from_bytes(found[at : at + size], "little")
        number = rng.choice((*NUMBERS, old + 1, old - 1, old * 2, 1 << 40, (1 << 63) - 1, old + 8, old ^ 1))
        found[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(found) if rng.random() < 0.8 else mutate_bytes(rng, bytes(found))
