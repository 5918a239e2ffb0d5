"""Labels that arrive before the first picture of their camera: pairing delays pictures, but not labels.

Their camera is not known yet, so they go to the journal, and into the sequence when it is finished.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from typing import Any

from edgefirst_ros.formats.ncore.finish.facts import Facts
from edgefirst_ros.formats.ncore.finish.remarks import Remarks
from edgefirst_ros.formats.ncore.prepare.parts import ComponentEntry, Json, safe_instance_name
from edgefirst_ros.formats.ncore.store.base import Store, new_groups
from edgefirst_ros.formats.ncore.store.files import SequenceFiles, create_store
from edgefirst_ros.formats.ncore.store.journal import read_facts
from edgefirst_ros.formats.ncore.store.marks import TIMES, EntryTimes
from edgefirst_ros.formats.pace import rest
from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY, json_bytes, under
from edgefirst_ros.messages.transform import bare

KIND = "label"
SNAP_US = 1_000
"""A label is of the picture that ends within this of its own time."""


def label_json(entry: ComponentEntry, topic: str) -> list[Any]:
    """A label as the journal keeps it."""
    return [topic, entry.name, entry.camera_frame or "", entry.end_us, entry.shared, entry.records]


def snapped(ends: Sequence[int], end_us: int) -> int:
    """The end of the picture that a label is of, or its own time if there is none."""
    first = bisect_left(ends, end_us - SNAP_US)
    near = min(ends[first : first + 2], key=lambda end: abs(end - end_us), default=end_us)
    return near if abs(near - end_us) <= SNAP_US else end_us


def descriptor_of(shared: Json | None, camera: str) -> Json:
    """Attributes of the labels of one camera."""
    return {"descriptor": {**(shared or {})["descriptor"], "camera_id": camera}}


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
        if not mine:
            lost[topic] += 1
            continue
        camera = mine[0]
        end_us = snapped(cameras[camera][1], end_us)
        instance = ("camera_labels", _name(facts, topic, f"{name}@{camera}"))
        facts.instances.setdefault(instance, {"topic": topic, "frame_id": frame_id})
        store = _store(files, stores, facts, instance[1])
        times = store.contents.instances.setdefault(instance, EntryTimes("labels"))
        if end_us in times.ends:
            continue
        base = "/".join((*instance, "labels"))
        batch = [] if len(times) else new_groups(store, base)
        if not len(times):
            batch.append((f"{base}/{ATTRIBUTES_KEY}", json_bytes(descriptor_of(shared, camera))))
        mark = (ATTRIBUTES_KEY, json_bytes({"generic_meta_data": {}, TIMES: [end_us, end_us]}))
        store.append([*batch, *under(f"{base}/{end_us}", [*map(tuple, records), mark])])
        times.insert(end_us)
    for topic, number in lost.items():
        remarks.warn(f"{files.id}: {number} labels of {topic} are lost: no picture of any camera came")


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
