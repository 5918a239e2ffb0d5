"""Where the configuration says that sensors are: against scipy, and faults that say what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial.transform import Rotation

from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import placed
from edgefirst_ros.formats.ncore.poses import frames_in_rig
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.transform import Transform

LIDAR = {"role": "lidar_points", "topic": "/points"}
CAMERA = {"role": "camera", "topic": "/image"}
# What makes optical axes (z ahead) of a body's (x ahead), in degrees about fixed axes.
OPTICAL = Rotation.from_euler("xyz", [-90, 0, -90], degrees=True)


def in_rig(topics: dict[str, Any], *more: Transform) -> dict[str, npt.NDArray[np.float64]]:
    """T_frame_rig of every frame."""
    transforms = [*placed(build_config({"topics": topics})).values(), *more]
    rows = ((t.parent, t.child, t.translation_m, t.rotation_xyzw) for t in transforms)
    return frames_in_rig(rows, "base_link")


def pose(rotation: Rotation, *translation_m: float) -> npt.NDArray[np.float64]:
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = rotation.as_matrix(), translation_m
    return made


def test_angles_and_a_quaternion_say_the_same() -> None:
    turn = Rotation.from_euler("xyz", [4.0, -11.0, 73.0], degrees=True)
    given = {"xyz_m": [1.0, 0.5, 1.6]}
    xyzw = (turn * OPTICAL).as_quat().tolist()
    found = in_rig(
        {
            "by_angles": CAMERA | {"mount": given | {"rpy_deg": [4.0, -11.0, 73.0]}},
            "by_quaternion": CAMERA | {"mount": given | {"xyzw": xyzw}},
            "a_lidar": LIDAR | {"mount": {"xyzw": (2 * turn.as_quat() / 2.01).round(4).tolist()}},
        }
    )
    assert found["by_angles"] == pytest.approx(pose(turn * OPTICAL, 1.0, 0.5, 1.6), abs=1e-9)
    assert found["by_quaternion"] == pytest.approx(found["by_angles"], abs=1e-9)
    assert found["a_lidar"] == pytest.approx(pose(turn, 0, 0, 0), abs=1e-3)


def test_a_sensor_is_placed_in_a_frame_of_transforms_and_on_another_sensor() -> None:
    mast_turn = Rotation.from_euler("xyz", [0, 5, 90], degrees=True)
    mast = Transform("base_link", "mast", (-0.5, 0.0, 2.0), tuple(mast_turn.as_quat()))
    top = {"xyz_m": [0.1, 0.0, 0.3], "rpy_deg": [0.0, 0.0, 10.0], "in": "/mast"}
    eye = {"xyz_m": [0.2, 0.0, -0.1], "in": "top"}
    found = in_rig({"top": LIDAR | {"mount": top}, "eye": CAMERA | {"mount": eye}}, mast)
    T_mast_rig = pose(mast_turn, -0.5, 0.0, 2.0)
    T_top_rig = T_mast_rig @ pose(Rotation.from_euler("z", 10, degrees=True), 0.1, 0.0, 0.3)
    assert found["top"] == pytest.approx(T_top_rig, abs=1e-9)
    assert found["eye"] == pytest.approx(T_top_rig @ pose(OPTICAL, 0.2, 0.0, -0.1), abs=1e-9)


@pytest.mark.parametrize(
    ("topics", "fault"),
    [
        (
            {"a": LIDAR | {"mount": {"rpy_deg": [0, 0, 0], "xyzw": [0, 0, 0, 1]}}},
            "topics.a.mount: rpy_deg and xyzw both say how it is turned: give one of them",
        ),
        (
            {"a": LIDAR | {"mount": {"xyzw": [1, 1, 0, 0]}}},
            "topics.a.mount.xyzw: expected a quaternion of length 1, found one of 1.414: give x, y, z, w",
        ),
        (
            {"a": LIDAR | {"mount": {"xyzw": [float("nan"), 1, 0, 0]}}},
            "topics.a.mount.xyzw.0: expected a finite number, found nan",
        ),
        (
            {"a": LIDAR | {"mount": {"in": "mast"}}},
            "topics.a.mount: in places nothing by itself: give xyz_m, where the sensor is in it",
        ),
        (
            {
                "a": LIDAR | {"mount": {"xyz_m": [0, 0, 1], "in": "b"}},
                "b": LIDAR | {"mount": {"xyz_m": [0, 0, 1], "in": "/a"}},
            },
            "topics.a.mount.in: a is mounted on b is mounted on a; name a frame that leads to the rig's",
        ),
    ],
)
def test_a_fault_says_what_to_do(topics: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_config({"topics": topics})
    assert caught.value.faults == [fault]
