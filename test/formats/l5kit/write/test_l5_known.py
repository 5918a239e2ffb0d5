"""A scene of three frames and two agents whose every number was worked out on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from l5_samples import ORIGIN, START_NS, STEP_NS, agent

from edgefirst_ros.formats.l5kit import AgentDataset, ChunkedDataset, EgoDataset
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import FRAME, SceneNote

QUARTER = np.pi / 2
LEFT = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
"""A quarter turn to the left: a vector (x, y) of the world is (y, -x) for who is turned so."""

EGO = [((0.0, 0.0), np.eye(3)), ((10.0, 0.0), LEFT), ((10.0, 5.0), LEFT)]
A = [((3.0, 4.0), 0.25), ((4.0, 4.0), QUARTER), ((4.0, 6.0), np.pi)]
B = [None, ((10.0, 10.0), 0.0), None]

CONFIG: dict[str, Any] = {
    "model_params": {"history_num_frames": 2, "future_num_frames": 2, "step_time": 0.1},
    "train_params": {"max_num_steps": 5},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> ChunkedDataset:
    path = tmp_path_factory.mktemp("known") / "known.zarr"
    growing = GrowingDataset(path)
    growing.begin_scene("host", START_NS, SceneNote("known", ORIGIN))
    for number, (place, rotation) in enumerate(EGO):
        start = growing.length("agents")
        growing.append(
            "agents", agent(centroid=A[number][0], yaw=A[number][1], track_id=7, extent=(4.2, 2.2, 1.5))
        )
        if (b := B[number]) is not None:
            growing.append("agents", agent(centroid=b[0], yaw=b[1], track_id=9, extent=(1.25, 0.5, 2.0)))
        frame = np.zeros(1, FRAME)
        frame["timestamp"] = START_NS + number * STEP_NS
        frame["agent_index_interval"] = start, growing.length("agents")
        frame["ego_translation"], frame["ego_rotation"] = (*place, 1.0), rotation
        growing.append("frames", frame)
    growing.end_scene(START_NS + 2 * STEP_NS)
    growing.finish()
    return ChunkedDataset(path).open()


def check(sample: dict[str, Any], kind: str, positions: Any, yaws: Any, there: Any) -> None:  # noqa: ANN401
    np.testing.assert_allclose(sample[f"{kind}_positions"], positions, atol=1e-6)
    np.testing.assert_allclose(sample[f"{kind}_yaws"], np.array(yaws)[:, None], atol=1e-6)
    assert sample[f"{kind}_availabilities"].tolist() == there
    for name, shape in (("positions", 2), ("yaws", 1)):
        value = sample[f"{kind}_{name}"]
        assert (value.dtype, value.shape) == (np.float32, (len(there), shape))


def test_ego_in_the_middle(dataset: ChunkedDataset) -> None:
    sample = EgoDataset(CONFIG, dataset)[1]
    # Before: at the world's origin, 10 m to the west of where it is, which is 10 m to its left.
    check(sample, "history", [[0, 0], [0, 10], [0, 0]], [0, -QUARTER, 0], [1, 1, 0])
    check(sample, "target", [[5, 0], [0, 0]], [0, 0], [1, 0])
    np.testing.assert_allclose(sample["world_from_agent"], [[0, -1, 10], [1, 0, 0], [0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(sample["agent_from_world"], [[0, 1, 0], [-1, 0, 10], [0, 0, 1]], atol=1e-12)
    assert sample["track_id"] == -1
    assert sample["timestamp"] == START_NS + STEP_NS
    assert sample["centroid"].tolist() == [10.0, 0.0]
    assert sample["yaw"] == pytest.approx(QUARTER)
    np.testing.assert_allclose(sample["extent"], [4.87, 1.85, 1.8], rtol=1e-6)
    assert (sample["scene_index"], sample["frame_index"]) == (0, 1)


def test_ego_at_the_ends(dataset: ChunkedDataset) -> None:
    ego = EgoDataset(CONFIG, dataset)
    check(ego[0], "history", [[0, 0]] * 3, [0, 0, 0], [1, 0, 0])
    check(ego[0], "target", [[10, 0], [10, 5]], [QUARTER, QUARTER], [1, 1])
    check(ego[-1], "history", [[0, 0], [-5, 0], [-5, 10]], [0, 0, -QUARTER], [1, 1, 1])
    check(ego[-1], "target", [[0, 0], [0, 0]], [0, 0], [0, 0])


def test_velocities_are_differences_of_positions(dataset: ChunkedDataset) -> None:
    """Over a tenth of a second; where a position is not known it counts as 0, as L5Kit has it."""
    ego = EgoDataset(CONFIG, dataset)
    start, middle, end = ego[0], ego[1], ego[2]
    np.testing.assert_allclose(start["target_velocities"], [[100.0, 0.0], [0.0, 50.0]], atol=1e-4)
    # A tenth of a second ago it was 10 m to the left, so it came from there; beyond that nothing is known.
    np.testing.assert_allclose(middle["history_velocities"], [[0.0, -100.0], [0.0, 100.0]], atol=1e-4)
    np.testing.assert_allclose(middle["target_velocities"], [[50.0, 0.0], [-50.0, 0.0]], atol=1e-4)
    np.testing.assert_allclose(end["history_velocities"], [[50.0, 0.0], [0.0, -100.0]], atol=1e-4)
    speeds = [float(each["curr_speed"]) for each in (start, middle, end)]
    np.testing.assert_allclose(speeds, [0.0, 100.0, 50.0], rtol=1e-6)
    for each in (start, middle, end):
        assert {each[f"{kind}_velocities"].dtype for kind in ("target", "history")} == {np.dtype(np.float32)}
        assert np.asarray(each["curr_speed"]).dtype == np.float32
    half = {**CONFIG, "model_params": {**CONFIG["model_params"], "step_time": 0.5}}
    again = EgoDataset(half, dataset)[1]["target_velocities"]
    np.testing.assert_allclose(again, [[10.0, 0.0], [-10.0, 0.0]], atol=1e-4)
    # Without history there is no speed; L5Kit leaves the key out.
    alone = {**CONFIG, "model_params": {**CONFIG["model_params"], "history_num_frames": 0}}
    sample = EgoDataset(alone, dataset)[1]
    assert "curr_speed" not in sample
    assert sample["history_velocities"].shape == (0, 2)


def test_extents_over_time(dataset: ChunkedDataset, agents: AgentDataset) -> None:
    ego, car, once = EgoDataset(CONFIG, dataset)[1], agents[1], agents[2]
    np.testing.assert_allclose(ego["history_extents"], [[4.87, 1.85], [4.87, 1.85], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(ego["future_extents"], [[4.87, 1.85], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(car["history_extents"], [[4.2, 2.2], [4.2, 2.2], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(car["future_extents"], [[4.2, 2.2], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(once["history_extents"], [[1.25, 0.5], [0, 0], [0, 0]])
    assert {value.dtype for value in (ego["history_extents"], car["future_extents"])} == {np.dtype("f4")}
    np.testing.assert_allclose(car["history_velocities"], [[0, -10], [0, 10]], atol=1e-5)
    assert float(car["curr_speed"]) == pytest.approx(10.0)


def test_host_of_the_scene(dataset: ChunkedDataset, agents: AgentDataset) -> None:
    for sample in (EgoDataset(CONFIG, dataset)[0], agents[0]):
        assert (sample["host_id"].dtype, sample["host_id"].shape) == (np.uint8, (70,))
        assert bytes(sample["host_id"]) == b"host" + bytes(66)


@pytest.fixture
def agents(dataset: ChunkedDataset) -> AgentDataset:
    return AgentDataset(CONFIG, dataset, agents_mask=np.ones(4, bool))


def test_agent_that_is_always_there(agents: AgentDataset) -> None:
    sample = agents[1]
    check(sample, "history", [[0, 0], [0, 1], [0, 0]], [0, 0.25 - QUARTER, 0], [1, 1, 0])
    check(sample, "target", [[2, 0], [0, 0]], [QUARTER, 0], [1, 0])
    np.testing.assert_allclose(sample["world_from_agent"], [[0, -1, 4], [1, 0, 4], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(sample["agent_from_world"], [[0, 1, -4], [-1, 0, 4], [0, 0, 1]], atol=1e-6)
    assert sample["track_id"] == 7
    assert sample["centroid"].tolist() == [4.0, 4.0]
    np.testing.assert_allclose(sample["extent"], [4.2, 2.2, 1.5], rtol=1e-6)
    last = agents[3]
    check(last, "history", [[0, 0], [0, 2], [1, 2]], [0, -QUARTER, 0.25 - np.pi], [1, 1, 1])
    check(last, "target", [[0, 0], [0, 0]], [0, 0], [0, 0])


def test_agent_that_is_there_once(agents: AgentDataset) -> None:
    sample = agents[2]
    check(sample, "history", [[0, 0]] * 3, [0, 0, 0], [1, 0, 0])
    check(sample, "target", [[0, 0]] * 2, [0, 0], [0, 0])
    np.testing.assert_array_equal(sample["world_from_agent"], [[1, 0, 10], [0, 1, 10], [0, 0, 1]])
    assert sample["extent"].tolist() == [1.25, 0.5, 2.0]
    assert (sample["track_id"], sample["yaw"]) == (9, 0.0)


def test_frame_by_number(dataset: ChunkedDataset) -> None:
    ego = EgoDataset(CONFIG, dataset)
    assert ego.get_frame(0, 2)["timestamp"] == START_NS + 2 * STEP_NS
    assert ego.get_frame(0, 1, 9)["track_id"] == 9
    with pytest.raises(IndexError, match="track 9 is not in the frame"):
        ego.get_frame(0, 0, 9)
    for scene, state in ((1, 0), (0, 3), (0, -4)):
        with pytest.raises(IndexError):
            ego.get_frame(scene, state)
