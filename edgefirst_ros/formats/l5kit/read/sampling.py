"""The dictionary of one sample, past, present and future of its subject, and which agents have samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.store.schema import AGENT, FIRST_AGENT, LAST_AGENT, Records
from edgefirst_ros.formats.tracks.rays import Floats, wrapped, yaw_of
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose sample it is: an agent by its track, or the ego vehicle (None).

    ``centroid`` (2,) and ``yaw`` in the world, ``extent`` (3,) length, width, height.
    """

    track_id: int | None
    centroid: Floats
    yaw: float
    extent: npt.NDArray[np.float32]

    def world_from_agent(self) -> Floats:
        """The subject's pose (3, 3): x ahead, y to the left."""
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        x, y = self.centroid
        return np.array([[c, -s, x], [s, c, y], [0.0, 0.0, 1.0]])

    def agent_from_world(self) -> Floats:
        """The inverse pose (3, 3)."""
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        x, y = self.centroid
        return np.array([[c, s, -c * x - s * y], [-s, c, s * x - c * y], [0.0, 0.0, 1.0]])


@dataclass(frozen=True, slots=True)
class SceneWindow:
    """Frames of one scene around the current one, in order of time, with everything in them.

    Attributes:
        now: index of the current frame in ``frames``.
        agents: of all these frames; empty if not asked for.
        agent_frame: (len(agents),), the index in ``frames`` of each.
    """

    frames: Records
    now: int
    agents: Records
    agent_frame: npt.NDArray[np.intp]


def read_window(
    dataset: ChunkedDataset, scene: tuple[int, int], frame: int, reach: tuple[int, int], *, agents: bool
) -> SceneWindow:
    """Read the frames around a frame.

    Args:
        dataset: to read from.
        scene: first frame and end of its scene.
        frame: the current one, counted over the dataset.
        reach: how many frames before and after.
        agents: whether to read the agents in them.
    """
    start = max(scene[0], frame - reach[0])
    frames = dataset.frames[start : min(scene[1], frame + 1 + reach[1])]
    rows, owner = np.zeros(0, AGENT), np.zeros(0, np.intp)
    if agents:
        intervals = frames["agent_index_interval"]
        rows = dataset.agents[contiguous(intervals, len(dataset.agents))]
        owner = np.repeat(np.arange(len(intervals)), intervals[:, 1] - intervals[:, 0])
    return SceneWindow(frames, frame - start, rows, owner)


def contiguous(intervals: npt.NDArray[np.int64], length: int) -> slice:
    """The rows that consecutive intervals (N, 2) cover, of so many that there are.

    Raises:
        ValueError: they leave gaps, overlap, or name rows that are not there.
    """
    starts, stops = intervals.T
    is_sound = len(starts) and (starts <= stops).all() and (starts[1:] == stops[:-1]).all()
    if not is_sound or not 0 <= starts[0] <= stops[-1] <= length:
        raise ValueError("intervals of frames are not one after the other, within the rows that there are")
    return slice(int(starts[0]), int(stops[-1]))


def counts_as_agent(agents: Records, threshold: float) -> npt.NDArray[np.bool_]:
    """Which agents (N,) L5Kit keeps: their labels CAR to ANIMAL add up to more than the threshold."""
    total = agents["label_probabilities"][:, FIRST_AGENT : LAST_AGENT + 1].sum(axis=1)
    kept: npt.NDArray[np.bool_] = total > threshold
    return kept


def ego_poses(frames: Records) -> tuple[Floats, Floats]:
    """Positions (N, 2) and yaws (N,) of the ego vehicle."""
    return frames["ego_translation"][:, :2], yaw_of(frames["ego_rotation"])


def track_poses(
    window: SceneWindow, track_id: int
) -> tuple[Floats, Floats, npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Positions (N, 2), yaws (N,), lengths and widths (N, 2) of a track in each frame; where it is (N,).

    They are 0 in frames without it.
    """
    count = len(window.frames)
    position, yaw, there = np.zeros((count, 2)), np.zeros(count), np.zeros(count, np.bool_)
    extent = np.zeros((count, 2), np.float32)
    own = np.flatnonzero(window.agents["track_id"] == track_id)
    frame = window.agent_frame[own]
    position[frame], yaw[frame] = window.agents["centroid"][own], window.agents["yaw"][own]
    extent[frame] = window.agents["extent"][own, :2]
    there[frame] = True
    return position, yaw, extent, there


Sample = dict[str, Any]

HOST_LENGTH = 70
"""Bytes of ``host_id``, as many as L5Kit gives it."""

_Float32 = npt.NDArray[np.float32]


def sample_of(
    window: SceneWindow,
    subject: Subject,
    reach: tuple[int, int],
    *,
    step_s: float,
    ego_extent_m: tuple[float, float, float],
) -> Sample:
    """A sample by L5Kit's keys, without the image that L5Kit draws.

    ``target_*`` are the frames after the current one, ``history_*`` the current one and then those before
    it, newest first. Positions (n, 2) and yaws (n, 1) are relative to the subject's current pose, float32;
    where the scene ends or the subject is not seen the availability (n,) is 0 and so are they.
    ``history_extents`` and ``future_extents`` (n, 2) are length and width, 0 there as well.

    ``target_velocities`` (n, 2) and ``history_velocities`` (n - 1, 2), m/s in float32, are differences of
    successive positions over ``step_s``, those of the past from the newer to the older; as in L5Kit an
    unavailable position counts as 0 in them, so look at the availabilities of both. ``curr_speed`` is the
    length of the first of ``history_velocities``, and not there without history.

    The matrices world_from_agent and agent_from_world are (3, 3) float64 and map points of the plane.
    ``centroid`` (2,), ``yaw`` and ``extent`` (3,) are the subject's in the world, ``track_id`` -1 the ego's.
    """
    agent_from_world = subject.agent_from_world()
    history, future = reach
    poses = _poses(window, subject, agent_from_world, ego_extent_m)
    past = _stretch(poses, np.arange(window.now, window.now - history - 1, -1))
    ahead = _stretch(poses, np.arange(window.now + 1, window.now + 1 + future))
    past_m_s = -np.diff(past[0], axis=0) / np.float32(step_s)
    sample = {
        "target_positions": ahead[0],
        "target_yaws": ahead[1],
        "target_velocities": np.diff(ahead[0], axis=0, prepend=np.zeros((1, 2), np.float32))
        / np.float32(step_s),
        "target_availabilities": ahead[3],
        "history_positions": past[0],
        "history_yaws": past[1],
        "history_velocities": past_m_s,
        "history_availabilities": past[3],
        "history_extents": past[2],
        "future_extents": ahead[2],
        "agent_from_world": agent_from_world,
        "world_from_agent": subject.world_from_agent(),
        "track_id": np.int64(-1 if subject.track_id is None else subject.track_id),
        "timestamp": np.int64(window.frames["timestamp"][window.now]),
        "centroid": subject.centroid,
        "yaw": subject.yaw,
        "extent": subject.extent,
    }
    if len(past_m_s):
        sample["curr_speed"] = np.linalg.norm(past_m_s[0])
    return sample


def host_id(host: str) -> npt.NDArray[np.uint8]:
    """A scene's host as L5Kit's samples carry it: (70,) bytes of ASCII, then zeros."""
    text = host.encode("ascii", "replace")[:HOST_LENGTH]
    return np.frombuffer(text.ljust(HOST_LENGTH, b"\0"), np.uint8).copy()


_Poses = tuple[Floats, Floats, npt.NDArray[np.float32], npt.NDArray[np.bool_]]


def _poses(
    window: SceneWindow, subject: Subject, agent_from_world: Floats, ego_extent_m: tuple[float, float, float]
) -> _Poses:
    """Position (N, 2), yaw (N,), extent (N, 2) and presence (N,) of the subject in each frame.

    Position and yaw are relative to its pose now.
    """
    if subject.track_id is None:
        position, yaw = ego_poses(window.frames)
        extent = np.tile(np.array(ego_extent_m[:2], np.float32), (len(yaw), 1))
        there = np.ones(len(yaw), np.bool_)
    else:
        position, yaw, extent, there = track_poses(window, subject.track_id)
    relative = position @ agent_from_world[:2, :2].T + agent_from_world[:2, 2]
    return relative, wrapped(yaw - subject.yaw), extent, there


def _stretch(poses: _Poses, frame: npt.NDArray[np.intp]) -> tuple[_Float32, _Float32, _Float32, _Float32]:
    """The poses of some frames, those beyond the scene included."""
    position, yaw, extent, there = poses
    within = (frame >= 0) & (frame < len(yaw))
    at = np.where(within, frame, 0)
    here = within & there[at]
    return (
        np.where(here[:, None], position[at], 0.0).astype(np.float32),
        np.where(here, yaw[at], 0.0).astype(np.float32)[:, None],
        np.where(here[:, None], extent[at], 0.0).astype(np.float32),
        here.astype(np.float32),
    )


Counts = npt.NDArray[np.uint32]
"""(N, 2): frames before and after in which the agent is seen without a break."""

_LEAST_AREA_M2 = 0.01


@dataclass(frozen=True, slots=True)
class AgentFilter:
    """When an agent counts as seen without a break; the defaults are L5Kit's.

    Attributes:
        probability: the labels CAR to ANIMAL must add up to more.
        distance_m: the agent must be nearer to the ego vehicle.
        yaw_deg: the heading must turn less from one frame to the next.
        extent_ratio: the area must grow or shrink by a smaller factor from one frame to the next.
    """

    probability: float = 0.5
    distance_m: float = 50.0
    yaw_deg: float = 30.0
    extent_ratio: float = 1.1


def agent_counts(dataset: ChunkedDataset, choice: AgentFilter) -> Counts:
    """For every agent of the dataset in how many frames before and after it is seen without a break.

    An agent that is improbable or far away has 0 and 0. A track is broken at such an agent, at a frame that
    lacks the track, and where heading or area jumps. Scenes are processed one at a time. Defined as in
    L5Kit's ``select_agents``, so that its thresholds mean the same here.
    """
    counts = np.zeros((len(dataset.agents), 2), np.uint32)
    for first, stop in dataset.scenes["frame_index_interval"].tolist():
        if first == stop:
            continue
        frames = dataset.frames[first:stop]
        with refusing(dataset.path, DatasetError, f"the scene from frame {first} on cannot be read"):
            rows = contiguous(frames["agent_index_interval"], len(dataset.agents))
            counts[rows] = _scene_counts(frames, dataset.agents[rows], choice)
    return counts


def _scene_counts(frames: Records, agents: Records, choice: AgentFilter) -> Counts:
    intervals = frames["agent_index_interval"]
    frame = np.repeat(np.arange(len(frames)), intervals[:, 1] - intervals[:, 0])
    away = np.linalg.norm(frames["ego_translation"][frame, :2] - agents["centroid"], axis=1)
    usable = counts_as_agent(agents, choice.probability) & (away < choice.distance_m)
    order = np.lexsort((frame, agents["track_id"]))
    track, at, good = agents["track_id"][order], frame[order], usable[order]
    yaw, extent = agents["yaw"][order].astype(np.float64), agents["extent"][order].astype(np.float64)
    area = extent[:, 0] * extent[:, 1]
    ratio = np.maximum(area[1:], area[:-1]) / np.maximum(np.minimum(area[1:], area[:-1]), _LEAST_AREA_M2)
    sized = area >= _LEAST_AREA_M2
    linked = (track[1:] == track[:-1]) & (at[1:] == at[:-1] + 1) & good[1:] & good[:-1]
    linked &= np.abs(np.degrees(wrapped(np.diff(yaw)))) < choice.yaw_deg
    linked &= (ratio < choice.extent_ratio) & sized[1:] & sized[:-1]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = ~linked
    start = np.flatnonzero(begins)
    chain = np.cumsum(begins) - 1
    length = np.diff(np.append(start, len(order)))
    before = np.arange(len(order)) - start[chain]
    counts = np.zeros((len(order), 2), np.uint32)
    counts[order] = np.stack([before, length[chain] - 1 - before], axis=1)
    return counts
