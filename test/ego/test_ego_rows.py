"""Rows that exceed memory: what is read equals what was added, wherever it lies."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.rows import BLOCK, Rows

NUMBERS = np.random.default_rng(0).normal(size=(3 * BLOCK + 17, 3))


def filled(most_bytes: int, part: int = 100) -> Rows:
    rows = Rows(3, most_bytes=most_bytes)
    for start in range(0, len(NUMBERS), part):
        rows.extend(NUMBERS[start : start + part].ravel().tolist())
    return rows


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@given(st.integers(0, len(NUMBERS)), st.integers(0, len(NUMBERS) + 5), st.sampled_from([0, 24_000, 1 << 20]))
def test_any_part_is_what_was_added(start: int, stop: int, most_bytes: int) -> None:
    np.testing.assert_array_equal(filled(most_bytes).part(start, stop), NUMBERS[start : max(start, stop)])


@pytest.mark.parametrize("most_bytes", [0, 24_000, 1 << 20])
def test_rows_and_blocks_are_what_was_added(most_bytes: int) -> None:
    rows = filled(most_bytes)
    assert len(rows) == len(NUMBERS)
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks())), NUMBERS)
    for index in (0, len(NUMBERS) - 1, BLOCK, BLOCK - 1, 5):
        np.testing.assert_array_equal(rows.row(index), NUMBERS[index])


def test_a_row_added_after_reading_is_found() -> None:
    rows = filled(24_000)
    rows.row(len(NUMBERS) - 1)
    rows.extend([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(rows.row(len(NUMBERS)), [1.0, 2.0, 3.0])


def test_memory_holds_no_more_than_allowed_and_the_file_vanishes() -> None:
    before = open_files()
    rows = filled(24_000)
    assert len(rows._newest) * 8 <= 24_000
    assert open_files() == before + 1
    del rows
    assert open_files() == before


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk_leaves_rows_in_memory(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    real, calls = os.pwrite, list[int]()

    def full(file: int, data: bytes, at: int) -> int:
        calls.append(at)
        if len(calls) > after + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        # The last write before the disk is full is cut.
        return real(file, data[: len(data) // 2] if len(calls) == after + 1 else data, at)

    monkeypatch.setattr(os, "pwrite", full)
    rows = filled(24_000)
    assert len(calls) == after + 2
    np.testing.assert_array_equal(rows.part(0, len(NUMBERS)), NUMBERS)
