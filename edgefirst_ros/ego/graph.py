"""The factor graph of docs/ego.md: which factors nodes have, and their optimum, through GTSAM."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Floats
from edgefirst_ros.ego.inertia import GYRO, Segment

ANY_RAD = math.pi / math.sqrt(3)
"""Standard deviation of an unknown heading."""
FAR_M, FAST_M_S = 1e3, 20.0
"""Of an unknown position and an unknown velocity. Velocities are bounded, far beyond it."""
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
TILT_RAD, TILT_S = math.radians(1.0), 20.0
"""An AHRS's roll and pitch, and how long such an error stays: it takes accelerations for gravity."""
NORTH_RAD = math.radians(30)
"""Its north at first: magnetic, beside iron, or mounted a little turned; one that is any is found, too."""
NORTH_WALK = math.radians(0.25)
"""Drift of an AHRS's north, rad/√s: magnets along the road."""
READING_RAD = math.radians(0.4)
"""Noise of an AHRS from one reading to the next."""
STEADY_NS = 1_000_000_000
"""Biases are taken to be the same for so long: they drift over minutes."""
KNOT_NS = 2_000_000_000
"""Distance of the readings that are used: the gyroscope tells how it turned in between."""
SLIP_M_S, SLIP, SLIP_ARM_M = 0.08, 0.02, 1.5
"""Motion across the direction of travel, m/s and share of the speed; the arm, times the rate, is added."""
RISE_M_S, RISE = 0.15, 0.04
"""Motion upwards likewise: springs let the nose dip by two degrees."""
STILL_M_S, STILL_RAD_S = 0.03, 0.002
"""Speed and angular rate of a vehicle that stands."""
UPRIGHT_RAD = math.radians(10)
"""Roll and pitch without an accelerometer; it stays for seconds, so each node tells less than the true 3°."""
END = math.sqrt(2)
"""Half of a process's information is at its beginning, half at its end."""
LOOSE = 1e4
"""Standard deviation of what a factor does not tell."""


@dataclass(frozen=True, slots=True)
class Place:
    """A believed fix: ENU metres (3,), and standard deviations of its white noise and slow error (3,)."""

    position_m: Floats
    white_m: Floats
    wander_m: Floats


@dataclass(slots=True)
class Node:
    """The rig at one time, with what was measured there and since the node before.

    Attributes:
        index: running number.
        time_ns: when.
        steady: the node from which on biases are taken to be the same, by its number; None: this one.
        segment: of the IMU since the node before; None for the first.
        begins_again: fixes disproved the motion up to here: position and velocity are taken as unknown.
        place: the believed fix.
        orientation: of the AHRS, to ENU by its north, where it is used.
        moved: the way since the node before in its axes (3,), and its standard deviation, by the odometry.
        standing: the vehicle stands.
        pose: the rig in ENU.
        velocity_m_s: ENU (3,).
        bias: of force and rate.
        shown_m: where the receiver would have seen it without white noise (3,).
        north: T_enu_ahrs, without translation.
    """

    index: int
    time_ns: int
    steady: int | None = None
    segment: Segment | None = None
    begins_again: bool = False
    place: Place | None = None
    orientation: gtsam.Rot3 | None = None
    moved: tuple[Floats, float] | None = None
    standing: bool = False
    pose: gtsam.Pose3 = field(default_factory=gtsam.Pose3)
    velocity_m_s: Floats = field(default_factory=lambda: np.zeros(3))
    bias: gtsam.imuBias.ConstantBias = field(default_factory=gtsam.imuBias.ConstantBias)
    shown_m: Floats | None = None
    north: gtsam.Pose3 | None = None

    def __deepcopy__(self, _: object) -> Node:
        return replace(self)  # what it holds is replaced, never changed


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of the first node from before.

    Attributes:
        factors: of it, and of the last offsets before it.
        shown: node with the last fix before.
        turned: node with the last reading of the AHRS before.
        absorbed: the first node's own measurements are in it.
    """

    factors: gtsam.NonlinearFactorGraph
    shown: Node | None = None
    turned: Node | None = None
    absorbed: bool = False

    def __deepcopy__(self, memo: dict[int, object]) -> Prior:
        shown, turned = copy.deepcopy(self.shown, memo), copy.deepcopy(self.turned, memo)
        return replace(self, shown=shown, turned=turned)


@dataclass(frozen=True, slots=True)
class Rolling:
    """How the vehicle moves: only along ``travel``.

    Attributes:
        travel: directions forward, left and up in the rig's axes, as columns (3, 3); None: anywhere.
    """

    travel: Floats | None


def key(kind: str, node: Node) -> int:
    """The key of a node's pose (x), velocity (v), bias (b), ``shown_m`` (q) or ``north`` (o)."""
    return int(gtsam.symbol(kind, node.index if kind != "b" or node.steady is None else node.steady))


_ANTENNA = int(gtsam.symbol("l", 0))
_NOWHERE, _SAME, _ZERO = gtsam.Pose3(), gtsam.imuBias.ConstantBias(), np.zeros(3)
_PRIORS: dict[str, Any] = {
    "x": gtsam.PriorFactorPose3,
    "v": gtsam.PriorFactorVector,
    "b": gtsam.PriorFactorConstantBias,
    "q": gtsam.PriorFactorPoint3,
    "o": gtsam.PriorFactorPose3,
}
_BETWEEN: dict[str, Any] = {
    "x": gtsam.BetweenFactorPose3,
    "b": gtsam.BetweenFactorConstantBias,
    "q": gtsam.BetweenFactorPoint3,
    "o": gtsam.BetweenFactorPose3,
}
_Noise = gtsam.noiseModel.Base | Sequence[float] | Floats
"""Standard deviations of what is independent, or any."""


def _model(noise: _Noise) -> gtsam.noiseModel.Base:
    if isinstance(noise, gtsam.noiseModel.Base):
        return noise
    return _diagonal(tuple(noise))


@lru_cache(1000)
def _diagonal(sigmas: tuple[float, ...]) -> gtsam.noiseModel.Base:
    return gtsam.noiseModel.Diagonal.Sigmas(np.array(sigmas))


def _robust(noise: gtsam.noiseModel.Base) -> gtsam.noiseModel.Base:
    return gtsam.noiseModel.Robust.Create(gtsam.noiseModel.mEstimator.Huber.Create(HUBER), noise)


def _know(graph: gtsam.NonlinearFactorGraph, kind: str, node: Node, value: object, noise: _Noise) -> None:
    """A node's variable is a value."""
    graph.add(_PRIORS[kind](key(kind, node), value, _model(noise)))


def _tie(
    graph: gtsam.NonlinearFactorGraph, kind: str, ends: tuple[Node, Node], moved: object, noise: _Noise
) -> None:
    """A node's variable differs from that of a node before by a value."""
    graph.add(_BETWEEN[kind](*(key(kind, node) for node in ends), moved, _model(noise)))


def rough(
    node: Node, *, tilt_rad: float, heading_rad: float, place_m: float, known_bias: bool = False
) -> Prior:
    """A prior around the present estimate of a node, for where nothing better is known."""
    turned = node.pose.rotation().matrix()
    covariance = np.eye(6) * place_m**2
    covariance[:3, :3] = turned.T @ np.diag(np.square((tilt_rad, tilt_rad, heading_rad))) @ turned
    share, speed_m_s = (0.1, 3.0) if known_bias else (1.0, min(FAST_M_S, place_m))
    graph = gtsam.NonlinearFactorGraph()
    _know(graph, "x", node, node.pose, gtsam.noiseModel.Gaussian.Covariance(covariance))
    _know(graph, "v", node, node.velocity_m_s, [speed_m_s] * 3)
    _know(graph, "b", node, node.bias, share * np.repeat((FORCE_BIAS_M_S2, GYRO_BIAS_RAD_S), 3))
    return Prior(graph)


def factors(
    nodes: Sequence[Node], prior: Prior, rolling: Rolling, *, ends: bool, slow: bool = True
) -> gtsam.NonlinearFactorGraph:
    """The graph of consecutive nodes.

    Args:
        nodes: in order.
        prior: of the first.
        rolling: how the vehicle moves.
        ends: no more will follow them in it.
        slow: with the slow error of fixes.
    """
    graph = gtsam.NonlinearFactorGraph(prior.factors)
    turned = prior.turned
    placed = prior.shown is not None or any(node.place is not None for node in nodes)
    bound = _model([(5 if placed else 1) * FAST_M_S] * 3)
    graph.add(gtsam.PriorFactorPoint3(_ANTENNA, _ZERO, _model([1e-3] * 3)))
    before: Node | None = None
    for node in nodes:
        if before is not None:
            _move(graph, before, node, rolling, bound)
        if before is not None or not prior.absorbed:
            if node.place is not None:
                _locate(graph, node, node.place)
            if node.orientation is not None:
                _orient(graph, node, node.orientation, turned)
            if node.standing:
                _stand(graph, node)
        if node.orientation is not None:
            turned = node
        before = node
    if slow:
        _wander(graph, nodes[1:] if prior.absorbed else nodes, prior.shown, ends=ends)
    if ends and turned is not None:
        _know(graph, "o", turned, _NOWHERE, [TILT_RAD * END] * 2 + [LOOSE] * 4)
    return graph


def _move(
    graph: gtsam.NonlinearFactorGraph,
    before: Node,
    node: Node,
    rolling: Rolling,
    bound: gtsam.noiseModel.Base,
) -> None:
    """What was measured and is known of the way from a node to the next, whose velocity has a bound."""
    segment = node.segment
    if segment is None:
        raise ValueError("only the first node has no segment")
    dt = max(segment.dt_s, 1e-3)
    if key("b", before) != key("b", node):
        walk = np.array((FORCE_WALK, GYRO_WALK)) * math.sqrt(max(dt, STEADY_NS / 1e9))
        if node.begins_again:
            walk += (0.1 * FORCE_BIAS_M_S2, 1e-4)
        _tie(graph, "b", (before, node), _SAME, np.repeat(walk, 3))
        _know(graph, "v", node, _ZERO, bound)
    if node.begins_again:
        turned = gtsam.Pose3(segment.measured.deltaRij(), _ZERO)
        _tie(graph, "x", (before, node), turned, [GYRO * math.sqrt(dt) + 0.05 * dt] * 3 + [LOOSE] * 3)
        _know(graph, "v", node, _ZERO, [FAST_M_S] * 3)
        return
    ends = zip("xvxvb", (before, before, node, node, before), strict=True)
    factor: Any = gtsam.ImuFactor
    graph.add(factor(*(key(kind, each) for kind, each in ends), segment.measured))
    if not segment.feels:
        up = gtsam.Unit3(np.array((0.0, 0.0, 1.0)))
        graph.add(gtsam.AttitudeFactorPose3(key("x", node), up, _model([UPRIGHT_RAD] * 2), up))
    if node.moved is not None:
        way, sigma_m = node.moved
        noise = _robust(_model([LOOSE] * 3 + [sigma_m] * 3))
        _tie(graph, "x", (before, node), gtsam.Pose3(segment.measured.deltaRij(), way), noise)
    if rolling.travel is not None and not segment.quiet:  # what moves but feels nothing is carried
        speed = math.hypot(*node.velocity_m_s.tolist())
        rate = float(np.linalg.norm(segment.rate_rad_s)) if segment.turns else 0.0
        across = dt * (SLIP_M_S + SLIP * speed + SLIP_ARM_M * rate + 0.05 * speed * dt)
        upward = dt * (RISE_M_S + RISE * speed)
        axes = np.zeros((6, 6))
        axes[3:, 3:] = rolling.travel.T / np.array((LOOSE, across, upward))[:, None]
        axes[:3, :3] = np.eye(3) / LOOSE
        # The logarithm of a motion with constant turn and speed points straight ahead: no approximation.
        rolls = gtsam.noiseModel.Gaussian.SqrtInformation(axes, smart=False)
        _tie(graph, "x", (before, node), _NOWHERE, _robust(rolls))


def _locate(graph: gtsam.NonlinearFactorGraph, node: Node, place: Place) -> None:
    """A fix is the place of the antenna, plus white noise, plus a slow error."""
    white = _robust(_model(place.white_m))
    graph.add(gtsam.ReferenceFrameFactorPoint3Pose3(_ANTENNA, key("x", node), key("q", node), white))


def _wander(
    graph: gtsam.NonlinearFactorGraph, nodes: Iterable[Node], shown: Node | None, *, ends: bool
) -> float:
    """The slow error of fixes is an Ornstein-Uhlenbeck process; returns the logarithm of its density's scale.

    Its information matrix is that of the differences between neighbours, and a diagonal: a little at both
    sides of each difference, and at both ends half of the information that one value alone has.
    """
    scale = 0.0
    for node in nodes:
        place = node.place
        if place is None:
            continue
        scale -= float(np.log(place.wander_m).sum())
        if shown is None or shown.place is None:
            _know(graph, "q", node, place.position_m, place.wander_m * END)
        else:
            kept = _kept(shown, node, WANDER_S)
            moved = place.position_m - shown.place.position_m
            _tie(graph, "q", (shown, node), moved, place.wander_m * math.sqrt((1 - kept * kept) / kept))
            alone = _model(place.wander_m * math.sqrt(2 * (1 + kept) / (1 - kept)))
            _know(graph, "q", shown, shown.place.position_m, alone)
            _know(graph, "q", node, place.position_m, alone)
        shown = node
    if ends and shown is not None and shown.place is not None:
        _know(graph, "q", shown, shown.place.position_m, shown.place.wander_m * END)
    return scale


def _kept(before: Node, node: Node, constant_s: float) -> float:
    """The correlation of a slow error's values at two nodes; never quite 0 or 1."""
    apart_s = (node.time_ns - before.time_ns) / 1e9
    return math.exp(-min(max(apart_s / constant_s, 1e-5), 10.0))


def _orient(graph: gtsam.NonlinearFactorGraph, node: Node, reading: gtsam.Rot3, turned: Node | None) -> None:
    """An AHRS shows the rotation in a frame that is tilted a little and turned by any angle, both slowly."""
    shown = gtsam.Pose3(reading, _ZERO)
    read = _model([READING_RAD] * 3 + [LOOSE * LOOSE] * 3)
    graph.add(gtsam.BetweenFactorPose3(key("o", node), key("x", node), shown, read))
    nowhere = [1e-3] * 3
    if turned is None:
        _know(graph, "o", node, _NOWHERE, [*[TILT_RAD * END] * 2, NORTH_RAD, *nowhere])
        return
    dt = (node.time_ns - turned.time_ns) / 1e9
    kept = _kept(turned, node, TILT_S)
    tilts = [TILT_RAD * math.sqrt((1 - kept * kept) / kept)] * 2
    _tie(graph, "o", (turned, node), _NOWHERE, [*tilts, NORTH_WALK * math.sqrt(dt), *nowhere])
    alone = [TILT_RAD * math.sqrt(2 * (1 + kept) / (1 - kept))] * 2
    for each in (turned, node):
        _know(graph, "o", each, _NOWHERE, [*alone, LOOSE, *nowhere])


def _stand(graph: gtsam.NonlinearFactorGraph, node: Node) -> None:
    _know(graph, "v", node, _ZERO, [STILL_M_S] * 3)
    if node.segment is not None and node.segment.turns:
        rate = gtsam.imuBias.ConstantBias(_ZERO, node.segment.rate_rad_s)
        _know(graph, "b", node, rate, np.repeat((LOOSE, STILL_RAD_S), 3))


def _entries(nodes: Sequence[Node], prior: Prior) -> Iterator[tuple[Node, bool, bool, bool]]:
    """Nodes with which of their variables are in a graph: the state, the fix's, and the AHRS's."""
    for old in {id(each): each for each in (prior.shown, prior.turned) if each is not None}.values():
        if not nodes or old is not nodes[0]:
            yield old, False, old is prior.shown, old is prior.turned
    for node in nodes:
        yield node, True, node.place is not None, node.orientation is not None


class Optimum:
    """The optimum of a graph of consecutive nodes, which it writes into them.

    Args:
        nodes: with initial values; of them only attitude and bias matter, the rest is linear.
        prior: of the first.
        rolling: how the vehicle moves.
        rounds: most iterations.
        damped: use Levenberg and Marquardt's method, for attitudes that may be far off.

    Attributes:
        cost: half of the sum of squared whitened residuals, with the loss of outliers; not finite if there is
            no optimum.

    Raises:
        RuntimeError: GTSAM finds the graph undetermined: measurements contradict each other beyond all noise.
    """

    def __init__(
        self, nodes: Sequence[Node], prior: Prior, rolling: Rolling, *, rounds: int, damped: bool = False
    ) -> None:
        self.nodes, self._prior, self._rolling = nodes, prior, rolling
        self._graph = factors(nodes, prior, rolling, ends=True)
        values, order = gtsam.Values(), gtsam.Ordering()
        bias: int | None = None
        for node, moves, shows, turns in _entries(nodes, prior):
            shown = node.pose.translation() if node.shown_m is None else node.shown_m
            begins: list[tuple[str, Any]] = [("o", node.north or _NOWHERE)] if turns else []
            begins += [("q", shown)] if shows else []
            begins += [("v", node.velocity_m_s), ("x", node.pose)] if moves else []
            if moves and key("b", node) != bias:
                if bias is not None:
                    order.push_back(bias)
                bias = key("b", node)
                values.insert(bias, node.bias)
            for kind, value in begins:
                values.insert(key(kind, node), value)
                order.push_back(key(kind, node))
        if bias is not None:
            order.push_back(bias)
        values.insert(_ANTENNA, _ZERO)
        order.push_back(_ANTENNA)
        self._order = order
        self._values = self._damped(values, rounds) if damped else self._descended(values, rounds)
        self.cost = float(self._graph.error(self._values))

    def _damped(self, values: gtsam.Values, rounds: int) -> gtsam.Values:
        parameters = gtsam.LevenbergMarquardtParams()
        parameters.setMaxIterations(rounds)
        parameters.setOrdering(self._order)
        parameters.setLinearSolverType("MULTIFRONTAL_QR")
        parameters.setRelativeErrorTol(1e-3)
        return gtsam.LevenbergMarquardtOptimizer(self._graph, values, parameters).optimize()

    def _descended(self, values: gtsam.Values, rounds: int) -> gtsam.Values:
        cost = math.inf
        for _ in range(rounds):
            values = values.retract(self._eliminated(values).optimize())
            before, cost = cost, self._graph.error(values)
            if abs(before - cost) < max(1e-4 * cost, 1e-2):
                break
        return values

    def _eliminated(self, values: gtsam.Values) -> gtsam.GaussianBayesTree:
        """By QR, since a steady bias and a position unknown by kilometres are 14 digits apart, squared."""
        return self._graph.linearize(values).eliminateMultifrontal(self._order, gtsam.EliminateQR)

    def kept(self) -> Sequence[Node]:
        """The nodes, with it written into them."""
        values = self._values
        for node, moves, shows, turns in _entries(self.nodes, self._prior):
            if moves:
                node.pose = values.atPose3(key("x", node))
                node.velocity_m_s = values.atVector(key("v", node))
                node.bias = values.atConstantBias(key("b", node))
            if shows:
                node.shown_m = values.atPoint3(key("q", node))
            if turns:
                node.north = values.atPose3(key("o", node))
        return self.nodes

    def pose(self, node: Node) -> gtsam.Pose3:
        """A node's pose."""
        return self._values.atPose3(key("x", node))

    def sigmas(self, nodes: Sequence[Node]) -> Floats:
        """Standard deviations (n, 6): ENU metres, and radians about the rig's axes."""
        covariances = self._covariances(nodes)
        turned = np.array([self._values.atPose3(key("x", node)).rotation().matrix() for node in nodes])
        places = np.einsum("nij,njk,nik->ni", turned, covariances[:, 3:, 3:], turned)
        turns = np.einsum("nii->ni", covariances[:, :3, :3])
        sigmas: Floats = np.sqrt(np.maximum(np.concatenate([places, turns], axis=1), 0.0))
        return sigmas

    def _covariances(self, nodes: Sequence[Node]) -> Floats:
        """Of the poses of nodes (n, 6, 6): rotation about, and position along the rig's axes."""
        tree = self._eliminated(self._values)
        found = np.empty((len(nodes), 6, 6))
        failed: list[int] = []
        for index, node in enumerate(nodes):
            try:
                found[index] = tree.marginalCovariance(key("x", node))
            except RuntimeError:
                failed.append(index)
        for index, covariance in zip(failed, self._slow_covariances([nodes[i] for i in failed]), strict=True):
            found[index] = covariance
        return found

    def _slow_covariances(self, nodes: Sequence[Node]) -> Iterator[Floats]:
        """Likewise, where GTSAM's way, which squares, finds a matrix singular that is not.

        With JᵀJ = RᵀR, the covariance of some variables is that of the columns of R⁻ᵀ that are theirs.
        """
        if not nodes:
            return
        net = self._graph.linearize(self._values).eliminateSequential(self._order, gtsam.EliminateQR)
        solution = net.optimize()
        for node in nodes:
            columns = []
            for axis in np.eye(6):
                unit, part = gtsam.VectorValues.Zero(solution), gtsam.VectorValues()
                part.insert(key("x", node), axis)
                unit.update(part)
                columns.append(net.backSubstituteTranspose(unit))
            yield np.array([[one.dot(other) for other in columns] for one in columns])

    def heading_sigma_rad(self, node: Node) -> float:
        """Of a node's rotation about the vertical."""
        covariance = self._covariances([node])[0, :3, :3]
        up = self._values.atPose3(key("x", node)).rotation().matrix()[2]
        return math.sqrt(max(0.0, float(up @ covariance @ up)))

    def evidence(self, candidates: Sequence[Floats]) -> Iterator[float]:
        """How well slow errors of the fixes, standard deviations in metres (3,), explain them.

        Logarithms, by Laplace's approximation.
        """
        base = factors(self.nodes, self._prior, self._rolling, ends=True, slow=False).linearize(self._values)
        places = self.nodes[1:] if self._prior.absorbed else self.nodes
        for sigma in candidates:
            tried = [
                n if n.place is None else replace(n, place=replace(n.place, wander_m=sigma)) for n in places
            ]
            slow = gtsam.NonlinearFactorGraph()
            scale = _wander(slow, tried, self._prior.shown, ends=True)
            graph = gtsam.GaussianFactorGraph()
            graph.push_back(base)
            graph.push_back(slow.linearize(self._values))
            net = graph.eliminateSequential(self._order, gtsam.EliminateQR)
            # GTSAM's own logarithm of the determinant is NaN where QR leaves a negative sign.
            diagonal = np.concatenate([np.diagonal(net.at(index).R()) for index in range(net.size())])
            root = float(np.log(np.abs(diagonal)).sum())
            yield scale - root - graph.error(net.optimize())

    def forward_m_s(self, ahead: Floats) -> float:
        """The mean speed along a direction in the rig's axes (3,)."""
        values = self._values
        turns = [values.atPose3(key("x", node)).rotation().matrix() for node in self.nodes]
        speeds = [
            turn @ ahead @ values.atVector(key("v", n)) for turn, n in zip(turns, self.nodes, strict=True)
        ]
        return float(np.mean(speeds))

    def prior_at(self, index: int) -> Prior:
        """What the nodes up to one, and their prior, tell of it."""
        past = self.nodes[: index + 1]
        last = past[-1]
        shown, turned = self._prior.shown, self._prior.turned
        for node in past:
            shown = node if node.place is not None else shown
            turned = node if node.orientation is not None else turned
        kept = {key("x", last), key("v", last), key("b", last), _ANTENNA}
        kept |= {key("q", shown)} if shown is not None else set()
        kept |= {key("o", turned)} if turned is not None else set()
        graph = factors(past, self._prior, self._rolling, ends=False)
        gone = gtsam.Ordering()
        present = set(graph.keyVector())
        for position in range(self._order.size()):
            each = self._order.at(position)
            if each in present and each not in kept:
                gone.push_back(each)
        _, rest = graph.linearize(self._values).eliminatePartialSequential(gone, gtsam.EliminateQR)
        return Prior(gtsam.LinearContainerFactor.ConvertLinearGraph(rest, self._values), shown, turned, True)
