"""The recording itself: who can read it, what a slow, full or dead disk does, and what a kill leaves."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from livedrive import HOST, NOON_NS, check_sums, messages
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from written import Written
from zenoh_loopback import COMMAND, LIMIT_S

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live import recordingfile as recording_file
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.recordingfile import QOS, RecordingFile
from edgefirst_ros.live.session import Finished
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.mcap import McapRecording

NOTHING: dict[str, Any] = {"topics": {"camera": {"topic": "no/such"}}, "reference": "lidar/points"}
"""A configuration under which the pipeline has little to do."""


def capture(output: Path, **config: Any) -> LiveCapture:  # noqa: ANN401 - any value of the configuration
    values = {"min_free_mb": 0, "record": True} | config
    return LiveCapture(build_config(values), output, HOST, now_ns=lambda: NOON_NS)


def run(live: LiveCapture, what: Sequence[RawMessage]) -> Finished:
    live.start("d", sequence="s")
    for message in what:
        live.put(message)
    (finished,) = live.stop(300.0)
    return finished


def test_other_readers_open_it(tmp_path: Path) -> None:
    """The library's own reader, by its index, with definitions and times as they came."""
    what = [
        m for m in messages() if m.topic in {"/imu", "/gps", "/tf_static", "/camera/h264", "/camera/info"}
    ]
    what = [m._replace(publish_ns=m.receive_ns - 5, definition="") for m in what]
    finished = run(capture(tmp_path, **NOTHING), what)
    assert finished.report["recording"]["messages"] == len(what)
    with (tmp_path / "recordings" / "s.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == len(what)
        assert {index.compression for index in summary.chunk_indexes} == {"zstd"}
        found = list(reader.iter_decoded_messages(log_time_order=False))
    assert [each.message.data for each in found] == [m.data for m in what]
    assert [each.message.sequence for each in found] == list(range(1, len(what) + 1))
    assert {(e.message.log_time - e.message.publish_time) for e in found} == {5}
    assert {(e.channel.topic, e.schema.name, e.schema.encoding) for e in found if e.schema} == {
        (m.topic, m.schema, "ros2msg") for m in what
    }
    for each in found:
        (offered,) = yaml.safe_load(each.channel.metadata[QOS])
        assert each.channel.message_encoding == "cdr"
        assert (offered["history"], offered["reliability"]) == (1, 1)
        assert offered["durability"] == (1 if each.channel.topic == "/tf_static" else 2)
    static = next(e.decoded_message for e in found if e.channel.topic == "/tf_static")
    assert static.child_frame_id


def test_what_nothing_uses_lies_where_it_came(tmp_path: Path) -> None:
    """Messages that only the recording gets keep their place among the others."""
    what = messages()[:30]
    extra = RawMessage("/odd", "odd_msgs/msg/Odd", b"\0\1\0\0odd", 5, 4, 0, "string data\n")
    live = capture(tmp_path)
    live.start("d", sequence="s")
    for message in what:
        live.put(message)
        live.record(extra)
    (finished,) = live.stop(60.0)
    kept = list(McapRecording(finished.paths[-1]).messages())
    assert [m.topic for m in kept] == [topic for m in what for topic in (m.topic, "/odd")]
    assert (kept[1].definition, kept[1].receive_ns, kept[1].publish_ns) == ("string data\n", 5, 4)
    assert "/odd" not in finished.report["topics"]
    assert finished.report["recording"]["messages"] == 2 * len(what)


def test_a_disk_that_hangs_costs_recorded_messages_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Received is recorded and not recorded; the capture goes on, and what waits is limited."""
    hangs, write = threading.Event(), RecordingFile.write

    def slow(self: RecordingFile, message: RawMessage, number: int, log_ns: int) -> None:
        hangs.wait(LIMIT_S)
        write(self, message, number, log_ns)

    monkeypatch.setattr(RecordingFile, "write", slow)
    what = messages()
    size = sum(len(m.data) + 512 for m in what)
    live = capture(tmp_path, queue_mb=size / 4 / 1e6)
    live.start("d", sequence="s")
    for message in what:
        live.put(message)
    while live.status().queue_fill:
        threading.Event().wait(0.01)
    hangs.set()
    (finished,) = live.stop(300.0)
    said = finished.report["recording"]
    lost = sum(said["not_recorded"].values())
    check_sums(finished.report)
    assert 0 < lost < len(what)
    assert said["messages"] + lost == len(what)
    assert len(list(McapRecording(finished.paths[-1]).messages())) == said["messages"]
    assert any(f"{lost:,} messages were not recorded" in w for w in finished.report["warnings"])


def test_a_full_disk_ends_the_recording_and_not_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count()

    def full(_: int) -> None:
        if next(calls) > 0:  # the file's beginning
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recording_file, "sync_file", full)
    live = capture(tmp_path)
    live.start("d", sequence="s")
    for message in messages():
        live.put(message)
    (finished,) = live.stop(300.0)
    said = finished.report["recording"]
    assert "s.mcap: cannot be written: No space left" in said["failure"]
    assert any("cannot be written: No space left" in w for w in finished.report["warnings"])
    assert finished.report["samples"] == 35


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from livedrive import HOST, messages
from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.sources.mcap import McapRecording

output = Path(sys.argv[1])
live = LiveCapture(build_config({{"min_free_mb": 0, "record": True}}), output, HOST)
live.start("d", sequence="s")
for message in messages():
    live.put(message)
path = output / "recordings" / "s.mcap"
while len(list(McapRecording(path).messages())) < len(messages()):
    time.sleep(0.1)
print("all on disk", flush=True)
time.sleep(600)
"""


def test_a_killed_capture_leaves_what_converts(tmp_path: Path) -> None:
    """Everything that was received is on disk within about a second, and becomes the whole dataset."""
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", CHILD.format(tests=tests), str(tmp_path / "live")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "all on disk\n"
        child.send_signal(signal.SIGKILL)
    recording = tmp_path / "live" / "recordings" / "s.mcap"
    done = subprocess.run(
        [*COMMAND, "convert", str(recording), "-o", str(tmp_path / "again")],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    again = Written(tmp_path / "again" / "edgefirst" / "d")
    assert again.report["totals"]["received"] == len(messages())
    whole = run(capture(tmp_path / "whole"), messages())
    assert again.files() == Written(whole.paths[0].parent).files()


def test_a_recording_cut_anywhere_says_whose_it_is(tmp_path: Path) -> None:
    """Whatever is left of the file, it is of that session, and what is whole is read."""
    finished = run(capture(tmp_path, **NOTHING), messages()[:60])
    whole = finished.paths[-1].read_bytes()
    cut = tmp_path / "cut.mcap"
    for size in (len(whole) - 1, len(whole) - 400, len(whole) // 2):
        cut.write_bytes(whole[:size])
        session = McapRecording(cut).session
        assert session is not None
        assert (session.dataset, session.sequence, session.host) == ("d", "s", HOST)
