"""What check says of sound datasets, and of ones that were broken on purpose."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from l5_samples import START_NS, STEP_NS, agent, drive_samples, write

from edgefirst_ros.formats.format import Check
from edgefirst_ros.formats.l5kit.check import check
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset, L5KitScenes
from edgefirst_ros.formats.l5kit.read.samples import AgentDataset, EgoDataset
from edgefirst_ros.formats.l5kit.store.chunks import Files, OwnFiles
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import FACE, FRAME, SPECS, SceneNote
from edgefirst_ros.formats.zarr2 import ArraySpec
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound

FRAMES = 3
Change = Callable[[Path], None]


def made(path: Path) -> Path:
    """Two scenes of three frames; each frame has two agents and a light."""
    growing = GrowingDataset(path)
    for scene in range(2):
        start = START_NS + scene * 60 * STEP_NS
        growing.begin_scene("host", start, SceneNote(f"scene-{scene}"))
        for frame in range(FRAMES):
            at = scene * FRAMES + frame
            row = np.zeros(1, FRAME)
            row["timestamp"] = start + frame * STEP_NS
            row["ego_rotation"] = np.eye(3)
            row["agent_index_interval"] = 2 * at, 2 * at + 2
            row["traffic_light_faces_index_interval"] = at, at + 1
            face = np.zeros(1, FACE)
            face["traffic_light_face_status"][0, 2] = 1
            for track in (7, 8):
                growing.append("agents", agent(track_id=track))
            growing.append("traffic_light_faces", face)
            growing.append("frames", row)
        growing.end_scene(start + (FRAMES - 1) * STEP_NS)
    growing.finish()
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "ds.zarr")


@pytest.fixture
def dataset(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "ds.zarr"))


def said(found: Check) -> str:
    return "\n".join(f"{f.level} {f.where}: {f.what}" for f in found.findings)


def test_what_is_written_is_sound(dataset: Path) -> None:
    found = check(dataset)
    assert found.findings == ()
    assert found.ok
    rows = "2 scenes, 6 frames, 12 agents, 6 traffic_light_faces"
    assert found.text == f"OK: l5kit/ds, 0 errors, 0 warnings, {rows}"


def test_a_drive_is_sound(tmp_path: Path) -> None:
    samples = drive_samples(3, 2.0, solid=True)
    found = check(write(tmp_path, (sample for sample, _ in samples)).path or tmp_path)
    assert found.findings == ()
    assert found.counts["frames"] == 20
    assert found.counts["agents"] > 0


def row(array: str, number: int, field: str, value: Any) -> Change:  # noqa: ANN401  of any field
    """Another value in one row."""

    def apply(dataset: Path) -> None:
        files = OwnFiles(Files(dataset, array))
        rows = files.read_chunk(0).copy()
        rows[field][number] = value
        files.write_chunk(0, rows)

    return apply


def length(array: str, rows: int) -> Change:
    return lambda dataset: OwnFiles(Files(dataset, array)).write_metadata(rows)


def remove(name: str) -> Change:
    def apply(dataset: Path) -> None:
        path = dataset / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return apply


def put(name: str, data: bytes) -> Change:
    return lambda dataset: (dataset / name).write_bytes(data) and None


def attribute(key: str, value: object) -> Change:
    def apply(dataset: Path) -> None:
        values = json.loads((dataset / ".zattrs").read_text())
        (dataset / ".zattrs").write_text(json.dumps({**values, key: value}))

    return apply


def wide_yaw(dataset: Path) -> None:
    """Agents whose yaw is of double precision."""
    dtype = SPECS["agents"].dtype
    fields = [(n, np.dtype("<f8") if n == "yaw" else dtype[n]) for n in dtype.names or ()]
    spec = ArraySpec(np.dtype(fields), (20_000,), SPECS["agents"].compressor)
    rows = OwnFiles(Files(dataset, "agents")).read_chunk(0)[:12].astype(spec.dtype)
    (dataset / "agents" / ".zarray").write_bytes(spec.metadata((12,)))
    (dataset / "agents" / "0").write_bytes(spec.encode(rows))


def small_chunks(dataset: Path) -> None:
    spec = ArraySpec(SPECS["scenes"].dtype, (5,), SPECS["scenes"].compressor)
    rows = OwnFiles(Files(dataset, "scenes")).read_chunk(0)[:2]
    (dataset / "scenes" / ".zarray").write_bytes(spec.metadata((2,)))
    (dataset / "scenes" / "0").write_bytes(spec.encode(rows))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove(".zgroup"), "error .zgroup: is missing"),
        (put(".zattrs", b"{"), "error .zattrs: is not JSON"),
        (remove(".zattrs"), "error .zattrs: format_version is not 2: None"),
        (attribute("format_version", 1), "format_version is not 2: 1"),
        (attribute("labels", ["CAR"]), "labels are not the 17 of the format"),
        (attribute("scene_names", ["one"]), "scene_names does not name every scene: 2 scenes"),
        (put(".journal", b""), "error .journal: a run was killed at its very end"),
        (put("frames/.frames.0.rows", b""), "unfinished rows"),
        (remove("agents"), "error agents: array cannot be opened"),
        (put("agents/.zarray", b"{}"), "error agents: array cannot be opened"),
        (wide_yaw, "rows are not of the type of the format: yaw is float64, expected float32"),
        (small_chunks, "warning scenes: chunk length: 5, L5Kit's is 10000"),
        (remove("agents/0"), "error agents: chunks are missing, their rows read as zero: 1 of 1"),
        (put("frames/0", b"no chunk"), "error frames@0: chunk does not decompress"),
        (put("frames/1", b""), "warning frames@1: chunk beyond the array's last row"),
        (length("agents", 13), "agent_index_interval: intervals do not cover their array: up to 12 of 13"),
        (length("frames", 5), "frame_index_interval: intervals do not cover their array: up to 6 of 5"),
        (row("frames", 2, "agent_index_interval", (5, 6)), "frames.agent_index_interval@2: interval"),
        (row("frames", 0, "agent_index_interval", (2, 1)), "@0: interval does not follow the one before"),
        (row("scenes", 1, "frame_index_interval", (4, 6)), "scenes.frame_index_interval@1: interval"),
    ],
)  # fmt: skip
def test_damage_is_found(dataset: Path, damage: Change, message: str) -> None:
    damage(dataset)
    found = check(dataset)
    assert message in said(found), said(found)
    if "warning" not in message:
        assert not found.ok
        assert found.text.splitlines()[-1].startswith("FAIL: l5kit/ds")


def test_a_dataset_without_lights_is_one_of_the_first(dataset: Path) -> None:
    for name in (".manifest", "traffic_light_faces"):
        remove(name)(dataset)
    found = check(dataset)
    assert found.ok
    assert "note traffic_light_faces: no traffic lights" in said(found)


def test_an_unfinished_dataset_is_said_to_be(dataset: Path) -> None:
    dataset.rename(dataset.with_name("ds.zarr.part"))
    found = check(dataset)
    assert "ds.zarr.part: unfinished; edgefirst-ros recover can finish it" in said(found)
    assert not found.ok


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="no such dataset"):
        check(tmp_path / "x.zarr")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"shape": [1 << 50]}, "chunks, of which only 1 are there"),
        ({"shape": [1 << 40], "chunks": [1]}, "chunks, of which only 1 are there"),
        ({"shape": [1 << 70]}, "no array has the shape"),
        ({"shape": [-1]}, "no array has the shape"),
        ({"chunks": [0]}, "no array has the shape"),
        ({"chunks": [1 << 40]}, "chunks of "),
    ],
)
def test_sizes_that_the_files_do_not_hold_are_refused(
    dataset: Path, sizes: dict[str, object], message: str
) -> None:
    file = dataset / "frames" / ".zarray"
    file.write_text(json.dumps({**json.loads(file.read_text()), **sizes}))
    assert message in said(check(dataset))
    with pytest.raises(DatasetError, match=message):
        ChunkedDataset(dataset).open()


def test_attributes_of_any_other_shape_are_an_error(dataset: Path) -> None:
    (dataset / ".zattrs").write_text('{"labels": 3}')
    assert "content cannot be read: 'int' object is not iterable" in said(check(dataset))


@pytest.mark.parametrize("name", ["frames/0", "frames/.zarray", ".zattrs"])
def test_a_fifo_in_place_of_a_file_does_not_hang_it(dataset: Path, name: str) -> None:
    (dataset / name).unlink()
    os.mkfifo(dataset / name)
    assert "is a FIFO" in said(check(dataset))


@pytest.mark.parametrize("name", ["frames/0", "frames/.zarray", ".zattrs", "agents/0"])
def test_a_folder_in_place_of_a_file_is_an_error_of_its_own_for_every_reader(
    dataset: Path, tmp_path: Path, name: str
) -> None:
    (dataset / ".manifest").unlink()  # which would tell that it was changed
    (dataset / name).unlink()
    (dataset / name).mkdir()
    assert "Is a directory" in said(check(dataset))
    with pytest.raises(DatasetError, match=re.escape(f"{dataset / name}: ")):
        read_all(dataset)


def read_all(dataset: Path) -> None:
    opened = ChunkedDataset(dataset).open()
    for array in (opened.scenes, opened.frames, opened.agents):
        assert len(array[:]) == len(array)


def odd_intervals(dataset: Path, edges: list[int]) -> None:
    for name, field in (("frames", "agent_index_interval"), ("scenes", "frame_index_interval")):
        files = OwnFiles(Files(dataset, name))
        rows = files.read_chunk(0)[: json.loads((dataset / name / ".zarray").read_text())["shape"][0]].copy()
        rows[field] = edges
        files.write_chunk(0, rows)


@pytest.mark.parametrize("edges", [[-5, 1 << 60], [0, 1 << 40], [7, 3], [1 << 62, 1 << 62]])
def test_intervals_that_name_rows_which_are_not_there_are_errors(
    dataset: Path, tmp_path: Path, edges: list[int]
) -> None:
    odd_intervals(dataset, edges)
    (dataset / ".manifest").unlink()  # which would tell that it was changed
    assert not check(dataset).ok
    opened = ChunkedDataset(dataset).open()
    scenes = L5KitScenes(dataset)
    for read in (
        lambda: list(AgentDataset({}, opened)),
        lambda: list(EgoDataset({}, opened)),
        lambda: [scenes.scene(moment) for moment in scenes.moments()],
    ):
        with suppress(DatasetError):
            read()


def test_rows_that_hardly_anything_is_stored_of_are_refused(dataset: Path) -> None:
    files = OwnFiles(Files(dataset, "agents"))
    whole = files.spec.encode(np.repeat(files.read_chunk(0)[:1], files.chunk))
    for number in range(60):
        files.files.chunk(number).write_bytes(whole)
    files.write_metadata(60 * files.chunk)
    with pytest.raises(DatasetError, match="bytes of rows are in chunks of"):
        ChunkedDataset(dataset).open()
