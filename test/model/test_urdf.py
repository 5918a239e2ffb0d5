"""Descriptions of robots: fixed joints against scipy, and texts that are none."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from wire_encoder import encode

from edgefirst_ros.formats.ncore.poses import frames_in_rig
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.transform import RobotDescription, decode_description

ROBOT = """\
<?xml version="1.0" ?>
<!-- made by xacro -->
<robot name="rover" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <link name="base_footprint"/>
  <link name="base_link"><visual><origin xyz="9 9 9"/><geometry><box size="1 1 1"/></geometry></visual></link>
  <joint name="base" type="fixed">
    <origin xyz="0 0 0.33"/><parent link="base_footprint"/><child link="base_link"/>
  </joint>
  <joint name="mast" type="fixed">
    <parent link="base_link"/><child link="mast"/><origin rpy="0.3 -0.2 1.9" xyz="-0.4 0.02 1.1"/>
  </joint>
  <joint name="eye" type="fixed">
    <parent link="mast"/><child link="eye_optical"/><origin rpy="-1.5707963 0 -1.5707963" xyz="1e-1 0 0"/>
  </joint>
  <joint name="hand" type="fixed"><parent link="base_link"/><child link="hand"/></joint>
  <joint name="pan" type="revolute">
    <parent link="mast"/><child link="pan_link"/><origin rpy="0 0 1" xyz="0 0 1"/><limit effort="0"/>
  </joint>
  <joint name="wheel" type="continuous"><parent link="base_link"/><child link="wheel"/></joint>
  <transmission name="t"><joint name="pan"><parent link="x"/></joint></transmission>
  <gazebo reference="mast"><sensor><joint name="no" type="fixed"/></sensor></gazebo>
</robot>
"""


def decoded(text: str) -> RobotDescription:
    found = decode_description(encode("std_msgs/String", {"data": text}))
    assert (found.stamp_ns, found.frame_id) == (0, "")
    return found.datum


def test_fixed_joints_are_where_an_independent_computation_puts_them() -> None:
    robot = decoded(ROBOT)
    rows = [(t.parent, t.child, t.translation_m, t.rotation_xyzw) for t in robot.transforms]
    found = frames_in_rig(rows, "base_footprint")
    expected = {"base_footprint": np.eye(4)}
    for joint in ET.fromstring(ROBOT).findall("joint[@type='fixed']"):
        origin = joint.find("origin")
        values = {} if origin is None else origin.attrib
        xyz, rpy = ([float(each) for each in values.get(name, "0 0 0").split()] for name in ("xyz", "rpy"))
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_euler("xyz", rpy).as_matrix()  # about axes that stay
        pose[:3, 3] = xyz
        parent, child = (joint.find(name) for name in ("parent", "child"))
        assert parent is not None
        assert child is not None
        expected[child.attrib["link"]] = expected[parent.attrib["link"]] @ pose
    assert (
        found.keys() == expected.keys() - {"base_footprint"} == {"base_link", "mast", "eye_optical", "hand"}
    )
    for frame, pose in found.items():
        assert pose == pytest.approx(expected[frame], abs=1e-9)


BOMB = '<!DOCTYPE robot [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><robot name="&b;"/>'
OUTSIDE = '<!DOCTYPE robot SYSTEM "file:///etc/passwd"><robot/>'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hello", "is not XML"),
        ("", "is not XML"),
        ("<robot>", "is not XML"),
        ("<sdf><robot/></sdf>", r"no robot's description \(URDF\)"),
        (BOMB, "has a document type"),
        (OUTSIDE, "has a document type"),
        ("<robot>" + "<a>" * 100_000, "nested too deeply"),
        ("<robot>" + '<joint type="fixed"/>' * 10_002 + "</robot>", "too many joints"),
        (ROBOT.replace("0 0 0.33", "0 0.33"), "the xyz of a fixed joint is not three numbers"),
        (ROBOT.replace("0 0 0.33", "0 0 ${h}"), "the xyz of a fixed joint is not three numbers"),
        (ROBOT.replace("0.3 -0.2", "nan -0.2"), "the rpy of a fixed joint is not finite"),
        (ROBOT.replace("0 0 0.33", "0 0 1e30"), "out of range"),
        (ROBOT.replace('<child link="mast"/>', ""), "does not connect two frames"),
    ],
)
def test_what_is_no_description_is_refused(text: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decoded(text)
