"""What a robot says of its sensors once holds for all later sequences, sessions and splits of this robot."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from livedrive import HOST, messages
from resized import SMALL, spliced

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage, Sample
from edgefirst_ros.model.transform import Transforms
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.simulation import wire
from edgefirst_ros.simulation.world import Mount

ONCE = ("/tf_static", "/camera/info", "/radar/info", "/model/info")


def silent() -> list[RawMessage]:
    """The drive without what is told once."""
    return [message for message in messages() if message.topic not in ONCE]


def capture(output: Path, seen: list[Sample], **config: object) -> LiveCapture:
    values = build_config({"min_free_mb": 0, "workers": 2} | config)
    return LiveCapture(values, output, HOST, committed=seen.append)


def put_all(to: LiveCapture, what: list[RawMessage]) -> None:
    for message in what:
        to.put(message)


def is_whole(sample: Sample) -> bool:
    known = sample.calibration
    return {"camera_optical", "lidar", "radar"} <= known.transforms.keys() and known.camera_info is not None


def test_the_next_session_knows_it(tmp_path: Path) -> None:
    seen: list[Sample] = []
    one = capture(tmp_path, seen)
    one.start("first")
    put_all(one, list(messages()))
    one.stop(60)
    assert is_whole(seen[-1])
    seen.clear()
    one.start("second")
    put_all(one, silent())
    (done,) = one.stop(60)
    assert len(seen) > 20
    assert all(map(is_whole, seen))
    assert "/tf_static" not in done.report["topics"]


@pytest.mark.long
def test_what_comes_after_a_split_knows_it(tmp_path: Path) -> None:
    seen: list[Sample] = []
    one = capture(tmp_path, seen, formats=("edgefirst", "ncore"))
    one.start("drive")
    put_all(one, list(messages()))
    one.split()
    put_all(one, silent())
    first, second = one.stop(60)
    later = [s for s in seen if s.sequence.name == second.report["sequences"][0]["name"]]
    assert len(later) > 15
    assert all(map(is_whole, later))
    for path in (tmp_path / "ncore").iterdir():
        if path.is_dir():
            (checked,) = check(path)
            assert (checked.errors, checked.warnings) == (0, 0), checked.text
    warnings = [*first.report["warnings"], *second.report["warnings"]]
    assert not any("no transform" in each or "intrinsics" in each for each in warnings), warnings


def test_a_failed_session_hands_it_on(tmp_path: Path) -> None:
    one = capture(tmp_path, [])
    one.start("first")
    put_all(one, list(messages()))
    for _ in range(3000):
        if one.status().received == len(messages()):
            break
        threading.Event().wait(0.01)
    one.abort(60)
    assert one.known is not None
    assert "lidar" in one.known.transforms


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("host", [HOST, "another"])
def test_a_capture_after_another_knows_it_of_the_same_device(tmp_path: Path, host: str) -> None:
    seen: list[Sample] = []
    config = build_config({"min_free_mb": 1.0, "workers": 2})
    first = LiveCapture(config, tmp_path, HOST, committed=seen.append)
    first.start("a")
    put_all(first, list(messages()))
    first.stop(60)
    seen.clear()
    second = LiveCapture(config, tmp_path, host, committed=seen.append, before=first)
    second.start("b")
    put_all(second, silent())
    second.stop(60)
    assert len(seen) > 20
    assert all(map(is_whole, seen)) if host == HOST else not any(s.calibration.transforms for s in seen)


def test_a_mount_that_changes_is_told_and_the_newest_holds() -> None:
    drive = spliced(SMALL)
    middle_ns = drive[len(drive) // 2].receive_ns
    place = next(m for m in drive if m.topic == "/tf_static" and "lidar" in _children(m))
    before = next(t for t in _transforms(place).transforms if t.child == "lidar")
    x, y, z = before.translation_m
    data = wire.mount(middle_ns, Mount("lidar", (x + 0.25, y, z), before.rotation_xyzw))
    moved = place._replace(data=data, receive_ns=middle_ns, publish_ns=middle_ns)
    quiet = [m for m in drive if m.topic != "/tf_static" or m.receive_ns < middle_ns]
    sent = sorted([*quiet, moved, moved], key=lambda message: message.receive_ns)
    made: list[Sample] = []
    pipeline = Pipeline(build_config({}), [], made.append)
    pipeline.begin_source(None, HOST)
    for number, message in enumerate(sent):
        pipeline.feed(message._replace(arrival=number))
    pipeline.end_source()
    pipeline.complete()
    pipeline.close()
    (note,) = [note for note in pipeline.notes if "moved" in note]
    assert "lidar moved by 0.25 m and 0 degrees in base_link; the newest applies from then on" in note
    newest = max(made, key=lambda sample: sample.time_ns)  # without a writer, in no order
    assert newest.calibration.transforms["lidar"].translation_m == pytest.approx((x + 0.25, y, z))
    early = [s for s in made if s.time_ns < middle_ns - 300_000_000 and s.calibration.transforms]
    assert np.allclose([s.calibration.transforms["lidar"].translation_m for s in early], before.translation_m)


def _transforms(message: RawMessage) -> Transforms:
    datum = decode(message).datum
    assert isinstance(datum, Transforms)
    return datum


def _children(message: RawMessage) -> list[str]:
    return [transform.child for transform in _transforms(message).transforms]
