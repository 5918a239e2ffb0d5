"""A lidar or radar that contradicts the way driven is found, in a world that nothing else knows of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from drives import simulated
from livedrive import HOST, SEQUENCE
from scipy.spatial.transform import Rotation

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.pointcloud import PointCloud, cloud_of
from edgefirst_ros.model.reasons import Code
from edgefirst_ros.model.sample import EgoPose, Measurement, PoseBasis
from edgefirst_ros.model.transform import Transform
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ranging import Ranges
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import parsed
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation.rig import MoreSensor
from edgefirst_ros.sources.mcap import McapRecording

Floats = npt.NDArray[np.float64]
Changed = tuple[Floats, Floats]
Change = Callable[[Floats, Floats], Changed]
"""What a driver makes of points (N, 3) and speeds (N,)."""
S = 1_000_000_000
LEVEL = Rotation.identity()


def as_is(points: Floats, speeds: Floats) -> Changed:
    return points, speeds


def exchanged(*rows: tuple[int, int, int]) -> Change:
    """True x, y, z by the rows of what is sent."""
    return lambda points, speeds: (points @ np.array(rows), speeds)


def scaled(of_points: float = 1.0, of_speeds: float = 1.0) -> Change:
    return lambda points, speeds: (points * of_points, speeds * of_speeds)


@dataclass(frozen=True)
class Drive:
    """A rig among posts, and one sensor on it."""

    role: str = "lidar_points"
    at: Rotation = LEVEL
    told: Rotation | None = None
    change: Change = as_is
    seconds: int = 40
    m_s: float = 8.0
    basis: PoseBasis = PoseBasis.MEASURED
    only: tuple[float, ...] = ()
    """Nothing but vehicles, so much faster than the rig, beside each other ahead; no posts, no ground."""
    narrow: bool = False
    is_placed: bool = True
    seed: int = 0

    def found(self, **config: object) -> list[str]:
        """What contradicts."""
        rng = np.random.default_rng(self.seed)
        arm = np.array((1.0, 0.5, 1.8))
        x, y, z, w = (self.told or self.at).as_quat().tolist()
        placed = {"s" if self.is_placed else "t": Transform("base_link", "s", (1.0, 0.5, 1.8), (x, y, z, w))}
        ranges = Ranges(build_config({"formats": ["ncore"], **config}))
        spots = np.repeat(rng.uniform(-200, 300, (2000, 2)), 6, axis=0)
        posts = np.column_stack([spots, np.tile(np.linspace(0, 4, 6), 2000)])
        # As rings of a spinning lidar are, the same in every sweep.
        ground = rng.uniform((-30, -30, 0), (30, 30, 0), (0 if self.only else 3000, 3))
        place, yaw, step_s = np.zeros(3), 0.3, 0.05
        for tick in range(round(self.seconds / step_s)):
            rate = 0.25 * math.sin(tick * step_s / 3) * (self.m_s != 0)
            turn = Rotation.from_euler("z", yaw)
            velocity = turn.apply((self.m_s, 0.0, 0.0))
            if tick % 20 == 0:
                sensor, eye = turn * self.at, place + turn.apply(arm)
                moving = velocity + turn.apply(np.cross((0.0, 0.0, rate), arm))
                seen, theirs = posts, np.zeros((len(posts), 3))
                if self.only:
                    seen = place + turn.apply([(12.0, 4.0 * n, 1.0) for n in range(len(self.only))] * 9)
                    seen = seen + rng.uniform(-1, 1, seen.shape)
                    theirs = velocity + turn.apply([(faster, 0.0, 0.0) for faster in self.only] * 9)
                arms = seen - eye
                away = np.linalg.norm(arms, axis=1)
                lidar = self.role == "lidar_points"
                points = sensor.inv().apply(
                    np.concatenate([arms, turn.apply(ground - arm)]) if lidar else arms
                )
                ahead = np.abs(np.arctan2(points[:, 1], points[:, 0])) < (0.15 if self.narrow else 1.0)
                kept = np.linalg.norm(points, axis=1) < 45 if lidar else (away < 45) & (away > 3) & ahead
                rays = arms / away[:, None]
                over = np.zeros(len(points)) if lidar else (theirs * rays).sum(axis=1)
                speeds = over if lidar else over - rays @ moving + rng.normal(0, 0.1, len(rays))
                sent, told = self.change(points[kept], speeds[kept])
                columns = dict(zip("xyz", sent.T, strict=True)) | ({} if lidar else {"speed": told})
                ranges.look(self.role, measurement(tick, cloud_of(columns)), placed)
            a, b, c, d = turn.as_quat().tolist()
            at_m = tuple(place.tolist())
            ranges.pose(
                EgoPose(
                    round(tick * step_s * S),
                    position_m=at_m,
                    rotation_xyzw=(a, b, c, d),
                    position_basis=self.basis,
                    rotation_basis=self.basis,
                )
            )
            yaw += rate * step_s
            place = place + velocity * step_s
        return [text for _, text in ranges.contradictions()]


def measurement(tick: int, cloud: PointCloud) -> Measurement:
    time_ns = tick * S // 20
    return Measurement("/some/points", time_ns, time_ns, time_ns, tick, "s", cloud)


RADAR: Mapping[str, Any] = {"role": "radar_targets"}
ASIDE = Rotation.from_euler("z", 50, degrees=True)
WRONG: dict[str, tuple[Drive, str]] = {
    "turned round": (Drive(change=exchanged((-1, 0, 0), (0, -1, 0), (0, 0, 1))), "[0.0, 0.0, 1.0, 0.0]"),
    "x right, y ahead": (Drive(change=exchanged((0, 1, 0), (-1, 0, 0), (0, 0, 1))), "were y, -x, z"),
    "optical": (Drive(change=exchanged((0, 0, 1), (-1, 0, 0), (0, -1, 0))), "[0.5, -0.5, 0.5, -0.5]"),
    "upside down": (Drive(change=exchanged((1, 0, 0), (0, -1, 0), (0, 0, -1))), "[1.0, 0.0, 0.0, 0.0]"),
    "left-handed": (Drive(change=exchanged((1, 0, 0), (0, -1, 0), (0, 0, 1))), "left-handed"),
    "mount told the other way round": (
        Drive(
            at=Rotation.from_euler("z", 90, degrees=True), told=Rotation.from_euler("z", -90, degrees=True)
        ),
        "[0.0, 0.0, 0.70711, 0.70711]",
    ),
    "centimetres": (Drive(change=scaled(100)), "cm or mm"),
    "millimetres": (Drive(change=scaled(1000)), "cm or mm"),
    "centimetres, from nowhere": (Drive(change=scaled(100), is_placed=False), "cm or mm"),
    "approach is positive": (
        Drive(**RADAR, change=scaled(of_speeds=-1)),
        "ncore.radar_speed_receding_positive: false",
    ),
    "km/h": (Drive(**RADAR, change=scaled(of_speeds=3.6)), "in km/h, "),
    "km/h, approach is positive": (Drive(**RADAR, change=scaled(of_speeds=-3.6)), "in km/h and reversed, "),
    "no speeds": (Drive(**RADAR, change=scaled(of_speeds=0)), "does not send them"),
    "radar turned": (Drive(**RADAR, told=Rotation.from_euler("z", -90, degrees=True)), "turned by about 90°"),
    "corner radar told the other way round": (
        Drive(**RADAR, at=ASIDE, told=ASIDE.inv()),
        "[0.0, 0.0, 0.42262, 0.90631]",
    ),
    "corner radar left-handed": (
        Drive(**RADAR, at=ASIDE, change=exchanged((1, 0, 0), (0, -1, 0), (0, 0, 1))),
        "or its y reversed, ",
    ),
}


@pytest.mark.parametrize(("drive", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_once_with_what_mends_it(drive: Drive, said: str) -> None:
    (found,) = drive.found()
    assert said in found


ROLLED = Rotation.from_euler("xyz", (180, 10, 30), degrees=True)
SOUND: dict[str, Drive] = {
    "a lidar": Drive(),
    "backwards": Drive(m_s=-4.0),
    "on its side": Drive(at=Rotation.from_euler("x", 90, degrees=True)),
    "upside down, as told": Drive(at=ROLLED),
    "standing": Drive(m_s=0.0, change=exchanged((-1, 0, 0), (0, -1, 0), (0, 0, 1))),
    "poses unknown": Drive(basis=PoseBasis.ASSUMED, change=exchanged((-1, 0, 0), (0, -1, 0), (0, 0, 1))),
    "a lidar among trucks": Drive(only=(0.0, 0.5, -0.5)),
    "a radar": Drive(**RADAR),
    "a radar, backwards": Drive(**RADAR, m_s=-4.0),
    "a radar that looks back": Drive(**RADAR, at=Rotation.from_euler("z", 180, degrees=True)),
    "a radar upside down": Drive(**RADAR, at=ROLLED),
    "a radar of narrow view": Drive(**RADAR, narrow=True),
    "a radar behind a truck": Drive(**RADAR, only=(0.0,)),
    "a radar behind a slower truck": Drive(**RADAR, only=(-3.0,)),
    "a radar in a jam": Drive(**RADAR, only=(0.0, 0.1, -0.1, 0.0)),
    "a radar in traffic": Drive(**RADAR, only=(2.0, -1.0, 4.0, -22.0)),
}


@pytest.mark.parametrize("drive", SOUND.values(), ids=SOUND)
def test_nothing_is_said_of_a_sound_sensor(drive: Drive) -> None:
    assert not drive.found()


def test_a_configured_sign_of_speeds_is_the_one_that_counts() -> None:
    approaching = scaled(of_speeds=-1)
    told = {"radar_speed_receding_positive": False}
    assert not Drive(**RADAR, change=approaching).found(ncore=told)
    (found,) = Drive(**RADAR).found(ncore=told)
    assert "set ncore.radar_speed_receding_positive: true, or" in found
    (found,) = Drive(**RADAR, change=approaching).found(formats=["edgefirst"])
    assert "have its driver reverse them" in found


OPTIONS = DriveOptions(
    seconds=44,
    fps=2,
    width=144,
    height=48,
    jpeg=True,
    own=False,
    traffic="parked",
    host=HOST,
    more=(
        MoreSensor("camera", "camera/jpeg", "camera_optical", hz=2.0, width=144, height=48),
        MoreSensor("lidar", "lidar/points", "lidar", (0.5, 0.0, 1.9), hz=2.0, points=16_000),
        MoreSensor("radar", "radar/targets", "radar", (3.5, 0.0, 0.5), hz=4.0),
        MoreSensor("imu", "imu", "imu", hz=25.0),
        MoreSensor("gps", "gps", "gps", hz=5.0),
    ),
)
TURNED = {
    "formats": ["edgefirst", "ncore"],
    "topics": {"lidar_points": {"xyz_m": [0.5, 0.0, 1.9], "rpy_deg": [0, 0, 180]}},
    "ncore": {"radar_speed_receding_positive": False},
}


def said(report: dict[str, Any]) -> Iterator[str]:
    verdict = judge(parsed(report))
    found = [each.text for each in verdict.findings if each.code is Code.CONTRADICTS_MOTION]
    assert verdict.grade == ("fair" if found else "good")
    assert {*found} <= {*report["warnings"]}
    return (text.partition(": ")[2] for text in found)


def test_a_drive_with_a_wrong_mount_is_fair_and_says_so_live_as_well(tmp_path: Path) -> None:
    recording = simulated(OPTIONS).mcap
    config = build_config(TURNED | {"ego": {"smoothing": "lag"}, "overload": {"latency_s": 0}, "prefix": ""})
    mounted, speeds = said(convert([recording], tmp_path / "off", config).report)
    assert "rotation_xyzw: [0.0, 0.0, 0.0, 1.0]" in mounted
    assert "radar_speed_receding_positive: true" in speeds
    live = LiveCapture(config, tmp_path / "live", HOST)
    live.start("d", sequence=SEQUENCE)
    for message in McapRecording(recording).messages():
        live.put(message)
    (session,) = live.stop(60)
    assert [*said(session.report)] == [mounted, speeds]
    assert not [*said(convert([recording], tmp_path / "right", build_config({})).report)]
