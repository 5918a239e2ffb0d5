"""Merging and splitting: scenes move whole, and what was merged and split again has its own bytes."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import drive_samples, random_dataset, sample, write
from oracle import assert_sound
from places import contents

from edgefirst_ros.formats.l5kit import ChunkedDataset, merge, rearrange, split
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.zarr2.array import ArraySpec
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, OutputExists
from edgefirst_ros.model.sample import SequenceInfo

datasets = st.lists(
    st.tuples(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.booleans()), min_size=1, max_size=3
)


@settings(max_examples=12, deadline=None)
@given(made=datasets, seed=st.integers(0, 99), chunk=st.integers(1, 9), block=st.integers(1, 9))
def test_merged_and_split_again_has_the_original_bytes(
    made: list[tuple[list[int], bool]], seed: int, chunk: int, block: int
) -> None:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, spec in schema.SPECS.items():
            patch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (chunk,), spec.compressor))
        patch.setattr(rearrange, "_BLOCK", block)
        root = Path(folder)
        paths = [
            random_dataset(root / f"d{i}.zarr", rng, frames, points=points)
            for i, (frames, points) in enumerate(made)
        ]
        merged = ChunkedDataset(merge(paths, root / "all")).open()
        assert merged.path == root / "all.zarr"
        cuts = np.cumsum([len(frames) for frames, _ in made])
        assert len(merged.scenes) == cuts[-1]
        parts = split(root / "all.zarr", root / "parts", cuts[:-1].tolist())
        assert [part.name for part in parts] == [f"all_{i:03d}.zarr" for i in range(len(made))]
        for part, path in zip(parts, paths, strict=True):
            assert contents(part) == contents(path)
        assert not [*root.rglob("*.part")]


@settings(max_examples=8, deadline=None)
@given(frames=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_split_and_merged_again_has_the_original_bytes(frames: list[int], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        path = random_dataset(root / "d.zarr", np.random.default_rng(seed), frames, points=True)
        parts = split(path, root)
        assert [len(ChunkedDataset(part).open().frames) for part in parts] == frames
        assert contents(merge(parts, root / "again.zarr")) == contents(path)


def test_what_is_merged_is_what_there_was(tmp_path: Path) -> None:
    paths = [
        random_dataset(tmp_path / f"d{i}.zarr", np.random.default_rng(i), [3, 2], points=i == 1)
        for i in range(2)
    ]
    merged = ChunkedDataset(merge(paths, tmp_path / "all.zarr")).open()
    for index in range(4):
        mine = merged.get_scene_dataset(index)
        source = ChunkedDataset(paths[index // 2]).open()
        theirs = source.get_scene_dataset(index % 2)
        for name in ("scenes", "frames", "agents", "tl_faces"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
        assert mine.notes == theirs.notes
        assert mine.points is not None
        assert len(mine.points) == (len(theirs.points) if theirs.points is not None else 0)


def test_conformance_checker_finds_nothing(tmp_path: Path) -> None:
    one = write(tmp_path, [each for each, _ in drive_samples(0, 2.0, lidar=True)], "one")
    other = SequenceInfo("other", "host", 0)
    two = write(tmp_path, [sample(i, sequence=other) for i in range(5)], "two")
    assert one.path is not None
    assert two.path is not None
    merged = merge([one.path, two.path], tmp_path / "all.zarr")
    assert_sound("l5kit", merged, *split(merged, tmp_path / "parts"))


def test_datasets_from_elsewhere_can_be_merged(tmp_path: Path) -> None:
    path = random_dataset(tmp_path / "theirs.zarr", np.random.default_rng(0), [3, 2])
    (path / ".zattrs").write_text(json.dumps({"format_version": 2, "labels": [*schema.LABELS]}, indent=4))
    (path / ".manifest").unlink()
    ours = random_dataset(tmp_path / "ours.zarr", np.random.default_rng(1), [1])
    merged = merge([path, ours], tmp_path / "all.zarr")
    attributes = json.loads((merged / ".zattrs").read_text())
    assert attributes["scene_names"] == [None, None, "ours-0"]
    assert attributes["scene_origins_ecef_m"][:2] == [None, None]
    theirs, _, _ = split(merged, tmp_path)
    assert json.loads((theirs / ".zattrs").read_text()).keys() == {"format_version", "labels"}


def test_what_cannot_be_meant(tmp_path: Path) -> None:
    path = random_dataset(tmp_path / "d.zarr", np.random.default_rng(0), [3, 2, 1])
    with pytest.raises(DatasetError, match="no datasets"):
        merge([], tmp_path / "all.zarr")
    with pytest.raises(DatasetNotFound):
        merge([path, tmp_path / "nothing.zarr"], tmp_path / "all.zarr")
    with pytest.raises(DatasetError, match="d-0 is in more than one"):
        merge([path, path], tmp_path / "all.zarr")
    for at in ([0], [3], [2, 1], [1, 1], [-1]):
        with pytest.raises(DatasetError, match="cannot cut 3 scenes"):
            split(path, tmp_path, at)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.zarr"]


def test_nothing_is_put_inside_a_dataset_that_may_be_replaced(tmp_path: Path) -> None:
    path = random_dataset(tmp_path / "d.zarr", np.random.default_rng(0), [2, 1])
    other = random_dataset(tmp_path / "e.zarr", np.random.default_rng(1), [1])
    (tmp_path / "link").symlink_to(path)
    before = sorted(path.rglob("*"))
    for out in (path, path / "parts", tmp_path / "link" / "parts", tmp_path / "x" / ".." / "d.zarr"):
        with pytest.raises(DatasetError, match="lies inside the dataset, and would go with it"):
            split(path, out)
    with pytest.raises(DatasetError, match=r"e\.zarr, and would go with it"):
        merge([path, other], other / "all.zarr", overwrite=True)
    assert sorted(path.rglob("*")) == before


def test_existing_output_is_refused_or_replaced(tmp_path: Path) -> None:
    paths = [random_dataset(tmp_path / f"d{i}.zarr", np.random.default_rng(i), [2]) for i in range(2)]
    with pytest.raises(OutputExists):
        merge(paths, paths[0])
    assert len(ChunkedDataset(paths[0]).open().scenes) == 1
    merge(paths, paths[0], overwrite=True)
    assert len(ChunkedDataset(paths[0]).open().scenes) == 2
    (tmp_path / "d0_001.zarr").mkdir()
    with pytest.raises(OutputExists, match="d0_001"):
        split(paths[0], tmp_path)
    assert not (tmp_path / "d0_000.zarr").exists()
    assert len(split(paths[0], tmp_path, overwrite=True)) == 2


def test_damaged_source_leaves_nothing_half_done(tmp_path: Path) -> None:
    path = random_dataset(tmp_path / "d.zarr", np.random.default_rng(0), [3])
    (path / "agents" / "0").write_bytes(b"no chunk")
    with pytest.raises(DatasetError, match="agents/0"):
        merge([path], tmp_path / "all.zarr")
    assert [p.name for p in tmp_path.iterdir()] == ["d.zarr"]
    shutil.rmtree(path)
