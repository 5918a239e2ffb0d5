"""A split waits for a key frame where there is video, but not for ever."""

from __future__ import annotations

import pytest
from livedrive import messages

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.queue import starts_gop
from edgefirst_ros.live.split import TAIL_NS, WAIT_S, SplitPoint, tail_ns

VIDEO = [m for m in messages() if m.topic == "/camera/h264"]
KEY = next(m for m in VIDEO[5:] if starts_gop(m))
BETWEEN = next(m for m in VIDEO if not starts_gop(m))
OTHER = next(m for m in messages() if m.topic == "/imu")


def test_nothing_is_split_unasked() -> None:
    point = SplitPoint()
    assert not any(point.is_here(message, 100.0) for message in messages())


@pytest.mark.parametrize("message", [OTHER, BETWEEN, KEY, None], ids=["other", "between", "key", "pause"])
def test_a_key_frame_is_waited_for(message: object) -> None:
    point = SplitPoint()
    point.is_here(VIDEO[0], 0.0)
    point.request(0.0)
    assert point.is_here(message, WAIT_S - 0.1) is (message is KEY)  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [OTHER, BETWEEN, None], ids=["other", "between", "pause"])
def test_a_key_frame_that_never_comes_is_not(message: object) -> None:
    point = SplitPoint()
    point.is_here(VIDEO[0], 0.0)
    point.request(10.0)
    point.request(12.0)
    assert point.is_here(message, 10.0 + WAIT_S)  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [OTHER, None], ids=["other", "pause"])
def test_without_video_it_is_at_once(message: object) -> None:
    point = SplitPoint()
    point.is_here(OTHER, 0.0)
    point.request(0.0)
    assert point.is_here(message, 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("lookahead_s", "wait_s", "longer_s"), [(1.0, 2.0, 2), (3.0, 0.5, 3), (1.0, 0.0, 1)])
def test_a_session_before_a_seam_is_fed_as_long_as_its_last_sample_waits(
    lookahead_s: float, wait_s: float, longer_s: int
) -> None:
    config = build_config({"lookahead_s": lookahead_s, "ego": {"wait_s": wait_s}})
    assert tail_ns(config) == longer_s * 1_000_000_000 + TAIL_NS
