"""What a robot says of its sensors once holds for all later sequences, sessions and splits of this robot."""

from __future__ import annotations

from pathlib import Path

import pytest
from livedrive import HOST, messages

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.sample import RawMessage, Sample

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
