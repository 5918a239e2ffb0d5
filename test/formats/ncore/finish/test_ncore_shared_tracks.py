"""Cuboids of several topics: which of their tracks are of one object."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from edgefirst_ros.formats.ncore.finish.cuboids import CuboidTable
from edgefirst_ros.formats.ncore.finish.sharedtracks import share_tracks

Place = tuple[float, float]


class Seen(NamedTuple):
    """What a topic has of an object: where it is at a time in seconds, from when to when."""

    topic: str
    track: str
    at: Callable[[float], Place]
    begin_s: float = 0.0
    end_s: float = 2.0
    kind: str = "PEDESTRIAN"


def shared(*seen: Seen) -> list[set[str]]:
    """The tracks' names afterwards, of each as given."""
    boxes, places, owners = CuboidTable(), [], []
    for number, each in enumerate(seen):
        for step in range(20):
            time_s = step / 10 + 0.04 * (each.topic != "a")
            if each.begin_s <= time_s <= each.end_s:
                at_us = 1_000_000 + round(time_s * 1e6)
                bbox = {"centroid": [20.0, 0.0, 0.0], "dim": [1.0] * 3}
                told = {"timestamp_us": at_us, "reference_frame_timestamp_us": at_us, "bbox3": bbox}
                one = told | {"class_id": each.kind, "track_id": each.track}
                boxes.add("rig", [one], [[0.0] * 4], each.topic)
                boxes.mark([each.kind], [True], optical=False)
                places.append(each.at(time_s))
                owners.append(number)
    share_tracks(boxes, np.array(places), np.ones(len(places), np.bool_))
    found: list[set[str]] = [set() for _ in seen]
    for owner, text in zip(owners, boxes.tracks, strict=True):
        found[owner].add(boxes.texts[text])
    return found


def still(x: float, y: float) -> Callable[[float], Place]:
    return lambda _: (x, y)


def walking(x: float, y: float) -> Callable[[float], Place]:
    return lambda s: (x, y + 8 * s)


def test_an_object_of_two_topics_has_the_name_that_was_first() -> None:
    assert shared(Seen("a", "x", walking(20, 0)), Seen("b", "y", walking(20, 0), 0.5)) == [{"x"}, {"x"}]


@pytest.mark.parametrize("gap_s", [-0.3, 0.4])
def test_it_keeps_its_name_when_it_passes_to_the_other_camera(gap_s: float) -> None:
    one, other = Seen("a", "x", walking(20, 0), 0.0, 1.0), Seen("b", "y", walking(20, 0), 1.0 + gap_s)
    assert shared(one, other) == [{"x"}, {"x"}]


def test_two_people_beside_each_other_stay_two() -> None:
    here, there = still(20, 0), still(20, 2.5)
    assert shared(Seen("a", "x", here), Seen("b", "y", there)) == [{"x"}, {"y"}]
    every = [Seen(topic, topic + name, at) for topic in "ab" for name, at in (("x", here), ("y", there))]
    assert shared(*every) == [{"ax"}, {"ay"}, {"ax"}, {"ay"}]
    close = [each._replace(at=still(20, 0.6)) if each.track[1] == "y" else each for each in every]
    assert shared(*close) == [{"ax"}, {"ay"}, {"ax"}, {"ay"}]


def test_another_kind_or_another_time_is_another_object() -> None:
    assert shared(Seen("a", "x", still(20, 0)), Seen("b", "y", still(20, 0), kind="CAR")) == [{"x"}, {"y"}]
    assert shared(Seen("a", "x", still(20, 0), 0.0, 0.4), Seen("b", "y", still(20, 0), 1.5)) == [{"x"}, {"y"}]


def test_a_number_of_one_topic_means_nothing_to_another() -> None:
    """Trackers count from 1."""
    assert shared(Seen("a", "1", still(20, 0)), Seen("b", "1", still(9, 9))) == [{"1"}, {"b/1"}]


def test_of_one_topic_nothing_changes() -> None:
    assert shared(Seen("a", "x", still(20, 0), 0.0, 1.0), Seen("a", "y", still(20, 0), 1.1)) == [{"x"}, {"y"}]
