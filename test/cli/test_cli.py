"""The command as a user meets it: a process, its exit code, its words, and what it leaves on disk."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from drives import simulate
from written import Written

from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.simulation import DriveOptions

COMMAND = [sys.executable, "-m", "edgefirst_ros"]


def run(
    *arguments: str | Path, check: int | None = 0, columns: str = "80"
) -> subprocess.CompletedProcess[str]:
    command, more = [*COMMAND, *map(str, arguments)], {**os.environ, "COLUMNS": columns}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=more)
    if check is not None:
        assert done.returncode == check, done.stdout + done.stderr
    return done


def call(*arguments: str | Path, check: int = 0) -> subprocess.CompletedProcess[str]:
    """The same within this process, which has imported everything already."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        app([str(argument) for argument in arguments], prog_name="edgefirst-ros")
    code = int(ended.value.code or 0)
    assert code == check, out.getvalue() + err.getvalue()
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DriveOptions(
        seconds=3, fps=10, width=320, height=180, lidar_points=500, cube_shape=(1, 20, 2, 8)
    )
    return simulate(tmp_path_factory.mktemp("short"), options).mcap


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long enough to be interrupted on any machine."""
    options = DriveOptions(
        seconds=20, fps=10, width=160, height=96, lidar_points=200, cube_hz=0, radar_hz=9, imu_hz=20
    )
    return simulate(tmp_path_factory.mktemp("long"), options).mcap


def test_help_teaches() -> None:
    top = run("--help").stdout
    for command in ("convert", "info", "simulate", "recover", "report"):
        assert command in top
    text = call("convert", "--help").stdout
    for word in ("--output", "--rate", "--keyframes", "--require", "Many drives:", "edgefirst-ros convert"):
        assert word in text
    assert len(run("convert", "--help", columns="80").stdout.splitlines()) <= 60


def test_convert_prints_where_things_are_and_what_became_of_every_message(
    short: Path, tmp_path: Path
) -> None:
    done = subprocess.run([*COMMAND, "convert", str(short)], cwd=tmp_path, capture_output=True, text=True)  # noqa: PLW1510
    said = done.stderr + done.stdout
    assert [line.split()[0] for line in said.splitlines()] == [
        short.stem, "done", "lidar", "good", "note", "next", "dataset", "report"
    ]  # fmt: skip
    places = [tmp_path / line.split()[1] for line in done.stdout.splitlines()]
    assert [place.name for place in places] == [short.stem, "capture_report.html"]
    assert all(place.exists() for place in places)
    assert "nothing lost, clocks aligned to ± 2 ms" in said
    more = call("convert", short, "-o", tmp_path / "my out", "-v").stderr
    assert f"edgefirst-ros check '{tmp_path / 'my out'}'" in more
    assert "What became of every message" in more
    assert "/lidar/points, /radar/cube, /radar/targets: device clock, aligned to ± 2 ms" in more
    assert re.search(r"/gps: \d+ ignored: repeated fix", more)
    assert "rejected:" not in more


def test_json_is_one_object_and_nothing_else(short: Path, tmp_path: Path) -> None:
    done = call("convert", short, "-o", tmp_path, "--json")
    report = json.loads(done.stdout)
    assert report["samples"] == 30
    assert done.stderr == ""


def test_the_words_of_require_are_those_of_reference(short: Path, tmp_path: Path) -> None:
    done = call("convert", short, "-o", tmp_path, "--reference", "lidar", "--dry-run")
    assert "30 samples of 30" in done.stdout
    assert "note:" not in done.stderr


def test_a_poor_result_is_never_silent_and_fails_when_strict(short: Path, tmp_path: Path) -> None:
    done = call("convert", short, "-o", tmp_path / "a", "--quiet", "--require", "all")
    assert "radar/cube" in done.stderr
    call("convert", short, "-o", tmp_path / "b", "--quiet", "--require", "all", "--strict", check=1)


def test_an_empty_result_says_why_and_fails(short: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("topics: {radar_clusters: {required: always}}\n")
    done = call("convert", short, "-o", tmp_path / "o", "--config", config, check=1)
    assert "the dataset is empty" in done.stderr
    assert "lacked radar/clusters, which sent nothing usable" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.mcap"], "no such recording"),
        ([__file__], "is it an MCAP recording?"),
        (["SHORT", "--reference", "sonar"], "name one with --reference: /camera/h264"),
        (["SHORT", "--rate", "-1"], "--rate: expected at least 0, found -1.0"),
        (["SHORT", "--rate", "2", "--every", "3"], "exclude one another"),
        (["SHORT", "--config", "none.yaml"], "no such configuration file"),
    ],
)
def test_wrong_usage_is_said_with_exit_2_and_leaves_nothing(
    short: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    out = tmp_path / "out"
    done = call("convert", *(str(short) if a == "SHORT" else a for a in arguments), "-o", out, check=2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_nothing_is_overwritten_unless_asked(short: Path, tmp_path: Path) -> None:
    call("convert", short, "-o", tmp_path, "--name", "d", "--rate", "1")
    written = Written(tmp_path / "edgefirst" / "d")
    before = written.files()
    refused = call("convert", short, "-o", tmp_path, "--name", "d", check=2)
    assert "--overwrite" in refused.stderr
    assert written.files() == before
    call("convert", short, "-o", tmp_path, "--name", "d", "--overwrite")
    assert len(written.files()) > len(before)


def test_names_cannot_leave_the_output_folder(short: Path, tmp_path: Path) -> None:
    call("convert", short, "-o", tmp_path / "out", "--name", "../../evil", "--rate", "1")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def start(
    long: Path, out: Path, *more: str, committed_bytes: int = 4000
) -> tuple[subprocess.Popen[str], Path]:
    """A conversion under way, with something committed already."""
    command = [
        *COMMAND,
        "convert",
        str(long),
        "-o",
        str(out),
        "--name",
        "d",
        *more,
        "--workers",
        "1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    journal = out / "edgefirst" / "d" / "d.journal.part"
    deadline = time.monotonic() + 240
    while not (journal.exists() and journal.stat().st_size > committed_bytes):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing was committed in time"
        time.sleep(0.005)
    return process, out / "edgefirst" / "d"


def test_an_interrupted_conversion_is_complete_up_to_there(long: Path, tmp_path: Path) -> None:
    process, folder = start(long, tmp_path)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    written = Written(folder)
    assert re.fullmatch(r"0:\d\d of 0:20", written.report["interrupted"])
    assert f"stopped    by you at {written.report['interrupted']}" in said
    (checked,) = check(folder)
    assert checked.ok
    assert f"the conversion was stopped at {written.report['interrupted']}, run it again" in checked.text
    assert written.report["sequences"][0]["ended"] == "interrupted"
    assert written.table["frame"].n_unique() == written.report["samples"] > 0
    for account in written.report["topics"].values():
        assert account["received"] == sum(
            account[c] for c in ("decoded", "refused", "skipped", "unpaired", "dropped", "written")
        )
    assert not list(folder.glob("*.part"))
    call("convert", long, "-o", tmp_path, "--name", "d")
    assert Written(folder).report["interrupted"] is False
    assert not any("stopped" in each.text for each in check(folder))
    call("convert", long, "-o", tmp_path, "--name", "d", check=2)


def test_a_killed_conversion_is_recovered_and_recovering_twice_does_no_harm(
    long: Path, tmp_path: Path
) -> None:
    process, folder = start(long, tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert list(folder.glob("*.part"))
    assert "are kept" in call("recover", tmp_path).stdout
    written = Written(folder)
    first = written.files()
    assert len(first) > 3
    assert written.table["frame"].n_unique() == len(written.of_kind("camera.jpeg"))
    assert "nothing to do" in call("recover", folder).stdout
    assert written.files() == first


@pytest.mark.long
def test_a_full_disk_is_said_and_what_was_committed_can_be_recovered(long: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here (needs root)")
    try:
        done = run("convert", long, "-o", small, "--name", "d", check=2)
        assert "No space left on device" in done.stderr
        assert "recover" in done.stderr
        assert "Traceback" not in done.stderr
        subprocess.run(["mount", "-o", "remount,size=20m", str(small)], check=True)
        assert "are kept" in call("recover", small).stdout
        assert Written(small / "edgefirst" / "d").table["frame"].n_unique() > 3
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


def test_info_names_topics_rates_and_clocks(short: Path) -> None:
    text = call("info", short).stdout
    for word in ("/camera/h264", "CompressedVideo", "never changes", "another clock"):
        assert word in text
    assert re.search(
        r"stamp of another clock, [\d,]+\.\d+ s ± .* behind the recording's", " ".join(text.split())
    )
    found = json.loads(call("info", "--json", short).stdout)
    assert found["topics"]["/camera/h264"]["messages"] == 30
    assert found["topics"]["/camera/h264"]["rate_hz"] == pytest.approx(10, abs=0.2)


def test_a_cut_recording_converts_and_says_what_is_missing(short: Path, tmp_path: Path) -> None:
    cut = tmp_path / short.name
    cut.write_bytes(short.read_bytes()[: short.stat().st_size * 2 // 3])
    done = call("convert", cut, "-o", tmp_path / "o", "--name", "d")
    assert "ends in the middle of" in done.stderr
    report = Written(tmp_path / "o" / "edgefirst" / "d").report
    assert report["recordings"][0]["unreadable_bytes"] > 0
    assert report["samples"] > 5


def test_the_contact_sheet_is_a_picture(short: Path, tmp_path: Path) -> None:
    call("convert", short, "-o", tmp_path, "--name", "d")
    call("report", tmp_path / "edgefirst" / "d", "--picture", tmp_path / "s.png", "--rows", "2")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    refused = call("report", tmp_path / "none", "--picture", tmp_path / "t.png", check=2)
    assert "no such file or folder" in refused.stderr
