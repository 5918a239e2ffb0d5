"""Options of a drive whose sensors and messages are at fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict

from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation.options import EXACT, Span, drive_options
from edgefirst_ros.simulation.schedule import LATENCY_MS

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class GpsErrors:
    """Errors of the fixes; none by default.

    Attributes:
        sigma_m: white noise of an epoch, horizontal (each axis) and vertical.
        drift_m: standard deviation of a slow error of each axis, correlated over ``drift_s``.
        outlier_share: share of epochs that are ``outlier_m`` off in a random direction.
        jumps: explicit outliers: time in seconds, metres east, metres north; applied to the nearest epoch.
        outlier_messages: whether both messages of an epoch are outliers, or one of them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    sigma_m: tuple[float, float] = (0.0, 0.0)
    drift_m: float = 0.0
    drift_s: float = 30.0
    outlier_share: float = 0.0
    outlier_m: float = 100.0
    jumps: tuple[tuple[float, float, float], ...] = ()
    outlier_messages: Literal["both", "first", "second"] = "both"


@dataclass(frozen=True, slots=True)
class ImuErrors:
    """Errors of the IMU; none by default.

    Attributes:
        gyroscope_sigma_rad_s: white noise of each axis and sample; accelerometer_sigma_m_s2 likewise.
        gyroscope_bias_rad_s: constant error in the sensor's axes; accelerometer_bias_m_s2 likewise.
        orientation: "identity" or "zero" send this quaternion instead of an orientation.
        orientation_sigma_rad: white noise about each axis.
        heading_error_rad: constant error of the orientation's heading, counter-clockwise.
        mounting_deg: roll, pitch, yaw of the sensor in the rig, applied about z, then y, then x.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    gyroscope_sigma_rad_s: float = 0.0
    gyroscope_bias_rad_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    accelerometer_sigma_m_s2: float = 0.0
    accelerometer_bias_m_s2: tuple[float, float, float] = (0.0, 0.0, 0.0)
    orientation: Literal["valid", "identity", "zero"] = "valid"
    orientation_sigma_rad: float = 0.0
    heading_error_rad: float = 0.0
    mounting_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class BoxErrors:
    """Errors of the detector's boxes; none by default.

    Attributes:
        center_m: white noise of a centre, along each axis; of a 2-D box, of its distance.
        size: white noise of an extent, as a share of it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    center_m: float = 0.0
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Minimum time from acquisition to receipt in milliseconds, by sensor; jitter adds 15 % on average."""

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    camera: float = LATENCY_MS["camera"]
    lidar: float = LATENCY_MS["lidar"]
    radar: float = LATENCY_MS["radar"]
    gps: float = LATENCY_MS["gps"]
    imu: float = LATENCY_MS["imu"]
    tf_static: float = LATENCY_MS["tf_static"]
    model: float = LATENCY_MS["model"]


@dataclass(frozen=True, slots=True)
class FaultyOptions(DriveOptions):
    """Options of one drive and of what is wrong with it; by default nothing is.

    Topics are named without prefix (``gps``, ``radar/targets``); ``radar`` means every ``radar/…``, ``*``
    every topic. The most specific name applies.

    Attributes:
        traffic: what moves around the rig: "lanes" beside its own, "crossing" vehicles only, "parked" ones
            only, or "none" at all.
        crossings_s: when a bus, a car, a truck, ... crosses the rig's road 18 m ahead of it.
        rocking_rad_s: rate at which the road rocks the rig, in roll and in pitch, while it drives.
        tiles: four half-size video topics instead of one, as the device sends 4K.
        masks: also send model/mask (classes by pixel) and model/info, one mask for each model message.
        mask_size: width and height of a mask, which covers the whole picture.
        splits: number of files of the recording, each of the same duration.
        split_names: "rosbag2" makes a folder of ``_0.mcap``, ... with metadata.yaml, "device" names each
            file by its start.
        uptimes_s: CLOCK_MONOTONIC, of which stamps of lidars and radars are, when the drive starts;
            by what topics of ``more`` begin with, before a slash.
        grain: standard deviation of the camera's noise in levels of 255: pictures of the drawn world have far
            less detail than real ones, and cost less to decode and to encode.
        drop_video: share of access units (or JPEGs) lost before they are recorded.
        damage_video: share of access units whose picture bytes were overwritten, cut short or cut out; the
            recording then has no checksums.
        same_stamp: share of pictures that carry the stamp of the picture before.
        duplicate: share of messages by topic that are recorded twice.
        silent: when a topic sends nothing, by topic; the truth covers these times, too.
        frozen: when a topic (camera, lidar/points, imu, gps) repeats what it said at the span's begin, under
            new stamps.
        black: when the camera's picture is black.
        brightness: of the camera's pictures; 0.1 is night.
        zero_points: when a share of the lidar's points is 0, 0, 0: begin, end, share.
        lidar_model: the maker whose fields the cloud has.
        lidar_missing: whether rays that hit nothing are left out, or sent as NaN or zero points.
        lidar_organised: rows and columns instead of a list; needs every ray to be sent.
        walkers_stand_s: until when people stand, before they walk; 0 if they walk from the start.
        order: "log" by time of receipt; "topic" one topic after the other.
        footer: without it the file ends after its last chunk, as power loss leaves it.
        latency_ms: least latency by topic, where it differs from its sensor's.
        jitter: factor of a topic's usual jitter, 15 % of the latency on average.
        stalls: share of a topic's messages that are delayed, and by how many milliseconds; later ones wait.
        wifi_ms: what a bad wireless link adds to every latency: the least, and what is exceeded in 2.5 % and
            in 97.5 % of the messages (log-normal); later messages of a topic wait.
        restarts: by topic, when its publisher dies, after how many seconds it returns, and by how many its
            stamps are off from then on.
        drift_ppm: by how much CLOCK_MONOTONIC is slow on a mixed drive.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    traffic: Literal["lanes", "crossing", "parked", "none"] = "lanes"
    crossings_s: tuple[float, ...] = (2.5,)
    rocking_rad_s: float = 0.0
    tiles: bool = False
    masks: bool = False
    mask_size: tuple[int, int] = (160, 90)
    splits: int = 1
    split_names: Literal["rosbag2", "device"] = "rosbag2"
    latency: Latency = Latency()
    uptimes_s: Mapping[str, float] = field(default_factory=dict)
    grain: float = 0.0
    drop_video: float = 0.0
    damage_video: float = 0.0
    same_stamp: float = 0.0
    duplicate: Mapping[str, float] = field(default_factory=dict)
    silent: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    frozen: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    black: tuple[Span, ...] = ()
    brightness: float = 1.0
    zero_points: tuple[tuple[float, float, float], ...] = ()
    lidar_model: Literal["maivin", "ouster", "hesai"] = "maivin"
    lidar_missing: Literal["left out", "nan", "zero"] = "left out"
    lidar_organised: bool = False
    imu: ImuErrors = ImuErrors()
    gps: GpsErrors = GpsErrors()
    walkers_stand_s: float = 0.0
    boxes: BoxErrors = BoxErrors()
    order: Literal["log", "topic"] = "log"
    footer: bool = True
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    jitter: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    wifi_ms: tuple[float, float, float] | None = None
    restarts: Mapping[str, tuple[tuple[float, float, float], ...]] = field(default_factory=dict)
    drift_ppm: float = 0.0

    def is_silent(self, topic: str, time_s: float) -> bool:
        """Whether a topic (without prefix) sends nothing at that time."""
        spans = (*of_topic(self.silent, topic, ()), *((at, at + dead) for at, dead, _ in self._lives(topic)))
        return any(start <= time_s < end for start, end in spans)

    def stamped_off_s(self, topic: str, time_s: float) -> float:
        """By how much a topic's stamps are off at that time, as its publisher was restarted."""
        return next((by for at, _, by in reversed(self._lives(topic)) if time_s >= at), 0.0)

    def _lives(self, topic: str) -> tuple[tuple[float, float, float], ...]:
        return of_topic(self.restarts, topic, ())

    def shown_s(self, topic: str, time_s: float) -> float:
        """The time of what a topic (without prefix) says then: of a frozen one the begin of its span."""
        spans = of_topic(self.frozen, topic, ())
        return next((start for start, end in spans if start <= time_s < end), time_s)

    def is_black(self, time_s: float) -> bool:
        """Whether the camera's picture is black at that time."""
        return any(start <= time_s < end for start, end in self.black)

    def zero_share(self, time_s: float) -> float:
        """Share of the lidar's points that is 0, 0, 0 at that time."""
        return next((share for start, end, share in self.zero_points if start <= time_s < end), 0.0)


def faulty_options(values: Mapping[str, Any]) -> FaultyOptions:
    """Options from plain values, nested like the options."""
    return drive_options(values, FaultyOptions)


def of_topic(values: Mapping[str, Value], topic: str, otherwise: Value) -> Value:
    """The value for a topic: that of its name, else of the nearest name above it, else of ``*``."""
    name = topic
    while name not in values and "/" in name:
        name = name.rpartition("/")[0]
    return values.get(name, values.get("*", otherwise))
