"""Run by an interpreter with zarr 2, as L5Kit pins it: what is wrong with L5Kit datasets.

    python judge_l5kit.py DATASET.zarr...

A line for each fault; the exit code is 1 if there is any. The arrays are those that L5Kit declares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr

LABELS = [
    *("PERCEPTION_LABEL_" + name for name in (
        "NOT_SET", "UNKNOWN", "DONTCARE", "CAR", "VAN", "TRAM", "BUS", "TRUCK", "EMERGENCY_VEHICLE",
        "OTHER_VEHICLE", "BICYCLE", "MOTORCYCLE", "CYCLIST", "MOTORCYCLIST", "PEDESTRIAN", "ANIMAL",
    )),
    "AVRESEARCH_LABEL_DONTCARE",
]  # fmt: skip
ARRAYS = {
    "scenes": (10_000, [
        ("frame_index_interval", np.int64, (2,)), ("host", "<U16"), ("start_time", np.int64),
        ("end_time", np.int64),
    ]),
    "frames": (10_000, [
        ("timestamp", np.int64), ("agent_index_interval", np.int64, (2,)),
        ("traffic_light_faces_index_interval", np.int64, (2,)), ("ego_translation", np.float64, (3,)),
        ("ego_rotation", np.float64, (3, 3)),
    ]),
    "agents": (20_000, [
        ("centroid", np.float64, (2,)), ("extent", np.float32, (3,)), ("yaw", np.float32),
        ("velocity", np.float32, (2,)), ("track_id", np.uint64),
        ("label_probabilities", np.float32, (len(LABELS),)),
    ]),
    "traffic_light_faces": (10_000, [
        ("face_id", "<U16"), ("traffic_light_id", "<U16"), ("traffic_light_face_status", np.float32, (3,)),
    ]),
}  # fmt: skip
"""Length of a chunk, and the fields of a record."""
FASTEST_M_S, DRIVING_M_S = 100.0, 2.0
YEARS_NS = 946_684_800 * 10**9, 4_102_444_800 * 10**9
"""2000 to 2100."""
Faults = Iterator[str]


def storage(path: Path, group: Any) -> Faults:  # noqa: ANN401 - zarr's own types
    """That L5Kit finds what it looks for, and nothing but that."""
    if group.attrs.get("format_version") != 2 or group.attrs.get("labels") != LABELS:
        yield "attributes are not those of format 2"
    folders = {each.name for each in path.iterdir() if each.is_dir()}
    if folders != set(ARRAYS):
        yield f"holds {sorted(folders)}"
    for name in folders & set(ARRAYS):
        array, (chunk, fields) = group[name], ARRAYS[name]
        if array.dtype != np.dtype(fields) or array.ndim != 1 or array.chunks != (chunk,):
            yield f"{name} is {array.dtype} {array.shape} in chunks of {array.chunks}"
        if array.compressor is None or array.filters:
            yield f"{name} is not compressed as L5Kit does"
        chunks = {str(number) for number in range(-(-len(array) // chunk))}
        files = {each.name for each in (path / name).iterdir() if not each.name.startswith(".")}
        if files != chunks:
            yield f"{name} has chunks {sorted(files)}, not {sorted(chunks)}"


def intervals(name: str, spans: Any, total: int) -> Faults:  # noqa: ANN401
    """That they follow one another, from the first record to the last."""
    edges = np.concatenate([[0], spans[:, 1]])
    if (spans[:, 0] != edges[:-1]).any() or (spans[:, 1] < spans[:, 0]).any() or edges[-1] != total:
        yield f"{name} do not follow one another up to {total}"


def driven(frames: Any) -> Faults:  # noqa: ANN401
    """Times and poses of the frames of one scene."""
    times, places, turns = frames["timestamp"], frames["ego_translation"], frames["ego_rotation"]
    if times.min() < YEARS_NS[0] or times.max() > YEARS_NS[1] or (np.diff(times) <= 0).any():
        yield "times of frames do not ascend"
        return
    if not np.isfinite(places).all() or not np.allclose(
        turns @ turns.transpose(0, 2, 1), np.eye(3), atol=1e-4
    ):
        yield "the vehicle's poses are no poses"
        return
    if (np.linalg.det(turns) < 0).any():
        yield "the vehicle's rotations are mirrored"
    if len(times) < 2:
        return
    seconds, steps = np.diff(times) / 1e9, np.diff(places, axis=0)
    if seconds.max() > 5 * np.median(seconds):
        yield f"{seconds.max():.3f} s between two frames"
    speed = np.linalg.norm(steps, axis=1) / seconds
    if speed.max() > FASTEST_M_S:
        yield f"the vehicle has {speed.max():.0f} m/s"
    off = np.arctan2(turns[:-1, 1, 0], turns[:-1, 0, 0]) - np.arctan2(steps[:, 1], steps[:, 0])
    off = np.abs(np.angle(np.exp(1j * off[speed > DRIVING_M_S])))
    if len(off) >= 10 and np.median(off) > np.radians(30):
        yield f"the vehicle drives {np.degrees(np.median(off)):.0f} degrees beside its heading"


def around(frames: Any, agents: Any) -> Faults:  # noqa: ANN401
    """The agents of one scene's frames."""
    spans = frames["agent_index_interval"] - frames["agent_index_interval"][0, 0]
    frame = np.repeat(np.arange(len(frames)), spans[:, 1] - spans[:, 0])
    for name in agents.dtype.names:
        if agents[name].dtype.kind == "f" and not np.isfinite(agents[name]).all():
            yield f"{name} of agents is not finite"
            return
    labels = agents["label_probabilities"]
    if (agents["extent"] <= 0).any() or (np.abs(agents["yaw"]) > np.pi + 1e-6).any():
        yield "agents without a size, or with headings beyond pi"
    if (labels < 0).any() or (np.abs(labels.sum(1) - 1) > 1e-3).any():
        yield "probabilities of labels do not sum up to 1"
    order = np.lexsort((frame, agents["track_id"]))
    ordered, frame_of = agents[order], frame[order]
    same = ordered["track_id"][1:] == ordered["track_id"][:-1]
    apart = np.diff(frame_of)
    if (apart[same] == 0).any():
        yield "one track is twice in a frame"
    if not len(agents) or not same.any():
        return
    if (np.diff(ordered["label_probabilities"].argmax(1)) != 0)[same].mean() > 0.05:
        yield "labels of tracks change"
    seconds = np.diff(frames["timestamp"][frame_of]) / 1e9
    follows = same & (apart > 0)
    moved = np.diff(ordered["centroid"], axis=0)[follows] / seconds[follows, None]
    speed = np.linalg.norm(moved, axis=1)
    if speed.max(initial=0.0) > FASTEST_M_S:
        yield f"a track has {speed.max():.0f} m/s"
    next_to = (speed > DRIVING_M_S) & (apart[follows] == 1)
    wrong = np.linalg.norm(ordered["velocity"][1:][follows] - moved, axis=1)[next_to]
    if len(wrong) >= 20 and np.median(wrong) > 5:
        yield f"velocities are {np.median(wrong):.1f} m/s beside the motion of the agents"
    away = np.linalg.norm(agents["centroid"] - frames["ego_translation"][frame, :2], axis=1)
    if np.median(away) > 500:
        yield f"agents are {np.median(away):.0f} m away"


def lights(faces: Any) -> Faults:  # noqa: ANN401
    """The faces of traffic lights of one scene."""
    status = faces["traffic_light_face_status"]
    if not np.isfinite(status).all() or (status < 0).any() or (np.abs(status.sum(1) - 1) > 1e-3).any():
        yield "states of faces do not sum up to 1"
    if (faces["face_id"] == "").any() or (faces["traffic_light_id"] == "").any():
        yield "faces without a name"


def faults(path: Path) -> Faults:
    """All that is wrong with one dataset."""
    group = zarr.open_group(str(path), mode="r")
    found = list(storage(path, group))
    yield from found
    if found:
        return
    scenes, frames, agents, faces = (group[name][:] for name in ARRAYS)
    if not len(scenes) or not len(frames):
        yield "no scene"
        return
    yield from intervals("scenes", scenes["frame_index_interval"], len(frames))
    yield from intervals("agents of frames", frames["agent_index_interval"], len(agents))
    yield from intervals("faces of frames", frames["traffic_light_faces_index_interval"], len(faces))
    yield from lights(faces)
    for scene in scenes:
        ours = frames[slice(*scene["frame_index_interval"])]
        if not scene["host"] or not len(ours):
            yield "a scene without host or frames"
            continue
        if (scene["start_time"], scene["end_time"]) != (ours["timestamp"][0], ours["timestamp"][-1]):
            yield "a scene's times are not those of its frames"
        yield from driven(ours)
        first, last = ours["agent_index_interval"][0, 0], ours["agent_index_interval"][-1, 1]
        yield from around(ours, agents[first:last])


if __name__ == "__main__":
    all_faults = [f"{path}: {fault}" for path in map(Path, sys.argv[1:]) for fault in faults(path)]
    sys.exit("\n".join(all_faults) or 0)
