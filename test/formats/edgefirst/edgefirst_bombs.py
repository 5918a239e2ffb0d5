"""EdgeFirst datasets of a few kilobytes that would take gigabytes, minutes or the process, if they could."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from edgefirst_foreign import foreign, picture

SEQUENCE = "s"
END = struct.Struct("<4sHHHHIIH")
CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
LOCAL = struct.Struct("<4sHHHHHIIIHH")
PCD = "VERSION 0.7\nFIELDS {0}\nSIZE {1}\nTYPE {2}\nCOUNT {3}\nWIDTH {4}\nHEIGHT 1\n"
PCD += "VIEWPOINT 0 0 0 1 0 0 0\nPOINTS {4}\nDATA {5}\n"


def sound(folder: Path) -> Path:
    """One sample, to be changed."""
    rows = {"name": ["s"], "frame": [0], "group": ["train"]}
    types = {"frame": pl.UInt32, "group": pl.Categorical}
    files = {"s/s_000.camera.jpeg": picture()}
    return foreign(folder, pl.DataFrame(rows, schema_overrides=types), files, {"schema_version": "2026.10"})


def table(folder: Path, columns: dict[str, Any], **options: Any) -> None:  # noqa: ANN401 - of Arrow
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    chosen = pa.ipc.IpcWriteOptions(**options)
    path = folder / f"{folder.name}.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema, options=chosen) as writer:
        writer.write_batch(batch)


def null_rows(folder: Path) -> None:
    table(folder, {name: pa.nulls(20_000_000) for name in ("name", "frame", "group")})


def packed_null_rows(folder: Path) -> None:
    nulls = pa.nulls(5_000_000, pa.large_string())
    table(
        folder, {"name": nulls, "frame": pa.nulls(5_000_000, pa.uint32()), "label": nulls}, compression="zstd"
    )


def rows_beyond_the_files(folder: Path) -> None:
    frames = pa.array(np.arange(150_000, dtype=np.uint32) * 5000)
    table(folder, {"name": pa.array([SEQUENCE] * 150_000), "frame": frames})


def one_text_for_all_rows(folder: Path) -> None:
    """The process was ended by the allocator of polars."""
    numbers = np.zeros(90_000, np.uint32)
    text = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(["x" * 1_000_000], pa.large_string()))
    table(folder, {"name": text, "frame": pa.array(numbers), "label": text})


def views_of_one_text(folder: Path) -> None:
    text, count = b"x" * 1_000_000, 40_000
    views = pa.py_buffer(struct.pack("<i4sii", len(text), text[:4], 0, 0) * count)
    names = pa.Array.from_buffers(pa.string_view(), count, [None, views, pa.py_buffer(text)])
    table(folder, {"name": names, "frame": pa.array(np.zeros(count, np.uint32)), "label": names})


def lists_of_nulls(folder: Path) -> None:
    most = (1 << 31) - 1
    child = pa.NullArray.from_buffers(pa.null(), most, [None])
    offsets = pa.py_buffer(np.array([0, most], np.int64).tobytes())
    lists = pa.Array.from_buffers(pa.large_list(pa.null()), 1, [None, offsets], children=[child])
    table(folder, {"name": pa.array([SEQUENCE]), "frame": pa.array([0], pa.uint32()), "mask": lists})


def runs(folder: Path) -> None:
    ends = pa.array([1 << 30], pa.int32())
    names = pa.RunEndEncodedArray.from_arrays(ends, pa.array([SEQUENCE]))
    frames = pa.RunEndEncodedArray.from_arrays(ends, pa.array([0], pa.uint32()))
    table(folder, {"name": names, "frame": frames})


def packed_zeros(folder: Path) -> None:
    zeros = pa.array([bytes(100_000_000)] * 4, pa.large_binary())
    frames = pa.array(np.arange(4, dtype=np.uint32))
    table(folder, {"name": pa.array([SEQUENCE] * 4), "frame": frames, "mask": zeros}, compression="zstd")


def columns_without_end(folder: Path) -> None:
    table(
        folder, {"name": pa.array([SEQUENCE]), **{f"c{n}": pa.array([1], pa.int8()) for n in range(20_000)}}
    )


def batches_without_end(folder: Path) -> None:
    schema = pa.schema([("name", pa.string()), ("frame", pa.uint32())])
    empty = pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)
    with pa.ipc.new_file(folder / f"{folder.name}.arrow", schema) as writer:
        for _ in range(11_000):
            writer.write_batch(empty)


def a_time_zone_of_nowhere(folder: Path) -> None:
    """Polars panics."""
    times = pa.array([0], pa.timestamp("s", "Nowhere/x"))
    table(folder, {"name": pa.array([SEQUENCE]), "frame": pa.array([0], pa.uint32()), "timing": times})


def table_of_a_hole(folder: Path) -> None:
    path = folder / f"{folder.name}.arrow"
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(20 << 30)
        file.seek((20 << 30) - len(data))
        file.write(data)


def archive(folder: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(folder / f"{folder.name}.zip", "w", compression) as out:
        for name, content in files.items():
            out.writestr(f"{SEQUENCE}/{SEQUENCE}_000.{name}", content)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: int, depth: int = 16, colour: int = 0) -> bytes:
    """A gray or RGB PNG of zeros, of whose rows only some are there."""
    each = bytes(1 + width * depth // 8 * (3 if colour else 1))
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(each) for _ in range(rows)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def a_picture_without_data(folder: Path) -> None:
    archive(folder, {"camera.jpeg": picture(), "depth.png": png(200_000, 200_000, 0)})


def pictures_without_their_end(folder: Path) -> None:
    cut = picture()[: len(picture()) // 2] + b"\xff\xd9"
    archive(folder, {"camera.jpeg": cut, "depth.png": png(640, 480, 100), "radar.png": png(640, 480, 100)})


def scans_without_end(folder: Path) -> None:
    whole = picture()
    scan = whole.index(b"\xff\xda")
    size = whole.index(b"\xff\xc0") + 5
    large = whole[:size] + struct.pack(">HH", 6000, 8000) + whole[size + 4 :]
    archive(folder, {"camera.jpeg": large[:scan] + b"\xff\xda\0\x08\1\1\0\0\x3f\0" * 1000 + large[scan:]})


def the_largest_picture(folder: Path) -> None:
    """It is sound, and takes what is allowed."""
    archive(folder, {"camera.png": png(7000, 7100, 7100, 8, 2)})


def texts_in_a_picture(folder: Path) -> None:
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(900_000), 9)) * 300
    whole = png(64, 48, 48)
    archive(folder, {"camera.jpeg": picture(), "radar.png": whole[:33] + text + whole[33:]})


def clouds(folder: Path) -> None:
    xyz = ("x y z", "4 4 4", "F F F")
    many = "x " * 200_000, "4 " * 200_000, "F " * 200_000, "1 " * 200_000
    archive(
        folder,
        {
            "lidar.pcd": PCD.format(*xyz, "1 1 1", 1 << 31, "binary").encode() + bytes(12),
            "radar.pcd": PCD.format(*xyz, "0 0 0", 1 << 31, "binary").encode(),
        },
    )
    with zipfile.ZipFile(folder / f"{folder.name}.zip", "a") as out:
        out.writestr("s/s_001.lidar.pcd", PCD.format(*many, 0, "binary"))
        text = PCD.format(*xyz, "1 1 1", 1_500_000, "ascii") + "1 1 1\n" * 1_500_000
        out.writestr("s/s_002.lidar.pcd", text)


def entries(folder: Path, names: list[bytes], data: bytes, size: int) -> None:
    """An archive whose entries all have the same data."""
    local = LOCAL.pack(b"PK\3\4", 20, 0, 0, 0, 0, zlib.crc32(data), len(data), size, 1, 0) + b"a" + data
    method = 8 if size != len(data) else 0
    directory = b"".join(
        CENTRAL.pack(b"PK\1\2", 20, 20, 0, method, 0, 0, zlib.crc32(data), len(data), size,
                     len(name), 0, 0, 0, 0, 0, 0) + name
        for name in names
    )  # fmt: skip
    end = END.pack(b"PK\5\6", 0, 0, len(names) % 65536, len(names) % 65536, len(directory), len(local), 0)
    (folder / f"{folder.name}.zip").write_bytes(local + directory + end)


def entries_without_end(folder: Path) -> None:
    entries(folder, [b"a"] * 400_000, b"", 0)


def entries_that_overlap(folder: Path) -> None:
    entries(folder, [b"s/s_%03d.depth.png" % n for n in range(2000)], bytes(5_000_000), 5_000_000)


def entries_that_unpack(folder: Path) -> None:
    archive(folder, {f"{kind}.png": bytes(200_000_000) for kind in ("depth", "radar")}, zipfile.ZIP_DEFLATED)


def archive_of_a_hole(folder: Path) -> None:
    size, path = 8 << 30, folder / f"{folder.name}.zip"
    wide = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, size // 46, size // 46, size, 0)
    wide += struct.pack("<4sIQI", b"PK\6\7", 0, size, 1)
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(wide + END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


def names_of_64_kb(folder: Path) -> None:
    with zipfile.ZipFile(folder / f"{folder.name}.zip", "w") as out:
        for number in range(300):
            out.writestr(f"{'s' * 65_000}_{number:03d}.camera.jpeg", b"")


def a_folder_of_traps(folder: Path) -> None:
    (folder / f"{folder.name}.zip").unlink()
    inside = folder / folder.name
    (inside / "s").mkdir(parents=True)
    (inside / "loop").symlink_to(inside)
    (inside / "s" / "s_000.camera.jpeg").symlink_to("/dev/zero")
    os.mkfifo(inside / "s" / "s_001.camera.jpeg")
    with (inside / "s" / "s_002.camera.jpeg").open("wb") as file:
        file.truncate(10 << 30)


def a_report_of_lists(folder: Path) -> None:
    (folder / "capture_report.json").write_text("[" + "[]," * 6_000_000 + "1]")


def a_deep_report(folder: Path) -> None:
    (folder / "capture_report.json").write_text('{"a":' * 200_000)


BOMBS: tuple[Callable[[Path], None], ...] = (
    null_rows, packed_null_rows, rows_beyond_the_files, one_text_for_all_rows, views_of_one_text,
    lists_of_nulls, runs, packed_zeros, columns_without_end, batches_without_end, a_time_zone_of_nowhere,
    table_of_a_hole, a_picture_without_data, pictures_without_their_end, scans_without_end,
    the_largest_picture, texts_in_a_picture, clouds, entries_without_end, entries_that_overlap,
    entries_that_unpack, archive_of_a_hole, names_of_64_kb, a_folder_of_traps, a_report_of_lists,
    a_deep_report,
)  # fmt: skip
SOUND = frozenset({"the_largest_picture"})
