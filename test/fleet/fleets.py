"""Seven small drives, one of them cut and one garbage, and what local conversion makes of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from drives import simulated
from faulty import FaultyOptions
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.fleet.notes import BEGUN, DONE, Notes
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import Settings
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report import make_pages

Found = TypeVar("Found")
COUNT = 7
CUT, GARBAGE = "drive04", "drive05"
OPTIONS = ("--format", "edgefirst,l5kit")
SMALL = FaultyOptions(seconds=2.0, fps=5, width=160, height=96, lidar_points=100, cube_hz=0)


def settings(**chosen: object) -> Settings:
    return Settings(None, chosen, version="0.1.0")


def make_drives(folder: Path, count: int = COUNT) -> Path:
    """A folder with drives; the fifth is cut off, and the sixth is no recording."""
    folder.mkdir(parents=True)
    made = simulated(SMALL).mcap.read_bytes()
    for number in range(count):
        name = f"drive{number:02}"
        data = {CUT: made[: len(made) * 2 // 3], GARBAGE: b"garbage"}.get(name, made)
        (folder / f"{name}.mcap").write_bytes(data)
    return folder


def start(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start the command ``edgefirst-ros``."""
    return subprocess.Popen(
        [sys.executable, "-m", "edgefirst_ros", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Run the command ``edgefirst-ros`` in this process, its jobs in theirs; exit code, output and errors."""
    done = CliRunner().invoke(app, [*map(str, arguments)], prog_name="edgefirst-ros")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def locally(drives: Path) -> Mapping[str, bytes]:
    """What single conversions make of the drives, by ``DRIVE/file``; nothing of garbage."""
    found: dict[str, bytes] = {}
    for path in sorted(drives.glob("*.mcap")):
        found |= _alone(path.name, path.read_bytes())
    return found


@cache
def _alone(name: str, data: bytes) -> Mapping[str, bytes]:
    """What is made of one drive, once for all tests that have it."""
    with tempfile.TemporaryDirectory() as folder:
        path, to = Path(folder, name), Path(folder, "sets")
        path.write_bytes(data)
        try:
            done = convert([path], to / path.stem, settings(formats=["edgefirst", "l5kit"]).config())
        except RecordingError:
            return {}
        assert make_pages(done.paths)[1] == ""
        return datasets(to)


def datasets(folder: Path) -> Mapping[str, bytes]:
    """The files of all datasets below a folder, by name; no notes, and no fleet report."""
    return {
        name: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and is_of_dataset(name := path.relative_to(folder).as_posix())
    }


def is_of_dataset(name: str) -> bool:
    return "/" in name and not name.startswith(("_", "."))


def wait_for(what: Callable[[], Found], limit_s: float = 240.0) -> Found:
    """Poll until something is true."""
    until_s = time.monotonic() + limit_s
    while not (found := what()):
        if time.monotonic() > until_s:
            raise TimeoutError("it did not happen")
        time.sleep(0.02)
    return found


def notes_of(output: Path | str) -> Notes:
    return Notes(open_output(str(output)))


def done_in(output: Path | str) -> set[str]:
    """The drives that are noted as done."""
    return {*notes_of(output).list_keys(DONE)}


def kill_a_worker(output: Path) -> str:
    """Kill the process that converts a drive; the drive."""
    while True:
        path = wait_for(lambda: next((output / BEGUN).glob("*.json"), None))
        try:
            note = json.loads(path.read_text())
            os.kill(note["pid"], signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
        return str(note["drive"])


def assert_a_dead_worker_costs_nothing(folder: Path, *engine: str) -> None:
    """Though a worker is killed, all drives become what each does alone; only garbage fails."""
    drives, sets = make_drives(folder / "drives"), folder / "sets"
    process = start("convert", drives, "-o", sets, *engine, *OPTIONS)
    killed = kill_a_worker(sets)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1, err
    assert f"{killed}: " in err
    assert [line for line in err.splitlines() if line.startswith("failed: ") and GARBAGE not in line] == []
    assert datasets(sets) == locally(drives)
    assert done_in(sets) == {f"drive{n:02}" for n in range(COUNT)} - {GARBAGE}
    assert notes_of(sets).list_keys(BEGUN) == {}
