"""Samples in other processes, and files that are damaged, gone or replaced."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image
from PIL.ExifTags import IFD
from places import REPOSITORY, identity
from places import opened as opened_files
from readable import NAME, copied, dataset, digests

import edgefirst_ros
from edgefirst_ros.formats.edgefirst.prepare.annotations import outline
from edgefirst_ros.formats.edgefirst.read.decoding import positions, read_pcd
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound

FIRST = "maivin-sim_2026_05_01_09_00_00_000"


def is_open(path: Path) -> bool:
    return identity(path) in opened_files()


LAST = """
import posix, sys
import edgefirst_ros

posix.kept = edgefirst_ros.open(sys.argv[1])
posix.kept[0]
"""


def test_an_interpreter_ends_quietly_while_files_are_open() -> None:
    """As torch keeps its datasets: until modules have nothing left."""
    command = [sys.executable, "-c", LAST, dataset()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_pickled_without_what_is_open(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    opened = edgefirst_ros.open(folder)
    expected = digests(opened, range(15))
    archive = folder / f"{NAME}.zip"
    assert is_open(archive)
    data = pickle.dumps(opened)
    assert len(data) < 20_000
    del opened
    assert not is_open(archive)
    again = pickle.loads(data)
    assert not is_open(archive)
    assert digests(again, range(15)) == expected
    plain = edgefirst_ros.open(dataset(container="folder"))
    assert digests(pickle.loads(pickle.dumps(plain)), range(15)) == expected


def test_spawned_processes_read_the_same() -> None:
    opened = edgefirst_ros.open(dataset())
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        samples = pool.map(opened.__getitem__, range(15), chunksize=4)
    assert digests(samples, range(15)) == digests(opened, range(15))


TESTS = REPOSITORY / "test"
FORKING = """
import sys
from multiprocessing import get_context
import edgefirst_ros
from readable import digests

opened = edgefirst_ros.open(sys.argv[1])
expected = digests(opened, range(15))
assert "polars" not in sys.modules, "its threads do not survive a fork"
with get_context("fork").Pool(2) as pool:
    parts = [pool.apply_async(digests, (opened, range(15))) for _ in range(4)]
    assert digests(opened, range(15)) == expected
    assert [part.get(60) for part in parts] == [expected] * 4
"""


def test_forked_processes_read_the_same_at_the_same_time() -> None:
    """In a process of its own, as this one has threads."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING, dataset()],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_a_damaged_file_is_named_and_others_are_read(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    archive = folder / f"{NAME}.zip"
    with zipfile.ZipFile(archive) as packed:
        entry = next(e for e in packed.infolist() if e.filename.endswith(f"{FIRST}.camera.jpeg"))
    data = bytearray(archive.read_bytes())
    data[entry.header_offset + 200 + entry.file_size // 2] ^= 0xFF
    archive.write_bytes(data)
    opened = edgefirst_ros.open(folder)
    with pytest.raises(DatasetError, match=rf"drive.zip@.*{FIRST}.camera.jpeg: is damaged: .*CRC-32"):
        opened[0]
    assert opened[1]["image"] is not None
    assert opened.with_keys(["boxes2d"])[0]["boxes2d"] is not None


def header(width: int, height: int) -> bytes:
    """A PNG of which only the header is there."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize(
    ("kind", "content", "key"),
    [
        ("camera.jpeg", b"\xff\xd8 no JPEG", "image"),
        ("camera.jpeg", b"", "time_ns"),
        ("lidar.pcd", b"no PCD", "lidar"),
        ("radar.pcd", b"FIELDS x\nTYPE F\nSIZE 4\nCOUNT 1\nPOINTS 9\nDATA binary\n", "radar"),
        ("lidar.png", b"\x89PNG\r\n\x1a\n", "lidar_depth"),
        ("lidar.png", header(50_000, 50_000), "lidar_depth"),
        ("radar.png", b"\x89PNG\r\n\x1a\n", "cube"),
    ],
)
def test_what_cannot_be_decoded_is_named(tmp_path: Path, kind: str, content: bytes, key: str) -> None:
    folder = copied(tmp_path, container="folder")
    number, path = next((n, p) for n in range(15) for p in (folder / NAME).rglob(f"*_{n:03d}.{kind}"))
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=rf"{kind}: cannot be decoded"):
        edgefirst_ros.open(folder, keys=[key])[number]


def test_what_is_sound_of_damaged_exif_is_read_without_a_warning(tmp_path: Path) -> None:
    """A JPEG whose EXIF directory is said to have more tags than there are, of which Pillow warns."""
    folder = copied(tmp_path, container="folder")
    path = next((folder / NAME).rglob("*_000.camera.jpeg"))
    data = path.read_bytes()
    begin = data.index(b"Exif\0\0") + 6
    with Image.open(path) as image:
        at = begin + image.getexif()[IFD.Exif]
    path.write_bytes(data[:at] + b"\xff\xff" + data[at + 2 :])
    sample = edgefirst_ros.open(folder, keys=["image", "time_ns"])[0]
    assert sample["time_ns"] == edgefirst_ros.open(dataset(), keys=["time_ns"])[0]["time_ns"]
    assert sample["image"].shape == (216, 384, 3)


def test_points_whose_bytes_are_any_are_positions() -> None:
    """Bytes that are a signalling NaN, of which numpy warns when it converts them."""
    head = b"FIELDS x y z\nTYPE F F F\nSIZE 4 4 4\nCOUNT 1 1 1\nPOINTS 1\nDATA binary\n"
    found = positions(read_pcd(head + struct.pack("<fIf", 1.0, 0x7F800001, 3.0)))
    assert (found.shape, found.dtype) == ((1, 3), np.float64)
    assert found[0, [0, 2]].tolist() == [1.0, 3.0]
    assert np.isnan(found[0, 1])


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, container="folder")
    opened = edgefirst_ros.open(folder)
    (folder / NAME / FIRST[:-4] / f"{FIRST}.camera.jpeg").unlink()
    with pytest.raises(DatasetError, match=rf"{FIRST}.camera.jpeg: cannot be read: No such file"):
        opened[0]
    assert edgefirst_ros.open(folder)[0]["image"] is None


@pytest.mark.parametrize("ending", ["arrow", "zip"])
def test_a_dataset_that_was_replaced_is_opened_again(tmp_path: Path, ending: str) -> None:
    folder = copied(tmp_path)
    other = pickle.loads(pickle.dumps(edgefirst_ros.open(folder)))
    path = folder / f"{NAME}.{ending}"
    shutil.copy(path, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    with pytest.raises(DatasetError, match=rf"drive.{ending} has changed since .* open it again"):
        other[0]
    path.unlink()
    with pytest.raises(DatasetError, match=rf"drive.{ending} is gone since"):
        other[0]


@pytest.mark.parametrize("ending", ["arrow", "zip"])
@pytest.mark.parametrize("share", [0, 0.4, 0.99])
def test_a_truncated_dataset_is_refused(tmp_path: Path, ending: str, share: float) -> None:
    folder = copied(tmp_path)
    path = folder / f"{NAME}.{ending}"
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(DatasetError, match=rf"drive.{ending}: is not a complete"):
        edgefirst_ros.open(folder)


def test_tables_of_others_are_read_in_any_order_of_rows(tmp_path: Path) -> None:
    """As polars writes them: views of texts, several batches, the rows of a sample apart, masks as PNG."""
    folder = copied(tmp_path, "2026.10")
    table = pl.read_ipc(folder / f"{NAME}.arrow")
    shuffled = table.drop("polygon").sample(fraction=1.0, shuffle=True, seed=3)
    shuffled.write_ipc(folder / f"{NAME}.arrow", compression="lz4", record_batch_size=7)
    opened, original = (edgefirst_ros.open(path) for path in (folder, dataset("2026.10")))
    place = {sample["name"]: n for n, sample in enumerate(opened.with_keys([]))}
    assert len(place) == len(opened) == len(original)
    assert opened.labels == original.labels
    for sample in original:
        mine = opened[place[sample["name"]]]
        assert sorted(mine["boxes2d"].tolist()) == sorted(sample["boxes2d"].tolist())
        assert sorted(mine["labels_masks"]) == sorted(sample["labels_masks"])
        assert sorted(ring.tolist() for rings in mine["masks"] for ring in rings) == sorted(
            ring.tolist() for rings in sample["masks"] for ring in rings
        )


@pytest.mark.parametrize("without", ["name", "frame"])
def test_a_table_without_names_and_frames_is_refused(tmp_path: Path, without: str) -> None:
    folder = copied(tmp_path)
    path = folder / f"{NAME}.arrow"
    pl.read_ipc(path).drop(without).write_ipc(path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    with pytest.raises(DatasetError, match=f"has no column {without}"):
        edgefirst_ros.open(folder)


def test_a_table_with_damaged_offsets_is_refused(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    path = folder / f"{NAME}.arrow"
    with pa.memory_map(str(path)) as file:
        offsets = pa.ipc.open_file(file).get_batch(0).column("name").buffers()[1].to_pybytes()
    data = path.read_bytes()
    assert data.count(offsets) == 1
    path.write_bytes(data.replace(offsets, offsets[:4] + b"\xff\xff\xff\x7f" + offsets[8:]))
    with pytest.raises(DatasetError, match=r"drive\.arrow: is not a complete Arrow file"):
        edgefirst_ros.open(folder)


def test_an_entry_that_was_packed_is_unpacked(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    path = folder / f"{NAME}.zip"
    with (
        zipfile.ZipFile(path) as archive,
        zipfile.ZipFile(tmp_path / "packed", "w", zipfile.ZIP_DEFLATED) as out,
    ):
        for name in archive.namelist():
            out.writestr(name, archive.read(name))
    (tmp_path / "packed").replace(path)
    assert digests(edgefirst_ros.open(folder), range(15)) == digests(edgefirst_ros.open(dataset()), range(15))


def test_an_unfinished_dataset_says_how_to_finish_it(tmp_path: Path) -> None:
    folder = copied(tmp_path / "two words")
    (folder / f"{NAME}.arrow").rename(folder / f"{NAME}.journal.part")
    with pytest.raises(DatasetNotFound, match=f"unfinished: edgefirst-ros recover '{folder}' finishes it"):
        edgefirst_ros.open(folder)


def test_a_raster_is_that_of_its_outline() -> None:
    rng = np.random.default_rng(7)
    for height, width in ((1, 1), (5, 9), (31, 17)):
        raster = rng.random((height, width)) < 0.4
        assert (edgefirst_ros.rasterise(outline(raster), height, width) == raster).all()
        twice = edgefirst_ros.rasterise(outline(raster), 2 * height, 2 * width)
        assert twice.mean() == pytest.approx(raster.mean(), abs=0.15)
