"""Checks of one store as a container: tar and index, consolidated metadata, chunks."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgefirst_ros.formats.findings import Findings
from edgefirst_ros.formats.ncore.store.consolidated import KEY
from edgefirst_ros.formats.ncore.store.packed import unxz
from edgefirst_ros.formats.ncore.store.reading import FinishedStore, FinishedTar
from edgefirst_ros.formats.zarr2.array import chunk_key, grid
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY, is_metadata

Metadata = Mapping[str, Any]
"""Parsed JSON of every metadata record, by key."""


def check_tar(path: Path, store: FinishedTar, findings: Findings) -> None:
    """Check that the index lists exactly the members of the tar file, at their offsets."""
    where, seen = path.name, 0
    previous = -1
    with tarfile.open(path, "r:") as archive:
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
    plain = {}
    for key in store:
        if is_metadata(key):
            try:
                plain[key] = json.loads(store.get(key))
            except ValueError as error:
                findings.error(f"{where}@{key}", "metadata is no JSON", str(error))
    try:
        packed = unxz(store.get(KEY))
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
    """Check that every chunk of every array exists."""
    keys = set(store)
    for key, meta in metadata.items():
        if key.rpartition("/")[2] != ARRAY_KEY:
            continue
        name = key.removesuffix(ARRAY_KEY)
        for index in grid(tuple(meta["shape"]), tuple(meta["chunks"])):
            if name + chunk_key(index) not in keys:
                findings.error(f"{where}@{name}", "chunk is missing", chunk_key(index))
