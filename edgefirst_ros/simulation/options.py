"""Options of a simulated drive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.simulation.rig import DeviceClock, MoreSensor

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
ANY_TOPIC = "*"
BRAKING_S = 4.0
"""Duration of braking before a stop, and of accelerating after it."""

Traffic = Literal["lanes", "crossing", "parked", "none"]
Value = TypeVar("Value")
Span = tuple[float, float]
"""Begin and end, in seconds since the drive's start."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Minimum time from acquisition to receipt in milliseconds, by sensor; jitter is added to it."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    camera: float = 25.0
    lidar: float = 60.0
    radar: float = 15.0
    gps: float = 120.0
    imu: float = 3.0
    tf_static: float = 2.0
    model: float = 70.0


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

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

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

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

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

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    center_m: float = 0.0
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class DriveOptions:
    """Options of one drive; equal options give equal bytes.

    Topics are named without prefix (``gps``, ``radar/targets``); ``radar`` means every ``radar/…``, ``*``
    every topic. The most specific name applies.

    Attributes:
        seconds: length of the drive.
        seed: seed of the random numbers.
        stops: when the rig stands still; it brakes for 4 s before and accelerates for 4 s after.
        traffic: what moves around the rig: "lanes" beside its own, "crossing" vehicles only, "parked" ones
            only, or "none" at all.
        crossings_s: when a bus, a car, a truck, ... crosses the rig's road 18 m ahead of it.
        fps: camera frames per second.
        width: width of the camera's picture in pixels; height likewise.
        codec: video codec.
        bframes: most B pictures between two others.
        mbit_s: bit rate of the video; 0 encodes with constant quality.
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
        tiles: four half-size video topics instead of one, as the device sends 4K.
        jpeg: camera/jpeg instead of video.
        prefix: generation of the topic names: "", "rt" or the host's name.
        clock: "mixed" stamps radar, lidar and imu with CLOCK_MONOTONIC as the device does.
        lidar_hz: messages per second; imu_hz likewise, and gps_hz epochs.
        lidar_points: rays of a sweep; those that hit nothing return no point.
        lidar_model: the maker whose fields the cloud has.
        lidar_missing: whether rays that hit nothing are left out, or sent as NaN or zero points.
        lidar_organised: rows and columns instead of a list; needs every ray to be sent.
        lidar_jitter_deg: standard deviation of a ray's elevation and of a column's azimuth.
        radar_hz: rate of radar/targets; cube_hz selects some of its scans, all if it is higher.
        cube_shape: sequences, range bins, receivers, complex doppler bins.
        model_hz: selects some of the camera's frames, all if it is higher.
        gps_no_fix: epochs at the start that are 0, 0.
        walkers_stand_s: until when people stand, before they walk; 0 if they walk from the start.
        boxes3d: also send fusion/boxes3d, one message for each model message.
        masks: also send model/mask (classes by pixel) and model/info, one mask for each model message.
        mask_size: width and height of a mask, which covers the whole picture.
        compression: compression of the recording's chunks.
        splits: number of files of the recording, each of the same duration.
        split_names: "rosbag2" makes a folder of ``_0.mcap``, ... with metadata.yaml, "device" names each
            file by its start.
        order: "log" by time of receipt; "topic" one topic after the other.
        footer: without it the file ends after its last chunk, as power loss leaves it.
        host: name of the device, in names of files and topics.
        latency_ms: least latency by topic, where it differs from its sensor's.
        jitter: factor of a topic's usual jitter, 15 % of the latency on average.
        stalls: share of a topic's messages that are delayed, and by how many milliseconds; later ones wait.
        wifi_ms: what a bad wireless link adds to every latency: the least, and what is exceeded in 2.5 % and
            in 97.5 % of the messages (log-normal); later messages of a topic wait.
        restarts: by topic, when its publisher dies, after how many seconds it returns, and by how many its
            stamps are off from then on.
        drift_ppm: by how much CLOCK_MONOTONIC is slow on a mixed drive.
        own: whether there are the device's own sensors; without them those of ``more`` are all.
        more: cameras, lidars, radars, IMUs and GPS beside the device's own.
        devices: clocks of the devices that ``more`` names.
        rocking_rad_s: rate at which the road rocks the rig, in roll and in pitch, while it drives.
        start_ns: CLOCK_REALTIME of the drive's start.

    Raises:
        ConfigError: options are invalid; the message lists every fault.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    seconds: float = 10.0
    seed: int = 0
    stops: tuple[Span, ...] = ()
    traffic: Traffic = "lanes"
    crossings_s: tuple[float, ...] = (2.5,)
    fps: int = 30
    width: int = 1280
    height: int = 720
    codec: Codec = "h264"
    bframes: int = 0
    mbit_s: float = 0.0
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
    tiles: bool = False
    jpeg: bool = False
    prefix: str = ""
    clock: Literal["mixed", "realtime"] = "mixed"
    lidar_points: int = 10_000
    lidar_hz: float = 10.0
    lidar_model: Literal["maivin", "ouster", "robosense", "hesai", "velodyne"] = "maivin"
    lidar_missing: Literal["left out", "nan", "zero"] = "left out"
    lidar_organised: bool = False
    lidar_jitter_deg: float = 0.0
    radar_hz: float = 18.0
    cube_hz: float = 2.0
    cube_shape: tuple[int, int, int, int] = (2, 200, 4, 128)
    imu_hz: float = 140.0
    imu: ImuErrors = ImuErrors()
    gps_hz: float = 10.0
    gps_no_fix: int = 2
    gps: GpsErrors = GpsErrors()
    model_hz: float = 15.0
    walkers_stand_s: float = 0.0
    boxes: BoxErrors = BoxErrors()
    boxes3d: bool = False
    masks: bool = False
    mask_size: tuple[int, int] = (160, 90)
    compression: Literal["lz4", "zstd", "none"] = "lz4"
    splits: int = 1
    split_names: Literal["rosbag2", "device"] = "rosbag2"
    order: Literal["log", "topic"] = "log"
    footer: bool = True
    host: str = "maivin-sim"
    latency: Latency = Latency()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    jitter: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    wifi_ms: tuple[float, float, float] | None = None
    restarts: Mapping[str, tuple[tuple[float, float, float], ...]] = field(default_factory=dict)
    drift_ppm: float = 0.0
    own: bool = True
    more: tuple[MoreSensor, ...] = ()
    devices: Mapping[str, DeviceClock] = field(default_factory=dict)
    rocking_rad_s: float = 0.0
    start_ns: int = 1_777_626_000_000_000_000

    def __post_init__(self) -> None:
        pictures = 2 if self.tiles else 1
        rates = [f"{sensor}_hz" for sensor in ("lidar", "radar", "cube", "imu", "gps", "model")]
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
        rules = {
            "seconds must be more than 0 and at most 86400, a day": 0 < self.seconds <= 86_400,
            "seed must be 0 to 2**31": 0 <= self.seed <= 2**31,
            "gps_no_fix must not be negative": self.gps_no_fix >= 0,
            "fps must be 1 to 240": 1 <= self.fps <= 240,
            "width and height of a picture or tile must be at least 144 and 48, and even": (
                self.width >= 144 * pictures and self.height >= 48 * pictures
            )
            and self.width % (2 * pictures) == self.height % (2 * pictures) == 0,
            "width and height must be at most 8192": self.width <= 8192 and self.height <= 8192,
            "bframes must be 0 to 4": 0 <= self.bframes <= 4,
            "mbit_s must be 0 to 1000": 0 <= self.mbit_s <= 1000,
            "grain must be 0 to 32": 0 <= self.grain <= 32,
            "drop_video must be at least 0 and less than 1": 0 <= self.drop_video < 1,
            "damage_video and same_stamp must be 0 to 1": 0 <= self.damage_video <= 1
            and 0 <= self.same_stamp <= 1,
            "tiles and jpeg exclude each other": not (self.tiles and self.jpeg),
            "prefix must be empty or one plain name": not self.prefix or bool(PLAIN.fullmatch(self.prefix)),
            "host must be a plain name": bool(PLAIN.fullmatch(self.host)),
            "lidar_points must be 64 to 1000000": 64 <= self.lidar_points <= 1_000_000,
            "start_ns must be 0 to 2**62": 0 <= self.start_ns <= 2**62,
            "lidar_organised needs lidar_missing nan or zero": not self.lidar_organised
            or self.lidar_missing != "left out",
            "lidar_jitter_deg must be 0 to 1": 0 <= self.lidar_jitter_deg <= 1,
            "cube_shape must be four sizes, the doppler bins even": len(self.cube_shape) == 4
            and all(0 < size < 32768 for size in self.cube_shape)
            and self.cube_shape[3] % 2 == 0,
            **{f"{name} must be 0 to 10000": 0 <= getattr(self, name) <= 10_000 for name in rates},
            "gps_hz must be below 25, an epoch's two messages being 40 ms apart": self.gps_hz < 25,
            **{f"{name}: shares must be 0 to 1": all(0 <= s <= 1 for s in of) for name, of in shares.items()},
            **{f"{name} must be 0 to 1000000": all(0 <= v <= 1e6 for v in of) for name, of in delays.items()},
            **{f"{name} must be 0 to 1000000": all(0 <= v <= 1e6 for v in of) for name, of in noise.items()},
            "gps.drift_s must be 0.001 to 1000000": 0.001 <= self.gps.drift_s <= 1e6,
            "silent must be spans from earlier to later": all(
                _ascending(spans) for spans in self.silent.values()
            ),
            "frozen must be spans from earlier to later": all(
                _ascending(spans) for spans in self.frozen.values()
            ),
            "black must be spans from earlier to later": _ascending(self.black),
            "brightness must be 0 to 1": 0 <= self.brightness <= 1,
            "zero_points must be spans from earlier to later, each with a share of 0 to 1": all(
                0 <= share <= 1 for *_, share in self.zero_points
            )
            and _ascending([span[:2] for span in self.zero_points]),
            "restarts must be one after the other, after 0.001 to 86400 s, within 2**31 s": all(
                _ascending([(at_s, at_s + dead_s) for at_s, dead_s, _ in each])
                and all(0.001 <= dead_s <= 86_400 and abs(by_s) <= 2**31 for _, dead_s, by_s in each)
                for each in self.restarts.values()
            ),
            "drift_ppm must be -1000 to 1000": abs(self.drift_ppm) <= 1000,
            "more: a picture must be 144 x 48 to 8192 x 8192, and even": all(
                144 <= each.width <= 8192 and 48 <= each.height <= 8192 for each in self.more
            )
            and not any(each.width % 2 or each.height % 2 for each in self.more),
            "more: hz must be 0.1 to 240": all(0.1 <= each.hz <= 240 for each in self.more),
            "more: points must be 64 to 1000000": all(64 <= each.points <= 1_000_000 for each in self.more),
            "more: topics and frames must differ": all(
                len({*names}) == len(names)
                for names in (self._more_topics(), [each.frame for each in self.more])
            ),
            "more: a device must be one of devices": {each.device for each in self.more}
            <= {"", *self.devices},
            "devices: clocks must be within 2**31 s, 1000 ppm and 1000000 ms, uptimes not negative": all(
                abs(each.offset_s) <= 2**31
                and abs(each.drift_ppm) <= 1000
                and 0 <= each.late_ms <= 1e6
                and 0 <= (each.uptime_s or 0) < 2**31
                for each in self.devices.values()
            ),
            "rocking_rad_s must be 0 to 0.1": 0 <= self.rocking_rad_s <= 0.1,
            "own false needs more": self.own or bool(self.more),
            "wifi_ms must be at least 0, and rise from the second to the third": self.wifi_ms is None
            or (self.wifi_ms[0] >= 0 and 0 < self.wifi_ms[1] < self.wifi_ms[2] <= 1e6),
            "stops must be spans that leave 8 s between them": _ascending(self.stops, 2 * BRAKING_S),
            "boxes.size must be at least 0 and less than 0.2": 0 <= self.boxes.size < 0.2,
            "mask_size must be 1 to 8192": all(1 <= side <= 8192 for side in self.mask_size),
            "splits must be 1 to 10000": 1 <= self.splits <= 10_000,
            "seconds must be at least twice the splits if split_names is device": self.splits == 1
            or self.split_names == "rosbag2"
            or self.seconds >= 2 * self.splits,
            "order topic needs splits 1": self.order == "log" or self.splits == 1,
        }
        faults = [f"{fault} ({self._given(fault)})" for fault, holds in rules.items() if not holds]
        for prefix, options in (("", self), ("gps.", self.gps), ("imu.", self.imu)):
            for name, kind in get_type_hints(type(options)).items():
                if get_origin(kind) is Literal and getattr(options, name) not in get_args(kind):
                    faults.append(f"{prefix}{name} must be one of {', '.join(get_args(kind))}")
        if faults:
            raise ConfigError(faults)

    def _given(self, rule: str) -> str:
        """The options that a rule names, with their values."""
        given = []
        for name in re.findall(r"[a-z][a-z0-9_.]*[a-z0-9]", rule):
            owner, _, field_name = name.rpartition(".")
            options = getattr(self, owner) if owner else self
            if field_name in options.__dataclass_fields__:
                given.append(f"{name} is {getattr(options, field_name)}")
        return ", ".join(given)

    def _more_topics(self) -> list[str]:
        return [topic for each in self.more for topic in (each.topic, each.info, each.boxes) if topic]

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


def drive_options(values: Mapping[str, Any]) -> DriveOptions:
    """Options from plain values, nested like the options.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    try:
        return TypeAdapter(DriveOptions).validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError([_sentence(fault["loc"], fault["msg"]) for fault in error.errors()]) from error


def _sentence(place: tuple[int | str, ...], text: str) -> str:
    name = ".".join(map(str, place))
    if text.startswith("Unexpected keyword"):
        near = get_close_matches(name, [f.name for f in fields(DriveOptions)], n=1)
        return f"{name}: no such option of a drive" + (f"; did you mean {near[0]}?" if near else "")
    text = text.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def of_topic(values: Mapping[str, Value], topic: str, otherwise: Value) -> Value:
    """The value for a topic: that of its name, else of the nearest name above it, else of ``*``."""
    name = topic
    while name not in values and "/" in name:
        name = name.rpartition("/")[0]
    return values.get(name, values.get(ANY_TOPIC, otherwise))


def _ascending(spans: Iterable[Any], apart_s: float = 0.0) -> bool:
    times = [time_s for span in spans for time_s in span]
    return all(start < end for start, end in spans) and all(
        later - earlier >= apart_s for earlier, later in zip(times[1::2], times[2::2], strict=False)
    )
