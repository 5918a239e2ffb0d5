"""Single files of sound datasets, damaged by structure: Arrow table, ZIP, ``.itar``, arrays of zarr."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from drives import simulated
from faulty import FaultyOptions
from fuzz_datasets import CORPUS, damage_index, read_samples
from fuzz_recordings import SMALL
from fuzzing import Target, UnexpectedError
from hostile_archives import hostile_tar, hostile_zip
from hostile_arrow import hostile_arrow
from hostile_files import hostile_chunk, hostile_zarray, was_run

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.edgefirst.store.archive import QUALITY
from edgefirst_ros.formats.l5kit.store.chunks import ChunkCache, ChunkedArray, Files
from edgefirst_ros.formats.l5kit.store.schema import FRAMES, SPECS
from edgefirst_ros.formats.zarr2 import ArraySpec, Blosc, read_array
from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.offline.convert import convert

SCHEMAS = {"": "2025.01", "later": "2026.10"}
ITAR = ".ncore4.zarr.itar"


def _datasets() -> Path:
    """Finished datasets of half a second, of two schemas of EdgeFirst and of NCore, made once."""
    place = CORPUS / "containers"
    if not place.exists():
        growing = Path(tempfile.mkdtemp(dir=CORPUS))
        recording = simulated(FaultyOptions(**{**SMALL, "seconds": 0.7, "masks": True, "mask_size": (16, 9)}))
        never = {name: {"required": "never"} for name in ("radar_targets", "lidar_points", "model")}
        for folder, schema in SCHEMAS.items():
            values = {
                "formats": ["edgefirst", "ncore"],
                "topics": never,
                "edgefirst": {"schema_version": schema},
            }
            convert([recording.mcap], growing / f"out{folder}", build_config(values), dataset="ds")
        growing.rename(place)
    return place


def _files(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(_datasets().glob(pattern))]


def _in_dataset(data: bytes, folder: Path, format_name: str, suffix: str) -> Path:
    """An output in which one file of a dataset is another."""
    shutil.copytree(_datasets() / "out" / format_name, folder / "out" / format_name, copy_function=os.link)
    path = next(each for each in (folder / "out").rglob(f"*{suffix}") if each.name != QUALITY)
    path.unlink()
    path.write_bytes(data)
    for manifest in [
        *(folder / "out").rglob("*.manifest")
    ]:  # it would tell of every change, and nothing be read
        manifest.unlink()
    return folder / "out"


def _run_edgefirst(suffix: str, data: bytes, folder: Path) -> str:
    output = _in_dataset(data, folder, "edgefirst", suffix)
    errors = sum(each.errors for each in check(output))
    with suppress(EdgeFirstError):
        read_samples(edgefirst_ros.open(output), folder / "coco")
    return "refused" if errors else "taken"


def _run_itar(data: bytes, folder: Path) -> str:
    output = _in_dataset(data, folder, "ncore", ITAR)
    # Its MD5 differs anyway.
    return "refused" if sum(each.errors for each in check(output)) > 1 else "taken"


def _mutate_itar(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.6:
        return hostile_tar(rng, data)
    with tempfile.NamedTemporaryFile(suffix=ITAR) as file:
        Path(file.name).write_bytes(data)
        damage_index(rng, Path(file.name))
        return Path(file.name).read_bytes()


def _arrays() -> list[bytes]:
    """Arrays, each as its files by name: metadata and chunks."""
    rng = np.random.default_rng(1)
    rows = np.zeros(300, SPECS[FRAMES].dtype)
    rows["timestamp"] = np.arange(len(rows))
    arrays = (
        (SPECS[FRAMES], rows),
        (ArraySpec(np.dtype("<f4"), (20, 3), Blosc()), rng.random((50, 3), np.float32)),
        (ArraySpec(np.dtype("u1"), (64,)), rng.integers(0, 9, 100, np.uint8)),
        (ArraySpec(np.dtype("S9"), ()), np.array(b"\xff\xd8picture")),
    )
    return [_packed(dict(spec.records("", array))) for spec, array in arrays]


def _packed(files: dict[str, bytes]) -> bytes:
    return json.dumps({name: base64.b64encode(data).decode() for name, data in files.items()}).encode()


def _unpacked(data: bytes) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in json.loads(data).items()}


def _mutate_array(rng: random.Random, data: bytes) -> bytes:
    files = _unpacked(data)
    if rng.random() < 0.8:
        files[".zarray"] = hostile_zarray(rng, files[".zarray"])
    chunks = sorted(files.keys() - {".zarray"})
    if chunks and rng.random() < 0.6:
        files[rng.choice(chunks)] = hostile_chunk(rng, files[rng.choice(chunks)])
    return _packed(files)


def _run_array(data: bytes, folder: Path) -> str:
    files = _unpacked(data)
    said = "refused"
    with suppress(ValueError, KeyError):
        read_array(files.__getitem__, "")
        said = "taken"
    place = folder / FRAMES
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    with suppress(EdgeFirstError):
        array = ChunkedArray(Files(folder, FRAMES), ChunkCache(64 << 20))
        for start in range(0, min(len(array), 1_000_000), max(array.chunk_length, 50_000)):
            array[start : start + 10]
        said = "taken"
    if was_run():
        raise UnexpectedError("code of the array was run")
    return said


def _target(suffix: str, mutate: Callable[[random.Random, bytes], bytes]) -> Target:
    run = partial(_run_edgefirst, suffix)
    return Target(suffix[1:], partial(_files, f"*/edgefirst/ds/ds{suffix}"), run, mutate)


ARROW, ZIP = _target(".arrow", hostile_arrow), _target(".zip", hostile_zip)
ITARS = Target("itar", partial(_files, f"out/ncore/*/*{ITAR}"), _run_itar, _mutate_itar)
ZARR = Target("zarr", _arrays, _run_array, _mutate_array)
