"""A part of a recording by time: what is read of the file, what is left out and counted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import recorded
from hourlong import CHUNKS, SECOND, TOPICS, web_server, write_hour
from mcapbytes import NOW_NS

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.sources.info import glance
from edgefirst_ros.sources.location import location_of
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import TimeWindow, TopicInfo, excerpt_of
from edgefirst_ros.sources.records import footer

MINUTE = TimeWindow(NOW_NS + 1800 * SECOND, NOW_NS + 1860 * SECOND)


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[tuple[int, int]]]]:
    path = tmp_path_factory.mktemp("hour") / "hour.mcap"
    yield path, write_hour(path)
    path.unlink()  # looks large to what copies it


def test_of_an_hour_a_minute_is_read(hour: tuple[Path, list[tuple[int, int]]]) -> None:
    pytest.importorskip("obstore")
    path, places = hour
    with web_server(path.parent) as server:
        recording = McapRecording(location_of(f"{server.url}/{path.name}"))
        before = {m.topic: m.data for m in recording.latched({"/tf_static", "/once"}, MINUTE.begin_ns)}
        found = list(recording.messages(window=MINUTE))
        needed = sum(end - start for start, end in places[1800:1860])
        assert needed < server.bytes_sent <= 1.1 * needed
        assert len(server.requests) <= 14  # 30 MB by 4 MiB, the summary, and what is latched
    assert [m.receive_ns for m in found] == [
        m.receive_ns for m in McapRecording(path).messages(window=MINUTE)
    ]
    assert len(found) == 120
    assert before == {"/once": b"\0\1\0\0once", "/tf_static": b"\0\1\0\0" + (1799).to_bytes(4, "little")}
    outside = {TopicInfo(TOPICS[n], "std_msgs/msg/String"): CHUNKS - 60 for n in (1, 2)}
    assert recording.outside == {**outside, TopicInfo("/once", "std_msgs/msg/String"): 1}
    assert recording.unread_bytes == sum(end - start for start, end in places) - needed


@pytest.mark.parametrize("cut", [0, 40])
def test_a_window_holds_what_a_filter_does(tmp_path: Path, cut: int) -> None:
    """With a summary, and without one, where everything is read."""
    path = recorded.record(tmp_path / "a.mcap", recorded.messages(seconds=4))
    path.write_bytes(path.read_bytes()[: -cut or None])
    whole = list(McapRecording(path).messages())
    first_ns = whole[0].receive_ns
    window = TimeWindow(first_ns + SECOND, first_ns + 2 * SECOND)
    recording = McapRecording(path)
    found = list(recording.messages(7, window))
    kept = [m for m in whole if window.has(m.receive_ns)]
    assert [m[:5] for m in found] == [m[:5] for m in kept] != []
    assert [m.arrival for m in found] == list(range(7, 7 + len(kept)))
    assert recording.outside.total() == len(whole) - len(kept)
    latched = list(recording.latched({"/tf_static"}, window.begin_ns))
    expected = [m for m in whole if m.topic == "/tf_static" and m.receive_ns < window.begin_ns]
    assert [m.data for m in latched] == [m.data for m in expected] != []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("1.5", None, (11_500_000_000, 1 << 64)),
        (None, "2", (0, 12_000_000_000)),
        ("1970-01-01T00:00:10.25", "1970-01-01T02:00:11+02:00", (10_250_000_000, 11_000_000_000)),
        ("1970-01-01T00:00:11Z", "3", (11_000_000_000, 13_000_000_000)),
    ],
)
def test_times_are_seconds_from_the_start_or_utc(
    start: str | None, end: str | None, expected: tuple[int, int]
) -> None:
    excerpt = excerpt_of(start, end)
    assert excerpt is not None
    window = excerpt.window([(20 * SECOND, 30 * SECOND), (10 * SECOND, 15 * SECOND)])
    assert (window.begin_ns, window.end_ns) == expected


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("soon", None, "--start soon: expected seconds from the recording's start, or a time in UTC"),
        ("-1", "nan", "--start -1: expected .*; --end nan: expected"),
        ("5", "5", "--end 5: is not after --start 5"),
    ],
)
def test_what_is_no_time_is_refused(start: str | None, end: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        excerpt_of(start, end)


def test_a_damaged_summary_raises_nothing(tmp_path: Path) -> None:
    """Whatever an index says, reading ends with messages, or with faults."""
    whole = recorded.messages(seconds=2)
    path = recorded.record(tmp_path / "a.mcap", whole, chunk_bytes=20_000)
    data = path.read_bytes()
    summary = McapRecording(path).summary
    assert summary.chunk_count == len(summary.chunks) > 5
    with path.open("rb") as file:
        begin = footer(file, len(data))
    assert begin is not None
    draw, first_ns = random.Random(3), whole[0].receive_ns
    window = TimeWindow(first_ns + SECOND // 2, first_ns + SECOND)
    expected = [m.data for m in McapRecording(path).messages(window=window)]
    seen: set[bool] = set()
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(draw.choice([1, 3])):
            at, length = draw.randrange(begin, len(data) - 40), draw.choice([1, 4, 8])
            damaged[at : at + length] = draw.choice([b"\xff" * length, draw.randbytes(length)])
        path.write_bytes(damaged)
        recording = McapRecording(path)
        found = [m.data for m in recording.messages(window=window)]
        list(recording.latched({"/tf_static", "/camera/info"}, window.begin_ns))
        glance(recording, build_config({}))
        seen.add(found == expected)
    assert seen == {True, False}
