"""Files that declare more than they hold, or hold more than anybody reads: bounded memory, and a finding."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard
from mcapbytes import BEGINNING, END, NOW_NS, channel, chunk, compressed, mcap, message, record, schema

from edgefirst_ros.config import hints
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources import records
from edgefirst_ros.sources.info import MOST_UNUSED, inspect
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import TimeWindow
from edgefirst_ros.sources.records import (
    BAD_TIME,
    FURTHER,
    MAGIC,
    MAX_FAULTS,
    MAX_TIME_NS,
    TOO_MANY_CHANNELS,
    TOO_MANY_CHUNKS,
    TOO_MANY_RECORDS,
    TOO_MUCH_TEXT,
)
from edgefirst_ros.sources.session import SESSION

MOST_MB = 512
DECLARED = schema(1, "sensor_msgs/msg/Image") + channel(1, 1, "/camera/image")
CONFIG = build_config({})


def saved(path: Path, content: bytes) -> McapRecording:
    path.write_bytes(content)
    return McapRecording(path)


MEASURED = """
import resource, subprocess, sys
limit = int(sys.argv[1])
def bound():
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
done = subprocess.run([sys.executable, "-m", "edgefirst_ros", *sys.argv[2:]], preexec_fn=bound)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Between this process and the command: a child's peak is at least what its parent holds when it is begun."""


def peak_mb(*words: str) -> tuple[int, float, str]:
    """Exit code, peak memory and output of the command, which dies if it wants four times what it may."""
    command = [sys.executable, "-c", MEASURED, str(4 * MOST_MB << 20), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    shown, _, last = done.stdout.decode().rstrip("\n").rpartition("\n")
    code, peak_kb = last.split()
    return int(code), int(peak_kb) / 1024, shown


@cache
def bomb(compression: str) -> tuple[bytes, int]:
    """A chunk's compressed bytes, a message of zeros, and their size."""
    size = 1 << 30
    head = DECLARED + struct.pack("<BQ", 5, 22 + size) + struct.pack("<HIQQ", 1, 0, NOW_NS, NOW_NS)
    return compressed(compression, head, size >> 20), len(head) + size


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("compression", "declared"), [("zstd", None), ("zstd", 1000), ("lz4", 1000), ("lz4", 2**64 - 1)]
)
def test_a_chunk_that_would_unpack_to_a_gigabyte_is_not_read(
    tmp_path: Path, compression: str, declared: int | None
) -> None:
    path = tmp_path / "bomb.mcap"
    packed, size = bomb(compression)
    path.write_bytes(mcap(chunk(compression, packed, declared or size)))
    code, mb, shown = peak_mb("info", str(path))
    assert (code, mb < MOST_MB, "holds no topic" in shown) == (2, True, True), shown
    assert "a chunk " in shown


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_nor_is_one_that_is_cut_off_nor_in_a_conversion(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "bomb.mcap"
    packed, size = bomb(compression)
    path.write_bytes(mcap(chunk(compression, packed, size))[:-100])
    code, mb, shown = peak_mb("convert", str(path), "-o", str(tmp_path / "out"))
    assert (code, mb < MOST_MB) == (2, True), shown


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("opcode", [3, 4, 5, 12])
def test_a_record_of_a_gigabyte_is_not_read(tmp_path: Path, opcode: int) -> None:
    """The file is a hole on disk, and a gigabyte long all the same."""
    path, size = tmp_path / "large.mcap", 1 << 30
    with path.open("wb") as file:
        file.write(BEGINNING + DECLARED + struct.pack("<BQ", opcode, size))
        file.write(struct.pack("<HIQQ", 1, 0, NOW_NS, NOW_NS))
        file.seek(size - 22 - 1, os.SEEK_CUR)
        file.write(b"\0" + message(1) + END)
    code, mb, shown = peak_mb("info", str(path))
    assert (code, mb < MOST_MB, " 1 message " in shown) == (0, True, True), shown


def test_very_many_messages_of_a_chunk_are_not_listed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = DECLARED + b"".join(message(1, struct.pack("<I", n), NOW_NS + n) for n in range(50))
    path = tmp_path / "a.mcap"
    whole = list(saved(path, mcap(chunk("", content, 0))).messages())
    monkeypatch.setattr(records, "MAX_LISTED", 7)
    assert list(McapRecording(path).messages()) == whole
    assert not isinstance(next(_loaded(path)).messages, list)


def _loaded(path: Path) -> Any:  # noqa: ANN401
    reader = records.RecordReader()
    with path.open("rb") as file:
        for section in reader.walk(file, path.stat().st_size):
            if section.is_chunk:
                yield reader.load(file, section)


@pytest.mark.parametrize("log_ns", [MAX_TIME_NS + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("in_chunk", [True, False])
def test_a_message_without_a_sane_time_is_refused_alone(tmp_path: Path, log_ns: int, in_chunk: bool) -> None:
    content = DECLARED + message(1) + message(1, log_ns=log_ns) + message(1, publish_ns=log_ns)
    recording = saved(tmp_path / "a.mcap", mcap(chunk("", content, 0) if in_chunk else content))
    found = list(recording.messages())
    assert [m.fault for m in found] == ["", BAD_TIME, ""]
    assert [(m.receive_ns, m.publish_ns) for m in found] == [(NOW_NS, NOW_NS)] * 3
    info = inspect(recording, CONFIG)
    assert (info["messages"], info["duration_s"]) == (3, 0.0)


def test_many_topics_are_neither_listed_nor_compared_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"/t/{n:05d}/camera/h264" for n in range(2_000)]
    content = schema(1, "foxglove_msgs/msg/CompressedVideo")
    content += b"".join(channel(n, 1, name) + message(n) for n, name in enumerate(names))
    recording = saved(tmp_path / "a.mcap", mcap(content))
    compared = 0

    def alike(*_: str) -> float:
        nonlocal compared
        compared += 1
        return 0.5

    monkeypatch.setattr(hints, "_similarity", alike)
    found = inspect(recording, CONFIG)
    assert 0 < compared < 10 * hints.MOST_COMPARED
    assert len(found["topics"]) == MOST_UNUSED + 1
    assert found["topics"][f"{2_000 - MOST_UNUSED:,} more without a use"]["messages"] == 2_000 - MOST_UNUSED
    assert found["messages"] == 2_000
    assert len(found["ambiguous"]) < 1_000


def test_faults_beyond_many_are_counted_together(tmp_path: Path) -> None:
    count = MAX_FAULTS + 500
    recording = saved(tmp_path / "a.mcap", mcap(*(message(n + 1) for n in range(count))))
    assert not list(recording.messages())
    assert len(recording.faults) == MAX_FAULTS + 1
    *single, rest = recording.faults
    assert rest.text == FURTHER
    assert sum(fault.bytes for fault in recording.faults) == 4 * count
    assert len({fault.text for fault in single}) == MAX_FAULTS


def test_a_schema_of_absurd_size_leaves_the_rest_readable(tmp_path: Path) -> None:
    huge = schema(2, "x/msg/Y", bytes(5 << 20))
    recording = saved(tmp_path / "a.mcap", mcap(DECLARED, huge, message(1), record(0x80, b"private")))
    assert len(list(recording.messages())) == 1
    assert "a schema record of absurd size" in [fault.text for fault in recording.faults]


def summarised(*summary: bytes) -> bytes:
    """A recording of one message with these records in its summary."""
    data = mcap(DECLARED, message(1))[: -len(END)] + record(15, struct.pack("<I", 0))
    return data + b"".join(summary) + record(2, struct.pack("<QQI", len(data), 0, 0)) + MAGIC


def test_topics_beyond_all_reason_are_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_CHANNELS", 100)
    many = [channel(n, 1, f"/t/{n}") + message(n) for n in range(1, 301)]
    for name, content in (("a", mcap(DECLARED, *many)), ("b", summarised(schema(1, "a/B"), *many))):
        recording = saved(tmp_path / f"{name}.mcap", content)
        assert len(recording.topics()) == 100
        assert list(recording.messages())
        assert TOO_MANY_CHANNELS in [fault.text for fault in recording.faults]


@pytest.mark.parametrize("place", ["records", "chunks", "summary"])
@pytest.mark.parametrize("said", [channel, schema], ids=["topics", "types"])
def test_what_declares_other_things_again_and_again_is_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: Callable[..., bytes]
) -> None:
    monkeypatch.setattr(records, "MAX_DECLARED", 50)
    names = (f"a/msg/B{n}" for n in range(500))
    many = [channel(2, 1, name) if said is channel else schema(2, name) for name in names]
    packed = [chunk("zstd", zstandard.compress(each), len(each)) for each in many]
    content = {
        "records": mcap(DECLARED, *many, message(1)),
        "chunks": mcap(DECLARED, *packed, message(1)),
        "summary": summarised(DECLARED, *many),
    }[place]
    with pytest.raises(RecordingError, match=r"a\.mcap: .*declared anew more than"):
        list(saved(tmp_path / "a.mcap", content).messages())


def test_a_schema_that_changes_is_that_of_the_channels_after_it(tmp_path: Path) -> None:
    again = schema(1, "sensor_msgs/msg/Imu") + channel(1, 1, "/camera/image") + message(1)
    content = mcap(chunk("", DECLARED + message(1), 0), chunk("", again, 0))
    found = list(saved(tmp_path / "a.mcap", content).messages())
    assert [each.schema for each in found] == ["sensor_msgs/msg/Image", "sensor_msgs/msg/Imu"]


def test_definitions_are_kept_once_and_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_DEFINITION_BYTES", 10_000)
    for size in (1, 100):  # of other types, and of one
        texts = [schema(n, f"a/B{n % size}", b"uint8 a\n" * (100 + n)) for n in range(2, 60)]
        recording = saved(tmp_path / f"{size}.mcap", mcap(DECLARED, *texts, message(1)))
        (found,) = recording.messages()
        assert found.definition == "string data"
        assert [fault.text for fault in recording.faults] == [TOO_MUCH_TEXT]


def test_a_summary_of_endless_chunks_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_INDEXED", 20)
    index = [record(8, struct.pack("<QQQQI", NOW_NS, NOW_NS, 30 + n, 64, 0)) for n in range(50)]
    recording = saved(tmp_path / "a.mcap", summarised(DECLARED, *index))
    assert recording.summary.chunks == []
    assert recording.spans == [(NOW_NS, NOW_NS)]
    assert len(list(recording.messages())) == 1
    assert [fault.text for fault in recording.faults] == [TOO_MANY_CHUNKS]
    assert list(recording.latched(["/camera/image"], NOW_NS + 1))
    assert not list(recording.messages(window=TimeWindow(0, 5)))


def test_tiny_records_that_compress_to_nothing_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "FREE_RECORDS", 1_000)
    for tiny in (message(1), record(0x90, b""), channel(1, 1, "/camera/image")):
        plain = DECLARED + tiny * 20_000
        packed = lz4.frame.compress(plain)
        recording = saved(tmp_path / "a.mcap", mcap(chunk("lz4", packed, len(plain))))
        assert not list(recording.messages())
        assert [fault.text for fault in recording.faults] == [TOO_MANY_RECORDS]


def test_a_million_places_of_metadata_are_not_all_looked_at(tmp_path: Path) -> None:
    text = struct.pack("<QQI", 36, 60, len(SESSION)) + SESSION.encode()
    recording = saved(tmp_path / "a.mcap", summarised(DECLARED, *[record(13, text)] * 1_000))
    reads = 0

    class Counting:
        def __init__(self, file: Any) -> None:  # noqa: ANN401
            self._file = file

        def read(self, size: int) -> bytes:
            nonlocal reads
            reads += 1
            return bytes(self._file.read(size))

        def seek(self, at: int) -> None:
            self._file.seek(at)

    with recording.path.open("rb") as file:  # type: ignore[union-attr]
        assert records.metadata(Counting(file), recording.size, SESSION) is None  # type: ignore[arg-type]
    assert reads < 20
