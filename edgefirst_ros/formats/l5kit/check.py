"""What is verified of an L5Kit dataset: the manifest, and the structure that readers go by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST
from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.chunks import (
    MASKS,
    ChunkCache,
    ChunkedArray,
    Files,
    differences,
    has_manifest,
)
from edgefirst_ros.formats.zarr2 import GROUP_KEY
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound

_BLOCK = 10_000
"""Rows looked at together."""
_CACHE_BYTES = 64 << 20
_SUFFIX = ".zarr"


def check(path: Path, look: Look = EVERYTHING) -> Check:
    """Check the dataset at ``path``, its ``.zarr`` folder; a block of rows is in memory at a time.

    Raises:
        DatasetNotFound: there is no such folder, finished or unfinished.
    """
    parts = [p for p in (part_path(path), old_path(path)) if p.exists()]
    if not path.is_dir() and not parts:
        raise DatasetNotFound(f"{path}: no such dataset")
    findings = Findings(look)
    for part in parts:
        findings.error(part.name, "unfinished; edgefirst-ros recover can finish it")
    counts: dict[str, int] = {}
    if path.is_dir():
        with reading(findings, path.name, "folder"):
            _check_files(path, findings)
        with reading(findings, path.name, "content"):
            arrays = dict(_arrays(path, findings))
            counts = {name: len(array) for name, array in arrays.items()}
            _check_attributes(path, counts.get(schema.SCENES, 0), findings)
            _check_intervals(arrays, findings)
    return concluded("l5kit", path.name.removesuffix(_SUFFIX), findings, counts)


def _check_files(path: Path, findings: Findings) -> None:
    if not (path / GROUP_KEY).is_file():
        findings.error(GROUP_KEY, "is missing: readers find no zarr group")
    if (path / schema.JOURNAL).exists():
        findings.error(
            schema.JOURNAL, "a run was killed at its very end; edgefirst-ros recover removes this file"
        )
    for name in schema.SPECS:
        for _, tail in Files(path, name).tails():
            findings.error(tail.name, "unfinished rows in a finished dataset")
    if (path / MASKS).is_dir():
        findings.note(MASKS, "L5Kit's reader made it, so it is not looked at")
    if not has_manifest(path):
        findings.note(path.name, NO_MANIFEST)
        return
    with reading(findings, schema.MANIFEST, "what it lists"):
        for fault in differences(path):
            findings.error(schema.MANIFEST, fault)


def _check_attributes(path: Path, scenes: int, findings: Findings) -> None:
    try:
        values = schema.read_attributes(path)
    except DatasetError as error:
        findings.error(".zattrs", "is not JSON", str(error))
        return
    if values.get("format_version") != schema.FORMAT_VERSION:
        found = str(values.get("format_version"))
        findings.error(".zattrs", f"format_version is not {schema.FORMAT_VERSION}", found)
    if tuple(values.get("labels") or ()) != schema.LABELS:
        findings.error(".zattrs", "labels are not the 17 of the format")
    names = values.get(schema.NAMES)
    if names is not None and (not isinstance(names, list) or len(names) != scenes):
        findings.error(".zattrs", f"{schema.NAMES} does not name every scene", f"{scenes} scenes")


def _arrays(path: Path, findings: Findings) -> Iterator[tuple[str, ChunkedArray]]:
    """Every array whose rows are of the format's type, and whose chunks all decompress."""
    cache = ChunkCache(_CACHE_BYTES)
    for name, spec in schema.SPECS.items():
        files = Files(path, name)
        if name == schema.FACES and not files.folder.is_dir():
            findings.note(name, "no traffic lights, as in the first datasets of L5Kit")
            continue
        try:
            array = ChunkedArray(files, cache)
        except (DatasetNotFound, DatasetError) as error:
            findings.error(name, "array cannot be opened", str(error))
            continue
        if array.dtype != spec.dtype:
            difference = _difference(array.dtype, spec.dtype)
            findings.error(name, "rows are not of the type of the format", difference)
        elif _check_chunks(name, files, array, findings):
            yield name, array
        if array.chunk_length != spec.chunks[0]:
            findings.warning(name, "chunk length", f"{array.chunk_length}, L5Kit's is {spec.chunks[0]}")


def _check_chunks(name: str, files: Files, array: ChunkedArray, findings: Findings) -> bool:
    count, there, sound = -(-len(array) // array.chunk_length), 0, True
    for number, file in files.chunks():
        if number >= count:
            findings.warning(f"{name}@{file.name}", "chunk beyond the array's last row")
            continue
        there += 1
        try:
            array[number * array.chunk_length]
            findings.look.passed(file.stat().st_size)
        except (DatasetError, OSError) as error:
            findings.error(f"{name}@{file.name}", "chunk does not decompress", str(error))
            sound = False
    if there < count:
        findings.error(name, "chunks are missing, their rows read as zero", f"{count - there} of {count}")
    return sound and there == count


def _difference(found: Any, wanted: Any) -> str:  # noqa: ANN401  structured dtypes
    """The first field that differs, rather than two long types."""
    for name in wanted.names:
        if name not in (found.names or ()):
            return f"no {name}"
        if found[name] != wanted[name]:
            return f"{name} is {found[name]}, expected {wanted[name]}"
    return "fields in another order, or further ones"


def _check_intervals(arrays: Mapping[str, ChunkedArray], findings: Findings) -> None:
    """Check that intervals follow one another and cover their arrays."""
    for covered, (owner, field) in schema.INTERVALS.items():
        if covered not in arrays or owner not in arrays:
            continue
        where, rows, last = f"{owner}.{field}", arrays[owner], 0
        for start in range(0, len(rows), _BLOCK):
            edges = rows[start : start + _BLOCK][field]
            before = np.concatenate([[last], edges[:-1, 1]])
            for row in np.flatnonzero((edges[:, 0] != before) | (edges[:, 1] < edges[:, 0])).tolist():
                text = f"{edges[row].tolist()} after {before[row]}"
                findings.error(f"{where}@{start + row}", "interval does not follow the one before", text)
            last = int(edges[-1, 1])
        if last != len(arrays[covered]):
            text = f"up to {last} of {len(arrays[covered])}"
            findings.error(where, "intervals do not cover their array", text)
