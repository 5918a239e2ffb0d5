"""The track of the report: bounded, regular in time, and in one frame or several."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from edgefirst_ros.model.sample import EgoPose, GeoPoint, PoseBasis
from edgefirst_ros.pipeline.context import MOST_POINTS, PoseAccount, Track

HERE, THERE = GeoPoint(45.5, -73.5, 30.0), GeoPoint(46.0, -73.5, 30.0)


def pose(time_s: float, east: float, origin: GeoPoint | None = HERE) -> EgoPose:
    basis = PoseBasis.MEASURED
    return EgoPose(round(time_s * 1e9), origin=origin, position_m=(east, 0.0, 0.0), position_basis=basis)


def test_an_hour_is_thinned_evenly() -> None:
    track = Track()
    for number in range(3_600 * 40):
        track.add(pose(number / 40, number / 4))
    found = track.summary()
    assert found is not None
    points = found["points"]
    assert MOST_POINTS / 2 < len(points) <= MOST_POINTS
    assert points[0][:2] == [0, 0.0]
    steps = {b[0] - a[0] for a, b in pairwise(points)}
    assert max(steps) < 2 * min(steps)
    assert points[-1][0] > 3_590 * 10**9


def test_each_local_frame_has_its_origin() -> None:
    track = Track()
    track.add(pose(0, 1.0))
    track.add(pose(1, 2.0, THERE))
    found = track.summary()
    assert found is not None
    assert [origin["latitude"] for origin in found["origins"]] == [45.5, 46.0]
    assert [point[4] for point in found["points"]] == [0, 1]


def test_a_rig_that_lies_on_its_side_is_doubted() -> None:
    leaning, lying = PoseAccount(), PoseAccount()
    for number in range(10):
        at = EgoPose(number * 10**9, rotation_basis=PoseBasis.MEASURED)
        leaning.add(replace(at, rotation_xyzw=(0.34, 0.0, 0.0, 0.94)))  # 40 degrees
        lying.add(replace(at, rotation_xyzw=(0.7, 0.0, 0.0, 0.714)))  # 89 degrees of roll
    assert not leaning.doubts
    assert "mount.xyzw" in lying.doubts[0]
