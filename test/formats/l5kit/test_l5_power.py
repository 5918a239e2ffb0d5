"""After a power cut everything is there that was synced, and a dataset, whatever became of the rest."""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_disk import Disk, Killed, steps
from l5_samples import content, cut, feed, same_rows, sample, scenes, write

from edgefirst_ros.formats.crashsafe.sync import sync_together
from edgefirst_ros.formats.format import CrashSafe
from edgefirst_ros.formats.l5kit import ChunkedDataset, L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.recover import recover
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.zarr2 import ArraySpec
from edgefirst_ros.model.errors import DatasetNotFound

CHUNK = 4
SAMPLES = [*scenes(5, 1, 17)]
"""Frames of a scene are written when some half a second of samples has followed, and at its end."""


@contextmanager
def small_chunks() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        for name, spec in schema.SPECS.items():
            patch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))
        yield patch


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ChunkedDataset:
    with small_chunks():
        return write(tmp_path_factory.mktemp("whole"), SAMPLES)


def frames(writer: L5KitWriter) -> int:
    return writer._store.length(schema.FRAMES) if writer._store is not None else 0


def holds(path: Path, whole: ChunkedDataset, least: int) -> None:
    """Recovered, it has the first frames of the whole, and so many at least."""
    try:
        recover(path)
    except DatasetNotFound:
        assert not least
        return
    kept = len(ChunkedDataset(path).open().frames) if path.exists() else 0
    assert kept >= least
    assert not kept or same_rows(path, cut(whole, kept))
    assert [each.name for each in path.parent.iterdir()] == (["ds.zarr"] if kept else [])


def test_it_is_crash_safe(tmp_path: Path) -> None:
    assert isinstance(L5KitWriter(tmp_path, "ds", L5KitOptions()), CrashSafe)


@pytest.mark.long(cases=1)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 32), count=st.integers(0, len(SAMPLES)), every=st.integers(1, 9))
def test_synced_frames_survive_a_power_cut(seed: int, count: int, every: int, whole: ChunkedDataset) -> None:
    chance, synced = random.Random(seed), 0
    with small_chunks() as patch, tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        disk = Disk(root, patch)
        disk.sync_all()
        writer = L5KitWriter(root, "ds", L5KitOptions())
        begun = ""
        for number, each in enumerate(SAMPLES[:count]):
            if each.sequence.name != begun:
                begun = each.sequence.name
                writer.begin(each.sequence)
            writer.write(writer.prepare(each))
            if number % every == 0:
                sync_together([writer])
                synced = frames(writer)
        disk.cut(Path(folder) / "cut", chance)
        disk.cut(Path(folder) / "again", chance)
        disk.close()
        if writer._store is not None:
            writer._store.close()
        holds(Path(folder) / "cut" / "ds.zarr", whole, synced)
        # The power may go while recovery is under way, too.
        root = Path(folder) / "again"
        disk = Disk(root, patch)
        disk.sync_all()
        with pytest.MonkeyPatch.context() as dying:
            steps(dying, chance.randrange(90))
            with suppress(Killed, DatasetNotFound):
                recover(root / "ds.zarr")
        disk.cut(Path(folder) / "third", chance)
        disk.close()
        holds(Path(folder) / "third" / "ds.zarr", whole, synced)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 32), pause=st.integers(0, len(SAMPLES)))
def test_frames_synced_beside_the_writing_survive(seed: int, pause: int, whole: ChunkedDataset) -> None:
    with small_chunks() as patch, tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        disk = Disk(root, patch)
        disk.sync_all()
        writer = L5KitWriter(root, "ds", L5KitOptions())
        committed, synced, ended = [0], [0], threading.Event()
        real = GrowingDataset.commit

        def commit(self: GrowingDataset, *args: Any) -> None:  # noqa: ANN401 - the method's own
            real(self, *args)
            committed[0] = self.length(schema.FRAMES)

        patch.setattr(GrowingDataset, "commit", commit)

        def sync() -> None:
            while not ended.is_set():
                before = committed[0]
                sync_together([writer])
                synced[0] = before

        thread, interval = threading.Thread(target=sync), sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        thread.start()
        try:
            feed(writer, SAMPLES[:pause])
        finally:
            ended.set()
            thread.join()
            sys.setswitchinterval(interval)
        disk.cut(Path(folder) / "cut", random.Random(seed))
        disk.close()
        if writer._store is not None:
            writer._store.close()
        holds(Path(folder) / "cut" / "ds.zarr", whole, synced[0])


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 32), has_name=st.booleans(), lights=st.booleans())
def test_what_is_complete_survives_as_it_is(seed: int, has_name: bool, lights: bool) -> None:
    with small_chunks() as patch, tempfile.TemporaryDirectory() as folder:
        new = SAMPLES[:9] if lights else [sample(i) for i in range(6)]
        write(Path(folder), new, "expected")
        root = Path(folder) / "root"
        write(root, SAMPLES[:6])
        disk = Disk(root, patch)
        disk.sync_all()
        writer = L5KitWriter(root, "ds", L5KitOptions(), overwrite=True)
        feed(writer, new)
        if has_name:
            writer.close()
        else:
            writer.complete()
        disk.cut(Path(folder) / "cut", random.Random(seed))
        disk.close()
        path = Path(folder) / "cut" / "ds.zarr"
        if has_name:
            assert [each.name for each in path.parent.iterdir()] == ["ds.zarr"]
        else:
            recover(path, complete=True)
            writer.close()
        assert content(path) == content(Path(folder) / "expected.zarr")
        assert [each.name for each in path.parent.iterdir()] == ["ds.zarr"]
