"""A journal gives what was committed, in order, whatever became of its end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.formats.crashsafe.journal import Journal, journal_format, read_journal
from edgefirst_ros.model.errors import DatasetError, WriteError

FORMAT = "test 1"
PAYLOADS = st.lists(st.binary(max_size=40), max_size=6)


def written(path: Path, payloads: list[bytes]) -> list[int]:
    """A journal of the payloads; where its head and each record end."""
    journal = Journal(path, FORMAT)
    journal.begin()
    ends = [path.stat().st_size]
    ends += [ends[0] + sum(sizes) for sizes in _sums([journal.append(payload) for payload in payloads])]
    journal.close()
    return ends


def _sums(sizes: list[int]) -> list[list[int]]:
    return [sizes[: count + 1] for count in range(len(sizes))]


def payloads_of(path: Path) -> list[bytes]:
    return [record.payload for record in read_journal(path, FORMAT)]


@settings(max_examples=60, deadline=None)
@given(payloads=PAYLOADS, where=st.floats(0, 1))
def test_cut_anywhere_it_gives_its_whole_records(
    payloads: list[bytes], where: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "j"
    ends = written(path, payloads)
    assert payloads_of(path) == payloads
    assert [record.end for record in read_journal(path, FORMAT)] == ends[1:]
    cut = int(where * ends[-1])
    os.truncate(path, cut)
    assert payloads_of(path) == payloads[: sum(end <= cut for end in ends[1:])]


@settings(max_examples=80, deadline=None)
@given(payloads=PAYLOADS, where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_with_a_damaged_byte_it_gives_the_records_before_it(
    payloads: list[bytes], where: float, flip: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("flip") / "j"
    ends = written(path, payloads)
    data = bytearray(path.read_bytes())
    place = int(where * len(data))
    data[place] ^= flip
    path.write_bytes(data)
    if place < ends[0]:
        with pytest.raises(DatasetError, match="nothing was changed"):
            payloads_of(path)
    else:
        assert payloads_of(path) == payloads[: sum(end <= place for end in ends[1:])]


@settings(max_examples=30, deadline=None)
@given(payloads=PAYLOADS, tail=st.one_of(st.binary(max_size=60), st.integers(0, 9000).map(bytes)))
def test_what_follows_the_last_record_is_none(
    payloads: list[bytes], tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("tail") / "j"
    written(path, payloads)
    with path.open("ab") as file:
        file.write(tail)
    assert payloads_of(path) == payloads


def test_a_record_in_another_place_is_none(tmp_path: Path) -> None:
    head, first, second = written(tmp_path / "j", [b"one", b"two"])
    data = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(data[:head] + data[first:second])
    assert payloads_of(tmp_path / "j") == []


def test_what_was_cut_off_makes_room_for_other_records(tmp_path: Path) -> None:
    ends = written(tmp_path / "j", [b"one", b"two"])
    journal = Journal(tmp_path / "j", FORMAT)
    journal.cut(ends[1])
    journal.append(b"three")
    assert [record.payload for record in journal.records()] == [b"one", b"three"]
    journal.begin()
    assert [*journal.records()] == []
    journal.close()


def test_it_says_whose_it_is(tmp_path: Path) -> None:
    (head,) = written(tmp_path / "j", [])
    assert journal_format(tmp_path / "j") == "test"
    for size in range(head - 1, 0, -1):
        os.truncate(tmp_path / "j", size)
        assert journal_format(tmp_path / "j") is None
    assert payloads_of(tmp_path / "j") == [], "killed at its birth"
    for size in range(head):
        (tmp_path / "j").write_bytes(b"edgefirst_ros journal test 1\n"[:size] + bytes(600 - size))
        assert journal_format(tmp_path / "j") is None
        assert payloads_of(tmp_path / "j") == []
    (tmp_path / "j").write_bytes(bytes(600))
    assert journal_format(tmp_path / "j") is None
    assert payloads_of(tmp_path / "j") == [], "the power went at its birth: there is a length, and no bytes"


@pytest.mark.parametrize(
    "content", [b"EFNCORE1\0\0", b'{"version":1,"dataset":"ds"}\n', bytes(9) + b"x", b"x"]
)
def test_a_file_of_another_version_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "j").write_bytes(content)
    assert journal_format(tmp_path / "j") is None
    with pytest.raises(DatasetError, match="another version of this package"):
        payloads_of(tmp_path / "j")
    assert (tmp_path / "j").read_bytes() == content


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", FORMAT)
    with pytest.raises(WriteError, match=r"j: this dataset is being written; wait"):
        Journal(tmp_path / "j", FORMAT)
    journal.close()
    Journal(tmp_path / "j", FORMAT).close()
    with pytest.raises(FileExistsError):
        Journal(tmp_path / "j", FORMAT, exclusive=True)


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j", FORMAT)
    journal.begin()
    journal.append(b"one")

    def full(descriptor: int, buffers: list[bytes], offset: int) -> int:
        os.pwrite(descriptor, b"".join(buffers)[:5], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(OSError, match="No space left"):
            journal.append(b"two")
    journal.append(b"three")
    journal.close()
    assert payloads_of(tmp_path / "j") == [b"one", b"three"]


def test_records_wait_for_the_disk_only_when_they_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    journal = Journal(tmp_path / "j", FORMAT)
    journal.begin()
    journal.append(b"one")
    assert not synced
    journal.sync()
    assert len(synced) == 1
    journal.close()
