"""What lidar, radar, IMU and GPS measure of the world."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymap3d

from edgefirst_ros.model.transform import matrix_of, product, quaternion_of_angles
from edgefirst_ros.simulation.options import Vector
from edgefirst_ros.simulation.world import BodyState, FloatArray, World, transform

Points = npt.NDArray[np.void]
NOTHING = -2
GROUND = -1


def cast(
    world: World, time_s: float, origin_m: FloatArray, directions: FloatArray, reach_m: float
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """First hits of rays from one point (3,) outside all boxes along unit directions (N, 3) of the world.

    Returns:
        Distances (N,) in metres, infinite where nothing is hit, and what was hit (N,): a box's index,
        GROUND or NOTHING.
    """
    distance = np.full(len(directions), np.inf)
    hit = np.full(len(directions), NOTHING)
    with np.errstate(divide="ignore"):
        to_ground = -origin_m[2] / directions[:, 2]
    down = (to_ground > 0) & (to_ground <= reach_m)
    distance[down], hit[down] = to_ground[down], GROUND
    for index, box in enumerate(world.boxes):
        state = box.motion.state(time_s)
        half_m = np.array(box.size_m) / 2
        arm = transform(state.matrix(), half_m * [0, 0, 1]) - origin_m
        away_m, radius_m = math.hypot(*arm), math.hypot(*half_m)
        if away_m > reach_m + radius_m:
            continue
        # Most rays miss the box by far: test only those through its bounding sphere.
        least = math.sqrt(away_m**2 - radius_m**2) if away_m > radius_m else -math.inf
        toward = np.flatnonzero(directions @ arm >= least)
        if not len(toward):
            continue
        start, along = -arm @ state.rotation(), directions[toward] @ state.rotation()
        with np.errstate(divide="ignore", invalid="ignore"):
            slabs = (-half_m - start) / along, (half_m - start) / along
        # Where a ray lies in a side's plane, 0 / 0 says nothing of that side: fmax and fmin leave it out.
        near = np.fmax.reduce(np.minimum(*slabs), axis=1)
        far = np.fmin.reduce(np.maximum(*slabs), axis=1)
        first = (near <= far) & (near > 0) & (near <= reach_m) & (near < distance[toward])
        distance[toward[first]], hit[toward[first]] = near[first], index
    return distance, hit


RADAR_REACH_M = 90.0
RADAR_HALF_VIEW_RAD = math.radians(60)
RADAR_DTYPE = np.dtype([(name, "<f4") for name in ("x", "y", "z", "speed", "power", "rcs")])
RANGE_BIN_M = 0.5
DOPPLER_BIN_M_S = 0.3
CUBE_NOISE = 20
RCS_DBSM = {"person": -5.0, "bicycle": 0.0, "car": 10.0, "bus": 18.0, "truck": 18.0}
RETURNS = {"person": 3, "bicycle": 4, "car": 8, "bus": 12, "truck": 12}


def radar_scan(world: World, time_s: float, rng: np.random.Generator, frame: str = "radar") -> Points:
    """Returns of RADAR_DTYPE in the radar frame, from the sides of boxes that face it within ±60° and 90 m.

    ``speed`` is that of the surface relative to the moving radar along the line of sight, m/s, positive =
    receding, not compensated for the vehicle's own motion; ``power`` dB, ``rcs`` dBsm.
    """
    T_radar_world = world.sensor(frame, time_s)
    eye = T_radar_world[:3, 3]
    own_velocity = world.rig.state(time_s).velocity_at(eye[None])[0]
    aimed = []
    for index, box in enumerate(world.boxes):
        state = box.motion.state(time_s)
        aims = (rng.uniform(-0.45, 0.45, (RETURNS[box.label], 3)) + np.array([0, 0, 0.5])) * box.size_m
        rcs = RCS_DBSM[box.label] + rng.normal(0, 1.5, len(aims))
        arms = transform(state.matrix(), aims) - eye
        if np.linalg.norm(arms, axis=1).min() > RADAR_REACH_M + box.size_m[0]:
            continue
        directions = arms / np.linalg.norm(arms, axis=1, keepdims=True)
        local = directions @ T_radar_world[:3, :3]
        in_view = np.abs(np.arctan2(local[:, 1], local[:, 0])) <= RADAR_HALF_VIEW_RAD
        aimed += [(index, state, directions[i], local[i], rcs[i]) for i in np.flatnonzero(in_view)]
    if not aimed:
        return np.zeros(0, RADAR_DTYPE)
    distances, hits = cast(world, time_s, eye, np.array([ray[2] for ray in aimed]), RADAR_REACH_M)
    returns = []
    for (index, state, direction, local, rcs), distance, hit in zip(aimed, distances, hits, strict=True):
        if hit == index:
            speed = (state.velocity_at((eye + direction * distance)[None])[0] - own_velocity) @ direction
            power = 60 + rcs - 40 * math.log10(distance / 10)
            returns.append((*(local * distance), speed, power, rcs))
    return np.array(returns, RADAR_DTYPE)


def radar_cube(
    scan: Points, shape: tuple[int, int, int, int], rng: np.random.Generator
) -> npt.NDArray[np.int16]:
    """The cube of a scan, int16 [sequence, range, rx, 2·doppler]: noise, and one bin for each return.

    Range bin r is centred on r·0.5 m, doppler bin d on (d - bins / 2)·0.3 m/s and folds over beyond them;
    the phase advances by π·sin(azimuth) a receiver. Where returns share a bin the strongest stays.
    """
    sequences, ranges, receivers, dopplers = shape
    cube = rng.integers(-CUBE_NOISE, CUBE_NOISE, (*shape, 2), np.int16, endpoint=True)
    for x, y, z, speed, power, _ in np.sort(scan, order="power").tolist():
        away = math.hypot(x, y, z)
        row = round(away / RANGE_BIN_M)
        column = (round(speed / DOPPLER_BIN_M_S) + dopplers // 2) % dopplers
        if row < ranges:
            level = min(max(10 ** (power / 20), 300.0), 20_000.0)
            phase = math.pi * y / away * np.arange(receivers)
            cube[:, row, :, column] = np.rint(level * np.stack([np.cos(phase), np.sin(phase)], axis=-1))
    return cube.reshape(sequences, ranges, receivers, 2 * dopplers)


ROWS = 32
LIDAR_DTYPE = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("reflect", "u1")])


class Lidar:
    """A lidar that measures a whole sweep at one instant: 32 rows from -24° to +6°, 360° around."""

    rows, is_dense = 1, True
    """Of its clouds."""

    def __init__(self, world: World, points: int, frame: str = "lidar") -> None:
        self._world, self._frame = world, frame
        circle = np.arange(points // ROWS) * 2 * math.pi / (points // ROWS)
        self._angles = np.meshgrid(np.radians(np.linspace(-24, 6, ROWS)), circle, indexing="ij")

    def sweep(self, time_s: float, index: int = 0, stamp_ns: int = 0) -> Points:  # noqa: ARG002 - for others
        """One sweep, rays that hit nothing left out; reflect is 40 + 15·(index of the box, or -1)."""
        local, distance, hit = self._cast(time_s)
        met = hit != NOTHING
        points = np.zeros(int(met.sum()), LIDAR_DTYPE)
        points["x"], points["y"], points["z"] = (local[met] * distance[met][:, None]).T
        points["reflect"] = 40 + 15 * hit[met]
        return points

    def _cast(self, time_s: float) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
        """Unit directions (N, 3) in the lidar frame, row by row, and what rays along them hit."""
        elevation, azimuth = self._angles
        plane = np.cos(elevation)
        axes = [plane * np.cos(azimuth), plane * np.sin(azimuth), np.sin(elevation)]
        local = np.stack(axes, axis=-1).reshape(-1, 3)
        T_lidar_world = self._world.sensor(self._frame, time_s)
        directions = local @ T_lidar_world[:3, :3].T
        return local, *cast(self._world, time_s, T_lidar_world[:3, 3], directions, 80.0)


@dataclass(frozen=True, slots=True)
class ImuReading:
    """What an IMU measures: x y z w of the sensor in the world, rad/s and m/s² in its axes."""

    orientation_xyzw: tuple[float, float, float, float]
    angular_rate_rad_s: Vector
    specific_force_m_s2: Vector


def specific_force(state: BodyState, acceleration_m_s2: FloatArray | None = None) -> Vector:
    """Specific force, m/s² in the body's axes, of what accelerates so; by default the body's origin."""
    acceleration = state.acceleration_m_s2 if acceleration_m_s2 is None else acceleration_m_s2
    return _vector((acceleration + np.array([0, 0, 9.80665])) @ state.rotation())


def imu_reading(
    state: BodyState, mounting_deg: Vector = (0.0, 0.0, 0.0), acceleration_m_s2: FloatArray | None = None
) -> ImuReading:
    """The reading of an IMU mounted so; by default it accelerates as the rig's origin does."""
    turning, forced = state.turning_rad_s(), specific_force(state, acceleration_m_s2)
    if not any(mounting_deg):
        return ImuReading(state.quaternion_xyzw(), turning, forced)
    mounted = quaternion_of_angles(np.radians(mounting_deg))
    R_imu_rig = matrix_of(mounted).T
    x, y, z, w = product(quaternion_of_angles((0.0, 0.0, state.yaw_rad)), mounted).tolist()
    return ImuReading((x, y, z, w), _vector(R_imu_rig @ turning), _vector(R_imu_rig @ forced))


def antenna_m(world: World, time_s: float, at_m: Vector = (0.0, 0.0, 0.0)) -> FloatArray:
    """Where an antenna at a place in base_link is in the world."""
    state = world.rig.state(time_s)
    return transform(state.matrix(), np.array(at_m)) if any(at_m) else state.position_m


def fix(world: World, position_m: FloatArray) -> Vector:
    """Latitude, longitude (degrees) and ellipsoidal height (m) of a position in the world."""
    origin = (world.latitude_deg, world.longitude_deg, world.altitude_m)
    latitude, longitude, altitude = pymap3d.enu2geodetic(*position_m.tolist(), *origin)
    return float(latitude), float(longitude), float(altitude)


def _vector(values: FloatArray) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z
