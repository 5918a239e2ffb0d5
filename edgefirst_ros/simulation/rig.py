"""Rigs of a simulated drive: sensors on any mounts, of devices with clocks of their own, by name or file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from edgefirst_ros.model.errors import ConfigError

Kind = Literal["camera", "lidar", "radar", "imu", "gps"]
Vector = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Turns:
    """A mount that swings to and fro, which tf tells.

    Attributes:
        axis: of the mount, that it turns about.
        amplitude_deg: how far to either side.
        period_s: of a swing.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

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
    """A sensor beside the device's own, or of a rig; stamped with its device's clock.

    Attributes:
        kind: what it is.
        topic: of its messages, without prefix.
        frame: its ``frame_id``, of a camera the optical one.
        at_m: place in base_link.
        rpy_deg: roll, pitch, yaw in base_link, applied about z, then y, then x; of a camera those of its
            body, which looks along x.
        hz: messages per second, of a GPS epochs.
        first_ms: when the first one is taken.
        width: of a camera's picture in pixels; height likewise.
        codec: of a camera: jpeg, h264, h265, or raw for sensor_msgs/Image.
        model: of a camera's lens.
        info: topic of its CameraInfo; empty for none.
        boxes: topic of what a model sees in its pictures, with track names of its own; empty for none.
        points: rays of a lidar's sweep.
        device: whose clock stamps it, one of ``devices``; empty for the recorder's.
        turns: how its mount turns, about ``at_m`` and after ``rpy_deg``; None if it does not.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    kind: Kind
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
    device: str = ""
    turns: Turns | None = None


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

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    offset_s: float = 0.0
    drift_ppm: float = 0.0
    late_ms: float = 0.0
    uptime_s: float | None = None


RIGS: Mapping[str, Path] = {
    path.stem: path for path in sorted((Path(__file__).parent / "rigs").glob("*.yaml"))
}
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
            name unless they are given, and any other option of a drive. A sensor is of the device with which
            its name begins, before a slash.
        place: where they are from, for what is said of them.

    Raises:
        ConfigError: there are no sensors.
    """
    given = dict(values) if isinstance(values, dict) else {}
    sensors, devices = given.pop("sensors", None), given.get("devices")
    if not (
        isinstance(sensors, dict) and sensors and all(isinstance(each, dict) for each in sensors.values())
    ):
        raise ConfigError(
            [f"{place}: expected sensors by name, each with its kind, as in sensors: {{a: {{kind: lidar}}}}"]
        )
    known = devices if isinstance(devices, dict) else {}
    return {"own": False, **given, "more": [_named(f"{name}", each, known) for name, each in sensors.items()]}


def _named(name: str, values: Mapping[str, Any], devices: Mapping[str, Any]) -> dict[str, Any]:
    kind, first = values.get("kind"), name.partition("/")[0]
    is_camera = kind == "camera"
    form = TOPICS.get(f"{values.get('codec', 'jpeg') if is_camera else kind}", "")
    found = {
        "topic": f"{name}/{form}",
        "frame": name.replace("/", "_") + "_optical" * is_camera,
        "info": f"{name}/camera_info" if is_camera else "",
        "hz": USUAL_HZ.get(f"{kind}", 10.0),
        "device": first if first in devices else "",
    }
    return {**found, **values}
