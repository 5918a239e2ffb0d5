"""A pause: nothing is written, every message is counted, and nothing is known of the time between."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from formats.ncore.ncoreread import Sequence as Stored
from livedrive import FORMATS, HOST, check_sums, messages
from written import Written, exif_time_ns

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.queue import starts_gop
from edgefirst_ros.live.session import Finished
from edgefirst_ros.live.signals import pausing
from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage

VIDEO = "/camera/h264"
CONTEXT = {"/tf_static", "/camera/info", "/radar/info", "/model/info"}
ALL = messages()
FROM, UNTIL = 200, 330
GAP = ALL[FROM:UNTIL]


def capture(output: Path, **config: Any) -> LiveCapture:  # noqa: ANN401 - any value of the configuration
    values = {"min_free_mb": 0, "formats": FORMATS, **config}
    return LiveCapture(build_config(values), output, HOST)


def put_all(to: LiveCapture, what: Iterable[RawMessage]) -> None:
    for message in what:
        to.put(message)


def ncore_folders(session: Finished) -> list[Path]:
    return [p.parent for p in session.paths if p.suffix == ".json" and p.parent.parent.name == "ncore"]


def test_nothing_is_written_of_a_pause_and_everything_counted(tmp_path: Path) -> None:
    one = capture(tmp_path)
    one.start("drive", sequence="monday")
    put_all(one, ALL[:FROM])
    one.pause()
    assert one.status().paused
    put_all(one, GAP)
    one.resume()
    assert not one.status().paused
    put_all(one, ALL[UNTIL:])
    (done,) = one.stop(60)
    check_sums(done.report)
    assert done.report["totals"]["received"] == len(ALL)
    for topic, account in done.report["topics"].items():
        came = sum(message.topic == topic for message in GAP)
        assert account["reasons"].get("skipped", {}).get(Reason.PAUSED, 0) == (
            0 if topic in CONTEXT else came
        )
        assert account["lost_upstream"] == 0
    assert [s["name"] for s in done.report["sequences"]] == ["monday", "monday_part2"]
    assert done.report["sequences"][0]["ended"] == Reason.PAUSED

    first_key = next(m for m in ALL[UNTIL:] if m.topic == VIDEO and starts_gop(m))
    last_before = [m for m in ALL[:FROM] if m.topic == VIDEO][-1]
    pause_ns = decode(last_before).stamp_ns, decode(first_key).stamp_ns
    times_ns = [
        exif_time_ns(data)
        for name, data in Written(tmp_path / "edgefirst" / "drive").files().items()
        if name.endswith(".camera.jpeg")
    ]
    assert not [t for t in times_ns if pause_ns[0] < t < pause_ns[1]]
    assert {t for t in times_ns if t >= pause_ns[1]} >= {pause_ns[1]}
    assert len([t for t in times_ns if t <= pause_ns[0]]) > 8
    assert len([t for t in times_ns if t >= pause_ns[1]]) >= 5

    before, after = (Stored(folder) for folder in sorted(ncore_folders(done)))
    assert before.interval()[1] * 1000 <= GAP[0].receive_ns
    assert after.interval()[0] * 1000 > before.interval()[1] * 1000 + 500_000_000
    scenes = ChunkedDataset(next(p for p in done.paths if p.suffix == ".zarr")).open()
    assert len(scenes.scenes) == 2
    assert scenes.scenes[0]["end_time"] < GAP[0].receive_ns < scenes.scenes[1]["start_time"]


def test_what_is_told_once_may_be_told_while_it_is_paused(tmp_path: Path) -> None:
    one = capture(tmp_path)
    one.start("drive", paused=True)
    assert one.paused
    once: dict[str, RawMessage] = {m.topic: m for m in ALL if m.topic in CONTEXT}
    put_all(one, once.values())
    one.resume()
    put_all(one, (m for m in ALL if m.topic not in CONTEXT))
    (done,) = one.stop(60)
    check_sums(done.report)
    assert done.report["samples"] > 20
    assert all(done.report["topics"][topic]["decoded"] == 1 for topic in once)
    (folder,) = ncore_folders(done)
    assert Stored(folder).pose("lidar", "rig")[2, 3] > 0.5
    assert one.known is not None
    assert one.known.camera_info is not None


def test_a_session_that_is_never_resumed_writes_nothing(tmp_path: Path) -> None:
    one = capture(tmp_path)
    one.start("drive", paused=True)
    put_all(one, ALL)
    (done,) = one.stop(60)
    assert one.ended == "stopped"
    check_sums(done.report)
    assert done.report["samples"] == 0
    assert done.report["sequences"] == []
    for topic, account in done.report["topics"].items():
        assert account["written"] == 0
        if topic not in CONTEXT:
            assert account["reasons"] == {"skipped": {Reason.PAUSED: account["received"]}}
    assert done.report["totals"]["received"] == len(ALL)
    assert not [p for p in tmp_path.rglob("*") if p.suffix in {".arrow", ".zip", ".zarr", ".itar", ".part"}]


def test_a_session_ends_while_it_is_paused_and_is_split_only_when_it_is_not(tmp_path: Path) -> None:
    one = capture(tmp_path, split_every="1s")
    with pytest.raises(EdgeFirstError, match="no session"):
        one.pause()
    one.start("drive")
    put_all(one, ALL[:100])
    one.pause()
    one.pause()
    with pytest.raises(EdgeFirstError, match="paused"):
        one.split()
    put_all(one, ALL[100:])
    (done,) = one.stop(60)
    check_sums(done.report)
    assert done.report["totals"]["received"] == len(ALL)
    assert not one.status().paused
    one.start("next")
    assert not one.paused
    one.stop()


def test_signals_pause_and_resume() -> None:
    paused, resumed = threading.Event(), threading.Event()
    with pausing(paused.set, resumed.set):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert paused.wait(10)
        assert not resumed.is_set()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert resumed.wait(10)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
