"""Manifests: what is written, what a comparison says, and whatever else lies where one should be."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from edgefirst_ros.formats.crashsafe import manifest
from edgefirst_ros.formats.crashsafe.manifest import Comparison, Entry, measured, write_manifest

FILES = {"b/1": b"one", "b/0": b"", "a/ü 2": bytes(5000), ".table": b"rows"}
"""By name; in the order of the manifest, which is not that of names."""


def entry(name: str, data: bytes) -> Entry:
    return Entry(name, len(data), zlib.crc32(data))


def written(path: Path) -> Path:
    write_manifest(path, "some", [entry(*each) for each in FILES.items()])
    return path


def faults(path: Path, files: dict[str, bytes]) -> list[str]:
    comparison = Comparison(path, "some")
    for name, data in files.items():
        comparison.add(name, len(data), zlib.crc32(data))
    return [*comparison.faults()]


def test_it_is_text_with_a_head_a_line_for_each_file_and_an_end(tmp_path: Path) -> None:
    head, *lines, end = written(tmp_path / "m").read_bytes().decode().splitlines(keepends=True)
    assert head == "edgefirst_ros manifest 1 some\n"
    assert lines[0] == f"{zlib.crc32(b'one'):08x} 3 b/1\n"
    assert [line.split(" ", 2)[2] for line in lines] == [f"{name}\n" for name in FILES]
    assert end == f"end 4 {zlib.crc32((head + ''.join(lines)).encode()):08x}\n"


def test_the_same_files_give_the_same_bytes_in_place_of_what_is_there(tmp_path: Path) -> None:
    first = written(tmp_path / "m").read_bytes()
    (tmp_path / "elsewhere").write_bytes(b"untouched")
    (tmp_path / "n").symlink_to(tmp_path / "elsewhere")
    assert written(tmp_path / "m").read_bytes() == written(tmp_path / "n").read_bytes() == first
    assert (tmp_path / "elsewhere").read_bytes() == b"untouched"


@pytest.mark.parametrize("order", [list, sorted, lambda names: [*names][::-1]])
def test_files_in_any_order_are_as_it_lists_them(
    tmp_path: Path, order: Callable[[object], list[str]]
) -> None:
    assert faults(written(tmp_path / "m"), {name: FILES[name] for name in order(FILES)}) == []


def without(*names: str, **more: bytes) -> dict[str, bytes]:
    return {name: data for name, data in FILES.items() if name not in names} | more


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (without("b/0"), ["1 file is missing that it lists: b/0; "]),
        ({}, ["4 files are missing that it lists: b/1, b/0, a/ü 2, .table; "]),
        (without(c=b"new"), ["1 file is there and not in it: c; "]),
        (without(**{"b/1": b"two"}), ["1 file is of another CRC-32 than it says: b/1; "]),
        (without(**{"b/1": b"o"}), ["1 file is of another size than it says: b/1; "]),
        ({**FILES, "b/1": b"rows", ".table": b"one"}, ["2 files are of another size than it says: b/1, .ta"]),
        (without("b/1", x=b""), ["1 file is missing that it lists: b/1", "1 file is there and not in it: x"]),
    ],
)  # fmt: skip
def test_each_kind_of_difference_is_one_sentence(
    tmp_path: Path, files: dict[str, bytes], expected: list[str]
) -> None:
    found = faults(written(tmp_path / "m"), files)
    assert len(found) == len(expected)
    for sentence, begin in zip(found, expected, strict=True):
        assert sentence.startswith(begin)
        assert "restore the dataset from a copy; if the change was meant, delete m" in sentence


def test_of_many_files_the_first_are_named(tmp_path: Path) -> None:
    write_manifest(tmp_path / "m", "some", (entry(f"f{number}", b"") for number in range(30)))
    (found,) = faults(tmp_path / "m", {})
    assert found.startswith("30 files are missing that it lists: f0, f1, f2, f3, f4, …; ")


def test_names_are_shown_escaped_and_of_sane_length(tmp_path: Path) -> None:
    (found,) = faults(written(tmp_path / "m"), {**FILES, "\x1b[2J\n": b"", "x" * 3000: b""})
    assert "\x1b" not in found
    assert "\n" not in found
    assert "\\x1b[2J" in found
    assert len(found) < 600


def test_what_is_to_be_read_is_only_read_if_its_size_is_right(tmp_path: Path) -> None:
    write_manifest(tmp_path / "m", "some", [entry("a", b"a"), entry("b", b"b")])
    (tmp_path / "b").write_bytes(b"x")
    comparison = Comparison(tmp_path / "m", "some")
    comparison.add("a", 1 << 40, tmp_path / "nothing")
    comparison.add("b", 1, tmp_path / "b")
    assert [sentence.partition(":")[0] for sentence in comparison.faults()] == [
        "1 file is of another CRC-32 than it says",
        "1 file is of another size than it says",
    ]


def test_links_pipes_and_holes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 42)
    assert measured(tmp_path / "file") == (1, zlib.crc32(b"x"))
    said = {
        "link": "symbolic link",
        "pipe": "FIFO",
        "hole": "only 0 are on the disk",
        "none": "No such",
        ".": "directory",
    }
    for name, why in said.items():
        with pytest.raises(OSError, match=why):
            measured(tmp_path / name)


def sealed(
    *lines: bytes, head: bytes = b"edgefirst_ros manifest 1 some\n", count: int | None = None
) -> bytes:
    """A manifest of any lines whose CRC-32 is right."""
    body = head + b"".join(lines)
    return body + f"end {len(lines) if count is None else count} {zlib.crc32(body):08x}\n".encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "has no end"),
        (bytes(100), "has no end"),
        (sealed()[:-1], "has no end"),
        (sealed() + b"more\n", "has no end"),
        (sealed(head=b"edgefirst_ros manifest 2 some\n"), "begins with b'edgefirst_ros manifest 2"),
        (sealed(head=b"edgefirst_ros manifest 1 other\n"), "begins with b'edgefirst_ros manifest 1 othe"),
        (sealed(head=b"\x1b[2J\n"), r"begins with b'\x1b[2J"),
        (sealed(b"no line\n"), "names no file of a dataset in line 2"),
        (sealed(b"00000000 1 \n"), "names no file"),
        (sealed(b"00000000 -1 a\n"), "names no file"),
        (sealed(b"00000000 1e9 a\n"), "names no file"),
        (sealed(b"00000000 99999999999999999999 a\n"), "names no file"),
        (sealed(b"0 1 a\n"), "names no file"),
        (sealed(b"00000000 1 a\n", b"00000000 1 ../a\n"), "names no file of a dataset in line 3"),
        (sealed(b"00000000 1 a/../../b\n"), "names no file"),
        (sealed(b"00000000 1 /etc/passwd\n"), "names no file"),
        (sealed(b"00000000 1 a//b\n"), "names no file"),
        (sealed(b"00000000 1 ./a\n"), "names no file"),
        (sealed(b"00000000 1 a\\..\\b\n"), "names no file"),
        (sealed(b"00000000 1 \x1b[2J\n"), "names no file"),
        (sealed(b"00000000 1 \xff\n"), "cannot be read: 'utf-8' codec"),
        (sealed(b"00000000 1 " + b"x" * (8 << 20) + b"\n"), "names no file"),
        (sealed(b"00000000 1 a\n", b"00000000 1 b\n", count=1), "lists more than the 1 files"),
        (sealed(b"00000000 1 a\n", count=2), "names no file of a dataset in line 3"),
        (sealed(count=10**18), "names no file of a dataset in line 2"),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_the_only_fault(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "m").write_bytes(data)
    (found,) = faults(tmp_path / "m", FILES)
    assert said in found
    assert "delete m" in found
    assert "\x1b" not in found


def test_every_bit_counts(tmp_path: Path) -> None:
    whole = written(tmp_path / "m").read_bytes()
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]):
            (tmp_path / "m").write_bytes(data)
            assert faults(tmp_path / "m", FILES)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "hole", "device"])
def test_what_is_no_ordinary_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path, whole = tmp_path / "m", written(tmp_path / "whole")
    if kind == "link":
        path.symlink_to(whole)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 42)
    (found,) = faults(path, FILES)
    assert "delete m" in found


def test_a_list_without_end_is_not_gone_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is not there no more than some is counted, and none is kept."""
    monkeypatch.setattr(manifest, "_MOST_MISSING", 1000)
    write_manifest(tmp_path / "m", "some", (entry(f"f{number}", b"") for number in range(50_000)))
    comparison = Comparison(tmp_path / "m", "some")
    comparison.add("f0", 0, 0)
    (found,) = comparison.faults()
    assert found.startswith("at least 1,001 files are missing that it lists: f1, ")
    assert not comparison._listed
