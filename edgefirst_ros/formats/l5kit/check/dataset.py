"""What can be verified about L5Kit datasets, without L5Kit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgefirst_ros.errors import DatasetError, DatasetNotFound, ExtraNotInstalled, extra
from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST
from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.findings import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.formats.l5kit.check.rows import check_coverage, check_rows
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.store.attributes import NAMES, read_attributes
from edgefirst_ros.formats.l5kit.store.chunkedarray import ChunkCache, ChunkedArray
from edgefirst_ros.formats.l5kit.store.chunkfiles import Files
from edgefirst_ros.formats.l5kit.store.schema import (
    FACES,
    FORMAT_VERSION,
    JOURNAL,
    LABELS,
    MANIFEST,
    SCENES,
    SIDE,
    SPECS,
)
from edgefirst_ros.formats.l5kit.store.vouched import differences, has_manifest
from edgefirst_ros.formats.zarr2.metadata import GROUP_KEY

_CACHE_BYTES = 64 << 20
_SUFFIX = ".zarr"
_MOST_MASKS = 8
"""One for each filter that was trained with; each costs going through all agents."""


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
            _check_group(path, findings)
        _check_manifest(path, findings)
        cache = ChunkCache(_CACHE_BYTES)
        with reading(findings, path.name, "content"):
            arrays = dict(_arrays(path, cache, findings))
            counts = {name: len(array) for name, array in arrays.items()}
            _check_attributes(path, counts.get(SCENES, 0), findings)
            sound = {name: array for name, array in arrays.items() if _has_fields(name, array)}
            covered = check_coverage(sound, findings)
            check_rows(sound, findings, covered=covered)
            _check_masks(path, findings)
    return concluded("l5kit", path.name.removesuffix(_SUFFIX), findings, counts)


def _check_group(path: Path, findings: Findings) -> None:
    if not (path / GROUP_KEY).is_file():
        findings.error(GROUP_KEY, "is missing: readers find no zarr group")
    if (path / JOURNAL).exists():
        findings.error(JOURNAL, "a run was killed at its very end; edgefirst-ros recover removes this file")
    for name in SPECS:
        for _, tail in Files(path, name).tails():
            findings.error(tail.name, "unfinished rows in a finished dataset")


def _check_manifest(path: Path, findings: Findings) -> None:
    if not has_manifest(path):
        findings.note(path.name, NO_MANIFEST)
        return
    with reading(findings, MANIFEST, "what it lists"):
        for fault in differences(path):
            findings.error(MANIFEST, fault)


def _check_masks(path: Path, findings: Findings) -> None:
    """Check what readers keep beside the arrays: it decides which agents are trained on."""
    masks = sorted(path.glob("agents_mask*"))
    if not masks:
        return
    if findings.counts["error"]:
        findings.note(masks[0].name, "is not looked at, because of the errors")
        return
    try:
        with extra():
            from edgefirst_ros.formats.l5kit.read.agentmask import holds_counts  # noqa: PLC0415 - few need it
    except ExtraNotInstalled as error:
        findings.note(masks[0].name, f"is not looked at: {error}")
        return
    # Nothing here reads what is not its own; but what a manifest vouches for has nothing beside it.
    unknown = findings.error if has_manifest(path) else findings.note
    for mask in masks[:_MOST_MASKS]:
        try:
            if not holds_counts(mask, ChunkedDataset(path).open(_CACHE_BYTES)):
                unknown(
                    mask.name, "is kept by another reader, and not checked; delete it: readers make it again"
                )
        except (DatasetError, OSError) as error:
            findings.error(mask.name, f"{error}; delete it: readers make it again")
    if len(masks) > _MOST_MASKS:
        findings.error(
            masks[_MOST_MASKS].name, f"is one of more than {_MOST_MASKS}, and not checked; delete it"
        )


def _check_attributes(path: Path, scenes: int, findings: Findings) -> None:
    try:
        values = read_attributes(path)
    except DatasetError as error:
        findings.error(".zattrs", "is not JSON", str(error))
        return
    if values.get("format_version") != FORMAT_VERSION:
        findings.error(
            ".zattrs", f"format_version is not {FORMAT_VERSION}", str(values.get("format_version"))
        )
    if tuple(values.get("labels") or ()) != LABELS:
        findings.error(".zattrs", "labels are not the 17 of the format")
    names = values.get(NAMES)
    if names is not None and (not isinstance(names, list) or len(names) != scenes):
        findings.error(".zattrs", f"{NAMES} does not name every scene", f"{scenes} scenes")


def _arrays(path: Path, cache: ChunkCache, findings: Findings) -> Iterator[tuple[str, ChunkedArray]]:
    """Every array that opens and whose chunks all decompress."""
    for name, spec in SPECS.items():
        files = Files(path, name)
        if name in SIDE and not any(Files(path, side).metadata.exists() for side in SIDE):
            continue
        if name == FACES and not files.folder.is_dir():
            findings.note(name, "no traffic lights, as in the first datasets of L5Kit")
            continue
        try:
            array = ChunkedArray(files, cache)
        except (DatasetNotFound, DatasetError) as error:
            findings.error(name, "array cannot be opened", str(error))
            continue
        if array.dtype != spec.dtype:
            findings.error(
                name, "rows are not of the type of the format", _difference(array.dtype, spec.dtype)
            )
        if array.chunk_length != spec.chunks[0]:
            findings.warning(name, "chunk length", f"{array.chunk_length}, L5Kit's is {spec.chunks[0]}")
        if _check_chunks(name, files, array, findings):
            yield name, array


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


def _has_fields(name: str, array: ChunkedArray) -> bool:
    """Whether the fields that are checked exist in the format's shape."""
    wanted: Mapping[str, Any] = SPECS[name].dtype.fields or {}
    return all(
        field in (array.dtype.names or ()) and array.dtype[field].shape == SPECS[name].dtype[field].shape
        for field in wanted
    )
