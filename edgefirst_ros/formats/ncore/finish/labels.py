"""2-D boxes to their frames: paired when a sequence is finished, appended below each frame's generic data.

Labels that arrive before the first picture of their camera: pairing delays pictures, but not labels.

Their camera is not known yet, so they go to the journal, and into the sequence when it is finished.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.finish.facts import Facts, Remarks
from edgefirst_ros.formats.ncore.options import SYNTHETIC
from edgefirst_ros.formats.ncore.prepare.parts import (
    COMPRESSOR,
    ComponentEntry,
    FlatBoxes,
    Json,
    safe_instance_name,
    safe_name,
)
from edgefirst_ros.formats.ncore.store.base import FLAT_BOXES, TIMES, EntryTimes, Store, new_groups
from edgefirst_ros.formats.ncore.store.files import SequenceFiles, create_store
from edgefirst_ros.formats.ncore.store.journal import read_facts
from edgefirst_ros.formats.pace import rest
from edgefirst_ros.formats.zarr2 import ATTRIBUTES_KEY, Record, array_records, json_bytes, under
from edgefirst_ros.model.camera import TILES, Tile
from edgefirst_ros.model.transform import bare

UNPAIRED = f"{FLAT_BOXES}_unpaired"

META: Json = {
    FLAT_BOXES: "(N, 4) left, top, right, bottom in pixels from the top left corner of the picture; they may "
    "reach beyond it. A frame that no model answered for has no such arrays, one without anything in it has "
    "arrays of length 0",
    f"{FLAT_BOXES}_class_id": "index in the model's classes, -1 where the label is none of them",
    f"{FLAT_BOXES}_distance_m": "0 where unknown",
    f"{FLAT_BOXES}_track_id": "empty where untracked",
}
UNPAIRED_META: Json = {
    UNPAIRED: "boxes of messages that no picture is near enough to: left, top, right, bottom as shares of "
    "the picture's width and height",
    f"{UNPAIRED}_timestamps_us": "of the message, by box",
    f"{UNPAIRED}_messages_us": "of every such message, those without boxes too",
}

_CORNERS = {"corners": "left, top, right, bottom in pixels from the top left corner"}
_BATCH = 512

Source = tuple[str, str]
"""Topic, and coordinate frame that its messages name."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Camera:
    """A camera that boxes may belong to.

    Attributes:
        name: of the instance.
        frame_id: of the whole camera.
        tile: which quarter of the camera's picture it shows; empty for the whole.
        size: width and height of its pictures.
        times: of its frames.
        store: the store that holds its frames.
    """

    name: str
    frame_id: str
    tile: Tile
    size: tuple[int, int]
    times: EntryTimes
    store: Store

    def pixels(self, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        """Corners (N, 4), given as fractions of the whole picture, in pixels of this camera."""
        if not self.tile:
            scaled: npt.NDArray[np.float64] = shares * np.array(self.size * 2)
            return scaled.astype(np.float32)
        whole = np.array(self.size) * 2
        offset = np.array(TILES.get(self.tile, (0, 0))) * self.size
        corners: npt.NDArray[np.float64] = shares * np.tile(whole, 2) - np.tile(offset, 2)
        return corners.astype(np.float32)

    def shows(self, corners: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Which boxes (N,) it shows: all of them, or those that reach into its tile."""
        inside = (corners[:, 2:] > 0).all(axis=1) & (corners[:, :2] < self.size).all(axis=1)
        return np.asarray(inside | (not self.tile), np.bool_)


@dataclass(slots=True)
class Attached:
    """The result of attaching the boxes of a sequence.

    Attributes:
        meta: metadata by camera that has boxes in its frames.
        messages: how many, by topic.
        paired: how many of them were attached to a picture.
        loose: arrays of the boxes that belong to no frame.
    """

    meta: dict[str, Json] = field(default_factory=dict)
    messages: Counter[str] = field(default_factory=Counter)
    paired: Counter[str] = field(default_factory=Counter)
    loose: Arrays = field(default_factory=dict)


def attach_boxes(
    messages: Callable[[], Iterable[FlatBoxes]], cameras: Sequence[Camera], tolerance_us: Callable[[str], int]
) -> Attached:
    """Append every message's boxes to the frame nearest in time; a frame gets one message of a topic.

    Boxes are of the cameras in the frame that their message names, of the first one where it names none of
    them; and of all four tiles of a picture.

    Args:
        messages: of the sequence, in the order in which they came; called twice.
        cameras: that have frames, in the order in which they came.
        tolerance_us: by topic, the farthest that a picture may begin from the time of its boxes.

    Raises:
        WriteError: the disk is full or gone.
    """
    times: dict[Source, list[int]] = {}
    looking: dict[str, bool] = {}
    for boxes in messages():
        rest()
        times.setdefault((boxes.topic, boxes.frame_id), []).append(boxes.time_us)
        sees = bool(boxes.packed[""][1]) or not boxes.masked
        looking[boxes.topic] = looking.get(boxes.topic, False) or sees
    times = {source: own for source, own in times.items() if looking[source[0]]}
    result, names = Attached(), dict[tuple[str, str], str]()
    frames: dict[Source, list[tuple[Camera, dict[int, int]]]] = {}
    for (topic, frame_id), own_us in times.items():
        frames[topic, frame_id] = []
        for camera in _seeing(frame_id, cameras):
            used = [name for (known, _), name in names.items() if known == camera.name]
            name = FLAT_BOXES if not used else f"{FLAT_BOXES}_{safe_name(topic.strip('/'))}"
            names.setdefault((camera.name, topic), name)
            paired = _paired(own_us, camera.times, tolerance_us(topic))
            frames[topic, frame_id].append((camera, paired))
    for (camera_name, topic), name in names.items():
        meta = result.meta.setdefault(camera_name, {FLAT_BOXES: META | {"topics": {}}})
        meta[FLAT_BOXES]["topics"][name] = topic
    _append(messages(), frames, names, result)
    return result


def _seeing(frame_id: str, cameras: Sequence[Camera]) -> list[Camera]:
    mine = [camera for camera in cameras if frame_id and camera.frame_id == frame_id] or list(cameras)
    tiles = [camera for camera in mine if camera.tile and camera.frame_id == mine[0].frame_id]
    return tiles if tiles and mine[0].tile else mine[:1]


def _paired(messages: Sequence[int], times: EntryTimes, tolerance_us: int) -> dict[int, int]:
    """End of the frame that each message is of, by the message's number; the nearest pairs come first."""
    starts = np.array(times.starts, np.int64)
    times_us = np.array(messages, np.int64)
    lows = np.searchsorted(starts, times_us - tolerance_us).tolist()
    highs = np.searchsorted(starts, times_us + tolerance_us, "right").tolist()
    pairs = []
    for number, (time_us, low, high) in enumerate(zip(messages, lows, highs, strict=True)):
        pairs += [(abs(times.starts[at] - time_us), number, at) for at in range(low, high)]
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, number, at in sorted(pairs):
        if number not in found and at not in taken:
            taken.add(at)
            found[number] = times.ends[at]
    return found


def _append(
    messages: Iterable[FlatBoxes],
    frames: Mapping[Source, Sequence[tuple[Camera, dict[int, int]]]],
    names: Mapping[tuple[str, str], str],
    result: Attached,
) -> None:
    numbers: Counter[Source] = Counter()
    loose: list[FlatBoxes] = []
    waiting: dict[str, list[Record]] = {}
    stores: dict[str, Store] = {}
    marked: set[str] = set()
    for boxes in messages:
        rest()
        source = (boxes.topic, boxes.frame_id)
        if source not in frames:
            continue
        number, found = numbers[source], False
        numbers[source] += 1
        for camera, paired in frames[source]:
            if number in paired:
                found = True
                stores[camera.name] = camera.store
                group = f"cameras/{camera.name}/frames/{paired[number]}"
                records = _records(group, names[camera.name, boxes.topic], boxes, camera)
                # A second topic's arrays go to the same group, whose attributes cannot be written again.
                waiting.setdefault(camera.name, []).extend(records[group in marked :])
                marked.add(group)
                if len(waiting[camera.name]) >= _BATCH:
                    camera.store.append(waiting.pop(camera.name))
        result.messages[boxes.topic] += 1
        result.paired[boxes.topic] += found
        if not found:
            loose.append(boxes)
    for name, records in waiting.items():
        stores[name].append(records)
    result.loose = _loose(loose)


def _records(group: str, name: str, boxes: FlatBoxes, camera: Camera) -> list[Record]:
    group = f"{group}/generic_data"
    meta = {FLAT_BOXES: {"timestamp_us": boxes.time_us, **_CORNERS}}
    records: list[Record] = [(f"{group}/{ATTRIBUTES_KEY}", json_bytes(meta))]
    if boxes.encoded and not camera.tile:
        corners = array_records("", camera.pixels(boxes.shares()), COMPRESSOR)
        for key, column in {"": corners, **boxes.encoded}.items():
            records += under(f"{group}/{column_name(name, key)}", column)
        return records
    columns = boxes.columns()
    corners_px = camera.pixels(columns.pop(""))
    shown = camera.shows(corners_px)
    arrays = {"": corners_px, **columns}
    for key, array in arrays.items():
        records += array_records(f"{group}/{column_name(name, key)}", array[shown], COMPRESSOR)
    return records


def column_name(name: str, column: str) -> str:
    """Array name of a column; the corners have the plain name."""
    return f"{name}_{column}" if column else name


def _loose(messages: Sequence[FlatBoxes]) -> Arrays:
    if not messages:
        return {}
    tables = [boxes.columns() for boxes in messages]
    found: Arrays = {
        column_name(UNPAIRED, key): np.concatenate([table[key] for table in tables]) for key in tables[0]
    }
    times_us = np.array([boxes.time_us for boxes in messages], np.uint64)
    return found | {
        f"{UNPAIRED}_timestamps_us": np.repeat(times_us, [len(table[""]) for table in tables]),
        f"{UNPAIRED}_messages_us": times_us,
    }


def read_flat_boxes(journal: Path) -> Iterator[FlatBoxes]:
    """Every message's boxes, in the order in which they came."""
    for _, value in read_facts(journal, ["boxes2d"]):
        yield FlatBoxes(*value)


KIND = "label"
SNAP_US = 1_000
"""A label is of the picture that ends within this of its own time."""


def label_json(entry: ComponentEntry, topic: str) -> list[Any]:
    """A label as the journal keeps it."""
    return [topic, entry.name, entry.camera_frame or "", entry.end_us, entry.shared, entry.records]


def snapped(ends: Sequence[int], end_us: int) -> int | None:
    """The end of the picture that a label is of, None if there is none."""
    first = bisect_left(ends, end_us - SNAP_US)
    near = min(ends[first : first + 2], key=lambda end: abs(end - end_us), default=None)
    return near if near is not None and abs(near - end_us) <= SNAP_US else None


def descriptor_of(shared: Json | None, camera: str, *, simulated: bool) -> Json:
    """Attributes of the labels of one camera."""
    source = {"label_source": SYNTHETIC} if simulated else {}
    return {"descriptor": {**(shared or {})["descriptor"], **source, "camera_id": camera}}


def settle_labels(files: SequenceFiles, stores: dict[str, Store], facts: Facts, remarks: Remarks) -> None:
    """Append the early labels that are not stored yet, to new stores where needed.

    Raises:
        WriteError: the disk is full or gone.
    """
    cameras = {
        name: (bare(told.get("frame_id", "")), store.contents.instances[component, name].ends)
        for (component, name), told in facts.instances.items()
        for store in stores.values()
        if component == "cameras" and (component, name) in store.contents.instances
    }
    lost: Counter[str] = Counter()
    kept = facts.labels
    for value in (value for _, value in read_facts(files.journal, [KIND])) if kept is None else kept:
        rest()
        topic, name, frame_id, end_us, shared, records = value
        mine = [camera for camera, (frame, _) in cameras.items() if frame == frame_id] or list(cameras)
        camera = mine[0] if mine else ""
        end_us = snapped(cameras[camera][1], end_us) if mine else None
        if end_us is None:
            lost[topic] += 1
            continue
        instance = ("camera_labels", _name(facts, topic, f"{name}@{camera}"))
        facts.instances.setdefault(instance, {"topic": topic, "frame_id": frame_id})
        store = _store(files, stores, facts, instance[1])
        times = store.contents.instances.setdefault(instance, EntryTimes("labels"))
        if end_us in times.ends:
            continue
        base = "/".join((*instance, "labels"))
        batch = [] if len(times) else new_groups(store, base)
        told = descriptor_of(shared, camera, simulated=facts.is_simulated)
        if not len(times):
            batch.append((f"{base}/{ATTRIBUTES_KEY}", json_bytes(told)))
        mark = (ATTRIBUTES_KEY, json_bytes({"generic_meta_data": {}, TIMES: [end_us, end_us]}))
        store.append([*batch, *under(f"{base}/{end_us}", [*map(tuple, records), mark])])
        times.insert(end_us)
    for topic, number in lost.items():
        say = remarks.note if cameras else remarks.warn
        say(f"{files.id}: {number} labels of {topic} are left out, as the pictures that they are of are")


def _name(facts: Facts, topic: str, wanted: str) -> str:
    """The instance of a topic's labels: the one that it has, or a new one."""
    safe = safe_instance_name(wanted)
    names = chain([safe], (f"{safe[:60]}_{number}" for number in count(2)))
    known = facts.instances
    return next(n for n in names if known.get(("camera_labels", n), {}).get("topic", topic) == topic)


def _store(files: SequenceFiles, stores: dict[str, Store], facts: Facts, name: str) -> Store:
    group = "" if facts.sequence.get("profile") == "single" else name
    if group not in stores:
        kind = facts.sequence["store"]
        stores[group] = create_store(files.store(group, kind), kind)
    return stores[group]
