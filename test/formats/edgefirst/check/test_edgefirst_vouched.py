"""What was changed in a dataset after it was written is an error, however sound it is by itself."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from edgefirst_samples import SEQUENCE, full_sample
from places import contents

from edgefirst_ros.formats.datasets import find
from edgefirst_ros.formats.edgefirst.check.dataset import check
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.formats.format import Check

NAME = SEQUENCE.name
FRAMES = 6
CONTAINERS = ("zip", "folder")
Files = dict[str, bytes]
MISSING, ADDED = "missing that it lists", "there and not in it"
SIZE, CONTENT = "of another size than it says", "of another CRC-32 than it says"


def write(root: Path, container: str, frames: int = FRAMES) -> Path:
    options = EdgeFirstOptions(container=container, lidar_image_size=(8, 32))  # type: ignore[arg-type]
    writer = EdgeFirstWriter(root, "ds", options)
    writer.begin(SEQUENCE)
    for frame in range(frames):
        writer.write(writer.prepare(full_sample(frame)))
    writer.close()
    return root / "ds"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {container: write(tmp_path_factory.mktemp("sound"), container) for container in CONTAINERS}


def said(found: Check) -> str:
    return "\n".join(f"{f.level} {f.where}: {f.what}" for f in found.findings)


def file(kind: str, frame: int = 1) -> str:
    return f"{NAME}/{NAME}_{frame:03d}.{kind}"


def all_of(kind: str) -> Callable[[Files], Files]:
    return lambda files: {name: data for name, data in files.items() if not name.endswith(kind)}


def exchanged(kind: str) -> Callable[[Files], Files]:
    one, two = file(kind, 1), file(kind, 2)
    return lambda files: files | {one: files[two], two: files[one]}


def flipped(kind: str) -> Callable[[Files], Files]:
    """The last bit of a value: nothing but a checksum can tell."""
    return lambda files: files | {file(kind): files[file(kind)][:-4] + b"\1" + files[file(kind)][-3:]}


def edited(dataset: Path, change: Callable[[Files], Files]) -> None:
    """The files of the container changed, the container a sound one."""
    archive, plain = dataset / "ds.zip", dataset / "ds"
    if plain.is_dir():
        before = contents(plain)
        shutil.rmtree(plain)
        for name, data in change(before).items():
            (plain / name).parent.mkdir(parents=True, exist_ok=True)
            (plain / name).write_bytes(data)
        return
    with zipfile.ZipFile(archive) as old:
        before = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(archive, "w") as new:
        for name, data in change(before).items():
            new.writestr(name, data)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (all_of("lidar.pcd"), f"{FRAMES} files are {MISSING}: {file('lidar.pcd', 0)}, "),
        (all_of("radar.png"), f"{FRAMES} files are {MISSING}: {file('radar.png', 0)}, "),
        (all_of("_003.lidar.pcd"), f"1 file is {MISSING}: {file('lidar.pcd', 3)}; "),
        (all_of(""), f"files are {MISSING}: "),
        (lambda files: files | {file("camera.jpeg", 6): files[file("camera.jpeg")]}, f"1 file is {ADDED}: "),
        (exchanged("lidar.pcd"), f"2 files are {CONTENT}: {file('lidar.pcd', 1)}, {file('lidar.pcd', 2)}; "),
        (flipped("lidar.pcd"), f"1 file is {CONTENT}: {file('lidar.pcd')}; "),
        (flipped("radar.pcd"), f"1 file is {CONTENT}: {file('radar.pcd')}; "),
        (lambda files: files | {file("radar.pcd"): files[file("radar.pcd")] + b"x"}, f"1 file is {SIZE}: "),
    ],
)  # fmt: skip
def test_files_are_those_that_were_written(
    sound: dict[str, Path], tmp_path: Path, container: str, change: Callable[[Files], Files], message: str
) -> None:
    dataset = shutil.copytree(sound[container], tmp_path / "ds")
    edited(dataset, lambda files: files)
    assert check(dataset).findings == (), "how they are packed is no matter"
    edited(dataset, change)
    found = check(dataset)
    assert not found.ok
    assert message in "".join(line for line in said(found).splitlines() if "error ds.manifest: " in line)


def moved(frame: pl.DataFrame) -> pl.DataFrame:
    boxes = [None if box is None else [box[0] * 0.9, *box[1:]] for box in frame["box2d"].to_list()]
    return frame.with_columns(pl.Series("box2d", boxes, frame.schema["box2d"]))


TABLES: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "deleted": lambda frame: pl.concat([frame[:1], frame[2:]]),
    "doubled": lambda frame: pl.concat([frame[:2], frame[1:]]),
    "relabelled": lambda frame: frame.with_columns(frame["label"].reverse()),
    "moved": moved,
    "regrouped": lambda frame: frame.with_columns(frame["group"].reverse()),
    "empty": lambda frame: frame[:0],
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("change", TABLES)
def test_the_table_is_the_one_that_was_written(
    sound: dict[str, Path], tmp_path: Path, container: str, change: str
) -> None:
    dataset = shutil.copytree(sound[container], tmp_path / "ds")
    path = dataset / "ds.arrow"
    metadata = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).schema.metadata
    table = TABLES[change](pl.read_ipc(path.read_bytes())).to_arrow().replace_schema_metadata(metadata)
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
    found = check(dataset)
    assert not found.ok
    assert "error ds.manifest: 1 file is of another " in said(found)
    assert "says: .arrow; restore" in said(found)


@pytest.mark.parametrize("name", ["ds.arrow", "ds.zip"])
def test_what_is_gone_or_a_link_is_missed(sound: dict[str, Path], tmp_path: Path, name: str) -> None:
    dataset = shutil.copytree(sound["zip"], tmp_path / "ds")
    (dataset / name).rename(tmp_path / name)
    assert f"{MISSING}: " in said(check(dataset))
    if name == "ds.arrow":
        (dataset / name).symlink_to(tmp_path / name)
        assert "1 file is not readable: .arrow; " in said(check(dataset))
    (tmp_path / name).unlink()
    assert not check(dataset).ok


def test_a_dataset_of_which_only_the_manifest_is_left_is_found(
    sound: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "ds").mkdir()
    shutil.copy(sound["zip"] / "ds.manifest", tmp_path / "ds")
    for place in (tmp_path, tmp_path / "ds" / "ds.manifest"):
        assert [(each.name, path) for each, path in find(place)] == [("edgefirst", tmp_path / "ds")]
    text = said(check(tmp_path / "ds"))
    assert "no sensor files" in text
    assert f"{7 * FRAMES + 2} files are {MISSING}" in text


def test_a_dataset_may_be_renamed_and_unpacked(sound: dict[str, Path], tmp_path: Path) -> None:
    dataset = Path(shutil.copytree(sound["zip"], tmp_path / "other"))
    for path in dataset.iterdir():
        path.rename(path.with_name(path.name.replace("ds", "other")))
    assert check(dataset).findings == ()
    with zipfile.ZipFile(dataset / "other.zip") as archive:
        archive.extractall(dataset / "other")
    (dataset / "other.zip").unlink()
    assert check(dataset).findings == ()


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("what", ["cut", "edited", "of another", "link", "pipe", "folder"])
def test_the_manifest_is_the_one_that_was_written(
    sound: dict[str, Path], tmp_path: Path, container: str, what: str
) -> None:
    dataset = Path(shutil.copytree(sound[container], tmp_path / "ds"))
    path = dataset / "ds.manifest"
    data = path.read_bytes()
    path.unlink()
    if what == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif what == "edited":
        path.write_bytes(data.replace(b"_001.lidar.pcd", b"_009.lidar.pcd"))
    elif what == "of another":
        shutil.copy(write(tmp_path / "other", container, 3) / "ds.manifest", path)
    elif what == "link":
        (tmp_path / "real").write_bytes(data)
        path.symlink_to(tmp_path / "real")
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    found = check(dataset)
    assert not found.ok
    assert "error ds.manifest: " in said(found)
    assert "delete ds.manifest" in said(found)
