"""The estimate of a whole drive: a forward and a backward pass over all of its measurements."""

from __future__ import annotations

import copy
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.alignment import Alignment
from edgefirst_ros.ego.filter import FilterStart
from edgefirst_ros.ego.findings import Mounting, mounting, refused_text, restart_text
from edgefirst_ros.ego.gate import (
    DUPLICATE,
    EPOCH_NS,
    OUTLIER,
    SAME_M,
    FixJudge,
    Forward,
    LocalFix,
    Vehicle,
    drivable,
)
from edgefirst_ros.ego.geometry import (
    STANDARD_GRAVITY_M_S2,
    Quaternion,
    Vector,
    ecef_m,
    enu_m,
    from_enu,
    gravity_m_s2,
)
from edgefirst_ros.ego.inertia import WIDTH, ImuStep, Preintegrator, pack, unpack
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.ego.path import Adjoint, Point, SmoothedPath, smoothed
from edgefirst_ros.ego.state import Floats, Node
from edgefirst_ros.sample import GeoPoint

IntArray = npt.NDArray[np.int64]

BLOCK = 4000
"""Nodes kept at a time, some 6 KiB each: the forward pass is repeated block by block."""
TRIES = 3
FEW = 9
"""This many fixes show whether the first ones were right."""


@dataclass(slots=True)
class Solution:
    """The motion of a whole drive.

    Attributes:
        origin: of the local frame: the first accepted fix.
        fixes_ns: times of accepted fixes.
        refusals: why fixes were refused, by the running number of their message.
        oriented: whether the IMU has orientations.
        mounting: how the IMU is rotated against its configuration, None if it may be as configured.
        notes: sentences on what has been found.
    """

    origin: GeoPoint | None = None
    fixes_ns: list[int] = field(default_factory=list)
    refusals: dict[int, str] = field(default_factory=dict)
    oriented: bool = False
    mounting: Mounting | None = None
    notes: list[str] = field(default_factory=list)
    path: SmoothedPath = field(default_factory=SmoothedPath)
    worst: tuple[float, float] = (0.0, math.nan)
    """Largest error of a fix that no vehicle could have reached, metres, and the speed it would take, m/s."""

    def point(self, time_ns: int) -> Point | None:
        """The estimate at a time, None if there is none."""
        return self.path.at(time_ns)


class _Steps:
    """Steps of a drive, packed, each with the index of the fix at its end, -1 if there is none."""

    def __init__(self) -> None:
        self.ends: array[int] = array("q")
        self._numbers: array[float] = array("d")
        self.fix: array[int] = array("q")

    def add(self, step: ImuStep, fix: int) -> None:
        self.ends.append(step.end_ns)
        self._numbers.extend(pack(step))
        self.fix.append(fix)

    def part(self, start: int, stop: int) -> Iterator[tuple[ImuStep, int]]:
        for index in range(start, min(stop, len(self.ends))):
            values = self._numbers[WIDTH * index : WIDTH * (index + 1)]
            yield unpack(self.ends[index], values.tolist()), self.fix[index]

    @property
    def first(self) -> ImuStep:
        return next(self.part(0, 1))[0]

    def __len__(self) -> int:
        return len(self.ends)


def solve(
    log: NavigationLog,
    vehicle: Vehicle,
    rig_from_imu_xyzw: Quaternion | None,
    proceed: Callable[[], bool] = lambda: True,
) -> Solution:
    """Estimate the motion of a whole drive.

    Args:
        log: its measurements.
        vehicle: what the configuration says of it.
        rig_from_imu_xyzw: rotates from the IMU's axes to the rig's.
        proceed: called now and then; False stops, and the result is then no estimate.
    """
    solution = Solution(oriented=log.oriented)
    places, arrivals = _candidates(log, solution)
    origin = solution.origin
    gravity = STANDARD_GRAVITY_M_S2 if origin is None else gravity_m_s2(origin)
    alignment = Alignment(gravity)
    steps = _steps(log, places, alignment, rig_from_imu_xyzw)
    if not steps or not proceed():
        return Solution(refusals=solution.refusals, oriented=solution.oriented, origin=origin)
    start = alignment.start(alignment.first, rolls=vehicle.rolls)
    for index in range(_wrong_at_first(steps, places, gravity, vehicle, start)):
        solution.refusals[arrivals[index]] = OUTLIER
        steps.fix[steps.fix.index(index)] = -1
    for _ in range(TRIES):
        forward = Forward(gravity, vehicle)
        forward.begin(steps.first, start)
        blocks, newest, believed, again = _forward(forward, steps, places, proceed)
        if not again:
            break
        for index in again:
            # The first fixes were fewer than those that contradict them: they were wrong, not the motion.
            solution.refusals[arrivals[index]] = OUTLIER
            steps.fix[steps.fix.index(index)] = -1
    if not proceed():
        return Solution(refusals=solution.refusals, oriented=solution.oriented)
    for index, is_believed in believed.items():
        if is_believed:
            solution.fixes_ns.append(places[index].time_ns)
        else:
            solution.refusals[arrivals[index]] = OUTLIER
    oriented = alignment.oriented
    _backward(solution.path, blocks, newest, steps, places, as_configured=oriented, proceed=proceed)
    first = next((places[index] for index, is_believed in believed.items() if is_believed), None)
    if first is not None and origin is not None and first.position_m.any():
        x, y, z = first.position_m.tolist()
        solution.origin = from_enu((x, y, z), origin)
        solution.path.shift(-first.position_m)
    solution.mounting = mounting(alignment, rig_from_imu_xyzw)
    _note(solution, forward)
    return solution


def _candidates(log: NavigationLog, solution: Solution) -> tuple[list[LocalFix], list[int]]:
    """Fixes that a vehicle could have driven, in the frame of the first, and their numbers; refuse others."""
    judge, points, sigmas = FixJudge(), list[GeoPoint](), list[Vector | None]()
    meant: list[tuple[int, int]] = []
    log.fixes.sort(key=lambda each: each[:2])
    first_ns = 0
    for sent_ns, arrival, fix in log.fixes:
        time_ns = sent_ns
        judged = judge.judge(fix)
        if isinstance(judged, str):
            solution.refusals[arrival] = judged
            continue
        if points and time_ns - first_ns < EPOCH_NS:
            if math.dist(ecef_m(judged), ecef_m(points[-1])) < SAME_M:
                solution.refusals[arrival] = DUPLICATE
                continue
            # They contradict each other, and both have the time of the first one.
            time_ns = max(first_ns, meant[-1][0])
        else:
            first_ns = time_ns
        points.append(judged)
        sigmas.append(fix.sigma_m)
        meant.append((time_ns, arrival))
    if not points:
        return [], []
    places_m = np.array([ecef_m(point) for point in points])
    chosen = drivable([time_ns for time_ns, _ in meant], places_m, EPOCH_NS)
    places, arrivals = list[LocalFix](), list[int]()
    times = np.array([time_ns for (time_ns, _), is_chosen in zip(meant, chosen, strict=True) if is_chosen])
    of_chosen = places_m[np.array(chosen)]
    for index, ((time_ns, arrival), is_chosen) in enumerate(zip(meant, chosen, strict=True)):
        if not is_chosen:
            near = np.abs(times - time_ns) < EPOCH_NS
            agrees = near.any() and np.linalg.norm(of_chosen[near] - places_m[index], axis=1).min() < SAME_M
            solution.refusals[arrival] = DUPLICATE if agrees else OUTLIER
            if not agrees:
                solution.worst = max(solution.worst, _far(time_ns, places_m[index], times, of_chosen))
            continue
        if solution.origin is None:
            solution.origin = points[index]
        position = np.array(enu_m(points[index], solution.origin))
        sigma = sigmas[index]
        places.append(LocalFix(time_ns, position, None if sigma is None else np.array(sigma)))
        arrivals.append(arrival)
    return places, arrivals


def _far(time_ns: int, place_m: Floats, times: IntArray, places_m: Floats) -> tuple[float, float]:
    """Distance of a fix from those around it in metres, and the speed in m/s to get there."""
    axes = [np.interp(time_ns, times, places_m[:, axis]) for axis in range(3)]
    off_m = float(np.linalg.norm(place_m - np.array(axes)))
    apart_ns = int(np.abs(times - time_ns).min())
    return off_m, off_m / (apart_ns / 1e9) if apart_ns else math.nan


def _steps(
    log: NavigationLog, places: Sequence[LocalFix], alignment: Alignment, rig_from_imu_xyzw: Quaternion | None
) -> _Steps:
    """All steps, ending at the fixes; updates the alignment."""
    steps, inertia, fix = _Steps(), Preintegrator(rig_from_imu_xyzw), 0

    def take(step: ImuStep, place: int) -> None:
        alignment.step(step)
        if not steps:
            step = step._replace(dt_s=0.0, turn_rad=_ZERO, dv_m_s=_ZERO, dp_m=_ZERO)
        steps.add(step, place)
        if place >= 0:
            alignment.fix(step.end_ns, places[place].position_m)

    for time_ns, imu in log.samples():
        while fix < len(places) and places[fix].time_ns <= time_ns:
            take(inertia.cut(places[fix].time_ns), fix)
            fix += 1
        step = inertia.add(time_ns, imu)
        if step is not None:
            take(step, -1)
    for index in range(fix, len(places)):
        take(inertia.cut(places[index].time_ns), index)
    if steps and inertia.at_ns is not None and inertia.at_ns > steps.ends[-1]:
        take(inertia.cut(inertia.at_ns), -1)
    return steps


_ZERO: Vector = (0.0, 0.0, 0.0)


def _forward(
    forward: Forward, steps: _Steps, places: Sequence[LocalFix], proceed: Callable[[], bool]
) -> tuple[list[Forward], list[Node], dict[int, bool], list[int]]:
    """The forward pass.

    Returns: copies at the beginning of every block, the nodes of the last one, which fixes were accepted, and
    which were accepted wrongly.
    """
    blocks, believed, recent = list[Forward](), dict[int, bool](), list[int]()
    nodes: list[Node] = []
    doubted: list[int] = []
    for number, (step, fix) in enumerate(steps.part(0, len(steps))):
        if number % BLOCK == 0:
            blocks.append(copy.deepcopy(forward))
            nodes = []
            if not proceed():
                break
        restarts = forward.gate.restarts
        node, is_believed = forward.advance(step, places[fix] if fix >= 0 else None)
        nodes.append(node)
        if fix < 0:
            continue
        believed[fix] = is_believed
        if forward.gate.restarts > restarts:
            if len(recent) < len(doubted) + 1:
                return blocks, nodes, believed, recent
            recent = []
        if is_believed:
            recent.append(fix)
            doubted = []
        else:
            doubted.append(fix)
    return blocks, nodes, believed, []


def _wrong_at_first(
    steps: _Steps, places: Sequence[LocalFix], gravity: float, vehicle: Vehicle, start: FilterStart
) -> int:
    """How many of the first fixes to refuse: no motion is known yet that could disprove them.

    A wrong first fix makes the next ones look wrong; without it they fit.
    """
    if len(places) < FEW:
        return 0
    scores = []
    for left_out in range(FEW // 3):
        forward, off = Forward(gravity, vehicle), 0.0
        forward.begin(steps.first, start)
        for step, fix in steps.part(0, len(steps)):
            if fix >= FEW:
                break
            forward.advance(step, places[fix] if fix >= left_out else None)
            if fix >= FEW // 3 + 1:
                off += min(forward.gate.off, 6.0) ** 2
        scores.append(off)
    best = min(range(len(scores)), key=scores.__getitem__)
    return best if scores[0] > 2 * scores[best] + 25 else 0


def _backward(
    path: SmoothedPath,
    blocks: Sequence[Forward],
    newest: list[Node],
    steps: _Steps,
    places: Sequence[LocalFix],
    *,
    as_configured: bool,
    proceed: Callable[[], bool],
) -> None:
    """Smooth block by block, beginning with the last, whose nodes are ``newest``."""
    later: Adjoint | None = None
    parts: list[SmoothedPath] = []
    nodes = newest
    for number in reversed(range(len(blocks))):
        if not proceed():
            return
        if number < len(blocks) - 1:
            nodes, forward = [], blocks[number]
            for step, fix in steps.part(number * BLOCK, (number + 1) * BLOCK):
                nodes.append(forward.advance(step, places[fix] if fix >= 0 else None)[0])
        part, later = smoothed(nodes, later, as_configured=as_configured)
        parts.append(part)
        nodes.clear()  # the caller holds the newest ones, too
    while parts:
        path.join(parts.pop())


def _note(solution: Solution, forward: Forward) -> None:
    """Add sentences on refused fixes and restarts."""
    count = Counter(solution.refusals.values())[OUTLIER]
    if count:
        worst = max(solution.worst, (forward.gate.worst_m, forward.gate.worst_m_s))
        solution.notes.append(refused_text(count, *worst))
    if forward.gate.restarts:
        solution.notes.append(restart_text(forward.gate))
