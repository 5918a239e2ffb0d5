"""What judges H.265 is compiled beside a live capture, and pictures wait for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pytest
from clips import make_clip, play

from edgefirst_ros.video import integrity
from edgefirst_ros.video.stream import VideoStream

pytest.importorskip("numba", reason="numba is not installed here; pip install -e '.[test]' brings it")
from edgefirst_ros.video import h265ctu
from edgefirst_ros.video.integrity import H265Syntax

LIMIT_S = 60.0
UNTIL_THERE = "import sys, time, pathlib\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)"


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has begun nothing yet."""
    monkeypatch.setattr(integrity, "_done", None)
    yield
    assert integrity.wait_compiled(LIMIT_S)


def test_what_is_compiled_ahead_is_what_pictures_need() -> None:
    h265ctu.compile_parser()
    syntax = H265Syntax()
    assert all(syntax.is_sound(shot.packet.data) for shot in make_clip("h265-p").shots)
    assert len(h265ctu.segment.signatures) == 1


def test_many_processes_at_once_compile_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a new machine a fleet's workers, or a script's commands, all begin before the first has compiled."""
    together = threading.Barrier(2, timeout=0.3)
    compiled: list[bool] = []

    def compile_parser() -> None:
        with suppress(threading.BrokenBarrierError):
            together.wait()
            compiled.append(False)
        compiled.append(True)

    monkeypatch.setattr(h265ctu, "compile_parser", compile_parser)
    monkeypatch.setattr(integrity.os, "nice", lambda _: 0)
    with ThreadPoolExecutor(2) as pool:
        wait([pool.submit(integrity.main) for _ in range(2)])
    assert compiled == [True, True]


def test_pictures_wait_until_it_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    over: list[bool] = []
    judge = H265Syntax.is_sound

    def judged(self: H265Syntax, data: bytes) -> bool:
        over.append(integrity.wait_compiled(0.0))
        return judge(self, data)

    monkeypatch.setattr(H265Syntax, "is_sound", judged)
    gate = tmp_path / "gate"
    integrity.compile_ahead(
        told.append, command=(sys.executable, "-c", UNTIL_THERE, str(gate)), report_after_s=0.0
    )
    integrity.compile_ahead(told.append, command=("/nowhere",))  # it is under way, so this begins nothing
    clip = make_clip("h265-p")
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(play, VideoStream("/camera/h265"), clip.shots)
        wait([playing], 0.3)  # long enough to judge a picture, if that did not wait
        gate.touch()
        assert set(playing.result(LIMIT_S).pictures) == set(clip.truth)
    assert integrity.wait_compiled(LIMIT_S)
    assert over
    assert all(over)
    assert told == [integrity.COMPILING, integrity.COMPILED]


def test_where_it_cannot_be_compiled_ahead_nothing_waits_for_it() -> None:
    told: list[str] = []
    integrity.compile_ahead(told.append, command=("/nowhere",))
    assert integrity.wait_compiled(LIMIT_S)
    assert told == []


@pytest.mark.parametrize(
    ("topic", "kind", "may"),
    [
        ("/rt/camera/h265", "foxglove_msgs/msg/CompressedVideo", True),
        ("/front/image_raw/ffmpeg", "ffmpeg_image_transport_msgs/msg/FFMPEGPacket", True),
        ("/rt/camera/h264", "foxglove_msgs/msg/CompressedVideo", False),
        ("/front/image_raw/compressed", "sensor_msgs/msg/CompressedImage", False),
    ],
)
def test_topics_tell_whether_they_may_carry_it(topic: str, kind: str, may: bool) -> None:
    assert integrity.may_be_h265(topic, kind) is may
