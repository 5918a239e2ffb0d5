"""What measures the motion of the rig: IMUs, satellite receivers, and odometry (or transforms)."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from edgefirst.schemas import nav_msgs, sensor_msgs

from edgefirst_ros.model.cdr import Message, Stamped, decoder_of, numbers_decoder_of
from edgefirst_ros.model.definitions import define
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.transform import (
    FARTHEST_M,
    FASTEST_RAD_S,
    LEAST_SIGMA,
    MOST_SIGMA,
    Transform,
    Transforms,
    bare,
    known,
    matrix_of,
    measured_unit,
    product,
    xyz,
)
from edgefirst_ros.model.untrusted import displayed

define("geometry_msgs/PoseStamped", "std_msgs/Header header, geometry_msgs/Pose pose")
define(
    "geometry_msgs/PoseWithCovarianceStamped",
    "std_msgs/Header header, geometry_msgs/PoseWithCovariance pose",
)
define(
    "px4_msgs/VehicleOdometry",
    "uint64 timestamp, uint64 timestamp_sample, uint8 pose_frame, float32[3] position, float32[4] q, "
    "uint8 velocity_frame, float32[3] velocity, float32[3] angular_velocity, float32[3] position_variance, "
    "float32[3] orientation_variance, float32[3] velocity_variance, uint8 reset_counter, int8 quality",
)
define(
    "gps_msgs/GPSStatus",
    "std_msgs/Header header, uint16 satellites_used, int32[] satellite_used_prn, uint16 satellites_visible, "
    "int32[] satellite_visible_prn, int32[] satellite_visible_z, int32[] satellite_visible_azimuth, "
    "int32[] satellite_visible_snr, int16 status, uint16 motion_source, uint16 orientation_source, "
    "uint16 position_source",
)
_NUMBERS = (
    "latitude longitude altitude track speed climb pitch roll dip time gdop pdop hdop vdop tdop err err_horz "
    "err_vert err_track err_speed err_climb err_time err_pitch err_roll err_dip"
)
define(
    "gps_msgs/GPSFix",
    "std_msgs/Header header, gps_msgs/GPSStatus status, "
    + "".join(f"float64 {name}, " for name in _NUMBERS.split())
    + "float64[9] position_covariance, uint8 position_covariance_type",
)
_STRONGEST_M_S2 = 4e3
"""400 g: shock sensors end there, and others far below."""


class Imu(NamedTuple):
    """Orientation, angular velocity and acceleration of the sensor (sensor_msgs/Imu).

    Attributes:
        orientation_xyzw: unit quaternion from the sensor's axes to ENU; None if zero or not finite.
        angular_velocity_rad_s: about the sensor's axes; NaN if unknown.
        linear_acceleration_m_s2: along the sensor's axes, with gravity; NaN likewise.
        covariances: of the three, 9 values each, as sent.
    """

    orientation_xyzw: tuple[float, float, float, float] | None
    angular_velocity_rad_s: tuple[float, float, float]
    linear_acceleration_m_s2: tuple[float, float, float]
    covariances: tuple[float, ...] = (math.nan,) * 27


def _imu(x: float, y: float, z: float, w: float, *others: float) -> Imu:
    return Imu(
        measured_unit((x, y, z, w)),
        known(others[9:12], FASTEST_RAD_S, "an angular velocity in rad/s"),
        known(others[21:24], _STRONGEST_M_S2, "an acceleration in m/s²"),
        (*others[:9], *others[12:21], *others[24:]),
    )


@numbers_decoder_of("sensor_msgs/Imu", struct.Struct("<37d"), _imu)
def decode_imu(message: sensor_msgs.Imu) -> Imu:
    """Decode a sensor_msgs/Imu.

    An ``orientation_covariance[0]`` of -1, which by the definition says that there is no orientation, is
    ignored: the device sends it with valid ones.

    Raises:
        DecodeError: no valid message of this type, its orientation is not a rotation, or no sensor measures
            its values.
    """
    turn = message.orientation
    return _imu(
        *map(float, (turn.x, turn.y, turn.z, turn.w, *message.orientation_covariance)),
        *(*xyz(message.angular_velocity), *map(float, message.angular_velocity_covariance)),
        *(*xyz(message.linear_acceleration), *map(float, message.linear_acceleration_covariance)),
    )


@dataclass(frozen=True, slots=True)
class NavSatFix:
    """A position fix as sent, plausible or not (sensor_msgs/NavSatFix).

    Attributes:
        latitude_deg: WGS-84, north positive.
        longitude_deg: WGS-84, east positive.
        altitude_m: above the ellipsoid.
        status: as in sensor_msgs/NavSatStatus; -1 is no fix, -2 that the driver does not say.
        sigma_m: standard deviations east, north and up; None if unknown.
        covariance_m2: east, north and up, row by row, as sent; with its type, and the services used.
    """

    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    status: int
    sigma_m: tuple[float, float, float] | None = None
    covariance_m2: tuple[float, ...] = (math.nan,) * 9
    covariance_type: int = 0
    service: int = 0

    @property
    def is_fix(self) -> bool:
        """Whether there is one by its status or, where the driver does not say, by its covariance."""
        return self.status >= 0 or (self.status == -2 and self.sigma_m is not None)


def _fix(message: Message) -> NavSatFix:
    place = float(message.latitude), float(message.longitude), float(message.altitude)
    spread = tuple(map(float, message.position_covariance)), int(message.position_covariance_type)
    status, service = int(message.status.status), int(getattr(message.status, "service", 0))
    return NavSatFix(*place, status, _position_sigma(message), *spread, service)


decode_navsat = decoder_of("sensor_msgs/NavSatFix")(_fix)
decode_gps_fix = decoder_of("gps_msgs/GPSFix")(_fix)


def _position_sigma(message: Message) -> tuple[float, float, float] | None:
    """From the covariance's diagonal; None if its type is unknown, or a variance not positive or absurd."""
    east, north, up = (float(message.position_covariance[index]) for index in (0, 4, 8))
    least, most = LEAST_SIGMA**2, MOST_SIGMA**2
    if int(message.position_covariance_type) == 0 or not all(least <= v <= most for v in (east, north, up)):
        return None
    return math.sqrt(east), math.sqrt(north), math.sqrt(up)


_UNKNOWN = (math.nan,) * 3
_FASTEST_M_S = 1e3
"""Three times the speed of sound."""


@dataclass(frozen=True, slots=True)
class Odometry:
    """Pose and velocity of a frame in the message's frame (nav_msgs/Odometry, or a transform).

    Attributes:
        child_frame_id: the frame that moves.
        position_m: x, y, z.
        orientation_xyzw: unit quaternion from the child's axes to the message's frame.
        linear_m_s: velocity along the child's axes; NaN from a transform, or if unknown.
        angular_rad_s: about the child's axes; NaN likewise.
        position_sigma_m: standard deviations along x, y, z; None if unknown.
        rotation_sigma_rad: standard deviations about x, y, z; None if unknown.
        beside: other transforms of the message, but for those of the frame that it is in.
    """

    child_frame_id: str
    position_m: tuple[float, float, float]
    orientation_xyzw: tuple[float, float, float, float]
    linear_m_s: tuple[float, float, float]
    angular_rad_s: tuple[float, float, float]
    position_sigma_m: tuple[float, float, float] | None = None
    rotation_sigma_rad: tuple[float, float, float] | None = None
    beside: tuple[Transform, ...] = ()


@decoder_of("nav_msgs/Odometry")
def decode_odometry(message: nav_msgs.Odometry) -> Odometry:
    """Decode a nav_msgs/Odometry; the quaternion is normalised, of covariances only the diagonal is used.

    Raises:
        DecodeError: no valid message of this type, or its pose is zero, not finite, not a rotation or
            impossibly far away, or its velocity impossibly high.
    """
    twist = message.twist.twist
    return replace(
        _pose(message.pose.pose, message.pose.covariance),
        child_frame_id=displayed(str(message.child_frame_id)),
        linear_m_s=known(xyz(twist.linear), _FASTEST_M_S, "a velocity in m/s"),
        angular_rad_s=known(xyz(twist.angular), FASTEST_RAD_S, "an angular velocity in rad/s"),
    )


@decoder_of("geometry_msgs/PoseStamped")
def decode_pose(message: Message) -> Odometry:
    """Decode a geometry_msgs/PoseStamped as odometry without velocity; raises as ``decode_odometry`` does."""
    return _pose(message.pose)


@decoder_of("geometry_msgs/PoseWithCovarianceStamped")
def decode_pose_with_covariance(message: Message) -> Odometry:
    """Decode a geometry_msgs/PoseWithCovarianceStamped likewise."""
    # edgefirst-schemas calls it otherwise than the definition.
    found = getattr(message, "pose_with_covariance", None) or message.pose
    return _pose(found.pose, found.covariance)


def _pose(pose: Message, covariance: Sequence[float] = (0.0,) * 36) -> Odometry:
    turn = pose.orientation
    orientation = float(turn.x), float(turn.y), float(turn.z), float(turn.w)
    variances = [float(covariance[index]) for index in range(0, 36, 7)]
    return _odometry(xyz(pose.position), orientation, variances)


def _odometry(
    position: tuple[float, float, float],
    orientation: tuple[float, float, float, float],
    variances: Sequence[float],
) -> Odometry:
    turn = measured_unit(orientation)
    if turn is None or not all(map(math.isfinite, position)):
        raise DecodeError("odometry pose is zero or not finite")
    if max(map(abs, position)) > FARTHEST_M:
        raise DecodeError("odometry position out of range")
    sigmas = _sigmas(variances[:3]), _sigmas(variances[3:])
    return Odometry("", position, turn, _UNKNOWN, _UNKNOWN, *sigmas)


_ENU_OF_NED, _HALF_ROLL = np.array(((0.5**0.5, 0.5**0.5, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)))
"""The second turns forward, right and down into forward, left and up."""


def _since_start(message: Message) -> Message:
    sec, microsec = divmod(int(message.timestamp_sample), 1_000_000)
    return SimpleNamespace(stamp=SimpleNamespace(sec=sec, nanosec=1000 * microsec), frame_id="")


@decoder_of("px4_msgs/VehicleOdometry", _since_start)
def decode_vehicle_odometry(message: Message) -> Odometry:
    """Decode a px4_msgs/VehicleOdometry, of which axes become those of REP 103; raises likewise.

    Its stamp counts from the start of the autopilot, or is of its host's clock.
    """
    body = np.roll(np.array(message.q, np.float64), -1)
    out = _ENU_OF_NED if message.pose_frame == 1 else _HALF_ROLL
    velocity = np.array(message.velocity, np.float64)
    with np.errstate(all="ignore"):  # what is not finite is refused below, or unknown
        if message.velocity_frame != 3:  # else it is along the body's axes
            velocity = matrix_of(body).T @ velocity
        x, y, z = (matrix_of(out) @ np.array(message.position, np.float64)).tolist()
        i, j, k, w = product(product(out, body), _HALF_ROLL).tolist()
    variances = [*map(float, message.position_variance), *map(float, message.orientation_variance)]
    forward, right, down = velocity.tolist()
    roll, pitch, yaw = map(float, message.angular_velocity)
    return replace(
        _odometry((x, y, z), (i, j, k, w), variances),
        linear_m_s=known((forward, -right, -down), _FASTEST_M_S, "a velocity in m/s"),
        angular_rad_s=known((roll, -pitch, -yaw), FASTEST_RAD_S, "an angular velocity in rad/s"),
    )


def odometry_of(transforms: Transforms, parent: str, child: str) -> Stamped[Odometry] | None:
    """The newest pose of ``child`` in ``parent`` among a message's transforms; None if there is none."""
    wanted = (bare(parent), bare(child))
    found = [
        (stamp_ns, each)
        for stamp_ns, each in zip(transforms.stamps_ns, transforms.transforms, strict=True)
        if (bare(each.parent), bare(each.child)) == wanted
    ]
    if not found:
        return None
    stamp_ns, newest = max(found, key=lambda each: each[0])
    others = tuple(t for t in transforms.transforms if bare(t.child) not in wanted)
    pose = newest.child, newest.translation_m, newest.rotation_xyzw
    odometry = Odometry(*pose, _UNKNOWN, _UNKNOWN, beside=others)
    return Stamped(stamp_ns, newest.parent, odometry)


def _sigmas(variances: Sequence[float]) -> tuple[float, float, float] | None:
    """Standard deviations; None if one is unknown: not positive, or beyond what any sensor can claim."""
    if not all(LEAST_SIGMA**2 <= variance <= MOST_SIGMA**2 for variance in variances):
        return None
    x, y, z = map(math.sqrt, variances)
    return x, y, z
