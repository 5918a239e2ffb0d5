"""The estimate during a drive: the filter, and a backward pass over the last seconds."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from edgefirst_ros.ego.alignment import Alignment
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
from edgefirst_ros.ego.geometry import STANDARD_GRAVITY_M_S2, Quaternion, Vector, ecef_m, enu_m, gravity_m_s2
from edgefirst_ros.ego.inertia import ImuStep, Preintegrator
from edgefirst_ros.ego.path import Point, SmoothedPath, smoothed
from edgefirst_ros.ego.state import FORCE, GYRO, PLACE, SPEED, Floats, Node
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint

WINDOW_NS = 4_000_000_000
"""Nodes are kept for at least this time, so that a restart can begin in the past."""
ALONE_NS = 2_000_000_000
"""A first fix is accepted after this time if nothing contradicts it."""
DOUBT_M = 25.0
"""While the position is less certain than this, two fixes must agree to be accepted."""
TURNED_RAD = math.radians(15)
KNOWN_NS = 60_000_000_000

JudgedFix = tuple[int, str | None]
"""Running number of a fix's message, and why it is refused; None if it is accepted."""


@dataclass(slots=True)
class _Row:
    """A step with the reference and the fix at its end, kept to be repeated."""

    step: ImuStep
    reference: Floats
    place: LocalFix | None = None


@dataclass(frozen=True, slots=True)
class _WaitingFix:
    """A fix that cannot be judged until the motion is known."""

    time_ns: int
    arrival: int
    point: GeoPoint
    ecef: Vector
    sigma_m: Floats | None


class FixedLagSmoother:
    """Estimates the motion from what has arrived so far, in order of time.

    Attributes:
        origin: of the local frame: the first accepted fix.
        fixes_ns: times of accepted fixes that are not forgotten yet.
    """

    def __init__(self, vehicle: Vehicle, rig_from_imu_xyzw: Quaternion | None, *, again_ns: int) -> None:
        self.origin: GeoPoint | None = None
        self.fixes_ns: list[int] = []
        self._vehicle = vehicle
        self._mount = rig_from_imu_xyzw
        self._again_ns = max(again_ns, 1)
        self._inertia = Preintegrator(rig_from_imu_xyzw)
        self._alignment = Alignment(STANDARD_GRAVITY_M_S2)
        self._forward = Forward(STANDARD_GRAVITY_M_S2, vehicle)
        self._judge = FixJudge()
        self._rows: list[_Row] = []
        self._nodes: list[Node] = []
        self._waiting: list[_WaitingFix] = []
        self._judged: deque[JudgedFix] = deque()
        self._refused = 0
        self._epoch_ns: int | None = None
        """Time of the first message of the last accepted epoch."""
        self._doubted: LocalFix | None = None
        """The last fix, if it was refused."""
        self._path = SmoothedPath()
        self._path_of: tuple[int, int] | None = None

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Add an IMU sample."""
        step = self._inertia.add(time_ns, imu)
        if step is not None:
            self._advance(step, None)
        self._settle(time_ns)

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Add a fix by the running number of its message; ``judged`` returns the result."""
        judged = self._judge.judge(fix)
        if isinstance(judged, str):
            self._judged.append((arrival, judged))
            return
        if self._epoch_ns is not None and time_ns - self._epoch_ns < EPOCH_NS:
            self._judged.append((arrival, DUPLICATE))
            return
        ecef = ecef_m(judged)
        sigma = None if fix.sigma_m is None else np.array(fix.sigma_m)
        meant_ns = time_ns
        if self._waiting and time_ns - self._waiting[-1].time_ns < EPOCH_NS:
            if math.dist(ecef, self._waiting[-1].ecef) < SAME_M:
                self._judged.append((arrival, DUPLICATE))
                return
            # They contradict each other, and both have the time of the first one.
            meant_ns = self._waiting[-1].time_ns
        else:
            step = self._inertia.cut(time_ns)
            if self.origin is not None and self._is_sure():
                position = np.array(enu_m(judged, self.origin))
                self._try(step, LocalFix(time_ns, position, sigma), arrival)
                return
            self._advance(step, None)
        self._waiting.append(_WaitingFix(meant_ns, arrival, judged, ecef, sigma))
        self._settle(time_ns)

    def finish(self) -> None:
        """Process what is waiting: nothing more arrives."""
        self._settle(None)
        at_ns = self._inertia.at_ns
        if at_ns is not None and self._nodes and at_ns > self._nodes[-1].time_ns:
            self._advance(self._inertia.cut(at_ns), None)

    def judged(self) -> Iterator[JudgedFix]:
        """Fixes accepted or refused since the last call."""
        while self._judged:
            yield self._judged.popleft()

    @property
    def has_begun(self) -> bool:
        """Whether anything has arrived."""
        return self._inertia.at_ns is not None

    @property
    def mounting(self) -> Mounting | None:
        """How the IMU is rotated against its configuration, None if it may be as configured."""
        return mounting(self._alignment, self._mount)

    @property
    def notes(self) -> list[str]:
        """Sentences on what has been found so far."""
        gate, found = self._forward.gate, []
        if self._refused:
            found.append(refused_text(self._refused, gate.worst_m, gate.worst_m_s))
        if gate.restarts:
            found.append(restart_text(gate))
        return found

    def point(self, time_ns: int) -> Point | None:
        """The estimate at a time, None if there is none."""
        if not self._nodes:
            return None
        last_ns = self._nodes[-1].time_ns
        fresh = self._path_of is not None and self._path_of[0] == last_ns // self._again_ns
        if not fresh or (self._path_of is not None and time_ns > self._path_of[1]):
            times, numbers, _ = smoothed(self._nodes, as_configured=self._alignment.oriented)
            self._path = SmoothedPath()
            self._path.append(times, numbers)
            self._path_of = last_ns // self._again_ns, last_ns
        return self._path.at(time_ns)

    def forget(self, before_ns: int) -> None:
        """Drop what is not needed for times from ``before_ns`` on."""
        if not self._nodes:
            return
        before_ns = min(before_ns, self._nodes[-1].time_ns - WINDOW_NS)
        useless = bisect_right(self._nodes, before_ns, key=lambda node: node.time_ns) - 1
        if useless > 20:  # deleting at every message is slow
            del self._nodes[:useless], self._rows[:useless]
        old = bisect_left(self.fixes_ns, before_ns - KNOWN_NS)
        if old > 100:
            del self.fixes_ns[:old]

    def _advance(self, step: ImuStep, place: LocalFix | None) -> bool:
        """Process a step; whether the fix at its end is accepted."""
        oriented, first = self._alignment.oriented, self._alignment.first
        self._alignment.step(step)
        if self._rows and self._alignment.oriented and not oriented:
            self._turn(self._alignment.first @ first.T)
        reference = self._alignment.reference
        self._rows.append(_Row(step, reference, place))
        if not self._nodes:
            start = self._alignment.start(self._alignment.first, rolls=self._vehicle.rolls)
            self._nodes.append(self._forward.begin(step, start))
            step = step._replace(dt_s=0.0, turn_rad=_ZERO, dv_m_s=_ZERO, dp_m=_ZERO)
            self._rows.append(_Row(step, reference, place))
        node, believed = self._forward.advance(step, place)
        self._nodes.append(node)
        if place is not None and not believed:
            self._rows[-1].place = None
        return believed

    def _try(self, step: ImuStep, place: LocalFix, arrival: int) -> None:
        """Judge a fix by the motion."""
        other, epoch_ns = self._doubted, place.time_ns
        if other is not None and place.time_ns - other.time_ns < EPOCH_NS:
            if math.dist(place.position_m, other.position_m) < SAME_M:
                self._advance(step, None)
                self._judged.append((arrival, DUPLICATE))
                return
            # The other message of the epoch was refused; this one holds for the time of that.
            epoch_ns = other.time_ns
            moved = self._forward.filter.node.state.velocity_m_s * ((place.time_ns - other.time_ns) / 1e9)
            place = replace(place, position_m=place.position_m + moved)
        restarts = self._forward.gate.restarts
        believed = self._advance(step, place)
        if self._forward.gate.restarts > restarts:
            self._begin_again()
        if believed:
            self._epoch_ns, self._doubted = epoch_ns, None
        else:
            self._doubted = place
        self._report(place, arrival, believed=believed)

    def _report(self, place: LocalFix, arrival: int, *, believed: bool) -> None:
        self._judged.append((arrival, None if believed else OUTLIER))
        if not believed:
            self._refused += 1
            return
        self.fixes_ns.append(place.time_ns)
        if self._alignment.fix(place.time_ns, place.position_m):
            self._realign()

    def _is_sure(self) -> bool:
        node = self._forward.filter.node
        return bool(max(node.covariance[6, 6], node.covariance[7, 7]) < DOUBT_M**2)

    def _settle(self, now_ns: int | None) -> None:
        """Accept waiting fixes once two agree, one was alone for long, or at the end (``now_ns`` None)."""
        waiting = self._waiting
        if not waiting:
            return
        final = now_ns is None or now_ns - waiting[-1].time_ns > ALONE_NS
        chosen = drivable(
            [each.time_ns for each in waiting], np.array([each.ecef for each in waiting]), EPOCH_NS
        )
        if sum(chosen) < 2 and not final:
            return
        self._waiting = []
        first = next(each for each, is_chosen in zip(waiting, chosen, strict=True) if is_chosen)
        if self.origin is None:
            self.origin = first.point
            self._forward.filter.gravity = gravity_m_s2(first.point)
        wanted: list[tuple[_WaitingFix, LocalFix]] = []
        for each, is_chosen in zip(waiting, chosen, strict=True):
            if not is_chosen:
                same = any(abs(w.time_ns - each.time_ns) < EPOCH_NS for w, _ in wanted)
                near = same and math.dist(wanted[-1][0].ecef, each.ecef) < SAME_M
                self._judged.append((each.arrival, DUPLICATE if near else OUTLIER))
                self._refused += not near
                self._note(each, first)
                continue
            place = LocalFix(each.time_ns, np.array(enu_m(each.point, self.origin)), each.sigma_m)
            wanted.append((each, place))
            self._rows[self._index(each.time_ns)].place = place
        believed = self._replay(self._index(first.time_ns))
        for each, place in wanted:
            self._epoch_ns = place.time_ns
            self._report(place, each.arrival, believed=believed.get(place.time_ns, False))

    def _index(self, time_ns: int) -> int:
        """Index of the node at a time; the first that can be repeated if that one is forgotten."""
        return max(1, bisect_right(self._nodes, time_ns, key=lambda node: node.time_ns) - 1)

    def _note(self, wrong: _WaitingFix, right: _WaitingFix) -> None:
        gate, off_m = self._forward.gate, math.dist(wrong.ecef, right.ecef)
        if off_m > gate.worst_m:
            apart_s = abs(wrong.time_ns - right.time_ns) / 1e9
            gate.worst_m, gate.worst_m_s = off_m, off_m / apart_s if apart_s else math.nan

    def _replay(self, start: int) -> dict[int, bool]:
        """Repeat the steps from an index on; which of their fixes are accepted now, by time."""
        believed: dict[int, bool] = {}
        self._path_of = None
        start = min(start, len(self._nodes))
        self._forward.filter.resume(self._nodes[start - 1])
        for index in range(start, len(self._nodes)):
            row = self._rows[index]
            self._nodes[index], is_believed = self._forward.advance(row.step, row.place)
            if row.place is not None:
                believed[row.place.time_ns] = is_believed
        return believed

    def _turn(self, true: Floats) -> None:
        """Apply the first orientation to what was integrated from rates and forces before it."""
        for row in self._rows:
            row.reference = true @ row.reference
        self._repeat()

    def _begin_again(self) -> None:
        """Start again after the motion was disproved: forget all fixes before the last."""
        for row in self._rows[:-1]:
            row.place = None
        self._alignment = self._alignment.restarted()
        self._repeat()

    def _repeat(self) -> None:
        """Estimate everything anew from the first node on."""
        start = self._alignment.start(self._rows[0].reference, rolls=self._vehicle.rolls)
        self._nodes[0] = self._forward.filter.begin(self._rows[0].step, start)
        self._replay(1)

    def _realign(self) -> None:
        """Start again in the past if heading or mounting turn out to be different."""
        now, motion = self._forward.filter.node, self._forward.filter
        reference, past = self._alignment.reference, self._rows[0].reference
        start = self._alignment.start(past, rolls=self._vehicle.rolls)
        known_rad = _yaw(now.state.rotation @ reference.T)
        new_rad = _yaw(start.rotation @ past.T)
        sigma_rad = math.sqrt(float(now.covariance[2, 2]))
        off_rad = abs(math.remainder(new_rad - known_rad, 2 * math.pi))
        unknown = sigma_rad > 1.0 and start.heading_rad < sigma_rad
        turned = self._alignment.north is not None and off_rad > max(TURNED_RAD, 4 * sigma_rad)
        if not (unknown or turned or (start.travels and not motion.travels)):
            return
        first = self._nodes[0]
        covariance = motion.begin(self._rows[0].step, start).covariance
        for block in (SPEED, PLACE, GYRO, FORCE):
            covariance[block, block] = first.covariance[block, block]
        covariance[PLACE, SPEED] = first.covariance[PLACE, SPEED]
        covariance[SPEED, PLACE] = first.covariance[SPEED, PLACE]
        state = replace(
            motion.node.state,
            velocity_m_s=first.state.velocity_m_s,
            position_m=first.state.position_m,
            gyro_rad_s=first.state.gyro_rad_s,
            force_m_s2=first.state.force_m_s2,
        )
        self._nodes[0] = replace(first, state=state, covariance=covariance, transition=None, updates=[])
        self._replay(1)


_ZERO: Vector = (0.0, 0.0, 0.0)


def _yaw(rotation: Floats) -> float:
    return math.atan2(rotation[1, 0], rotation[0, 0])
