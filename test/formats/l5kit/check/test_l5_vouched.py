"""What was changed in a dataset after it was written is an error, however sound it is by itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from l5_samples import drive_samples, write
from test_l5_check import Change, attribute, made, put, remove, row, said

from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST
from edgefirst_ros.formats.l5kit import AgentDataset, AgentFilter, ChunkedDataset
from edgefirst_ros.formats.l5kit.check import check
from edgefirst_ros.formats.l5kit.read.raster import ReaderConfig

CONFIG = ReaderConfig(history_num_frames=2, future_num_frames=2)
SIZE, CONTENT = "of another size than it says", "of another CRC-32 than it says"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "ds.zarr")


@pytest.fixture
def dataset(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "ds.zarr"))


def swapped(dataset: Path) -> None:
    for one, two in (("points.0", "point_spans.0"), ("scenes/0", "frames/0")):
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
        (row("points", 2, "position_cm", (1, 2, 3)), ": points.0; restore"),
        (remove("agents/0"), "1 file is missing that it lists: agents/0; "),
        (remove("points.0"), "1 file is missing that it lists: points.0; "),
        (remove("traffic_light_faces"), "2 files are missing that it lists: traffic_light_faces/.zarray, tr"),
        (remove(".zgroup"), "1 file is missing that it lists: .zgroup; "),
        (put("agents/1", b"x"), "1 file is there and not in it: agents/1; "),
        (put("more", b"x"), "1 file is there and not in it: more; "),
        (put(".zmetadata", b"{}"), "1 file is there and not in it: .zmetadata; "),
        (swapped, "4 files are of another size than it says: frames/0, point_spans.0, points.0, scenes/0; "),
        (moved("agents/0", "agents/00"), "1 file is missing that it lists: agents/0; "),
        (linked, "1 file is of another size than it says: agents/0; "),
        (attribute("scene_names", ["one", "two"]), ": .zattrs; "),
        (put(".zgroup", b'{"zarr_format": 2}'), f"1 file is {SIZE}: .zgroup; "),
        (put("points.zarray", b"{}"), f"1 file is {SIZE}: points.zarray; "),
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


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    path = write(tmp_path, [each for each, _ in drive_samples(3, 3.0)], "drive").path
    return path or tmp_path


def test_masks_that_the_reader_keeps_are_those_that_the_agents_give(drive: Path) -> None:
    for choice in (None, AgentFilter(0.5), AgentFilter(distance_m=15), AgentFilter(probability=1e-5)):
        AgentDataset(CONFIG, ChunkedDataset(drive).open(), agent_filter=choice)
    masks = sorted(drive.glob("agents_mask*"))
    assert len(masks) == 3
    assert all(np.load(mask).any() for mask in masks)
    assert check(drive).findings == ()
    (drive / ".manifest").unlink()
    assert check(drive).ok
    for mask in masks:
        kept, counts = mask.read_bytes(), np.load(mask)
        for forged in (np.zeros_like(counts), counts + 1, counts[1:], counts.astype(np.int32)):
            np.save(mask, forged)
            found = check(drive)
            assert not found.ok
            assert f"error {mask.name}: holds other counts than the agents give; delete it" in said(found)
        for junk in (b"", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 70_000, kept[:-1], kept + b"x", bytes(300)):
            mask.write_bytes(junk)
            assert not check(drive).ok
        mask.unlink()
        os.mkfifo(mask)
        assert f"error {mask.name}: is a FIFO" in said(check(drive)).replace("[Errno 22] ", "")
        mask.unlink()
        mask.write_bytes(kept)


def test_a_pipe_in_place_of_a_mask_does_not_hang_the_reader(drive: Path) -> None:
    expected = AgentDataset(CONFIG, ChunkedDataset(drive).open()).agents_mask
    (mask,) = drive.glob("agents_mask*")
    mask.unlink()
    os.mkfifo(mask)
    np.testing.assert_array_equal(AgentDataset(CONFIG, ChunkedDataset(drive).open()).agents_mask, expected)


@pytest.mark.parametrize(
    "name",
    [
        "agents_mask.0123456789abcdef.npy",
        "agents_mask.0.5_50.0_30.0_1.1.0123456789abcdef.npy",
        "agents_mask.0.5_50.0_30.0.0123456789abcdef.npy",
        "agents_mask.a_b_c_d.0123456789abcdef.npy",
        "agents_mask/0.5/.zarray",
        "agents_mask",
    ],
)
def test_masks_of_other_readers_are_not_vouched_for(dataset: Path, name: str) -> None:
    (dataset / name).parent.mkdir(exist_ok=True, parents=True)
    (dataset / name).write_bytes(b"{}")
    found = check(dataset)
    assert not found.ok
    assert "is kept by another reader, and not checked; delete it" in said(found) or name == "agents_mask"
    (dataset / ".manifest").unlink()
    assert check(dataset).ok


def test_many_masks_are_not_gone_through(dataset: Path) -> None:
    for number in range(100):
        (dataset / f"agents_mask.0.5_{number}.0_30.0_1.1.0123456789abcdef.npy").touch()
    assert "is one of more than 8, and not checked; delete it" in said(check(dataset))
