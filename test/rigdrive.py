"""A drive of four devices on one vehicle: each has a camera, a lidar and an IMU, and a clock of its own."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from drives import simulated
from recorded import record
from wire_encoder import encode

from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation.options import MoreSensor
from edgefirst_ros.sources.mcap import McapRecording

HOST = "vehicle"
# Offset in seconds, drift in ppm, by how many milliseconds everything that it sends comes later than usual.
CLOCKS = {
    "front": (137.0, 20.0, 0.0),
    "left": (-52.0, -20.0, 40.0),
    # So near that by times of receipt it passes for the recorder's own clock, with long latencies.
    "right": (-0.3, 10.0, 0.0),
    "rear": (904.0, 20.0, 0.0),
}
PLACES = {
    "front": ((1.5, 0.0, 1.6), 0.0),
    "left": ((0.0, 0.8, 1.6), 90.0),
    "right": ((0.0, -0.8, 1.6), -90.0),
    "rear": ((-1.5, 0.0, 1.6), 180.0),
}
SECONDS = 5.0
SIGMA_RAD_S = 0.002
"""Of a usual gyroscope at 100 Hz."""


@cache
def options() -> DriveOptions:
    more = []
    for number, (name, (at_m, yaw_deg)) in enumerate(PLACES.items()):
        turn, (x, y, z) = (0.0, 0.0, yaw_deg), at_m
        camera, lidar = f"{name}/camera/jpeg", f"{name}/lidar/points"
        more += [
            MoreSensor("camera", camera, f"{name}_optical", at_m, turn, 5.0, 13.0 + 17 * number, 160, 90,
                       info=f"{name}/camera/info"),
            MoreSensor("lidar", lidar, f"{name}_lidar", (x, y, z + 0.2), turn, 5.0, 22.0 + 21 * number,
                       points=640),
        ]  # fmt: skip
    return DriveOptions(
        seconds=SECONDS,
        fps=5,
        width=160,
        height=96,
        model_hz=0.0,
        radar_hz=0.0,
        cube_hz=0.0,
        clock="realtime",
        gps_no_fix=0,
        imu_hz=100.0,
        host=HOST,
        more=tuple(more),
    )


def restamped(data: bytes, name: str, start_ns: int) -> bytes:
    """A message that begins with its stamp, as a device's clock says it."""
    second, nano = struct.unpack_from("<iI", data, 4)
    time_ns = second * 10**9 + nano
    offset_s, ppm, _ = CLOCKS[name]
    stamp_ns = time_ns + round(offset_s * 1e9 + (time_ns - start_ns) * ppm * 1e-6)
    return data[:4] + struct.pack("<iI", *divmod(stamp_ns, 10**9)) + data[12:]


SHAKES = [
    (2 * np.pi * hz, phase) for hz, phase in ((0.9, 0.3), (1.3, 2.0), (1.9, 4.4), (2.8, 1.1), (4.1, 5.2))
]


def measured(message: RawMessage, name: str, random: np.random.Generator, still_s: float = 0.0) -> RawMessage:
    """What the gyroscope of a device measures, as the road rocks all of them; only one is not on its side.

    Until ``still_s`` it measures nothing but its noise.
    """
    stamp_ns, frame, datum = decode(message)
    assert isinstance(datum, Imu)
    at_s = (stamp_ns - options().start_ns) / 1e9
    rocking = 0.01 * np.array([[np.sin(f * at_s + p), np.cos(1.1 * f * at_s + p), 0.0] for f, p in SHAKES])
    turning = np.array(datum.angular_velocity_rad_s) + rocking.sum(axis=0)
    turning *= at_s > still_s
    turning = turning * random.normal(1.0, 0.003) + random.normal(0.0, SIGMA_RAD_S, 3) + 0.001
    by = 0 if name == "front" else 1
    values: dict[str, Any] = {
        "header": {"stamp": {"sec": stamp_ns // 10**9, "nanosec": stamp_ns % 10**9}, "frame_id": frame},
        "angular_velocity": dict(zip("xyz", np.roll(turning, by), strict=True)),
        "linear_acceleration": dict(zip("xyz", np.roll(datum.linear_acceleration_m_s2, by), strict=True)),
    }
    if not by and datum.orientation_xyzw is not None:
        values["orientation"] = dict(zip("xyzw", datum.orientation_xyzw, strict=True))
    return message._replace(data=encode("sensor_msgs/Imu", values), definition=definition("sensor_msgs/Imu"))


def of_device(name: str, message: RawMessage, start_ns: int) -> RawMessage:
    late_ns = round(CLOCKS[name][2] * 1e6)
    data = restamped(message.data, name, start_ns)
    return message._replace(data=data, receive_ns=message.receive_ns + late_ns)


def sent(*, imus: bool = True, still_s: float = 0.0) -> Iterator[RawMessage]:
    random, start_ns = np.random.default_rng(7), options().start_ns
    for message in McapRecording(simulated(options()).mcap).messages():
        device, _, _ = message.topic.strip("/").partition("/")
        if device in CLOCKS:
            yield of_device(device, message, start_ns)
        elif device == "imu":
            for name in CLOCKS if imus else ("front",):
                own = measured(message, name, random, still_s)
                yield of_device(name, own._replace(topic=f"/{name}/imu"), start_ns)
        elif device == "gps":
            yield of_device("front", message._replace(topic="/front/gps"), start_ns)
        elif device == "tf_static":
            yield message


@cache
def messages(*, imus: bool = True, still_s: float = 0.0) -> tuple[RawMessage, ...]:
    found = sorted(sent(imus=imus, still_s=still_s), key=lambda message: message.receive_ns)
    return tuple(message._replace(arrival=number) for number, message in enumerate(found))


def topics() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        "front_gps": {"role": "gps", "topic": "/front/gps", "device": "front", "latency_ms": 120.0},
        "tf": {"topic": "/tf_static"},
    }
    for name in CLOCKS:
        of = {"device": name}
        found |= {
            name: {"role": "camera", "topic": f"/{name}/camera/jpeg", "latency_ms": 25.0, **of},
            f"{name}_info": {"role": "camera_info", "topic": f"/{name}/camera/info", "sensor": name, **of},
            f"{name}_lidar": {
                "role": "lidar_points", "topic": f"/{name}/lidar/points", "latency_ms": 60.0, **of,
            },
            f"{name}_imu": {"role": "imu", "topic": f"/{name}/imu", "latency_ms": 3.0, **of},
        }  # fmt: skip
    return found


def settings(*formats: str) -> dict[str, Any]:
    """Of a configuration for it."""
    return {"formats": list(formats), "topics": topics(), "reference": "front", "prefix": "", "host": HOST}


def recorded_rig(folder: Path, *, imus: bool = True, still_s: float = 0.0) -> Path:
    return record(folder / "rig.mcap", messages(imus=imus, still_s=still_s))
