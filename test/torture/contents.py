"""What an output folder holds, by other readers than the package's: acknowledged units, files, reports."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

REPORT, PAGE = "capture_report.json", "capture_report.html"
_FRAME = re.compile(r"(?P<sequence>.+)_(?P<frame>\d+)\.[a-z0-9.]+")
_UNFINISHED = re.compile(r".*\.part(\..*)?|.*\.new|\.scene|\.extends|.*\.tmp|\..*\.rows")
_SETTLED = re.compile(r"(image|ray_bundle/direction|.*distance_m)/[\d.]+")
"""Records of a frame that do not depend on what comes after it."""


@dataclass(slots=True)
class Contents:
    """What lies below an output folder.

    Attributes:
        units: digest of the smallest thing that is acknowledged, by format and name: a sample's files and
            rows, a frame with its agents and points, a measurement.
        datasets: digests of files by path, by dataset; without reports.
        reports: digest of every report by path.
        pages: likewise of every page.
        left: files that no finished dataset has.
        faults: what cannot be read.
    """

    units: dict[str, dict[str, str]] = field(default_factory=dict)
    datasets: dict[str, dict[str, str]] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """For another process."""
        return asdict(self)


def read(output: Path) -> Contents:
    """Everything below an output folder, finished or not."""
    found = Contents()
    for file in sorted(output.rglob("*")):
        name = file.relative_to(output)
        if any(_UNFINISHED.fullmatch(part) for part in name.parts):
            if not file.is_dir():
                found.left.append(str(name))
        elif file.is_file():
            _take(found, file, name)
    for kind, units in (("edgefirst", _samples), ("ncore", _measurements), ("l5kit", _frames)):
        folders = [output / name for name in found.datasets if name.startswith(f"{kind}/")]
        held: dict[str, str] = {}
        for folder in folders:
            try:
                held.update(units(folder))
            except Exception as error:  # noqa: BLE001 - whatever a reader raises is what is wrong
                found.faults.append(f"{folder.name}: {type(error).__name__}: {error}")
        if folders:
            found.units[kind] = held
    return found


def files(output: Path) -> dict[str, str]:
    """Digest of every file below a folder, by path."""
    return {str(f.relative_to(output)): _digest(f.read_bytes()) for f in output.rglob("*") if f.is_file()}


def _take(found: Contents, file: Path, name: Path) -> None:
    data = file.read_bytes()
    if name.name.endswith(REPORT):
        found.reports[str(name)] = _digest(data)
        try:
            json.loads(data)
        except ValueError as error:
            found.faults.append(f"{name} ({len(data)} bytes): {error}")
    elif name.name.endswith(PAGE):
        found.pages[str(name)] = _digest(data)
    elif name.parts[0] in {"edgefirst", "ncore", "l5kit"} and len(name.parts) > 2:
        dataset = found.datasets.setdefault("/".join(name.parts[:2]), {})
        dataset["/".join(name.parts[2:])] = _digest(data)
    else:
        found.left.append(str(name))


def _samples(folder: Path) -> Iterator[tuple[str, str]]:
    from written import Written  # noqa: PLC0415 - imports polars, and is read in forks only

    written = Written(folder)
    parts: dict[str, list[bytes]] = {}
    for name, data in sorted(written.files().items()):
        match = _FRAME.fullmatch(name.rpartition("/")[2])
        if match is None:
            raise ValueError(f"a file of no sample: {name}")
        key = f"{match['sequence']}/{int(match['frame'])}"
        parts.setdefault(key, []).append(f"{name} {_digest(data)}".encode())
    for row in written.table.rows(named=True):
        key = f"{row['name']}/{row['frame']}"
        if key not in parts:
            raise ValueError(f"a row of no sample: {key}")
        # Which part of the data a sample belongs to depends on how many there are.
        parts[key].append(
            repr({column: value for column, value in row.items() if column != "group"}).encode()
        )
    yield from ((key, _digest(b"\n".join(lines))) for key, lines in parts.items())


def _frames(folder: Path) -> Iterator[tuple[str, str]]:
    from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset  # noqa: PLC0415

    dataset = ChunkedDataset(folder).open()
    agents = np.array(dataset.agents[:])
    # What later sightings say of an object: a killed run has what was known when the frame was made.
    agents["yaw"], agents["extent"] = 0.0, 0.0
    owned = [
        ("agent_index_interval", agents),
        ("traffic_light_faces_index_interval", dataset.tl_faces),
    ]
    frames = np.asarray(dataset.frames[:])
    for number, frame in enumerate(frames):
        parts = [frame.tobytes(), *(np.asarray(rows[slice(*frame[name])]).tobytes() for name, rows in owned)]
        yield f"frame {number}", _digest(b"".join(parts))
    if len(frames):
        yield f"until {frames['timestamp'].max()}", ""


def _measurements(folder: Path) -> Iterator[tuple[str, str]]:
    from ncoreread import Sequence  # noqa: PLC0415

    sequence = Sequence(folder)
    settled: dict[str, list[bytes]] = {}
    for key, data in sorted(sequence.records.items()):
        component, _, rest = key.partition("/")
        _, _, rest = rest.partition("/")
        collection, _, rest = rest.partition("/")
        end_us, _, rest = rest.partition("/")
        if component in {"cameras", "lidars", "radars"} and collection == "frames" and end_us.isdecimal():
            lines = settled.setdefault(f"{component}/{end_us}", [])
            # A scan that was not written yet may be an empty one now, for the sake of its cube.
            if component != "radars" and _SETTLED.fullmatch(rest):
                lines.append(f"{rest} {_digest(data)}".encode())
            if rest == "generic_data/.zattrs":
                told = json.loads(data)
                yield from ((f"cube/{told[k]['timestamp_us']}", "") for k in ("radar_cube",) if k in told)
                yield from ((f"boxes2d/{told[k]['timestamp_us']}", "") for k in ("boxes2d",) if k in told)
    yield from ((key, _digest(b"\n".join(lines))) for key, lines in settled.items())
    base = "poses/default/generic_data"
    for kind in ("imu", "gps", "odom"):
        if f"{base}/{kind}_timestamps_us/.zarray" in sequence.records:
            yield from (
                (f"{kind}/{time}", "") for time in sequence.array(f"{base}/{kind}_timestamps_us").tolist()
            )
    unpaired = "cuboids/default/generic_data/boxes2d_unpaired_messages_us"
    if f"{unpaired}/.zarray" in sequence.records:
        yield from ((f"boxes2d/{time}", "") for time in sequence.array(unpaired).tolist())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
