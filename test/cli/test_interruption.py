"""A second signal ends the process, whatever catches exceptions on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from edgefirst_ros.cli.shared import Out
from edgefirst_ros.model.errors import WriteError

LIMIT_S = 60.0
CHILD = """
import sys, threading, time
from pathlib import Path
from edgefirst_ros.cli.shared import Out
with Out(output=Path("out")).interruptible(threading.Event(), "finishing"):
    print("ready", flush=True)
    for _ in range(600):  # a signal right before a sleep begins is heard only after it
        try:
            time.sleep(0.1)
        except BaseException:
            print("raised", flush=True)
"""

ABORTING = """
import atexit, os, threading, time
from edgefirst_ros.cli.shared import Out
out = Out(as_json=True)
atexit.register(os.abort)  # as the interpreter's end does with a thread that is inside a native library
with out.guarded(), out.interruptible(threading.Event(), "finishing"):
    print("ready", flush=True)
    for _ in range(600):
        time.sleep(0.1)
"""

IMPORTING = """
from edgefirst_ros.cli import app
def interrupted(_):
    raise KeyboardInterrupt
app.import_module = interrupted
from edgefirst_ros.__main__ import main
main()
"""


@contextmanager
def interrupted(code: str) -> Iterator[subprocess.Popen[str]]:
    """A process that was asked once to finish."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert "finishing" in child.stderr.readline()
        yield child


def test_a_second_signal_does_not_end_by_way_of_what_may_abort() -> None:
    with interrupted(ABORTING) as child:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 130
    assert err == "interrupted at once\n"
    assert json.loads(out)["error"] == "interrupted at once"


def test_what_catches_every_exception_does_not_keep_the_process() -> None:
    with interrupted(CHILD) as child:
        child.send_signal(signal.SIGTERM)  # what a launcher sends by itself
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=LIMIT_S)
    assert out == ""
    assert child.returncode == 130
    assert (
        "interrupted at once\nhint: edgefirst-ros recover out finishes what was written, if anything was"
        in err
    )


def test_recovery_is_hinted_at_where_there_is_something_to_be_recovered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_left in (False, True):
        with pytest.raises(typer.Exit), Out(output=tmp_path / "out").guarded():
            raise KeyboardInterrupt
        assert ("recover" in capsys.readouterr().err) is is_left
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / "d.arrow.part").touch()
    for fault in ("no space left", "no space left; edgefirst-ros recover out"):
        with pytest.raises(typer.Exit), Out(output=tmp_path / "out").guarded():
            raise WriteError(fault)
        assert capsys.readouterr().err.count("edgefirst-ros recover") == 1


def test_an_interruption_while_a_command_is_imported_is_said() -> None:
    command = [sys.executable, "-c", IMPORTING, "check", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted at once\n")
