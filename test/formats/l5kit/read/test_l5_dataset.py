"""Datasets: opening, scenes, intervals, the summary; and the sequences of samples over them."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import drive_samples, random_dataset, sample, write
from places import contents

from edgefirst_ros.formats.l5kit import AgentDataset, AgentFilter, ChunkedDataset, EgoDataset
from edgefirst_ros.formats.l5kit.read.dataset import Rows
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound

CONFIG: dict[str, Any] = {
    "model_params": {"history_num_frames": 3, "future_num_frames": 4},
    "raster_params": {"map_type": "stub_debug", "raster_size": [30, 20], "filter_agents_threshold": 0.5},
}

counts = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def made(folder: str, frames: list[int], seed: int = 0, *, points: bool = True) -> ChunkedDataset:
    path = random_dataset(Path(folder) / "made.zarr", np.random.default_rng(seed), frames, points=points)
    return ChunkedDataset(path).open()


@settings(max_examples=12, deadline=None)
@given(frames=counts, seed=st.integers(0, 99))
def test_intervals_are_consecutive_and_cover_everything(frames: list[int], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = made(folder, frames, seed)
        pairs: list[tuple[Rows, str, Rows]] = [
            (dataset.scenes, "frame_index_interval", dataset.frames),
            (dataset.frames, "agent_index_interval", dataset.agents),
            (dataset.frames, "traffic_light_faces_index_interval", dataset.tl_faces),
        ]
        if dataset.point_spans is not None and dataset.points is not None:
            assert len(dataset.point_spans) == len(dataset.frames)
            pairs.append((dataset.point_spans, "point_index_interval", dataset.points))
        for owner, field, covered in pairs:
            starts, stops = owner[field].T
            assert starts[0] == 0
            np.testing.assert_array_equal(starts[1:], stops[:-1])
            assert (stops >= starts).all()
            assert stops[-1] == len(covered)


@settings(max_examples=12, deadline=None)
@given(frames=counts, seed=st.integers(0, 99))
def test_scene_in_memory_is_that_of_the_disk(frames: list[int], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = made(folder, frames, seed)
        ego = EgoDataset(CONFIG, dataset)
        for index in range(len(frames)):
            scene = dataset.get_scene_dataset(index)
            assert isinstance(scene.frames, np.ndarray)
            assert [len(scene.scenes), len(scene.frames)] == [1, frames[index]]
            assert scene.frames["agent_index_interval"][0, 0] == 0
            assert scene.frames["agent_index_interval"][-1, 1] == len(scene.agents)
            assert scene.frames["traffic_light_faces_index_interval"][-1, 1] == len(scene.tl_faces)
            assert scene.notes == dataset.notes[index : index + 1]
            inside = ego.get_scene_dataset(index)
            for mine, theirs in zip(inside, ego.get_scene_indices(index), strict=True):
                same(mine, ego[int(theirs)], but={"scene_index"})
        same(ego.get_scene_dataset(-1)[-1], ego[-1], but={"scene_index"})


def same(one: dict[str, Any], other: dict[str, Any], but: set[str]) -> None:
    assert one.keys() == other.keys()
    for key in one.keys() - but:
        np.testing.assert_array_equal(one[key], other[key])


@settings(max_examples=12, deadline=None)
@given(frames=counts, seed=st.integers(0, 99))
def test_matrices_undo_one_another(frames: list[int], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = made(folder, frames, seed)
        agents = AgentDataset(CONFIG, dataset, agents_mask=np.ones(len(dataset.agents), bool))
        for each in (*EgoDataset(CONFIG, dataset), *islice(agents, 9)):
            there, back = each["world_from_agent"], each["agent_from_world"]
            np.testing.assert_allclose(there @ back, np.eye(3), atol=1e-12)
            np.testing.assert_allclose(
                each["raster_from_world"] @ there, each["raster_from_agent"], atol=1e-9
            )
            np.testing.assert_allclose(there[:2, 2], each["centroid"])


def test_index_out_of_range(tmp_path: Path) -> None:
    dataset = made(str(tmp_path), [3, 2])
    ego = EgoDataset(CONFIG, dataset)
    assert len(ego) == 5
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="out of range"):
            ego[wrong]
    for wrong in (2, -3):
        with pytest.raises(IndexError):
            dataset.get_scene_dataset(wrong)
        with pytest.raises(IndexError):
            ego.get_scene_indices(wrong)
    assert ego.get_scene_indices(1).tolist() == [3, 4]
    assert ego.get_frame_indices(-1).tolist() == [4]


def test_scenes_do_not_see_one_another(tmp_path: Path) -> None:
    ego = EgoDataset(CONFIG, made(str(tmp_path), [3, 2]))
    assert [s["history_availabilities"].sum() for s in ego] == [1, 2, 3, 1, 2]
    assert [s["target_availabilities"].sum() for s in ego] == [2, 1, 0, 1, 0]
    assert [s["scene_index"] for s in ego] == [0, 0, 0, 1, 1]
    assert [s["frame_index"] for s in ego] == [0, 1, 2, 0, 1]


def test_only_chunks_that_are_needed_are_read(tmp_path: Path) -> None:
    dataset = made(str(tmp_path), [5, 5])
    ego = EgoDataset(CONFIG, dataset)
    before = dataset.cache.reads
    assert len([each for _ in range(3) for each in ego]) == 30
    # Frames alone: nobody draws agents or points.
    assert dataset.cache.reads - before == 1


def test_summary(tmp_path: Path) -> None:
    dataset = write(tmp_path, [sample(i) for i in range(20)])
    lines = str(dataset).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[1], lines[3])]
    assert dict(zip(*cells, strict=True)) == {
        "Num Scenes": "1",
        "Num Frames": "20",
        "Num Agents": "0",
        "Num TR lights": "0",
        "Total Time (hr)": "0.00",
        "Avg Frames per Scene": "20.00",
        "Avg Agents per Frame": "0.00",
        "Avg Scene Time (sec)": "2.00",
        "Avg Frame frequency": "10.00",
    }
    assert str(EgoDataset(CONFIG, dataset)) == str(dataset)
    assert "Num Scenes" in str(ChunkedDataset())


def test_not_a_dataset(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.zarr"):
        with pytest.raises(DatasetNotFound):
            ChunkedDataset(path).open()
    dataset = made(str(tmp_path), [2])
    assert dataset.path is not None
    shutil.rmtree(dataset.path / "agents")
    with pytest.raises(DatasetNotFound, match="agents"):
        ChunkedDataset(dataset.path).open()
    shutil.copytree(dataset.path / "frames", dataset.path / "agents")
    with pytest.raises(DatasetError, match="agents has no centroid"):
        ChunkedDataset(dataset.path).open()


def test_spans_of_points_must_be_spans(tmp_path: Path) -> None:
    drive = [each for each, _ in drive_samples(3, 1.0, lidar=True)]
    path = write(tmp_path, drive, points="both").path
    assert path is not None
    (metadata,) = path.glob("point_spans*zarray")
    metadata.write_text(metadata.read_text().replace("point_index_interval", "point_index_intervaX"))
    with pytest.raises(DatasetError, match="has no point_index_interval"):
        ChunkedDataset(path).open()


def test_an_interval_must_have_two_ends(tmp_path: Path) -> None:
    dataset = made(str(tmp_path), [2])
    assert dataset.path is not None
    metadata = dataset.path / "scenes" / ".zarray"
    content = json.loads(metadata.read_text())
    field = next(each for each in content["dtype"] if each[0] == "frame_index_interval")
    field[1:] = ["|V16"]
    metadata.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match="scenes"):
        ChunkedDataset(dataset.path).open()


def test_datasets_from_elsewhere_lack_lights_points_and_notes(tmp_path: Path) -> None:
    path = made(str(tmp_path), [2, 1]).path
    assert path is not None
    shutil.rmtree(path / "traffic_light_faces")
    for side in path.glob("point*"):
        side.unlink()
    (path / ".zattrs").write_text('{"format_version": 2}')
    dataset = ChunkedDataset(path).open()
    assert len(dataset.tl_faces) == 0
    assert dataset.points is None
    assert [note.name for note in dataset.notes] == [None, None]
    assert len(EgoDataset({"raster_params": {"map_type": "lidar"}}, dataset)[2]["image"]) == 5
    (path / ".zattrs").unlink()
    assert ChunkedDataset(path).open().attributes == {}
    (path / ".zattrs").write_text("{")
    with pytest.raises(DatasetError, match=r"\.zattrs"):
        ChunkedDataset(path).open()


def test_samples_can_be_sent_to_another_process(tmp_path: Path) -> None:
    ego = EgoDataset(CONFIG, made(str(tmp_path), [3]))
    same(pickle.loads(pickle.dumps(ego))[1], ego[1], but=set())


@pytest.mark.parametrize(
    "config",
    [
        {"raster_params": {"map_type": "py_satellite"}},
        {"raster_params": {"raster_size": [0, 3]}},
        {"model_params": {"history_num_frames": -1}},
    ],
)
def test_configuration_that_cannot_be_meant(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"raster_params|model_params"):
        EgoDataset(config, ChunkedDataset())


# ---------------------------------------------------------------- agents


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> ChunkedDataset:
    return write(tmp_path_factory.mktemp("drive"), [each for each, _ in drive_samples(0, 6.0)])


def test_mask_given_chooses_the_samples(drive: ChunkedDataset) -> None:
    mask = np.zeros(len(drive.agents), bool)
    mask[::7] = True
    agents = AgentDataset(CONFIG, drive, agents_mask=mask)
    assert len(agents) == mask.sum()
    tracks, times = drive.agents["track_id"][mask], drive.frames["timestamp"]
    owner = np.repeat(np.arange(len(times)), np.diff(drive.frames["agent_index_interval"], axis=1)[:, 0])
    for index, each in enumerate(agents):
        assert each["track_id"] == tracks[index]
        assert each["timestamp"] == times[owner[mask][index]]
        assert each["history_availabilities"][0] == 1
    for frame in (0, 30, 59):
        indices = agents.get_frame_indices(frame)
        assert [agents[int(i)]["timestamp"] for i in indices] == [times[frame]] * len(indices)
        assert len(indices) == mask[owner == frame].sum()
    with pytest.raises(ValueError, match="agents_mask of shape"):
        AgentDataset(CONFIG, drive, agents_mask=mask[1:])
    with pytest.raises(IndexError):
        agents[len(agents)]


def test_computed_mask_is_kept_beside_the_arrays(drive: ChunkedDataset, tmp_path: Path) -> None:
    assert drive.path is not None
    path = shutil.copytree(drive.path, tmp_path / "copy.zarr")
    before = contents(path)
    dataset = ChunkedDataset(path).open()
    first = AgentDataset(CONFIG, dataset)
    reads = dataset.cache.reads
    (kept,) = path.glob("agents_mask*")
    again = AgentDataset(CONFIG, dataset)
    # The mask itself is not computed again: scenes and frames alone are looked at.
    assert dataset.cache.reads == reads
    np.testing.assert_array_equal(first.agents_mask, again.agents_mask)
    assert 0 < len(first) < len(dataset.agents)
    assert {k: v for k, v in contents(path).items() if not k.startswith("agents_mask")} == before
    # Another filter has a mask of its own, and a damaged one is computed anew.
    far = AgentDataset(CONFIG, dataset, agent_filter=AgentFilter(distance_m=15.0))
    assert len([*path.glob("agents_mask*")]) == 2
    assert len(far) < len(first)
    kept.write_bytes(b"nonsense")
    np.testing.assert_array_equal(AgentDataset(CONFIG, dataset).agents_mask, first.agents_mask)
    assert len(AgentDataset(CONFIG, dataset, min_frame_history=0, min_frame_future=0)) > len(first)


def test_scene_of_agents(drive: ChunkedDataset, tmp_path: Path) -> None:
    dataset = made(str(tmp_path), [4, 5, 3])
    mask = np.random.default_rng(0).random(len(dataset.agents)) < 0.6
    # Random tracks come twice in a frame; the first is who is asked for.
    frames = np.repeat(np.arange(12), np.diff(dataset.frames["agent_index_interval"], axis=1)[:, 0])
    _, first = np.unique(np.stack([frames, dataset.agents["track_id"]]), axis=1, return_index=True)
    mask &= np.isin(np.arange(len(mask)), first)
    agents = AgentDataset(CONFIG, dataset, agents_mask=mask)
    seen = 0
    for index in range(3):
        scene, indices = agents.get_scene_dataset(index), agents.get_scene_indices(index)
        assert len(scene) == len(indices)
        for mine, theirs in zip(scene, indices, strict=True):
            same(mine, agents[int(theirs)], but={"scene_index"})
        seen += len(scene)
    assert seen == len(agents) == mask.sum()
