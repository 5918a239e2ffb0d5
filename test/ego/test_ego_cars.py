"""The car that judges the estimate obeys physics, its sensors err as said, and the judge is just."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from places import REPOSITORY
from scipy.spatial.transform import Rotation

sys.path.append(str(REPOSITORY / "benchmarks"))

import cars
import ego_judged
import ego_ours
import gtsam_baseline

CAR_S = 30.0


@pytest.fixture(scope="module")
def truth() -> cars.Truth:
    return cars.driven(0)


@pytest.fixture(scope="module")
def drive() -> cars.Drive:
    return cars.made(cars.DRIVES["ahrs"], 0, 60)


class TestCar:
    @pytest.mark.long(cases=1)
    @pytest.mark.parametrize("start_s", [0, 100, 140])
    def test_an_imu_without_errors_leads_back_to_the_truth(self, truth: cars.Truth, start_s: int) -> None:
        step_s, first = 1 / cars.IMU_HZ, start_s * cars.IMU_HZ
        last = first + round(CAR_S * cars.IMU_HZ)
        rates = truth.rate_rad_s
        turns = Rotation.from_rotvec((rates[first:last] + rates[first + 1 : last + 1]) * (step_s / 2))
        rotation = Rotation.from_matrix(truth.rotation[first])
        place, speed = truth.position_m[first].copy(), truth.velocity_m_s[first].copy()
        gravity = np.array([0.0, 0.0, cars.GRAVITY_M_S2])
        before = rotation.apply(truth.force_m_s2[first]) - gravity
        for k, turn in enumerate(turns):
            rotation *= turn
            after = rotation.apply(truth.force_m_s2[first + k + 1]) - gravity
            place += speed * step_s + (2 * before + after) * (step_s**2 / 6)
            speed += (before + after) * (step_s / 2)
            before = after
        assert np.linalg.norm(place - truth.position_m[last]) < 0.05
        off = rotation.inv() * Rotation.from_matrix(truth.rotation[last])
        assert np.degrees(off.magnitude()) < 0.001

    def test_between_samples(self, truth: cars.Truth) -> None:
        half = np.array([100.0025])
        k = 100 * cars.IMU_HZ
        between = truth.position_m[k : k + 2].mean(axis=0)
        assert np.linalg.norm(truth.places_at(half)[0] - between) < 1e-4
        turns = Rotation.from_matrix(truth.rotations_at(np.array([100.0, 100.0025, 100.005])))
        first, second = (turns[1] * turns[0].inv()).magnitude(), (turns[2] * turns[1].inv()).magnitude()
        assert first == pytest.approx(second, rel=1e-6)
        assert np.allclose(truth.rotations_at(truth.time_s[:-1]), truth.rotation[:-1], atol=1e-12)


def test_rotations_are_those_of_scipy() -> None:
    vectors = np.random.default_rng(0).normal(0, 1.2, (500, 3))
    vectors[:3] = 0, 0, 0
    vectors[3] = 1e-10, 0, 0
    vectors = vectors[np.linalg.norm(vectors, axis=1) < 3.1]
    theirs = Rotation.from_rotvec(vectors)
    ours = cars.exponential(vectors)
    assert np.allclose(ours, theirs.as_matrix(), atol=1e-14)
    assert np.allclose(cars.logarithm(ours), vectors, atol=1e-12)
    assert np.allclose(cars.quaternions(ours), theirs.as_quat(canonical=True), atol=1e-12)
    assert np.allclose(cars.rotations_of(theirs.as_quat()), ours, atol=1e-12)


class TestSensors:
    def test_noise_of_fixes(self, truth: cars.Truth) -> None:
        white, wander, later = [], [], []
        for seed in range(12):
            fixes = cars._fixes(cars.FixKind(), seed, truth)
            white.append(fixes.position_m - truth.places_at(fixes.time_s) - fixes.wander_m)
            wander.append(fixes.wander_m)
            later.append(np.mean(fixes.wander_m[: -5 * 20, 0] * fixes.wander_m[5 * 20 :, 0]))
        assert np.concatenate(white).std(axis=0) == pytest.approx([1.5, 1.5, 3.0], rel=0.03)
        slow = np.concatenate(wander)
        assert np.sqrt(np.mean(np.sum(slow[:, :2] ** 2, axis=1))) == pytest.approx(2.0, rel=0.2)
        # After 20 s of a time constant around 80 s.
        assert np.mean(later) / np.mean(slow[:, 0] ** 2) == pytest.approx(0.78, abs=0.2)

    def test_fixes_are_where_the_car_is(self) -> None:
        drive = cars.made(cars.DRIVES["noise-free"], 0, 60)
        latitude_deg, longitude_deg, altitude_m = drive.fixes.geodetic.T
        # The closed form of geodetic to ECEF, and the axes at the origin.
        a, e2 = 6378137.0, 0.0066943799901413165
        places = []
        for lat_deg, lon_deg, up_m in (
            (latitude_deg, longitude_deg, altitude_m),
            tuple(np.array([value]) for value in cars.ORIGIN),
        ):
            lat, lon = np.radians(lat_deg), np.radians(lon_deg)
            n = a / np.sqrt(1 - e2 * np.sin(lat) ** 2)
            x, y = (n + up_m) * np.cos(lat) * np.cos(lon), (n + up_m) * np.cos(lat) * np.sin(lon)
            places.append(np.stack([x, y, (n * (1 - e2) + up_m) * np.sin(lat)], axis=1))
        lat, lon = np.radians(cars.ORIGIN[:2])
        east = np.array([-np.sin(lon), np.cos(lon), 0.0])
        up = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
        axes = np.array([east, np.cross(up, east), up])
        enu_m = (places[0] - places[1]) @ axes.T
        assert np.allclose(enu_m, drive.truth.places_at(drive.fixes.time_s), atol=1e-6)

    def test_errors_of_an_imu(self, truth: cars.Truth) -> None:
        drive = cars.made(cars.DRIVES["no-orientation-5hz"], 0)
        for read, true, sigma, bias in (
            (drive.rate_rad_s, truth.rate_rad_s, 1e-3, (0.005, -0.003, 0.007)),
            (drive.force_m_s2, truth.force_m_s2, 0.07, (0.05, -0.08, 0.06)),
        ):
            off = read - true
            assert np.diff(off, axis=0).std() / np.sqrt(2) == pytest.approx(sigma, rel=0.02)
            assert off.mean(axis=0) == pytest.approx(bias, abs=0.3 * sigma)

    def test_errors_of_an_orientation(self, truth: cars.Truth) -> None:
        tilts, headings = [], []
        for seed in range(6):
            turned = Rotation.from_matrix(truth.rotation.swapaxes(1, 2) @ cars._ahrs(cars.AHRS, seed, truth))
            off = np.degrees(turned.as_rotvec())
            tilts.append(off[:, :2])
            headings.append(off[:, 2])
        assert np.std(tilts) == pytest.approx(np.hypot(0.3, 0.2), rel=0.3)
        assert np.std(headings) == pytest.approx(0.8, rel=0.3)


class TestJudge:
    @staticmethod
    def estimate(drive: cars.Drive, sigma_m: float, sigma_rad: float, seed: int = 1) -> ego_ours.Estimate:
        rng = np.random.default_rng(seed)
        time_s = np.arange(0.5, 59.5, 1 / 30)
        count = len(time_s)
        turns = Rotation.from_matrix(drive.truth.rotations_at(time_s))
        turns *= Rotation.from_rotvec(rng.normal(0, sigma_rad, (count, 3)))
        return ego_ours.Estimate(
            time_s,
            drive.truth.places_at(time_s) + rng.normal(0, sigma_m, (count, 3)),
            turns.as_matrix(),
            np.full((count, 3), sigma_m),
            np.full((count, 3), sigma_rad),
            np.full(count, "measured"),
            np.full(count, "measured"),
            {},
            (np.nan, np.nan),
            [],
            1.0,
        )

    def test_an_honest_estimate_passes(self, drive: cars.Drive) -> None:
        found = ego_judged.judged(drive, "whole", self.estimate(drive, 0.2, 0.01), None)
        assert found.failed == found.odd == ()
        for name in ("horizontal", "vertical", "position", "tilt", "heading", "rotation"):
            assert getattr(found, f"nees_{name}") == pytest.approx(1.0, abs=0.1)
        assert found.rms_m == pytest.approx(0.2 * np.sqrt(2), rel=0.05)
        assert found.heading_deg == pytest.approx(np.degrees(0.01), rel=0.05)
        assert (found.lost_percent, found.far) == (0, 0)

    @pytest.mark.parametrize("factor", [0.6, 1.6])
    def test_a_sigma_that_is_not_true_is_found(self, drive: cars.Drive, factor: float) -> None:
        good = self.estimate(drive, 0.2, 0.01)
        place = replace(good, position_sigma_m=good.position_sigma_m * factor)
        turn = replace(good, rotation_sigma_rad=good.rotation_sigma_rad * factor)
        assert ego_judged.judged(drive, "whole", place, None).odd == ("NEES position",)
        assert ego_judged.judged(drive, "whole", turn, None).odd == ("NEES rotation",)


def test_the_baseline_stays_within_the_receiver_s_errors() -> None:
    pytest.importorskip("gtsam")
    drive = cars.made(cars.DRIVES["frozen-tunnel-0.3m"], 0, 120)
    time_s = np.arange(0.5, 119.5, 0.1)
    places, rotations = gtsam_baseline.estimated(drive, time_s)
    off = np.linalg.norm((places - drive.truth.places_at(time_s))[:, :2], axis=1)
    assert np.sqrt(np.mean(off**2)) < 0.3
    turned = Rotation.from_matrix(drive.truth.rotations_at(time_s).swapaxes(1, 2) @ rotations)
    assert np.degrees(turned.magnitude()).mean() < 1
