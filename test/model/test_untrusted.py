"""Only regular files of plausible size are read: nothing waits for a FIFO."""

from __future__ import annotations

import errno
import os
import re
import socket
import tracemalloc
from pathlib import Path

import pytest

from edgefirst_ros.model.errors import DatasetError, RecordingError
from edgefirst_ros.model.untrusted import (
    open_regular,
    parse_json,
    read_object,
    read_regular,
    refusing,
    stored_bytes,
)


def test_a_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_regular(tmp_path / "link", 4)


@pytest.mark.parametrize("size", [0, 10, 100_000])
def test_memory_is_taken_for_what_a_file_holds_not_for_what_it_may(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(bytes(size))
    tracemalloc.start()
    try:
        assert len(read_regular(tmp_path / "file", 1 << 30)) == size
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < size + 500_000


def test_what_is_none_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="is a FIFO, not a regular file"):
        read_regular(tmp_path / "fifo", 1)
    with pytest.raises(OSError, match="is a device, not a regular file"):
        read_regular(Path("/dev/zero"), 1)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, 1)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 1)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="is a socket, not a regular file"):
            read_regular(tmp_path / "s", 1)


class TestRefusing:
    @pytest.mark.parametrize(
        ("raised", "said"),
        [
            (ValueError("no \x1b[2J digit"), r"no \x1b[2J digit"),
            (KeyError("name"), "KeyError 'name'"),
            (AssertionError(), "AssertionError"),
            (RecursionError("maximum depth"), "nested too deeply"),
            (MemoryError(), "needs more memory than there is"),
            (OSError(errno.EIO, "Input/output error", "/elsewhere"), "Input/output error"),
            (SyntaxError("x" * 500), "x" * 160 + "…"),
        ],
    )
    def test_whatever_is_raised_becomes_one_error_with_its_place(self, raised: Exception, said: str) -> None:
        with pytest.raises(DatasetError) as caught, refusing("a/b.arrow", DatasetError):
            raise raised
        assert str(caught.value).startswith(f"a/b.arrow: cannot be read: {said}")
        assert caught.value.__cause__ is raised

    @pytest.mark.parametrize("raised", [DatasetError("its own words"), KeyboardInterrupt()])
    def test_own_errors_and_interruptions_pass(self, raised: BaseException) -> None:
        with pytest.raises(type(raised)) as caught, refusing("a", RecordingError):
            raise raised
        assert caught.value is raised


class TestObjects:
    def test_an_object_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text('{"a": 1}')
        assert read_object(path, 100, DatasetError) == {"a": 1}

    def test_a_file_that_is_not_there_is_told_from_a_bad_one(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_object(tmp_path / "a.json", 100, DatasetError)

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"[]", "expected a JSON object, found a list"),
            (b"{", "cannot be read: Expecting"),
            (b"\xff{}", "cannot be read: 'utf-8' codec"),
            (b"[" * 100_000, "cannot be read: nested too deeply"),
            (b" " * 200_000 + b"{}", "cannot be read: has more than 150,000 bytes"),
        ],
    )
    def test_what_is_no_object_is_refused(self, tmp_path: Path, data: bytes, said: str) -> None:
        path = tmp_path / "a.json"
        path.write_bytes(data)
        with pytest.raises(DatasetError, match=re.escape(f"{path}: {said}")):
            read_object(path, 150_000, DatasetError)

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.json")
        with pytest.raises(DatasetError, match="is a FIFO, not a regular file"):
            read_object(tmp_path / "a.json", 100, DatasetError)


class PanicException(BaseException):
    """What pyo3 raises when Rust panics."""


@pytest.mark.guarded
def test_a_panic_in_rust_is_an_error_and_the_end_of_the_process_is_not(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="x: cannot be read: went wrong"), refusing("x", DatasetError):
        raise PanicException("went wrong")
    for ending in (KeyboardInterrupt, SystemExit):
        with pytest.raises(ending), refusing("x", DatasetError):
            raise ending


def test_a_file_of_holes_is_refused_and_one_with_some_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"begin")
    os.truncate(tmp_path / "file", 1 << 40)
    with pytest.raises(OSError, match="are on the disk: was it copied completely"):
        open_regular(tmp_path / "file")
    os.truncate(tmp_path / "file", 1 << 20)
    with open_regular(tmp_path / "file") as file:
        assert len(file.read()) == 1 << 20
        assert stored_bytes(file) <= 1 << 20
        assert file.tell() == 1 << 20


def test_json_of_many_or_nested_values_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(b"[" * 100_000)
    with pytest.raises(ValueError, match="more than 3,000,000 values"):
        parse_json(b"[" + b"[]," * 3_000_000 + b"1]")
