"""Sensors with errors: IMU, GPS, the detector's boxes, and lidars of other makers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from edgefirst.schemas.edgefirst_msgs import DetectBox

from edgefirst_ros.model.transform import matrix_of, product, quaternion_of_angles
from edgefirst_ros.simulation.detector import OWN, Detector, Place
from edgefirst_ros.simulation.options import Vector
from edgefirst_ros.simulation.sensors import (
    LIDAR_DTYPE,
    NOTHING,
    ROWS,
    ImuReading,
    Lidar,
    Points,
    specific_force,
)
from edgefirst_ros.simulation.world import BodyState, FloatArray, World
from faulty.options import BoxErrors, FaultyOptions, GpsErrors, ImuErrors
from faulty.world import Tilted

NOT_ORIENTED: dict[str, tuple[float, float, float, float]] = {
    "identity": (0.0, 0.0, 0.0, 1.0),
    "zero": (0.0, 0.0, 0.0, 0.0),
}
LAYOUTS = {
    "maivin": LIDAR_DTYPE,
    # ouster_ros, "original": padded behind z and behind ring.
    "ouster": np.dtype(
        {
            "names": ["x", "y", "z", "intensity", "t", "reflectivity", "ring", "ambient", "range"],
            "formats": ["<f4", "<f4", "<f4", "<f4", "<u4", "<u2", "<u2", "<u2", "<u4"],
            "offsets": [0, 4, 8, 16, 20, 24, 26, 28, 32],
            "itemsize": 48,
        }
    ),
    # hesai_ros_driver: packed.
    "hesai": np.dtype(
        [(each, "<f4") for each in ("x", "y", "z", "intensity")] + [("ring", "<u2"), ("timestamp", "<f8")]
    ),
}


def quaternion_of_vector(vectors_rad: npt.ArrayLike) -> FloatArray:
    """The quaternions (..., 4) of turns about vectors (..., 3) by their length."""
    vectors = np.asarray(vectors_rad, np.float64)
    half = np.linalg.norm(vectors, axis=-1, keepdims=True) / 2
    return np.concatenate([vectors * np.sinc(half / np.pi) / 2, np.cos(half)], axis=-1)


def imu_reading(
    state: BodyState, errors: ImuErrors, rng: np.random.Generator, acceleration_m_s2: FloatArray | None = None
) -> ImuReading:
    """The reading of an IMU, with errors and mounting; by default it accelerates as the rig's origin does."""
    turning, forced = state.turning_rad_s(), specific_force(state, acceleration_m_s2)
    if errors == ImuErrors():
        return ImuReading(state.quaternion_xyzw(), turning, forced)
    mounted = quaternion_of_angles(np.radians(errors.mounting_deg))
    R_rig_imu = matrix_of(mounted)
    noise = rng.normal(size=(3, 3))
    rate = R_rig_imu.T @ turning + errors.gyroscope_bias_rad_s
    rate += errors.gyroscope_sigma_rad_s * noise[0]
    force = R_rig_imu.T @ forced + errors.accelerometer_bias_m_s2
    force += errors.accelerometer_sigma_m_s2 * noise[1]
    error = quaternion_of_vector(errors.orientation_sigma_rad * noise[2])
    roll, pitch = state.tilt_rad if isinstance(state, Tilted) else (0.0, 0.0)
    heading = quaternion_of_angles((roll, pitch, state.yaw_rad + errors.heading_error_rad))
    x, y, z, w = product(product(heading, mounted), error).tolist()
    turned = NOT_ORIENTED.get(errors.orientation, (x, y, z, w))
    return ImuReading(turned, _vector(rate), _vector(force))


def _vector(values: FloatArray) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z


def fixes_m(
    times_s: FloatArray, places_m: FloatArray, errors: GpsErrors, rng: np.random.Generator
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Where the two messages of every epoch say that the antenna is, and which of them are outliers."""
    count = len(times_s)
    error_m, jump_m = _noise(times_s, errors, rng), np.zeros((count, 3))
    for epoch in np.flatnonzero(rng.random(count) < errors.outlier_share).tolist():
        course = rng.uniform(-math.pi, math.pi)
        jump_m[epoch, :2] = errors.outlier_m * np.array([math.cos(course), math.sin(course)])
    for time_s, east_m, north_m in errors.jumps if count else ():
        jump_m[np.argmin(np.abs(times_s - time_s))] = east_m, north_m, 0.0
    with_jump = np.array([errors.outlier_messages in ("both", which) for which in ("first", "second")])
    sent = (places_m + error_m)[:, None] + jump_m[:, None] * with_jump[:, None]
    outlier: npt.NDArray[np.bool_] = (jump_m != 0).any(axis=1, keepdims=True) & with_jump
    return sent.reshape(-1, 3), outlier.ravel()


def _noise(times_s: FloatArray, errors: GpsErrors, rng: np.random.Generator) -> FloatArray:
    """White noise and a first-order Gauss-Markov drift, (N, 3) metres east, north, up."""
    horizontal_m, vertical_m = errors.sigma_m
    noise = rng.normal(size=(len(times_s), 3)) * [horizontal_m, horizontal_m, vertical_m]
    steps = rng.normal(size=(len(times_s), 3)) * errors.drift_m
    drift = np.zeros_like(steps)
    for i, step in enumerate(steps):
        kept = math.exp(-(times_s[i] - times_s[i - 1]) / errors.drift_s) if i else 0.0
        drift[i] = kept * drift[i - 1] + math.sqrt(1 - kept**2) * step
    total: FloatArray = noise + drift
    return total


class FaultyDetector(Detector):
    """A detector with errors; of a ``solid`` one the boxes are 3-D, whose centres are in metres."""

    def __init__(
        self, world: World, errors: BoxErrors, *, seed: int = 0, solid: bool = False, frame: str = OWN
    ) -> None:
        super().__init__(world, frame)
        self._errors, self._solid = errors, solid
        self._rng = np.random.default_rng([seed, 11, int(solid)])

    def _box(self, index: int, stamp_ns: int, time_s: float, place: Place) -> DetectBox:
        if self._errors != BoxErrors():
            x, y, width, height, distance = place
            center_m = self._errors.center_m if self._solid else 0.0
            off, share = self._rng.normal(size=5).tolist(), self._errors.size
            place = (
                x + center_m * off[0],
                y + center_m * off[1],
                width * (1 + share * off[2]),
                height * (1 + share * off[3]),
                distance + self._errors.center_m * off[4],
            )
        return super()._box(index, stamp_ns, time_s, place)


class FaultyLidar(Lidar):
    """A lidar of these makers, whose rays may hit nothing, and some of its points be lost."""

    def __init__(
        self, world: World, options: FaultyOptions, points: int, frame: str, zero_share: Callable[[], float]
    ) -> None:
        super().__init__(world, points, frame)
        self._options, self._zero_share = options, zero_share
        self.rows = ROWS if options.lidar_organised else 1
        self.is_dense = options.lidar_missing != "nan"

    def sweep(self, time_s: float, index: int = 0, stamp_ns: int = 0) -> Points:
        local, distance, hit = self._cast(time_s)
        missing = self._options.lidar_missing
        kept = hit != NOTHING if missing == "left out" else np.full(len(hit), True)
        met = (hit != NOTHING)[kept]
        layout = LAYOUTS[self._options.lidar_model]
        points = np.zeros(len(met), layout)
        away = np.where(met, distance[kept], 0.0)
        points["x"], points["y"], points["z"] = (local[kept] * away[:, None]).T
        level = np.where(met, 40 + 15 * hit[kept], 0)
        ring = np.repeat(np.arange(ROWS), len(hit) // ROWS)[kept]
        values = {"reflect": level, "intensity": level, "ring": ring, "timestamp": stamp_ns / 1e9}
        values |= {"reflectivity": level * 256, "ambient": 300, "range": np.rint(away * 1000)}
        for name in values.keys() & set(layout.names or ()):
            points[name] = values[name]
        lost = np.random.default_rng([self._options.seed, 5, index]).random(len(points)) < self._zero_share()
        for axis in "xyz":
            points[axis][~met] = 0 if missing == "zero" else np.nan
            points[axis][lost] = 0.0
        return points
