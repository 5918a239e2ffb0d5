"""What crosses between processes: values of every size, without a name that could stay behind."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgefirst_ros.pipeline.processes import GRAIN_BYTES, LARGE_BYTES, Area, Line, LinkClosed


@pytest.fixture
def lines() -> Iterator[tuple[Line, Line]]:
    one, other = socket.socketpair()
    there, back = Area(), Area()
    with one, other:
        yield Line(one, there, back), Line(other, Area(back.descriptor), Area(there.descriptor))
    there.close()
    back.close()


@pytest.mark.parametrize("size", [0, 1, LARGE_BYTES - 1, LARGE_BYTES, GRAIN_BYTES + 5, 5 * GRAIN_BYTES])
def test_values_of_every_size_cross_both_ways(lines: tuple[Line, Line], size: int) -> None:
    data = os.urandom(size)
    value = {"bytes": data, "array": np.frombuffer(data, np.uint8), "rest": [1, None, "äöü"]}
    for sender, receiver in (lines, lines[::-1]):
        for _ in range(2):
            sender.send(value)
            got = receiver.receive(copied=True)
            assert got["bytes"] == data
            assert np.array_equal(got["array"], value["array"])
            assert got["rest"] == value["rest"]


def test_copied_arrays_stay_and_others_are_views_that_cannot_be_written(lines: tuple[Line, Line]) -> None:
    first, second = (np.full(50_000, number, np.int32) for number in (1, 2))
    lines[0].send(first)
    copied = lines[1].receive(copied=True)
    lines[0].send(first)
    view = lines[1].receive(copied=False)
    assert (view == 1).all()
    assert not view.flags.writeable
    lines[0].send(second)
    assert (view == 2).all()
    assert (copied == 1).all()


def test_the_memory_has_no_name_and_ends_with_its_last_holder(lines: tuple[Line, Line]) -> None:
    area = Area()
    area.write([memoryview(b"x" * 100)])
    assert Path(f"/proc/self/fd/{area.descriptor}").readlink().name.endswith("(deleted)")
    area.close()


def test_the_end_of_the_other_side_is_told() -> None:
    one, other = socket.socketpair()
    there, back = Area(), Area()
    line = Line(one, there, back)
    other.close()
    with one, pytest.raises(LinkClosed):
        line.receive(copied=True)
    with pytest.raises(LinkClosed):
        line.send(1)
