"""Seven small drives, one of them cut and one garbage, and what local conversion makes of them."""

from __future__ import annotations

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
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.fleet.keys import FleetDrive, InputFile, Key, Settings
from edgefirst_ros.fleet.notes import DONE, RUNNING, LocalNotes, Notes, read_all
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report import make_pages
from edgefirst_ros.simulation import DriveOptions

Found = TypeVar("Found")
COUNT = 7
CUT, GARBAGE = "drive04", "drive05"
KEY = Key("d" * 16, "a" * 16, "5" * 16)
OPTIONS = ("--format", "edgefirst,l5kit")
COMMAND = (
    "from edgefirst_ros.fleet import run; run.LOOK_S = 0.2; from edgefirst_ros.__main__ import main; main()"
)
"""``edgefirst-ros``, but for how soon a run looks again at what others do: nobody waits for it here."""


def settings(**chosen: object) -> Settings:
    return Settings(None, chosen, version="0.1.0")


def drive(name: str, uri: str = "/drives/a.mcap", size: int = 10, tag: str = "1") -> FleetDrive:
    return FleetDrive(name, (InputFile(uri, size, tag),))


def make_drives(folder: Path, count: int = COUNT, seconds: float = 2.0) -> Path:
    """A folder with drives; the fifth is cut off, and the sixth is no recording."""
    folder.mkdir(parents=True)
    made = simulated(
        DriveOptions(seconds=seconds, fps=5, width=160, height=96, lidar_points=100, cube_hz=0)
    ).mcap.read_bytes()
    for number in range(count):
        name = f"drive{number:02}"
        data = {CUT: made[: len(made) * 2 // 3], GARBAGE: b"garbage"}.get(name, made)
        (folder / f"{name}.mcap").write_bytes(data)
    return folder


def start(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start the command ``edgefirst-ros``."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, arguments)],
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
        return contents(to)


def contents(folder: Path) -> Mapping[str, bytes]:
    """The files of all datasets below a folder, by name; no notes, and no fleet report."""
    return {
        name: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and is_of_dataset(name := path.relative_to(folder).as_posix())
    }


def is_of_dataset(name: str) -> bool:
    return "/" in name and not name.startswith("_")


def wait_for(what: Callable[[], Found], limit_s: float = 240.0) -> Found:
    """Poll until something is true."""
    until_s = time.monotonic() + limit_s
    while not (found := what()):
        if time.monotonic() > until_s:
            raise TimeoutError("it did not happen")
        time.sleep(0.02)
    return found


def done_versions(notes: Notes) -> dict[str, str]:
    """Versions of all notes of complete drives."""
    found = {name: notes.read(f"{DONE}/{name}") for name in notes.names(DONE)}
    return {name: note.version for name, note in found.items() if note is not None}


def kill_a_worker(notes: Notes, besides: int = 0) -> str:
    """Kill the process that converts a drive; the drive."""

    def victim() -> tuple[str, int] | None:
        claims = read_all(notes, RUNNING)
        return next(((name, c["pid"]) for name, c in claims.items() if c["pid"] != besides), None)

    while True:
        name, pid = wait_for(victim)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        return str(name)


def assert_a_dead_worker_costs_nothing(engine: str, address: str, folder: Path) -> None:
    """A cluster whose worker is killed converts what this machine does."""
    drives = make_drives(folder / "drives")
    notes = LocalNotes(folder / "sets")
    where = ("--engine", engine, "--address", address)
    process = start("convert", drives, "-o", folder / "sets", *where, *OPTIONS)
    killed = kill_a_worker(notes)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1, err
    assert f"{killed}: " in err
    assert err.count("failed: ") == 2, "the garbage alone, when it failed and at the end"
    assert f"failed: {GARBAGE}" in err
    assert contents(folder / "sets") == locally(drives)
    assert len(done_versions(notes)) == COUNT - 1
    assert notes.names("_running") == []
