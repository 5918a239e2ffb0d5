"""Steps against motions of which the integrals are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ego_drives import from_yaw
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.geometry import Quaternion
from edgefirst_ros.ego.inertia import ImuStep, Preintegrator, pack, unpack
from edgefirst_ros.messages.imu import Imu

MS = 1_000_000
STILL = (0.0, 0.0, 9.81)


def steps(
    samples: list[tuple[int, Imu]], mount: Quaternion | None = None, cut_ns: int | None = None
) -> list[ImuStep]:
    inertia, found = Preintegrator(mount), []
    for time_ns, imu in samples:
        step = inertia.add(time_ns, imu)
        found += [] if step is None else [step]
    return found if cut_ns is None else [*found, inertia.cut(cut_ns)]


def turning(rate: float, count: int = 11, every_ns: int = 5 * MS) -> list[tuple[int, Imu]]:
    """Samples of one that goes round at 2 m/s² towards its left."""
    return [(n * every_ns, Imu(None, (0.0, 0.0, rate), (0.0, 2.0, 9.81))) for n in range(count)]


def test_a_turn_is_summed_exactly() -> None:
    rate, dt = 1.5, 0.05
    (step,) = steps(turning(rate))
    assert step.dt_s == pytest.approx(dt)
    assert step.turn_rad == pytest.approx((0, 0, rate * dt), abs=1e-9)
    angle = rate * dt
    sideways = np.array([math.cos(angle) - 1, math.sin(angle)]) * 2.0 / rate
    assert step.dv_m_s == pytest.approx((*sideways, 9.81 * dt), abs=1e-5)
    along = np.array([math.sin(angle) / rate - dt, (1 - math.cos(angle)) / rate]) * 2.0 / rate
    assert step.dp_m == pytest.approx((*along, 9.81 * dt * dt / 2), abs=1e-6)
    assert step.rate_rad_s == (0.0, 0.0, rate)
    assert (step.turns, step.feels) == (True, True)


def test_the_mounting_turns_everything() -> None:
    mount = Rotation.from_euler("ZYX", [90, 20, -10], degrees=True)
    x, y, z, w = mount.as_quat().tolist()
    (plain,), (turned,) = steps(turning(1.5)), steps(turning(1.5), (x, y, z, w))
    for name in ("turn_rad", "dv_m_s", "dp_m", "rate_rad_s"):
        assert getattr(turned, name) == pytest.approx(mount.apply(getattr(plain, name)))
    orientation = from_yaw(0.7)
    samples = [(n * 25 * MS, Imu(orientation, (0, 0, 1e-6), STILL)) for n in range(3)]
    (step,) = steps(samples, (x, y, z, w))
    expected = Rotation.from_quat(orientation) * mount.inv()
    assert (Rotation.from_quat(step.orientation_xyzw) * expected.inv()).magnitude() < 1e-9


def test_a_cut_between_samples_loses_nothing() -> None:
    samples = turning(0.5, count=41)
    inertia, cut = Preintegrator(None), []
    for time_ns, imu in samples:
        if time_ns == 60 * MS:
            cut.append(inertia.cut(57 * MS))
        step = inertia.add(time_ns, imu)
        cut += [] if step is None else [step]
    cut.append(inertia.cut(200 * MS))
    assert sum(step.dt_s for step in cut) == pytest.approx(0.2)
    assert sum(step.turn_rad[2] for step in cut) == pytest.approx(0.1, abs=1e-9)
    assert 57 * MS in [step.end_ns for step in cut]
    again = inertia.cut(200 * MS)
    assert (again.dt_s, again.turn_rad) == (0, (0, 0, 0))


def test_without_a_gyroscope_the_orientation_tells_the_turn() -> None:
    samples = [(n * 10 * MS, Imu(from_yaw(0.01 * n), (0.0, 0.0, 0.0), STILL)) for n in range(6)]
    (step,) = steps(samples)
    assert step.turns
    assert step.turn_rad == pytest.approx((0, 0, 0.05), abs=1e-9)


@pytest.mark.parametrize(
    ("imu", "turns", "feels"),
    [
        (Imu(None, (0.0, 0.0, 0.1), (0.0, 0.0, 0.0)), True, False),
        (Imu(None, (0.0, 0.0, 0.1), (0.3, 0.0, -0.2)), True, False),
        (Imu(None, (0.0, 0.0, 0.1), (math.nan, 0.0, 9.8)), True, False),
        (Imu(None, (math.nan, 0.0, 0.1), STILL), False, True),
        (Imu(None, (0.0, 0.0, 0.0), STILL), True, True),
        (Imu(None, (0.0, 0.0, 0.1), (500.0, 0.0, 0.0)), True, False),
    ],
)
def test_what_no_sensor_measures_is_not_summed(imu: Imu, turns: bool, feels: bool) -> None:
    (step,) = steps([(n * 10 * MS, imu) for n in range(6)])
    assert (step.turns, step.feels) == (turns, feels)
    assert all(map(math.isfinite, (*step.turn_rad, *step.dv_m_s, *step.dp_m, *step.rate_rad_s)))


def test_silence_is_no_motion() -> None:
    samples = [*turning(0.5), (900 * MS, Imu(None, (0.0, 0.0, 0.5), STILL))]
    before, silent = steps(samples)
    assert before.turns
    assert (silent.turns, silent.feels, silent.turn_rad) == (False, False, (0, 0, 0))
    late = steps(turning(0.5, count=9), cut_ns=100 * MS)[-1]
    assert not late.turns


def test_samples_out_of_order_and_twice_are_left_out() -> None:
    samples = turning(1.0)
    (once,) = steps(samples)
    (again,) = steps([each for sample in samples for each in (sample, sample, (0, sample[1]))])
    assert again == once


def test_it_is_quiet_when_nothing_stirs_for_half_a_second() -> None:
    def stirred(at: int) -> float:
        return 2.0 if at == 60 else 0.0

    still = [(n * 10 * MS, Imu(None, (0.001, 0.0, 0.0), (0.0, stirred(n), 9.81))) for n in range(150)]
    quiet = [(step.end_ns // MS, step.quiet) for step in steps(still)]
    assert next(at for at, is_quiet in quiet if is_quiet) == 550
    assert not any(is_quiet for at, is_quiet in quiet if 610 <= at <= 1100)
    assert quiet[-1][1]
    # One that goes round evenly is as even as one that stands.
    assert not any(step.quiet for step in steps(turning(0.1, count=300)))


def test_packing_keeps_everything() -> None:
    step = steps([(n * 25 * MS, Imu(from_yaw(0.3), (0, 0, 0.2), STILL)) for n in range(3)])[0]
    assert unpack(step.end_ns, list(pack(step))) == step
