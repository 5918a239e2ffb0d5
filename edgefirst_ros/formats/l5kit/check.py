"""What can be verified about L5Kit datasets, without L5Kit.

Checks of the rows of an L5Kit dataset: intervals, times, poses, agents, lights, points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST
from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.store.chunks import (
    ChunkCache,
    ChunkedArray,
    Files,
    differences,
    has_manifest,
)
from edgefirst_ros.formats.l5kit.store.schema import (
    AGENTS,
    FACES,
    FORMAT_VERSION,
    FRAMES,
    INTERVALS,
    JOURNAL,
    LABELS,
    LIDAR,
    MANIFEST,
    NAMES,
    POINTS,
    RADAR,
    SCENES,
    SIDE,
    SPANS,
    SPECS,
    Records,
    read_attributes,
)
from edgefirst_ros.formats.motion import POSE_NOISE_M, Motion
from edgefirst_ros.formats.zarr2.metadata import GROUP_KEY
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, ExtraNotInstalled, extra

BLOCK = 10_000
"""Rows looked at together."""
_ORTHONORMAL = 1e-6
_SUM_TOLERANCE = 1e-3

Arrays = Mapping[str, ChunkedArray]


def check_coverage(arrays: Arrays, findings: Findings) -> bool:
    """Whether intervals are contiguous and cover their arrays, and every frame has a span."""
    before = findings.counts["error"]
    for covered, (owner, field) in INTERVALS.items():
        if covered in arrays and owner in arrays:
            _check_interval(arrays[owner], field, f"{owner}.{field}", len(arrays[covered]), findings)
    if SPANS in arrays and FRAMES in arrays and len(arrays[SPANS]) != len(arrays[FRAMES]):
        text = f"{len(arrays[SPANS])}, {len(arrays[FRAMES])} frames"
        findings.error(SPANS, "not one span per frame", text)
    return findings.counts["error"] == before


def _check_interval(owner: ChunkedArray, field: str, where: str, covered: int, findings: Findings) -> None:
    last = 0
    for start, rows in _blocks(owner):
        edges = rows[field]
        before = np.concatenate([[last], edges[:-1, 1]])
        for row in np.flatnonzero(edges[:, 1] < edges[:, 0]).tolist():
            findings.error(
                f"{where}@{start + row}", "interval ends before it starts", str(edges[row].tolist())
            )
        for row in np.flatnonzero(edges[:, 0] != before).tolist():
            text = f"{edges[row].tolist()} after {before[row]}"
            findings.error(
                f"{where}@{start + row}", "interval does not begin where the one before ends", text
            )
        last = int(edges[-1, 1])
    if last != covered:
        findings.error(where, "intervals do not cover all rows", f"{last}, {covered} rows")


def check_rows(arrays: Arrays, findings: Findings, *, covered: bool) -> None:
    """Check poses, agents, lights and points; times and tracks only if intervals were found to be sound."""
    for name, look in _ROWS.items():
        if name in arrays:
            for start, rows in _blocks(arrays[name]):
                look(start, rows, findings)
    if covered and SCENES in arrays and FRAMES in arrays:
        _check_times(arrays[SCENES], arrays[FRAMES], findings)
    if covered and FRAMES in arrays and AGENTS in arrays:
        _check_tracks(arrays[FRAMES], arrays[AGENTS], findings)


def _blocks(array: ChunkedArray) -> Iterator[tuple[int, Records]]:
    for start in range(0, len(array), BLOCK):
        yield start, array[start : start + BLOCK]


def _say(where: str, start: int, bad: npt.ArrayLike, what: str, findings: Findings) -> None:
    """Add a finding for every bad row."""
    by_row = np.asarray(bad, bool)
    for row in np.flatnonzero(by_row.reshape(len(by_row), -1).any(axis=1)).tolist():
        findings.error(f"{where}@{start + row}", what)


def _check_times(scenes: ChunkedArray, frames: ChunkedArray, findings: Findings) -> None:
    for start, rows in _blocks(scenes):
        for number, scene in enumerate(rows, start):
            where = f"{SCENES}@{number}"
            first, stop = (int(edge) for edge in scene["frame_index_interval"])
            if scene["end_time"] < scene["start_time"]:
                findings.error(where, "scene ends before it starts")
            if not 0 <= first < stop <= len(frames):
                if first == stop:
                    findings.warning(where, "scene without frames")
                continue
            begin, end = _check_scene_frames(frames, first, stop, findings)
            _check_motion(frames, first, stop, where, findings)
            if begin < scene["start_time"] or end > scene["end_time"]:
                text = f"[{begin}, {end}] in [{scene['start_time']}, {scene['end_time']}]"
                findings.warning(where, "frames lie outside the time of their scene", text)


def _check_scene_frames(frames: ChunkedArray, first: int, stop: int, findings: Findings) -> tuple[int, int]:
    """Check that a scene's frame times increase and match its start and end."""
    begin = last = None
    for at in range(first, stop, BLOCK):
        times = frames[at : min(at + BLOCK, stop)]["timestamp"]
        steps = np.diff(times, prepend=times[0] - 1 if last is None else last)
        _say(FRAMES, at, steps <= 0, "time is not after that of the frame before it", findings)
        begin, last = int(times[0]) if begin is None else begin, int(times[-1])
    return begin or 0, last or 0


def _check_motion(frames: ChunkedArray, first: int, stop: int, where: str, findings: Findings) -> None:
    """Check that the ego vehicle of a scene moves as a vehicle can."""
    motion = Motion(POSE_NOISE_M, findings.at(where))
    for at in range(first, stop, BLOCK):
        rows = frames[at : min(at + BLOCK, stop)]
        motion.move(rows["timestamp"], rows["ego_translation"].astype(np.float64))


def _check_poses(start: int, rows: Records, findings: Findings) -> None:
    rotation = rows["ego_rotation"].astype(np.float64)
    finite = np.isfinite(rotation).all(axis=(1, 2))
    _say(FRAMES, start, rows["timestamp"] <= 0, "frame without a time", findings)
    _say(FRAMES, start, ~np.isfinite(rows["ego_translation"]), "position is not finite", findings)
    _say(FRAMES, start, ~finite, "rotation is not finite", findings)
    rotation[~finite] = np.eye(3)
    off = np.abs(rotation @ rotation.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) > _ORTHONORMAL
    _say(FRAMES, start, off, "ego_rotation is not orthonormal", findings)
    _say(FRAMES, start, ~off & (np.linalg.det(rotation) < 0), "ego_rotation mirrors", findings)


def _check_agents(start: int, rows: Records, findings: Findings) -> None:
    for field in ("centroid", "extent", "yaw", "velocity"):
        values = rows[field].reshape(len(rows), -1)
        _say(AGENTS, start, ~np.isfinite(values), f"{field} is not finite", findings)
    _say(AGENTS, start, rows["extent"] < 0, "extent is negative", findings)
    _check_sums(AGENTS, start, rows["label_probabilities"], findings)


def _check_sums(where: str, start: int, values: npt.NDArray[Any], findings: Findings) -> None:
    with np.errstate(invalid="ignore"):
        inside = ((values >= -_SUM_TOLERANCE) & (values <= 1 + _SUM_TOLERANCE)).all(axis=1)
    _say(where, start, ~inside, "probabilities are not from 0 to 1", findings)
    off = np.abs(values.astype(np.float64).sum(axis=1) - 1) > _SUM_TOLERANCE
    _say(where, start, inside & off, "probabilities do not add up to 1", findings)


def _check_faces(start: int, rows: Records, findings: Findings) -> None:
    _check_sums(FACES, start, rows["traffic_light_face_status"], findings)


def _check_points(start: int, rows: Records, findings: Findings) -> None:
    known = np.isin(rows["sensor"], (LIDAR, RADAR))
    _say(POINTS, start, ~known, "point of an unknown sensor", findings)


_ROWS: Mapping[str, Callable[[int, Records, Findings], None]] = {
    FRAMES: _check_poses,
    AGENTS: _check_agents,
    FACES: _check_faces,
    POINTS: _check_points,
}


def _check_tracks(frames: ChunkedArray, agents: ChunkedArray, findings: Findings) -> None:
    """Check that a track is at most once in a frame, since readers look agents up by track."""
    for start, rows in _blocks(frames):
        for number, (first, stop) in enumerate(rows["agent_index_interval"].tolist(), start):
            if not 0 <= first < stop <= len(agents):
                continue
            tracks = agents[first:stop]["track_id"]
            if len(np.unique(tracks)) != len(tracks):
                findings.error(f"{FRAMES}@{number}", "has the same track twice")


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
