"""An IMU with other units or axes than REP 103 asks for is found by gravity and by the way driven."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from ego_drives import MEMS, Case, off, whole
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.gauge import Gauge
from edgefirst_ros.ego.motion import solve
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.navigation import Imu, NavSatFix

G = 9.80665
FRD = np.diag((1.0, -1.0, -1.0))
"""Front-left-up to front-right-down, and back."""
NED = np.array(((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)))
"""East-north-up to north-east-down, and back."""

Sent = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""What a driver makes of rotation (3, 3), rates and forces."""


@dataclass(frozen=True)
class Driver(Case):
    """An IMU whose driver sends something else."""

    sent: Sent = lambda rotation, rates, forces: (rotation, rates, forces)
    sigma_m: float = 0.5
    seconds: float = 60.0

    def samples(self) -> list[tuple[int, Imu]]:
        found = []
        for time_ns, imu in super().samples():
            told = imu.orientation_xyzw
            rotation = np.eye(3) if told is None else Rotation.from_quat(told).as_matrix()
            sent = self.sent(
                rotation, np.array(imu.angular_velocity_rad_s), np.array(imu.linear_acceleration_m_s2)
            )
            x, y, z, w = Rotation.from_matrix(sent[0]).as_quat().tolist()
            rates, forces = (tuple(each.tolist()) for each in sent[1:])
            found.append((time_ns, Imu(None if told is None else (x, y, z, w), rates, forces)))
        return found


def gauged(case: Case) -> Gauge:
    gauge = Gauge()
    for part in case.log().measured():
        if len(part) == 3:
            gauge.add_fix(*part)
        else:
            gauge.add_samples(*part)
    return gauge


KINDS: dict[str, tuple[Sent, float, float, bool, tuple[str, ...]]] = {
    "as REP 103 asks": (lambda r, w, f: (r, w, f), 1, 1, True, ()),
    "in g": (lambda r, w, f: (r, w, f / G), G, 1, True, ("are in g",)),
    "in mg": (lambda r, w, f: (r, w, f / G * 1000), G / 1000, 1, True, ("are in mg",)),
    "in degrees": (lambda r, w, f: (r, np.degrees(w), f), 1, np.pi / 180, True, ("in degrees a second",)),
    "in g and degrees": (
        lambda r, w, f: (r, np.degrees(w), f / G), G, np.pi / 180, True, ("degrees", "are in g"),
    ),
    "in counts": (lambda r, w, f: (r, w, f * 1670), np.nan, 1, True, ("not in m/s²",)),
    "without gravity": (
        lambda r, w, f: (r, w, f - r.T @ (0, 0, G)), np.nan, 1, True, ("lack gravity",),
    ),
    "north-east-down": (
        lambda r, w, f: (NED @ r @ FRD, FRD @ w, FRD @ f), 1, 1, False, ("z down",),
    ),
    "orientations alone": (
        lambda r, w, f: (NED @ r @ FRD, w, f), 1, 1, False, ("contradict its own rates",),
    ),
    "left-handed rates": (
        lambda r, w, f: (r, w * (1, 1, -1), f), np.nan, np.nan, False, ("orientations", "it is not used"),
    ),
    "forces negated": (
        lambda r, w, f: (r, w, -f), np.nan, np.nan, False, ("z down", "it is not used"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("oriented", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_driver_sends_is_found(kind: str, oriented: bool) -> None:
    sent, force, rate, believed, notes = KINDS[kind]
    found = gauged(Driver(imu=MEMS, oriented=oriented, sent=sent))
    assert (found.force, found.rate) == pytest.approx((force, rate), nan_ok=True)
    said = notes if oriented else [each for each in notes if each not in {"z down", "orientations"}]
    if not oriented and not np.isnan(rate):
        believed, said = True, [each for each in said if "contradict" not in each]
    assert found.oriented == believed
    assert len(found.notes) == len(said)
    for note in said:
        assert any(note in each for each in found.notes), found.notes


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    ("kind", "oriented"),
    [
        ("in g and degrees", False),
        ("in g and degrees", True),
        ("orientations alone", True),
        ("left-handed rates", True),
        ("forces negated", False),
    ],
)
def test_poses_are_true_all_the_same(kind: str, oriented: bool, live: bool) -> None:
    case = Driver(imu=MEMS, oriented=oriented, sent=KINDS[kind][0])
    # Live, what was sent before it was found has to leave the window of the estimate.
    times = np.arange(45.0 if live else 5.0, 58.0, 0.5)
    if live:
        found = off(case.world, case.live(Trajectory(), times)[0])
    else:
        found = whole(case, solve(case.log(), Vehicle(), None), times)
    blind = np.isnan(KINDS[kind][1])
    assert found.rms_m < (2.0 if blind else 0.5)
    assert found.rms_deg < (8.0 if blind else 1.5)


@dataclass(frozen=True)
class Fixed(Driver):
    """Whose receiver's driver sends something else, too."""

    placed: Callable[[NavSatFix], NavSatFix] = lambda fix: fix
    seconds: float = 100.0

    def fixes(self) -> list[tuple[int, int, NavSatFix]]:
        return [(time_ns, arrival, self.placed(fix)) for time_ns, arrival, fix in super().fixes()]


def as_minutes(degrees: float) -> float:
    return math.copysign(int(abs(degrees)) + abs(degrees) % 1 * 0.6, degrees)


@pytest.mark.parametrize("oriented", [True, False])
def test_fixes_that_are_mirrored_are_not_used(oriented: bool) -> None:
    for placed in (
        lambda fix: replace(fix, longitude_deg=-fix.longitude_deg),
        lambda fix: replace(fix, latitude_deg=fix.longitude_deg, longitude_deg=fix.latitude_deg),
    ):
        case = Fixed(imu=MEMS, oriented=oriented, placed=placed, seconds=60.0)
        motion = solve(case.log(), Vehicle(), None)
        assert (motion.gauge.placed, motion.gauge.rate) == (False, 1)
        assert ["not used" in each for each in motion.notes] == [True]
        numbers = [arrival for _, arrival, _ in case.fixes()]
        assert set(motion.refusals) == set(numbers)
    trajectory = Trajectory()
    _, outcomes = case.live(trajectory, [50.0])
    assert all(outcomes[number] for number in numbers[-50:])
    assert any("fixes turn the other way" in each for each in trajectory.notes)


def test_minutes_that_are_sent_as_degrees_are_doubted() -> None:
    found = gauged(
        Fixed(
            imu=MEMS,
            placed=lambda fix: replace(
                fix, latitude_deg=as_minutes(fix.latitude_deg), longitude_deg=as_minutes(fix.longitude_deg)
            ),
        )
    )
    assert ["minutes" in each for each in found.doubts] == [True]
    assert (found.placed, found.notes) == (True, [])
    assert gauged(Fixed(imu=MEMS)).doubts == []


@pytest.mark.parametrize("oriented", [True, False])
@pytest.mark.parametrize("mirror", ["exchanged", "negated"])
def test_axes_that_are_mirrored_are_not_taken_for_a_mounting(mirror: str, oriented: bool) -> None:
    order, sign = ([1, 0, 2], 1) if mirror == "exchanged" else ([0, 1, 2], (1, -1, 1))
    case = Driver(
        imu=MEMS,
        oriented=oriented,
        seconds=100.0,
        sigma_m=0.3,
        sent=lambda r, w, f: (r, w[order] * sign, f[order] * sign),
    )
    motion = solve(case.log(), Vehicle(), None)
    assert any("two of its axes" in each for each in motion.notes)
    assert motion.mounting is None
    found = whole(case, motion, np.arange(5.0, 95.0, 1.0))
    assert found.rms_m < 1.0
    assert found.rms_deg < 8.0


def test_a_sensor_alone_is_left_alone() -> None:
    """Without a way, a phone in a hand that turns quickly, or an accelerometer without a gyroscope."""
    still = gauged(Driver(imu=MEMS, gps_hz=0))
    assert (still.force, still.rate, still.oriented, still.notes) == (1, 1, True, [])
    none = gauged(Driver(imu=MEMS, sent=lambda r, w, f: (r, w * 0, f * 0)))
    assert (none.force, none.rate, none.oriented, none.notes) == (1, 1, True, [])
