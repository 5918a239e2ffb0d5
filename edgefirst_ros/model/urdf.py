"""The description of a robot (URDF) as robot_state_publisher sends it: the transforms of its fixed joints."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from edgefirst_ros.model.cdr import Message, decoder_of
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.transform import Transform, plausible_transform, quaternion_of_angles
from edgefirst_ros.model.untrusted import displayed

_MOST_CHARACTERS = 16 << 20
"""Descriptions that hold their meshes have some megabytes."""
_DEEPEST, _MOST_JOINTS = 64, 10_000
_JOINT = ["robot", "joint"]
"""Elements of this name are also in those for transmissions, Gazebo and controllers."""


@dataclass(frozen=True, slots=True)
class RobotDescription:
    """Where links are on a robot.

    Attributes:
        transforms: of the fixed joints, as tf_static would have them.
        moving: the other joints, each with its type; only who measures them knows where their links are.
    """

    transforms: tuple[Transform, ...]
    moving: tuple[str, ...] = ()


@dataclass(slots=True)
class _Joint:
    name: str
    kind: str
    parent: str = ""
    child: str = ""
    origin: dict[str, str] = field(default_factory=dict)


class _Reader:
    """Takes the joints of a document, and refuses whatever a description needs not have."""

    def __init__(self) -> None:
        self.joints: list[_Joint] = []
        self._way: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._doctype

    def read(self, text: str) -> None:
        try:
            self._parser.Parse(text.encode(), True)
        except (expat.ExpatError, UnicodeEncodeError) as error:
            raise DecodeError("the robot's description is not XML") from error

    def _doctype(self, *_: Any) -> None:  # noqa: ANN401 - expat's
        raise DecodeError("the robot's description has a document type, and with it maybe entities")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._way.append(name)
        if len(self._way) > _DEEPEST or len(self.joints) > _MOST_JOINTS:
            raise DecodeError("the robot's description is nested too deeply, or has too many joints")
        if self._way[0] != "robot":
            raise DecodeError("no robot's description (URDF)")
        if self._way == _JOINT:
            self.joints.append(_Joint(attributes.get("name", ""), attributes.get("type", "")))
        elif self._way[:-1] == _JOINT:
            joint = self.joints[-1]
            if name == "origin":
                joint.origin = attributes
            elif name == "parent":
                joint.parent = attributes.get("link", "")
            elif name == "child":
                joint.child = attributes.get("link", "")

    def _end(self, _: str) -> None:
        self._way.pop()


@decoder_of("std_msgs/String")
def decode_description(message: Message) -> RobotDescription:
    """Decode a std_msgs/String with a URDF.

    Raises:
        DecodeError: no valid message of this type, no URDF, or a fixed joint without two links or with an
            origin that is none.
    """
    text = str(message.data)
    if len(text) > _MOST_CHARACTERS:
        raise DecodeError("the robot's description is too long")
    reader = _Reader()
    reader.read(text)
    fixed = tuple(_transform(each) for each in reader.joints if each.kind == "fixed")
    moving = (
        f"{displayed(each.name)} ({displayed(each.kind)})" for each in reader.joints if each.kind != "fixed"
    )
    return RobotDescription(fixed, tuple(moving))


def _transform(joint: _Joint) -> Transform:
    """Roll, pitch and yaw are about the parent's x, y and z, in this order."""
    x, y, z, w = map(float, quaternion_of_angles(_three(joint.origin, "rpy")))
    parent, child = displayed(joint.parent), displayed(joint.child)
    return plausible_transform(parent, child, _three(joint.origin, "xyz"), (x, y, z, w))


def _three(origin: dict[str, str], name: str) -> tuple[float, float, float]:
    try:
        x, y, z = map(float, origin.get(name, "0 0 0").split())
    except ValueError as error:
        raise DecodeError(f"the {name} of a fixed joint is not three numbers") from error
    if not all(map(math.isfinite, (x, y, z))):
        raise DecodeError(f"the {name} of a fixed joint is not finite")
    return x, y, z
