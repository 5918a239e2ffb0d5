"""What a simulated drive can be told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from edgefirst_ros.errors import ConfigError
from edgefirst_ros.messages.camera import Codec

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Latency:
    """Least time from acquisition to receipt by sensor, in milliseconds; jitter only ever adds to it."""

    camera: float = 25.0
    lidar: float = 60.0
    radar: float = 15.0
    gps: float = 120.0
    imu: float = 3.0
    tf_static: float = 2.0
    model: float = 70.0


@dataclass(frozen=True, slots=True)
class DriveOptions:
    """One drive; equal options give equal bytes.

    Attributes:
        drop_video: share of access units (or JPEGs) lost before they are recorded.
        tiles: four half-size video topics instead of one, as the device sends 4K.
        jpeg: camera/jpeg instead of video.
        prefix: generation of the topic names: "", "rt" or the host's name.
        clock: "mixed" stamps radar, lidar and imu with CLOCK_MONOTONIC as the device does.
        lidar_points: rays a sweep; those that meet nothing return no point.
        radar_hz: rate of radar/targets; cube_hz picks some of its scans, all if it is higher.
        cube_shape: sequences, range bins, receivers, complex doppler bins.
        model_hz: picks some of the camera's frames, all if it is higher.
        gps_no_fix: epochs at the start that say 0, 0.
        boxes3d: also send fusion/boxes3d, one message a model message.
        footer: without it the file ends after its last chunk, as power loss leaves it.
        start_ns: CLOCK_REALTIME of the drive's start.

    Raises:
        ConfigError: options that cannot be meant, every fault listed.
    """

    seconds: float = 10.0
    seed: int = 0
    fps: int = 30
    width: int = 1280
    height: int = 720
    codec: Codec = "h264"
    bframes: int = 0
    drop_video: float = 0.0
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
    compression: Literal["lz4", "zstd", "none"] = "lz4"
    footer: bool = True
    host: str = "maivin-sim"
    latency: Latency = Latency()
    start_ns: int = 1_777_626_000_000_000_000

    def __post_init__(self) -> None:
        pictures = 2 if self.tiles else 1
        rates = (self.lidar_hz, self.radar_hz, self.cube_hz, self.imu_hz, self.gps_hz, self.model_hz)
        rules = {
            "seconds must be more than 0, and no more than a day has": 0 < self.seconds <= 86_400,
            "seed must be 0 to 2**31": 0 <= self.seed <= 2**31,
            "gps_no_fix must not be negative": self.gps_no_fix >= 0,
            "fps must be 1 to 240": 1 <= self.fps <= 240,
            "a picture or tile must be at least 144 by 48 pixels, and even": (
                self.width >= 144 * pictures and self.height >= 48 * pictures
            )
            and self.width % (2 * pictures) == self.height % (2 * pictures) == 0,
            "a picture must be at most 8192 by 8192 pixels": self.width <= 8192 and self.height <= 8192,
            "codec must be h264 or h265": self.codec in {"h264", "h265"},
            "bframes must be 0 to 4": 0 <= self.bframes <= 4,
            "drop_video must be at least 0 and less than 1": 0 <= self.drop_video < 1,
            "tiles and jpeg exclude each other": not (self.tiles and self.jpeg),
            "prefix must be empty or one plain name": not self.prefix or bool(PLAIN.fullmatch(self.prefix)),
            "host must be a plain name": bool(PLAIN.fullmatch(self.host)),
            "clock must be mixed or realtime": self.clock in {"mixed", "realtime"},
            "compression must be lz4, zstd or none": self.compression in {"lz4", "zstd", "none"},
            "lidar_points must be at least 64": self.lidar_points >= 64,
            "cube_shape must be four sizes, the doppler bins even": len(self.cube_shape) == 4
            and all(0 < size < 32768 for size in self.cube_shape)
            and self.cube_shape[3] % 2 == 0,
            "rates must not be negative": all(rate >= 0 for rate in rates),
            "gps_hz must be below 25, an epoch's two messages being 40 ms apart": self.gps_hz < 25,
        }
        faults = [fault for fault, holds in rules.items() if not holds]
        if faults:
            raise ConfigError(faults)
