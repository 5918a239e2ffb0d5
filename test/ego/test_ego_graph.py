"""The factor graph against dense least squares, the covariance of its processes, and physics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import gtsam
import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from scipy.stats import multivariate_normal

from edgefirst_ros.ego import graph
from edgefirst_ros.ego.graph import Node, Optimum, Place, Prior, rough
from edgefirst_ros.ego.inertia import Preintegrator

S = 1_000_000_000
G = 9.81
NO_ORIENTATION = (math.nan,) * 4


@dataclass(frozen=True)
class Drive:
    """A level car at a constant speed that swings left and right."""

    seconds: float = 8.0
    node_s: float = 0.5
    speed_m_s: float = 8.0
    swing_rad: float = 0.8
    period_s: float = 6.0
    sample_s: float = 0.05

    def yaw(self, at_s: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.swing_rad * np.sin(2 * math.pi / self.period_s * at_s)
        return found

    def rate(self, at_s: np.ndarray) -> np.ndarray:
        turn = 2 * math.pi / self.period_s
        found: np.ndarray = self.swing_rad * turn * np.cos(turn * at_s)
        return found

    @property
    def times_s(self) -> np.ndarray:
        return np.arange(round(self.seconds / self.node_s) + 1) * self.node_s

    @property
    def places_m(self) -> np.ndarray:
        """By Simpson's rule."""
        fine = np.linspace(0, self.seconds, 2 * round(100 * self.seconds) + 1)
        way = self.speed_m_s * np.stack([np.cos(self.yaw(fine)), np.sin(self.yaw(fine))], axis=1)
        step = (fine[2] - fine[0]) / 6 * (way[:-2:2] + 4 * way[1::2] + way[2::2])
        place = np.vstack([np.zeros(2), np.cumsum(step, axis=0)])
        both = [np.interp(self.times_s, fine[::2], place[:, axis]) for axis in (0, 1)]
        return np.stack([*both, np.zeros(len(self.times_s))], axis=1)

    def samples(self, rng: np.random.Generator | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Times in seconds, and rows as the preintegrator takes them."""
        at_s = np.arange(round(self.seconds / self.sample_s) + 1) * self.sample_s
        rows = np.zeros((len(at_s), 10))
        rows[:, :4] = NO_ORIENTATION
        rows[:, 6] = self.rate(at_s)
        rows[:, 8], rows[:, 9] = self.speed_m_s * self.rate(at_s), G
        if rng is not None:
            rows[:, 4:7] += rng.normal(0, 1e-3, (len(at_s), 3))
            rows[:, 7:10] += rng.normal(0, 0.05, (len(at_s), 3))
        return at_s, rows

    def nodes(self, rng: np.random.Generator | None = None) -> list[Node]:
        """With true initial values, and without fixes."""
        at_s, rows = self.samples(rng)
        times_ns = np.round(at_s * S).astype(np.int64).tolist()
        inertia, made = Preintegrator(None), list[Node]()
        for index, (time_s, place) in enumerate(zip(self.times_s.tolist(), self.places_m, strict=True)):
            node = Node(index, round(time_s * S))
            if made:
                node.segment = inertia.segments((made[-1].time_ns, node.time_ns), times_ns, rows)[0]
            yaw = float(self.yaw(np.array(time_s)))
            node.pose = gtsam.Pose3(gtsam.Rot3.Rz(yaw), place)
            node.velocity_m_s = self.speed_m_s * np.array((math.cos(yaw), math.sin(yaw), 0.0))
            made.append(node)
        return made


def process(times_s: np.ndarray, sigma: float, constant_s: float) -> np.ndarray:
    """Covariance of an Ornstein-Uhlenbeck process."""
    found: np.ndarray = sigma**2 * np.exp(-np.abs(times_s[:, None] - times_s) / constant_s)
    return found


def drawn(rng: np.random.Generator, times_s: np.ndarray, white: float, slow: float) -> np.ndarray:
    """Errors of fixes (n, 3)."""
    covariance = process(times_s, slow, graph.WANDER_S) + white**2 * np.eye(len(times_s))
    found: np.ndarray = np.linalg.cholesky(covariance) @ rng.normal(size=(len(times_s), 3))
    return found


def give_fixes(
    nodes: Sequence[Node], places_m: np.ndarray, white: float, slow: float, every: int = 1
) -> None:
    for node, place in list(zip(nodes, places_m, strict=True))[::every]:
        node.place = Place(place, np.full(3, white), np.full(3, slow))


def sigmas(optimum: Optimum, nodes: Sequence[Node]) -> np.ndarray:
    """One by one, so that none is interpolated."""
    return np.concatenate([optimum.sigmas([node]) for node in nodes])


def begun(node: Node, place_m: float = 20.0, heading_rad: float = 0.1) -> Prior:
    return rough(node, tilt_rad=0.05, heading_rad=heading_rad, place_m=place_m)


# Fixes' slow error


# Rolling


# The optimum


def integrated(
    times_s: np.ndarray, rows: np.ndarray, start_s: float, end_s: float, bias: np.ndarray
) -> np.ndarray:
    """Rotation vector, position and velocity from samples, less a bias of force and rate (6,)."""
    inside = np.flatnonzero((times_s[:-1] >= start_s - 1e-9) & (times_s[1:] <= end_s + 1e-9))
    turned, velocity, place = Rotation.identity(), np.zeros(3), np.zeros(3)
    for index in inside.tolist():
        dt = times_s[index + 1] - times_s[index]
        rate = 0.5 * (rows[index, 4:7] + rows[index + 1, 4:7]) - bias[3:]
        middle = turned * Rotation.from_rotvec(0.5 * rate * dt)
        force = middle.apply(0.5 * (rows[index, 7:10] + rows[index + 1, 7:10]) - bias[:3])
        place = place + velocity * dt + 0.5 * force * dt * dt
        velocity = velocity + force * dt
        turned = turned * Rotation.from_rotvec(rate * dt)
    return np.concatenate([turned.as_rotvec(), place, velocity])


@dataclass(frozen=True)
class Dense:
    """All residuals in one vector; a node has 15 unknowns: turn, place, speed, biases of force and rate."""

    nodes: list[Node]
    dt_s: np.ndarray
    moves: np.ndarray
    slopes: np.ndarray
    roots: np.ndarray
    fixed: np.ndarray
    places_m: np.ndarray
    fix_root: np.ndarray

    @staticmethod
    def of(nodes: list[Node], samples: tuple[np.ndarray, np.ndarray]) -> Dense:
        moves, slopes, roots = [], [], []
        times_s = np.array([node.time_ns / S for node in nodes])
        for node, start_s, end_s in zip(nodes[1:], times_s[:-1], times_s[1:], strict=True):
            assert node.segment is not None
            moves.append(integrated(*samples, start_s, end_s, np.zeros(6)))
            bent = [
                (integrated(*samples, start_s, end_s, 1e-5 * unit) - moves[-1]) / 1e-5 for unit in np.eye(6)
            ]
            slopes.append(np.stack(bent, axis=1))
            root = np.diag(np.repeat((1 / graph.FORCE_WALK, 1 / graph.GYRO_WALK), 3))
            root = np.pad(root, ((9, 0), (9, 0)))
            root[:9, :9] = np.linalg.inv(np.linalg.cholesky(node.segment.measured.preintMeasCov()))
            roots.append(root)
        having = [(index, node.place) for index, node in enumerate(nodes) if node.place is not None]
        fixed, place = np.array([index for index, _ in having]), having[0][1]
        covariance = process(times_s[fixed], place.wander_m[0], graph.WANDER_S)
        covariance += place.white_m[0] ** 2 * np.eye(len(fixed))
        return Dense(
            nodes,
            np.diff(times_s)[:, None],
            np.array(moves),
            np.array(slopes),
            np.array(roots),
            fixed,
            np.array([each.position_m for _, each in having]),
            np.linalg.inv(np.linalg.cholesky(covariance)),
        )

    def start(self) -> np.ndarray:
        """The nodes' present state, turned by nothing."""
        states = np.zeros((len(self.nodes), 15))
        states[:, 3:6] = [node.pose.translation() for node in self.nodes]
        states[:, 6:9] = [node.velocity_m_s for node in self.nodes]
        return states

    def residuals(self, numbers: np.ndarray) -> np.ndarray:
        states, first = numbers.reshape(-1, 15), self.start()[0]
        now = Rotation.from_matrix(np.array([node.pose.rotation().matrix() for node in self.nodes]))
        turned = now * Rotation.from_rotvec(states[:, :3])
        place, velocity, bias = states[:, 3:6], states[:, 6:9], states[:, 9:15]
        gravity = np.array((0.0, 0.0, -G))
        moved = self.moves + np.einsum("nij,nj->ni", self.slopes, bias[:-1])
        back = turned[:-1].inv()
        turn = (Rotation.from_rotvec(moved[:, :3]).inv() * back * turned[1:]).as_rotvec()
        way = place[1:] - place[:-1] - velocity[:-1] * self.dt_s - 0.5 * gravity * self.dt_s**2
        went = back.apply(way) - moved[:, 3:6]
        sped = back.apply(velocity[1:] - velocity[:-1] - gravity * self.dt_s) - moved[:, 6:9]
        moves = np.concatenate([turn, went, sped, np.diff(bias, axis=0)], axis=1)
        told = [
            states[0, :3] / (0.05, 0.05, 0.1),
            (place[0] - first[3:6]) / 20.0,
            (velocity[0] - first[6:9]) / 20.0,
            bias[0] / np.repeat((graph.FORCE_BIAS_M_S2, graph.GYRO_BIAS_RAD_S), 3),
            np.einsum("nij,nj->ni", self.roots, moves),
            velocity[1:] / (5 * graph.FAST_M_S),
            self.fix_root @ (place[self.fixed] - self.places_m),
        ]
        return np.concatenate([np.ravel(each) for each in told])


def noisy(seed: int, drive: Drive, white: float, slow: float, every: int = 1) -> list[Node]:
    rng = np.random.default_rng(seed)
    nodes = drive.nodes(np.random.default_rng(seed + 100))
    give_fixes(nodes, drive.places_m + drawn(rng, drive.times_s, white, slow), white, slow, every)
    return nodes


@pytest.mark.parametrize(("white", "slow", "every"), [(0.3, 0.2, 1), (0.05, 1.0, 2)])
def test_the_optimum_is_that_of_dense_least_squares(white: float, slow: float, every: int) -> None:
    drive = Drive(seconds=3.0)
    nodes = noisy(4, drive, white, slow, every)
    prior = begun(nodes[0])
    dense = Dense.of(nodes, drive.samples(np.random.default_rng(104)))
    start = dense.start()
    fitted = least_squares(dense.residuals, start.ravel(), x_scale="jac", ftol=1e-9)
    moved = fitted.x.reshape(-1, 15)
    spread = np.sqrt(np.diagonal(np.linalg.inv(fitted.jac.T @ fitted.jac))).reshape(-1, 15)
    before = [node.pose.rotation() for node in nodes]

    optimum = Optimum(nodes, prior, rolls=False, rounds=10)
    found = np.empty((len(nodes), 9))
    for row, node, rotation in zip(found, optimum.nodes, before, strict=True):
        row[:3] = gtsam.Rot3.Logmap(rotation.between(node.pose.rotation()))
        row[3:6], row[6:9] = node.pose.translation(), node.velocity_m_s
    # By hundredths of what is uncertain; biases are the same for a second, there for a node.
    assert np.abs((found - moved[:, :9]) / spread[:, :9]).max() < 0.03
    assert sigmas(optimum, nodes) == pytest.approx(spread[:, [3, 4, 5, 0, 1, 2]], rel=0.02)
    # They moved by what the fixes said, not by nothing.
    assert np.abs((moved - start) / spread)[:, :6].max() > 0.5


def test_sigmas_are_of_true_errors() -> None:
    drive = Drive(seconds=6.0)
    ratios = []
    for seed in range(15):
        nodes = noisy(seed, drive, 0.3, 0.5)
        optimum = Optimum(nodes, begun(nodes[0], heading_rad=1.0), rolls=True, rounds=8)
        off = np.array([node.pose.translation() for node in optimum.nodes]) - drive.places_m
        ratios.append((off / sigmas(optimum, nodes)[:, :3])[len(nodes) // 2])
    # The mean of 45 squares of normal numbers has a deviation of 0.21.
    assert 0.5 < np.mean(np.square(ratios)) < 1.6


# Priors of what is gone


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("rolls", [False, True], ids=["free", "rolling"])
@pytest.mark.parametrize("cut", [8, 9])
def test_a_prior_stands_for_what_is_gone(rolls: bool, cut: int, online: bool) -> None:
    drive = Drive()

    def made() -> list[Node]:
        return noisy(7, drive, 0.2, 0.3, every=2)

    nodes = made()
    whole = Optimum(nodes, begun(nodes[0]), rolls=rolls, rounds=10)
    expected = sigmas(whole, nodes[cut:])
    places = np.array([node.pose.translation() for node in nodes[cut:]])
    turns = [node.pose.rotation() for node in nodes[cut:]]
    if online:  # what comes later is not known yet when the prior is made
        nodes = made()
        past = Optimum(nodes[: cut + 1], begun(nodes[0]), rolls=rolls, rounds=10)
        prior = past.prior_at(cut)
    else:
        prior = whole.prior_at(cut)
    rest = Optimum(nodes[cut:], prior, rolls=rolls, rounds=10)
    found = np.array([node.pose.translation() for node in nodes[cut:]])
    # Online it is linearized where the past alone has it; slip is a share of the speed, which has changed.
    rel = 0.025 if online else 2e-3
    assert np.abs((found - places) / expected[:, :3]).max() < 5 * rel
    for turn, node, sigma in zip(turns, nodes[cut:], expected[:, 3:], strict=True):
        assert np.abs(gtsam.Rot3.Logmap(turn.between(node.pose.rotation())) / sigma).max() < 5 * rel
    assert sigmas(rest, nodes[cut:]) == pytest.approx(expected, rel=rel)
    alone = Optimum(nodes[cut:], begun(nodes[cut]), rolls=rolls, rounds=10)
    assert not np.allclose(sigmas(alone, nodes[cut:]), expected, rtol=0.05), "the past tells something"


# What explains fixes best


@pytest.mark.parametrize("true", [0.05, 0.3, 0.8, 1.3])
def test_the_evidence_of_slow_errors_is_the_density_of_the_fixes(
    true: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a car that stands where it is known: there it is the fixes' normal distribution alone."""
    monkeypatch.setattr(graph, "STILL_M_S", 1e-4)  # or the car's own drift explains a little, too ...
    monkeypatch.setattr(graph, "HUBER", 1e3)  # ... as outliers do
    drive = Drive(seconds=60.0, node_s=1.0, sample_s=0.2, speed_m_s=0.0, swing_rad=0.0)
    white = 3.0
    candidates = np.array([(0.05, 0.05), (0.3, 0.3), (0.8, 1.3), (1.3, 0.05)]) * white
    for seed in range(2):
        errors = drawn(np.random.default_rng(seed), drive.times_s, white, true * white)
        nodes = drive.nodes()
        give_fixes(nodes, errors, white, 0.3 * white)
        for node in nodes:
            node.standing = True
        prior = rough(nodes[0], tilt_rad=1e-3, heading_rad=0.01, place_m=0.01, known_bias=True)
        optimum = Optimum(nodes, prior, rolls=False, rounds=4)
        found = list(optimum.evidence([np.array((each[0], *each)) for each in candidates.tolist()]))
        densities = []
        for each in candidates.tolist():
            density = 0.0
            for wander, axis in zip((each[0], each[0], each[1]), errors.T, strict=True):
                covariance = process(drive.times_s, wander, graph.WANDER_S) + white**2 * np.eye(len(nodes))
                density += multivariate_normal(cov=covariance).logpdf(axis)
            densities.append(density)
        assert np.diff(found) == pytest.approx(np.diff(densities), abs=0.15, rel=0.01)
