"""Options of a drive whose sensors and messages are at fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict

from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation.options import EXACT, Span, ascending, drive_options, within
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
        said_sigma_m: horizontal and vertical standard deviation according to the messages; None if they
            say that it is unknown, as the device's do.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    sigma_m: tuple[float, float] = (0.0, 0.0)
    drift_m: float = 0.0
    drift_s: float = 30.0
    outlier_share: float = 0.0
    outlier_m: float = 100.0
    jumps: tuple[tuple[float, float, float], ...] = ()
    outlier_messages: Literal["both", "first", "second"] = "both"
    said_sigma_m: tuple[float, float] | None = None


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
        said_covariance: messages have the variances above; otherwise covariance[0] is -1, as on the device.
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
    said_covariance: bool = False


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
class DeviceClock:
    """How the stamps of a device differ from the recorder's time.

    Attributes:
        offset_s: how far its clock is ahead when the drive starts.
        drift_ppm: by how much it runs fast.
        late_ms: what everything that it sends takes longer than usual.
        uptime_s: CLOCK_MONOTONIC, of which its lidars' and radars' stamps are, when the drive starts; None if
            it has one clock.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    offset_s: float = 0.0
    drift_ppm: float = 0.0
    late_ms: float = 0.0
    uptime_s: float | None = None


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
        devices: clocks by the name with which topics of ``more`` begin, before a slash; others are the
            recorder's.
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
        lidar_jitter_deg: standard deviation of a ray's elevation and of a column's azimuth.
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
    devices: Mapping[str, DeviceClock] = field(default_factory=dict)
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
    lidar_model: Literal["maivin", "ouster", "robosense", "hesai", "velodyne"] = "maivin"
    lidar_missing: Literal["left out", "nan", "zero"] = "left out"
    lidar_organised: bool = False
    lidar_jitter_deg: float = 0.0
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

    def _rules(self) -> dict[str, bool]:
        stalled, held_ms = zip(*self.stalls.values(), strict=True) if self.stalls else ((), ())
        shares = {
            "gps.outlier_share": (self.gps.outlier_share,),
            "duplicate": self.duplicate.values(),
            "stalls": stalled,
        }
        delays = {"latency_ms": self.latency_ms.values(), "jitter": self.jitter.values(), "stalls": held_ms}
        noise = {
            "gps.sigma_m": self.gps.sigma_m,
            "gps.drift_m": (self.gps.drift_m,),
            "imu.gyroscope_sigma_rad_s": (self.imu.gyroscope_sigma_rad_s,),
            "imu.accelerometer_sigma_m_s2": (self.imu.accelerometer_sigma_m_s2,),
            "imu.orientation_sigma_rad": (self.imu.orientation_sigma_rad,),
            "boxes.center_m": (self.boxes.center_m,),
            "walkers_stand_s": (self.walkers_stand_s,),
        }
        return (
            DriveOptions._rules(self)
            | within(self, grain=(0, 32), splits=(1, 10_000))
            | {
                "tiles and jpeg exclude each other": not (self.tiles and self.jpeg),
                "drop_video must be at least 0 and less than 1": 0 <= self.drop_video < 1,
                "damage_video and same_stamp must be 0 to 1": 0 <= self.damage_video <= 1
                and 0 <= self.same_stamp <= 1,
                "lidar_organised needs lidar_missing nan or zero": not self.lidar_organised
                or self.lidar_missing != "left out",
                "lidar_jitter_deg must be 0 to 1": 0 <= self.lidar_jitter_deg <= 1,
                **{
                    f"{name}: shares must be 0 to 1": all(0 <= s <= 1 for s in of)
                    for name, of in shares.items()
                },
                **{
                    f"{name} must be 0 to 1000000": all(0 <= v <= 1e6 for v in of)
                    for name, of in delays.items()
                },
                **{
                    f"{name} must be 0 to 1000000": all(0 <= v <= 1e6 for v in of)
                    for name, of in noise.items()
                },
                "gps.drift_s must be 0.001 to 1000000": 0.001 <= self.gps.drift_s <= 1e6,
                "silent must be spans from earlier to later": all(
                    ascending(spans) for spans in self.silent.values()
                ),
                "frozen must be spans from earlier to later": all(
                    ascending(spans) for spans in self.frozen.values()
                ),
                "black must be spans from earlier to later": ascending(self.black),
                "brightness must be 0 to 1": 0 <= self.brightness <= 1,
                "zero_points must be spans from earlier to later, each with a share of 0 to 1": all(
                    0 <= share <= 1 for *_, share in self.zero_points
                )
                and ascending([span[:2] for span in self.zero_points]),
                "restarts must be one after the other, after 0.001 to 86400 s, within 2**31 s": all(
                    ascending([(at_s, at_s + dead_s) for at_s, dead_s, _ in each])
                    and all(0.001 <= dead_s <= 86_400 and abs(by_s) <= 2**31 for _, dead_s, by_s in each)
                    for each in self.restarts.values()
                ),
                "seconds must be at least twice the splits if split_names is device": self.splits == 1
                or self.split_names == "rosbag2"
                or self.seconds >= 2 * self.splits,
                "drift_ppm must be -1000 to 1000": abs(self.drift_ppm) <= 1000,
                "wifi_ms must be at least 0, and rise from the second to the third": self.wifi_ms is None
                or (self.wifi_ms[0] >= 0 and 0 < self.wifi_ms[1] < self.wifi_ms[2] <= 1e6),
                "boxes.size must be at least 0 and less than 0.2": 0 <= self.boxes.size < 0.2,
                "order topic needs splits 1": self.order == "log" or self.splits == 1,
                **{
                    f"{part}.{name} must be one of {', '.join(get_args(kind))}": getattr(options, name)
                    in get_args(kind)
                    for part, options in (("gps", self.gps), ("imu", self.imu))
                    for name, kind in get_type_hints(type(options)).items()
                    if get_origin(kind) is Literal
                },
            }
        )

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
