"""Killed anywhere: what was written whole is a dataset after recovery, the same as if it had ended there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import SEQUENCE, START_NS, box, boxes, cloud, sample, tree, write

from edgefirst_ros.errors import DatasetNotFound, WriteError
from edgefirst_ros.formats.l5kit import ChunkedDataset, L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.recover import recover
from edgefirst_ros.formats.l5kit.store import chunkfiles, schema
from edgefirst_ros.formats.l5kit.store import growingdataset as store
from edgefirst_ros.formats.zarr2.array import ArraySpec
from edgefirst_ros.sample import Role, Sample, SequenceInfo

CHUNK = 4


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, spec in schema.SPECS.items():
        monkeypatch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))


def scenes(*counts: int) -> Iterator[Sample]:
    """Samples with a changing number of agents, lights and points in each frame."""
    rng = np.random.default_rng(0)
    for number, count in enumerate(counts):
        sequence = SequenceInfo(f"scene-{number}", "host", START_NS)
        for frame in range(count):
            found = [box(track_id=f"t{i}", center_x=0.1 + 0.1 * i) for i in range(int(rng.integers(0, 4)))]
            found += [box(track_id=f"l{i}", label="traffic light") for i in range(int(rng.integers(0, 2)))]
            spread = rng.uniform(-9, 9, (3, int(rng.integers(1, 6)))).astype(np.float32)
            data = {
                Role.MODEL: boxes(*found),
                Role.LIDAR_POINTS: cloud(x=spread[0], y=spread[1], z=spread[2]),
            }
            yield sample(frame, data, sequence=sequence, position_m=(float(frame), 0.0, 0.0))


SAMPLES = [*scenes(5, 1, 7)]


class Killed(Exception):
    """Stands for the death of the process."""


def feed(writer: L5KitWriter, samples: list[Sample]) -> None:
    """Write samples, beginning their sequences."""
    begun = ""
    for each in samples:
        if each.sequence.name != begun:
            begun = each.sequence.name
            writer.begin(each.sequence)
        writer.write(writer.prepare(each))


def run(root: Path, samples: list[Sample], *, append: bool = False, overwrite: bool = False) -> None:
    """Write samples until something raises; nothing is tidied up then."""
    writer = L5KitWriter(root, "ds", L5KitOptions(append=append), overwrite=overwrite)
    try:
        feed(writer, samples)
        writer.close()
    except Killed:
        if writer._store is not None:
            writer._store.close()


@pytest.mark.parametrize("count", range(1, len(SAMPLES) + 1))
def test_recovered_is_what_would_have_been_written(tmp_path: Path, count: int) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    feed(writer, SAMPLES[:count])
    writer.abort()
    found = recover(tmp_path / "ds.zarr")
    write(tmp_path, SAMPLES[:count], "whole")
    assert tree(tmp_path / "ds.zarr") == tree(tmp_path / "whole.zarr")
    assert (found.kept["frames"], found.dropped, found.was_finished) == (count, 0, False)
    assert found.paths == (tmp_path / "ds.zarr",)
    again = recover(tmp_path / "ds.zarr.part")
    assert (again.kept, again.was_finished) == (found.kept, True)
    assert tree(tmp_path / "ds.zarr") == tree(tmp_path / "whole.zarr")


def steps(monkeypatch: pytest.MonkeyPatch, limit: int) -> list[int]:
    """Let the file system be changed ``limit`` times, and then die; half of a write is done before."""
    done = [0]

    def count(real, half):  # noqa: ANN001, ANN202 - wraps anything
        def step(*args, **options):  # noqa: ANN002, ANN003, ANN202
            done[0] += 1
            if done[0] > limit:
                if half:
                    half(*args)
                raise Killed
            return real(*args, **options)

        return step

    whole = os.pwritev

    def half(descriptor: int, buffers: list[bytes], offset: int) -> None:
        data = b"".join(buffers)
        whole(descriptor, [data[: len(data) // 2]], offset)

    monkeypatch.setattr(os, "pwritev", count(whole, half))
    monkeypatch.setattr(os, "ftruncate", count(os.ftruncate, None))
    monkeypatch.setattr(os, "fsync", count(os.fsync, None))
    monkeypatch.setattr(Path, "replace", count(Path.replace, None))
    monkeypatch.setattr(Path, "unlink", count(Path.unlink, None))
    monkeypatch.setattr(shutil, "rmtree", count(shutil.rmtree, None))
    monkeypatch.setattr(os, "link", count(os.link, None))
    return done


def frames_of(path: Path) -> int:
    return len(ChunkedDataset(path).open().frames) if path.exists() else 0


ARRAYS = ("scenes", "frames", "agents", "traffic_light_faces", "points", "point_spans")


def written_first(count: int) -> dict[str, np.ndarray]:
    """The first frames of the dataset of all samples, as they lie in its arrays."""
    with tempfile.TemporaryDirectory() as folder:
        return cut(write(Path(folder), SAMPLES), count)


def cut(dataset: ChunkedDataset, count: int) -> dict[str, np.ndarray]:
    """Rows of the first frames, and the scenes that they make up."""
    rows = {name: np.asarray(getattr(dataset, "tl_faces" if "light" in name else name)[:]) for name in ARRAYS}
    rows["frames"], rows["point_spans"] = rows["frames"][:count], rows["point_spans"][:count]
    for name, owner, field in (
        ("agents", "frames", "agent_index_interval"),
        ("traffic_light_faces", "frames", "traffic_light_faces_index_interval"),
        ("points", "point_spans", "point_index_interval"),
    ):
        rows[name] = rows[name][: int(rows[owner][field][-1, 1])]
    scenes = rows["scenes"][rows["scenes"]["frame_index_interval"][:, 0] < count].copy()
    scenes["frame_index_interval"][-1, 1] = min(scenes["frame_index_interval"][-1, 1], count)
    scenes["end_time"][-1] = rows["frames"]["timestamp"][-1]
    return {**rows, "scenes": scenes}


def same_rows(path: Path, expected: dict[str, np.ndarray]) -> bool:
    dataset = ChunkedDataset(path).open()
    found = cut(dataset, len(dataset.frames))
    return all(found[name].tobytes() == rows.tobytes() for name, rows in expected.items())


PREFIXES: dict[int, dict[str, bytes]] = {}


def prefix(count: int) -> dict[str, bytes]:
    """The dataset of the first samples."""
    if count not in PREFIXES:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), SAMPLES[:count])
            PREFIXES[count] = tree(Path(folder) / "ds.zarr")
    return PREFIXES[count]


@pytest.mark.parametrize("append", [False, True])
@settings(max_examples=20, deadline=None)
@given(first=st.integers(0, 420), second=st.integers(0, 60))
def test_killed_at_any_step_even_of_the_recovery(append: bool, first: int, second: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, spec in schema.SPECS.items():
            patch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))
        root, path = Path(folder), Path(folder) / "ds.zarr"
        had = 6 if append else 0
        if append:
            write(root, SAMPLES[:had])
        results = []
        real = L5KitWriter.write

        def counted(self, prepared):  # noqa: ANN001, ANN202 - the method's own types
            result = real(self, prepared)
            results.append(result)
            return result

        with pytest.MonkeyPatch.context() as dying:
            dying.setattr(L5KitWriter, "write", counted)
            steps(dying, first)
            run(root, SAMPLES[had:], append=append)
        with pytest.MonkeyPatch.context() as dying:
            steps(dying, second)
            with suppress(Killed, DatasetNotFound):
                recover(path)
        committed = [each for each in results if each.done()]
        try:
            found = recover(path)
        except DatasetNotFound:
            assert not committed
            assert not had
            return
        kept = frames_of(path)
        assert kept >= had + len(committed)
        assert kept <= had + len(results) + 1
        if kept:
            if not append:
                assert same_rows(path, written_first(kept))
            assert [p.name for p in root.iterdir()] == ["ds.zarr"]
            assert found.beside == path or found.kept["frames"] == kept


def test_killed_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from l5_samples import *
from edgefirst_ros.formats.l5kit import L5KitOptions, L5KitWriter
writer = L5KitWriter(Path({str(tmp_path)!r}), "ds", L5KitOptions())
writer.begin(SEQUENCE)
for frame in range(9):
    writer.write(writer.prepare(sample(frame, {{Role.MODEL: boxes(box())}})))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    # Of nine frames those are on the disk that half a second of samples followed, and a sample more.
    assert recover(tmp_path / "ds.zarr").kept["frames"] == 3
    np.testing.assert_array_equal(
        ChunkedDataset(tmp_path / "ds.zarr").open().agents["centroid"], [[22.0, 0.0]] * 3
    )


def test_running_capture_is_left_alone(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(sample(0)))
    with pytest.raises(WriteError, match="being written"):
        recover(tmp_path / "ds.zarr")
    writer.write(writer.prepare(sample(1)))
    writer.close()
    assert frames_of(tmp_path / "ds.zarr") == 2


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound):
        recover(tmp_path / "ds.zarr")


def test_nothing_committed_leaves_nothing(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    assert writer._store is not None
    writer._store.close()
    found = recover(tmp_path / "ds.zarr")
    assert (found.kept["frames"], found.paths) == (0, ())
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("name", "rows", "kept"),
    [
        ("agents", 1, 0),
        ("frames", 5, 5),
        ("traffic_light_faces", 0, 0),
        ("points", 3, 0),
        ("point_spans", 2, 2),
    ],
)
def test_damage_ends_the_dataset_before_it(tmp_path: Path, name: str, rows: int, kept: int) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    feed(writer, SAMPLES)
    writer.abort()
    whole = write(tmp_path, SAMPLES, "whole")
    files = chunkfiles.Files(tmp_path / "ds.zarr.part", name)
    for number, path in files.chunks():
        if number >= rows // CHUNK:
            path.write_bytes(b"")
    for _, path in files.tails():
        path.unlink()
    found = recover(tmp_path / "ds.zarr")
    count = rows // CHUNK * CHUNK
    if name in {"frames", "point_spans"}:
        expected = count
    else:
        spans = whole.point_spans if name == "points" else whole.frames
        field = {"agents": "agent_index_interval", "points": "point_index_interval"}.get(
            name, "traffic_light_faces_index_interval"
        )
        assert spans is not None
        expected = int(np.searchsorted(spans[field][:, 1], count, side="right"))
    assert found.kept["frames"] == expected
    if expected:
        assert same_rows(tmp_path / "ds.zarr", cut(whole, expected))
    assert found.dropped > 0


@pytest.mark.parametrize("count", [1, 3, len(SAMPLES)])
@pytest.mark.parametrize("had", [3, 6])
def test_an_unfinished_replacement_is_finished_beside_the_complete_one(
    tmp_path: Path, had: int, count: int
) -> None:
    write(tmp_path, SAMPLES[:had])
    killed_overwrite(tmp_path, count)
    found = recover(tmp_path / "ds.zarr")
    assert (found.path, found.kept["frames"]) == (tmp_path / "ds_recovered.zarr", count)
    assert found.beside == tmp_path / "ds.zarr"
    assert tree(tmp_path / "ds.zarr") == prefix(had)
    assert tree(tmp_path / "ds_recovered.zarr") == prefix(count)
    killed_overwrite(tmp_path, 2)
    assert recover(tmp_path / "ds.zarr").path == tmp_path / "ds_recovered_2.zarr"
    assert recover(tmp_path / "ds.zarr").was_finished
    names = ["ds.zarr", "ds_recovered.zarr", "ds_recovered_2.zarr"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


def killed_overwrite(root: Path, count: int) -> None:
    writer = L5KitWriter(root, "ds", L5KitOptions(), overwrite=True)
    feed(writer, SAMPLES[:count])
    if not count:
        writer.begin(SEQUENCE)
        assert writer._store is not None
        writer._store.close()
        return
    writer.abort()


def test_an_overwriting_run_without_a_frame_is_not_the_complete_dataset(tmp_path: Path) -> None:
    write(tmp_path, SAMPLES)
    killed_overwrite(tmp_path, 0)
    found = recover(tmp_path / "ds.zarr")
    assert (found.paths, found.path, found.beside) == ((), tmp_path / "ds.zarr", found.path)
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions(), overwrite=True)
    writer.begin(SEQUENCE)
    assert writer.close() == [], "nothing came of this run"
    assert tree(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
    assert [p.name for p in tmp_path.iterdir()] == ["ds.zarr"]


@settings(max_examples=40, deadline=None)
@given(first=st.integers(0, 130), second=st.integers(0, 60), again=st.booleans())
def test_killed_at_any_step_of_overwriting_a_complete_dataset_is_there(
    first: int, second: int, again: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, spec in schema.SPECS.items():
            patch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))
        root, path = Path(folder), Path(folder) / "ds.zarr"
        write(root, SAMPLES)
        new = [sample(i) for i in range(3)]
        with tempfile.TemporaryDirectory() as fresh:
            write(Path(fresh), new)
            expected = tree(Path(fresh) / "ds.zarr")
        with pytest.MonkeyPatch.context() as dying:
            done = steps(dying, first)
            run(root, new, overwrite=True)
        if again:  # the next run begins on what was left, and dies with its first step
            with pytest.MonkeyPatch.context() as dying:
                steps(dying, second % 12)
                run(root, new, overwrite=True)
        with pytest.MonkeyPatch.context() as dying:
            steps(dying, second)
            with suppress(Killed):
                recover(path)
        for each in [*root.glob("*.part")]:
            recover(each)
        complete = [p for p in root.iterdir() if tree(p) in (prefix(len(SAMPLES)), expected)]
        assert path in complete, (done, [p.name for p in root.iterdir()])
        assert not [*root.glob("*.part")]
        assert recover(path).was_finished


def test_overwriting_what_a_kill_left_between_two_names_begins_with_the_complete_one(tmp_path: Path) -> None:
    write(tmp_path, SAMPLES)
    killed_overwrite(tmp_path, 3)
    (tmp_path / "ds.zarr").rename(tmp_path / "ds.zarr.old.part")
    killed_overwrite(tmp_path, 2)
    assert tree(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
    assert recover(tmp_path / "ds.zarr").path == tmp_path / "ds_recovered.zarr"
    assert tree(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
    assert tree(tmp_path / "ds_recovered.zarr") == prefix(2)


def test_an_extension_killed_behind_its_rename_is_as_any_other(tmp_path: Path) -> None:
    write(tmp_path, SAMPLES)
    (tmp_path / "ds.zarr" / store.EXTENDS).touch()
    assert recover(tmp_path / "ds.zarr").was_finished
    assert tree(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
