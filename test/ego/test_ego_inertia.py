"""Segments of IMU samples against motions of which the integrals are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import gtsam
import numpy as np
import pytest
from ego_drives import from_yaw
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.geometry import STANDARD_GRAVITY_M_S2, Quaternion
from edgefirst_ros.ego.inertia import Preintegrator, Segment, sample_row
from edgefirst_ros.model.navigation import Imu

MS, S = 1_000_000, 1_000_000_000
G = 9.81
STILL = (0.0, 0.0, G)

Sample = tuple[int, Imu]


def cut(samples: Sequence[Sample], cuts_ns: Sequence[int], mount: Quaternion | None = None) -> list[Segment]:
    """Segments between the cuts, all samples being there already."""
    inertia, found = Preintegrator(mount), []
    for start_ns, end_ns in pairwise(cuts_ns):
        before_ns = start_ns - 500 * MS
        first = max((index for index, (at, _) in enumerate(samples) if at <= before_ns), default=0)
        found.append(_segment(inertia, start_ns, end_ns, samples[first:]))
    return found


def _segment(inertia: Preintegrator, start_ns: int, end_ns: int, samples: Sequence[Sample]) -> Segment:
    table = np.array([sample_row(imu) for _, imu in samples]).reshape(-1, 10)
    return inertia.segments((start_ns, end_ns), [at for at, _ in samples], table)[0]


def whole(samples: Sequence[Sample], mount: Quaternion | None = None) -> Segment:
    return cut(samples, (samples[0][0], samples[-1][0]), mount)[0]


def turned_rad(segment: Segment) -> np.ndarray:
    found: np.ndarray = gtsam.Rot3.Logmap(segment.measured.deltaRij())
    return found


def sampled(imu: Callable[[float], Imu], seconds: float, every_ms: int = 10) -> list[Sample]:
    return [(n * every_ms * MS, imu(n * every_ms / 1e3)) for n in range(round(seconds * 1e3 / every_ms) + 1)]


def turning(rate: float, seconds: float = 0.2, every_ms: int = 10) -> list[Sample]:
    """Samples of one that goes round at 2 m/s² towards its left."""
    return sampled(lambda _: Imu(None, (0.0, 0.0, rate), (0.0, 2.0, G)), seconds, every_ms)


def swaying(at_s: float) -> Imu:
    """A turn about the vertical and forces, all of them changing."""
    rate = 0.8 * math.sin(3.0 * at_s)
    return Imu(
        None, (0.0, 0.0, rate), (math.cos(2.0 * at_s), math.sin(5.0 * at_s), G + 0.5 * math.sin(4.0 * at_s))
    )


def circle(rate: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and position from 2 m/s² to the left of one that turns, from rest."""
    angle = rate * dt
    velocity = np.array([(math.cos(angle) - 1) / rate, math.sin(angle) / rate, G / 2 * dt]) * 2.0
    along = [(math.sin(angle) / rate - dt) / rate, (1 - math.cos(angle)) / rate**2, G / 4 * dt * dt]
    return velocity, np.array(along) * 2.0


@pytest.mark.parametrize("rate", [-1.5, 0.4, 1.5])
def test_a_turn_is_summed_as_its_integral(rate: float) -> None:
    dt, step = 0.2, 0.01
    segment = whole(turning(rate))
    assert segment.dt_s == pytest.approx(dt)
    assert segment.measured.deltaTij() == pytest.approx(dt)
    assert turned_rad(segment) == pytest.approx([0, 0, rate * dt], abs=1e-9)
    velocity, place = circle(rate, dt)
    # A step's force may be turned by half of what the step turns.
    late = 2.0 * abs(rate) * step / 2
    assert segment.measured.deltaVij() == pytest.approx(velocity, abs=1.02 * late * dt)
    assert segment.measured.deltaPij() == pytest.approx(place, abs=1.02 * late * dt * dt / 2)
    assert segment.rate_rad_s == pytest.approx([0, 0, rate])
    assert (segment.turns, segment.feels) == (True, True)


def test_the_mounting_turns_everything() -> None:
    mount = Rotation.from_euler("ZYX", [90, 20, -10], degrees=True)
    x, y, z, w = mount.as_quat().tolist()
    plain, turned = whole(turning(1.5)), whole(turning(1.5), (x, y, z, w))
    for one, other in (
        (turned_rad(plain), turned_rad(turned)),
        (plain.measured.deltaVij(), turned.measured.deltaVij()),
        (plain.measured.deltaPij(), turned.measured.deltaPij()),
        (plain.rate_rad_s, turned.rate_rad_s),
        (plain.inner[0][1].velocity(), turned.inner[0][1].velocity()),
        (plain.inner[0][1].position(), turned.inner[0][1].position()),
    ):
        assert other == pytest.approx(mount.apply(one), abs=1e-9)
    orientation = from_yaw(0.7)
    segment = whole([(n * 25 * MS, Imu(orientation, (0, 0, 1e-6), STILL)) for n in range(3)], (x, y, z, w))
    assert segment.orientation is not None
    expected = Rotation.from_quat(orientation) * mount.inv()
    assert (Rotation.from_matrix(segment.orientation.matrix()) * expected.inv()).magnitude() < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_cuts_at_any_time_lose_nothing(seed: int) -> None:
    samples = sampled(swaying, 2.0)
    inner = np.sort(np.random.default_rng(seed).integers(1, 2_000_000_000, 12)).tolist()
    one, several = whole(samples), cut(samples, [0, *inner, 2_000_000_000])
    assert sum(each.dt_s for each in several) == pytest.approx(2.0)
    rotation, velocity, place = gtsam.Rot3(), np.zeros(3), np.zeros(3)
    for each in several:
        place = place + velocity * each.dt_s + rotation.matrix() @ each.measured.deltaPij()
        velocity = velocity + rotation.matrix() @ each.measured.deltaVij()
        rotation = rotation.compose(each.measured.deltaRij())
    angle = 0.8 / 3.0 * (1 - math.cos(6.0))
    assert gtsam.Rot3.Logmap(rotation) == pytest.approx([0, 0, angle], abs=1e-4)
    assert gtsam.Rot3.Logmap(rotation) == pytest.approx(turned_rad(one), abs=1e-9)
    # A cut moves how far a step's force is turned, by half of the step's turn at most.
    assert velocity == pytest.approx(one.measured.deltaVij(), abs=2e-3)
    assert place == pytest.approx(one.measured.deltaPij(), abs=2e-3)


def test_without_a_gyroscope_the_orientation_tells_the_turn() -> None:
    samples = [(n * 10 * MS, Imu(from_yaw(0.5 + 0.01 * n), (0.0, 0.0, 0.0), STILL)) for n in range(21)]
    segment = whole(samples)
    assert segment.turns
    assert turned_rad(segment) == pytest.approx([0, 0, 0.2], abs=1e-5)
    still = whole([(at, imu._replace(orientation_xyzw=None)) for at, imu in samples])
    assert still.turns, "a gyroscope may say zero"
    assert turned_rad(still) == pytest.approx([0, 0, 0])
    # A simulator at rest says zero of both.
    rest = whole([(at, imu._replace(orientation_xyzw=from_yaw(0.5))) for at, imu in samples])
    assert rest.turns
    assert turned_rad(rest) == pytest.approx([0, 0, 0], abs=1e-9)


def test_an_arm_pulls_evenly_whatever_the_times() -> None:
    """A node may come a microsecond after a sample."""
    inertia = Preintegrator(None, (1.0, 0.5, 0.2))
    samples = sampled(swaying, 1.0)
    table = np.array([sample_row(imu) for _, imu in samples])
    found = inertia.segments((0, 500_001_000, 1_000_000_000), [at for at, _ in samples], table)
    even = inertia.segments((0, 500_000_000, 1_000_000_000), [at for at, _ in samples], table)
    for one, other in zip(found, even, strict=True):
        assert one.measured.deltaVij() == pytest.approx(other.measured.deltaVij(), abs=5e-3)


@pytest.mark.parametrize(
    ("imu", "turns", "feels"),
    [
        (Imu(None, (0.0, 0.0, 0.1), STILL), True, True),
        (Imu(None, (0.0, 0.0, 0.1), (0.0, 0.0, 0.0)), True, False),
        (Imu(None, (0.0, 0.0, 0.1), (0.3, 0.0, -0.2)), True, False),
        (Imu(None, (0.0, 0.0, 0.1), (math.nan, 0.0, 9.8)), True, False),
        (Imu(None, (math.nan, 0.0, 0.1), STILL), False, True),
        (Imu(None, (0.0, math.inf, 0.1), STILL), False, True),
        (Imu(None, (0.0, 0.0, 0.0), STILL), True, True),
        (Imu(None, (0.0, 0.0, 0.1), (500.0, 0.0, 0.0)), True, False),
        (Imu(None, (math.nan,) * 3, (math.nan,) * 3), False, False),
    ],
)
def test_what_no_sensor_measures_is_not_summed(imu: Imu, turns: bool, feels: bool) -> None:
    dt = 0.06
    # One such sample in between is enough.
    sound = Imu(None, (0.0, 0.0, 0.1), STILL)
    segment = whole([(n * 10 * MS, imu if n == 3 else sound) for n in range(7)])
    assert (segment.turns, segment.feels) == (turns, feels)
    assert turned_rad(segment)[2] == (pytest.approx(0.1 * dt, rel=0.4) if turns else 0)
    gravity = G if feels else STANDARD_GRAVITY_M_S2
    assert segment.measured.deltaVij()[2] == pytest.approx(gravity * dt), "nothing measured: gravity alone"
    assert np.isfinite([*segment.rate_rad_s, *segment.measured.deltaPij()]).all()
    assert not segment.inner or (turns and feels)
    # What is not measured is not taken to be known.
    known = whole([(n * 10 * MS, sound) for n in range(7)])
    spread, least = (np.sqrt(np.diagonal(each.measured.preintMeasCov())) for each in (segment, known))
    assert (spread[2] > 30 * least[2]) == (not turns)
    assert (spread[8] > 50 * least[8]) == (not feels)


def test_silence_is_no_motion() -> None:
    samples = [*turning(0.5), (450 * MS, Imu(None, (0.0, 0.0, 0.5), STILL))]
    short = whole(samples)
    assert (short.turns, short.feels) == (True, True)
    assert turned_rad(short)[2] == pytest.approx(0.225, abs=1e-9)
    silent = whole([*samples[:-1], (451 * MS, samples[-1][1])])
    assert (silent.turns, silent.feels) == (False, False)
    assert turned_rad(silent) == pytest.approx([0, 0, 0])
    assert silent.dt_s == pytest.approx(0.451)


def test_fast_samples_are_taken_together_without_loss() -> None:
    slow, fast = whole(sampled(swaying, 1.0)), whole(sampled(swaying, 1.0, every_ms=5))
    assert turned_rad(fast) == pytest.approx(turned_rad(slow), abs=1e-4)
    assert turned_rad(fast)[2] == pytest.approx(0.8 / 3.0 * (1 - math.cos(3.0)), abs=1e-4)
    assert fast.measured.deltaVij() == pytest.approx(slow.measured.deltaVij(), abs=1e-3)
    assert fast.measured.deltaPij() == pytest.approx(slow.measured.deltaPij(), abs=1e-3)
    # A shaking that is faster than those hundred a second leaves its mean.
    shaken = sampled(
        lambda at: Imu(None, (0.0, 0.0, 0.5), (2.0 * (round(at * 1e3) % 10 == 5), 0.0, G)), 1.0, 5
    )
    assert whole(shaken).measured.deltaVij()[0] == pytest.approx(math.sin(0.5) / 0.5, abs=5e-3)
    # The noise is a density: so much in a second, however many samples tell it.
    spread = [np.sqrt(np.diagonal(each.measured.preintMeasCov())) for each in (slow, fast)]
    assert spread[1] == pytest.approx(spread[0], rel=0.02)


class TestQuiet:
    CUTS = tuple(range(0, 1501 * MS, 50 * MS))

    def quiet_ms(self, imu: Callable[[float], Imu], cuts_ns: Sequence[int] = CUTS) -> set[int]:
        """Ends of segments, in milliseconds, before which nothing stirred."""
        segments = cut(sampled(imu, 1.5), cuts_ns)
        return {end // MS for end, each in zip(cuts_ns[1:], segments, strict=True) if each.quiet}

    def test_nothing_stirs_for_half_a_second(self) -> None:
        found = self.quiet_ms(lambda _: Imu(None, (0.001, 0.0, 0.0), (0.05, 0.0, G)))
        assert found == {at for at in range(50, 1501, 50) if at >= 500}

    @pytest.mark.parametrize("every_ms", [10, 100, 200, 350])
    def test_however_it_is_cut(self, every_ms: int) -> None:
        cuts = [*range(0, 1500 * MS, every_ms * MS), 1500 * MS]
        assert 1500 in self.quiet_ms(lambda _: Imu(None, (0.001, 0.0, 0.0), STILL), cuts)
        late = self.quiet_ms(
            lambda at: Imu(None, (0.001, 0.0, 0.0), (0.0, 1.0 * (at > 1.2), G)),
            cuts,
        )
        assert 1500 not in late
