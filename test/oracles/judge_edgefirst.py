"""Run by the interpreter that has edgefirst-client: what it and others find wrong with datasets.

    python judge_edgefirst.py [--complete] DATASET_FOLDER...

A line for each fault; the exit code is 1 if there is any. With --complete every frame has each kind of
file that any frame of its sequence has.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import cv2
import edgefirst_client
import numpy as np
import polars as pl
from PIL import Image
from pypcd4 import PointCloud

NAME = re.compile(r"(?:(?P<folder>.+)/)?(?P<sequence>.+)_(?P<frame>\d{3,})\.(?P<kind>[a-z]+\.[a-z]+)")
IMAGES = {"camera.jpeg": "JPEG", "lidar.jpeg": "JPEG", "camera.png": "PNG", "lidar.png": "PNG"}
RADAR_FIELDS = ("x", "y", "z", "speed", "power", "noise", "rcs")
COLUMNS = {
    "2025.01": {
        "name": pl.String, "frame": pl.UInt64, "group": pl.Categorical, "label": pl.Categorical,
        "mask": pl.List(pl.Float32), "box2d": pl.Array(pl.Float32, 4), "box3d": pl.Array(pl.Float32, 6),
        "location": pl.Array(pl.Float64, 2), "pose": pl.Array(pl.Float64, 3),
        "degradation": pl.Categorical, "status": pl.Categorical,
    },
    "2026.10": {
        "name": pl.String, "frame": pl.UInt32, "object_id": pl.String, "label": pl.Categorical,
        "degradation": pl.String, "polygon_score": pl.Float32,
        "label_index": pl.UInt64, "group": pl.Categorical, "polygon": pl.List(pl.List(pl.Float32)),
        "mask": pl.Binary, "box2d": pl.Array(pl.Float32, 4), "box3d": pl.Array(pl.Float32, 6),
        "mask_score": pl.Float32, "box2d_score": pl.Float32, "box3d_score": pl.Float32,
        "size": pl.Array(pl.UInt32, 2), "location": pl.Array(pl.Float32, 2), "pose": pl.Array(pl.Float32, 3),
    },
}  # fmt: skip
"""Columns that we write, by version: as the article has it, and as the client's specification does."""
NEAR_DEG = 1e-4
Faults = Iterator[str]
Files = dict[tuple[str, int], dict[str, bytes]]
"""The bytes of each kind of file, by sequence and frame."""


def read_files(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """All sensor files by name, and what is wrong with the archive of them."""
    archive = folder / f"{folder.name}.zip"
    if not archive.is_file():
        inside = folder / folder.name
        return {
            p.relative_to(inside).as_posix(): p.read_bytes() for p in inside.rglob("*") if p.is_file()
        }, []
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        wrong = [f"{m.filename} is not stored" for m in members if m.compress_type or m.flag_bits & 1]
        if len({m.filename for m in members}) < len(members):
            wrong.append("names in the archive repeat")
        return {m.filename: opened.read(m) for m in members}, wrong


def sort_files(files: dict[str, bytes], samples: Files) -> Faults:
    """Put them by sequence and frame; whose names the format does not have is a fault."""
    for name, data in files.items():
        found = NAME.fullmatch(name)
        if found is None or found["folder"] not in (None, found["sequence"]):
            yield f"{name} is no name of the format"
        else:
            samples[found["sequence"], int(found["frame"])][found["kind"]] = data


def taken(picture: bytes) -> tuple[int, tuple[float, float] | None]:
    """When, in ns, and where: latitude and longitude; by the tags of a photograph."""
    exif = Image.open(io.BytesIO(picture)).getexif()
    tags, gps = exif.get_ifd(0x8769), exif.get_ifd(0x8825)
    when = datetime.strptime(tags[0x9003] + tags[0x9011], "%Y:%m:%d %H:%M:%S%z")
    time_ns = int(when.timestamp()) * 10**9 + int(tags[0x9291].ljust(9, "0"))
    if not gps:
        return time_ns, None
    angles = (sum(float(part) / 60**n for n, part in enumerate(gps[tag])) for tag in (2, 4))
    north, east = (angle * (1 if gps[tag] in "NE" else -1) for tag, angle in zip((1, 3), angles, strict=True))
    return time_ns, (north, east)


def judge_file(kind: str, data: bytes) -> Faults:
    """That others' libraries open it, and find what its kind says."""
    if kind in IMAGES:
        with Image.open(io.BytesIO(data), formats=[IMAGES[kind]]) as picture:
            picture.load()
    elif kind.endswith("png"):
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        if pixels is None or pixels.ndim != 2 or pixels.dtype != np.uint16:
            yield "is no gray picture of 16 bits"
        elif kind == "radar.png":
            text = Image.open(io.BytesIO(data)).text
            shape = [*map(int, re.findall(r"\d+", text.get("shape", "")))]
            if len(shape) != 4 or pixels.shape != (shape[0] * shape[2], shape[1] * shape[3] * 2):
                yield f"is {pixels.shape}, its texts say {text}"
            if np.median(np.abs(pixels.astype(np.int32) - 32768)) > 16384:
                yield "has most values at the ends of the range"
    else:
        points = PointCloud.from_fileobj(io.BytesIO(data)).pc_data
        fields = points.dtype.names
        wanted = RADAR_FIELDS if kind == "radar.pcd" else ("x", "y", "z")
        if fields[: len(wanted)] != wanted:
            yield f"has the fields {fields}"
        elif not np.isfinite(np.stack([points[axis] for axis in "xyz"])).all():
            yield "has points that are not finite"


def judge_samples(samples: Files, *, complete: bool) -> Faults:
    """Every file by itself; pictures in the order of their times."""
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for (sequence, _), files in samples.items():
        kinds[sequence] |= set(files)
    last: dict[str, int] = {}
    for (sequence, frame), files in sorted(samples.items()):
        for kind, data in files.items():
            yield from (f"{sequence}_{frame}.{kind} {fault}" for fault in judge_file(kind, data))
        if complete and set(files) != kinds[sequence]:
            yield f"{sequence}_{frame} has no {kinds[sequence] - set(files)}"
        picture = files.get("camera.jpeg", files.get("camera.png"))
        if picture is None:
            yield f"{sequence}_{frame} has no picture"
            continue
        time_ns, _ = taken(picture)
        if time_ns <= last.get(sequence, 0):
            yield f"{sequence}_{frame} is not after the picture before it"
        last[sequence] = time_ns


def judge_table(table: pl.DataFrame, version: str, samples: Files) -> Faults:
    """Its columns, and its rows against the files."""
    for name, kind in table.schema.items():
        if COLUMNS[version].get(name) != (pl.Categorical if isinstance(kind, pl.Enum) else kind):
            yield f"column {name} is {kind}"
    rows = list(table.iter_rows(named=True))
    if {(row["name"], row["frame"]) for row in rows} != set(samples):
        yield "rows are not those of the files"
        return
    where = {
        key: taken(next(iter(f for k, f in files.items() if "camera" in k)))[1]
        for key, files in samples.items()
    }
    for number, row in enumerate(rows):
        for name, column in row.items():
            values = (
                np.array(column if isinstance(column, list) else [], float) if "box" in name else np.zeros(0)
            )
            low, high = (0, 1) if name == "box2d" else (-np.inf, np.inf)
            if not np.isfinite(values).all() or ((values < low) | (values > high)).any():
                yield f"row {number}: {name} is {column}"
        if row["group"] not in ("train", "val", "test"):
            yield f"row {number} is of group {row['group']}"
        place, photographed = row.get("location"), where[row["name"], row["frame"]]
        if (place is None) != (photographed is None):
            yield f"row {number}: table and picture differ in whether the place is known"
        elif place is not None and photographed is not None:
            latitude_longitude = place[::-1] if version == "2025.01" else place
            if np.abs(np.subtract(latitude_longitude, photographed)).max() > NEAR_DEG:
                yield f"row {number} is at {place}, its picture at {photographed}"


def judge_with_client(folder: Path, table: pl.DataFrame, files: dict[str, bytes]) -> Faults:
    """What edgefirst-client says of a copy with its files in a folder, as it wants them."""
    client = Path(sys.executable).with_name("edgefirst-client")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / folder.name
        arrow = copy / f"{folder.name}.arrow"
        for name, data in files.items():
            path = copy / folder.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        shutil.copy(folder / arrow.name, arrow)
        edgefirst_client.read_dataset_metadata(str(arrow))
        table.with_columns(pl.col("name").cast(pl.String)).write_ipc(arrow)  # it reads no others
        commands = [["validate-snapshot", "-v", copy]]
        if "box2d" in table.columns and table["box2d"].null_count() < len(table):
            commands.append(["arrow-to-coco", arrow, "-o", Path(scratch) / "coco.json"])
        for command in commands:
            done = subprocess.run([client, *command], capture_output=True, text=True, check=False)  # type: ignore[list-item]
            if done.returncode:
                yield f"{command[0]}: {done.stderr.strip()}"
            for line in done.stdout.splitlines():
                if re.match(r"\s*- (Missing|Invalid)", line) or (
                    "Unreferenced" in line and ".camera." in line
                ):
                    yield f"{command[0]}: {line.strip()}"


def faults(folder: Path, *, complete: bool) -> Faults:
    """All that is wrong with one dataset."""
    files, wrong = read_files(folder)
    samples: Files = defaultdict(dict)
    yield from wrong
    yield from sort_files(files, samples)
    path = folder / f"{folder.name}.arrow"
    table = pl.read_ipc(path)
    version = edgefirst_client.read_dataset_metadata(str(path)).schema_version or "2025.01"
    yield from judge_samples(samples, complete=complete)
    yield from judge_table(table, version, samples)
    yield from judge_with_client(folder, table, files)


if __name__ == "__main__":
    paths = [Path(each) for each in sys.argv[1:] if each != "--complete"]
    all_faults = [f"{p}: {f}" for p in paths for f in faults(p, complete="--complete" in sys.argv)]
    sys.exit("\n".join(all_faults) or 0)
