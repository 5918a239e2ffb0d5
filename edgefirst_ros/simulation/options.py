"""Options of a simulated drive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.simulation.rig import DeviceClock, MoreSensor

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
BRAKING_S = 4.0
"""Duration of braking before a stop, and of accelerating after it."""

Traffic = Literal["lanes", "crossing", "parked", "none"]
Span = tuple[float, float]
"""Begin and end, in seconds since the drive's start."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Minimum time from acquisition to receipt in milliseconds, by sensor; jitter adds 15 % on average."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    camera: float = 25.0
    lidar: float = 60.0
    radar: float = 15.0
    gps: float = 120.0
    imu: float = 3.0
    tf_static: float = 2.0
    model: float = 70.0


@dataclass(frozen=True, slots=True)
class DriveOptions:
    """Options of one drive; equal options give equal bytes.

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
        tiles: four half-size video topics instead of one, as the device sends 4K.
        jpeg: camera/jpeg instead of video.
        prefix: generation of the topic names: "", "rt" or the host's name.
        clock: "mixed" stamps radar, lidar and imu with CLOCK_MONOTONIC as the device does.
        lidar_hz: messages per second; imu_hz likewise, and gps_hz epochs.
        lidar_points: rays of a sweep; those that hit nothing return no point.
        radar_hz: rate of radar/targets; cube_hz selects some of its scans, all if it is higher.
        cube_shape: sequences, range bins, receivers, complex doppler bins.
        model_hz: selects some of the camera's frames, all if it is higher.
        gps_no_fix: epochs at the start that are 0, 0.
        boxes3d: also send fusion/boxes3d, one message for each model message.
        masks: also send model/mask (classes by pixel) and model/info, one mask for each model message.
        mask_size: width and height of a mask, which covers the whole picture.
        compression: compression of the recording's chunks.
        splits: number of files of the recording, each of the same duration.
        split_names: "rosbag2" makes a folder of ``_0.mcap``, ... with metadata.yaml, "device" names each
            file by its start.
        host: name of the device, in names of files and topics.
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
    tiles: bool = False
    jpeg: bool = False
    prefix: str = ""
    clock: Literal["mixed", "realtime"] = "mixed"
    lidar_points: int = 10_000
    lidar_hz: float = 10.0
    radar_hz: float = 18.0
    cube_hz: float = 2.0
    cube_shape: tuple[int, int, int, int] = (2, 200, 4, 128)
    imu_hz: float = 140.0
    gps_hz: float = 10.0
    gps_no_fix: int = 2
    model_hz: float = 15.0
    boxes3d: bool = False
    masks: bool = False
    mask_size: tuple[int, int] = (160, 90)
    compression: Literal["lz4", "zstd", "none"] = "lz4"
    splits: int = 1
    split_names: Literal["rosbag2", "device"] = "rosbag2"
    host: str = "maivin-sim"
    latency: Latency = Latency()
    own: bool = True
    more: tuple[MoreSensor, ...] = ()
    devices: Mapping[str, DeviceClock] = field(default_factory=dict)
    rocking_rad_s: float = 0.0
    start_ns: int = 1_777_626_000_000_000_000

    def __post_init__(self) -> None:
        faults = [f"{fault} ({self._given(fault)})" for fault, holds in self._rules().items() if not holds]
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is Literal and getattr(self, name) not in get_args(kind):
                faults.append(f"{name} must be one of {', '.join(get_args(kind))}")
        if faults:
            raise ConfigError(faults)

    def _rules(self) -> dict[str, bool]:
        """What must hold, in words, and whether it does."""
        pictures = 2 if self.tiles else 1
        rates = [f"{sensor}_hz" for sensor in ("lidar", "radar", "cube", "imu", "gps", "model")]
        return {
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
            "tiles and jpeg exclude each other": not (self.tiles and self.jpeg),
            "prefix must be empty or one plain name": not self.prefix or bool(PLAIN.fullmatch(self.prefix)),
            "host must be a plain name": bool(PLAIN.fullmatch(self.host)),
            "lidar_points must be 64 to 1000000": 64 <= self.lidar_points <= 1_000_000,
            "start_ns must be 0 to 2**62": 0 <= self.start_ns <= 2**62,
            "cube_shape must be four sizes, the doppler bins even": len(self.cube_shape) == 4
            and all(0 < size < 32768 for size in self.cube_shape)
            and self.cube_shape[3] % 2 == 0,
            **{f"{name} must be 0 to 10000": 0 <= getattr(self, name) <= 10_000 for name in rates},
            "gps_hz must be below 25, an epoch's two messages being 40 ms apart": self.gps_hz < 25,
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
            "stops must be spans that leave 8 s between them": ascending(self.stops, 2 * BRAKING_S),
            "mask_size must be 1 to 8192": all(1 <= side <= 8192 for side in self.mask_size),
            "splits must be 1 to 10000": 1 <= self.splits <= 10_000,
            "seconds must be at least twice the splits if split_names is device": self.splits == 1
            or self.split_names == "rosbag2"
            or self.seconds >= 2 * self.splits,
        }

    def _given(self, rule: str) -> str:
        """The options that a rule names, with their values."""
        given = []
        for name in re.findall(r"[a-z][a-z0-9_.]*[a-z0-9]", rule):
            owner, _, field_name = name.rpartition(".")
            options = getattr(self, owner, None) if owner else self
            if field_name in getattr(options, "__dataclass_fields__", ()):
                given.append(f"{name} is {getattr(options, field_name)}")
        return ", ".join(given)

    def _more_topics(self) -> list[str]:
        return [topic for each in self.more for topic in (each.topic, each.info, each.boxes) if topic]


def drive_options(values: Mapping[str, Any], kind: type[DriveOptions] = DriveOptions) -> DriveOptions:
    """Options of a kind from plain values, nested like the options.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError([_sentence(fault["loc"], fault["msg"]) for fault in error.errors()]) from error


def _sentence(place: tuple[int | str, ...], text: str) -> str:
    name = ".".join(map(str, place))
    if text.startswith("Unexpected keyword"):
        near = get_close_matches(name, [f.name for f in fields(DriveOptions)], n=1)
        return f"{name}: no such option of a drive" + (f"; did you mean {near[0]}?" if near else "")
    text = text.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def ascending(spans: Iterable[Any], apart_s: float = 0.0) -> bool:
    """Whether spans follow one another, by at least so much."""
    times = [time_s for span in spans for time_s in span]
    return all(start < end for start, end in spans) and all(
        later - earlier >= apart_s for earlier, later in zip(times[1::2], times[2::2], strict=False)
    )
