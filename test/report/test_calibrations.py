"""Calibrations that no rig has are said, with what mends them, and graded; those of odd rigs are not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from reports import report, stream

from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.model.transform import matrix_of, product, quaternion_of, quaternion_of_angles
from edgefirst_ros.report.calibrations import calibration_findings
from edgefirst_ros.report.judge import judge, warnings_of
from edgefirst_ros.report.models import parsed

OPTICAL = (-0.5, 0.5, -0.5, 0.5)
"""Of a camera that looks ahead, as ROS's static_transform_publisher has it for -90, 0, -90 degrees."""
LENS: dict[str, Any] = {
    "size": [640, 480], "focal_px": [500.0, 500.0], "principal_px": [318.0, 244.0],
    "distortion_model": "plumb_bob",
}  # fmt: skip


def values(
    xyzw: Sequence[float] = OPTICAL,
    at_m: Sequence[float] = (1.2, 0.1, 1.5),
    *,
    settings: dict[str, Any] | None = None,
    **lens: Any,  # noqa: ANN401 - any field of it
) -> dict[str, Any]:
    """A drive with one camera, whose frame is its role's."""
    streams = {"/cam": {**stream("camera", 0, 180, 30.0), "sensor": "cam"}}
    made = report(streams)
    made["configuration"] = {"topics": {"cam": settings or {}}}
    made["sequences"][0]["calibration"] = {
        "cameras": {"cam": LENS | lens},
        "transforms": [
            {"parent": "base_link", "child": "camera", "translation_m": at_m, "rotation_xyzw": xyzw}
        ],
    }
    return made


def found(made: dict[str, Any]) -> list[Finding]:
    return [*calibration_findings(parsed(made))]


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


@pytest.mark.parametrize("yaw_deg", [0, 60, 135, -120])
def test_an_inverse_is_found_and_the_line_mends_it(yaw_deg: float) -> None:
    xyzw = turned(0, 5, yaw_deg)
    turn = matrix_of(xyzw)
    made = values(quaternion_of(turn.T).tolist(), (-turn.T @ (1.2, 0.1, 1.5)).tolist())
    (finding,) = found(made)
    at_m, again = mended(finding.text)
    assert at_m == pytest.approx([1.2, 0.1, 1.5], abs=1e-3)
    assert matrix_of(again) == pytest.approx(turn, abs=1e-5)


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
    assert not found(values(sky, settings={"rotation_xyzw": sky, "xyz_m": [1.2, 0.1, 1.5]}))


def test_one_that_is_turned_while_it_drives_is_none() -> None:
    made = values((0.0, 0.0, 0.0, 1.0))
    mount = {"frame": "camera", "parent": "base_link", "moved_m": 0, "turned_deg": 9, "topics": ["/cam"]}
    made["sequences"][0]["mounts"] = [mount]
    assert not found(made)


@pytest.mark.parametrize(("at_m", "said"), [((1200.0, 0, 1500.0), "1,921 m"), ((20.0, 0, 5.0), "")])
def test_millimetres_are_no_metres(at_m: tuple[float, ...], said: str) -> None:
    told = [each.text for each in found(values(at_m=at_m))]
    assert [said in each for each in told] == [True] * bool(said)


@pytest.mark.parametrize(
    ("lens", "said"),
    [
        ({"focal_px": (0.9, 1.2), "principal_px": (0.5, 0.5)}, "180 degrees"),
        ({"focal_px": (4.0, 4.0)}, "as if K were not in pixels"),
        ({"focal_px": (60.0, 60.0), "distortion_model": "equidistant"}, "more than all around"),
        ({"principal_px": (244.0, 318.0)}, "exchanged"),
        (
            {"principal_px": (636.0, 488.0)},
            "0.99 and 1.02 of 640x480, as if K were of pictures 2.01 times as large",
        ),
        ({"principal_px": (159.0, 122.0)}, "0.503 times"),
        ({"principal_px": (0.5, 0.5)}, "0.00 and 0.00 of 640x480: mend"),
        ({"principal_px": (-40.0, 240.0)}, "-0.06 and 0.50"),
    ],
)
def test_intrinsics_that_no_camera_has(lens: dict[str, Any], said: str) -> None:
    (finding,) = found(values(**lens))
    assert (finding.code, said in finding.text) == (Code.CAMERA_INFO, True), finding.text
    assert judge(parsed(values(**lens))).grade == "fair"
    assert not found(values(**lens, settings={"info_file": {}}))


@pytest.mark.parametrize(
    "lens",
    [
        {},
        {"focal_px": (9000.0, 9000.0)},
        {"focal_px": (180.0, 180.0), "distortion_model": "rational_polynomial"},
        {"focal_px": (130.0, 130.0), "distortion_model": "equidistant"},
        {"focal_px": (60.0, 60.0), "distortion_model": "omni"},
        {"focal_px": (500.0, 280.0)},
        {"principal_px": (320.0, 140.0)},
        {"principal_px": (380.0, 190.0)},
    ],
    ids=["usual", "tele", "wide", "fisheye", "other model", "stretched", "cut", "decentred"],
)
def test_odd_lenses_are_none(lens: dict[str, Any]) -> None:
    assert not found(values(**lens))


def test_the_middle_of_a_tile_is_no_picture_s() -> None:
    made = values(principal_px=(640.0, 480.0))
    made["sequences"][0]["streams"]["/cam"]["frame_id"] = "camera_topleft"
    assert not found(made)


@pytest.mark.parametrize(
    ("frame", "severity"),
    [("camera", None), ("/camera", None), ("", None), ("rear", Severity.WARNING), ("lab", Severity.NOTE)],
)
def test_an_info_of_another_camera_contradicts_its_own(frame: str, severity: Severity | None) -> None:
    made = values()
    streams = made["sequences"][0]["streams"]
    streams["/rear"] = {**stream("camera", 0, 180, 30.0), "sensor": "rear", "frame_id": "rear"}
    streams["/info"] = {**stream("camera_info", 0, 180, 30.0), "sensor": "cam", "frame_id": frame}
    assert [each.severity for each in found(made)] == ([] if severity is None else [severity])
    assert not found({**made, "configuration": {"topics": {"cam": {"info_file": {}}}}})
