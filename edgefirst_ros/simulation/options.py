"""Options of a simulated drive, and of the sensors of its rig."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.errors import ConfigError

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
BRAKING_S = 4.0
"""Duration of braking before a stop, and of accelerating after it."""

Span = tuple[float, float]
"""Begin and end, in seconds since the drive's start."""
Vector = tuple[float, float, float]
EXACT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Turns:
    """A mount that swings to and fro, which tf tells.

    Attributes:
        axis: of the mount, that it turns about.
        amplitude_deg: how far to either side.
        period_s: of a swing.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    axis: Literal["x", "y", "z"] = "z"
    amplitude_deg: float = 40.0
    period_s: float = 8.0

    def xyzw(self, time_s: float) -> tuple[float, float, float, float]:
        """The turn at a time, in the mount's rest frame."""
        half_rad = math.radians(self.amplitude_deg * math.sin(2 * math.pi * time_s / self.period_s)) / 2
        x, y, z = (math.sin(half_rad) * (axis == self.axis) for axis in "xyz")
        return x, y, z, math.cos(half_rad)


@dataclass(frozen=True, slots=True)
class MoreSensor:
    """A sensor beside the device's own, or of a rig.

    Attributes:
        kind: what it is.
        topic: of its messages, without prefix.
        frame: its ``frame_id``, of a camera the optical one.
        at_m: place in base_link.
        rpy_deg: roll, pitch, yaw in base_link, applied about z, then y, then x; of a camera those of its
            body, which looks along x.
        hz: messages per second, of a GPS fixes.
        first_ms: when the first one is taken.
        width: of a camera's picture in pixels; height likewise.
        codec: of a camera: jpeg, h264, h265, or raw for sensor_msgs/Image.
        model: of a camera's lens.
        info: topic of its CameraInfo; empty for none.
        boxes: topic of what a model sees in its pictures, with track names of its own; empty for none.
        points: rays of a lidar's sweep.
        turns: how its mount turns, about ``at_m`` and after ``rpy_deg``; None if it does not.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    kind: Literal["camera", "lidar", "radar", "imu", "gps"]
    topic: str
    frame: str
    at_m: Vector = (1.0, 0.0, 1.6)
    rpy_deg: Vector = (0.0, 0.0, 0.0)
    hz: float = 10.0
    first_ms: float = 20.0
    width: int = 320
    height: int = 180
    codec: Literal["jpeg", "h264", "h265", "raw"] = "jpeg"
    model: Literal["pinhole", "fisheye"] = "pinhole"
    info: str = ""
    boxes: str = ""
    points: int = 2_000
    turns: Turns | None = None


@dataclass(frozen=True, slots=True)
class DriveOptions:
    """Options of one drive; equal options give equal bytes.

    Attributes:
        seconds: length of the drive.
        seed: seed of the random numbers.
        stops: when the rig does not move. It brakes for 4 s before and accelerates for 4 s after.
        fps: camera frames per second.
        width: width of the camera's picture in pixels; height likewise.
        codec: video codec.
        bframes: most B pictures between two others.
        mbit_s: bit rate of the video; 0 encodes with constant quality.
        jpeg: camera/jpeg instead of video.
        prefix: generation of the topic names: "", "rt" or the host's name.
        clock: "mixed" stamps radar, lidar and imu with CLOCK_MONOTONIC as the device does.
        lidar_hz: messages per second. imu_hz likewise, and gps_hz fixes.
        lidar_points: rays of a sweep; those that hit nothing return no point.
        radar_hz: rate of radar/targets; cube_hz selects some of its scans, all if it is higher.
        cube_shape: sequences, range bins, receivers, complex doppler bins.
        model_hz: selects some of the camera's frames, all if it is higher.
        gps_no_fix: fixes at the start that are 0, 0.
        boxes3d: also send fusion/boxes3d, one message for each model message.
        compression: compression of the recording's chunks.
        host: name of the device, in names of files and topics.
        own: whether there are the device's own sensors; without them those of ``more`` are all.
        more: cameras, lidars, radars, IMUs and GPS beside the device's own.
        start_ns: CLOCK_REALTIME of the drive's start.

    Raises:
        ConfigError: options are invalid; the message lists every fault.
    """

    __pydantic_config__: ClassVar[ConfigDict] = EXACT

    seconds: float = 10.0
    seed: int = 0
    stops: tuple[Span, ...] = ()
    fps: int = 30
    width: int = 1280
    height: int = 720
    codec: Codec = "h264"
    bframes: int = 0
    mbit_s: float = 0.0
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
    compression: Literal["lz4", "zstd", "none"] = "lz4"
    host: str = "maivin-sim"
    own: bool = True
    more: tuple[MoreSensor, ...] = ()
    start_ns: int = 1_777_626_000_000_000_000

    def __post_init__(self) -> None:
        faults = [fault for fault, holds in self._rules().items() if not holds]
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is Literal and getattr(self, name) not in get_args(kind):
                faults.append(f"{name} must be one of {', '.join(get_args(kind))}")
        if faults:
            raise ConfigError(faults)

    def _rules(self) -> dict[str, bool]:
        """What must hold, in words, and whether it does."""
        topics = [topic for each in self.more for topic in (each.topic, each.info, each.boxes) if topic]
        sides = [self.width, self.height, *(side for each in self.more for side in (each.width, each.height))]
        own = within(
            self,
            seconds=(0.001, 86_400), seed=(0, 2**31), fps=(1, 240), width=(144, 8192), height=(48, 8192),
            bframes=(0, 4), mbit_s=(0, 1000), lidar_points=(64, 1e6), start_ns=(0, 2**62),
            gps_no_fix=(0, 2**31), lidar_hz=(0, 1e4), radar_hz=(0, 1e4), cube_hz=(0, 1e4), imu_hz=(0, 1e4),
            # Of an epoch's two messages the second is 40 ms late.
            model_hz=(0, 1e4), gps_hz=(0, 24.9),
        )  # fmt: skip
        for each in self.more:
            bounds = within(each, hz=(0.1, 240), points=(64, 1e6), width=(144, 8192), height=(48, 8192))
            own |= {f"more: {each.topic}: {rule}": holds for rule, holds in bounds.items()}
        return own | {
            "width and height of pictures must be even": not any(side % 2 for side in sides),
            "prefix must be empty or one plain name": not self.prefix or bool(PLAIN.fullmatch(self.prefix)),
            "host must be a plain name": bool(PLAIN.fullmatch(self.host)),
            "cube_shape must be four sizes below 32768, the doppler bins even": len(self.cube_shape) == 4
            and all(0 < size < 32768 for size in self.cube_shape)
            and self.cube_shape[3] % 2 == 0,
            "more: topics and frames must differ": all(
                len({*names}) == len(names) for names in (topics, [each.frame for each in self.more])
            ),
            "own false needs more": self.own or bool(self.more),
            "stops must be spans that leave 8 s between them": ascending(self.stops, 2 * BRAKING_S),
        }


def within(options: object, **bounds: tuple[float, float]) -> dict[str, bool]:
    """Rules for options that are numbers: the least and the most."""
    given = {name: getattr(options, name) for name in bounds}
    return {
        f"{name} is {given[name]}, must be {least} to {most:.10g}": least <= given[name] <= most
        for name, (least, most) in bounds.items()
    }


def drive_options(values: Mapping[str, Any], kind: type[DriveOptions] = DriveOptions) -> DriveOptions:
    """Options of a kind from plain values, nested like the options.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError([text for fault in error.errors() for text in _sentences(fault)]) from error


def _sentences(fault: Mapping[str, Any]) -> Sequence[str]:
    cause = fault.get("ctx", {}).get("error")
    return cause.faults if isinstance(cause, ConfigError) else [_sentence(fault["loc"], fault["msg"])]


def _sentence(place: tuple[int | str, ...], text: str) -> str:
    name = ".".join(map(str, place))
    if text.startswith("Unexpected keyword"):
        near = get_close_matches(name, [f.name for f in fields(DriveOptions)], n=1)
        advice = f"did you mean {near[0]}?" if near else "docs/simulator.md lists them"
        return f"{name}: no such option of a drive; {advice}"
    text = text.removeprefix("Value error, ")
    return f"{name}: {text}" if name else text


def ascending(spans: Iterable[Any], apart_s: float = 0.0) -> bool:
    """Whether spans follow one another, by at least so much."""
    times = [time_s for span in spans for time_s in span]
    return all(start < end for start, end in spans) and all(
        later - earlier >= apart_s for earlier, later in zip(times[1::2], times[2::2], strict=False)
    )


RIGS: Mapping[str, Path] = {"robot": Path(__file__).with_name("rigs") / "robot.yaml"}
"""Files of the rigs that come with the program, by name."""
TOPICS: Mapping[str, str] = {
    "jpeg": "image/compressed", "h264": "h264", "h265": "h265", "raw": "image_raw",
    "lidar": "points", "radar": "targets", "imu": "data", "gps": "fix",
}  # fmt: skip
"""What drivers call such a sensor's topic, after its name."""
USUAL_HZ: Mapping[str, float] = {"radar": 18.0, "imu": 100.0}


def rig_options(values: object, place: str) -> dict[str, Any]:
    """Plain values of the options of a drive with a rig.

    Args:
        values: ``sensors``, by name the values of MoreSensor, of which topic, frame and info follow from the
            name unless they are given, and any other option of a drive.
        place: where they are from, for what is said of them.

    Raises:
        ConfigError: there are no sensors.
    """
    given = dict(values) if isinstance(values, dict) else {}
    sensors = given.pop("sensors", None)
    if not (
        isinstance(sensors, dict) and sensors and all(isinstance(each, dict) for each in sensors.values())
    ):
        raise ConfigError(
            [f"{place}: expected sensors by name, each with its kind, as in sensors: {{a: {{kind: lidar}}}}"]
        )
    return {"own": False, **given, "more": [_named(f"{name}", each) for name, each in sensors.items()]}


def _named(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    kind = values.get("kind")
    is_camera = kind == "camera"
    form = TOPICS.get(f"{values.get('codec', 'jpeg') if is_camera else kind}", "")
    found = {
        "topic": f"{name}/{form}",
        "frame": name.replace("/", "_") + "_optical" * is_camera,
        "info": f"{name}/camera_info" if is_camera else "",
        "hz": USUAL_HZ.get(f"{kind}", 10.0),
    }
    return {**found, **values}
