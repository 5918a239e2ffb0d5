"""Which files of folders and buckets are recordings, and which belong to one drive."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from drives import simulate, simulated
from faulty import FaultyOptions

from edgefirst_ros.offline.drives import FOREIGN, HIDDEN, LINKED, UNFINISHED
from edgefirst_ros.offline.inputs import FoundDrives, find_drive_files

SMALL: dict[str, Any] = {
    "seconds": 4, "fps": 5, "width": 144, "height": 64, "lidar_points": 64, "cube_hz": 0, "imu_hz": 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rosbag2 folder, a split of the device, a single drive, and what does not belong to them."""
    root = tmp_path_factory.mktemp("week")
    simulate(root / "monday" / "bag", FaultyOptions(**SMALL, splits=12))
    simulate(root / "monday", FaultyOptions(**SMALL, splits=2, split_names="device"))
    shutil.copy(simulated(FaultyOptions(**SMALL)).mcap, root / "tuesday.mcap")
    (root / "monday" / "broken.mcap").write_bytes(b"garbage")
    (root / "monday" / "notes.txt").write_text("sunny")
    (root / "monday" / "late.mcap.part").touch()
    (root / ".trash").mkdir()
    (root / ".trash" / "old.mcap").touch()
    (root / ".hidden.mcap").touch()
    return root


def shown(found: FoundDrives) -> list[list[str]]:
    return [[part.path.name for part in drive.parts] for drive in found.drives]


def expected() -> list[list[str]]:
    bag = simulated(FaultyOptions(**SMALL, splits=12)).files
    split = simulated(FaultyOptions(**SMALL, splits=2, split_names="device")).files
    return [["tuesday.mcap"], ["broken.mcap"], [f.name for f in split], [f.name for f in bag]]


def test_folders_are_searched_with_all_below(week: Path) -> None:
    found = find_drive_files([week])
    assert shown(found) == expected()
    assert found.left_out == {HIDDEN: 2, UNFINISHED: 1, FOREIGN: 1}
    assert "1 unfinished (.part)" in found.note
    whole = [file for file in week.rglob("*.mcap") if "." not in file.stem and ".trash" not in file.parts]
    assert sum(drive.size for drive in found.drives) == sum(file.stat().st_size for file in whole)
    parts = [part for drive in found.drives for part in drive.parts]
    assert all(part.version == str(Path(str(part.path)).stat().st_mtime_ns) for part in parts)


def test_files_given_twice_are_one(week: Path) -> None:
    assert shown(find_drive_files([week / "tuesday.mcap", week])) == [["tuesday.mcap"], *expected()[1:]]


def test_links_to_folders_are_not_followed(week: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    shutil.copy(week / "tuesday.mcap", tmp_path)
    found = find_drive_files([tmp_path])
    assert shown(found) == [["tuesday.mcap"]]
    assert found.left_out == {LINKED: 1}
