"""What judges H.265 is compiled once on a machine, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
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


def test_what_is_compiled_is_what_pictures_need() -> None:
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
    with ThreadPoolExecutor(2) as pool:
        wait([pool.submit(integrity.main) for _ in range(2)])
    assert compiled == [True, True]


@pytest.mark.parametrize("is_cached", [False, True])
def test_another_process_compiles_it_unless_one_did(is_cached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Sequence[str]] = []
    monkeypatch.setattr(h265ctu, "is_cached", lambda: is_cached)
    monkeypatch.setattr(integrity.subprocess, "run", lambda command, **_: begun.append(command))
    integrity._parser.cache_clear()
    clip = make_clip("h265-p")
    assert set(play(VideoStream("/camera/h265"), clip.shots).pictures) == set(clip.truth)
    assert begun == [] if is_cached else [integrity.COMMAND]


def test_what_that_process_compiled_is_loaded() -> None:
    subprocess.run(integrity.COMMAND, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert h265ctu.is_cached()


def test_what_was_compiled_before_a_change_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    h265ctu.compile_parser()
    newer = tmp_path / "h265ctu.py"
    newer.touch()
    monkeypatch.setattr(h265ctu, "__file__", str(newer))
    assert not h265ctu.is_cached()
