"""A live capture with a format that is too slow: what it sheds, what it says, and what others are spared."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest
from livedrive import HOST, check_sums, messages
from written import Written as Dataset

from edgefirst_ros.cli.liveview import line
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.edgefirst import writer as edgefirst_writer
from edgefirst_ros.formats.edgefirst.prepare.sample import PreparedSample
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.formats.format import Written
from edgefirst_ros.formats.ncore.prepare.parts import Prepared
from edgefirst_ros.formats.ncore.write import writer as ncore_writer
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.queue import starts_gop
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Role
from edgefirst_ros.pipeline.overload import KEEP, Overload
from edgefirst_ros.video.decoder import VideoDecoder
from edgefirst_ros.video.gops import AccessUnit

pytestmark = pytest.mark.usefixtures("prompt_clocks")

PACE = 2.0
"""So much faster than it was received the drive is put in."""


class SlowEdgeFirst(EdgeFirstWriter):
    """A disk that takes 0.15 s for a sample, where twenty come in a second."""

    def write(self, prepared: PreparedSample) -> Written:
        time.sleep(0.15)
        return super().write(prepared)


class SlowNCore(NCoreWriter):
    """Slow for pictures and sweeps."""

    def write(self, prepared: Prepared) -> Written:
        if prepared.role in {Role.CAMERA, Role.LIDAR_POINTS}:
            time.sleep(0.1)
        return super().write(prepared)


def captured(
    output: Path,
    **values: Any,  # noqa: ANN401 - any value of the configuration
) -> tuple[dict[str, Any], list[LiveStatus]]:
    """The report on a drive, and what was said on the way."""
    stamped = {name: {"clock": "stamp"} for name in build_config({}).topics}
    usual = {
        "min_free_mb": 0,
        "lookahead_s": 0.3,
        "ego": {"wait_s": 0.3},
        "overload": {"latency_s": 0.5},
    }
    one = LiveCapture(build_config({"topics": stamped} | usual | values), output, HOST)
    one.start("drive")
    start_s, first_ns, said = time.monotonic(), messages()[0].receive_ns, []
    for number, message in enumerate(messages()):
        at_s = (message.receive_ns - first_ns) / 1e9 / PACE
        if at_s > time.monotonic() - start_s:
            threading.Event().wait(at_s - (time.monotonic() - start_s))
        one.put(message)
        if number % 20 == 0:
            said.append(one.status())
    for _ in range(3000):  # from the moment that a capture is stopped, no more is shed than before
        if one.status().received == len(messages()):
            break
        threading.Event().wait(0.02)
    said.append(one.status())
    (done,) = one.stop(60)
    check_sums(done.report)
    for account in done.report["topics"].values():
        assert not {Reason.QUEUE_FULL, Reason.CUT_OFF} & set(account["reasons"].get("dropped", {}))
    return done.report, said


def shed(report: dict[str, Any], topic: str) -> int:
    """Messages of a topic that no format had time for."""
    found: int = report["topics"][topic]["reasons"].get("dropped", {}).get(Reason.SHED, 0)
    return found


def test_a_slow_format_gets_fewer_samples_evenly_and_all_are_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edgefirst_writer, "EdgeFirstWriter", SlowEdgeFirst)
    report, said = captured(tmp_path, formats=["edgefirst"])
    (told,) = report["shed"].values()
    (sequence,) = report["sequences"]
    # The 0.15 s of each sample are more than the time there is, whatever else the machine does.
    assert told["shed"] > 3
    assert told["of"] == sequence["reference_frames"] - sequence["incomplete"] - sequence["unusable"]
    assert sequence["sample"] == report["samples"] == told["of"] - told["shed"]
    assert sequence["dropped"] == told["shed"] == shed(report, "/camera/h264")
    assert report["formats"]["edgefirst"]["samples"] == report["samples"]
    assert report["formats"]["edgefirst"]["left_out"] == {Reason.SHED: told["shed"]}
    written = Dataset(tmp_path / "edgefirst" / "drive")
    frames = sorted(written.of_kind("camera.jpeg"))
    assert len(frames) == report["samples"]
    assert max(after - before for before, after in pairwise(frames)) <= 1 / KEEP

    last = said[-1]
    assert last.shed["edgefirst"][0] > 0
    assert 0 < last.shedding["edgefirst"] < 1
    assert last.dropped == 0
    assert last.help.startswith("what would help: ")
    assert "shed edgefirst " in line(last, 1)
    (warning,) = [text for text in report["warnings"] if "writing fell behind" in text]
    assert f"edgefirst {told['shed']} of {told['of']}" in warning
    assert "select.every" in warning


def test_where_only_key_frames_have_time_nothing_else_is_decoded_and_all_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it were so from the first sample on; the drive has a key frame each second."""
    fed: list[bytes] = []
    feed = VideoDecoder.feed

    def counted(decoder: VideoDecoder, unit: AccessUnit) -> Iterable[tuple[int, av.VideoFrame]]:
        fed.append(unit.data)
        return feed(decoder, unit)

    monkeypatch.setattr(VideoDecoder, "feed", counted)
    monkeypatch.setattr(Overload, "_steer", lambda *_: None)
    monkeypatch.setattr(Overload, "keyframes_only", property(lambda _: True, lambda *_: None), raising=False)
    report, _ = captured(tmp_path, formats=["edgefirst", "ncore", "l5kit"])
    (sequence,) = report["sequences"]
    keys = [m for m in messages() if m.topic == "/camera/h264" and starts_gop(m)]
    assert len(keys) >= 3
    assert len(fed) == sequence["sample"] == len(keys)
    assert sequence["dropped"] == sequence["reference_frames"] - len(keys) == shed(report, "/camera/h264")
    for name in ("edgefirst", "l5kit"):
        told = report["shed"][name]
        assert told["of"] - told["shed"] == len(keys)
    # What is no picture NCore has all the same.
    assert report["topics"]["/lidar/points"]["dropped"] == 0


def test_measurements_are_shed_by_topic_and_poses_and_labels_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ncore_writer, "NCoreWriter", SlowNCore)
    report, _ = captured(tmp_path, formats=["ncore"])
    told = report["shed"]["ncore"]
    large = ("/camera/h264", "/lidar/points", "/radar/cube")
    assert told["shed"] == sum(shed(report, topic) for topic in large)
    assert min(shed(report, topic) for topic in large[:2]) > 2
    assert report["formats"]["ncore"]["left_out"] == {Reason.SHED: told["shed"]}
    for topic, account in report["topics"].items():
        assert topic in large or account["dropped"] == 0, topic
    (sequence,) = report["sequences"]
    assert sequence["dropped"] > 2
    assert sequence["sample"] + sequence["dropped"] + sequence["incomplete"] == sequence["reference_frames"]
