"""Headings that are not told, found from the way, the turns and the forces of a simulated car."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import gtsam
import numpy as np
import pytest
from ego_drives import MEMS, Case, ns, whole
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.beginning import WAY_M, begin, carry, headed, level, long_way, placed, steered
from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.graph import Node, Optimum, Place, Rolling, rough
from edgefirst_ros.ego.inertia import Preintegrator
from edgefirst_ros.ego.motion import solve
from edgefirst_ros.simulation.options import ImuErrors

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
                    (made[-1].time_ns, times[index]), times[inside], rows[inside], G
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


BACKWARDS = ((0.0, 0.0), (2.0, 0.0), (4.0, -3.0), (11.0, -3.0), (13.0, 0.0), (15.0, 0.0))
"""Out of a parking space, and no further."""


class TestHeading:
    @pytest.mark.long(cases=3)
    @pytest.mark.parametrize("heading_deg", [-179, -121, -60, 0, 31, 90, 150])
    def test_it_is_found_whatever_it_is(self, heading_deg: float) -> None:
        car = Car(math.radians(heading_deg))
        nodes = car.nodes()
        rolling = begin(nodes, rolls=True)
        assert rolling is not None
        assert rolling.travel == pytest.approx(np.eye(3))
        # Of all nodes: those before the way was long enough, too.
        assert car.off_deg(nodes).max() < 3.0

    @pytest.mark.parametrize("heading_deg", [-100, 80])
    def test_it_is_that_of_one_that_goes_backwards_first(self, heading_deg: float) -> None:
        car = Car(math.radians(heading_deg), BACKWARDS, bend_per_m=0.05)
        nodes = car.nodes()
        assert begin(nodes, rolls=True) is not None
        assert car.off_deg(nodes).max() < 5.0

    @pytest.mark.parametrize("heading_deg", [-100, 80])
    def test_without_forces_a_car_goes_forwards(self, heading_deg: float) -> None:
        there = Car(math.radians(heading_deg), feels=False)
        nodes = there.nodes()
        assert begin(nodes, rolls=True) is not None
        yaws = [node.pose.rotation().yaw() for node in nodes]
        assert np.abs(np.degrees(np.angle(np.exp(1j * (yaws - there.yaw_rad()[::NODE]))))).max() < 5.0
        # Nothing tells the one that goes backwards from it.
        back = Car(math.radians(heading_deg), BACKWARDS, feels=False, bend_per_m=0.05)
        nodes = back.nodes()
        assert begin(nodes, rolls=True) is not None
        off = np.array([node.pose.rotation().yaw() for node in nodes]) - back.yaw_rad()[::NODE]
        assert np.median(np.cos(off)) < -0.9

    def test_long_before_the_way_it_was_what_the_gyroscope_says(self) -> None:
        car = Car(2.0, ((0.0, 0.0), (15.0, 0.0), (19.0, 8.0), (28.0, 8.0)))
        nodes = car.nodes()
        assert begin(nodes, rolls=True) is not None
        assert car.off_deg(nodes).max() < 5.0

    @pytest.mark.parametrize("heading_rad", [0.5, 2.5, -2.0])
    def test_without_a_gyroscope_it_is_the_ways(self, heading_rad: float) -> None:
        car = Car(heading_rad, turns=False)
        nodes = car.nodes()
        assert begin(nodes, rolls=True) is not None
        yaws = np.array([node.pose.rotation().yaw() for node in nodes])
        moving = car.speed_m_s()[::NODE] > 4
        off = np.angle(np.exp(1j * (yaws - car.yaw_rad()[::NODE])))
        assert np.degrees(np.abs(off))[moving].max() < 12.0

    @pytest.mark.parametrize("noise_m", [0.0, 1.0, 3.0])
    def test_a_parked_car_shows_none(self, noise_m: float) -> None:
        car = Car(speeds=((0.0, 0.0), (40.0, 0.0)), noise_m=noise_m)
        nodes = car.nodes()
        assert begin(nodes, rolls=True) is None
        assert long_way(nodes) is None

    def test_a_short_way_shows_none_yet(self) -> None:
        nodes = Car().nodes()
        far = long_way(nodes)
        assert far is not None
        assert nodes[far].place is not None
        gone = np.linalg.norm(nodes[far].place.position_m)
        assert WAY_M - 1 < gone < WAY_M + 8
        assert begin(nodes[:far], rolls=True) is None
        assert begin(nodes[: far + 1], rolls=True) is not None

    @pytest.mark.parametrize(("noise_m", "least_m", "most_m"), [(0.01, 1.5, 3.0), (0.3, WAY_M, 9.0)])
    def test_good_fixes_show_a_way_sooner(self, noise_m: float, least_m: float, most_m: float) -> None:
        nodes = Car(speeds=((0.0, 0.5), (40.0, 0.5)), bend_per_m=0.0, noise_m=noise_m).nodes()
        far = long_way(nodes)
        assert far is not None
        assert nodes[far].place is not None
        assert nodes[0].place is not None
        assert least_m < np.linalg.norm(nodes[far].place.position_m - nodes[0].place.position_m) < most_m

    def test_one_wrong_fix_is_no_way(self) -> None:
        nodes = Car(speeds=((0.0, 0.0), (10.0, 0.0))).nodes()
        assert nodes[12].place is not None
        nodes[12].place = replace(nodes[12].place, position_m=np.array((300.0, 0.0, 0.0)))
        assert long_way(nodes) is None

    def test_without_fixes_there_is_none(self) -> None:
        nodes = Car().nodes()
        for node in nodes:
            node.place = None
        assert begin(nodes, rolls=True) is None


class TestTravel:
    @pytest.mark.long(cases=2)
    @pytest.mark.parametrize("yaw_deg", [90.0, -90.0, 40.0])
    @pytest.mark.parametrize("heading_deg", [-150.0, 20.0])
    def test_an_imu_mounted_askew_is_found(self, yaw_deg: float, heading_deg: float) -> None:
        car = Car(math.radians(heading_deg), axes=(yaw_deg, 0.0, 0.0), bend_per_m=0.04)
        nodes = car.nodes()
        rolling = begin(nodes, rolls=True)
        assert rolling is not None
        assert rolling.travel is not None
        # It rolls backwards as well as forwards.
        along = abs(rolling.travel[:, 0] @ car.mounted().apply([1.0, 0.0, 0.0]))
        assert math.degrees(math.acos(min(1.0, along))) < 4.0
        assert rolling.travel[:, 2] == pytest.approx([0, 0, 1])
        if yaw_deg != 40.0:
            assert along == pytest.approx(1.0), "near an axis it is the axis"
        assert car.off_deg(nodes).max() < 5.0

    @pytest.mark.long(cases=3)
    @pytest.mark.parametrize("yaw_deg", [90.0, -90.0])
    @pytest.mark.parametrize("seed", range(4))
    def test_travel_is_where_most_of_the_way_went(self, seed: int, yaw_deg: float) -> None:
        car = Car(axes=(yaw_deg, 0.0, 0.0), bend_per_m=0.04, seed=seed)
        rolling = begin(car.nodes(), rolls=True)
        assert rolling is not None
        assert rolling.travel is not None
        assert rolling.travel[:, 0] @ car.mounted().apply([1.0, 0.0, 0.0]) > 0.9

    def test_an_imu_that_looks_backwards(self) -> None:
        car = Car(1.0, axes=(180.0, 0.0, 0.0))
        nodes = car.nodes()
        assert begin(nodes, rolls=True) is not None
        assert car.off_deg(nodes).max() < 5.0

    def test_a_travel_that_is_backwards_has_factors(self) -> None:
        nodes = Car(1.0, axes=(180.0, 0.0, 0.0)).nodes()
        back = Rolling(Rotation.from_euler("Z", 180.0, degrees=True).as_matrix())
        prior = rough(nodes[0], tilt_rad=0.1, heading_rad=0.1, place_m=1.0)
        assert math.isfinite(Optimum(nodes[:5], prior, back, rounds=2).cost)

    def test_what_does_not_roll_has_none(self) -> None:
        car = Car(0.3, axes=(25.0, 0.0, 0.0))
        nodes = car.nodes()
        rolling = begin(nodes, rolls=False)
        assert rolling is not None
        assert rolling.travel is None
        assert car.off_deg(nodes).max() < 5.0

    @pytest.mark.parametrize(("yaw_deg", "pitch_deg"), [(3.0, 0.0), (-2.0, 2.0), (0.0, -3.0)])
    def test_a_velocity_that_points_elsewhere_for_long_turns_it(
        self, yaw_deg: float, pitch_deg: float
    ) -> None:
        off = Rotation.from_euler("ZY", [yaw_deg, pitch_deg], degrees=True).apply([1.0, 0.0, 0.0])
        nodes = self.moving(off)
        # What it was taken to be does not matter.
        for before in (np.eye(3), Rotation.from_euler("Z", 1.0, degrees=True).as_matrix()):
            found = steered(nodes, Rolling(before))
            assert found is not None
            assert found.travel is not None
            assert found.travel.T @ found.travel == pytest.approx(np.eye(3), abs=1e-9)
            # The rule to roll hides a part of the angle; so it is turned further than to what is seen.
            was, now = (travel.T @ off for travel in (before, found.travel))
            for axis in (1, 2):
                assert abs(now[axis]) < 0.8 * abs(was[axis]) + 1e-6
        assert steered(nodes, Rolling(None)) is None

    def test_it_stays_for_little_slow_or_short(self) -> None:
        ahead = Rolling(np.eye(3))
        slight = Rotation.from_euler("Z", 0.1, degrees=True).apply([1.0, 0.0, 0.0])
        assert steered(self.moving(slight), ahead) is None
        much = Rotation.from_euler("Z", 5.0, degrees=True).apply([1.0, 0.0, 0.0])
        assert steered(self.moving(much)[:20], ahead) is None
        assert steered(self.moving(0.2 * much), ahead) is None
        # Backwards it points the same way.
        assert steered(self.moving(-np.array((1.0, 0.0, 0.0))), ahead) is None
        nodes = self.moving(np.array((1.0, 0.0, 0.0)))
        side = Rotation.from_euler("Z", 10.0, degrees=True)
        for number, node in enumerate(nodes):
            # Bends to both sides, to one a little longer.
            node.velocity_m_s = (side if number % 20 < 12 else side.inv()).apply(node.velocity_m_s)
        assert steered(nodes, ahead) is None

    def moving(self, direction: np.ndarray) -> list[Node]:
        """Nodes of a rig that moves in a direction of its own axes."""
        nodes = Car().nodes()
        nodes = [*nodes, *(replace(node) for node in nodes[1:])]
        for number, node in enumerate(nodes):
            turned = gtsam.Rot3.RzRyRx(0.1, -0.1, 0.05 * number)
            node.pose, node.velocity_m_s = gtsam.Pose3(turned, np.zeros(3)), turned.matrix() @ direction * 8.0
        return nodes


class TestPreparation:
    @pytest.mark.parametrize(
        "force", [(0.0, 0.0, G), (1.0, -2.0, 9.0), (G, 0.0, 0.1), (0.0, -G, 0.0), (0.0, 0.0, -G)]
    )
    def test_a_rig_at_rest_feels_up(self, force: tuple[float, float, float]) -> None:
        turned = level(np.array(force)).matrix()
        assert turned @ force == pytest.approx([0, 0, np.linalg.norm(force)], abs=1e-9)
        assert np.linalg.det(turned) == pytest.approx(1.0)

    def test_nothing_felt_is_level(self) -> None:
        assert level(np.zeros(3)).matrix() == pytest.approx(np.eye(3))
        # Upright its heading is zero.
        assert level(np.array((0.0, 0.0, G))).matrix() == pytest.approx(np.eye(3))

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

    def test_positions_start_between_fixes(self) -> None:
        nodes = [Node(index, index * S) for index in range(40)]
        for index, place in ((5, (0.0, 0.0, 1.0)), (7, (20.0, -8.0, 3.0)), (20, (90.0, 0.0, 0.0))):
            nodes[index].place = Place(np.array(place), np.ones(3), np.ones(3))
        nodes[6].pose = gtsam.Pose3(gtsam.Rot3.Rz(0.3), np.ones(3))
        placed(nodes)
        assert nodes[6].pose.translation() == pytest.approx([10, -4, 2])
        assert nodes[6].pose.rotation().yaw() == pytest.approx(0.3)
        assert nodes[20].pose.translation() == pytest.approx([90, 0, 0])
        # Far from any fix the IMU knows better.
        assert nodes[13].pose.translation() == pytest.approx([0, 0, 0])
        assert nodes[39].pose.translation() == pytest.approx([0, 0, 0])

    def test_without_a_gyroscope_rotations_start_along_the_way(self) -> None:
        car = Car(2.0, turns=False, noise_m=0.0)
        nodes = car.nodes()
        headed(nodes)
        moving = np.append(car.speed_m_s()[::NODE][5:-5] > 4, False)
        yaw = np.array([node.pose.rotation().yaw() for node in nodes])[5:-4]
        off = np.angle(np.exp(1j * (yaw - car.yaw_rad()[::NODE][5:-4])))
        assert np.degrees(np.abs(off[moving])).max() < 6.0
        # While it stood it pointed where it went then.
        assert nodes[0].pose.rotation().yaw() == pytest.approx(2.0, abs=0.2)
        turning = Car(2.0).nodes()
        headed(turning)
        assert all(node.pose.equals(gtsam.Pose3(), 1e-12) for node in turning)


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
        case = Case(seconds=15.0, imu=imu, oriented=False, gps_hz=5)
        motion = solve(case.log(), Vehicle(), None)
        point = motion.point(ns(10.0))
        assert point is not None
        # Nothing corrects it: poses are the rig's as it is configured, and a sentence tells.
        true = Rotation.from_matrix(case.world.rig.state(10.0).rotation())
        off = (true.inv() * Rotation.from_quat(point.rotation_xyzw)).as_euler("ZYX", degrees=True)
        assert off == pytest.approx([90, 0, 0], abs=5)
        assert motion.mounting is not None

    def test_a_parked_drive(self) -> None:
        case = Case(seconds=12.0, oriented=False, stops=((0.0, 60.0),), gps_hz=2.5, imu=MEMS)
        motion = solve(case.log(), Vehicle(), None)
        point = motion.point(ns(6.0))
        assert point is not None
        assert point.rotation_sigma_rad[2] > 0.5, "unknown"
        assert max(point.rotation_sigma_rad[:2]) < 0.1, "gravity shows the tilt"


def test_times_of_nodes_are_those_of_fixes() -> None:
    """The car of these tests itself: its forces, integrated, lead along its way."""
    car = Car(0.7, noise_m=0.0)
    nodes = car.nodes()
    state = gtsam.NavState(gtsam.Pose3(gtsam.Rot3.Rz(0.7), np.zeros(3)), np.zeros(3))
    bias = gtsam.imuBias.ConstantBias(FORCE_BIAS, GYRO_BIAS)
    for before, node in pairwise(nodes):
        assert node.time_ns - before.time_ns == round(NODE * FINE_S * S)
        assert node.segment is not None
        assert node.place is not None
        state = node.segment.measured.predict(state, bias)
    assert np.linalg.norm(state.position() - nodes[-1].place.position_m) < 2.0  # type: ignore[union-attr]
