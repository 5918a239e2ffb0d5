"""capture and play as commands: what they refuse, and how they end without a signal."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from livedrive import drive, messages
from zenoh_loopback import free_endpoint, started

from edgefirst_ros.cli.app import app
from edgefirst_ros.live import capture as live
from edgefirst_ros.pipeline.disk import Disk
from edgefirst_ros.sources.zenoh import ZenohSource


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error without breaks."""
    # Not by the runner that typer has for tests: before click 8.2 it mixes the two.
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        app([str(a) for a in arguments], prog_name="edgefirst-ros")
    return ended.value.code or 0, out.getvalue(), re.sub(r"\s+", " ", err.getvalue())


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures have a connection, over which nothing comes."""
    monkeypatch.setattr(ZenohSource, "connections", 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["capture", "-o", "OUT"], "--zenoh"),
        (["capture", "-o", "OUT", "--zenoh", "tcp://1.2.3.4:7447"], "expected PROTOCOL/ADDRESS"),
        (["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--rate", "2", "--every", "3"], "exclude"),
        (["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--reference", "sonar"], "'sonar'"),
        (["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--duration", "-1"], "--duration"),
        (
            ["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--duration", "0.1"],
            "never connected (tcp/127.0.0.1:",
        ),
        (["play", "DRIVE", "--zenoh-listen", "ENDPOINT", "--speed", "0"], "--speed 0: expected more than 0"),
        (["play", "DRIVE", "--zenoh-listen", "ENDPOINT", "--start", "99"], "nothing in it is between"),
        (["play", "OUT/none.mcap", "--zenoh-listen", "ENDPOINT"], "no such recording"),
        (
            ["play", "DRIVE", "--zenoh-listen", "ENDPOINT", "--wait", "0.05"],
            "nobody connected to tcp/127.0.0.1:",
        ),
        (["play", "DRIVE", "--zenoh", "ENDPOINT", "--wait", "0.05"], "never connected (tcp/127.0.0.1:"),
        (["play", "EMPTY", "--zenoh-listen", "ENDPOINT"], "empty.mcap: holds no topic"),
        (
            ["capture", "-o", "OUT", "--zenoh-listen", "ENDPOINT", "--duration", "0.1"],
            "nobody connected to tcp/127.0.0.1:",
        ),
    ],
)
def test_wrong_usage_is_said_with_exit_2_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    output = tmp_path / "out"
    empty = tmp_path / "empty.mcap"
    empty.write_bytes(drive().read_bytes()[:100])
    given = {"OUT": str(output), "ENDPOINT": free_endpoint(), "DRIVE": str(drive()), "EMPTY": str(empty)}
    code, _, said = run(*(given.get(a, a.replace("OUT", str(output))) for a in arguments))
    assert code == 2, said
    assert words in said
    assert not output.exists()


def test_the_files_of_one_drive_are_played_one_after_another_and_nobody_listens(tmp_path: Path) -> None:
    for number in range(2):
        shutil.copy(drive(), tmp_path / f"bag_{number}.mcap")
    listed = {"rosbag2_bagfile_information": {"relative_file_paths": ["bag_0.mcap", "bag_1.mcap"]}}
    (tmp_path / "metadata.yaml").write_text(json.dumps(listed))
    playing = ("play", tmp_path, "--zenoh-listen", free_endpoint(), "--wait", "0")
    code, _, said = run(*playing, "--speed", "1000")
    assert code == 1
    assert f"{2 * len(messages()):,} messages" in said
    assert "bag_0.mcap to bag_1.mcap: 2 files of one drive" in said
    assert "error: nobody listened: no topic had a subscriber" in said
    code, _, said = run(*playing, "--speed", "1000", "--json", "--end", "0.1")
    assert code == 1
    assert said.startswith("error: nobody listened")


@pytest.mark.usefixtures("connected")
def test_a_time_in_which_nothing_came_ends_with_exit_1_and_says_what_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("min_free_mb: 0\nprefix: maivin-9\n")
    code, out, said = run(
        *("capture", "-o", tmp_path / "out", "--zenoh", free_endpoint(), "--duration", "0.1"),
        *("--config", config, "--json"),
    )
    assert code == 1, said
    report = json.loads(out)
    assert report["samples"] == report["totals"]["received"] == 0
    assert report["ended"] == live.STOPPED
    assert report["silent"]["camera"][:2] == ["camera/h264", "camera/h265"]
    assert report["warnings"] == ["the dataset is empty: no camera frame arrived, or none was selected"]
    assert re.fullmatch(r"maivin-9_\d{4}(_\d\d){5}", report["dataset"])
    assert [Path(path).name for path in report["paths"] if Path(path).exists()] == [
        "capture_report.json",
        "capture_report.html",
    ]


def test_a_disk_that_fills_ends_with_exit_1_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([2_000_000_000])
    monkeypatch.setattr(Disk, "free_bytes", lambda _: next(free, 5_000_000))
    code, out, said = run("capture", "-o", tmp_path / "out", "--zenoh", free_endpoint(), "--host", "car")
    assert code == 1, said
    assert "ended because the disk has 5 MB left, less than min_free_mb 1,024" in said
    assert "nothing was received, is the device on" in said
    assert "nothing was received for camera (camera/h264" in said
    assert Path(out.split()[1]).parent.name.startswith("car")


@pytest.mark.long
def test_a_device_that_comes_late_is_not_taken_for_another(tmp_path: Path) -> None:
    """Its names are judged once it had time to send: from the connection on, not from the capture's start."""
    soon = "from edgefirst_ros.cli import app, capture; capture.SUGGEST_AFTER_S = 2.0; app.app()"
    endpoint = free_endpoint()
    words = "capture", "-o", tmp_path / "out", "--zenoh", endpoint
    with started(tmp_path / "capture", *words, command=[sys.executable, "-c", soon]) as capture:
        time.sleep(6)
        with started(tmp_path / "play", "play", drive(), "--zenoh-listen", endpoint) as play:
            assert play.wait() == 0, play.err
        capture.send(signal.SIGINT)
        capture.wait()
    assert "samples" in capture.err
    assert "guessed" not in capture.err
