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
from l5_samples import drive_samples, random_dataset, write
from places import contents

from edgefirst_ros.formats.l5kit import AgentDataset, AgentFilter, ChunkedDataset, EgoDataset
from edgefirst_ros.formats.l5kit.read.dataset import Rows
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound

CONFIG: dict[str, Any] = {
    "model_params": {"history_num_frames": 3, "future_num_frames": 4},
    "raster_params": {"map_type": "py_satellite", "filter_agents_threshold": 0.5},
}

counts = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def made(folder: str, frames: list[int], seed: int = 0) -> ChunkedDataset:
    path = random_dataset(Path(folder) / "made.zarr", np.random.default_rng(seed), frames)
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
        for owner, field, covered in pairs:
            starts, stops = owner[field].T
            assert starts[0] == 0
            np.testing.assert_array_equal(starts[1:], stops[:-1])
            assert (stops >= starts).all()
            assert stops[-1] == len(covered)


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
            np.testing.assert_allclose(there[:2, 2], each["centroid"])


def test_index_out_of_range(tmp_path: Path) -> None:
    dataset = made(str(tmp_path), [3, 2])
    ego = EgoDataset(CONFIG, dataset)
    assert len(ego) == 5
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="out of range"):
            ego[wrong]


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


def test_datasets_from_elsewhere_lack_lights_and_notes(tmp_path: Path) -> None:
    path = made(str(tmp_path), [2, 1]).path
    assert path is not None
    shutil.rmtree(path / "traffic_light_faces")
    (path / ".zattrs").write_text('{"format_version": 2}')
    dataset = ChunkedDataset(path).open()
    assert len(dataset.tl_faces) == 0
    assert [note.name for note in dataset.notes] == [None, None]
    assert len(EgoDataset({}, dataset)) == 3
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
        {"raster_params": {"filter_agents_threshold": "high"}},
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
    with pytest.raises(ValueError, match="agents_mask of shape"):
        AgentDataset(CONFIG, drive, agents_mask=mask[1:])
    with pytest.raises(IndexError):
        agents[len(agents)]


def test_agents_that_are_seen_without_a_break_have_samples(drive: ChunkedDataset) -> None:
    assert drive.path is not None
    before = contents(drive.path)
    first = AgentDataset(CONFIG, drive)
    assert 0 < len(first) < len(drive.agents)
    assert len(AgentDataset(CONFIG, drive, agent_filter=AgentFilter(distance_m=15.0))) < len(first)
    assert len(AgentDataset(CONFIG, drive, min_frame_history=0, min_frame_future=0)) > len(first)
    assert contents(drive.path) == before
