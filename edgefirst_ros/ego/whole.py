"""The estimate of a whole drive: a forward and a backward pass over all of its measurements."""

from __future__ import annotations

import copy
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from edgefirst_ros.ego.alignment import Alignment
from edgefirst_ros.ego.candidates import Places, candidates
from edgefirst_ros.ego.filter import FilterStart
from edgefirst_ros.ego.findings import Mounting, mounting, refused_text, restart_text
from edgefirst_ros.ego.gate import OUTLIER, Forward, Vehicle
from edgefirst_ros.ego.geometry import STANDARD_GRAVITY_M_S2, Quaternion, Vector, from_enu, gravity_m_s2
from edgefirst_ros.ego.inertia import WIDTH, ImuStep, Preintegrator, pack, unpack
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.ego.path import COLUMNS, Adjoint, Point, SmoothedPath, smoothed
from edgefirst_ros.ego.rows import Rows
from edgefirst_ros.ego.state import Node
from edgefirst_ros.sample import GeoPoint

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
    fixes_ns: array[int] = field(default_factory=lambda: array("q"))
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
        self._numbers = Rows(WIDTH)
        self.fix: array[int] = array("q")

    def add(self, step: ImuStep, fix: int) -> None:
        self.ends.append(step.end_ns)
        self._numbers.extend(pack(step))
        self.fix.append(fix)

    def part(self, start: int, stop: int) -> Iterator[tuple[ImuStep, int]]:
        for index in range(start, min(stop, len(self.ends))):
            yield unpack(self.ends[index], self._numbers.row(index).tolist()), self.fix[index]

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
    places = candidates(log.fixes(), solution.refusals)
    origin = solution.origin = places.origin
    solution.worst = places.worst
    gravity = STANDARD_GRAVITY_M_S2 if origin is None else gravity_m_s2(origin)
    alignment = Alignment(gravity)
    steps = _steps(log, places, alignment, rig_from_imu_xyzw)
    if not steps or not proceed():
        return Solution(refusals=solution.refusals, oriented=solution.oriented, origin=origin)
    start = alignment.start(alignment.first, rolls=vehicle.rolls)
    for index in range(_wrong_at_first(steps, places, gravity, vehicle, start)):
        solution.refusals[places.arrival(index)] = OUTLIER
        steps.fix[steps.fix.index(index)] = -1
    for _ in range(TRIES):
        forward = Forward(gravity, vehicle)
        forward.begin(steps.first, start)
        blocks, newest, believed, again = _forward(forward, steps, places, proceed)
        if not again:
            break
        for index in again:
            # The first fixes were fewer than those that contradict them: they were wrong, not the motion.
            solution.refusals[places.arrival(index)] = OUTLIER
            steps.fix[steps.fix.index(index)] = -1
    if not proceed():
        return Solution(refusals=solution.refusals, oriented=solution.oriented)
    for index, is_believed in believed.items():
        if is_believed:
            solution.fixes_ns.append(places[index].time_ns)
        else:
            solution.refusals[places.arrival(index)] = OUTLIER
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


def _steps(
    log: NavigationLog, places: Places, alignment: Alignment, rig_from_imu_xyzw: Quaternion | None
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
    forward: Forward, steps: _Steps, places: Places, proceed: Callable[[], bool]
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
    steps: _Steps, places: Places, gravity: float, vehicle: Vehicle, start: FilterStart
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
    places: Places,
    *,
    as_configured: bool,
    proceed: Callable[[], bool],
) -> None:
    """Smooth block by block, beginning with the last, whose nodes are ``newest``."""
    later: Adjoint | None = None
    parts: list[tuple[list[int], int]] = []
    rows = Rows(COLUMNS)
    nodes = newest
    for number in reversed(range(len(blocks))):
        if not proceed():
            return
        if number < len(blocks) - 1:
            nodes, forward = [], blocks[number]
            for step, fix in steps.part(number * BLOCK, (number + 1) * BLOCK):
                nodes.append(forward.advance(step, places[fix] if fix >= 0 else None)[0])
        times, numbers, later = smoothed(nodes, later, as_configured=as_configured)
        parts.append((times, len(rows)))
        rows.extend(numbers)
        nodes.clear()  # the caller holds the newest ones, too
    while parts:
        times, start = parts.pop()
        path.append(times, rows.part(start, start + len(times)).ravel().tolist())


def _note(solution: Solution, forward: Forward) -> None:
    """Add sentences on refused fixes and restarts."""
    count = Counter(solution.refusals.values())[OUTLIER]
    if count:
        worst = max(solution.worst, (forward.gate.worst_m, forward.gate.worst_m_s))
        solution.notes.append(refused_text(count, *worst))
    if forward.gate.restarts:
        solution.notes.append(restart_text(forward.gate))
