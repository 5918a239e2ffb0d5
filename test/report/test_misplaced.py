"""Places that no rig has are said, with what mends them, and graded; those of odd rigs are not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from reports import report, stream

from edgefirst_ros.model.pointcloud import TOO_FAR
from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.model.transform import matrix_of, product, quaternion_of_angles
from edgefirst_ros.report.judge import judge, warnings_of
from edgefirst_ros.report.models import parsed
from edgefirst_ros.report.sensors import assumed, misplaced, unstamped

OPTICAL = (-0.5, 0.5, -0.5, 0.5)
"""Of a camera that looks ahead, as ROS's static_transform_publisher has it for -90, 0, -90 degrees."""


def values(
    xyzw: Sequence[float] = OPTICAL,
    at_m: Sequence[float] = (1.2, 0.1, 1.5),
    *,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A drive with one camera, whose frame is its role's."""
    streams = {"/cam": {**stream("camera", 0, 180, 30.0), "sensor": "cam"}}
    made = report(streams)
    made["configuration"] = {"topics": {"cam": settings or {}}}
    made["sequences"][0]["calibration"] = {
        "transforms": [
            {"parent": "base_link", "child": "camera", "translation_m": at_m, "rotation_xyzw": xyzw}
        ],
    }
    return made


def found(made: dict[str, Any]) -> list[Finding]:
    return [*misplaced(parsed(made))]


def mended(text: str) -> tuple[list[float], list[float]]:
    """The place that a sentence gives."""
    place, turn = re.findall(r"\[(.*?)\]", text)
    return [float(each) for each in place.split(", ")], [float(each) for each in turn.split(", ")]


def turned(*rpy_deg: float) -> list[float]:
    """An optical frame on a body that is turned so."""
    made: list[float] = product(quaternion_of_angles(np.radians(rpy_deg)), np.array(OPTICAL)).tolist()
    return made


@pytest.mark.parametrize("yaw_deg", [0, 90, 180, -37])
def test_a_body_frame_is_found_and_the_line_mends_it(yaw_deg: float) -> None:
    made = values(quaternion_of_angles(np.radians((0, 20, yaw_deg))).tolist())
    (finding,) = found(made)
    assert finding.code is Code.MISPLACED
    assert judge(parsed(made)).grade == "fair"
    assert finding in warnings_of(parsed(made))
    at_m, xyzw = mended(finding.text)
    assert at_m == [1.2, 0.1, 1.5]
    assert matrix_of(xyzw) == pytest.approx(matrix_of(turned(0, 20, yaw_deg)), abs=1e-5)
    assert not found(values(xyzw, at_m))


@pytest.mark.parametrize(
    "rpy_deg",
    [
        *((0, pitch, yaw) for yaw in range(-180, 180, 45) for pitch in (-45, 0, 45, 90)),
        *((roll, 0, yaw) for yaw in (0, 90, 180, -90) for roll in (90, 180, -90)),
    ],
)
def test_cameras_of_any_yaw_down_upside_down_or_portrait_are_none(rpy_deg: tuple[float, ...]) -> None:
    assert not found(values(turned(*rpy_deg)))


def test_one_that_does_look_up_is_settled_by_the_configuration() -> None:
    sky = turned(0, -90, 0)
    assert [each.code for each in found(values(sky))] == [Code.MISPLACED]
    assert not found(values(sky, settings={"mount": {"xyzw": sky, "xyz_m": [1.2, 0.1, 1.5]}}))


def test_one_that_is_turned_while_it_drives_is_none() -> None:
    made = values((0.0, 0.0, 0.0, 1.0))
    mount = {"frame": "camera", "parent": "base_link", "moved_m": 0, "turned_deg": 9, "topics": ["/cam"]}
    made["sequences"][0]["mounts"] = [mount]
    assert not found(made)


@pytest.mark.parametrize(("at_m", "said"), [((1200.0, 0, 1500.0), "1,921 m"), ((20.0, 0, 5.0), "")])
def test_millimetres_are_no_metres(at_m: tuple[float, ...], said: str) -> None:
    told = [each.text for each in found(values(at_m=at_m))]
    assert [said in each for each in told] == [True] * bool(said)


def rigged(*placed: str, streams: Sequence[str] = ("camera", "lidar_points")) -> dict[str, Any]:
    """A drive with these sensors, of which transforms place some."""
    made = report({f"/{role}": {**stream(role, 0, 180, 10.0), "sensor": role} for role in streams})
    at = {"parent": "base_link", "translation_m": (1, 0, 1), "rotation_xyzw": OPTICAL}
    made["sequences"][0]["calibration"] = {"transforms": [{**at, "child": role} for role in placed]}
    return made


def test_sensors_that_nobody_places_are_said_and_no_such_drive_is_good() -> None:
    verdict = judge(parsed(rigged()))
    assert verdict.grade == "fair"
    assert "extrinsics of 2 sensors are assumed: camera, lidar_points" in verdict.sentence
    assert "intrinsics of 1 sensor are assumed: camera" in verdict.sentence
    assert judge(parsed(rigged("camera", "lidar_points"))).grade == "good"
    (only,) = (each for each in assumed(parsed(rigged("camera"))) if each.severity)
    assert only.text == "extrinsics of 1 sensor are assumed: lidar_points"
    # Alone it is where it is, but nobody says how it sees.
    (only,) = assumed(parsed(rigged(streams=["camera"])))
    assert (only.text, only.severity) == ("intrinsics of 1 sensor are assumed: camera", Severity.NOTE)


@pytest.mark.parametrize(
    ("why", "grade"), [("no transform from lidar to base_link", "poor"), (TOO_FAR, "good")]
)
def test_parts_that_are_not_written_count_but_for_stray_points(why: str, grade: str) -> None:
    made = rigged("camera", "lidar_points")
    made["topics"]["/lidar_points"]["refused_parts"] = {why: made["topics"]["/lidar_points"]["received"]}
    verdict = judge(parsed(made))
    assert verdict.grade == grade
    assert (why in verdict.sentence) is (grade == "poor")


def test_times_that_are_guessed_are_said_unless_they_were_chosen() -> None:
    made = values()
    for text, expected in (("it has no stamp", [Code.UNSTAMPED]), ("receive time, as configured", [])):
        made["sequences"][0]["clocks"] = {"/cam": {"source": "receive", "finding": text}}
        assert [each.code for each in unstamped(parsed(made))] == expected
        assert judge(parsed(made)).grade == ("fair" if expected else "good")
