"""Damages EdgeFirst datasets at random, by accident and by intent; the same seed damages alike."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 31, 1 << 63, 1 << 70, 10**400, 0.5, float("nan"), float("inf"), 1e300, "",
   "x" * 300, "../../x", "/etc/passwd", "a\0b", "\ud800", "\x1b[2J", [], {}, [[]], {"": {}}, [None] * 9,
)  # fmt: skip


def damage(folder: Path, outside: Path, rng: random.Random) -> str:
    """Damage one file of a dataset; what was done.

    Args:
        folder: the dataset's.
        outside: a file elsewhere, which links point to.
        rng: draws what is done.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    # Sensor files are many, and of less interest here.
    path = rng.choice([path for path in files if path.parent == folder] if rng.random() < 0.8 else files)
    ways = [*BYTES, *PLACES]
    ways += [way for ending, way in INSIDE if path.name.removesuffix(".part").endswith(ending)] * 6
    way = rng.choice(ways)
    way(path, outside, rng)
    return f"{way.__name__} of {path.relative_to(folder)}"


def _flip(path: Path, _: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _number in range(rng.choice((1, 1, 2, 8))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _truncate(path: Path, _: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def _zero(path: Path, _: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) + 1)
    end = rng.choice((len(data), min(len(data), start + rng.randrange(64))))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def _number(path: Path, _: Path, rng: random.Random) -> None:
    """A length or count that is huge, negative or off by one."""
    data = bytearray(path.read_bytes())
    if len(data) >= 8:
        at = rng.randrange(len(data) - 7)
        data[at : at + 4] = struct.pack("<I", rng.choice((0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 1 << 20)))
    path.write_bytes(data)


def _lengthen(path: Path, _: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data + rng.choice((data, rng.randbytes(100), bytes(5000))))


def _swap(path: Path, _: Path, rng: random.Random) -> None:
    other = rng.choice(sorted(p for p in path.parent.iterdir() if p.is_file()))
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def _remove(path: Path, _: Path, rng: random.Random) -> None:
    path.unlink()


def _link(path: Path, outside: Path, rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice((outside, outside, outside.parent, outside.with_name("none"), path)))


def _link_to_copy(path: Path, outside: Path, rng: random.Random) -> None:
    """The same bytes, but elsewhere: recovery would go on there."""
    shutil.copy(path, outside)
    path.unlink()
    path.symlink_to(outside)


def _link_folder(path: Path, outside: Path, rng: random.Random) -> None:
    """The folder of a sequence, or of all files, is elsewhere."""
    folders = sorted(p for p in path.parent.rglob("*") if p.is_dir() and not p.is_symlink())
    if folders:
        folder = rng.choice(folders)
        elsewhere = outside.parent / folder.name
        shutil.copytree(folder, elsewhere, dirs_exist_ok=True, symlinks=True)
        shutil.rmtree(folder)
        folder.symlink_to(elsewhere)


def _fifo(path: Path, _: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, _: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _note(path: Path, _: Path, rng: random.Random) -> None:
    """A note that says where an unfinished dataset is being moved."""
    name = path.parent.name
    text = rng.choice((f"{name}_recovered\n", "../x\n", "\n", "..\n", "other\n", "\0\n", "a/b\n", "\udcff\n"))
    (path.parent / f"{name}.aside.part").write_bytes(text.encode(errors="surrogateescape"))


def _json(path: Path, _: Path, rng: random.Random) -> None:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    path.write_text(json.dumps(_changed(content, rng)), errors="replace")


def _nested(path: Path, _: Path, rng: random.Random) -> None:
    path.write_text("[" * 200_000)


def _journal(path: Path, _: Path, rng: random.Random) -> None:
    """Records with other content and right checksums."""
    head, _newline, rest = path.read_bytes().partition(b"\n")
    data, at = bytearray(head + b"\n"), 0
    records = []
    while at + 8 <= len(rest):
        (length,) = struct.unpack_from("<I", rest, at)
        records.append(rest[at + 8 : at + 8 + length])
        at += 8 + length
    chosen = rng.randrange(len(records) + 1)
    if chosen < len(records):
        try:
            text = json.dumps(_changed(json.loads(records[chosen]), rng))
        except (ValueError, RecursionError):
            return
        records[chosen] = rng.choice((text.encode(errors="replace"), b"[" * 5000, b"", b"null"))
    for record in records:
        place = struct.pack("<QI", len(data), len(record))
        data += struct.pack("<II", len(record), zlib.crc32(record, zlib.crc32(place))) + record
    path.write_bytes(data)


def _zip(path: Path, _: Path, rng: random.Random) -> None:
    """A sensor file damaged, the ZIP around it sound; or entries that are none of a dataset."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, OSError):
        return
    chosen = rng.choice(sorted(entries))
    entries[chosen] = _damaged_content(entries[chosen], rng)
    if rng.random() < 0.3:
        name = rng.choice(
            ("../x", "/x", "a/b/c", "_", "a_1", "seq/seq_001", "\x1b[2J_000.camera.jpeg", "_x.pcd")
        )
        entries[name] = entries.pop(chosen)
    with zipfile.ZipFile(path, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def _damaged_content(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    if rng.random() < 0.5 and b"DATA binary" in data:
        words = rng.choice(
            (b"POINTS -1", b"POINTS 9999999999999", b"SIZE 4 x", b"FIELDS x", b"COUNT 0 0 0 -1")
        )
        key = words.split()[0]
        lines = bytes(data).split(b"\n")
        return b"\n".join(words if line.startswith(key) else line for line in lines)
    if data[:4] == b"\x89PNG" and rng.random() < 0.7:
        return _damaged_png(bytes(data), rng)
    for _number in range(rng.choice((1, 4, 32))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.choice((len(data), rng.randrange(len(data) + 1)))])


def _damaged_png(data: bytes, rng: random.Random) -> bytes:
    """A PNG whose chunks have other content and right checksums."""
    out, at = io.BytesIO(), 8
    out.write(data[:8])
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if name == b"IHDR" and rng.random() < 0.3:
            size = rng.choice((0, 1, 0x7FFFFFFF, 50_000))
            content = struct.pack(">II", size, rng.choice((size, 1))) + content[8:]
        if name == b"tEXt" and rng.random() < 0.5:
            key = content.partition(b"\0")[0]
            odd = (b"", b"0", b"-1,2", b"9" * 5000, b"nan", b"1,1,1,1,1", b"RANGE", b"true", b"\xff")
            content = key + b"\0" + rng.choice(odd)
        out.write(struct.pack(">I", len(content)) + name + content)
        out.write(struct.pack(">I", zlib.crc32(name + content)))
        at += 12 + length
    return out.getvalue()


def _arrow(path: Path, _: Path, rng: random.Random) -> None:
    """A sound table of other columns, types and values."""
    try:
        table = pl.read_ipc(io.BytesIO(path.read_bytes()))
    except (pl.exceptions.PolarsError, OSError):
        return
    column = rng.choice(table.columns)
    length = len(table)
    odd = (
        pl.Series(column, [None] * length),
        pl.Series(column, [None] * length, pl.Int64),
        pl.Series(column, [-1] * length),
        pl.Series(column, [1 << 63] * length, pl.UInt64),
        pl.Series(column, ["x\x1b[2J" * 20] * length),
        pl.Series(column, [float("nan")] * length),
        pl.Series(column, [b"\x89PNG"] * length),
        pl.Series(column, [[float("nan")] * 4] * length, pl.Array(pl.Float32, 4)),
        pl.Series(column, [[1e30, -1e30, 1e30, float("inf")]] * length, pl.Array(pl.Float32, 4)),
        pl.Series(column, [[]] * length, pl.List(pl.Float32)),
        pl.Series(column, [{"a": 1}] * length),
    )
    changed = rng.choice(
        (
            lambda: table.drop(column),
            lambda: table.head(0),
            lambda: table.with_columns(rng.choice(odd)),
            lambda: pl.concat([table, table]),
            table.reverse,
        )
    )()
    changed.write_ipc(path, compression=rng.choice(("uncompressed", "lz4", "zstd")))


def _changed(content: Any, rng: random.Random) -> Any:  # noqa: ANN401 - JSON
    """JSON with one value somewhere replaced, removed or doubled."""
    if isinstance(content, dict) and content and rng.random() < 0.9:
        key = rng.choice(sorted(content))
        rest = {k: v for k, v in content.items() if k != key}
        if rng.random() < 0.1:
            return rest
        return {**content, key: _changed(content[key], rng)}
    if isinstance(content, list) and content and rng.random() < 0.9:
        number = rng.randrange(len(content))
        if rng.random() < 0.1:
            return [*content, *content]
        return [*content[:number], _changed(content[number], rng), *content[number + 1 :]]
    return rng.choice(ODD_VALUES)


Way = Callable[[Path, Path, random.Random], None]
BYTES: tuple[Way, ...] = (_flip, _truncate, _zero, _number, _lengthen, _swap)
PLACES: tuple[Way, ...] = (_remove, _link, _link_to_copy, _link_folder, _fifo, _folder, _note)
INSIDE: tuple[tuple[str, Way], ...] = (
    (".json", _json), (".json", _nested), (".journal", _journal), (".zip", _zip), (".arrow", _arrow),
)  # fmt: skip
"""By the end of a file's name: what keeps its checksums right."""
