"""Many drives into a folder: what is done again and what is not, failures, interruption, two runs at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import GARBAGE, OPTIONS, contents, done_versions, locally, make_drives, run, start, wait_for

from edgefirst_ros.fleet.notes import LocalNotes, read_all


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four drives, converted: one in a folder, and one is garbage."""
    root = tmp_path_factory.mktemp("resume")
    drives = make_drives(root / "drives", count=3)
    (drives / "monday").mkdir()
    (drives / "drive02.mcap").rename(drives / "monday" / "drive01.mcap")
    (drives / "garbage.mcap").write_bytes(b"garbage")
    code, _, err = run("convert", drives, "-o", root / "sets", "--jobs", "2", *OPTIONS)
    assert code == 1, err
    return root


class Fleet:
    """A folder of drives and what was made of them, which a test may change."""

    def __init__(self, made: Path) -> None:
        self.drives, self.sets = made / "drives", made / "sets"
        self.notes = LocalNotes(self.sets)

    def convert(self, *more: str) -> tuple[int, str, str]:
        return run("convert", self.drives, "-o", self.sets, *OPTIONS, "--jobs", "1", *more, "--resume")


@pytest.fixture
def own(made: Path) -> Iterator[Fleet]:
    kept = made.with_name(f"{made.name}-kept")
    shutil.copytree(made, kept, copy_function=shutil.copy2)
    yield Fleet(made)
    shutil.rmtree(made)
    kept.rename(made)


@pytest.mark.long
def test_each_drive_has_datasets_of_its_own(made: Path, tmp_path: Path) -> None:
    found = contents(made / "sets")
    assert {name.split("/")[0] for name in found} == {"drive00", "drive01", "monday-drive01"}
    expected = locally(made / "drives")
    assert {name: data for name, data in found.items() if not name.startswith("monday")} == expected


def test_nothing_is_done_twice(own: Fleet) -> None:
    before = {path: path.stat().st_mtime_ns for path in own.sets.rglob("*.arrow")}
    versions = done_versions(own.notes)
    code, _, err = own.convert()
    assert code == 1
    assert "4 drives, 3 done before, 1 failed before" in err
    assert "failed: garbage: " in err
    assert "--retry-failed tries those again" in err
    assert {path: path.stat().st_mtime_ns for path in own.sets.rglob("*.arrow")} == before
    assert done_versions(own.notes) == versions


@pytest.mark.long
def test_failures_are_tried_again_when_asked(own: Fleet) -> None:
    _, _, err = own.convert("--retry-failed")
    assert "1 to convert" in err
    shutil.copy2(own.drives / "drive00.mcap", own.drives / "garbage.mcap")
    code, _, err = own.convert()
    assert code == 0, err
    assert "4 drives, 3 done before: 1 to convert" in err, "what has changed is no failure any more"
    assert own.notes.names("_failed") == [], "the failure of the earlier file is forgotten"


@pytest.mark.long
def test_a_changed_file_is_converted_again(own: Fleet) -> None:
    path = own.drives / "drive00.mcap"
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    _, _, err = own.convert()
    assert "4 drives, 2 done before, 1 failed before: 1 to convert" in err
    assert "drive00: is converted again: its files changed" in err
    assert len(done_versions(own.notes)) == 3


@pytest.mark.long
def test_a_changed_configuration_leaves_nothing_of_the_old_datasets(own: Fleet) -> None:
    code, _, err = run("convert", own.drives, "-o", own.sets, "--jobs", "1", "--resume")
    assert code == 1
    assert err.count("is converted again: configuration or version changed") == 4, "and what failed, too"
    assert not [name for name in contents(own.sets) if "l5kit" in name]
    assert not (own.sets / "drive00" / "l5kit").exists()
    assert len(done_versions(own.notes)) == 3


@pytest.mark.long
def test_what_is_there_without_a_note_is_not_touched_unless_all_is_overwritten(own: Fleet) -> None:
    before, versions = contents(own.sets), done_versions(own.notes)
    shutil.rmtree(own.sets / "_done")
    code, _, err = own.convert()
    assert code == 1
    assert "is there already, and no note says what of; --overwrite replaces it" in err
    assert contents(own.sets) == before
    code, _, err = own.convert("--overwrite")
    assert code == 1
    assert "4 to convert" in err
    assert contents(own.sets) == before
    assert done_versions(own.notes).keys() == versions.keys()


def test_the_reports_are_of_all_drives(own: Fleet) -> None:
    report = json.loads((own.sets / "fleet_report.json").read_text())
    assert report["totals"]["drives"] == 3
    assert report["totals"]["failed"] == 1
    assert report["totals"]["samples"] == 30
    assert report["sensors"]["camera/h264"]["drives"] == 3
    assert report["sensors"]["camera/h264"]["written"] == 30
    assert report["failed"][0]["drive"] == "garbage"
    assert report["worst_pairing"][0]["max"] > 0
    assert "<td>monday-drive01" in (own.sets / "fleet_report.html").read_text()
    code, out, _ = own.convert("--json")
    assert code == 1
    assert json.loads(out)["report"] == report


def test_the_status_says_what_is_left(own: Fleet) -> None:
    key = done_versions(own.notes).popitem()[0]
    drive = own.notes.read(f"_done/{key}").values["drive"]  # type: ignore[union-attr]
    own.notes.remove(f"_done/{key}")
    own.notes.put("_running/other", {"pid": 1, "host": "far", "unix_s": 1})
    code, out, _ = run("info", own.sets, "--json")
    found = json.loads(out)
    assert code == 1
    assert len(found["done"]) == 2
    assert found["left"] == [drive]
    assert [(each["drive"], each["abandoned"]) for each in found["running"]] == [("other", True)]
    assert found["failed"][0]["drive"] == "garbage"
    assert "magic" in found["failed"][0]["reason"]


@pytest.mark.long
def test_the_first_failure_may_end_it(tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives")
    command = ("convert", drives, "-o", tmp_path / "sets", "--jobs", "1", "--fail-fast", *OPTIONS)
    for number in range(5):
        (drives / f"drive{number:02}.mcap").unlink()
    code, _, err = run(*command)
    assert code == 1
    assert f"failed: {GARBAGE}" in err
    assert "1 of 2 drives are left" in err
    assert contents(tmp_path / "sets") == {}


def test_ctrl_c_stops_and_the_next_run_goes_on(tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=4)
    notes = LocalNotes(tmp_path / "sets")
    command = ("convert", drives, "-o", tmp_path / "sets", "--jobs", "2", *OPTIONS)
    process = start(*command)
    wait_for(lambda: done_versions(notes))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopping; what is complete stays" in err
    assert "drives are left" in err
    assert all(c["released"] for c in read_all(notes, "_running").values()), "another run need not wait"
    done = done_versions(notes)
    assert 0 < len(done) < 4
    code, _, err = run(*command)
    assert code == 0, err
    assert contents(tmp_path / "sets") == locally(drives)
    assert {key: version for key, version in done_versions(notes).items() if key in done} == done


def test_two_runs_at_once_share_the_work(tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=3)
    command = ("convert", drives, "-o", tmp_path / "sets", "--jobs", "1", *OPTIONS)
    both = [start(*command) for _ in range(2)]
    ends = [(process.communicate(timeout=240)[1], process.returncode) for process in both]
    assert [code for _, code in ends] == [0, 0], ends
    told = [line for err, _ in ends for line in err.splitlines() if " samples, " in line and "(" in line]
    own = [line.split(":")[0] for line in told if "by another run" not in line]
    assert sorted(own) == [f"drive{n:02}" for n in range(3)], "each was converted by one of them"
    assert contents(tmp_path / "sets") == locally(drives)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (("--jobs", "1", "--name", "a"), "--name is for one dataset"),
        (("--jobs", "1", "--memory", "100000"), "a job needs 100000.0 GB"),
        (("--resume", "--address", "auto"), "--address is for --engine ray"),
        (("--resume", "--rate", "-1"), "--rate: expected at least 0"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path, more: tuple[str, ...], fault: str) -> None:
    drives = make_drives(tmp_path / "drives", count=1)
    code, _, err = run("convert", drives, "-o", tmp_path / "sets", *more)
    assert code == 2
    assert fault in err
    assert not (tmp_path / "sets").exists()
