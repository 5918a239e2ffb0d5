"""Recordings that are not MCAP: ROS 1 bags and SQLite files of rosbag2, damaged by structure and by value."""

from __future__ import annotations

import random
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from drives import simulated
from fuzz_recordings import SMALL
from fuzzing import NUMBERS, Target, UnexpectedError, mutate_bytes
from rosbags_made import write_bag, write_db3

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import DecodeError, EdgeFirstError
from edgefirst_ros.model.registry import can_decode, decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.inputs import open_recordings
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.info import inspect
from edgefirst_ros.sources.mcap import McapRecording

SIZES = {".bag": 40, ".db3": 60}
"""Messages."""
_MAGIC = b"#ROSBAG V2.0\n"
_HEADERS = (
    b"op conn topic time index_pos conn_count chunk_count chunk_pos ver count size compression type md5sum "
    b"message_definition latching"
).split()
_TEXTS = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\x1b[2J",
    b"x" * 70_000,
    b"lz4",
    b"bz2",
    b"none",
    b"/a",
    b"a/b/c",
    b"a/B",
)
_NEXT = b"\n" + b"=" * 80 + b"\nMSG: "
_DEFINITIONS = (
    b"string[3000000] x",
    b"float64[4294967295] x",
    b"string[99999999999999999999] x",
    b"string<=9999999999 x",
    b"int8[-1] x",
    b"int8[<=3] x",
    b"x y",
    b"B x",
    b"int8 class",
    b"int8 x\nint8 x",
    b"int8 1x",
    b"int8 x=",
    b"string X=\\",
    b"float64 X=1e999",
    b"wstring x",
    b"time x\nduration y\nbool[] z",
    b"int8 __import__('os')",
    b"int8 x'''\n",
    b"\x1b]0;x\x07 x",
    b"#" * 300_000,
    b"a/B x" + _NEXT + b"a/B\na/B x",
    b"Header header" + _NEXT + b"std_msgs/Header\nint8[] seq\n",
    b"\n".join(b"int8 x%d" % n for n in range(20_000)),
    b"".join(b"M%d x%sa/M%d\n" % (n, _NEXT, n) for n in range(300)) + b"int8 x",
)


def corpus(suffix: str) -> list[bytes]:
    options = DriveOptions(**{**SMALL, "seconds": 0.5})
    messages = list(McapRecording(simulated(options).mcap).messages())
    light = [each for each in messages if len(each.data) < 2_000]
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for number, chosen in enumerate((messages[: SIZES[suffix] // 2], light[: SIZES[suffix]])):
            place = Path(folder) / str(number)
            path = write_bag(place, chosen) if suffix == ".bag" else write_db3(place, chosen)
            made.append(path.read_bytes())
        return made


def mutate_bag(rng: random.Random, data: bytes) -> bytes:
    """Change fields of records' headers, definitions, or lengths; also of those in chunks."""
    if rng.random() < 0.25:
        return mutate_bytes(rng, data)
    try:
        records = _records(data[len(_MAGIC) :])
        for _ in range(rng.choice((1, 1, 2))):
            _change_record(rng, rng.choice(records))
        if rng.random() < 0.1:
            records.insert(rng.randrange(len(records)), rng.choice(records))
        return _MAGIC + _joined(records)
    except (struct.error, IndexError):
        return mutate_bytes(rng, data)


Record = list[bytes]
"""The fields of its header, as ``name=value``, and what it holds, last."""


def _records(data: bytes) -> list[Record]:
    found, at = [], 0
    while at + 8 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        header, at = data[at + 4 : at + 4 + size], at + 4 + size
        (size,) = struct.unpack_from("<I", data, at)
        body, at = data[at + 4 : at + 4 + size], at + 4 + size
        found.append([*_fields(header), body])
    return found


def _fields(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def _joined(records: list[Record]) -> bytes:
    parts = []
    for *fields, body in records:
        header = _sized(fields)
        parts += [struct.pack("<I", len(header)), header, struct.pack("<I", len(body)), body]
    return b"".join(parts)


def _sized(fields: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(field)) + field for field in fields)


def _change_record(rng: random.Random, record: Record) -> None:
    *fields, body = record
    kind = next((field[3:4] for field in fields if field.startswith(b"op=")), b"")
    way = rng.random()
    if kind == b"\5" and way < 0.5:  # a chunk: records again
        inner = _records(body)
        _change_record(rng, rng.choice(inner))
        record[-1] = _joined(inner)
        for at, field in enumerate(fields):
            if field.startswith(b"size="):
                record[at] = b"size=" + struct.pack("<I", len(record[-1]))
    elif kind == b"\7" and way < 0.7:  # a connection: its own header
        record[-1] = _sized(
            [_changed_field(rng, each) if rng.random() < 0.4 else each for each in _fields(body)]
        )
    elif way < 0.8 and fields:
        at = rng.randrange(len(fields))
        record[at] = _changed_field(rng, fields[at])
    elif way < 0.9:
        record[-1] = mutate_bytes(rng, body)
    else:
        del record[rng.randrange(len(record) - 1) : len(record) - 1]


def _changed_field(rng: random.Random, field: bytes) -> bytes:
    name, _, value = field.partition(b"=")
    if name == b"message_definition":
        return name + b"=" + rng.choice((*_DEFINITIONS, value + b"\n" + rng.choice(_DEFINITIONS)))
    way = rng.random()
    if way < 0.1:
        return rng.choice(_HEADERS) + b"=" + value
    if way < 0.2:
        return mutate_bytes(rng, field)
    if len(value) in {1, 4, 8} and way < 0.8:
        return name + b"=" + rng.choice(NUMBERS).to_bytes(8, "little")[: len(value)]
    return name + b"=" + rng.choice(_TEXTS)


_VALUES = [
    "NULL",
    "0",
    "-1",
    "1",
    "2.5",
    "9223372036854775807",
    "-9223372036854775808",
    "1e300",
    "9e999",
    "'x'",
    "''",
    "x'ff'",
    "'a/b/c'",
    "'cdr'",
    "char(0)",
    "'1773483630000000000'",
    "zeroblob(300000)",
    "zeroblob(0)",
    "char(27)||'[2J'",
    "'std_msgs/msg/String'",
    "randomblob(50)",
    "CAST(x'fffe'AS/**/TEXT)",
    "printf('%.*c',70000,'x')",
]
_VIEW = "CREATE TABLE t AS SELECT * FROM {table}; DROP TABLE {table}; CREATE VIEW {table} AS "
_STATEMENTS = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "ALTER TABLE {table} ADD COLUMN more",
    "INSERT INTO {table} SELECT * FROM {table} WHERE 0",
    "UPDATE {table} SET {column} = {value}",
    "UPDATE {table} SET {column} = {value} WHERE id = (SELECT id FROM {table} ORDER BY random() LIMIT 1)",
    "UPDATE {table} SET {column} = {value} WHERE id = (SELECT min(id) FROM {table})",
    "UPDATE {table} SET {column} = {column} || {value}",
    _VIEW + "SELECT * FROM t",
    _VIEW + "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT t.* FROM t, n",
    "PRAGMA user_version = {value}",
    "PRAGMA encoding = 'UTF-16'; VACUUM",
    "PRAGMA journal_mode = WAL",
    "PRAGMA page_size = 65536; VACUUM",
)


def mutate_db3(rng: random.Random, data: bytes) -> bytes:
    """Hostile values and tables by SQL, or changed bytes: pages' heads mostly."""
    way = rng.random()
    if way < 0.15:
        return mutate_bytes(rng, data)
    if way < 0.35:
        changed = bytearray(data)
        at = rng.randrange(0, len(data), 4096) + rng.choice((0, 0, 100, 8))
        changed[at : at + 100] = mutate_bytes(rng, data[at : at + 100])[:100].ljust(100, b"\0")
        return bytes(changed)
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(data)
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(rng.choice((1, 1, 2, 3))):
            table = rng.choice((*(each for each in tables if each in {"messages", "topics"}), *tables))
            columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")] or ["id"]
            words = {"table": table, "column": rng.choice(columns), "value": rng.choice(_VALUES)}
            statement = rng.choice((*_STATEMENTS, *_STATEMENTS[6:9] * 4))
            with suppress(sqlite3.Error):
                base.executescript(statement.format(**words))
        with suppress(sqlite3.Error):
            base.commit()
        return base.serialize()


def run(suffix: str, data: bytes, folder: Path) -> str:
    path = folder / f"host_2026_05_01_09_00_00{suffix}"
    path.write_bytes(data)
    try:
        inputs = open_recordings([path], build_config({}))
        (drive, _), *_ = inputs.drives
        found = inspect(drive.parts[0], build_config({}))
        messages = list(drive.messages())
    except EdgeFirstError as error:
        _check_text(str(error))
        return "refused"
    for each in messages:
        _check_message(each)
    faults = [fault.text for part in drive.parts for fault in part.faults]
    for text in (*faults, *map(str, found)):
        _check_text(text)
    return "damaged" if faults or any(each.fault for each in messages) else "read"


def _check_message(message: RawMessage) -> None:
    for text in (message.topic, message.schema, message.fault):
        _check_text(text)
    if not message.fault and can_decode(message.schema):
        with suppress(DecodeError):
            decode(message)


def _check_text(text: str) -> None:
    if not text.replace("\n", "").isprintable() or len(text) > 2_000:
        raise UnexpectedError(f"unprintable or endless: {text[:400]!r}")


def _target(suffix: str, mutate: Callable[[random.Random, bytes], bytes]) -> Target:
    return Target(suffix[1:], partial(corpus, suffix), partial(run, suffix), mutate)


BAG, DB3 = _target(".bag", mutate_bag), _target(".db3", mutate_db3)
