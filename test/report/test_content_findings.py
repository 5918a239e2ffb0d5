"""What is said and graded of what sensors showed."""

from __future__ import annotations

from typing import Any

import pytest
from reports import ns, report, stream

from edgefirst_ros.model.reasons import Code, Severity
from edgefirst_ros.report.content import content_now
from edgefirst_ros.report.judge import Verdict, judge, warnings_of
from edgefirst_ros.report.models import parsed


def spells(*spans_s: tuple[float, float]) -> dict[str, Any]:
    return {
        "count": len(spans_s),
        "total_s": sum(b - a for a, b in spans_s),
        "longest_ns": [[ns(a), ns(b)] for a, b in spans_s],
    }


def values(*, moves: bool = True, **conditions: dict[str, Any]) -> dict[str, Any]:
    """A drive of 180 s: by role, the spells of its topic."""
    roles = {"camera": 30.0, "lidar_points": 10.0, "imu": 100.0, "gps": 10.0}
    streams = {
        f"/{role}": stream(role, 0, 180, hz) | {"spells": conditions.get(role, {}), "is_watched": True}
        for role, hz in roles.items()
    }
    made = report(streams)
    points = [[ns(n), 5.0 * n * moves, 0.0, 0.0, 0, 0] for n in range(180)]
    made["sequences"][0]["track"] = {"origins": [None], "bases": ["measured"], "points": points}
    return made


def judged(*, moves: bool = True, **conditions: dict[str, Any]) -> Verdict:
    return judge(parsed(values(moves=moves, **conditions)))


@pytest.mark.parametrize("condition", ["black", "blank", "zero_points", "frozen"])
def test_what_is_wrong_for_long_is_said_with_its_time_and_graded(condition: str) -> None:
    role = "lidar_points" if condition == "zero_points" else "camera"
    for end_s, grade in ((75, "good"), (120, "fair"), (170, "poor")):
        found = judged(**{role: {condition: spells((60, end_s))}})
        assert found.grade == grade
        (finding,) = found.findings
        assert (finding.code, finding.topics) == (Code(condition), (f"/{role}",))
        assert (finding.begin_ns, finding.end_ns) == (ns(60), ns(end_s))
        assert f"for {end_s - 60} s from 01:00" in found.sentence
        assert "nothing lost" not in found.sentence


def test_a_simulated_sensor_that_stands_may_repeat_itself() -> None:
    still = {"frozen": spells((60, 120))}
    found = judged(moves=False, camera=still, lidar_points=still, imu=still)
    assert found.grade == "good"
    assert {each.severity for each in found.findings} == {Severity.NOTE}


def test_one_that_never_shows_anything_else_is_broken_even_if_the_rig_stands() -> None:
    assert judged(moves=False, camera={"frozen": spells((0, 180))}).grade == "poor"
    world = {"frozen": spells((0, 180))}
    assert judged(moves=False, camera=world, lidar_points=world, imu=world, gps=world).grade == "good"


def test_an_imu_that_is_frozen_tells_nothing_about_its_mounting() -> None:
    made = values()
    made["sequences"][0]["mounting"] = "set topics.imu.mount.xyzw: [0, 0, 0, 1]"
    assert Code.IMU_ROTATED in {each.code for each in warnings_of(parsed(made))}
    made["sequences"][0]["streams"]["/imu"]["spells"] = {"frozen": spells((0, 180))}
    assert Code.IMU_ROTATED not in {each.code for each in warnings_of(parsed(made))}


def test_poses_that_are_doubted_make_a_drive_fair() -> None:
    made = values()
    assert judge(parsed(made)).grade == "good"
    made["sequences"][0]["doubts"] = ["the odometry turns -1 times as far as the gyroscope"]
    assert judge(parsed(made)).grade == "fair"
    assert Code.POSES_DOUBTED in {each.code for each in warnings_of(parsed(made))}


def test_a_position_that_is_unknown_makes_a_drive_fair() -> None:
    made = values()
    made["sequences"][0]["poses_s"] = {"position": {"measured": 0.0, "assumed": 14.0}}
    found = judge(parsed(made))
    assert (found.grade, [each.code for each in found.findings]) == ("fair", [Code.POSE_UNKNOWN])
    made["sequences"][0]["poses_s"] = {"position": {"measured": 170.0, "assumed": 10.0}}
    assert judge(parsed(made)).grade == "good"


def test_damage_of_a_recording_is_said_and_graded() -> None:
    made = values()
    made["recordings"] = [{"file": "x.mcap", "bytes": 10**9, "faults": []}]
    assert judge(parsed(made)).grade == "good"
    made["recordings"][0]["faults"] = [{"offset": 40, "bytes": 638_000, "what": "cut off in a chunk"}]
    found = judge(parsed(made))
    assert (found.grade, [each.code for each in found.findings]) == ("fair", [Code.RECORDING_DAMAGED])
    assert "x.mcap: cut off in a chunk (638,000 bytes, at 40)" in found.sentence


def test_pictures_without_a_checksum_are_counted_in_the_verdict() -> None:
    made = values()
    made["topics"]["/camera"]["unchecked"] = 40
    found = judge(parsed(made))
    assert (found.grade, [each.code for each in found.findings]) == ("good", [Code.UNCHECKED])
    assert "/camera: no checksum covers 40 pictures of video" in found.sentence


def test_live_it_is_said_after_some_seconds() -> None:
    now = {"/camera": {"black": (0, 6 * 10**9)}, "/lidar": {"frozen": (0, 3 * 10**9)}, "/imu": {}}
    found = content_now(now)
    assert {topic: each.code for topic, each in found.items()} == {"/camera": Code.BLACK}
    assert "6 s" in found["/camera"].text
    still = {"frozen": (0, 9 * 10**9)}
    assert content_now({"/camera": still, "/lidar": still, "/imu": still}) == {}
