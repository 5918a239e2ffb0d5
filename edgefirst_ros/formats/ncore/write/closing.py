"""Records that are written when a sequence is finished: times, attributes, component data."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgefirst_ros.formats.ncore.store.marks import Instance, Times
from edgefirst_ros.formats.ncore.store.meta import VERSION
from edgefirst_ros.formats.ncore.write.entry import COMPRESSOR, Json, generic_data
from edgefirst_ros.formats.ncore.write.facts import Facts
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY, Record, json_bytes, under

COMPONENT_VERSION = "v1"

_TIMES_ARRAY = {"pcs": "pc_timestamps_us", "labels": "timestamps_us", "records": "timestamps_us"}


def root_attributes(sequence_id: str, interval_us: tuple[int, int], meta: Json, group_name: str) -> Record:
    """Attributes of a store's root; the interval is half-open."""
    return ATTRIBUTES_KEY, json_bytes({
        "sequence_id": sequence_id,
        "sequence_timestamp_interval_us": {"start": interval_us[0], "stop": interval_us[1]},
        "generic_meta_data": meta,
        "version": VERSION,
        "component_group_name": group_name,
    })  # fmt: skip


def sequence_meta(facts: Facts) -> Json:
    """The generic_meta_data that all stores of a sequence share."""
    keys = ("host", "name", "part")
    return {key: facts.sequence[key] for key in keys if key in facts.sequence}


def instance_attributes(instance: Instance, version: str, meta: Json) -> Record:
    """Attributes of a component's instance."""
    component, name = instance
    return ATTRIBUTES_KEY, json_bytes({
        "component_name": component,
        "component_instance_name": name,
        "component_version": version,
        "generic_meta_data": meta,
    })  # fmt: skip


def instance_meta(instance: Instance, facts: Facts) -> Json:
    """generic_meta_data of an instance: where it comes from, and what was said about it since."""
    known = facts.instances.get(instance, {})
    meta: Json = {key: known[key] for key in ("topic", "frame_id") if key in known} | known.get("meta", {})
    if instance[0] == "radars" and facts.radar_info:
        meta["radar_info"] = facts.radar_info
    return meta | facts.meta.get(instance, {})


def instance_version(instance: Instance, facts: Facts) -> str:
    """The component version that an instance was registered with."""
    return str(facts.instances.get(instance, {}).get("version", COMPONENT_VERSION))


def instance_records(instance: Instance, times: Times, facts: Facts) -> list[Record]:
    """What completes an instance that has entries, below the store's root."""
    records: list[Record] = []
    if times.collection == "frames":
        pairs: list[Any] = [list(pair) for pair in zip(times.starts, times.ends, strict=True)]
        records.append((f"frames/{ATTRIBUTES_KEY}", json_bytes({"frames_timestamps_us": pairs})))
    else:
        ends = np.array(times.ends, np.uint64)
        records += array_records(_TIMES_ARRAY[times.collection], ends, COMPRESSOR)
    records.append(
        instance_attributes(instance, instance_version(instance, facts), instance_meta(instance, facts))
    )
    if arrays := facts.generic.get(instance):
        records += generic_data(arrays)
    return under("/".join(instance), records)
