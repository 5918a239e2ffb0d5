"""An error that nobody foresaw: one line, exit code 2, and where it was; never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from drives import simulated
from zenoh_loopback import free_endpoint

from edgefirst_ros.simulation import DriveOptions

CHILD = """
import sys, threading, time
from pathlib import Path
from edgefirst_ros.offline import opening

class Torn(Exception):
    def __str__(self):
        raise ValueError("no text either")

HOSTILE = "a\\x1b[2J\\u202e\\u200b\\ndrive " + "x" * 5000

def fail(*_, **__):
    kind = sys.argv.pop()
    if kind == "thread":
        thread = threading.Thread(target=lambda: 1 // 0, name="reader")
        thread.start()
        thread.join()
        return ()
    if kind == "lingering":
        threading.Thread(target=time.sleep, args=[600]).start()
        raise KeyError(HOSTILE)
    library = ImportError("initialization failed")
    library.__cause__ = KeyboardInterrupt()
    raise {
        "library": library,
        "value": KeyError(HOSTILE), "torn": Torn(), "deep": RecursionError(), "memory": MemoryError(),
        "ctrl-c": KeyboardInterrupt(), "pipe": BrokenPipeError(32, "Broken pipe"), "exit": SystemExit(7),
    }[kind]

opening.infos = fail
from edgefirst_ros.__main__ import main
main()
"""


def run(kind: str, folder: Path, *more: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    nothing = folder / "nothing.mcap"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "info", str(nothing), *more, kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["value", "torn", "memory"])
def test_it_is_one_line_and_says_where_it_was(tmp_path: Path, kind: str) -> None:
    code, out, said = run(kind, tmp_path, "--json")
    assert code == 2
    assert said.startswith("error: this is a fault of edgefirst-ros: ")
    assert said.count("\n") == 1
    assert len(said) < 1000
    assert not set(said) & set("\x1b\u202e\u200b")
    assert ", <string>:" in said
    (fault,) = json.loads(out)["faults"]
    assert said == f"error: {fault}\n"


def test_a_traceback_can_be_had(tmp_path: Path) -> None:
    code, _, said = run("value", tmp_path, EDGEFIRST_DEBUG="1")
    assert code == 1
    assert "Traceback" in said


@pytest.mark.parametrize(("kind", "code"), [("ctrl-c", 130), ("library", 130), ("exit", 7), ("pipe", 1)])
def test_what_is_no_fault_keeps_its_meaning(tmp_path: Path, kind: str, code: int) -> None:
    ended, _, said = run(kind, tmp_path)
    assert ended == code
    assert "fault" not in said
    assert ("interrupted" in said) is (code == 130)


def test_a_fault_in_another_thread_is_told_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "nothing.mcap").touch()
    code, _, said = run("thread", tmp_path)
    assert code == 2
    assert "(in its thread reader): ZeroDivisionError" in said
    assert "Traceback" not in said


def test_a_thread_that_waits_does_not_keep_the_process(tmp_path: Path) -> None:
    code, _, said = run("lingering", tmp_path)
    assert code == 2
    assert "a fault of edgefirst-ros" in said


SLOW_TO_CLOSE = """
import sys
from edgefirst_ros.__main__ import main
from edgefirst_ros.sources import zenohlink
zenohlink.CLOSING_S = 0.0
main()
"""


def test_a_connection_that_is_slow_to_close_does_not_abort_the_process() -> None:
    """It comes back while the interpreter is finalized, in most runs."""
    pytest.importorskip("zenoh")
    drive = simulated(DriveOptions(seconds=0.5, fps=10, width=160, height=96, lidar_points=64))
    for _ in range(2):
        words = ["play", drive.mcap, "--zenoh-listen", free_endpoint(), "--wait", "0", "--speed", "100"]
        command = [sys.executable, "-c", SLOW_TO_CLOSE, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert "nobody listened" in done.stderr
