"""Headings that are not told, found from the way, the turns and the forces of a simulated car."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import gtsam
import numpy as np
import pytest
from ego_drives import MEMS, Case, ns, whole
from faulty import ImuErrors
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.beginning import begin, carry, level, long_way
from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.graph import Node, Place
from edgefirst_ros.ego.inertia import Preintegrator
from edgefirst_ros.ego.motion import solve

S = 1_000_000_000
G = 9.81
UNKNOWN = (math.nan,) * 3
GYRO_BIAS, FORCE_BIAS = np.array((0.002, -0.003, 0.004)), np.array((0.03, 0.05, -0.04))
FINE_S, SAMPLE, NODE = 0.01, 2, 40
"""Steps of the simulation; samples, and nodes with a fix each, by how many of them."""


@dataclass(frozen=True)
class Car:
    """A level car on which an IMU is mounted: speeds at seconds, in between linear, and how it steers.

    ``axes`` rotates from the car's axes to the IMU's, which are taken for the rig's.
    """

    heading_rad: float = 0.0
    speeds: tuple[tuple[float, float], ...] = ((0.0, 0.0), (3.0, 0.0), (7.0, 8.0), (20.0, 8.0))
    bend_per_m: float = 0.02
    axes: tuple[float, float, float] = (0.0, 0.0, 0.0)
    noise_m: float = 0.1
    feels: bool = True
    turns: bool = True
    seed: int = 0

    @property
    def at_s(self) -> np.ndarray:
        return np.arange(round(self.speeds[-1][0] / FINE_S) + 1) * FINE_S

    def speed_m_s(self) -> np.ndarray:
        found: np.ndarray = np.interp(self.at_s, *zip(*self.speeds, strict=True))
        return found

    def yaw_rad(self) -> np.ndarray:
        rate = self._rate_rad_s()
        found: np.ndarray = self.heading_rad + np.append(0, np.cumsum(0.5 * (rate[1:] + rate[:-1]) * FINE_S))
        return found

    def _rate_rad_s(self) -> np.ndarray:
        """It steers left and right."""
        found: np.ndarray = self.bend_per_m * self.speed_m_s() * np.sin(self.at_s * 0.9)
        return found

    def mounted(self) -> Rotation:
        return Rotation.from_euler("ZYX", self.axes, degrees=True)

    def nodes(self) -> list[Node]:
        rng = np.random.default_rng(self.seed)
        speed, yaw, rate = self.speed_m_s(), self.yaw_rad(), self._rate_rad_s()
        velocity = speed[:, None] * np.stack([np.cos(yaw), np.sin(yaw), 0 * yaw], axis=1)
        place = np.vstack([np.zeros(3), np.cumsum(0.5 * (velocity[1:] + velocity[:-1]) * FINE_S, axis=0)])
        rows = np.full((len(speed), 10), math.nan)
        mount = self.mounted()
        rows[:, 4:7] = mount.apply(np.stack([0 * rate, 0 * rate, rate], axis=1)) if self.turns else UNKNOWN
        force = np.stack([np.gradient(speed, FINE_S), speed * rate, np.full(len(rate), G)], axis=1)
        rows[:, 7:10] = mount.apply(force) if self.feels else UNKNOWN
        rows[:, 4:7] += rng.normal(0, 1e-3, (len(rows), 3)) + GYRO_BIAS
        rows[:, 7:10] += rng.normal(0, 0.05, (len(rows), 3)) + FORCE_BIAS
        times = np.round(self.at_s * S).astype(np.int64).tolist()
        inertia, made = Preintegrator(None), list[Node]()
        for index in range(0, len(speed), NODE):
            node = Node(len(made), times[index])
            if made:
                inside = slice(index - NODE, index + 1, SAMPLE)
                node.segment = inertia.segments(
                    (made[-1].time_ns, times[index]), times[inside], rows[inside]
                )[0]
            fix = place[index] + rng.normal(0, self.noise_m, 3)
            node.place = Place(fix, np.full(3, max(self.noise_m, 0.05)), np.full(3, max(self.noise_m, 0.05)))
            made.append(node)
        return made

    def off_deg(self, nodes: Sequence[Node]) -> np.ndarray:
        """By how many degrees the car's axes are off, as the rotations of the nodes tell them."""
        yaw = self.yaw_rad()[::NODE]
        true = Rotation.from_euler("Z", yaw[:, None]) * self.mounted().inv()
        found = Rotation.from_matrix(np.array([node.pose.rotation().matrix() for node in nodes]))
        degrees: np.ndarray = np.degrees((true.inv() * found).magnitude())
        return degrees


class TestHeading:
    @pytest.mark.long(cases=3)
    @pytest.mark.parametrize("heading_deg", [-179, -121, -60, 0, 31, 90, 150])
    def test_it_is_found_whatever_it_is(self, heading_deg: float) -> None:
        car = Car(math.radians(heading_deg))
        nodes = car.nodes()
        assert begin(nodes, rolls=True) is True
        # Of all nodes: those before the way was long enough, too.
        assert car.off_deg(nodes).max() < 3.0

    @pytest.mark.parametrize("noise_m", [0.0, 1.0, 3.0])
    def test_a_parked_car_shows_none(self, noise_m: float) -> None:
        car = Car(speeds=((0.0, 0.0), (40.0, 0.0)), noise_m=noise_m)
        nodes = car.nodes()
        assert begin(nodes, rolls=True) is None
        assert long_way(nodes) is None


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("yaw_deg", [90.0, -90.0, 40.0])
@pytest.mark.parametrize("heading_deg", [-150.0, 20.0])
def test_an_imu_mounted_askew_does_not_roll(yaw_deg: float, heading_deg: float) -> None:
    car = Car(math.radians(heading_deg), axes=(yaw_deg, 0.0, 0.0), bend_per_m=0.04)
    nodes = car.nodes()
    assert begin(nodes, rolls=True) is False
    assert car.off_deg(nodes).max() < 5.0


class TestPreparation:
    @pytest.mark.parametrize(
        "force", [(0.0, 0.0, G), (1.0, -2.0, 9.0), (G, 0.0, 0.1), (0.0, -G, 0.0), (0.0, 0.0, -G)]
    )
    def test_a_rig_at_rest_feels_up(self, force: tuple[float, float, float]) -> None:
        turned = level(np.array(force)).matrix()
        assert turned @ force == pytest.approx([0, 0, np.linalg.norm(force)], abs=1e-9)
        assert np.linalg.det(turned) == pytest.approx(1.0)

    @pytest.mark.parametrize("known", [0, 17, 50])
    def test_rotations_are_carried_both_ways_without_the_bias(self, known: int) -> None:
        car = Car(0.4)
        nodes = car.nodes()
        yaw = car.yaw_rad()[::NODE]
        nodes[known].pose = gtsam.Pose3(gtsam.Rot3.Rz(yaw[known]), np.zeros(3))
        bias = gtsam.imuBias.ConstantBias(np.zeros(3), GYRO_BIAS)
        nodes[known].bias = bias
        carry(nodes, known)
        assert car.off_deg(nodes).max() < 0.5
        assert all(node.bias.equals(bias, 1e-12) for node in nodes)
        nodes[known].bias = gtsam.imuBias.ConstantBias()
        carry(nodes, known)
        assert car.off_deg(nodes).max() > 2.0, "5 mrad/s for ten seconds"


class TestDrives:
    """Whole ones: the same through the estimate."""

    @pytest.mark.parametrize("imu", [ImuErrors(), MEMS], ids=["ideal", "mems"])
    @pytest.mark.parametrize("seed", [0, 3])
    def test_a_heading_that_no_sensor_tells(self, seed: int, imu: ImuErrors) -> None:
        case = Case(seconds=12.0, seed=seed, imu=imu, oriented=False, gps_hz=5)
        motion = solve(case.log(), Vehicle(), None)
        assert whole(case, motion, np.arange(0.5, 11.5, 0.5)).turn_deg.max() < 2.5

    def test_a_mounting_that_is_not_configured(self) -> None:
        imu = replace(MEMS, mounting_deg=(0.0, 0.0, 90.0))
        case = Case(seconds=40.0, imu=imu, oriented=False, gps_hz=5)
        motion = solve(case.log(), Vehicle(), None)
        point = motion.path.at(ns(30.0))
        assert point is not None
        # Nothing corrects it: poses are the rig's as it is configured, and a sentence tells.
        true = Rotation.from_matrix(case.world.rig.state(30.0).rotation())
        off = (true.inv() * Rotation.from_quat(point.rotation_xyzw)).as_euler("ZYX", degrees=True)
        assert off == pytest.approx([90, 0, 0], abs=5)
        assert motion.mounting is not None

    def test_a_parked_drive(self) -> None:
        case = Case(seconds=12.0, oriented=False, stops=((0.0, 60.0),), gps_hz=2.5, imu=MEMS)
        motion = solve(case.log(), Vehicle(), None)
        point = motion.path.at(ns(6.0))
        assert point is not None
        assert point.rotation_sigma_rad[2] > 0.5, "unknown"
        assert max(point.rotation_sigma_rad[:2]) < 0.1, "gravity shows the tilt"
