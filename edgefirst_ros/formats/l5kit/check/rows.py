"""Checks of the rows of an L5Kit dataset: intervals, times, poses, agents, lights, points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.findings import Findings
from edgefirst_ros.formats.l5kit.store.chunkedarray import ChunkedArray
from edgefirst_ros.formats.l5kit.store.schema import (
    AGENTS,
    FACES,
    FRAMES,
    INTERVALS,
    LIDAR,
    POINTS,
    RADAR,
    SCENES,
    SPANS,
    Records,
)
from edgefirst_ros.formats.motion import POSE_NOISE_M, Motion

BLOCK = 10_000
"""Rows looked at together."""
_ORTHONORMAL = 1e-6
_SUM_TOLERANCE = 1e-3

Arrays = Mapping[str, ChunkedArray]


def check_coverage(arrays: Arrays, findings: Findings) -> bool:
    """Whether intervals are contiguous and cover their arrays, and every frame has a span."""
    before = findings.counts["error"]
    for covered, (owner, field) in INTERVALS.items():
        if covered in arrays and owner in arrays:
            _check_interval(arrays[owner], field, f"{owner}.{field}", len(arrays[covered]), findings)
    if SPANS in arrays and FRAMES in arrays and len(arrays[SPANS]) != len(arrays[FRAMES]):
        text = f"{len(arrays[SPANS])}, {len(arrays[FRAMES])} frames"
        findings.error(SPANS, "not one span per frame", text)
    return findings.counts["error"] == before


def _check_interval(owner: ChunkedArray, field: str, where: str, covered: int, findings: Findings) -> None:
    last = 0
    for start, rows in _blocks(owner):
        edges = rows[field]
        before = np.concatenate([[last], edges[:-1, 1]])
        for row in np.flatnonzero(edges[:, 1] < edges[:, 0]).tolist():
            findings.error(
                f"{where}@{start + row}", "interval ends before it starts", str(edges[row].tolist())
            )
        for row in np.flatnonzero(edges[:, 0] != before).tolist():
            text = f"{edges[row].tolist()} after {before[row]}"
            findings.error(
                f"{where}@{start + row}", "interval does not begin where the one before ends", text
            )
        last = int(edges[-1, 1])
    if last != covered:
        findings.error(where, "intervals do not cover all rows", f"{last}, {covered} rows")


def check_rows(arrays: Arrays, findings: Findings, *, covered: bool) -> None:
    """Check poses, agents, lights and points; times and tracks only if intervals were found to be sound."""
    for name, look in _ROWS.items():
        if name in arrays:
            for start, rows in _blocks(arrays[name]):
                look(start, rows, findings)
    if covered and SCENES in arrays and FRAMES in arrays:
        _check_times(arrays[SCENES], arrays[FRAMES], findings)
    if covered and FRAMES in arrays and AGENTS in arrays:
        _check_tracks(arrays[FRAMES], arrays[AGENTS], findings)


def _blocks(array: ChunkedArray) -> Iterator[tuple[int, Records]]:
    for start in range(0, len(array), BLOCK):
        yield start, array[start : start + BLOCK]


def _say(where: str, start: int, bad: npt.ArrayLike, what: str, findings: Findings) -> None:
    """Add a finding for every bad row."""
    by_row = np.asarray(bad, bool)
    for row in np.flatnonzero(by_row.reshape(len(by_row), -1).any(axis=1)).tolist():
        findings.error(f"{where}@{start + row}", what)


def _check_times(scenes: ChunkedArray, frames: ChunkedArray, findings: Findings) -> None:
    for start, rows in _blocks(scenes):
        for number, scene in enumerate(rows, start):
            where = f"{SCENES}@{number}"
            first, stop = (int(edge) for edge in scene["frame_index_interval"])
            if scene["end_time"] < scene["start_time"]:
                findings.error(where, "scene ends before it starts")
            if not 0 <= first < stop <= len(frames):
                if first == stop:
                    findings.warning(where, "scene without frames")
                continue
            begin, end = _check_scene_frames(frames, first, stop, findings)
            _check_motion(frames, first, stop, where, findings)
            if begin < scene["start_time"] or end > scene["end_time"]:
                text = f"[{begin}, {end}] in [{scene['start_time']}, {scene['end_time']}]"
                findings.warning(where, "frames lie outside the time of their scene", text)


def _check_scene_frames(frames: ChunkedArray, first: int, stop: int, findings: Findings) -> tuple[int, int]:
    """Check that a scene's frame times increase and match its start and end."""
    begin = last = None
    for at in range(first, stop, BLOCK):
        times = frames[at : min(at + BLOCK, stop)]["timestamp"]
        steps = np.diff(times, prepend=times[0] - 1 if last is None else last)
        _say(FRAMES, at, steps <= 0, "time is not after that of the frame before it", findings)
        begin, last = int(times[0]) if begin is None else begin, int(times[-1])
    return begin or 0, last or 0


def _check_motion(frames: ChunkedArray, first: int, stop: int, where: str, findings: Findings) -> None:
    """Check that the ego vehicle of a scene moves as a vehicle can."""
    motion = Motion(POSE_NOISE_M, findings.at(where))
    for at in range(first, stop, BLOCK):
        rows = frames[at : min(at + BLOCK, stop)]
        motion.move(rows["timestamp"], rows["ego_translation"].astype(np.float64))
        motion.turn(rows["timestamp"], rows["ego_rotation"].astype(np.float64))
    motion.finish()


def _check_poses(start: int, rows: Records, findings: Findings) -> None:
    rotation = rows["ego_rotation"].astype(np.float64)
    finite = np.isfinite(rotation).all(axis=(1, 2))
    _say(FRAMES, start, rows["timestamp"] <= 0, "frame without a time", findings)
    _say(FRAMES, start, ~np.isfinite(rows["ego_translation"]), "position is not finite", findings)
    _say(FRAMES, start, ~finite, "rotation is not finite", findings)
    rotation[~finite] = np.eye(3)
    off = np.abs(rotation @ rotation.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) > _ORTHONORMAL
    _say(FRAMES, start, off, "ego_rotation is not orthonormal", findings)
    _say(FRAMES, start, ~off & (np.linalg.det(rotation) < 0), "ego_rotation mirrors", findings)


def _check_agents(start: int, rows: Records, findings: Findings) -> None:
    for field in ("centroid", "extent", "yaw", "velocity"):
        values = rows[field].reshape(len(rows), -1)
        _say(AGENTS, start, ~np.isfinite(values), f"{field} is not finite", findings)
    _say(AGENTS, start, rows["extent"] < 0, "extent is negative", findings)
    _check_sums(AGENTS, start, rows["label_probabilities"], findings)


def _check_sums(where: str, start: int, values: npt.NDArray[Any], findings: Findings) -> None:
    with np.errstate(invalid="ignore"):
        inside = ((values >= -_SUM_TOLERANCE) & (values <= 1 + _SUM_TOLERANCE)).all(axis=1)
    _say(where, start, ~inside, "probabilities are not from 0 to 1", findings)
    off = np.abs(values.astype(np.float64).sum(axis=1) - 1) > _SUM_TOLERANCE
    _say(where, start, inside & off, "probabilities do not add up to 1", findings)


def _check_faces(start: int, rows: Records, findings: Findings) -> None:
    _check_sums(FACES, start, rows["traffic_light_face_status"], findings)


def _check_points(start: int, rows: Records, findings: Findings) -> None:
    known = np.isin(rows["sensor"], (LIDAR, RADAR))
    _say(POINTS, start, ~known, "point of an unknown sensor", findings)


_ROWS: Mapping[str, Callable[[int, Records, Findings], None]] = {
    FRAMES: _check_poses,
    AGENTS: _check_agents,
    FACES: _check_faces,
    POINTS: _check_points,
}


def _check_tracks(frames: ChunkedArray, agents: ChunkedArray, findings: Findings) -> None:
    """Check that a track is at most once in a frame, since readers look agents up by track."""
    for start, rows in _blocks(frames):
        for number, (first, stop) in enumerate(rows["agent_index_interval"].tolist(), start):
            if not 0 <= first < stop <= len(agents):
                continue
            tracks = agents[first:stop]["track_id"]
            if len(np.unique(tracks)) != len(tracks):
                findings.error(f"{FRAMES}@{number}", "has the same track twice")
