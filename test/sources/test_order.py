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


def test_what_was_out_of_order_is_said_by_topic(tmp_path: Path) -> None:
    recording = write(tmp_path / "a.mcap", by_topic(drive()))
    assert read(recording) == drive()
    assert set(recording.displaced) == {"/imu", "/lidar", "/tf"}
    assert recording.displaced["/imu"].messages == pytest.approx(60 * 20, abs=5)
    assert recording.displaced["/tf"].worst_ns == pytest.approx(60 * SECOND, rel=0.02)
    whole = write(tmp_path / "b.mcap", drive())
    assert read(whole) == drive()
    assert whole.displaced == {}


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


@pytest.mark.parametrize("chunk_s", [0.25, 0.4])
def test_chunks_that_changed_places_are_no_step(tmp_path: Path, chunk_s: float) -> None:
    """A recorder that compresses in several threads wrote one chunk after the one that follows it."""
    parts: dict[int, list[Message]] = {}
    for message in drive(20):
        parts.setdefault(round((message[1] - START) // (chunk_s * SECOND)), []).append(message)
    order = sorted(parts)
    order[20], order[21] = order[21], order[20]
    assert read(write(tmp_path / "a.mcap", [m for n in order for m in parts[n]])) == drive(20)


def test_one_topic_that_falls_back_is_no_step(tmp_path: Path) -> None:
    """Half a second of the imu's was written after the half second that follows."""

    def swapped(message: Message) -> int:
        topic, log_ns = message
        half = (log_ns - START) // (SECOND // 2)
        return log_ns + (SECOND // 2 if half == 20 else -SECOND // 2 if half == 21 else 0) * (topic == "/imu")

    assert read(write(tmp_path / "a.mcap", sorted(drive(20), key=swapped))) == drive(20)


@pytest.mark.parametrize("lie", [interleaved, topic_by_topic])
def test_a_clock_set_forward_changes_nothing(tmp_path: Path, lie: Callable[..., list[Message]]) -> None:
    before, after = drive(20, start=3 * SECOND), drive(20)
    assert read(write(tmp_path / "a.mcap", lie(before, after))) == [*before, *after]


def test_a_topic_that_begins_after_the_step_is_no_disorder(tmp_path: Path) -> None:
    """Soon after the start only the imu sends; the clock is set back, and then everything does."""
    before = [m for m in drive(2, start=START + 600 * SECOND) if m[0] == "/imu"]
    after = drive(30)
    assert read(write(tmp_path / "a.mcap", [*before, *after])) == [*before, *after]


def test_a_little_disorder_within_topics_is_no_step(tmp_path: Path) -> None:
    pick = Random(1)
    shuffled = sorted(drive(), key=lambda m: m[1] + pick.randrange(900_000_000))
    assert read(write(tmp_path / "a.mcap", shuffled)) == drive()


@pytest.mark.parametrize("chunk", [4000, 100_000])
@pytest.mark.parametrize("late_s", [1.2, 1.5, 2.5, 8.0])
def test_messages_that_are_stored_seconds_late_are_no_step(tmp_path: Path, late_s: float, chunk: int) -> None:
    """As of a writer with a thread for each topic, and a queue for each."""
    late = Random(f"late {late_s}")
    stored = sorted(drive(), key=lambda m: m[1] + late.uniform(0, late_s) * SECOND)
    assert read(write(tmp_path / "a.mcap", stored, chunk=chunk)) == drive()


def test_a_topic_that_pauses_after_a_step_hides_no_step(tmp_path: Path) -> None:
    """It leaps forth through the time that comes twice, as topics in disorder do."""
    before, after = drive(20), drive(20, start=START + 10 * SECOND)
    paused = [m for m in after if m[0] != "/lidar" or not START + 12 * SECOND < m[1] < START + 15 * SECOND]
    assert read(write(tmp_path / "a.mcap", [*before, *paused])) == [*before, *paused]


def test_two_recordings_of_one_drive_appended_are_merged(tmp_path: Path) -> None:
    """One had the camera, one the rest; both had /tf."""
    one = [m for m in drive() if m[0] in {"/camera", "/tf"}]
    other = [m for m in drive() if m[0] != "/camera"]
    found = read(write(tmp_path / "a.mcap", [*one, *other]))
    assert [m for m in found if m[0] != "/tf"] == [m for m in drive() if m[0] != "/tf"]
    assert [log_ns for _, log_ns in found] == sorted(log_ns for _, log_ns in found)


def test_recordings_of_one_drive_that_overlap_a_little_are_merged(tmp_path: Path) -> None:
    """The second recorder was started half a second before the first one was stopped."""
    messages = drive(20)
    one = [m for m in messages if m[1] < START + 10 * SECOND]
    other = [m for m in messages if m[1] >= START + 9.5 * SECOND]
    found = read(write(tmp_path / "a.mcap", [*one, *other], repeats=True))
    assert found == sorted([*one, *other], key=lambda m: m[1])


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


def test_damage_in_a_file_ordered_by_topic_is_said_once(tmp_path: Path) -> None:
    recording = write(tmp_path / "a.mcap", by_topic(drive()))
    data = bytearray(recording.path.read_bytes())
    first = data.index(b"\x04\x22\x4d\x18", len(data) // 3)
    data[first] = 0
    recording.path.write_bytes(data[: len(data) * 2 // 3])
    hurt = McapRecording(recording.path)
    found = read(hurt)
    assert found == sorted(found, key=lambda m: m[1])
    texts = [fault.text for fault in hurt.faults]
    assert len(texts) == 2
    assert "does not decompress" in texts[0]
    assert "ends" in texts[1]
