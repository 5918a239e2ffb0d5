"""What was changed in a dataset after it was written is an error, however sound it is by itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from l5_samples import drive_samples, write
from test_l5_check import Change, attribute, made, put, remove, row, said

from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST
from edgefirst_ros.formats.l5kit.check import check

SIZE, CONTENT = "of another size than it says", "of another CRC-32 than it says"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "ds.zarr")


@pytest.fixture
def dataset(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "ds.zarr"))


def swapped(dataset: Path) -> None:
    for one, two in (("agents/0", "traffic_light_faces/0"), ("scenes/0", "frames/0")):
        data = (dataset / one).read_bytes(), (dataset / two).read_bytes()
        (dataset / one).write_bytes(data[1])
        (dataset / two).write_bytes(data[0])


def moved(name: str, to: str) -> Change:
    return lambda dataset: (dataset / name).rename(dataset / to) and None


def linked(dataset: Path) -> None:
    (dataset / "agents" / "0").rename(dataset.parent / "elsewhere")
    (dataset / "agents" / "0").symlink_to(dataset.parent / "elsewhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (row("agents", 9, "centroid", (100.0, 0.0)), ": agents/0; restore"),
        (row("agents", 9, "track_id", 99), ": agents/0; restore"),
        (remove("agents/0"), "1 file is missing that it lists: agents/0; "),
        (remove("traffic_light_faces"), "2 files are missing that it lists: traffic_light_faces/.zarray, tr"),
        (remove(".zgroup"), "1 file is missing that it lists: .zgroup; "),
        (put("agents/1", b"x"), "1 file is there and not in it: agents/1; "),
        (put("more", b"x"), "1 file is there and not in it: more; "),
        (put(".zmetadata", b"{}"), "1 file is there and not in it: .zmetadata; "),
        (swapped, "4 files are of another size than it says: agents/0, frames/0, scenes/0, "),
        (moved("agents/0", "agents/00"), "1 file is missing that it lists: agents/0; "),
        (linked, "1 file is of another size than it says: agents/0; "),
        (attribute("scene_names", ["one", "two"]), ": .zattrs; "),
        (put(".zgroup", b'{"zarr_format": 2}'), f"1 file is {SIZE}: .zgroup; "),
        (put(".manifest", b""), "has no end: it was cut short"),
        (put(".manifest", b"edgefirst_ros manifest 1 l5kit\nend 0 00000000\n"), "its own CRC-32 is wrong"),
    ],
)  # fmt: skip
def test_files_are_those_that_were_written(dataset: Path, change: Change, message: str) -> None:
    assert check(dataset).findings == ()
    change(dataset)
    found = check(dataset)
    assert not found.ok
    assert message in "".join(line for line in said(found).splitlines() if "error .manifest: " in line)


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "of another"])
def test_the_manifest_is_the_one_that_was_written(dataset: Path, tmp_path: Path, what: str) -> None:
    path = dataset / ".manifest"
    path.rename(tmp_path / "real")
    if what == "link":
        path.symlink_to(tmp_path / "real")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        drive = write(tmp_path, [each for each, _ in drive_samples(0, 1.0)], "other").path
        shutil.copy((drive or tmp_path) / ".manifest", path)
    found = check(dataset)
    assert not found.ok
    assert "error .manifest: " in said(found)


def test_a_dataset_without_a_manifest_is_said_to_have_none(dataset: Path) -> None:
    (dataset / ".manifest").unlink()
    found = check(dataset)
    assert found.ok
    assert said(found) == f"note ds.zarr: {NO_MANIFEST}"


def test_a_dataset_may_be_renamed(dataset: Path) -> None:
    assert check(dataset.rename(dataset.with_name("train.zarr"))).findings == ()


def test_masks_of_l5kit_s_own_reader_are_not_looked_at(dataset: Path) -> None:
    (dataset / "agents_mask" / "0.5").mkdir(parents=True)
    (dataset / "agents_mask" / "0.5" / ".zarray").write_bytes(b"{}")
    assert check(dataset).ok
    assert said(check(dataset)) == "note agents_mask: L5Kit's reader made it, so it is not looked at"
