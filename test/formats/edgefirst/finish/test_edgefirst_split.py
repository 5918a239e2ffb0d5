"""Train and val by blocks of time."""

from __future__ import annotations

import math
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.formats.edgefirst.options import BlockSplit

SECOND = 10**9


def groups(name: str, seconds: float, rate: float, ratio: float, block_s: float) -> list[str]:
    times = [int(i * SECOND / rate) for i in range(max(1, round(seconds * rate)))]
    split = BlockSplit(name, times[0] + 5, times[-1] + 5, ratio, block_s)
    return [split.group(time_ns + 5) for time_ns in times]


def runs(found: list[str]) -> list[tuple[str, int]]:
    return [(group, len(list(members))) for group, members in groupby(found)]


@pytest.mark.long
@given(st.text(max_size=9), st.floats(6, 3000), st.floats(0.05, 0.95), st.floats(15, 60))
def test_the_ratio_holds_in_sequences_of_any_length(
    name: str, seconds: float, ratio: float, block_s: float
) -> None:
    found, smaller = groups(name, seconds, 5, ratio, block_s), min(ratio, 1 - ratio)
    blocks = max(round((seconds - 0.2) / block_s), math.ceil(1 / min(ratio, 1 - ratio) - 1e-9))
    tolerance = 0.51 / blocks + (2 * blocks + 2) / len(found)
    few, many = ("val", "train") if ratio <= 0.5 else ("train", "val")
    assert found.count(few) / len(found) == pytest.approx(smaller, abs=tolerance)
    assert found.count(many) > 0


@pytest.mark.parametrize("name", [f"maivin_2026_03_14_10_20_{i:02d}" for i in range(20)])
@pytest.mark.parametrize(("rate", "seconds"), [(30, 6), (1, 6), (1, 10), (10, 60)])
def test_a_short_recording_has_both_groups(name: str, rate: float, seconds: float) -> None:
    found = groups(name, seconds, rate, 0.2, 10.0)
    assert 0.1 <= found.count("val") / len(found) <= 0.34


def test_a_block_of_the_smaller_group_is_never_torn() -> None:
    found = runs(groups("seq", 1000, 2, 0.2, 10.0))
    assert all(abs(length / 20 - round(length / 20)) <= 0.1 for group, length in found if group == "val")


@pytest.mark.parametrize(("seconds", "ratio"), [(1000, 0.2), (300, 0.8), (30, 0.2), (20, 0.5), (6, 0.1)])
def test_no_sample_of_a_group_is_a_neighbour_of_the_other(seconds: float, ratio: float) -> None:
    """Within 5 s a vehicle sees much the same; in sequences of less than 30 s, within a sixth of them."""
    least = min(5.0, seconds / 6) - 0.3
    for number in range(20):
        found = groups(f"seq{number}", seconds, 10, ratio, 30.0)
        used = [(i / 10, group) for i, group in enumerate(found) if group != "test"]
        assert min(b - a for (a, one), (b, other) in pairwise(used) if one != other) >= least


def test_sequences_draw_different_blocks() -> None:
    assert len({tuple(groups(f"seq{number}", 6, 5, 0.2, 10.0)) for number in range(30)}) == 5


def test_it_is_the_same_everywhere() -> None:
    found = groups("maivin-test_2026_03_14_10_20_30", 6, 5, 0.2, 10.0)
    assert runs(found) == [("val", 6), ("test", 5), ("train", 19)]


@pytest.mark.parametrize(("ratio", "group"), [(0.0, "train"), (1.0, "val")])
def test_all_or_none(ratio: float, group: str) -> None:
    assert set(groups("seq", 100, 3, ratio, 10.0)) == {group}


def test_a_single_sample_has_a_group() -> None:
    assert BlockSplit("seq", 7, 7, 0.2, 10.0).group(7) in ("train", "val")
