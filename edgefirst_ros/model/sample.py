"""Messages as received, what they decode to, and samples: measurements aligned to a reference frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.detection import ModelInfo
from edgefirst_ros.model.radar import RadarInfo
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.transform import Transform

Datum: TypeAlias = object
"""What a message decodes to, such as ``Imu``: the modules that ``sensors.SENSORS`` names define the types."""


class RawMessage(NamedTuple):
    """One message as received, its payload still encoded; this is what sources yield.

    Attributes:
        topic: its topic, as the source names it.
        schema: its type, ``pkg/msg/Type`` or ``pkg/Type``.
        data: CDR with its encapsulation header.
        receive_ns: time of receipt, in nanoseconds since 1970 of the receiver's clock.
        publish_ns: time of publication in the same unit; the time of receipt if the source has no other.
        arrival: running number over all messages of the source, from 0, in order of receipt.
        definition: text of the ROS message definition; empty if the source has none (MCAP files have).
        fault: why its bytes may be damaged, such as a wrong checksum; empty if nothing is known.
        repeated: received before the recording began and stored at its beginning, because it is still valid.
        checksummed: a checksum of the recording or of the transport covers its bytes.
    """

    topic: str
    schema: str
    data: bytes
    receive_ns: int
    publish_ns: int
    arrival: int
    definition: str = ""
    fault: str = ""
    repeated: bool = False
    checksummed: bool = False


NOT_MOVING: Mapping[str, Transform] = {}
"""Of a rig on which no mount moves; a plain one, as it goes to other processes."""


class Measurement(NamedTuple):
    """One decoded message with its acquisition time.

    Attributes:
        topic: topic of the message.
        time_ns: acquisition, in nanoseconds since 1970 of the recording's clock.
        stamp_ns: the header stamp in nanoseconds, as sent, of whichever clock the sensor uses.
        receive_ns: time of receipt, in nanoseconds since 1970 of the receiver's clock.
        arrival: running number over all messages of the source.
        frame_id: the coordinate frame as sent; may be empty.
        datum: what the message decodes to; its arrays are read-only.
        mounted: where frames on mounts that move were then, by child frame; in place of transforms in force.
    """

    topic: str
    time_ns: int
    stamp_ns: int
    receive_ns: int
    arrival: int
    frame_id: str
    datum: Datum
    mounted: Mapping[str, Transform] = NOT_MOVING


__all__ = ["Role"]  # of what is imported here


@dataclass(frozen=True, slots=True)
class GeoPoint:
    """A WGS-84 position: degrees, metres above the ellipsoid."""

    latitude_deg: float
    longitude_deg: float
    altitude_m: float


class PoseBasis(StrEnum):
    """How a position or rotation was obtained, the best way first."""

    MEASURED = "measured"
    """Measured at this time, within the sensor's period."""
    INTERPOLATED = "interpolated"
    """Between two measurements that are at most ``ego.max_gap_s`` apart."""
    DEAD_RECKONED = "dead-reckoned"
    """Continued from a measurement with other sensors (gyroscope, accelerometer, wheels)."""
    ASSUMED = "assumed"
    """Unknown; the value, if there is one, is a placeholder."""


@dataclass(frozen=True, slots=True)
class EgoPose:
    """Pose of the rig (x forward, y left, z up) at one time; parts that are None are unknown.

    Attributes:
        time_ns: nanoseconds since 1970 of the recording's clock.
        location: geodetic position.
        fix_time_ns: time of the fix that is nearest in time.
        origin: origin of the local frame, whose axes are east, north, up; None if it is that of odometry.
        position_m: in the local frame.
        rotation_xyzw: unit quaternion from the rig's axes to the local frame.
        rpy_deg: roll, pitch and yaw of this rotation, signed.
        position_basis: how the position was obtained.
        rotation_basis: how the rotation was obtained.
        position_sigma_m: standard deviations along the axes of the local frame.
        rotation_sigma_rad: standard deviations about the rig's axes.
        speed_m_s: horizontal; known where the position is.
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
    speed_m_s: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether both position and rotation are known."""
        is_complete = self.position_m is not None and self.rotation_xyzw is not None
        return is_complete and PoseBasis.ASSUMED not in {self.position_basis, self.rotation_basis}


class Look(NamedTuple):
    """What a picture looks like.

    Attributes:
        luminance: mean level, 0 to 255.
        contrast: standard deviation of levels.
        sharpness: mean difference between neighbouring pixels in the middle.
        clipped: share of pixels that are black or white.
        lit: share of pixels that are bright enough for something to be seen.
        fingerprint: of its pixels; of still pictures it says nothing.
        thumb: mean level of each of 16 x 9 fields; empty of a tiny picture.
    """

    luminance: float
    contrast: float
    sharpness: float
    clipped: float
    lit: float
    fingerprint: int
    thumb: bytes = b""


SixteenBits = Literal["", "as_sent", "depth"]
"""What is kept of a gray camera's 16 bits: nothing, values as sent, or depth in millimetres."""


@dataclass(frozen=True, slots=True)
class CameraImage:
    """An encoded camera picture without EXIF, shared by all writers.

    ``format`` is "jpeg" or "png"; ``width`` and ``height`` are in pixels; ``look`` is None if nobody looked;
    ``values`` is ``sixteen_bits`` of the camera, empty for a picture of 8 bits.
    """

    format: str
    data: bytes
    width: int
    height: int
    look: Look | None = field(default=None, compare=False)
    values: SixteenBits = ""


@dataclass(frozen=True, slots=True)
class Vehicle:
    """What carries the sensors; what is None is unknown.

    Attributes:
        length_m: of its box, as are width and height.
        width_m: without mirrors.
        height_m: from the ground.
        rear_axle_m: middle of the rear axle, on the ground, in the rig's frame.
        rear_overhang_m: from the rear axle to the end.
        platform: its kind, such as a name of the model.
    """

    length_m: float | None = None
    width_m: float | None = None
    height_m: float | None = None
    rear_axle_m: tuple[float, float, float] | None = None
    rear_overhang_m: float | None = None
    platform: str = ""


@dataclass(frozen=True, slots=True)
class SequenceInfo:
    """A sequence.

    Attributes:
        name: ``hostname_date_time``, valid as a file name and unique in its dataset.
        host: the device's host name.
        start_ns: time at which it begins, in nanoseconds since 1970 of the recording's clock.
        rig_frame: what the transforms call the rig.
        vehicle: as configured.
        pictures: all, or which were asked for.
        rig: name of the rig's own sequence, where this one is of a camera beside the reference.
        drive: name of the first sequence of its drive, where it is another one.
        simulated: a simulator gives the time, or the host is called one.
    """

    name: str
    host: str
    start_ns: int
    rig_frame: str = "base_link"
    vehicle: Vehicle = Vehicle()
    pictures: str = "all"
    rig: str = ""
    drive: str = ""
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration in force: the latest message of each kind, and the latest transform of each frame.

    Attributes:
        camera_info: of the camera that samples take, or of the one whose picture it goes with.
        radar_info: of the radar, the newest of any; of a scan or cube that of its own radar.
        model_info: of the model.
        transforms: by child frame.
        other_cameras: of the other cameras, by sensor.
        radars: settings of every radar, by sensor.
    """

    camera_info: CameraInfo | None = None
    radar_info: RadarInfo | None = None
    model_info: ModelInfo | None = None
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    other_cameras: Mapping[str, CameraInfo] = field(default_factory=dict)
    radars: Mapping[str, RadarInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """What goes with a camera beside the reference: its name, measurements by role, and its calibration."""

    camera: str
    companions: Mapping[Role, Measurement]
    calibration: Calibration


@dataclass(frozen=True, slots=True)
class Sample:
    """Measurements aligned to one reference frame.

    Attributes:
        sequence: the sequence that it belongs to.
        frame: number of the reference frame in the sequence, from 0; frames that are left out leave gaps.
        time_ns: acquisition of the reference frame, in nanoseconds since 1970 of the recording's clock.
        companions: at most one measurement per role; the reference is one of them.
        error_ns: time of each companion minus ``time_ns``.
        ego: pose of the rig at ``time_ns``.
        calibration: the calibration in force.
        image: the encoded camera picture; None if the sample has none.
        content: by role, measures of what a companion holds.
        views: what goes with other cameras, by their names, where a format takes that.
    """

    sequence: SequenceInfo
    frame: int
    time_ns: int
    companions: Mapping[Role, Measurement]
    error_ns: Mapping[Role, int]
    ego: EgoPose
    calibration: Calibration
    image: CameraImage | None = None
    content: Mapping[Role, Mapping[str, float]] = field(default_factory=dict)
    views: tuple[View, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """A measurement with its role and calibration, as measurement writers take it.

    Attributes:
        role: role of its topic.
        measurement: the measurement.
        calibration: the calibration in force.
        image: the encoded picture of a camera's measurement; None for other roles.
        picture: width and height of the camera's pictures; None before the first one.
    """

    role: Role
    measurement: Measurement
    calibration: Calibration
    image: CameraImage | None = None
    picture: tuple[int, int] | None = None
