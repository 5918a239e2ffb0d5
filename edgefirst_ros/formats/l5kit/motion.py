"""Candidates of a frame to its rows of the agents array, by the motion of their tracks."""

from __future__ import annotations

import numpy as np

from edgefirst_ros.formats.l5kit.candidates import Candidates
from edgefirst_ros.formats.l5kit.geometry import Floats, wrapped, yaw_of
from edgefirst_ros.formats.l5kit.prepare import Pose
from edgefirst_ros.formats.l5kit.schema import AGENT, Records
from edgefirst_ros.formats.l5kit.tracks import Tracks


def agent_rows(candidates: Candidates, pose: Pose, tracks: Tracks, time_ns: int) -> Records:
    """Rows (N,) of AGENT, in the world of the pose.

    Centroid is the middle as placed, velocity the track's motion, yaw its direction or the ego's. Extent is
    length, width, height. Where the depth was not measured, length and width are those of the class's
    typical proportions that look as wide as was measured, seen along the bearing under this yaw.
    """
    place = np.concatenate([candidates.place_m, np.zeros((len(candidates), 1))], axis=1)
    world = (place @ pose.rotation.T + pose.position_m)[:, :2]
    ego_yaw = float(yaw_of(pose.rotation))
    motion = tracks.see(candidates.key, world, time_ns)
    yaw = np.where(np.isnan(motion.heading_rad), ego_yaw, motion.heading_rad)
    size, label = tracks.smoothed(
        motion, _sizes(candidates, yaw - ego_yaw - candidates.bearing_rad), candidates.label
    )
    rows = np.zeros(len(candidates), AGENT)
    rows["centroid"], rows["extent"], rows["yaw"] = world, size, wrapped(yaw)
    rows["velocity"], rows["track_id"] = motion.velocity_m_s, motion.number
    rows["label_probabilities"] = label
    return rows


def _sizes(candidates: Candidates, turned_rad: Floats) -> Floats:
    """Length, width, height (N, 3) of objects turned by so much against the bearing they are seen along."""
    along, across = np.abs(np.cos(turned_rad)), np.abs(np.sin(turned_rad))
    proportion = candidates.typical_m[:, 0] / candidates.typical_m[:, 1]
    width = candidates.lateral_m / (proportion * across + along)
    measured = ~np.isnan(candidates.depth_m)
    ahead = along >= across
    length = np.where(ahead, candidates.depth_m, candidates.lateral_m)
    length = np.where(measured, length, proportion * width)
    width = np.where(measured, np.where(ahead, candidates.lateral_m, candidates.depth_m), width)
    return np.stack([length, width, candidates.height_m], axis=1)
