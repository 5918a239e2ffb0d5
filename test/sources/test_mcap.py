"""Whole, cut and damaged recordings."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer

from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import open_recording
from edgefirst_ros.sources.records import CHECKSUM, MAGIC

COMPRESSIONS = {"none": CompressionType.NONE, "lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}


def write(path: Path, compression: str = "lz4", messages: int = 200, *, chunked: bool = True) -> Path:
    """Payloads that compress badly, so that a chunk has several blocks; log times out of order on purpose."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=20_000, compression=COMPRESSIONS[compression], use_chunking=chunked)
        writer.start(profile="", library="test")
        schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
        channels = [writer.register_channel(f"/t{n}", "cdr", schema) for n in range(2)]
        for n in range(messages):
            payload = struct.pack("<I", n) + bytes((n * 7919 + k * k) % 251 for k in range(496))
            writer.add_message(channels[n % 2], log_time=1000 - n, publish_time=n, sequence=n, data=payload)
        writer.finish()
    return path


def numbers(recording: McapRecording) -> list[int]:
    return [struct.unpack_from("<I", m.data)[0] for m in recording.messages() if not m.fault]


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_message_comes_once_in_file_order(tmp_path: Path, compression: str, chunked: bool) -> None:
    recording = McapRecording(write(tmp_path / "a.mcap", compression, chunked=chunked))
    messages = list(recording.messages())
    assert [struct.unpack_from("<I", m.data)[0] for m in messages] == list(range(200))
    assert [m.arrival for m in messages] == list(range(200))
    assert (messages[3].topic, messages[3].schema) == ("/t1", "std_msgs/msg/String")
    assert (messages[3].receive_ns, messages[3].publish_ns) == (997, 3)
    assert messages[3].definition == "string data"
    assert recording.faults == []
    assert [t.topic for t in recording.topics()] == ["/t0", "/t1"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.02, 0.999))
def test_a_cut_recording_gives_everything_whole_before_the_cut(
    tmp_path: Path, compression: str, share: float
) -> None:
    data = write(tmp_path / "whole.mcap", compression).read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(data[: max(len(MAGIC) + 60, int(len(data) * share))])
    recording = McapRecording(cut)
    found = numbers(recording)
    assert found == list(range(len(found)))
    whole_chunks = _messages_in_whole_chunks(cut.read_bytes())
    assert len(found) >= whole_chunks
    if len(found) < 200:
        assert recording.faults, "what is missing must be said"


def _messages_in_whole_chunks(data: bytes) -> int:
    at, messages = len(MAGIC), 0
    while at + 9 <= len(data):
        opcode, length = struct.unpack_from("<BQ", data, at)
        if at + 9 + length > len(data):
            break
        if opcode == 0x06:
            plain = struct.unpack_from("<Q", data, at + 9 + 16)[0]
            messages += plain // (500 + 22 + 9)
        at += 9 + length
    return messages


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_the_whole_messages_of_a_cut_chunk_are_saved(tmp_path: Path, compression: str) -> None:
    path = write(tmp_path / "a.mcap", compression)
    data = path.read_bytes()
    first = struct.unpack_from("<Q", data, data.index(b"\x06", len(MAGIC)) + 1)[0]
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(data[: len(MAGIC) + 200 + int(first * 0.8)])
    saved = numbers(McapRecording(cut))
    if compression == "none":
        assert len(saved) > 20
    assert saved == list(range(len(saved)))


def test_a_chunk_with_a_wrong_checksum_is_delivered_with_its_fault(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mcap", "none")
    data = bytearray(path.read_bytes())
    hit = data.index(struct.pack("<I", 50) + bytes([(50 * 7919) % 251])) + 100
    data[hit] ^= 0xFF
    path.write_bytes(data)
    faults = Counter(m.fault for m in McapRecording(path).messages())
    assert faults[CHECKSUM] > 20
    assert faults[""] + faults[CHECKSUM] == 200


def test_a_chunk_that_does_not_decompress_is_skipped_and_the_rest_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mcap", "lz4")
    data = bytearray(path.read_bytes())
    magic = data.index(b"\x04\x22\x4d\x18")
    data[magic] = 0
    path.write_bytes(data)
    recording = McapRecording(path)
    found = numbers(recording)
    assert 100 < len(found) < 200
    assert "does not decompress" in recording.faults[0].text


@pytest.mark.parametrize("content", [b"", b"not an mcap file at all", b"\x89MCAP1\r\n"])
def test_what_is_no_recording_is_said_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.mcap"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"is it an MCAP recording\?"):
        McapRecording(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=300), at=st.floats(0, 1))
def test_noise_never_raises(tmp_path: Path, noise: bytes, at: float) -> None:
    data = bytearray(write(tmp_path / "a.mcap", "none", messages=20).read_bytes())
    start = len(MAGIC) + int(at * (len(data) - len(MAGIC)))
    data[start : start + len(noise)] = noise
    path = tmp_path / "noisy.mcap"
    path.write_bytes(data)
    recording = McapRecording(path)
    recording.topics()
    assert len(list(recording.messages())) <= 40


def test_what_a_device_recorded_counts(recording: Path, truth: dict[str, Any]) -> None:
    found = McapRecording(recording)
    assert Counter(m.topic for m in found.messages()) == truth["counts"]
    assert found.host == "maivin-test"
    assert found.sequence_name == recording.stem


@pytest.mark.parametrize("suffix", [".mcap", ".bag", ".db3"])
def test_what_git_lfs_has_not_fetched_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"drive{suffix}"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(RecordingError, match="git lfs pull"):
        open_recording(path)
