"""The rig's poses in NCore sequences against the true path, with GPS, without it, and with fixes that lie.

    python benchmarks/truth_ego.py [--drives-only] [--only NAME...] [--seeds 10] [--seconds 336] [--jobs 2]
                                   [--ways whole,lag] [--nees pooled] [--json FILE]

Besides these scenarios, which are those of ``truth.py``, too, it runs drives of another car (``cars.py``)
through the estimate alone, and compares it with a plain factor graph and with the fixes joined by lines
(``ego_judged.py``). One line a drive and seed; ends with 1 if anything demanded is missed. The graph is left
out, with what is demanded against it, where GTSAM is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import cars
import ego_judged
import ego_ours
import numpy as np
import numpy.typing as npt
import pymap3d
from faults import GpsErrors, ImuErrors, Truth
from scenarios import SCENARIOS, Figure, at_least, at_most, driven, exactly, scenario, seconds, told
from scipy.spatial.transform import Rotation

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.ncore.store.files import Reading
from edgefirst_ros.formats.zarr2 import read_array

Floats = npt.NDArray[np.float64]
NAVIGATION: dict[str, Any] = {
    "fps": 5,
    "width": 320,
    "height": 180,
    "radar_hz": 0.0,
    "lidar_hz": 5.0,
    "lidar_points": 64,
    "model_hz": 0.0,
    "gps_no_fix": 0,
}
MEMS = ImuErrors(
    gyroscope_sigma_rad_s=1e-3,
    gyroscope_bias_rad_s=(0.005, -0.003, 0.007),
    accelerometer_sigma_m_s2=0.07,
    accelerometer_bias_m_s2=(0.05, -0.08, 0.06),
    orientation_sigma_rad=np.radians(0.3),
)
"""As a phone's IMU is: 0.4°/s and 8 mg of bias."""
KNOWN = ("measured", "interpolated", "dead-reckoned")


@dataclass(frozen=True)
class PathOff:
    """Poses of a sequence against the truth, by pose: seconds, metres off, degrees off, what it rests on."""

    time_s: Floats
    off_m: Floats
    turned_deg: Floats
    position: npt.NDArray[np.str_]
    rotation: npt.NDArray[np.str_]
    driven_m: Floats

    def rms(self, part: str, *bases: str) -> float:
        """Of metres (position) or degrees (rotation) where it rests on one of these; NaN if nowhere."""
        values, basis = (
            (self.off_m, self.position) if part == "position" else (self.turned_deg, self.rotation)
        )
        chosen = values[np.isin(basis, bases)]
        return float(np.sqrt(np.mean(chosen**2))) if len(chosen) else float("nan")

    def at(self, time_s: float) -> int:
        """Index of the pose next to a time."""
        return int(np.abs(self.time_s - time_s).argmin())


def path_of(meta: Path, truth: Truth) -> PathOff:
    """Read a sequence's poses through its own store."""
    with Reading(next(meta.parent.glob(f"{meta.stem}.ncore4.zarr.itar"))) as reading:
        store = reading.store
        static = json.loads(store.get("poses/default/static_poses/.zattrs"))
        dynamic = json.loads(store.get("poses/default/dynamic_poses/.zattrs"))["('rig', 'world')"]
        names = json.loads(store.get("poses/default/.zattrs"))["generic_meta_data"]["rig_world"]["basis"]
        bases = [
            np.array(names)[read_array(store.get, f"poses/default/generic_data/rig_world_{part}_basis")]
            for part in ("position", "rotation")
        ]
    poses, times_us = np.array(dynamic["poses"]), np.array(dynamic["timestamps_us"])
    true = np.stack([truth.rig(int(t) * 1000) for t in times_us])
    edge = static.get("('world', 'world_global')")
    if edge is None:  # nothing tells where the world is: only turns can be compared
        T_enu_world = true[0]
    else:
        T_ecef_world = np.array(edge["pose"])
        place = truth.world
        origin = (place.latitude_deg, place.longitude_deg, place.altitude_m)
        axes = np.stack([np.array(pymap3d.enu2uvw(*unit, *origin[:2])) for unit in np.eye(3)], axis=1)
        T_enu_world = np.eye(4)
        T_enu_world[:3, :3] = axes.T @ T_ecef_world[:3, :3]
        T_enu_world[:3, 3] = pymap3d.ecef2enu(*T_ecef_world[:3, 3], *origin)
    found = T_enu_world @ poses
    off = np.linalg.norm(found[:, :3, 3] - true[:, :3, 3], axis=1)
    turned = Rotation.from_matrix(np.swapaxes(true[:, :3, :3], 1, 2) @ found[:, :3, :3]).magnitude()
    steps = np.linalg.norm(np.diff(true[:, :3, 3], axis=0), axis=1)
    time_s = np.array([truth.seconds(int(t) * 1000) for t in times_us])
    return PathOff(time_s, off, np.degrees(turned), *bases, np.concatenate([[0.0], np.cumsum(steps)]))


def drive(folder: Path, length_s: float = 20.0, **options: Any) -> tuple[PathOff, dict[str, Any], int]:  # noqa: ANN401
    """Path, report, and errors of the own check."""
    done, truth = driven(folder, ["ncore"], seconds=seconds(length_s), **(NAVIGATION | options))
    meta = next(path for path in done.paths if path.parent.parent.name == "ncore")
    return path_of(meta, truth), done.report, sum(each.errors for each in check(folder / "out"))


@scenario("gps always", "noise-free fixes at 10 Hz: position within 0.3 m RMS, rotation within 1° RMS")
def always(folder: Path) -> Iterator[Figure]:
    """And with what a cheap receiver and a cheap IMU add."""
    path, _, errors = drive(folder / "ideal")
    yield at_most("position RMS", path.rms("position", *KNOWN) * 1000, 5.0, "mm")
    yield at_most("rotation RMS", path.rms("rotation", *KNOWN), 1.0, "°")
    yield exactly("own check, errors", errors, 0)
    path, _, _ = drive(folder / "noisy", imu=MEMS, gps=GpsErrors(sigma_m=(0.5, 1.0)))
    yield at_most("0.5 m of noise, MEMS IMU: position RMS", path.rms("position", *KNOWN), 0.6, "m")
    yield at_most("0.5 m of noise, MEMS IMU: rotation RMS", path.rms("rotation", *KNOWN), 1.0, "°")
    path, _, _ = drive(folder / "alone", imu_hz=0.0)
    yield at_most("fixes alone: position RMS", path.rms("position", *KNOWN), 0.3, "m")
    yield at_most("fixes alone: rotation RMS", path.rms("rotation", *KNOWN), 1.0, "°")


@scenario("gps dies", "at 8 of 30 s: 1 % of the distance after 5 s without it, 2° after 20 s")
def dies(folder: Path) -> Iterator[Figure]:
    """With an ideal IMU and with a cheap one."""
    for name, imu in (("ideal", ImuErrors()), ("MEMS", MEMS)):
        path, report, errors = drive(folder / name, 30.0, silent={"gps": ((8.0, 30.0),)}, imu=imu)
        before, after, late = path.at(8.0), path.at(13.0), path.at(28.0)
        away_m = path.driven_m[after] - path.driven_m[before]
        yield at_most(f"{name}: off after 5 s, of the distance", 100 * path.off_m[after] / away_m, 1.0, "%")
        yield at_most(f"{name}: rotation after 20 s", path.turned_deg[late], 2.0, "°")
        yield exactly(f"{name}: what the pose after 5 s rests on", str(path.position[after]), "dead-reckoned")
        known = np.isin(path.position, KNOWN)
        yield told(f"{name}: worst position that is given", float(path.off_m[known].max()), "m")
        yield exactly(f"{name}: own check, errors", errors, 0)
        yield at_least(f"{name}: warnings of it", sum("position" in w for w in report["warnings"]), 1)


@scenario("gps starts late", "at 9 of 20 s: no position that is given is far off, and none is held")
def late(folder: Path) -> Iterator[Figure]:
    """What was driven before the first fix is carried back from it."""
    path, _, errors = drive(folder, silent={"gps": ((0.0, 9.0),)})
    known = np.isin(path.position, KNOWN)
    yield at_most("worst position that is given", float(path.off_m[known].max()), 0.72, "m")
    yield told("share of poses with a position", float(known.mean() * 100), "%")
    yield at_most("rotation RMS", path.rms("rotation", *KNOWN), 1.0, "°")
    yield exactly("own check, errors", errors, 0)


@scenario("gps never", "the rotation is true all the same, and the position said to be unknown")
def never(folder: Path) -> Iterator[Figure]:
    """An IMU alone."""
    path, report, errors = drive(folder, gps_hz=0.0)
    relative = path.turned_deg - path.turned_deg[0]
    yield at_most("rotation after 20 s", abs(float(relative[-1])), 2.0, "°")
    yield exactly("poses with a position", int(np.isin(path.position, KNOWN).sum()), 0)
    yield at_least("warnings of it", sum("position" in w for w in report["warnings"]), 1)
    yield exactly("own check, errors", errors, 0)


@scenario("gps gap", "7 s without fixes are not interpolated: 1 % of the distance, and said")
def gap(folder: Path) -> Iterator[Figure]:
    """From 7 to 14 of 20 s."""
    path, _, errors = drive(folder, silent={"gps": ((7.0, 14.0),)})
    inside = (path.time_s > 7.3) & (path.time_s < 13.7)
    yield at_most("worst position inside", float(path.off_m[inside].max()), 0.56, "m")
    yield exactly("poses inside called interpolated", int((path.position[inside] == "interpolated").sum()), 0)
    yield exactly("own check, errors", errors, 0)


@scenario("fixes that cannot be", "one flipped message of 240 m is refused, counted and said")
def flipped(folder: Path) -> Iterator[Figure]:
    """In both of an epoch's messages or in one; first, in the middle, last, and three in a row."""
    for name, jumps in (
        ("first", ((0.0, 240.0, 0.0),)),
        ("middle", ((9.5, 240.0, 0.0),)),
        ("last", ((19.9, 0.0, -240.0),)),
        ("three in a row", ((9.5, 240.0, 0.0), (9.6, 240.0, 0.0), (9.7, 240.0, 0.0))),
    ):
        for which in ("both", "first", "second"):
            errors_of = GpsErrors(jumps=jumps, outlier_messages=which)
            path, report, errors = drive(folder / f"{name} {which}", gps=errors_of)
            known = np.isin(path.position, KNOWN)
            yield at_most(f"{name}, {which}: worst position", float(path.off_m[known].max()), 0.3, "m")
            reasons = report["topics"]["/gps"]["reasons"]["refused"]
            said = sum(count for reason, count in reasons.items() if "epoch" not in reason)
            if which == "both":
                yield at_least(f"{name}, {which}: refused for it", said, len(jumps))
            yield exactly(f"{name}, {which}: own check, errors", errors, 0)


@scenario("imu turned", "a constant disagreement of heading and course is found, said, and not applied")
def turned(folder: Path) -> Iterator[Figure]:
    """The IMU is mounted 12° to the left, and nobody said so."""
    path, report, _ = drive(folder, imu=ImuErrors(mounting_deg=(0.0, 0.0, 12.0)))
    notes = [note for note in [*report["notes"], *report["warnings"]] if "rig_from_imu" in note]
    yield exactly("said, with what to configure", len(notes), 1)
    yield at_most("rotation stays as configured, off by", abs(path.rms("rotation", *KNOWN) - 12.0), 1.0, "°")
    yield at_most("position RMS", path.rms("position", *KNOWN), 0.3, "m")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios and the drives; the process's exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--drives-only", action="store_true", help="no scenarios of recordings")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these drives; * and ? as in file names")
    parser.add_argument("--seeds", type=int, default=10, help="how many, from --first-seed on")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=cars.LENGTH_S, help="length of a drive")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--ways", default="whole", help="whole, lag, or both with a comma between")
    parser.add_argument(
        "--nees",
        choices=("pooled", "each"),
        default="pooled",
        help="demanded of the mean over seeds or of each",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a line for each drive and seed")
    chosen = parser.parse_args(arguments)
    names = [n for n in cars.DRIVES if not chosen.only or any(fnmatch(n, each) for each in chosen.only)]
    ways = chosen.ways.split(",")
    if not names or not set(ways) <= set(ego_ours.WAYS):
        parser.error(f"drives are {', '.join(cars.DRIVES)}; ways are {', '.join(ego_ours.WAYS)}")
    missed = 0 if chosen.drives_only else scenarios_missed()
    if importlib.util.find_spec("gtsam") is None:
        print("GTSAM is not installed: there is no baseline", file=sys.stderr)
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    done: list[ego_judged.Judged] = []
    print(ego_judged.COLUMNS)
    for each in ego_judged.run_all(names, seeds, chosen.seconds, ways, chosen.jobs):
        done.append(each)
        print(ego_judged.line(each), flush=True)
        if chosen.json:
            with chosen.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(ego_judged.as_json(each)) + "\n")
    print()
    for name in names:
        for way in ways:
            of = [each for each in done if (each.drive, each.way) == (name, way)]
            text, is_met = ego_judged.over_seeds(of)
            print(text)
            missed += not is_met
    if chosen.nees == "each":
        missed += sum(bool(each.odd) for each in done)
    return int(missed > 0)


def scenarios_missed() -> int:
    """Run those of this file; how many figures miss their bounds."""
    import truth  # noqa: PLC0415 - which imports this file in its turn

    rows = [(each, figure) for each in SCENARIOS for figure in truth.measured(each)]
    truth.show(rows)
    return sum(not figure.ok for _, figure in rows)


if __name__ == "__main__":
    sys.exit(main())
