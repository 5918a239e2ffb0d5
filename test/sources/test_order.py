"""Files in another order than that of receipt, and files whose clock was set back: told apart."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import pytest
from mcap.writer import CompressionType, Writer

from edgefirst_ros.sources import mcap as chunked
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.order import RECORD_BYTES

SECOND = 1_000_000_000
START = 1_777_626_000 * SECOND
Message = tuple[str, int]
"""Topic and log time."""


def drive(seconds: int = 60, *, start: int = START) -> list[Message]:
    """Topics of very different rates, in the order of their receipt."""
    rates = {"/imu": 20, "/camera": 10, "/lidar": 5, "/tf": 1}
    sent = [
        (topic, start + n * SECOND // rate + number * 1_000_000)
        for number, (topic, rate) in enumerate(rates.items())
        for n in range(seconds * rate)
    ]
    return sorted(sent, key=lambda m: m[1])


def write(
    path: Path,
    messages: Iterable[Message],
    *,
    chunk: int = 4000,
    chunked: bool = True,
    summary: bool = True,
    repeats: bool = False,
) -> McapRecording:
    """The messages in this order, each with its time and its number, of its time if it ``repeats`` itself."""
    with path.open("wb") as stream:
        writer = Writer(stream, chunk_size=chunk, compression=CompressionType.LZ4, use_chunking=chunked)
        writer.start(profile="", library="test")
        schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
        ids: dict[str, int] = {}
        for number, (topic, log_ns) in enumerate(messages):
            if topic not in ids:
                ids[topic] = writer.register_channel(topic, "cdr", schema)
            data = struct.pack("<QQ", log_ns, 0 if repeats else number) + bytes(142)
            writer.add_message(ids[topic], log_time=log_ns, publish_time=log_ns, data=data)
        writer.finish()
    if not summary:
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(b"\x0f\x04" + bytes(7))])
    return McapRecording(path)


def by_topic(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages, key=lambda m: m[0])


def read(recording: McapRecording) -> list[Message]:
    found = list(recording.messages())
    assert [m.arrival for m in found] == list(range(len(found)))
    for m in found:
        assert struct.unpack_from("<Q", m.data)[0] == m.receive_ns
    assert recording.position == recording.size
    return [(m.topic, m.receive_ns) for m in found]


@pytest.mark.parametrize("summary", [True, False])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("chunk", [4000, 10_000_000])
def test_a_file_ordered_by_topic_is_read_in_the_order_of_receipt(
    tmp_path: Path, chunk: int, chunked: bool, summary: bool
) -> None:
    recording = write(tmp_path / "a.mcap", by_topic(drive()), chunk=chunk, chunked=chunked, summary=summary)
    assert read(recording) == drive()
    assert (recording.note != "" or recording.faults != []) != summary


def interleaved(before: Sequence[Message], after: Sequence[Message]) -> list[Message]:
    return [*before, *after]


def topic_by_topic(before: Sequence[Message], after: Sequence[Message]) -> list[Message]:
    return [
        m
        for topic in sorted({t for t, _ in before})
        for part in (before, after)
        for m in part
        if m[0] == topic
    ]


@pytest.mark.parametrize("back", [0.4, 3, 20, 25, 45, 100_000_000])
@pytest.mark.parametrize("lie", [interleaved, topic_by_topic])
def test_a_clock_set_back_stays_where_it_was_in_every_order(
    tmp_path: Path, lie: Callable[..., list[Message]], back: float
) -> None:
    """Half a minute, then the clock is set back and half a minute more is received."""
    before = drive(30)
    after = [(t, log_ns + 30 * SECOND - round(back * SECOND)) for t, log_ns in drive(30)]
    recording = write(tmp_path / "a.mcap", lie(before, after))
    found = read(recording)
    if back > 1 or lie is interleaved:
        assert found == [*before, *after]
        assert (recording.displaced == {}) == (lie is interleaved)
    else:  # one topic's messages may have changed places by as much
        assert found == sorted([*before, *after], key=lambda m: m[1])


@pytest.mark.parametrize("chunk", [800, 4000, 30_000, 10_000_000])
@pytest.mark.parametrize("back_ms", [150, 300, 700, 1000])
def test_a_clock_set_back_a_little_is_seen_wherever_chunks_end(
    tmp_path: Path, back_ms: int, chunk: int
) -> None:
    """Twice; and around the step topics' messages are written in another order than they were received."""
    pick = Random(back_ms + chunk)
    step_ns = START + 10 * SECOND + pick.randrange(SECOND)
    written = sorted(drive(30), key=lambda m: m[1] + pick.randrange(60_000_000) * (m[0] != "/imu"))
    in_turn = [
        max(log_ns for t, log_ns in written[: n + 1] if t == topic) for n, (topic, _) in enumerate(written)
    ]
    back = [
        (topic, log_ns - back_ms * 1_000_000 * ((log_ns >= step_ns) + (log_ns >= step_ns + 9 * SECOND)))
        for (topic, _), log_ns in zip(written, in_turn, strict=True)
    ]
    recording = write(tmp_path / "a.mcap", back, chunk=chunk)
    assert read(recording) == back
    assert recording.displaced == {}


def test_two_recordings_of_one_drive_appended_are_merged(tmp_path: Path) -> None:
    """One had the camera, one the rest; both had /tf."""
    one = [m for m in drive() if m[0] in {"/camera", "/tf"}]
    other = [m for m in drive() if m[0] != "/camera"]
    found = read(write(tmp_path / "a.mcap", [*one, *other]))
    assert [m for m in found if m[0] != "/tf"] == [m for m in drive() if m[0] != "/tf"]
    assert [log_ns for _, log_ns in found] == sorted(log_ns for _, log_ns in found)


def test_one_topic_written_late_is_put_in_its_place(tmp_path: Path) -> None:
    """The lidar's messages are flushed every ten seconds."""

    def flushed(message: Message) -> int:
        topic, log_ns = message
        return (log_ns // (10 * SECOND) + 1) * 10 * SECOND if topic == "/lidar" else log_ns

    late = sorted(drive(), key=flushed)
    recording = write(tmp_path / "a.mcap", late)
    assert read(recording) == drive()
    assert set(recording.displaced) == {"/lidar"}


def test_a_file_in_which_everything_spans_everything_is_read_as_it_lies_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = write(tmp_path / "a.mcap", by_topic(drive()))
    monkeypatch.setattr(chunked, "MAX_OPEN_BYTES", 60_000 + RECORD_BYTES * len(drive()))
    assert read(recording) == drive()
    assert recording.is_sorted
    monkeypatch.setattr(chunked, "MAX_OPEN_BYTES", 8_000)
    assert read(recording) == by_topic(drive())
    assert not recording.is_sorted
    assert recording.displaced["/imu"].messages > 1000
