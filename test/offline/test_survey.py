"""The first of two readings: it finds the times of the second, of less than all of the recording."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from faulty import FaultyOptions
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.ncore.store.files import Reading
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.offline.survey import MotionSurvey
from edgefirst_ros.sources import records
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.timing import clock
from edgefirst_ros.timing.clock import Boundary

SECOND = 1_000_000_000
SMALL: dict[str, Any] = {
    "seconds": 8.0,
    "width": 160,
    "height": 96,
    "fps": 5,
    "lidar_points": 64,
    "radar_hz": 9.0,
    "cube_shape": (1, 16, 2, 8),
    "imu_hz": 50.0,
    "gps_hz": 2.0,
    "gps_no_fix": 0,
}
CONFIG = build_config({"formats": ["ncore"], "topics": {"radar_cube": {"required": "never"}}})
Damage = Callable[[Path], None]


def made(folder: Path, **options: Any) -> Path:  # noqa: ANN401 - any option of a drive
    return simulate(folder, FaultyOptions(**(SMALL | options))).mcap


def _rewritten(
    change: Callable[[str, int, bytes], Iterable[tuple[int, bytes]]] = lambda _, log_ns, data: [
        (log_ns, data)
    ],
    compression: CompressionType = CompressionType.LZ4,
    chunk_bytes: int = 20_000,
) -> Damage:
    """Writes other messages for each, by their times of receipt and their data; in small chunks."""

    def damage(path: Path) -> None:
        with path.open("rb") as file:
            found = [*make_reader(file).iter_messages(log_time_order=False)]
        with path.open("wb") as file:
            writer = Writer(file, chunk_size=chunk_bytes, compression=compression)
            writer.start(profile="ros2", library="test")
            numbers: dict[str, int] = {}
            for schema, channel, message in found:
                if channel.topic not in numbers:
                    of = writer.register_schema(schema.name, schema.encoding, schema.data)  # type: ignore[union-attr]
                    numbers[channel.topic] = writer.register_channel(channel.topic, "cdr", of)
                for log_ns, data in change(channel.topic, message.log_time, message.data):
                    writer.add_message(numbers[channel.topic], log_ns, data, log_ns)
            writer.finish()

    return damage


_in_small_chunks = _rewritten()


def _wrong_sums(path: Path, compression: CompressionType = CompressionType.LZ4) -> None:
    """Every fifth chunk says another checksum than that of its content."""
    _rewritten(compression=compression)(path)
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        chunks = make_reader(file).get_summary().chunk_indexes  # type: ignore[union-attr]
    assert len(chunks) > 10
    for chunk in chunks[::5]:
        data[chunk.chunk_start_offset + 9 + 24] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    _rewritten(compression=CompressionType.ZSTD)(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * 0.8)])


def _lying_index(path: Path) -> None:
    """Of every chunk the summary says that it holds messages of one topic, which there is not."""
    _in_small_chunks(path)
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    for chunk in summary.chunk_indexes:
        times = chunk.message_start_time, chunk.message_end_time
        entry = struct.pack("<QQQQ", *times, chunk.chunk_start_offset, chunk.chunk_length)
        at = data.rindex(entry) + len(entry)
        (length,) = struct.unpack_from("<I", data, at)
        data[at + 4 : at + 4 + length] = (b"\xee\xee" + bytes(8)) * (length // 10)
    path.write_bytes(data)


BEGIN_NS = FaultyOptions().start_ns
LATE_NS = BEGIN_NS + 5 * SECOND


def _stepped(by_s: int) -> Damage:
    """The recorder's clock is set while it records."""
    return _rewritten(lambda _, log_ns, data: [(log_ns + by_s * SECOND * (log_ns > LATE_NS), data)])


def _unreadable(topic: str, log_ns: int, data: bytes) -> Iterable[tuple[int, bytes]]:
    """Lidar and radar send for four seconds what cannot be decoded, a second later than all that can."""
    is_cloud = topic in {"/lidar/points", "/radar/targets"}
    if is_cloud and log_ns < LATE_NS - SECOND:
        return [(log_ns - SECOND // 50, data[:-5])]
    return [(log_ns, data)]


def _twice(topic: str, log_ns: int, data: bytes) -> Iterable[tuple[int, bytes]]:
    """Clouds come twice, the second time a second later; or at once, and differ at their ends only."""
    if topic != "/lidar/points":
        return [(log_ns, data)]
    return [(log_ns, data), (log_ns, data)] if log_ns % 2 else [(log_ns, data), (log_ns, data[:-1] + b"\x01")]


CASES: dict[str, tuple[dict[str, Any], Damage | None]] = {
    "whole": ({}, None),
    "other latencies": ({"latency_ms": {"imu": 9.0}, "stalls": {"lidar": (0.1, 300.0)}}, None),
    "topics begin late": ({"silent": {"lidar": ((0.0, 5.0),), "radar": ((0.0, 4.5),)}}, None),
    "topic by topic": ({"order": "topic"}, _in_small_chunks),
    "wrong sums": ({}, partial(_wrong_sums, compression=CompressionType.NONE)),
    "cut": ({}, _cut),
    "lying index": ({}, _lying_index),
    "set back": ({}, _stepped(-20)),
    "set forward": ({}, _stepped(30)),
    "unreadable": ({}, _rewritten(_unreadable)),
    "twice": ({"duplicate": {"camera": 0.3, "radar": 0.3}}, _rewritten(_twice)),
}


def surveyed(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The times of IMU data that surveys find from now on, in microseconds, between breaks of the clock."""
    found: list[list[int]] = [[]]
    original = MotionSurvey._timed

    def watch(self: MotionSurvey, events: Iterable[Any]) -> None:
        taken = [*events]
        for event in taken:
            if isinstance(event, Boundary):
                found.append([])
            elif event.refusal is None and isinstance(event.datum, Imu):
                found[-1].append(event.time_ns // 1000)
        original(self, taken)

    monkeypatch.setattr(MotionSurvey, "_timed", watch)
    return found


def converted(recording: Path, out: Path) -> list[list[int]]:
    """The times of IMU data that the sequences of a conversion hold, in microseconds."""
    convert([recording], out, CONFIG, dataset="d")
    found = []
    for store in sorted(out.glob("ncore/*/*.ncore4.zarr.itar")):
        with Reading(store) as reading:
            get = reading.store.get
            found.append(read_array(get, "poses/default/generic_data/imu_timestamps_us").tolist())
    return sorted(found)


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("case", CASES)
def test_its_times_are_those_of_the_conversion(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, damage = CASES[case]
    recording = made(tmp_path / "drive", **options)
    if damage is not None:
        damage(recording)
    first = surveyed(monkeypatch)
    second = converted(recording, tmp_path / "out")
    assert len(second) == len(first) == (2 if case.startswith("set ") else 1)
    for found, written in zip(sorted(first), second, strict=True):
        assert len(written) > 100
        assert set(written) <= set(found)
        assert len(found) - len(written) <= 3, "what is beyond the sequence's ends"


def test_what_memory_cannot_hold_ends_the_search_for_clocks_in_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clouds that come late give another offset than all that would come in the time for it."""
    recording = made(tmp_path / "drive", stalls={"lidar": (0.5, 200.0), "radar": (0.5, 200.0)})
    monkeypatch.setattr(clock, "MOST_HELD_BYTES", 100_000)
    first = surveyed(monkeypatch)
    (written,) = converted(recording, tmp_path / "out")
    assert len(written) > 100
    assert set(written) <= set(first[0])


def test_two_readings_sum_every_chunk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = made(tmp_path / "drive")
    _wrong_sums(recording)
    summed: list[int] = []
    original = records.crc32
    monkeypatch.setattr(records, "crc32", lambda data: summed.append(len(data)) or original(data))
    read = McapRecording(recording)
    both = [Counter(message.fault for message in read.messages()) for _ in range(2)]
    assert both[0] == both[1]
    assert len(both[0]) == 2
    chunks = len(read.summary.chunks)
    assert len(summed) == chunks + len(read.summary.chunks[::5]), "what is wrong is so both times"
