"""Static transforms to the poses of sensors in the rig."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Container, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from edgefirst_ros.messages.calibration import Tile, split_tile
from edgefirst_ros.messages.transform import bare
from edgefirst_ros.model.rotations import matrix_of

Pose = npt.NDArray[np.float64]
"""(4, 4), maps points of the source frame to the target frame."""

RIG = "rig"
WORLD = "world"
WORLD_GLOBAL = "world_global"

POSE_DTYPE = "float32"
"""Of every written pose but (world, world_global): NVIDIA's converters write it, and NuRec takes no other."""
GLOBAL_DTYPE = "float64"
"""Of (world, world_global): in float32 a place on earth would be up to 0.25 m off."""

_LONGEST_KEY = 600
_OPTICAL_XYZW = (-0.5, 0.5, -0.5, 0.5)
"""Optical axes (x right, y down, z forward) in a frame with x forward, y left, z up (REP 103)."""

TransformRow = tuple[str, str, tuple[float, float, float], tuple[float, float, float, float]]
"""Parent, child, translation in metres, rotation x y z w."""


def matrix(translation_m: Iterable[float], rotation_xyzw: Iterable[float]) -> Pose:
    """A pose from a translation and a quaternion of any length but 0."""
    pose = np.eye(4)
    pose[:3, :3] = matrix_of(tuple(rotation_xyzw))
    pose[:3, 3] = tuple(translation_m)
    return pose


def inverse(pose: Pose) -> Pose:
    """The pose in the other direction."""
    result = np.eye(4)
    result[:3, :3] = pose[:3, :3].T
    result[:3, 3] = -pose[:3, :3].T @ pose[:3, 3]
    return result


def node(frame_id: str, rig_frame: str) -> str:
    """What a coordinate frame is called in the pose graph."""
    name = bare(frame_id)
    if name in {"", bare(rig_frame)}:
        return RIG
    return f"tf_{name}" if name in {RIG, WORLD, WORLD_GLOBAL} else name


def whole_camera(frame_id: str, known: Container[str]) -> tuple[str, Tile]:
    """The frame of the whole camera, and which quarter of its picture a frame is of.

    A tile is cut from the camera's picture, so it has the camera's optical frame. A frame that is ``known``
    stands for itself, whatever it is called.
    """
    frame = bare(frame_id)
    return (frame, "") if frame in known else split_tile(frame)


def frames_in_rig(transforms: Iterable[TransformRow], rig_frame: str) -> dict[str, Pose]:
    """T_frame_rig of every frame that is connected to ``rig_frame``, in whichever direction."""
    edges: dict[str, dict[str, Pose]] = {}
    for parent, child, translation_m, rotation_xyzw in transforms:
        T_child_parent = matrix(translation_m, rotation_xyzw)
        edges.setdefault(bare(child), {})[bare(parent)] = T_child_parent
        edges.setdefault(bare(parent), {})[bare(child)] = inverse(T_child_parent)
    rig = bare(rig_frame)
    found: dict[str, Pose] = {rig: np.eye(4)}
    queue = [rig]
    for frame in queue:
        for near in sorted(edges.get(frame, ())):
            if near not in found:
                found[near] = found[frame] @ edges[near][frame]
                queue.append(near)
    del found[rig]
    return found


def sensor_edges(
    transforms: Iterable[TransformRow], rig_frame: str, nodes: Mapping[str, tuple[str, bool]]
) -> tuple[dict[str, Pose], list[str]]:
    """T_node_rig of every node of the pose graph below rig, and which of them are assumed.

    Args:
        transforms: the static transforms in force.
        rig_frame: what tf calls the rig.
        nodes: every node that must be there: its coordinate frame, and whether it is a camera. A tile has
            the pose of its camera. Without a transform a node is at the rig's origin, a camera looking
            forward.
    """
    known = frames_in_rig(transforms, rig_frame)
    edges = {node(frame, rig_frame): pose for frame, pose in known.items()}
    assumed = []
    for name, (frame_id, camera) in nodes.items():
        frame = whole_camera(frame_id, known)[0] if camera else bare(frame_id)
        if name == RIG:
            continue
        if frame and frame in known:
            edges[name] = known[frame]
        elif frame == bare(rig_frame):
            edges[name] = np.eye(4)
        elif name not in edges:
            edges[name] = matrix((0.0, 0.0, 0.0), _OPTICAL_XYZW) if camera else np.eye(4)
            assumed.append(name)
    return edges, sorted(assumed)


def edge_of(key: str) -> tuple[str, str]:
    """Source and target of a pose, by its key in a store: a pair of names as Python writes it.

    Raises:
        ValueError: it is none.
        SyntaxError: likewise.
    """
    if len(key) > _LONGEST_KEY:  # it may be nested deeply
        raise ValueError(f"{key:.80} names no pose")
    source, target = literal_eval(key)
    return str(source), str(target)
