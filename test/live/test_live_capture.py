"""Live capture without a transport: the same bytes as offline, sessions, limits, losses, failures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from livedrive import FORMATS, HOST, NOON_NS, SEQUENCE, check_sums, drive, messages, output_files
from written import Written

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.formats.edgefirst.prepare.sample import PreparedSample
from edgefirst_ros.formats.edgefirst.recover import recover
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.formats.format import Written as WrittenParts
from edgefirst_ros.live import capture as live
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.queue import SPARED
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.errors import OutputExists, WriteError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline import disk as disk_module
from edgefirst_ros.pipeline.disk import Disk
from edgefirst_ros.video.headers import head, is_key_head

VIDEO = "/camera/h264"


def capture(output: Path, **config: Any) -> LiveCapture:  # noqa: ANN401 - any value of the configuration
    # On a machine that is busy with other tests nothing may be left out.
    usual = {"min_free_mb": 0, "overload": {"latency_s": 0}}
    return LiveCapture(build_config(usual | config), output, HOST, now_ns=lambda: NOON_NS)


def put_all(to: LiveCapture, what: Iterable[RawMessage]) -> None:
    for message in what:
        to.put(message)


def settled(to: LiveCapture, condition: Callable[[], bool]) -> None:
    """Wait until something holds in the capture thread; a test fails by its time limit."""
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail(f"never came about; {to.status()}")


def key(message: RawMessage) -> bool:
    packet = decode(message).datum
    return isinstance(packet, VideoPacket) and is_key_head(packet.codec, head(packet))


def received(report: dict[str, Any]) -> dict[str, int]:
    return {topic: account["received"] for topic, account in report["topics"].items()}


def counted(what: Iterable[RawMessage]) -> dict[str, int]:
    return dict(Counter(m.topic for m in what))


def dropped_for(report: dict[str, Any], reason: str) -> int:
    return sum(a["reasons"].get("dropped", {}).get(reason, 0) for a in report["topics"].values())


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    "clock", [{}, {n: {"clock": "stamp"} for n in Config().topics}], ids=["auto", "stamp"]
)
def test_live_equals_offline(tmp_path: Path, clock: dict[str, Any]) -> None:
    config = {
        "topics": clock,
        "formats": FORMATS,
        "ego": {"smoothing": "lag"},
        "overload": {"latency_s": 3.0},
    }
    offline = convert([drive()], tmp_path / "offline", build_config(config), dataset="same")
    live_one = capture(tmp_path / "live", **config)
    assert live_one.start("same", sequence=SEQUENCE) == "same"
    put_all(live_one, messages())
    (done,) = live_one.stop(60)
    assert output_files(tmp_path / "live") == output_files(tmp_path / "offline")
    assert offline.report["samples"] > 25
    assert done.report["totals"]["dropped"] == 0
    for key in ("samples", "totals", "topics", "notes", "warnings"):
        assert done.report[key] == offline.report[key], key
    assert done.report["ended"] == live.STOPPED
    assert done.report["silent"]["depth"] == ["camera/depth"]
    assert "camera" not in done.report["silent"]


@pytest.mark.parametrize("video", [True, False], ids=["video", "no video"])
def test_a_split_falls_where_no_picture_is_lost(tmp_path: Path, video: bool) -> None:
    """Before the next key frame, or where it was called where there is no video."""
    sent = [m for m in messages() if video or m.topic != VIDEO]
    asked = len(sent) // 2 if video else len(sent) // 2 + 1
    place = next(i for i in range(asked, len(sent)) if not video or (sent[i].topic == VIDEO and key(sent[i])))
    assert asked < place < len(sent) - 100 or not video
    one = capture(tmp_path, **({} if video else {"reference": "radar_targets"}))
    one.start("drive")
    put_all(one, sent[:asked])
    one.split()
    put_all(one, sent[asked:])
    first, second = one.stop(60)
    assert (first.name, second.name) == ("drive", "drive_2")
    assert received(first.report) == counted(sent[:place])
    assert received(second.report) == counted(sent[place:])
    assert first.report["ended"] == "split"
    (split,) = one.splits
    values = split.values
    assert dict(values) | {"path": ""} == {
        "closed": "drive",
        "opened": "drive_2",
        "reason": "split",
        "samples": str(first.report["samples"]),
        "messages": str(place),
        "dropped": "0",
        "path": "",
    }
    paths = [Path(value) for name, value in values if name == "path"]
    assert {"drive.zip", "drive.arrow", "capture_report.json"} <= {path.name for path in paths}
    assert all(path.exists() for path in paths)
    for done in (first, second):
        check_sums(done.report)
        assert done.report["totals"]["dropped"] == 0, done.report["topics"]
        pictures = Written(tmp_path / "edgefirst" / done.name).of_kind("camera.jpeg")
        assert len(pictures) == (done.report["samples"] if video else 0)
    assert second.report["samples"] > 5


def test_sessions_split_by_time(tmp_path: Path) -> None:
    """The drive lasts 3.5 s at some 10 m/s; its video has a key frame a second."""
    one = capture(tmp_path, lookahead_s=0.3, ego={"wait_s": 0.2}, split_every="1s")
    one.start("drive")
    put_all(one, messages())
    done = one.stop(60)
    assert 2 <= len(done) <= 4
    assert [d.report["ended"] for d in done] == ["split after 1s (split_every)"] * (len(done) - 1) + [
        live.STOPPED
    ]
    assert [(s.closed, s.opened) for s in one.splits] == [(a, b.name) for a, b in pairwise(done)]
    assert sum(d.report["totals"]["received"] for d in done) == len(messages())
    for each in done:
        check_sums(each.report)
        assert each.report["totals"]["dropped"] == 0
        assert all(path.exists() for path in each.paths)


def test_sessions_split_by_what_is_written(tmp_path: Path) -> None:
    """Writers are behind what comes, so a slow hand feeds the messages."""
    one = capture(tmp_path, ego={"wait_s": 0.2}, split_every="0.2MB")
    one.start("drive")
    for message in messages():
        one.put(message)
        if message.topic == VIDEO:
            settled(one, lambda: one._queue.bytes == 0)
    done = one.stop(60)
    assert len(done) > 1
    assert {d.report["ended"] for d in done[:-1]} == {"split after 0.2MB (split_every)"}
    for each in done[:-1]:
        assert sum(path.stat().st_size for path in each.paths if path.suffix == ".zip") > 200_000


def test_sessions_name_themselves_by_host_and_time_and_never_alike(tmp_path: Path) -> None:
    one = capture(tmp_path)
    assert one.start() == f"{HOST}_2026_05_01_12_00_00"
    one.split()
    put_all(one, messages())
    names = [done.name for done in one.stop(60)]
    assert names == [f"{HOST}_2026_05_01_12_00_00", f"{HOST}_2026_05_01_12_00_00_2"]
    assert Written(tmp_path / "edgefirst" / names[1]).report["sequences"][0]["name"] == (
        f"{HOST}_2026_05_01_12_00_00_2"
    )
    another = capture(tmp_path)
    assert another.start() == f"{HOST}_2026_05_01_12_00_00_3"  # the first left its report
    another.stop()
    with pytest.raises(OutputExists, match="_2"):
        capture(tmp_path).start(names[1])


def test_what_no_time_is_left_for_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparing a sample takes for ever, until the time to stop in is up."""
    cut, prepare, waiting = threading.Event(), EdgeFirstWriter.prepare, threading.Event()

    def slow(self: EdgeFirstWriter, sample: Any) -> PreparedSample:  # noqa: ANN401 - handed on
        waiting.set()
        cut.wait(60)
        return prepare(self, sample)

    monkeypatch.setattr(EdgeFirstWriter, "prepare", slow)
    one = capture(tmp_path)
    one.start("cut")
    put_all(one, messages())
    settled(one, waiting.is_set)
    stop = one._cut

    def cut_now() -> None:
        stop()
        cut.set()

    monkeypatch.setattr(one, "_cut", cut_now)
    (done,) = one.stop(0)
    check_sums(done.report)
    assert received(done.report) == counted(messages())
    assert dropped_for(done.report, Reason.CUT_OFF) > 50
    written = Written(tmp_path / "edgefirst" / "cut")
    assert 0 < done.report["samples"] == len(written.of_kind("camera.jpeg")) < 30


def test_a_full_queue_drops_and_counts_and_the_rest_is_sound(tmp_path: Path) -> None:
    one = capture(tmp_path, queue_mb=0.2)
    gate = threading.Event()
    one.start("full")
    one._queue.call(gate.wait)
    put_all(one, messages())
    status = one.status()
    assert status.queue_fill <= 1
    assert 0 < status.dropped < len(messages())
    gate.set()
    (done,) = one.stop(60)
    check_sums(done.report)
    assert received(done.report) == counted(messages())
    assert dropped_for(done.report, Reason.QUEUE_FULL) == status.dropped
    # What we dropped ourselves is not lost upstream, though its gap is the same.
    assert all(account["lost_upstream"] == 0 for account in done.report["topics"].values())


def test_what_waited_too_long_is_dropped_once_and_counted_and_the_rest_is_sound(tmp_path: Path) -> None:
    """The first half, as if it had waited for longer than is allowed."""
    one = capture(tmp_path, overload={"latency_s": 30.0})
    gate = threading.Event()
    one.start("outrun")
    one._queue.call(gate.wait)
    half = len(messages()) // 2
    put_all(one, messages()[:half])
    for arrival in one._queue._came_s:
        one._queue._came_s[arrival] -= 100.0
    put_all(one, messages()[half:])
    overload = one._overload
    assert overload is not None
    overload.is_outrun = True
    gate.set()
    settled(one, lambda: not overload.is_outrun)
    (done,) = one.stop(60)
    check_sums(done.report)
    assert received(done.report) == counted(messages())
    lost = dropped_for(done.report, Reason.OUTRUN)
    large = {"/camera/h264", *(m.topic for m in messages() if len(m.data) > 5000)}
    assert {"/lidar/points", "/radar/cube"} < large
    assert "/imu" not in large
    of_large = sum(m.topic in large for m in messages()[:half])
    assert of_large - 1 <= lost <= half  # the one read first is not
    first = Counter(m.topic for m in messages()[:half] if m.topic not in large)
    for topic, count in first.items():  # a few of each small kind are spared
        assert count - SPARED <= done.report["topics"][topic]["dropped"] <= count, topic
    assert dropped_for(done.report, Reason.QUEUE_FULL) == 0
    assert done.report["codes"][Reason.OUTRUN] == "outrun"
    pictures = Written(tmp_path / "edgefirst" / "outrun").of_kind("camera.jpeg")
    assert done.report["samples"] == len(pictures) > 5
    assert all(account["lost_upstream"] == 0 for account in done.report["topics"].values())


def test_a_camera_that_comes_late_is_still_the_reference(tmp_path: Path) -> None:
    first_ns = messages()[0].receive_ns
    late = [m for m in messages() if m.topic != "/camera/h264" or m.receive_ns - first_ns > 1_500_000_000]
    one = capture(tmp_path)
    one.start("late")
    put_all(one, late)
    (done,) = one.stop(60)
    check_sums(done.report)
    assert done.report["samples"] > 5
    assert len(Written(tmp_path / "edgefirst" / "late").of_kind("camera.jpeg")) == done.report["samples"]


def test_gaps_count_as_lost_upstream_and_nothing_else_does(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    kept: list[RawMessage] = []
    for message in messages():
        number, seen[message.topic] = seen[message.topic], seen[message.topic] + 1
        every = {"/radar/targets": 7, "/lidar/points": 11, "/imu": 10}.get(message.topic)
        if every and number > 10 and number % every == 0 and number < counted(messages())[message.topic] - 1:
            lost[message.topic] += 1
        else:
            kept.append(message)
    one = capture(tmp_path)
    one.start("lossy")
    put_all(one, kept)
    (done,) = one.stop(60)
    found = {t: a["lost_upstream"] for t, a in done.report["topics"].items() if a["lost_upstream"]}
    assert found == dict(lost)
    assert len(found) == 3


def test_a_disk_that_fills_ends_the_capture_cleanly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "LOOK_EVERY_S", 0.0)
    free = [10**12]
    monkeypatch.setattr(Disk, "free_bytes", lambda _: free[0])
    one = capture(tmp_path, min_free_mb=500)
    one.start("disk")
    put_all(one, messages()[:-20])
    settled(one, lambda: one.status().received == len(messages()) - 20)
    assert one.status().spare_bytes == 10**12 - 500_000_000
    free[0] = 400_000_000
    settled(one, lambda: bool(one.ended))
    assert not one.running
    assert one.broken == one.ended
    put_all(one, messages()[-20:])
    status = one.status()
    assert status.ended == "the disk has 400 MB left, less than min_free_mb 500"
    assert status.failure == ""
    (done,) = one.stop()
    assert done.report["ended"] == status.ended
    assert received(done.report) == counted(messages()[:-20])
    assert len(Written(tmp_path / "edgefirst" / "disk").of_kind("camera.jpeg")) == done.report["samples"] > 5
    assert dropped_for(done.report, Reason.CUT_OFF) > 0, "what waited was not written either"
    free[0] = 10**12
    one.start("again")
    assert one.status().session == "again"
    one.stop()
    assert one.broken == ""


def test_a_writer_that_fails_is_told_and_what_it_committed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = EdgeFirstWriter.write

    def failing(self: EdgeFirstWriter, prepared: PreparedSample) -> WrittenParts:
        if prepared.frame >= 10:
            raise WriteError("no space left on device")
        return write(self, prepared)

    with monkeypatch.context() as patched:
        patched.setattr(EdgeFirstWriter, "write", failing)
        one = capture(tmp_path)
        one.start("failing")
        put_all(one, messages())
        for message in messages():
            settled(one, lambda: one._queue.fill < 0.5)
            one.put(message)
            if not one.running:
                break
        settled(one, lambda: not one.running)
    status = one.status()
    assert status.failure == "no space left on device"
    assert status.ended == "failed: no space left on device"
    with pytest.raises(WriteError, match="no space left"):
        one.stop()
    found = recover(tmp_path / "edgefirst" / "failing")
    assert (
        found.kept["samples"] == len(Written(tmp_path / "edgefirst" / "failing").of_kind("camera.jpeg")) > 3
    )
    assert one.start("after") == "after"
    put_all(one, messages())
    (done,) = one.stop(60)
    assert done.report["samples"] > 25
    assert received(done.report) == counted(messages())


def test_an_abort_leaves_what_was_committed_for_recover(tmp_path: Path) -> None:
    one = capture(tmp_path)
    one.start("abort")
    put_all(one, messages())
    settled(one, lambda: one.status().samples >= 3)
    one.abort(60)
    folder = tmp_path / "edgefirst" / "abort"
    assert not one.running
    assert one.ended == "stopped at once"
    assert not (folder / "abort.zip").exists()
    assert recover(folder).kept["samples"] == len(Written(folder).of_kind("camera.jpeg")) >= 3
    assert one.stop() == []


def test_status_says_how_every_topic_goes_by(tmp_path: Path) -> None:
    one = capture(tmp_path)
    one.start("status")
    put_all(one, (m for m in messages() if m.topic != "/gps"))
    settled(one, lambda: one._queue.bytes == 0 and one.status().samples >= 5)
    status = one.status()
    assert status.session == "status"
    assert status.silent["gps"] == ("gps",)
    assert "camera" not in status.silent
    row = status.topics["/radar/targets"]
    assert row["received"] == counted(messages())["/radar/targets"]
    assert row["rate_hz"] > 0
    assert row["usual_hz"] == pytest.approx(18, rel=0.05)
    assert 15 <= row["latency_ms"] < 45
    assert row["age_s"] >= 0
    assert status.bytes_written > 0
    assert status.bytes_per_s > 0
    minutes = status.minutes_left
    assert minutes is not None
    assert minutes == pytest.approx(status.spare_bytes / status.bytes_per_s / 60)
    one.stop(60)
    assert one.status().session == ""
    assert one.status().ended == live.STOPPED
