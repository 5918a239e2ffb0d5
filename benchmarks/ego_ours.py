"""The package's estimate of a drive's motion: all that these benchmarks ask of ``edgefirst_ros.ego``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymap3d
from cars import ORIGIN, Drive, Floats, rotations_of

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.motion import solve
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.navigation import Imu, NavSatFix
from edgefirst_ros.model.sample import EgoPose, GeoPoint

START_NS = 1_777_626_000_000_000_000
WAIT_S = 2.0
"""``ego.wait_s`` as it is without a configuration."""
WAYS = ("whole", "lag")

Message = tuple[int, int, Imu | NavSatFix]
"""Time, running number among fixes, and what came."""


@dataclass(frozen=True)
class Estimate:
    """Poses of a drive.

    Attributes:
        time_s: (n,) as asked.
        position_m: (n, 3) in the drive's ENU; NaN where there is none.
        rotation: (n, 3, 3) from the rig's axes to the drive's ENU; NaN where there is none.
        position_sigma_m: (n, 3) east, north, up; NaN where there is none.
        rotation_sigma_rad: (n, 3) about the rig's axes; NaN where there is none.
        position_basis: (n,) what it rests on, as ``PoseBasis`` says it.
        rotation_basis: (n,) likewise.
        refused: how many fixes for which reason.
        found_deg: (heading, whole angle) by which the IMU is said to be turned against its configuration; NaN
            if nothing is said.
        notes: sentences on what was found.
        cpu_s: of the estimate: for ``whole`` without reading its poses.
    """

    time_s: Floats
    position_m: Floats
    rotation: Floats
    position_sigma_m: Floats
    rotation_sigma_rad: Floats
    position_basis: npt.NDArray[np.str_]
    rotation_basis: npt.NDArray[np.str_]
    refused: dict[str, int]
    found_deg: tuple[float, float]
    notes: list[str]
    cpu_s: float


def estimated(drive: Drive, time_s: Floats, way: str = "whole", wait_s: float = WAIT_S) -> Estimate:
    """Poses at ascending times (n,): of the whole drive (``whole``), or each ``wait_s`` later (``lag``)."""
    messages = sorted(_messages(drive), key=lambda each: each[0])
    began_s = time.process_time()
    cpu_s = 0.0
    if way == "lag":
        trajectory = Trajectory(wait_ns=round(wait_s * 1e9))
    else:
        log = NavigationLog()
        for time_ns, number, datum in messages:
            if isinstance(datum, Imu):
                log.add_imu(time_ns, datum)
            else:
                log.add_fix(time_ns, number, datum)
        trajectory = Trajectory(solve(log, Vehicle(), None))
        cpu_s = time.process_time() - began_s
    poses: list[EgoPose] = []
    refused: Counter[str] = Counter()
    asked_ns = [START_NS + round(at * 1e9) for at in time_s.tolist()]
    for time_ns, number, datum in messages:
        while len(poses) < len(asked_ns) and time_ns >= asked_ns[len(poses)] + wait_s * 1e9:
            poses.append(trajectory.pose(asked_ns[len(poses)], located=False))
        if isinstance(datum, Imu):
            trajectory.add_imu(time_ns, datum)
        else:
            trajectory.add_fix(time_ns, number, datum)
        refused.update(reason for _, reason in trajectory.judged() if reason is not None)
    trajectory.finish()
    refused.update(reason for _, reason in trajectory.judged() if reason is not None)
    poses += [trajectory.pose(asked, located=False) for asked in asked_ns[len(poses) :]]
    mounting = trajectory.mounting
    positions, rotations = _in_drive(poses)
    return Estimate(
        time_s,
        positions,
        rotations,
        np.array([pose.position_sigma_m or (np.nan,) * 3 for pose in poses]),
        np.array([pose.rotation_sigma_rad or (np.nan,) * 3 for pose in poses]),
        np.array([str(pose.position_basis) for pose in poses]),
        np.array([str(pose.rotation_basis) for pose in poses]),
        dict(refused),
        (np.nan, np.nan) if mounting is None else (mounting.heading_deg, mounting.whole_deg),
        [*trajectory.notes, *trajectory.doubts],
        cpu_s or time.process_time() - began_s,
    )


def _messages(drive: Drive) -> Iterator[Message]:
    """Fixes before samples of the same time, as they are read."""
    fixes = zip(drive.fixes.time_s.tolist(), drive.fixes.geodetic.tolist(), strict=True)
    for number, (at_s, (latitude_deg, longitude_deg, altitude_m)) in enumerate(fixes):
        fix = NavSatFix(latitude_deg, longitude_deg, altitude_m, 0, drive.kind.fixes.sigma_m)
        yield _ns(at_s), number, fix
    if not len(drive.rate_rad_s):
        return
    rates, forces = drive.rate_rad_s.tolist(), drive.force_m_s2.tolist()
    turns = None if drive.orientation_xyzw is None else drive.orientation_xyzw.tolist()
    for number, at_s in enumerate(drive.truth.time_s.tolist()):
        orientation = None if turns is None else tuple(turns[number])
        yield _ns(at_s), -1, Imu(orientation, tuple(rates[number]), tuple(forces[number]))


def _ns(at_s: float) -> int:
    return START_NS + round(at_s * 1e9)


def _in_drive(poses: list[EgoPose]) -> tuple[Floats, Floats]:
    """Positions and rotations in the drive's ENU: the poses' own frame begins at a fix, maybe anew."""
    positions, rotations = np.full((len(poses), 3), np.nan), np.full((len(poses), 3, 3), np.nan)
    frames: dict[GeoPoint, Floats] = {}
    for number, pose in enumerate(poses):
        turn = np.eye(3)
        if pose.origin is not None:
            origin = pose.origin
            if origin not in frames:
                frames[origin] = _frame(origin)
            turn = frames[origin]
            if pose.position_m is not None:
                place = (origin.latitude_deg, origin.longitude_deg, origin.altitude_m)
                positions[number] = pymap3d.ecef2enu(*pymap3d.enu2ecef(*pose.position_m, *place), *ORIGIN)
        if pose.rotation_xyzw is not None:
            rotations[number] = turn @ rotations_of(np.array([pose.rotation_xyzw]))[0]
    return positions, rotations


def _frame(origin: GeoPoint) -> Floats:
    """Rotation from ENU at an origin to the drive's ENU."""
    axes = [
        np.array([pymap3d.enu2uvw(*unit, latitude_deg, longitude_deg) for unit in np.eye(3)]).T
        for latitude_deg, longitude_deg in ((origin.latitude_deg, origin.longitude_deg), ORIGIN[:2])
    ]
    return np.asarray(axes[1].T @ axes[0])
