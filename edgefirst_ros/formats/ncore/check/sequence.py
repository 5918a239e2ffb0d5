"""Checks of a whole NCore sequence: its stores as containers, what they agree on, and its meta file.

Runs NVIDIA's own reader over a sequence, in whichever interpreter has it.

As a script, ``python official.py META``, it needs nvidia-ncore and nothing of this package, and prints one
JSON object: what was read, or the error.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.formats.ncore.check.components import check_components
from edgefirst_ros.formats.ncore.check.frames import Instance
from edgefirst_ros.formats.ncore.store.base import md5_of
from edgefirst_ros.formats.ncore.store.files import FinishedStore, FinishedTar, Reading
from edgefirst_ros.formats.ncore.store.journal import KEY, unxz
from edgefirst_ros.formats.zarr2.array import ArrayHeader, chunk_key, grid
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY, ATTRIBUTES_KEY, is_metadata
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, parse_json, read_regular

ENVIRONMENT = "EDGEFIRST_NCORE_PYTHON"
_TIMEOUT_S = 3600


def find_python(wanted: Path | None = None) -> Path | None:
    """The interpreter to use: the one asked for, this one, or the environment variable's."""
    if wanted is not None:
        return wanted
    found = importlib.util.find_spec("ncore")
    if found is not None and found.origin is not None:  # without one it is any folder of that name
        return Path(sys.executable)
    named = os.environ.get(ENVIRONMENT)
    return Path(named) if named else None


def run_official(meta: Path, python: Path | None, findings: Findings) -> None:
    """Read the whole sequence with the official reader; add a note if it is not installed."""
    found = find_python(python)
    if found is None:
        findings.note(
            meta.name,
            "official reader not run",
            f"nvidia-ncore is not installed here; {ENVIRONMENT} may name a Python that has it",
        )
        return
    command = [str(found), str(Path(__file__).resolve()), str(meta)]
    # Who names an interpreter wants its verdict: without one the sequence must not pass.
    tell = findings.note if python is None else findings.error
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        said = (done.stdout.splitlines() or [""])[-1]
        result = json.loads(said)
    except (OSError, subprocess.TimeoutExpired) as error:
        tell(meta.name, "official reader not run", str(error))
        return
    except ValueError:
        tell(
            meta.name,
            "official reader not run",
            f"{found} ended with exit code {done.returncode} and printed {said!r}",
        )
        return
    if "error" in result:
        findings.error(meta.name, "official reader", result["error"])
    else:
        findings.note(meta.name, "official reader read everything", json.dumps(result))


def read_all(meta: Path) -> dict[str, Any]:
    """Read all that the official loader offers of a sequence; counts by kind."""
    v4 = importlib.import_module("ncore.data.v4")
    numpy = importlib.import_module("numpy")
    loader = v4.SequenceLoaderV4(v4.SequenceComponentGroupsReader([meta]))
    counts = {"cameras": 0, "lidars": 0, "radars": 0, "labels": 0, "clouds": 0}
    for name in loader.camera_ids:
        camera = loader.get_camera_sensor(name)
        camera.get_mask_images()
        camera.get_frames_T_sensor_target("world", numpy.arange(camera.frames_count), None)
        for index in range(camera.frames_count):
            camera.get_frame_handle(index).get_data().get_decoded_image().load()
        counts["cameras"] += camera.frames_count
    for name in loader.lidar_ids:
        counts["lidars"] += _read_rays(loader.get_lidar_sensor(name))
    for name in loader.radar_ids:
        counts["radars"] += _read_rays(loader.get_radar_sensor(name))
    for name in loader.camera_labels_ids:
        labels = loader.get_camera_labels(name)
        for time in labels.label_timestamps_us.tolist():
            labels.get_label(time).get_data()
        counts["labels"] += labels.labels_count
    for name in loader.point_clouds_ids:
        counts["clouds"] += _read_clouds(loader, loader.get_point_clouds_source(name))
    counts["cuboids"] = sum(1 for _ in loader.get_cuboid_track_observations())
    return counts


def _read_rays(sensor: Any) -> int:  # noqa: ANN401  types of another interpreter's package
    for index in range(sensor.frames_count):
        sensor.get_frame_point_cloud(index, motion_compensation=True, with_start_points=False)
        for name in sensor.get_frame_generic_data_names(index):
            sensor.get_frame_generic_data(index, name)
    return int(sensor.frames_count)


def _read_clouds(loader: Any, source: Any) -> int:  # noqa: ANN401  types of another interpreter's package
    for index in range(source.pcs_count):
        cloud = source.get_pc(index)
        cloud.transform("world", cloud.reference_frame_timestamp_us, loader.pose_graph)
    return int(source.pcs_count)


def main() -> int:
    """Print what was read as JSON; 1 if anything failed."""
    try:
        result = read_all(Path(sys.argv[1]))
    except Exception as error:  # noqa: BLE001  whatever another package raises is the finding
        result = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(result) + "\n")
    return int("error" in result)


if __name__ == "__main__":
    sys.exit(main())


_MOST_HEADER_BYTES = 1 << 20
_MOST_VALUES, _VALUES_OF_A_RECORD = 2_000_000, 50
"""Of all metadata of a store: half a gigabyte in memory; and of each record, which takes a kilobyte."""


def check_sequence(folder: Path, official_python: Path | None, look: Look = EVERYTHING) -> Check:
    """Check the sequence in a folder.

    Args:
        folder: named after the sequence.
        official_python: interpreter with nvidia-ncore, which must work then; by default this one if it has
            it, or the one that the environment variable EDGEFIRST_NCORE_PYTHON names.
        look: how thoroughly.
    """
    findings = Findings(look)
    sequence_id = folder.name
    mine = [path for path in sorted(folder.iterdir()) if path.name.startswith(f"{sequence_id}.")]
    for path in mine:
        if path.suffix in {".part", ".new"}:
            findings.error(path.name, "unfinished; run recover")
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        instances: list[Instance] = []
        roots: dict[str, Any] = {}
        for path in mine:
            if path.name.endswith((".zarr", ".zarr.itar")):
                with reading(findings, path.name, "store"):
                    instances += _open_store(path, stack, roots, findings)
        with reading(findings, sequence_id, "attributes"):
            _check_roots(sequence_id, roots, findings)
        counts = check_components(instances, findings)
        with reading(findings, f"{sequence_id}.json", "meta file"):
            _check_meta(folder / f"{sequence_id}.json", roots, findings)
    if not findings.counts["error"]:
        run_official(folder / f"{sequence_id}.json", official_python, findings)
    return concluded("ncore", sequence_id, findings, counts)


def _open_store(path: Path, stack: ExitStack, roots: dict[str, Any], findings: Findings) -> list[Instance]:
    """The instances in a store; its root's attributes go into ``roots``."""
    store = stack.enter_context(Reading(path)).store
    if isinstance(store, FinishedTar):
        with reading(findings, path.name, "tar file"):
            check_tar(path, store, findings)
    metadata = read_metadata(path.name, store, findings)
    check_chunks(path.name, store, metadata, findings)
    root = roots[path.name] = metadata.get(ATTRIBUTES_KEY, {})
    interval = root.get("sequence_timestamp_interval_us", {})
    interval_us = (int(interval.get("start", 0)), int(interval.get("stop", 0)))
    names = sorted({tuple(key.split("/")[:2]) for key in metadata if key.count("/") >= 2})
    return [Instance(component, name, store, metadata, interval_us) for component, name in names]


def _check_roots(sequence_id: str, roots: Mapping[str, Any], findings: Findings) -> None:
    """Check that all stores belong to one sequence and agree about it."""
    if not roots:
        findings.error(sequence_id, "no finished store")
    groups = [root.get("component_group_name") for root in roots.values()]
    if len(set(groups)) != len(groups):
        findings.error(sequence_id, "two stores have the same component group", str(sorted(map(str, groups))))
    first: dict[str, Any] = next(iter(roots.values()), {})
    for name, root in roots.items():
        if root.get("version") != "v4":
            findings.error(name, "version is not v4", str(root.get("version")))
        for key in ("sequence_id", "sequence_timestamp_interval_us", "generic_meta_data"):
            if root.get(key) != first.get(key) or key not in root:
                findings.error(name, f"{key} is not that of the other stores", str(root.get(key)))


def _check_meta(path: Path, roots: Mapping[str, Any], findings: Findings) -> None:
    """Check that the sequence meta file lists the stores with their MD5."""
    try:
        meta = parse_json(read_regular(path, MOST_REPORT_BYTES))
        listed = {store["path"]: store["md5"] for store in meta["component_stores"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        findings.error(path.name, "no sequence meta file", str(error))
        return
    if listed.keys() != roots.keys():
        findings.error(path.name, "lists other stores than exist", str(sorted(listed.keys() ^ roots.keys())))
    for name in sorted(listed.keys() & roots.keys()):
        if md5_of(path.parent / name, findings.look.passed) != listed[name]:
            findings.error(name, "MD5 differs from the sequence meta file")
        for key in ("sequence_id", "sequence_timestamp_interval_us", "generic_meta_data"):
            if meta.get(key) != roots[name].get(key):
                findings.error(path.name, f"{key} differs from {name}")


class _Headers(io.BufferedReader):
    """A file of which tarfile reads headers, and no names of gigabytes."""

    def read(self, size: int | None = -1) -> bytes:
        """Some bytes.

        Raises:
            ValueError: they are more than a header.
        """
        if size is None or not 0 <= size <= _MOST_HEADER_BYTES:
            raise ValueError(f"a header has {size} bytes")
        return super().read(size)


Metadata = Mapping[str, Any]
"""Parsed JSON of every metadata record, by key."""


def check_tar(path: Path, store: FinishedTar, findings: Findings) -> None:
    """Check that the index lists exactly the members of the tar file, at their offsets."""
    where, seen = path.name, 0
    previous = -1
    headers = _Headers(io.FileIO(store.descriptor, closefd=False))
    headers.seek(0)
    with headers, tarfile.open(fileobj=headers, mode="r:") as archive:
        for member in archive:
            archive.members.clear()  # type: ignore[attr-defined]  # else it keeps them, a kilobyte each
            seen += 1
            if member.offset_data <= previous:
                findings.error(where, "member out of order", member.name)
            previous = member.offset_data
            if member.name not in store.index:
                findings.error(where, "member is not in the index, or twice in the file", member.name)
            elif store.index[member.name] != (member.offset_data, member.size):
                found = f"{member.name} is at {store.index[member.name]}, tar says {member.offset_data}"
                findings.error(where, "index and member differ", found)
    if seen != len(store.index):
        findings.error(where, "number of members", f"{seen} in the tar file, {len(store.index)} in the index")
    offsets = [offset for offset, _ in store.index.values()]
    if offsets != sorted(offsets):
        findings.warning(where, "index is not sorted by offset")


def read_metadata(where: str, store: FinishedStore, findings: Findings) -> Metadata:
    """The store's metadata records, checked against their consolidated copy."""
    plain: dict[str, Any] = {}
    size = values = 0
    for key in store:
        if is_metadata(key):
            with reading(findings, f"{where}@{key}", "metadata"):
                payload = store.get(key)
                size += len(key) + len(payload)
                values += sum(map(payload.count, (b",", b":", b"[", b"{")))
                if values > _MOST_VALUES + _VALUES_OF_A_RECORD * len(plain):
                    raise ValueError(f"they hold more than {values:,} values")
                plain[key] = parse_json(payload)
    try:
        packed = unxz(store.get(KEY), 9 * size + 1024, 2 * values + 4 * len(plain) + 16)
    except (KeyError, ValueError) as error:
        findings.error(where, "no consolidated metadata", str(error))
        return plain
    consolidated = packed.get("metadata") if isinstance(packed, dict) else None
    if not isinstance(packed, dict) or packed.get("zarr_consolidated_format") != 1 or consolidated is None:
        findings.error(where, "consolidated metadata is not of format 1")
        return plain
    for key in plain.keys() | consolidated.keys():
        if plain.get(key) != consolidated.get(key):
            findings.error(f"{where}@{key}", "consolidated metadata differs from the record")
    return plain


def check_chunks(where: str, store: FinishedStore, metadata: Metadata, findings: Findings) -> None:
    """Check that every array is one that NCore writes, and that every chunk of it exists."""
    keys = set(store)
    for key in metadata:
        if key.rpartition("/")[2] != ARRAY_KEY:
            continue
        name = key.removesuffix(ARRAY_KEY)
        try:
            header = ArrayHeader.parse(store.get(key))
        except ValueError as error:
            findings.error(f"{where}@{key}", "array cannot be read", str(error))
            continue
        shape, chunks = header.shape, header.chunks
        count = prod(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))
        if count > len(keys):
            findings.error(f"{where}@{name}", "chunks are missing", f"most of {count}")
            continue
        missing = (index for index in grid(shape, chunks) if name + chunk_key(index) not in keys)
        if (first := next(missing, None)) is not None:
            findings.error(f"{where}@{name}", "chunk is missing", chunk_key(first))
