"""Samples, the measurements aligned to one reference frame, and poses of the rig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from edgefirst_ros.messages.camera import CameraInfo
from edgefirst_ros.messages.detection import ModelInfo
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.messages.radar import RadarInfo
from edgefirst_ros.messages.sensors import Role
from edgefirst_ros.messages.transform import Transform

__all__ = ["Role"]  # of what is imported here


@dataclass(frozen=True, slots=True)
class GeoPoint:
    """A WGS-84 position: degrees, metres above the ellipsoid."""

    latitude_deg: float
    longitude_deg: float
    altitude_m: float


class PoseBasis(StrEnum):
    """What a position or rotation is based on, from the best to nothing."""

    MEASURED = "measured"
    """Measured at this time, within the sensor's period."""
    INTERPOLATED = "interpolated"
    """Between two measurements that are at most ``ego.max_gap_s`` apart."""
    DEAD_RECKONED = "dead-reckoned"
    """Extrapolated from a measurement by other sensors (gyroscope, accelerometer, wheels)."""
    ASSUMED = "assumed"
    """Unknown; a value, if there is one, is a placeholder."""


@dataclass(frozen=True, slots=True)
class EgoPose:
    """Pose of the rig at one time; any part may be unknown.

    ``location`` is the estimated geodetic position, ``fix_time_ns`` the time of the fix nearest to it;
    ``position_m`` is ENU metres from the sequence's ``origin``, or metres of the odometry's frame where
    ``origin`` is None; ``rotation_xyzw`` turns rig (x forward, y left, z up) into that frame; ``rpy_deg`` are
    its roll, pitch, yaw in signed degrees. A part that is None is unknown, and its basis ASSUMED.

    ``position_sigma_m`` and ``rotation_sigma_rad`` are one standard deviation along ENU's axes and about the
    rig's, None where no covariance is known.
    """

    time_ns: int
    location: GeoPoint | None = None
    fix_time_ns: int | None = None
    origin: GeoPoint | None = None
    position_m: tuple[float, float, float] | None = None
    rotation_xyzw: tuple[float, float, float, float] | None = None
    rpy_deg: tuple[float, float, float] | None = None
    position_basis: PoseBasis = PoseBasis.ASSUMED
    rotation_basis: PoseBasis = PoseBasis.ASSUMED
    position_sigma_m: tuple[float, float, float] | None = None
    rotation_sigma_rad: tuple[float, float, float] | None = None

    @property
    def is_known(self) -> bool:
        """Whether both position and rotation are known."""
        told = self.position_m is not None and self.rotation_xyzw is not None
        return told and PoseBasis.ASSUMED not in {self.position_basis, self.rotation_basis}


@dataclass(frozen=True, slots=True)
class CameraImage:
    """One camera picture, encoded once and shared by every writer; no EXIF yet.

    ``format`` is "jpeg" or "png"; ``data`` the encoded bytes.
    """

    format: str
    data: bytes
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class SequenceInfo:
    """A sequence: ``name`` is hostname_date_time and safe as a file name."""

    name: str
    host: str
    start_ns: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration in force at a sample: the latest message of each kind."""

    camera_info: CameraInfo | None = None
    radar_info: RadarInfo | None = None
    model_info: ModelInfo | None = None
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    """By child frame."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Measurements aligned to one reference frame.

    ``frame`` counts reference frames of the sequence from 0, so gaps stay visible. ``companions`` hold
    at most one measurement a role, the reference's own role included; ``error_ns`` is companion minus
    reference time. ``image`` is the encoded camera picture, None if the sample has no camera.
    """

    sequence: SequenceInfo
    frame: int
    time_ns: int
    companions: Mapping[Role, Measurement]
    error_ns: Mapping[Role, int]
    ego: EgoPose
    calibration: Calibration
    image: CameraImage | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One measurement as a measurement writer gets it, with its role and the calibration in force.

    ``image`` is set for cameras only: the encoded picture of a video packet or still image. ``picture`` is
    width and height of the camera's pictures, None if none has come yet.
    """

    role: Role
    measurement: Measurement
    calibration: Calibration
    image: CameraImage | None = None
    picture: tuple[int, int] | None = None
