"""A simulated drive through the writer, against what was true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from l5_samples import START_NS, drive_samples, write

from edgefirst_ros.formats.l5kit import ChunkedDataset
from edgefirst_ros.formats.l5kit.write.boxes import track_key
from edgefirst_ros.formats.tracks.rays import wrapped, yaw_of
from edgefirst_ros.simulation.world import World


def compare(dataset: ChunkedDataset, world: World) -> dict[str, np.ndarray]:
    """Errors of every agent, m, m/s and rad; velocity and yaw where it moves and was seen for a while."""
    boxes = {track_key(box.track_id): box for box in world.boxes}
    frames, agents = dataset.frames[:], dataset.agents[:]
    seconds = np.repeat((frames["timestamp"] - START_NS) / 1e9, np.diff(frames["agent_index_interval"])[:, 0])
    seen: dict[int, int] = {}
    place, velocity, yaw = [], [], []
    for agent, at in zip(agents, seconds.tolist(), strict=True):
        number = int(agent["track_id"])
        seen[number] = seen.get(number, 0) + 1
        state = boxes[number].motion.state(at)
        place.append(np.linalg.norm(agent["centroid"] - state.position_m[:2]))
        if seen[number] > 5 and np.linalg.norm(state.velocity_m_s) > 2:
            velocity.append(np.linalg.norm(agent["velocity"] - state.velocity_m_s[:2]))
            yaw.append(abs(wrapped(np.array(float(agent["yaw"]) - state.yaw_rad))))
    return {"place": np.array(place), "velocity": np.array(velocity), "yaw": np.array(yaw)}


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


@pytest.mark.parametrize(("solid", "limit_m"), [(False, 0.45), (True, 1e-5)])
def test_agents_are_where_they_were(tmp_path: Path, solid: bool, limit_m: float) -> None:
    drive = [*drive_samples(0, 8.0, solid=solid)]
    world = drive[0][1]
    dataset = write(tmp_path, [each for each, _ in drive])
    errors = compare(dataset, world)
    assert len(errors["place"]) > 100
    assert rms(errors["place"]) < limit_m
    assert rms(errors["velocity"]) < 0.6
    assert rms(errors["yaw"]) < 0.1
    # The ego's path is the pipeline's own, to the last bit of its quaternion.
    for frame in dataset.frames[:]:
        state = world.rig.state((int(frame["timestamp"]) - START_NS) / 1e9)
        np.testing.assert_allclose(frame["ego_translation"], state.position_m, atol=1e-9)
        assert abs(wrapped(yaw_of(frame["ego_rotation"]) - state.yaw_rad)) < 1e-9


def test_sizes_are_about_right_for_cars(tmp_path: Path) -> None:
    drive = [*drive_samples(0, 6.0, solid=True)]
    boxes = {track_key(box.track_id): box for box in drive[0][1].boxes}
    agents = write(tmp_path, [each for each, _ in drive]).agents[:]
    true = np.array([boxes[int(track)].size_m for track in agents["track_id"]])
    ratio = agents["extent"] / true
    assert (np.abs(np.median(ratio, axis=0) - 1) < 0.15).all()
