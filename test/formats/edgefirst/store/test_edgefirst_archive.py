"""The streaming ZIP and the folder, judged by zipfile, unzip and the file system."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.formats.edgefirst.store import archive as containers
from edgefirst_ros.formats.edgefirst.store.archive import (
    FileRecord,
    FolderArchive,
    ZipArchive,
    file_path,
    open_archive,
    sample_name,
)

Entry = tuple[str, bytes, int]
TIME_NS = 1_773_483_631_999_999_999
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="/\\"), min_size=1)
ENTRIES = st.lists(
    st.tuples(NAMES, st.binary(max_size=300), st.integers(0, 2**63)),
    max_size=12,
    unique_by=lambda entry: entry[0],
)


def record(path: str, data: bytes) -> FileRecord:
    return FileRecord(path, len(data), zlib.crc32(data))


def write_zip(path: Path, entries: Sequence[Entry]) -> None:
    archive = ZipArchive(path)
    for name, data, time_ns in entries:
        archive.add(record(name, data), data, time_ns)
    archive.finish()


def check_zip(path: Path, entries: Sequence[Entry]) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [name for name, _, _ in entries]
        for info, (name, data, _) in zip(archive.infolist(), entries, strict=True):
            assert archive.read(name) == data
            assert info.compress_type == zipfile.ZIP_STORED
            assert info.external_attr >> 16 == 0o100644
            assert not info.flag_bits & 0b1000, "no data descriptor"


def unzip_test(path: Path) -> None:
    if unzip := shutil.which("unzip"):
        done = subprocess.run([unzip, "-tqq", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@given(ENTRIES)
def test_zipfile_reads_every_entry(entries: list[Entry]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "a.zip"), Path(folder, "b.zip")
        write_zip(first, entries)
        write_zip(second, entries)
        check_zip(first, entries)
        assert first.read_bytes() == second.read_bytes()
        assert sorted(Path(folder).iterdir()) == [first, second], (
            "the spooled directory leaves nothing behind"
        )


def test_unzip_reads_it(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", [("seq/größe.png", b"abc", TIME_NS), ("seq/b", b"", 0)])
    unzip_test(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("time_ns", "expected"),
    [
        (TIME_NS, (2026, 3, 14, 10, 20, 30)),
        (0, (1980, 1, 1, 0, 0, 0)),
        (2**63 - 1, (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_entries_are_dated_by_their_frame(
    tmp_path: Path, time_ns: int, expected: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    write_zip(tmp_path / "a.zip", [("a", b"1", time_ns)])
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.infolist()[0].date_time == expected


@settings(max_examples=25)
@given(ENTRIES, st.integers(1, 400), st.integers(1, 12))
def test_zip64_fields_at_any_limit(entries: list[Entry], limit: int, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(containers, "LIMIT_SIZE", limit)
        patch.setattr(containers, "LIMIT_COUNT", count)
        path = Path(folder, "a.zip")
        write_zip(path, entries)
        check_zip(path, entries)


def test_unzip_reads_zip64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "LIMIT_SIZE", 50)
    monkeypatch.setattr(containers, "LIMIT_COUNT", 2)
    entries = [(f"seq/{i}", bytes(20 * i), TIME_NS) for i in range(6)]
    write_zip(tmp_path / "a.zip", entries)
    check_zip(tmp_path / "a.zip", entries)
    unzip_test(tmp_path / "a.zip")
    assert b"PK\x06\x06" in (tmp_path / "a.zip").read_bytes()


def test_offsets_beyond_four_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    archive = ZipArchive(path)
    archive._offset = archive._file.size = 5 << 30
    archive.add(record("far", b"away"), b"away", TIME_NS)
    archive.finish()
    with zipfile.ZipFile(path) as read:
        assert read.infolist()[0].header_offset == 5 << 30
        assert read.read("far") == b"away"


def test_more_entries_than_sixteen_bits_count(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    archive = ZipArchive(path)
    for number in range(65_536):
        archive.add(FileRecord(str(number), 0, 0), b"", 0)
    archive.finish()
    with zipfile.ZipFile(path) as read:
        assert len(read.infolist()) == 65_536


def test_memory_does_not_grow_with_the_entries(tmp_path: Path) -> None:
    archive = ZipArchive(tmp_path / "a.zip")
    used = []
    tracemalloc.start()
    try:
        for number in range(3000):
            archive.add(record(f"seq/seq_{number:03d}.camera.jpeg", b"x"), b"x", TIME_NS)
            if number in (500, 2999):
                used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        archive.abort()
    assert used[1] - used[0] < 20_000


@pytest.mark.parametrize("container", ["zip", "folder"])
def test_what_was_cut_off_is_found_again_up_to_the_tear(tmp_path: Path, container: str) -> None:
    part = tmp_path / "ds.part"
    entries = [(f"seq/seq_{i:03d}.camera.jpeg", bytes([i]) * (10 + i), TIME_NS + i) for i in range(5)]
    archive = open_archive(part, container)
    for name, data, time_ns in entries:
        archive.add(record(name, data), data, time_ns)
    archive.abort()
    last = part / entries[-1][0] if container == "folder" else part
    os.truncate(last, last.stat().st_size - 1)
    archive = open_archive(part, container, resume=True)
    kept = [archive.keep([record(name, data)]) for name, data, _ in entries]
    assert kept == [True] * 4 + [False]
    assert archive.cut() > 0
    archive.finish()
    if container == "zip":
        check_zip(part, entries[:4])
        write_zip(tmp_path / "fresh.zip", entries[:4])
        assert part.read_bytes() == (tmp_path / "fresh.zip").read_bytes()
    else:
        found = sorted(p.relative_to(part).as_posix() for p in part.rglob("*.jpeg"))
        assert found == [name for name, _, _ in entries[:4]]


@pytest.mark.parametrize("container", ["zip", "folder"])
def test_files_are_kept_only_all_together(tmp_path: Path, container: str) -> None:
    part = tmp_path / "ds.part"
    archive = open_archive(part, container)
    archive.add(record("seq/seq_000.camera.jpeg", b"whole"), b"whole", TIME_NS)
    archive.abort()
    for stray in ("a", "b", "c") if container == "folder" else ():
        (part / stray).write_bytes(b"of no sequence")
    archive = open_archive(part, container, resume=True)
    other = record("seq/seq_000.radar.pcd", b"missing")
    assert not archive.keep([record("seq/seq_000.camera.jpeg", b"whole"), other])
    archive.cut()
    archive.finish()
    if container == "zip":
        check_zip(part, [])
    else:
        assert list(part.iterdir()) == []


@pytest.mark.parametrize(
    "tear",
    [
        lambda b: b[:-3] + b"XYZ",
        lambda b: b"PK\x03\x05" + b[4:],
        lambda b: b[:8] + b"\x08\x00" + b[10:],
        lambda b: b[:30] + b"\xff" + b[31:],
        lambda b: b[:28] + struct.pack("<H", 4) + b[30:],
    ],
    ids=["data", "signature", "method", "name", "extra"],
)
def test_damaged_entries_are_not_kept(tmp_path: Path, tear: object) -> None:
    path = tmp_path / "a.part"
    archive = ZipArchive(path)
    archive.add(record("name", b"0123456789"), b"0123456789", TIME_NS)
    archive.abort()
    path.write_bytes(tear(path.read_bytes()))  # type: ignore[operator]
    archive = ZipArchive(path, resume=True)
    assert not archive.keep([record("name", b"0123456789")])
    assert archive.cut() == 44
    archive.abort()


def test_files_of_a_folder_are_dated_by_their_frame(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "ds")
    archive.add(record("seq/a.png", b"x"), b"x", TIME_NS)
    stat = (tmp_path / "ds/seq/a.png").stat()
    assert stat.st_mtime_ns == TIME_NS
    assert datetime.fromtimestamp(stat.st_mtime, UTC).year == 2026


def test_frames_have_three_digits_and_grow_naturally() -> None:
    assert sample_name("seq", 7) == "seq_007"
    assert sample_name("seq", 1234) == "seq_1234"
    assert file_path("seq", 42, "radar.png") == "seq/seq_042.radar.png"
