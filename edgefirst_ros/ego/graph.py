"""The factor graph of docs/ego.md: which factors nodes have, and their optimum, through GTSAM."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Floats
from edgefirst_ros.ego.inertia import Segment

ANY_RAD = math.pi / math.sqrt(3)
"""Standard deviation of an unknown heading."""
FAST_M_S = 20.0
"""Of an unknown velocity. Velocities are bounded, far beyond it."""
GYRO_BIAS_RAD_S, FORCE_BIAS_M_S2 = 0.02, 0.3
"""Biases that a MEMS sensor may begin with."""
GYRO_WALK, FORCE_WALK = 3e-5, 3e-4
"""Drift of these biases, rad/s/√s and m/s²/√s."""
LEANING_RAD = math.radians(6)
"""Tilt from the forces on a vehicle that may brake or turn."""
HUBER = 3.0
"""Beyond this many standard deviations a fix, odometry, and the rule of rolling weigh less."""
WANDER_S = 60.0
"""Time constant of a receiver's slow error: satellites and reflections change over a minute."""
STEADY_NS = 1_000_000_000
"""Biases and the slow error of fixes are taken to be the same for so long: they drift over minutes."""
SLIP_M_S, SLIP, SLIP_ARM_M = 0.08, 0.02, 1.5
"""Motion across the direction of travel, m/s and share of the speed; the arm, times the rate, is added."""
RISE_M_S, RISE = 0.15, 0.04
"""Motion upwards likewise: springs let the nose dip by two degrees."""
STILL_M_S = 0.03
"""Speed and angular rate of a vehicle that stands."""
MOVING_SIGMAS = 4.0
"""Beyond three times that speed, and this many deviations, the estimate says that a vehicle moves."""
UPRIGHT_RAD = math.radians(10)
"""Roll and pitch without an accelerometer; it stays for seconds, so each node tells less than the true 3°."""
END = math.sqrt(2)
"""Half of a process's information is at its beginning, half at its end."""
LOOSE = 1e4
"""Standard deviation of what a factor does not tell."""
PINNED = 1e-7
"""Of what is zero by definition: the slow error's rotation, which has an arm of kilometres."""


@dataclass(frozen=True, slots=True)
class Place:
    """A believed fix: ENU metres (3,), and standard deviations of its white noise and slow error (3,).

    ``antenna_m`` is where in the rig it was measured (3,).
    """

    position_m: Floats
    white_m: Floats
    wander_m: Floats
    antenna_m: Floats = field(default_factory=lambda: np.zeros(3))


@dataclass(slots=True)
class Node:
    """The rig at one time, with what was measured there and since the node before.

    Attributes:
        index: running number.
        time_ns: when.
        segment: of the IMU since the node before; None for the first.
        place: the believed fix.
        moved: the way since the node before in its axes (3,), and its standard deviation, by the odometry.
        standing: the vehicle stands.
        pose: the rig in ENU.
        velocity_m_s: ENU (3,).
        bias: of force and rate.
        slow: the translation from where fixes show the rig, but for white noise, to where it is.
    """

    index: int
    time_ns: int
    segment: Segment | None = None
    place: Place | None = None
    moved: tuple[Floats, float] | None = None
    standing: bool = False
    pose: gtsam.Pose3 = field(default_factory=gtsam.Pose3)
    velocity_m_s: Floats = field(default_factory=lambda: np.zeros(3))
    bias: gtsam.imuBias.ConstantBias = field(default_factory=gtsam.imuBias.ConstantBias)
    slow: gtsam.Pose3 = field(default_factory=gtsam.Pose3)

    @property
    def steady(self) -> int:
        """The second in which biases and the slow error of fixes are taken to be the same."""
        return self.time_ns // STEADY_NS


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of the first node from before.

    Attributes:
        factors: of it, and of the last offsets before it.
        shown: node with the last fix before.
        absorbed: the first node's own measurements are in it.
    """

    factors: gtsam.NonlinearFactorGraph
    shown: Node | None = None
    absorbed: bool = False

    def own(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Of consecutive nodes those whose measurements are not in it."""
        return nodes[1:] if self.absorbed else nodes


_KINDS = {kind: ord(kind) << 56 for kind in "xvbe"}


def key(kind: str, node: Node) -> int:
    """The key of a node's pose (x), velocity (v), bias (b) or ``slow`` (e)."""
    return _KINDS[kind] + (node.steady if kind in "be" else node.index)


_NOWHERE, _SAME, _ZERO = gtsam.Pose3(), gtsam.imuBias.ConstantBias(), np.zeros(3)
_UP = gtsam.Unit3(np.array((0.0, 0.0, 1.0)))
_Model = gtsam.noiseModel.Base
_ImuFactor: Any = gtsam.ImuFactor


@lru_cache(10_000)
def _model(*sigmas: float) -> _Model:
    return gtsam.noiseModel.Diagonal.Sigmas(np.array(sigmas))  # below 1e-8 it would be a constraint


@lru_cache(10_000)
def _robust(noise: _Model) -> _Model:
    return gtsam.noiseModel.Robust.Create(gtsam.noiseModel.mEstimator.Huber.Create(HUBER), noise)


def rough(
    node: Node,
    *,
    place_m: float,
    tilt_rad: float = LEANING_RAD,
    heading_rad: float = ANY_RAD,
    known_bias: bool = False,
) -> Prior:
    """A prior around the present estimate of a node, for where nothing better is known."""
    turned = node.pose.rotation().matrix()
    covariance = np.eye(6) * place_m**2
    covariance[:3, :3] = turned.T @ np.diag(np.square((tilt_rad, tilt_rad, heading_rad))) @ turned
    share, speed_m_s = (0.1, 3.0) if known_bias else (1.0, min(FAST_M_S, place_m))
    biases = _model(*share * np.repeat((FORCE_BIAS_M_S2, GYRO_BIAS_RAD_S), 3))
    graph = gtsam.NonlinearFactorGraph()
    place = gtsam.noiseModel.Gaussian.Covariance(covariance)
    graph.add(gtsam.PriorFactorPose3(key("x", node), node.pose, place))
    graph.add(gtsam.PriorFactorVector(key("v", node), node.velocity_m_s, _model(*[speed_m_s] * 3)))
    graph.add(gtsam.PriorFactorConstantBias(key("b", node), node.bias if known_bias else _SAME, biases))
    return Prior(graph)


def _lasting(nodes: Sequence[Node], prior: Prior) -> gtsam.NonlinearFactorGraph:
    """The factors that are the same wherever consecutive nodes are taken to be, but for fixes' slow error."""
    graph = gtsam.NonlinearFactorGraph(prior.factors)
    placed = prior.shown is not None or any(node.place is not None for node in nodes)
    bound = _model(*[(5 if placed else 1) * FAST_M_S] * 3)
    for before, node in pairwise(nodes):
        _move(graph, before, node, bound)
    for node in prior.own(nodes):
        if node.standing:
            _stand(graph, node)
    return graph


def _led(
    lasting: gtsam.NonlinearFactorGraph, nodes: Sequence[Node], prior: Prior, *, rolls: bool
) -> gtsam.NonlinearFactorGraph:
    """With fixes, which need the rotations so far, and with rolling, which needs the speeds."""
    graph = gtsam.NonlinearFactorGraph(lasting)
    for node in prior.own(nodes):
        if node.place is not None:
            # Its rotation is told by nobody: the present one leaves no residual, and places the antenna.
            turned_here = node.pose.rotation()
            arm_m = turned_here.matrix() @ node.place.antenna_m
            seen = gtsam.Pose3(turned_here, node.place.position_m - arm_m)
            white = _robust(_model(LOOSE, LOOSE, LOOSE, *node.place.white_m.tolist()))
            graph.add(gtsam.BetweenFactorPose3(key("e", node), key("x", node), seen, white))
    for before, node in pairwise(nodes if rolls else ()):
        segment = node.segment
        # What moves but feels nothing is carried.
        if segment is None or segment.quiet:
            continue
        dt = max(segment.dt_s, 1e-3)
        speed = math.hypot(*node.velocity_m_s.tolist())
        rate = math.hypot(*segment.rate_rad_s.tolist()) if segment.turns else 0.0
        across = dt * (SLIP_M_S + SLIP * speed + SLIP_ARM_M * rate + 0.05 * speed * dt)
        upward = dt * (RISE_M_S + RISE * speed)
        # The logarithm of a motion with constant turn and speed points straight ahead: no approximation.
        # In 5 % steps of a metre, as few models do.
        aside, up = (math.exp(round(20 * math.log(each)) / 20) for each in (across, upward))
        noise = _robust(_model(LOOSE, LOOSE, LOOSE, LOOSE, aside, up))
        graph.add(gtsam.BetweenFactorPose3(key("x", before), key("x", node), _NOWHERE, noise))
    return graph


def _move(graph: gtsam.NonlinearFactorGraph, before: Node, node: Node, bound: _Model) -> None:
    """What was measured and is known of the way from a node to the next, whose velocity has a bound."""
    segment = node.segment
    if segment is None:
        raise ValueError("only the first node has no segment")
    dt = max(segment.dt_s, 1e-3)
    poses = key("x", before), key("x", node)
    if before.steady != node.steady:
        force, rate = (walk * math.sqrt(max(dt, STEADY_NS / 1e9)) for walk in (FORCE_WALK, GYRO_WALK))
        walk = _model(*[force] * 3, *[rate] * 3)
        graph.add(gtsam.BetweenFactorConstantBias(key("b", before), key("b", node), _SAME, walk))
        graph.add(gtsam.PriorFactorVector(key("v", node), _ZERO, bound))
    velocities = key("v", before), key("v", node)
    ends = (poses[0], velocities[0], poses[1], velocities[1])
    graph.add(_ImuFactor(*ends, key("b", before), segment.measured))
    if not segment.feels:
        graph.add(gtsam.AttitudeFactorPose3(poses[1], _UP, _model(*[UPRIGHT_RAD] * 2), _UP))
    if node.moved is not None:
        way, sigma_m = node.moved
        noise = _robust(_model(*[LOOSE] * 3, *[sigma_m] * 3))
        graph.add(gtsam.BetweenFactorPose3(*poses, gtsam.Pose3(segment.measured.deltaRij(), way), noise))


def _wander(
    graph: gtsam.NonlinearFactorGraph,
    nodes: Sequence[Node],
    prior: Prior,
    *,
    ends: bool,
    sigma_m: Floats | None = None,
) -> int:
    """The slow error of fixes is an Ornstein-Uhlenbeck process; returns at how many times.

    ``ends``: no more nodes will follow. ``sigma_m``: its standard deviation (3,), if not what the fixes tell.
    """
    count, wander_m, shown = 0, np.ones(3), prior.shown
    for node in prior.own(nodes):
        if node.place is None or (shown is not None and shown.steady == node.steady):
            continue
        wander_m = node.place.wander_m if sigma_m is None else sigma_m
        if shown is None:
            first = _model(*[PINNED] * 3, *wander_m * END)
            graph.add(gtsam.PriorFactorPose3(key("e", node), _NOWHERE, first))
        else:
            _drift(graph, shown, node, wander_m)
        shown, count = node, count + 1
    if ends and shown is not None and shown.place is not None:
        last = _model(*[LOOSE] * 3, *(wander_m if count else shown.place.wander_m) * END)
        graph.add(gtsam.PriorFactorPose3(key("e", shown), _NOWHERE, last))
    return count


def _drift(graph: gtsam.NonlinearFactorGraph, before: Node, node: Node, wander_m: Floats) -> None:
    """The process from a fix to the next; its rotation is pinned.

    Its information matrix is that of the differences between neighbours, and a diagonal: a little at both
    sides of each difference, and at both ends half of the information that one value alone has.
    """
    # Never quite 0 or 1.
    kept = math.exp(-min(max((node.time_ns - before.time_ns) / 1e9 / WANDER_S, 1e-5), 10.0))
    near = _model(*[LOOSE] * 3, *wander_m * math.sqrt((1 - kept * kept) / kept))
    alone = _model(*[PINNED] * 3, *wander_m * math.sqrt(2 * (1 + kept) / (1 - kept)))
    graph.add(gtsam.BetweenFactorPose3(key("e", before), key("e", node), _NOWHERE, near))
    for each in (before, node):
        graph.add(gtsam.PriorFactorPose3(key("e", each), _NOWHERE, alone))


def _stand(graph: gtsam.NonlinearFactorGraph, node: Node) -> None:
    graph.add(gtsam.PriorFactorVector(key("v", node), _ZERO, _model(*[STILL_M_S] * 3)))
    if node.segment is not None and node.segment.turns:
        rate = gtsam.imuBias.ConstantBias(_ZERO, node.segment.rate_rad_s)
        still = _model(*[LOOSE] * 3, *[0.002] * 3)
        graph.add(gtsam.PriorFactorConstantBias(key("b", node), rate, still))


def _variables(nodes: Sequence[Node], prior: Prior) -> Iterator[tuple[str, Node]]:
    """What a graph has, in the order in which it is eliminated: as soon as nothing later depends on it."""
    open_ = {} if prior.shown is None else {"e": prior.shown}
    for node in nodes:
        for kind in "be" if node.place is not None else "b":
            before = open_.get(kind)
            if before is None or before.steady != node.steady:
                open_[kind] = node
                if before is not None:
                    yield kind, before
        yield "v", node
        yield "x", node
    yield from open_.items()


_FIELDS = {"x": "pose", "v": "velocity_m_s", "b": "bias", "e": "slow"}


class Optimum:
    """The optimum of a graph of consecutive nodes, which it writes into them.

    Args:
        nodes: with initial values; of them only attitude and bias matter, the rest is linear.
        prior: of the first.
        rolls: the vehicle moves only along its x axis.
        rounds: most iterations.
        far: attitudes may be far off: each round makes what depends on them anew with those so far.

    Attributes:
        nodes: those.
        rolls: as given.
        cost: half of the sum of squared whitened residuals, with the loss of outliers; not finite if there is
            no optimum.

    Raises:
        RuntimeError: GTSAM finds the graph undetermined: measurements contradict each other beyond all noise.
    """

    def __init__(
        self, nodes: Sequence[Node], prior: Prior, *, rolls: bool, rounds: int, far: bool = False
    ) -> None:
        self.nodes, self._prior, self.rolls = nodes, prior, rolls
        lasting = _lasting(nodes, prior)
        _wander(lasting, nodes, prior, ends=True)
        self._graph = _led(lasting, nodes, prior, rolls=rolls)
        self._values, self._order = gtsam.Values(), gtsam.Ordering()
        for kind, node in _variables(nodes, prior):
            self._values.insert(key(kind, node), getattr(node, _FIELDS[kind]))
            self._order.push_back(key(kind, node))
        self._tree: gtsam.GaussianBayesTree | None = None
        self.cost = self._error()
        for _ in range(rounds):
            self._tree = self._eliminated(self._graph.linearize(self._values))
            self._values = self._values.retract(self._tree.optimize())
            if far:
                # GTSAM's derivatives of a factor between poses hold where its rotation is what was measured,
                # and that of a fix has none of its own.
                self._write()
                self._graph = _led(lasting, nodes, prior, rolls=rolls)
            before, self.cost = self.cost, self._error()
            # Where nothing but accelerations shows a heading, it changes by much at hardly any cost.
            enough = 0.005 if far and not rolls else max(1e-3 * self.cost, 0.05)
            if self.cost == math.inf or abs(before - self.cost) < enough:
                break
        self._write()

    def free(self) -> Optimum:
        """The optimum of a copy of the nodes, which may move anywhere."""
        nodes = [replace(node) for node in self.nodes]
        return Optimum(nodes, self._prior, rolls=False, rounds=4, far=True)

    def _error(self) -> float:
        found = float(self._graph.error(self._values))
        return found if math.isfinite(found) else math.inf

    def _eliminated(self, linear: gtsam.GaussianFactorGraph) -> gtsam.GaussianBayesTree:
        """By Cholesky's method; by QR, which takes longer, where numbers differ too much for squares."""
        try:
            return linear.eliminateMultifrontal(self._order)
        except RuntimeError:
            return linear.eliminateMultifrontal(self._order, gtsam.EliminateQR)

    def _write(self) -> None:
        values = self._values
        for node in self.nodes:
            node.pose = values.atPose3(key("x", node))
            node.velocity_m_s = values.atVector(key("v", node))
            node.bias = values.atConstantBias(key("b", node))
            if node.place is not None:
                node.slow = values.atPose3(key("e", node))

    def sigmas(self, nodes: Sequence[Node]) -> Floats:
        """Standard deviations (n, 6): ENU metres, and radians about the rig's axes.

        They are found every two seconds, and change evenly in between.
        """
        told = [0]
        for index, node in enumerate(nodes):
            if index == len(nodes) - 1 or node.time_ns - nodes[told[-1]].time_ns >= 2_000_000_000:
                told.append(index)
        found = np.empty((len(told), 6))
        for row, index in zip(found, told, strict=True):
            covariance = self._covariance(key("x", nodes[index]))
            turned = nodes[index].pose.rotation().matrix()
            row[:3] = np.einsum("ij,jk,ik->i", turned, covariance[3:, 3:], turned)
            row[3:] = np.diagonal(covariance)[:3]
        found = np.sqrt(np.maximum(found, 0.0))
        times = np.array([node.time_ns - nodes[0].time_ns for node in nodes])
        return np.stack([np.interp(times, times[told], column) for column in found.T], axis=1)

    def moves(self, node: Node, since: Node | None = None) -> bool:
        """Whether the velocity of a node, or its change since another, cannot be zero as of what stands."""
        velocity = node.velocity_m_s if since is None else node.velocity_m_s - since.velocity_m_s
        if float(np.linalg.norm(velocity)) < 0.1:
            return False
        noise = self._covariance(*(key("v", each) for each in (node, since) if each is not None))
        if since is not None:
            change = np.hstack([np.eye(3), -np.eye(3)])
            noise = change @ noise @ change.T
        ratios = np.linalg.solve(noise + np.eye(3) * STILL_M_S**2, velocity)
        return float(velocity @ ratios) > MOVING_SIGMAS**2

    def _covariance(self, *keys: int) -> Floats:
        """Of variables, one after another; of a pose: rotation about, and position along the rig's axes.

        By QR, as the squares of numbers that differ so much may be singular.
        """
        if self._tree is None:
            self._tree = self._eliminated(self._graph.linearize(self._values))
        upper, _ = self._tree.jointBayesNet(keys, gtsam.EliminateQR).matrix()
        inverse = np.linalg.inv(upper)
        return np.asarray(inverse @ inverse.T)

    def heading_sigma_rad(self, node: Node) -> float:
        """Of a node's rotation about the vertical."""
        up = node.pose.rotation().matrix()[2]
        return math.sqrt(max(0.0, float(up @ self._covariance(key("x", node))[:3, :3] @ up)))

    def evidence(self, candidates: Sequence[Floats]) -> Iterator[float]:
        """How well slow errors of the fixes, standard deviations in metres (3,), explain them.

        Logarithms, by Laplace's approximation.
        """
        lasting = _lasting(self.nodes, self._prior)
        base = _led(lasting, self.nodes, self._prior, rolls=self.rolls).linearize(self._values)
        for sigma in candidates:
            slow = gtsam.NonlinearFactorGraph()
            count = _wander(slow, self.nodes, self._prior, ends=True, sigma_m=sigma)
            graph = gtsam.GaussianFactorGraph()
            graph.push_back(base)
            graph.push_back(slow.linearize(self._values))
            try:
                tree = graph.eliminateMultifrontal(self._order)
            except RuntimeError:
                return  # the numbers differ too much: it is far from what explains them
            scale = -count * float(np.log(sigma).sum())
            yield scale - tree.logDeterminant() - graph.error(tree.optimize())

    def prior_at(self, index: int) -> Prior:
        """What the nodes up to one, and their prior, tell of it."""
        past = self.nodes[: index + 1]
        last, before = past[-1], self._prior
        shown = next((node for node in reversed(past) if node.place is not None), before.shown)
        kept = {key(kind, last) for kind in "xvb"}
        kept |= set() if shown is None else {key("e", shown)}
        gone = gtsam.Ordering()
        for kind, node in _variables(past, before):
            if key(kind, node) not in kept:
                gone.push_back(key(kind, node))
        lasting = _lasting(past, before)
        _wander(lasting, past, before, ends=False)
        linear = _led(lasting, past, before, rolls=self.rolls).linearize(self._values)
        _, rest = linear.eliminatePartialSequential(gone, gtsam.EliminateQR)
        return Prior(gtsam.LinearContainerFactor.ConvertLinearGraph(rest, self._values), shown, True)
