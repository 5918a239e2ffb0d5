"""What a command imports: no more than it works with, and nothing of an extra that is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from drives import simulate

from edgefirst_ros.simulation import DriveOptions

CHILD = """
import atexit, gc, json, os, sys
from pathlib import Path
hidden, listing, *arguments = sys.argv[1:]
for name in hidden.split(","):
    sys.modules[name] = None
os.environ.pop("OPENBLAS_NUM_THREADS", None)
atexit.register(lambda: Path(listing).write_text(json.dumps({
    "modules": [n for n, m in sys.modules.items() if m],
    "collects": gc.isenabled() and gc.get_threshold()[0] > 700,
    "threads": os.environ["OPENBLAS_NUM_THREADS"],
})))
sys.argv = ["edgefirst-ros", *arguments]
from edgefirst_ros.__main__ import main
main()
"""
HEAVY = (
    *("scipy", "pyarrow", "polars", "av", "zenoh", "numcodecs", "contourpy", "simplejpeg", "PIL"),
    *("edgefirst_ros.formats.l5kit.read", "edgefirst_ros.formats.l5kit.write"),
    *("edgefirst_ros.pipeline", "edgefirst_ros.simulation", "edgefirst_ros.report.page"),
    *("edgefirst_ros.fleet", "obstore", "ray", "dask", "distributed"),
)
"""What takes long to import, and is not needed to show help or to read a recording's topics."""
SELDOM = (
    *("yaml", "zstandard", "mcap_ros2", "numpy.ma", "rich._emoji_codes"),
    *("edgefirst_ros.cli.capture", "edgefirst_ros.cli.convert"),
    *("edgefirst_ros.config.files", "edgefirst_ros.model.pictures"),
)
"""What a recording's topics are read without, unless the recording or the user asks for it."""


class Ended:
    """A command that ran in a process of its own."""

    def __init__(self, folder: Path, *arguments: str | Path, hidden: str = "nothing") -> None:
        listing = folder / "modules.json"
        done = subprocess.run(
            [sys.executable, "-c", CHILD, hidden, listing, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        seen = json.loads(listing.read_text())
        self.modules = frozenset(seen["modules"])
        self.collects, self.threads = seen["collects"], seen["threads"]


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DriveOptions(seconds=1, fps=5, width=160, height=96, lidar_points=100, cube_hz=0)
    return simulate(tmp_path_factory.mktemp("light"), options).mcap


@pytest.mark.parametrize("command", ["", "convert", "capture", "report"])
def test_help_imports_no_heavy_library(tmp_path: Path, command: str) -> None:
    done = Ended(tmp_path, *command.split(), "--help")
    assert done.code == 0, done.err
    assert "Usage" in done.out
    assert not done.modules & {*HEAVY, "numpy"}


def test_info_imports_what_reads_a_recording(tmp_path: Path, drive: Path) -> None:
    done = Ended(tmp_path, "info", drive)
    assert "camera/h264" in done.out, done.err
    assert {"edgefirst_ros.sources.info", "numpy"} <= done.modules
    assert not done.modules & {*HEAVY, *SELDOM}
    assert done.collects, "garbage, once it is imported, but less often than usual"


@pytest.mark.parametrize("command", ["capture", "play"])
def test_a_missing_extra_is_an_error_that_says_how_to_install_it(
    tmp_path: Path, drive: Path, command: str
) -> None:
    arguments = {"capture": ("--output", tmp_path / "out"), "play": (drive,)}[command]
    done = Ended(tmp_path, command, *arguments, "--zenoh", "tcp/127.0.0.1:1", hidden="zenoh")
    assert done.code == 2
    assert done.err == "error: zenoh is not installed: pip install 'edgefirst_ros[zenoh]'\n"
    assert not (tmp_path / "out").exists()


def test_a_dataset_is_made_checked_and_looked_at_without_any_extra(tmp_path: Path, drive: Path) -> None:
    hidden = "zenoh,obstore,polars,scipy"
    done = Ended(tmp_path, "convert", drive, "--output", tmp_path / "out", "--name", "ds", hidden=hidden)
    assert done.code == 0, done.err
    assert "pyarrow" in done.modules
    assert "edgefirst_ros.fleet" not in done.modules
    for command in (
        ("check", tmp_path / "out"),
        ("report", tmp_path / "out/edgefirst/ds", "--picture", tmp_path / "s.png"),
    ):
        done = Ended(tmp_path, *command, hidden=hidden)
        assert done.code == 0, done.err


@pytest.mark.long
def test_drives_of_their_own_need_no_cluster(tmp_path: Path, drive: Path) -> None:
    arguments = ("convert", drive, "--output", tmp_path / "out", "--jobs", "1")
    done = Ended(tmp_path, *arguments, hidden="obstore,ray,dask,distributed")
    assert done.code == 0, done.err


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_a_missing_cluster_client_is_an_error_that_says_how_to_install_it(
    tmp_path: Path, drive: Path, engine: str
) -> None:
    arguments = ("convert", drive, "--output", tmp_path / "out", "--engine", engine, "--address", "h:1")
    done = Ended(tmp_path, *arguments, hidden="ray,dask")
    assert done.code == 2
    assert done.err == f"error: {engine} is not installed: pip install 'edgefirst_ros[{engine}]'\n"
