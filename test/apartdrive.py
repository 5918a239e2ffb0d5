"""Two devices of one vehicle, each of which records itself: the same names, and clocks of their hosts."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
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
from edgefirst_ros.model.transform import Transforms, matrix_of, quaternion_of, quaternion_of_angles, rigid
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation.rig import MoreSensor
from edgefirst_ros.sources.mcap import McapRecording

HOST = "vehicle"
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


APART = {"left": (-52.318, -20.0), "rear": (904.044, 20.0)}
"""By how much the hosts of two of the devices are off, in seconds, and their drift in ppm, where each records
itself."""
REAR_AT: tuple[tuple[float, float, float], float] = ((-1.0, 0.2, 0.3), 180.0)
"""Where the rear device is: its own base_link in that of the left one, which is the rig's, and its yaw."""
FRAMES = ("optical", "lidar")


def at_host(
    message: RawMessage, clock: tuple[float, float], *, gps_time: bool = False, up_s: float = 0.0
) -> RawMessage:
    """A message of a device whose clock is off.

    Fixes may have the receiver's time, of whole epochs, and the IMU the time since the host was started.
    """
    off_s, ppm = clock
    start_ns = options().start_ns

    def by_ns(time_ns: int) -> int:
        return round(off_s * 1e9 + (time_ns - start_ns) * ppm * 1e-6)

    second, nano = struct.unpack_from("<iI", message.data, 4)
    stamp_ns = second * 10**9 + nano
    is_gps = gps_time and message.topic == "/gps"
    stamp_ns = stamp_ns // 10**8 * 10**8 if is_gps else stamp_ns + by_ns(stamp_ns)
    if up_s and message.topic == "/imu":
        stamp_ns -= start_ns + round((off_s - up_s) * 1e9)
    stamp = struct.pack("<iI", *divmod(stamp_ns, 10**9))
    late_ns = by_ns(message.receive_ns)
    return message._replace(
        data=message.data[:4] + stamp + message.data[12:],
        receive_ns=message.receive_ns + late_ns,
        publish_ns=message.publish_ns + late_ns,
    )


def mounted(message: RawMessage, name: str) -> RawMessage | None:
    """A transform as the device says it, of its sensors in its own base_link; None of others' sensors."""
    stamp_ns, _, datum = decode(message)
    assert isinstance(datum, Transforms)
    (transform,) = datum.transforms
    if transform.child not in {f"{name}_{kind}" for kind in FRAMES}:
        return None
    (x, y, z), yaw_deg = REAR_AT if name == "rear" else ((0.0, 0.0, 0.0), 0.0)
    base = rigid(matrix_of(quaternion_of_angles([0.0, 0.0, np.radians(yaw_deg)])), (x, y, z))
    own = np.linalg.inv(base) @ rigid(matrix_of(transform.rotation_xyzw), transform.translation_m)
    values = {
        "header": {"stamp": {"sec": stamp_ns // 10**9, "nanosec": stamp_ns % 10**9}, "frame_id": "base_link"},
        "child_frame_id": transform.child.replace(name, "main"),
        "transform": {
            "translation": dict(zip("xyz", own[:3, 3], strict=True)),
            "rotation": dict(zip("xyzw", quaternion_of(own[:3, :3]), strict=True)),
        },
    }
    kind = "geometry_msgs/TransformStamped"
    return message._replace(data=encode(kind, values), definition=definition(kind))


def alike(*, imus: bool = True, still_s: float = 0.0) -> Iterator[tuple[str, RawMessage]]:
    """What two of the devices send, both by the same names of topics and frames, at true times."""
    random = np.random.default_rng(11)
    for message in McapRecording(simulated(options()).mcap).messages():
        device, _, topic = message.topic.strip("/").partition("/")
        for name in APART:
            if device == name:
                data = message.data
                for kind in FRAMES:  # as many letters
                    data = data.replace(f"{name}_{kind}\0".encode(), f"main_{kind}\0".encode())
                yield name, message._replace(topic=f"/{topic}", data=data)
            elif device == "imu" and imus:
                # The left one stands as the rig does.
                yield name, measured(message, "front" if name == "left" else name, random, still_s)
            elif device == "gps":
                yield name, message
            elif device == "tf_static" and (own := mounted(message, name)) is not None:
                yield name, own


def recorded_apart(
    folder: Path,
    clocks: Mapping[str, tuple[float, float]] = APART,
    *,
    imus: bool = True,
    still_s: float = 0.0,
    gps_time: bool = False,
    up_s: float = 0.0,
) -> dict[str, Path]:
    """A file of each of two devices, made by its own host."""
    folder.mkdir(parents=True, exist_ok=True)
    every = [*alike(imus=imus, still_s=still_s)]
    return {
        name: record(
            folder / f"{name}.mcap",
            in_order(at_host(m, clock, gps_time=gps_time, up_s=up_s) for n, m in every if n == name),
        )
        for name, clock in clocks.items()
    }


def in_order(content: Iterable[RawMessage]) -> list[RawMessage]:
    return sorted(content, key=lambda message: message.receive_ns)


def recorded_together(path: Path) -> Path:
    """The same by one host, which has the devices' names before those of the topics."""
    every = [message._replace(topic=f"/{name}{message.topic}") for name, message in alike()]
    return record(path, in_order(every))
