"""How long agents are seen without a break, against going through them one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import agent

from edgefirst_ros.formats.l5kit import AgentFilter, ChunkedDataset
from edgefirst_ros.formats.l5kit.read.sampling import agent_counts
from edgefirst_ros.formats.l5kit.store.schema import AGENT, FRAME, SCENE

CHOICE = AgentFilter()


def dataset_of(frames: list[list[np.ndarray]], scenes: list[int] | None = None) -> ChunkedDataset:
    """Frames with the ego at the origin and these agents."""
    rows = np.zeros(len(frames), FRAME)
    ends = np.cumsum([len(found) for found in frames])
    rows["agent_index_interval"] = np.stack([np.append(0, ends[:-1]), ends], axis=1)
    cuts = np.cumsum(scenes or [len(frames)])
    scene = np.zeros(len(cuts), SCENE)
    scene["frame_index_interval"] = np.stack([np.append(0, cuts[:-1]), cuts], axis=1)
    agents = np.concatenate([np.zeros(0, AGENT), *(a for found in frames for a in found)])
    return ChunkedDataset(scenes=scene, frames=rows, agents=agents)


def one_by_one(dataset: ChunkedDataset, choice: AgentFilter) -> np.ndarray:
    """The definition, spelled out: chains of sightings, and every agent's place in its chain."""
    counts = np.zeros((len(dataset.agents), 2), np.uint32)
    for first, stop in dataset.scenes["frame_index_interval"].tolist():
        chains: dict[int, list[list[tuple[int, int]]]] = defaultdict(list)
        for frame in range(first, stop):
            for index in range(*dataset.frames[frame]["agent_index_interval"].tolist()):
                now = dataset.agents[index]
                mine = chains[int(now["track_id"])]
                if now["label_probabilities"][3:16].sum() <= choice.probability:
                    mine.append([])
                    continue
                if np.hypot(*(now["centroid"])) >= choice.distance_m:
                    mine.append([])
                    continue
                if mine and mine[-1]:
                    before_frame, before_index = mine[-1][-1]
                    before = dataset.agents[before_index]
                    turn = abs((float(now["yaw"]) - float(before["yaw"]) + np.pi) % (2 * np.pi) - np.pi)
                    areas = sorted(float(a["extent"][0]) * float(a["extent"][1]) for a in (now, before))
                    if (
                        before_frame == frame - 1
                        and np.degrees(turn) < choice.yaw_deg
                        and areas[0] >= 0.01
                        and areas[1] / areas[0] < choice.extent_ratio
                    ):
                        mine[-1].append((frame, index))
                        continue
                mine.append([(frame, index)])
        for chain in (chain for found in chains.values() for chain in found):
            for place, (_, index) in enumerate(chain):
                counts[index] = place, len(chain) - 1 - place
    return counts


sightings = st.lists(
    st.dictionaries(
        st.integers(1, 4),
        st.tuples(
            st.sampled_from([0.0, 0.3, 3.0, -3.1]),
            st.sampled_from([4.0, 4.2, 5.0, 0.001]),
            st.sampled_from([10.0, 20.0, 49.9, 60.0]),
            st.sampled_from([1.0, 0.8, 0.5]),
        ),
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=200, deadline=None)
@given(frames=sightings, cut=st.integers(1, 8), reverse=st.booleans())
def test_counts_are_those_of_going_through_them_one_by_one(
    frames: list[dict[int, tuple[float, float, float, float]]], cut: int, reverse: bool
) -> None:
    made = []
    for found in frames:
        order = sorted(found, reverse=reverse)
        rows = []
        for track in order:
            yaw, length, away, probability = found[track]
            label = np.zeros(17)
            label[3], label[1] = probability, 1 - probability
            rows.append(
                agent(
                    track_id=track,
                    yaw=yaw,
                    extent=(length, 2.0, 1.0),
                    centroid=(away, 0.0),
                    label_probabilities=label,
                )
            )
        made.append(rows)
    scenes = [cut, len(frames) - cut] if cut < len(frames) else [len(frames)]
    dataset = dataset_of(made, scenes)
    np.testing.assert_array_equal(agent_counts(dataset, CHOICE), one_by_one(dataset, CHOICE))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (AgentFilter(), [[0, 3], [1, 2], [2, 1], [3, 0]]),
        (AgentFilter(distance_m=11.5), [[0, 1], [1, 0], [0, 0], [0, 0]]),
        (AgentFilter(yaw_deg=10.0), [[0, 1], [1, 0], [0, 1], [1, 0]]),
        (AgentFilter(extent_ratio=1.02), [[0, 2], [1, 1], [2, 0], [0, 0]]),
        (AgentFilter(probability=1.0), [[0, 0]] * 4),
    ],
)
def test_each_threshold(choice: AgentFilter, expected: list[list[int]]) -> None:
    yaw, length = [0.0, 0.0, 0.2, 0.2], [4.0, 4.0, 4.0, 4.2]
    frames = [
        [agent(track_id=1, centroid=(10.0 + i, 0.0), yaw=yaw[i], extent=(length[i], 2.0, 1.0))]
        for i in range(4)
    ]
    assert agent_counts(dataset_of(frames), choice).tolist() == expected


def test_empty_datasets() -> None:
    assert agent_counts(ChunkedDataset(), CHOICE).shape == (0, 2)
    assert agent_counts(dataset_of([[], []]), CHOICE).shape == (0, 2)
    assert agent_counts(dataset_of([[], []], [0, 2]), CHOICE).shape == (0, 2)
