"""Four devices on one vehicle: each has camera, lidar, radar and IMU; a time server sets their clocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from drives import simulated
from faulty import FaultyOptions, ImuErrors
from recorded import record

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.simulation import MoreSensor
from edgefirst_ros.sources.mcap import McapRecording

HOST = "vehicle"
CLOCKS = dict.fromkeys(("front", "left", "right", "rear"), 4000.0)
"""Of devices on one network, which one server sets: what is stamped by time since the start differs."""
PLACES = {
    "front": ((1.5, 0.0, 1.6), 0.0),
    "left": ((0.0, 0.8, 1.6), 90.0),
    "right": ((0.0, -0.8, 1.6), -90.0),
    "rear": ((-1.5, 0.0, 1.6), 180.0),
}
ANTENNA_M = (1.5, 0.0, 1.8)
SECONDS = 5.0


@cache
def options(*, imus: bool = True, still_s: float = 0.0) -> FaultyOptions:
    """Of the drive; until ``still_s`` it stands."""
    more = [MoreSensor("gps", "front/gps", "antenna", ANTENNA_M, first_ms=35.0)]
    for number, (name, (at_m, yaw_deg)) in enumerate(PLACES.items()):
        turn, (x, y, z) = (0.0, 0.0, yaw_deg), at_m
        camera, lidar, radar = (f"{name}/{each}" for each in ("camera/jpeg", "lidar/points", "radar/targets"))
        more += [
            MoreSensor("camera", camera, f"{name}_optical", at_m, turn, 5.0, 13.0 + 17 * number, 160, 90,
                       info=f"{name}/camera/info"),
            MoreSensor("lidar", lidar, f"{name}_lidar", (x, y, z + 0.2), turn, 5.0, 22.0 + 21 * number,
                       points=640),
            MoreSensor("radar", radar, f"{name}_radar", (x, y, z - 1.0), turn, 18.0, 7.0 + 9 * number),
        ]  # fmt: skip
        if imus or name == "front":
            imu = f"{name}/imu", f"{name}_imu"
            more.append(MoreSensor("imu", *imu, at_m, turn, 100.0, 4.0 + number))
    return FaultyOptions(
        seconds=SECONDS + still_s,
        stops=((0.0, still_s),) if still_s else (),
        clock="realtime",
        gps_no_fix=0,
        # Of a usual gyroscope at 100 Hz.
        imu=ImuErrors(gyroscope_sigma_rad_s=0.002),
        rocking_rad_s=0.01,
        host=HOST,
        own=False,
        more=tuple(more),
        uptimes_s=CLOCKS,
    )


@cache
def messages(*, imus: bool = True, still_s: float = 0.0) -> tuple[RawMessage, ...]:
    return tuple(McapRecording(simulated(options(imus=imus, still_s=still_s)).mcap).messages())


def topics() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        "front_gps": {
            "role": "gps", "topic": "/front/gps", "device": "front", "latency_ms": 120.0,
            "mount": {"xyz_m": [*ANTENNA_M]},
        },
        "tf": {"topic": "/tf_static"},
    }  # fmt: skip
    for name in CLOCKS:
        of = {"device": name}
        found |= {
            name: {"role": "camera", "topic": f"/{name}/camera/jpeg", "latency_ms": 25.0, **of},
            f"{name}_info": {"role": "camera_info", "topic": f"/{name}/camera/info", "sensor": name, **of},
            f"{name}_lidar": {
                "role": "lidar_points", "topic": f"/{name}/lidar/points", "latency_ms": 60.0, **of,
            },
            f"{name}_radar": {
                "role": "radar_targets", "topic": f"/{name}/radar/targets", "latency_ms": 15.0, **of,
            },
            f"{name}_imu": {"role": "imu", "topic": f"/{name}/imu", "latency_ms": 3.0, **of},
        }  # fmt: skip
    return found


def settings(*formats: str) -> dict[str, Any]:
    """Of a configuration for it."""
    return {"formats": list(formats), "topics": topics(), "reference": "front", "prefix": "", "host": HOST}


def recorded_rig(folder: Path, *, imus: bool = True, still_s: float = 0.0) -> Path:
    return record(folder / "rig.mcap", messages(imus=imus, still_s=still_s))
