"""How fast an L5Kit dataset is read: agents by slice and one by one, and samples with and without a picture.

    python benchmarks/l5kit_reader.py [--dataset DATASET.zarr] [--samples N]

Without a dataset it makes one of 1000 frames with 20 agents and 2000 points each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgefirst_ros.formats.l5kit import AgentDataset, ChunkedDataset, EgoDataset
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import AGENT, FRAME, SceneNote

FRAMES, AGENTS, POINTS = 1000, 20, 2000
START_NS = 1_777_626_000_000_000_000
RASTER = {"raster_size": [224, 224], "pixel_size": [0.5, 0.5], "ego_center": [0.25, 0.5]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=Path, help="measure this one")
    parser.add_argument("--samples", type=int, default=300, help="samples of each kind")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.dataset or make(Path(folder) / "bench.zarr")
        print(ChunkedDataset(path).open())
        slicing(path)
        sampling(path, chosen.samples)


def slicing(path: Path) -> None:
    """The example of L5Kit's documentation: the centroids of the first 10 000 agents."""
    count = min(10_000, len(ChunkedDataset(path).open().agents))
    for cache_bytes, kept in ((0, "no chunk kept"), (64 << 20, "chunks kept up to 64 MiB")):
        reads = []
        for how, by_slice in (("by slice", True), ("one by one", False)):
            dataset = ChunkedDataset(path).open(cache_bytes)
            start = time.perf_counter()
            if by_slice:
                centroids = dataset.agents[:count]["centroid"]
            else:
                centroids = np.array([dataset.agents[index]["centroid"] for index in range(count)])
            seconds = time.perf_counter() - start
            reads.append(dataset.cache.reads)
            print(f"{len(centroids)} agents {how:10}, {kept}: {reads[-1]:5} chunks read, {seconds:8.4f} s")
        print(f"  {reads[1] / reads[0]:.0f} times fewer chunks by slice")


def sampling(path: Path, count: int) -> None:
    """Samples a second, history of 10 frames, future of 50, in random order."""
    rng = np.random.default_rng(0)
    config = {"model_params": {"history_num_frames": 10, "future_num_frames": 50}}
    dataset = ChunkedDataset(path).open()
    everybody = np.ones(len(dataset.agents), bool)
    for samples in (EgoDataset(config, dataset), AgentDataset(config, dataset, agents_mask=everybody)):
        with timed(f"{type(samples).__name__:12}", count):
            for index in rng.integers(len(samples), size=count):
                samples[int(index)]


@contextmanager
def timed(what: str, count: int) -> Iterator[None]:
    """Print how many a second."""
    start = time.perf_counter()
    yield
    print(f"{what} {count / (time.perf_counter() - start):8.0f} samples/s")


def make(path: Path) -> Path:
    """A dataset of one scene: agents that go their ways about an ego that drives straight on."""
    rng = np.random.default_rng(0)
    growing = GrowingDataset(path)
    growing.begin_scene("bench", START_NS, SceneNote("bench"))
    place, velocity = rng.uniform(-40, 40, (AGENTS, 2)), rng.normal(0, 5, (AGENTS, 2))
    for number in range(FRAMES):
        agents = np.zeros(AGENTS, AGENT)
        agents["centroid"] = place + velocity * number / 10
        agents["velocity"], agents["yaw"] = velocity, np.arctan2(velocity[:, 1], velocity[:, 0])
        agents["extent"], agents["track_id"] = (4.5, 1.8, 1.5), np.arange(AGENTS) + 1
        agents["label_probabilities"][:, 3] = 1.0
        frame = np.zeros(1, FRAME)
        frame["timestamp"], frame["ego_rotation"] = START_NS + number * 100_000_000, np.eye(3)
        frame["ego_translation"] = number, 0, 0
        frame["agent_index_interval"] = number * AGENTS, (number + 1) * AGENTS
        for name, rows in (("agents", agents), ("frames", frame)):
            growing.append(name, rows)
    growing.end_scene(START_NS + (FRAMES - 1) * 100_000_000)
    growing.finish()
    return path


if __name__ == "__main__":
    main()
