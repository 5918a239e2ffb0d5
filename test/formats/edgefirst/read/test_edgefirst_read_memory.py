"""What reading keeps: batches in memory, open files, and locks in forked processes."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from edgefirst_foreign import boxes, foreign
from places import identity
from places import opened as opened_files
from readable import NAME, copied, digests

import edgefirst_ros
from edgefirst_ros.formats.edgefirst.read.batches import MOST_BATCHES
from edgefirst_ros.formats.edgefirst.read.local import ForkLock

SAMPLES, MASK_BYTES = 40, 200_000


def test_masks_of_a_packed_table_are_not_kept(tmp_path: Path) -> None:
    """Arrow counts what it has unpacked: of each batch only the columns asked for, of few batches."""
    random = np.random.default_rng(1)
    rows = pl.DataFrame(
        {
            "name": ["s"] * SAMPLES,
            "frame": list(range(SAMPLES)),
            "label": ["car"] * SAMPLES,
            "box2d": boxes(SAMPLES),
            "polygon": [[random.random(MASK_BYTES // 4).astype(np.float32).tolist()]] * SAMPLES,
        },
        schema_overrides={"polygon": pl.List(pl.List(pl.Float32))},
    )
    folder = foreign(tmp_path / "ds", rows, ["s/s_000.jpg"])
    rows.write_ipc(folder / "ds.arrow", compression="lz4", record_batch_size=1)
    before = pa.total_allocated_bytes()
    opened = edgefirst_ros.open(folder, keys=["boxes2d"])
    assert sum(len(sample["boxes2d"]) for sample in opened) == SAMPLES
    assert pa.total_allocated_bytes() - before < MASK_BYTES
    whole = opened.with_keys(["boxes2d", "masks"])
    assert sum(len(sample["masks"][0][0]) for sample in whole) == SAMPLES * MASK_BYTES // 8
    kept = pa.total_allocated_bytes() - before
    assert MASK_BYTES < kept < (MOST_BATCHES + 1) * MASK_BYTES


def test_threads_that_begin_together_open_the_archive_once(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    expected = digests(edgefirst_ros.open(folder), range(15))
    for _ in range(20):
        opened = edgefirst_ros.open(folder)
        begin = Barrier(8)

        def read(number: int, opened: edgefirst_ros.EdgeFirstDataset = opened, begin: Barrier = begin) -> int:
            begin.wait()
            return digests(opened, range(number, number + 1))[0]

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(read, range(8))) == expected[:8]
        assert opened_files().count(identity(folder / f"{NAME}.zip")) == 1
        del opened, read


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that is what the lock is for
def test_a_forked_process_does_not_wait_for_a_thread_that_it_has_not() -> None:
    lock, held, done = ForkLock(), Event(), Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        with lock:
            os._exit(7)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with pickle.loads(pickle.dumps(lock)):
        pass
