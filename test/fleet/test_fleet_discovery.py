"""The drives of a fleet have the names of their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from drives import simulate
from fleets import make_drives

from edgefirst_ros.fleet.keys import discover
from edgefirst_ros.simulation import DriveOptions

SPLIT = DriveOptions(seconds=4, fps=5, width=160, height=96, lidar_points=100, cube_hz=0, splits=3)


def test_names_are_places_below_the_input(tmp_path: Path) -> None:
    make_drives(tmp_path / "week" / "monday", count=2)
    drives, _ = discover([str(tmp_path / "week")])
    assert [drive.name for drive in drives] == ["monday/drive00", "monday/drive01"]
    drives, _ = discover([str(tmp_path / "week" / "monday"), str(tmp_path / "week")])
    assert len(drives) == 2
    drives, _ = discover([str(tmp_path / "week" / "monday" / "drive01.mcap")])
    assert [drive.name for drive in drives] == ["drive01"]


def test_a_split_drive_is_one_and_named_by_what_its_files_share(tmp_path: Path) -> None:
    made = simulate(tmp_path / "week" / "bag", SPLIT)
    drives, _ = discover([str(tmp_path / "week")])
    assert len(drives) == 1
    assert [Path(file.uri) for file in drives[0].files] == list(made.files)
    assert drives[0].size == sum(path.stat().st_size for path in made.files)
    folder = made.files[0].parent
    assert drives[0].name == f"bag/{folder.name}", "the folder's name is not said twice"
    folder.rename(folder.with_name("other"))
    assert [drive.name for drive in discover([str(tmp_path / "week")])[0]] == [f"bag/other/{folder.name}"]


def test_files_of_the_device_that_follow_each_other_are_named_after_the_first(tmp_path: Path) -> None:
    made = simulate(tmp_path, replace(SPLIT, split_names="device", seconds=6))
    assert [drive.name for drive in discover([str(tmp_path)])[0]] == [made.files[0].stem]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    make_drives(tmp_path / "drives", count=1)
    (tmp_path / "drives" / "drive01.mcap.part").touch()
    _, notes = discover([str(tmp_path / "drives")])
    assert "1 unfinished (.part)" in notes[0]


def test_relative_and_absolute_paths_are_one_drive(tmp_path: Path, monkeypatch: object) -> None:
    make_drives(tmp_path / "drives", count=1)
    monkeypatch.chdir(tmp_path)  # type: ignore[attr-defined]
    assert discover(["drives"]) == discover([str(tmp_path / "drives")])
