"""Finishes a sequence from what is on disk, in the same way whether it was closed or killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from edgefirst_ros.formats.crashsafe.names import (
    forget,
    forget_unfinished,
    part_path,
    remove,
    replace_file,
    take_name,
)
from edgefirst_ros.formats.crashsafe.sync import disk_errors, sync_paths
from edgefirst_ros.formats.ncore.finish.components import (
    COMPONENT_VERSION,
    DEFAULT,
    NAMES,
    component_records,
    default_components,
    instance_meta,
    instance_records,
    root_attributes,
)
from edgefirst_ros.formats.ncore.finish.facts import Facts, Remarks, sequence_meta
from edgefirst_ros.formats.ncore.finish.labels import (
    UNPAIRED_META,
    Camera,
    attach_boxes,
    read_flat_boxes,
    settle_labels,
)
from edgefirst_ros.formats.ncore.options import StoreType
from edgefirst_ros.formats.ncore.poses import whole_camera
from edgefirst_ros.formats.ncore.prepare.parts import Json
from edgefirst_ros.formats.ncore.store.base import (
    FLAT_BOXES,
    EntryTimes,
    Instance,
    Store,
    new_groups,
    write_meta,
)
from edgefirst_ros.formats.ncore.store.files import SequenceFiles, create_store
from edgefirst_ros.formats.pace import rest
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.transform import bare
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, read_regular

COMMON = ""
"""Component group of poses, intrinsics, masks and cuboids."""


def complete_sequence(files: SequenceFiles, stores: dict[str, Store], facts: Facts, remarks: Remarks) -> bool:
    """Complete the stores, then write the sequence meta file, all synced and under ``.part`` names.

    Until the meta file is there a sequence killed in here is finished anew, from what the journal has.

    Args:
        files: where the sequence is.
        stores: every component group that was begun; closed afterwards.
        facts: what the journal says, read from it or kept.
        remarks: takes warnings and notes for the user.

    Returns:
        False if nothing was ever recorded: then nothing is left of the sequence.

    Raises:
        WriteError: the disk is full or gone.
    """
    kind: StoreType = facts.sequence["store"]
    for group in [group for group, store in stores.items() if not len(store.contents)]:
        _drop(stores.pop(group))
    if facts.early_labels:
        settle_labels(files, stores, facts, remarks)
    instances = {key: times for store in stores.values() for key, times in store.contents.instances.items()}
    span = _span(instances, facts)
    if span is None:
        discard(files)
        return False
    if COMMON not in stores:
        stores[COMMON] = create_store(files.store(COMMON, kind), kind)
    _attach_boxes(files, stores, facts, remarks)
    interval_us = (span[0], span[1] + 1)
    meta = sequence_meta(facts, [name for component, name in instances if component == "cameras"])
    listed: dict[str, tuple[Callable[[], str], Json]] = {}
    for group, store in sorted(stores.items()):
        components = _close_instances(store, facts)
        if group == COMMON:
            components |= _close_defaults(store, facts, instances, span, remarks)
        store.append([root_attributes(files.id, interval_us, meta, group)])
        rest()
        store.seal()
        listed[files.store(group, kind).name] = (store.md5, components)
    with disk_errors(files.meta_part, advice="run recover"):
        sync_paths((files.journal, files.folder))
        write_meta(files.meta_part, files.id, interval_us, meta, listed)
    return True


def publish_sequence(files: SequenceFiles) -> None:
    """Give the complete stores and the meta file their names in place of an earlier sequence's.

    Safe to run again until the meta file's ``.part`` is gone, which goes last: it alone says that the stores
    are complete, as an earlier sequence's meta file does not.

    Raises:
        DatasetError: the meta file is none that this package writes; nothing was changed.
        WriteError: the disk refuses.
    """
    with disk_errors(files.folder, advice="run recover"):
        meta = read_regular(files.meta_part, MOST_REPORT_BYTES)
        listed = [files.folder / name for name in _listed_stores(files, meta)]
        if files.would_replace():
            forget(files.meta)  # from here on it would list stores that are being replaced
        for store in listed:
            if part_path(store).exists():
                take_name(store)
        for stale in set(files.finished_stores()) - set(listed):
            remove(stale)
        replace_file(files.meta, meta)
        *leftovers, meta_part = files.leftovers()
        forget(*leftovers)
        forget(meta_part)


def _listed_stores(files: SequenceFiles, meta: bytes) -> list[str]:
    """Names of the stores in a meta file, all of them names that stores of this sequence can have."""
    try:
        names = [str(store["path"]) for store in json.loads(meta)["component_stores"]]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DatasetError(f"{files.meta_part} is damaged: {error}; nothing was changed") from error
    for name in names:
        if not files.is_store(name):
            raise DatasetError(
                f"{files.meta_part} lists {name!r}, which is not a store of {files.id}; nothing was changed"
            )
    return names


def discard(files: SequenceFiles) -> None:
    """Remove what is left of a sequence in which nothing was recorded; an earlier one that is there stays."""
    remove_unfinished(files)
    if not any(files.folder.iterdir()):
        files.folder.rmdir()


def remove_unfinished(files: SequenceFiles) -> None:
    """Remove what is unfinished of a sequence.

    The meta file's ``.part`` goes first: it would say that stores are complete which are gone.

    Raises:
        OSError: the file system refuses.
    """
    *others, journal, meta_part = files.leftovers()
    forget(meta_part)
    forget_unfinished(others, journal)


def _drop(store: Store) -> None:
    store.release()
    forget(store.part)


def _span(instances: Mapping[Instance, EntryTimes], facts: Facts) -> tuple[int, int] | None:
    """First and last time of all measurements; of poses and 2-D boxes if there are no others."""
    times = facts.times_us()
    for entries in instances.values():
        times += [min(entries.starts), entries.ends[-1]]
    if not times:
        times = [*facts.pose_times_us, *(facts.boxes2d_span_us or ())]
    return (min(times), max(times)) if times else None


def _attach_boxes(files: SequenceFiles, stores: Mapping[str, Store], facts: Facts, remarks: Remarks) -> None:
    """Attach 2-D boxes to their frames, and describe them in the metadata."""
    if facts.boxes2d_span_us is None:
        return
    known = {transform[1] for transform in facts.transforms.values()}
    cameras = []
    for instance, told in facts.instances.items():
        store = next((s for s in stores.values() if instance in s.contents.instances), None)
        if instance[0] == "cameras" and store is not None:
            whole, tile = whole_camera(told["frame_id"], {bare(frame) for frame in known})
            times = store.contents.instances[instance]
            cameras.append(Camera(instance[1], whole, tile, tuple(told["size"]), times, store))
    by_topic_us = facts.sequence.get("boxes2d_tolerances_us", {})
    every_us = facts.sequence.get("boxes2d_tolerance_us", 0)

    def tolerance_us(topic: str) -> int:
        names = [name for name in by_topic_us if f"/{topic}".endswith(f"/{name}")]
        return int(by_topic_us[max(names, key=len)] if names else every_us)

    kept = facts.boxes2d
    attached = attach_boxes(
        lambda: read_flat_boxes(files.journal) if kept is None else kept, cameras, tolerance_us
    )
    for camera, meta in attached.meta.items():
        meta[FLAT_BOXES]["classes"] = facts.classes
        facts.meta.setdefault(("cameras", camera), {}).update(meta)
    if attached.loose:
        labels = ("cuboids", DEFAULT)
        facts.generic.setdefault(labels, {}).update(attached.loose)
        facts.meta.setdefault(labels, {}).update(UNPAIRED_META)
    for topic, count in attached.messages.items():
        if alone := count - attached.paired[topic]:
            say = remarks.note if attached.paired[topic] else remarks.warn
            say(
                f"{files.id}: {alone} of {count} messages of {topic} have no picture within "
                f"{tolerance_us(topic) / 1000:g} ms; their boxes are stored in the cuboids' generic "
                "data instead of a frame"
            )


def _close_instances(store: Store, facts: Facts) -> Json:
    components: Json = {}
    for instance, times in store.contents.instances.items():
        rest()
        store.append(instance_records(instance, times, facts))
        components.setdefault(instance[0], {})[instance[1]] = {
            "version": COMPONENT_VERSION,
            "generic_meta_data": instance_meta(instance, facts),
        }
    return components


def _close_defaults(
    store: Store,
    facts: Facts,
    instances: Mapping[Instance, EntryTimes],
    span: tuple[int, int],
    remarks: Remarks,
) -> Json:
    components: Json = {}
    for name, component in default_components(facts, instances, *span, remarks).items():
        rest()
        store.append([*new_groups(store, name), *component_records(name, component, facts)])
        meta = component[0] | facts.meta.get((name, DEFAULT), {})
        components[name] = {DEFAULT: {"version": COMPONENT_VERSION, "generic_meta_data": meta}}
    return {name: components[name] for name in NAMES}
