"""How the motion begins: tilt from the forces, and a heading once the way is long enough to show one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import gtsam
import numpy as np

from edgefirst_ros.ego.geometry import Floats
from edgefirst_ros.ego.graph import Node, Optimum, rough

WAY_M, WAY_SIGMAS, NEAR_M, NEAR_SIGMAS = 6.0, 8.0, 1.5, 60.0
"""A heading is asked for once the rig is this far from where it began, and this many deviations of a fix.
Good fixes show it sooner: after so many deviations, but not before the second way."""
AROUND_NS = 10_000_000_000
"""Looked at before and after that time: a gyroscope turns by less than 5° of its bias meanwhile. After it
four times as long of what moves sideways: only accelerations show its heading."""
HEADINGS = 3
"""Hypotheses, all around: from 60° off the descent finds the optimum."""
ROUNDS = 10
SURE_RAD = math.radians(25)
"""A heading less certain than this is none yet; after a short way it must be surer: more will tell."""
COURSE_S, COURSE_M = 1.5, 1.0
"""Fixes show a course by the way from this long before to this long after, beyond their noise."""
BACKWARDS_M_S = 2.5
"""No vehicle goes backwards so fast for so long: what looks so is mounted the other way round."""
WRONG = 15.0
"""More than this for each node no true heading costs, even with fixes that are refused later; a third of it
if the vehicle may move anywhere."""


def level(force_m_s2: Floats) -> gtsam.Rot3:
    """The rotation to ENU, heading zero, of a rig at rest that feels a force (3,)."""
    x, y, z = force_m_s2.tolist()
    return gtsam.Rot3.RzRyRx(math.atan2(y, z), math.atan2(-x, math.hypot(y, z)), 0.0)


def upright(nodes: Sequence[Node]) -> None:
    """Give nodes rotations with any heading: by the gyroscope, with the first's bias, and the mean force.

    Over some time a vehicle hardly gets faster.
    """
    nodes[0].pose = gtsam.Pose3()
    carry(nodes, 0)
    felt = np.zeros(3)
    for before, node in pairwise(nodes):
        if node.segment is not None and node.segment.feels:
            # Its axes are those of the node before.
            felt += before.pose.rotation().matrix() @ node.segment.measured.deltaVij()
    nodes[0].pose = gtsam.Pose3(level(felt), np.zeros(3))
    carry(nodes, 0)


def carry(nodes: Sequence[Node], known: int) -> None:
    """Carry the rotation of one node forwards and backwards to the others by the gyroscope."""
    bias = nodes[known].bias
    for index in range(known + 1, len(nodes)):
        _turn(nodes[index], nodes[index - 1].pose.rotation().compose(_turned(nodes[index], bias)), bias)
    for index in range(known - 1, -1, -1):
        after = nodes[index + 1]
        _turn(nodes[index], after.pose.rotation().compose(_turned(after, bias).inverse()), bias)


def _turned(node: Node, bias: gtsam.imuBias.ConstantBias) -> gtsam.Rot3:
    if node.segment is None:
        return gtsam.Rot3()
    correction = gtsam.Rot3.Expmap(-bias.gyroscope() * node.segment.dt_s)
    return node.segment.measured.deltaRij().compose(correction)


def _turn(node: Node, rotation: gtsam.Rot3, bias: gtsam.imuBias.ConstantBias) -> None:
    node.pose, node.bias = gtsam.Pose3(rotation, node.pose.translation()), bias


def _shown(nodes: Sequence[Node]) -> tuple[Floats, Floats, Floats]:
    """Seconds of nodes (n,), and of those with fixes (m,), and the places of these (m, 3)."""
    times_s = np.array([node.time_ns - nodes[0].time_ns for node in nodes]) / 1e9
    having = [node.place is not None for node in nodes]
    places = np.array([node.place.position_m for node in nodes if node.place is not None]).reshape(-1, 3)
    return times_s, times_s[having], places


def _at(wanted_s: Floats, times_s: Floats, places_m: Floats) -> Floats:
    return np.stack([np.interp(wanted_s, times_s, places) for places in places_m.T], axis=1)


def placed(nodes: Sequence[Node], most_gap_s: float = 3.0) -> None:
    """Start positions where fixes are around: what is linear needs no better ones."""
    if not nodes:
        return
    wanted_s, times_s, places = _shown(nodes)
    if len(times_s) < 2:
        return
    after = np.clip(np.searchsorted(times_s, wanted_s), 1, len(times_s) - 1)
    near = np.minimum(np.abs(wanted_s - times_s[after - 1]), np.abs(times_s[after] - wanted_s)) < most_gap_s
    for node, is_near, place in zip(nodes, near.tolist(), _at(wanted_s, times_s, places), strict=True):
        if is_near:
            arm = next(each.place.antenna_m for each in nodes if each.place is not None)
            rotation = node.pose.rotation()
            node.pose = gtsam.Pose3(rotation, place - rotation.matrix() @ arm)


def headed(nodes: Sequence[Node]) -> None:
    """Without a gyroscope rotations start in the direction of the fixes: forwards, and level."""
    blind = [node.segment is not None and not node.segment.turns for node in nodes]
    if not any(blind):
        return
    blind[0] = nodes[0].segment is None or blind[0]
    wanted_s, times_s, places = _shown(nodes)
    if len(times_s) < 2:
        return
    ways = np.subtract(*(_at(wanted_s + side * COURSE_S, times_s, places) for side in (1, -1)))
    noise = next(float(node.place.white_m[0]) for node in nodes if node.place is not None)
    known = np.flatnonzero((np.hypot(ways[:, 0], ways[:, 1]) > COURSE_M + 3 * noise) & blind)
    if len(known):
        # Where it stands it points as before, and before it first moves as then.
        last = known[np.maximum(np.searchsorted(known, np.arange(len(nodes)), "right") - 1, 0)]
        for node, is_blind, (east, north, _) in zip(nodes, blind, ways[last].tolist(), strict=True):
            if is_blind:
                node.pose = gtsam.Pose3(gtsam.Rot3.Rz(math.atan2(north, east)), node.pose.translation())


def long_way(nodes: Sequence[Node]) -> int | None:
    """Index of the first node whose fix is far from the first fix; None if there is none."""
    having = [(index, node.place) for index, node in enumerate(nodes) if node.place is not None]
    if len(having) < 3:
        return None
    places = np.array([place.position_m[:2] for _, place in having])
    white_m = float(having[0][1].white_m[0])
    way_m = max(NEAR_M, WAY_SIGMAS * white_m, min(WAY_M, NEAR_SIGMAS * white_m))
    far = np.linalg.norm(places - np.median(places[:5], axis=0), axis=1) > way_m
    both = far[1:] & far[:-1]
    return having[int(both.argmax()) + 1][0] if both.any() else None


def begin(nodes: Sequence[Node], *, rolls: bool) -> bool | None:
    """Find the heading, and give every node its rotation.

    Args:
        nodes: all so far, with fixes.
        rolls: the vehicle may move only along its x axis.

    Returns:
        Whether the vehicle rolls; None if the way does not show the heading yet.
    """
    far = long_way(nodes)
    if far is None:
        return None
    start_ns, end_ns = (nodes[far].time_ns + AROUND_NS * times for times in (-1, 1 if rolls else 4))
    first = next(index for index, node in enumerate(nodes) if node.time_ns >= start_ns)
    several = [replace(node) for node in nodes[first:] if node.time_ns <= end_ns]
    upright(several)
    placed(several)
    headed(several)
    turning = any(node.segment is not None and node.segment.turns for node in several)
    best = _best([_hypothesis(several, turn, rolls=rolls) for turn in range(HEADINGS if turning else 1)])
    if not rolls_so(best, -1.0):
        free = _best([_hypothesis(several, turn, rolls=False) for turn in range(HEADINGS)])
        if best.cost - free.cost > _bearable(best):  # unless fixes contradict each other
            return None if 3 * free.cost > WRONG * len(several) else begin(nodes, rolls=False)
    way = best.nodes[far - first].pose.translation() - best.nodes[0].pose.translation()
    sure_rad = SURE_RAD * min(1.0, float(np.linalg.norm(way)) / WAY_M) ** 2
    if not best.cost <= WRONG * len(several) or best.heading_sigma_rad(best.nodes[-1]) > sure_rad:
        return None
    for node, found in zip(nodes[first:], best.nodes, strict=False):
        node.pose, node.velocity_m_s, node.bias = found.pose, found.velocity_m_s, found.bias
        node.slow = found.slow
    carry(nodes[: first + 1], first)
    last = first + len(several) - 1
    carry(nodes[last:], 0)
    headed(nodes)
    placed(nodes[:first])
    placed(nodes[last + 1 :])
    return rolls


def rolls_so(optimum: Optimum, least: float) -> bool:
    """Whether the measurements bear out that the vehicle rolls, if it is taken to.

    Where it costs more to be free, that descent went astray: by more than ``least`` it bears nothing out.
    A boat, a drone, what is carried, and an IMU that is mounted askew do not.
    """
    segments = [node.segment for node in optimum.nodes[1:] if node.segment is not None]
    few = sum(node.place is not None for node in optimum.nodes) < 10
    if few or not optimum.rolls or not all(segment.feels for segment in segments):
        return True
    return least < optimum.cost - optimum.free().cost <= _bearable(optimum)


def _bearable(optimum: Optimum) -> float:
    """What the rule may cost: in sound drives of cars up to 3 a minute, in those of boats more each second.

    It is more where nothing explains what was measured: a node that is explained costs less than two.
    """
    length_s = (optimum.nodes[-1].time_ns - optimum.nodes[0].time_ns) / 1e9
    return (5.0 + 0.03 * length_s) * max(1.0, optimum.cost / (2 * len(optimum.nodes)))


def _best(optima: Sequence[Optimum]) -> Optimum:
    """The optimum of least cost; of equal ones, as without an accelerometer, the one that moves forwards."""
    # Hypotheses whose cost differs by less than this are equal: e³ is no odds.
    most = min(each.cost for each in optima) + 3.0
    equal = [each for each in optima if each.cost <= most]
    return max(equal, key=lambda e: sum(n.pose.rotation().unrotate(n.velocity_m_s)[0] for n in e.nodes))


def _hypothesis(nodes: Sequence[Node], turn: int, *, rolls: bool) -> Optimum:
    about = gtsam.Rot3.Rz(2 * math.pi * turn / HEADINGS)
    tried = [replace(node) for node in nodes]
    for node in tried:
        node.pose = gtsam.Pose3(about.compose(node.pose.rotation()), node.pose.translation())
    # How far from its first fix a rig may be so short before it.
    return Optimum(tried, rough(tried[0], place_m=200.0), rolls=rolls, rounds=ROUNDS, far=True)
