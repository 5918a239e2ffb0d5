"""Checks of a whole NCore sequence: its stores as containers, what they agree on, and its meta file."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.formats.ncore.check.instances import Instance, check_instances
from edgefirst_ros.formats.ncore.check.nurec import Judged, points
from edgefirst_ros.formats.ncore.check.official import run_official
from edgefirst_ros.formats.ncore.store.base import md5_of
from edgefirst_ros.formats.ncore.store.files import FinishedStore, FinishedTar, Reading
from edgefirst_ros.formats.ncore.store.journal import KEY, unxz
from edgefirst_ros.formats.zarr2 import ARRAY_KEY, ATTRIBUTES_KEY, ArrayHeader, chunk_key, grid, is_metadata
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, parse_json, read_regular

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
    instances: list[Instance] = []
    roots: dict[str, Any] = {}
    with ExitStack() as stack:
        for path in mine:
            if path.suffix in {".part", ".new"}:
                findings.error(path.name, "unfinished; run recover")
            if path.name.endswith((".zarr", ".zarr.itar")):
                with reading(findings, path.name, "store"):
                    instances += _open_store(path, stack, roots, findings)
        with reading(findings, sequence_id, "attributes"):
            _check_roots(sequence_id, roots, findings)
        counts = check_instances(instances, findings)
        with reading(findings, f"{sequence_id}.json", "meta file"):
            _check_meta(folder / f"{sequence_id}.json", roots, findings)
        if look.user and not findings.counts["error"]:
            (root, *_) = roots.values()
            with reading(findings, sequence_id, f"what {look.user} asks"):
                findings.points += points(Judged(instances, root["generic_meta_data"]))
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
    """Check that every store is a group of its own, of this version."""
    if not roots:
        findings.error(sequence_id, "no finished store")
    groups = [root.get("component_group_name") for root in roots.values()]
    if len(set(groups)) != len(groups):
        findings.error(sequence_id, "two stores have the same component group", str(sorted(map(str, groups))))
    for name, root in roots.items():
        if root.get("version") != "v4":
            findings.error(name, "version is not v4", str(root.get("version")))


def _check_meta(path: Path, roots: Mapping[str, Any], findings: Findings) -> None:
    """Check that the sequence meta file lists the stores with their MD5, and says of them what they say."""
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
            if meta.get(key) != roots[name].get(key) or key not in meta:
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
    headers = _Headers(io.FileIO(store.descriptor, closefd=False))
    headers.seek(0)
    with headers, tarfile.open(fileobj=headers, mode="r:") as archive:
        for member in archive:
            archive.members.clear()  # type: ignore[attr-defined]  # else it keeps them, a kilobyte each
            seen += 1
            indexed = store.index.get(member.name)
            if indexed != (member.offset_data, member.size):
                found = f"{member.name} is at {indexed}, tar says {member.offset_data}"
                findings.error(where, "index and member differ", found)
    if seen != len(store.index):
        findings.error(where, "number of members", f"{seen} in the tar file, {len(store.index)} in the index")


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
        for index in grid(shape, chunks):
            if name + chunk_key(index) not in keys:
                findings.error(f"{where}@{name}", "chunk is missing", chunk_key(index))
