"""Where frames on mounts that move are at any time, from transforms that come before their place in time."""

from __future__ import annotations

import math

import pytest

from edgefirst_ros.model.sample import Measurement, Role
from edgefirst_ros.model.transform import Transform, Transforms
from edgefirst_ros.pipeline.transforms import HELD_NS, MOST_GAP_NS, TransformBuffer

MS = 1_000_000
LIDAR = Transform("head", "lidar", (0.1, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def turned(degrees: float, child: str = "head", parent: str = "base_link") -> Transform:
    half = math.radians(degrees) / 2
    return Transform(parent, child, (0.0, 0.0, degrees), (0.0, 0.0, math.sin(half), math.cos(half)))


def message(at_ms: float, *transforms: Transform, later_ms: float = 0.0) -> Measurement:
    """Transforms of one message, all but the first of them ``later_ms``."""
    stamps = (round(at_ms * MS), *(round((at_ms + later_ms) * MS) for _ in transforms[1:]))
    return Measurement("/tf", stamps[0], stamps[0], 0, 0, "", Transforms(transforms, stamps))


def swung(steps: int = 5, each_ms: float = 50.0, each_deg: float = 2.0) -> TransformBuffer:
    found = TransformBuffer("base_link", {})
    found.arrive(Measurement("/points", 0, 0, 0, 0, "/lidar", None), Role.LIDAR_POINTS)  # type: ignore[arg-type]
    found.arrive(message(0, LIDAR), Role.TF)
    for step in range(steps):
        moved = turned(step * each_deg), turned(9 * step, "base_link", "odom"), turned(step, "arm")
        found.arrive(message(step * each_ms, *moved), Role.TF)
    return found


def degrees(found: TransformBuffer, at_ms: float) -> float:
    placed = found.at(round(at_ms * MS), "/lidar")
    assert placed.keys() == {"head"}
    _, _, z, w = placed["head"].rotation_xyzw
    angle = math.degrees(2 * math.atan2(z, w))
    assert placed["head"].translation_m[2] == pytest.approx(angle)
    return angle


def test_between_two_transforms_it_is_on_the_way_and_beyond_them_nothing_is_made_up() -> None:
    """Only what a sensor hangs on: no arm without one, and not what carries the rig."""
    here = swung()
    assert [degrees(here, at_ms) for at_ms in (0, 30, 100, 187.5, 200)] == pytest.approx([0, 1.2, 4, 7.5, 8])
    assert not here.held
    assert degrees(here, 200 + HELD_NS / MS) == pytest.approx(8)
    assert not here.held
    assert degrees(here, 260) == pytest.approx(8)
    assert degrees(here, -60) == pytest.approx(0)
    assert here.held == {"head": 2}
    here.at(300 * MS, "another")
    assert here.held == {"head": 2}


def test_one_that_came_late_is_in_its_place_and_one_that_came_twice_counts_once() -> None:
    here = swung()
    here.arrive(message(75, turned(20.0)), Role.TF)
    here.arrive(message(75, turned(20.0)), Role.TF)
    assert [degrees(here, at_ms) for at_ms in (62.5, 75, 87.5)] == pytest.approx([11, 20, 12])


def test_across_a_gap_the_last_one_holds_and_that_is_counted() -> None:
    here = swung()
    gap_ms = MOST_GAP_NS / MS + 1
    here.arrive(message(200 + gap_ms, turned(30.0)), Role.TF)
    assert degrees(here, 200 + gap_ms / 2) == pytest.approx(8)
    assert here.held == {"head": 1}


def test_a_mount_at_rest_is_where_it_is_however_seldom_that_is_said() -> None:
    here = swung()
    for at_ms in (10_000, 20_000, 30_000):
        here.arrive(message(at_ms, turned(8.0)), Role.TF)
    assert [degrees(here, at_ms) for at_ms in (9_000, 25_000, 40_000)] == pytest.approx([8, 8, 8])
    assert not here.held


def test_what_was_corrected_once_or_twice_or_is_configured_does_not_move() -> None:
    assert swung(3).at(60 * MS, "lidar") == {}
    here = TransformBuffer("base_link", {"head": turned(3.0)})
    here.arrive(Measurement("/points", 0, 0, 0, 0, "head", None), Role.LIDAR_POINTS)  # type: ignore[arg-type]
    for step in range(9):
        here.arrive(message(50 * step, turned(step)), Role.TF)
    assert here.at(60 * MS, "head") == {}


def test_transforms_of_one_message_have_their_own_stamps() -> None:
    here = swung(1)
    for step in range(1, 9):
        here.arrive(message(50 * step, turned(step, "arm"), turned(2.0 * step), later_ms=20.0), Role.TF)
    assert degrees(here, 170) == pytest.approx(6)
