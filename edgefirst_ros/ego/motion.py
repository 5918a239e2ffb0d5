"""The motion of the rig from IMU samples and fixes, during a drive and after it: one graph over a window."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import attrgetter

import gtsam
import numpy as np

from edgefirst_ros.ego.beginning import BACKWARDS_M_S, begin, headed, placed, rolls_so, upright
from edgefirst_ros.ego.fixes import Courses, Mounting, Vehicle
from edgefirst_ros.ego.geometry import Floats, Quaternion
from edgefirst_ros.ego.graph import ANY_RAD, Node, Optimum, Prior, rough
from edgefirst_ros.ego.inertia import QUIET_ROWS, ROW_NS, SAMPLE_COLUMNS, Preintegrator
from edgefirst_ros.ego.navigationlog import NavigationLog, Odometer
from edgefirst_ros.ego.path import Path, rows_of
from edgefirst_ros.ego.receiver import DisprovedError, Receiver
from edgefirst_ros.ego.units import Units
from edgefirst_ros.model.navigation import NavSatFix
from edgefirst_ros.model.sample import GeoPoint

NODE_NS = 200_000_000
"""Distance of nodes where there are no fixes: rolling and standing are told at them."""
CLOSE_NS = 50_000_000
"""Closer to a fix, or at the end, no node is needed."""
OVERLAP_NS = 8_000_000_000
"""A drive's part is first estimated with so much of the part before."""
ODD, MOST_ODD = 3.0, 8.0
"""During a drive the IMU is odd where a node costs so much; it is not used after so many strides, less a
quarter of the others."""
NORTHS_DEG, SURE_RAD = 5.0, math.radians(6)
"""An AHRS errs by less, where the heading is as sure as the second."""
LATE_S, SURELY, FEW = (0.0, 0.3, 1.0), 0.95, 400
"""Fixes so late are tried; they are as late as makes so many nodes cost less than the second's share."""
TEST_NS = 8_000_000_000
"""During a drive it is asked so often whether the vehicle rolls."""
LEAST_EVIDENCE, MOST_EVIDENCE = 40, 400
"""So many fixes show the receiver's slow error; more are not looked at."""
STANDING_M_S, SPLIT_NODES = 0.5, 10
"""Of a quiet time with this many nodes one half may have been driven, as before a stop."""
NO_OPTIMUM = (RuntimeError, ValueError, np.linalg.LinAlgError)
"""What GTSAM and numpy raise where measurements contradict each other beyond all noise."""
ROUNDS, FIRST_ROUNDS = 6, 2
"""Iterations at most. The second: of nodes that are estimated once more, with those that follow; one less
loses drives of which nothing but fixes is known."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much of a drive is estimated at a time.

    Attributes:
        stride_ns: how often.
        keep_ns: what stays in the graph; before it a prior stands for the rest.
        reach_ns: during a drive, poses older than this do not change any more; of a drive that is over, how
            much later than a pose the data must reach before it is final.
        whole: the drive is over: every pose is estimated once, from all around it.
    """

    stride_ns: int
    keep_ns: int
    reach_ns: int
    whole: bool


WHOLE = Pace(40_000_000_000, 600_000_000_000, 60_000_000_000, whole=True)


def lagging(wait_ns: int) -> Pace:
    """The pace of a drive that goes on, whose poses are asked for so much later, from what came so far."""
    return Pace(max(wait_ns // 3, 1), 10_000_000_000, wait_ns + 1_000_000_000, whole=False)


class Motion:
    """Estimates the motion from measurements in order of time.

    Attributes:
        fixes_ns: times of believed fixes that are not forgotten yet.
        oriented: whether the IMU has orientations.
        odometer: what odometry there is.
        refusals: why fixes were refused, by the running number of their message.
        receiver: of fixes.
        nodes: of the window.
        path: the estimate.
        units: of the IMU: learnt as messages arrive, of a drive that is over beforehand.
    """

    def __init__(
        self,
        vehicle: Vehicle | None = None,
        rig_from_imu_xyzw: Quaternion | None = None,
        pace: Pace = WHOLE,
        units: Units | None = None,
    ) -> None:
        vehicle = vehicle or Vehicle()
        self.units, self._learnt = units or Units(rig_from_imu_xyzw), list[str]()
        self.oriented = False
        self.refusals: dict[int, str] = {}
        self.fixes_ns: list[int] = []
        self._vehicle, self._mount, self._pace = vehicle, rig_from_imu_xyzw, pace
        self._inertia = Preintegrator(rig_from_imu_xyzw, vehicle.imu_m)
        self.receiver = Receiver(vehicle, whole=pace.whole)
        self.odometer = Odometer()
        self._times: list[int] = []
        self._samples: list[Floats] = []
        self.nodes: list[Node] = []
        self._prior: Prior | None = None
        self._headed = False
        """Whether the heading is known."""
        self._due_ns = self._count = self._integrated = self._solved = 0
        """When to estimate again; how many nodes were made, have their segment, and have an estimate."""
        self.path = Path()
        self._courses = Courses()
        self._lost_s = 0.0
        self._tested_ns, self._rolls = 0, vehicle.rolls
        """When it was last asked whether the vehicle rolls, and whether it may."""
        self._late_s, self._astray, self._odd = 0.0, False, 0.0
        """How late fixes are, and whether most are far from the way: of a whole drive."""

    # Measurements

    def add_samples(self, times_ns: Sequence[int], samples: Floats) -> None:
        """Add IMU samples (n, 10) as ``inertia.sample_row`` gives them; of one time the first counts."""
        if not self._pace.whole:
            self.units.add_samples(times_ns, samples)
            self._relearn()
        samples = self.units.scaled(samples)
        self.oriented |= bool(np.isfinite(samples[:, 0]).any())
        start = bisect_right(times_ns, self._times[-1]) if self._times else 0
        while start < len(times_ns):
            due_ns = self.nodes[-1].time_ns + NODE_NS if self.nodes else times_ns[start]
            end = bisect_left(times_ns, due_ns, start)
            self._times.extend(times_ns[start : end + 1])
            self._samples.append(samples[start : end + 1])
            start = end + 1
            if end < len(times_ns):
                self._node(times_ns[end])
                self._pass(times_ns[end])

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix) -> None:
        """Add a fix by the running number of its message; ``judged`` returns the result."""
        if not self._pace.whole:
            self.units.add_fix(time_ns, arrival, fix)
            self._relearn()
        taken = self.receiver.take(time_ns, arrival, fix)
        if taken is not None:
            self.receiver.add(self._node(time_ns), taken)
            self._pass(time_ns)

    def finish(self) -> None:
        """Estimate what is left: nothing more arrives."""
        if self._times and (not self.nodes or self._times[-1] > self.nodes[-1].time_ns + CLOSE_NS):
            self._node(self._times[-1])
        self._settle(final=True)
        self.receiver.tell()

    def _node(self, time_ns: int) -> Node:
        """The node at a time, which is not earlier than the last."""
        last = self.nodes[-1] if self.nodes else None
        fresh = len(self.nodes) > max(1, self._integrated)
        if last is not None and fresh and not self.receiver.has(last) and time_ns - last.time_ns < CLOSE_NS:
            # Of two so close the one at a fix is enough.
            last.time_ns = time_ns
        if last is None or time_ns > last.time_ns:
            self.nodes.append(Node(self._count, time_ns))
            self._count += 1
        return self.nodes[-1]

    def _integrate(self) -> None:
        """Give new nodes what the IMU and the odometry measured since the node before."""
        first = max(1, self._integrated)
        nodes, self._integrated = self.nodes[first - 1 :], len(self.nodes)
        if len(nodes) < 2:
            return
        samples = np.concatenate([np.empty((0, SAMPLE_COLUMNS)), *self._samples])
        cuts_ns = [node.time_ns for node in nodes]
        segments = self._inertia.segments(cuts_ns, self._times, samples)
        last = max(0, bisect_right(self._times, cuts_ns[-1] - QUIET_ROWS * ROW_NS) - 1)
        del self._times[:last]
        self._samples = [samples[last:]]
        for node, segment in zip(nodes[1:], segments, strict=True):
            node.segment = segment

    def _pass(self, time_ns: int) -> None:
        self._due_ns = self._due_ns or time_ns + self._pace.stride_ns
        if time_ns >= self._due_ns:
            self._due_ns = time_ns + self._pace.stride_ns
            self._settle(final=False)

    # Results

    @property
    def origin(self) -> GeoPoint | None:
        """Of the local frame: the first fix that a vehicle could have driven on from."""
        return None if self.receiver.datum is None else self.receiver.datum.point

    @property
    def mounting(self) -> Mounting | None:
        """How the IMU is rotated against its configuration, None if it may be as configured."""
        return self._courses.mounting(self._mount) if self._vehicle.rolls else None

    @property
    def doubts(self) -> list[str]:
        """Sentences on what makes poses wrong."""
        return self.units.contradictions if math.isnan(self.units.rate) else []

    @property
    def notes(self) -> list[str]:
        """Sentences on what has been found so far."""
        found = [*([] if self.doubts else self.units.notes), *self.receiver.notes]
        if self._vehicle.rolls and not self._rolls and self.mounting is None:
            found.append("the vehicle moves sideways: that it rolls is not used")
        if self._lost_s:
            found.append(f"for {self._lost_s:,.1f} s no motion explains IMU and GPS: no pose is known")
        return found

    def forget(self, before_ns: int) -> None:
        """Drop what is not needed for times from ``before_ns`` on."""
        self.path.series.forget(before_ns)
        self.odometer.series.forget(before_ns)

    # The estimate

    def _settle(self, *, final: bool) -> None:
        """Estimate what has come since the last time."""
        if not self.nodes:
            return
        try:
            self._estimate(final=final)
        except DisprovedError as found:
            self._split(found.args[0])
            self._settle(final=final)
        except NO_OPTIMUM:
            self._give_up()

    def _estimate(self, *, final: bool) -> None:
        now_ns, whole = self.nodes[-1].time_ns, self._pace.whole
        self._integrate()
        # Fixes as old as this are chosen anew during a drive.
        recent_ns = self._pace.stride_ns + OVERLAP_NS if whole else 3_000_000_000
        self._predict()
        self.receiver.choose(now_ns, now_ns - recent_ns, final=final)
        if not (self._headed or self.receiver.datum is None):
            # What was estimated without a heading is turned, and may be elsewhere.
            self._solved = 0
            self._predict()
        self._prepare()
        if final and whole:
            self._publish(len(self.nodes))
            return
        known = whole and self._solved and self._headed
        first = self._index(self.nodes[self._solved - 1].time_ns - OVERLAP_NS) if known else 0
        optimum = self._solve(first)
        self._solved = len(self.nodes)
        if not whole:
            self._follow(optimum, final=final)
        elif now_ns - self.nodes[0].time_ns > self._pace.keep_ns + 2 * self._pace.reach_ns:
            self._publish(self._index(now_ns - self._pace.reach_ns))

    def _follow(self, optimum: Optimum, *, final: bool) -> None:
        """Publish what a drive that goes on shows so far."""
        # Nobody waits longer for the newest poses than for the others.
        now_ns = self.nodes[-1].time_ns
        oldest = self._index(now_ns - self._pace.reach_ns)
        self.path.replace(*self._rows(optimum, self.nodes[max(0, oldest - 1) :]))
        if final or self.receiver.datum is not None:
            self.receiver.tell(math.inf if final else now_ns - self._pace.stride_ns + 1)
        # A gyroscope that is dead bends what has no rule for half of the time; a sea does not for a tenth.
        is_odd = not self._rolls and optimum.cost > ODD * len(optimum.nodes)
        self._odd = max(0.0, self._odd + (1.0 if is_odd else -0.25))
        self._astray = self._odd > MOST_ODD
        if self._tested_ns == now_ns and not (self._odd or self.units.late_ns):
            self._late_s = self._lateness(self._evident())
        self._shorten(optimum)
        if self.misled():
            self._relearn()

    def _split(self, node: Node) -> None:
        """Begin again at a node: fixes disprove the motion up to it."""
        at, nodes = self.nodes.index(node), self.nodes
        if self._pace.whole:
            self.nodes = nodes[:at]
            self._settle(final=True)
        self._begin_with(nodes[at:])

    def _predict(self) -> None:
        """Initial values of new nodes, by the IMU from the last estimate, or by the forces alone."""
        if not self._solved:
            upright(self.nodes)
        for before, node in pairwise(self.nodes[self._solved - 1 :] if self._solved else ()):
            if node.segment is not None:
                state = gtsam.NavState(before.pose, before.velocity_m_s)
                state = node.segment.measured.predict(state, before.bias)
                node.pose, node.velocity_m_s, node.bias = state.pose(), state.velocity(), before.bias

    def _prepare(self) -> None:
        """Initial values near the fixes."""
        new = self.nodes[self._solved :]
        placed(new)
        for before, node in pairwise(self.nodes):
            if node.moved is None:
                node.moved = self.odometer.moved(before.time_ns, node.time_ns)
        if self._headed:
            headed(new)

    def _index(self, time_ns: int) -> int:
        """Of the first node that is not before a time."""
        return bisect_left(self.nodes, time_ns, key=attrgetter("time_ns"))

    def _solve(self, first: int, *, last: bool = False) -> Optimum:
        """The optimum of the nodes from one on, once heading, fixes and stops agree with it.

        Args:
            first: index of the first node.
            last: nodes are not estimated once more, with those that follow.
        """
        if not self._headed:
            found = begin(self.nodes, rolls=self._rolls)
            if found is not None:
                first, self._prior, self._headed, self._rolls = 0, None, True, found
        rounds = FIRST_ROUNDS if self._solved and not last else ROUNDS
        optimum = self._agreed(first, rounds)
        now_ns = self.nodes[-1].time_ns
        # Half of the squared residuals of each node, beyond which the heading itself is taken to be wrong.
        doubtful = optimum.cost > 30.0 * len(optimum.nodes)
        due = last or not self._pace.whole or optimum.cost > 2.5 * len(optimum.nodes)
        if self._headed and (doubtful or (due and now_ns - self._tested_ns > TEST_NS)):
            self._tested_ns = now_ns
            for rolls in (self._rolls, False):
                if rolls_so(optimum, -1.0 if self._pace.whole else -math.inf) and not doubtful:
                    break
                anew = begin(self.nodes[first:], rolls=rolls)
                # What stands was not misled by driving that it does not show.
                if doubtful or anew is not None or self._pace.whole:
                    self._headed = anew is not None or self._pace.whole
                    self._rolls = anew if anew is not None else rolls and not self._headed
                    self._prior, doubtful = None, False
                    optimum = self._agreed(first, ROUNDS)
        if not math.isfinite(optimum.cost):
            raise ValueError("the measurements have no optimum")
        if self._headed:
            self.odometer.compare(self.nodes)
        return optimum

    def _agreed(self, first: int, rounds: int) -> Optimum:
        """The optimum of the nodes from one on, with those fixes and stops that agree with it."""
        optimum = self._optimum(first, rounds)
        for _ in range(3):
            refused = self.receiver.refuse(self.nodes[first:])
            stood = self._stand(optimum)
            changed = self.receiver.learn(self.nodes[first:]) or bool(stood)
            if not refused and False not in stood and not (changed and rounds == ROUNDS):
                break
            optimum = self._optimum(first, rounds)
        return optimum

    def misled(self) -> bool:
        """Find what contradicts all else, which is then used no more; whether there is any."""
        off_deg = math.degrees(self._courses.scatter_rad)
        if off_deg > NORTHS_DEG and self._courses.oriented and self.units.oriented:
            self.units.distrust(f"the IMU's orientations err by {off_deg:.0f}°: not used", wholly=False)
        elif self._late_s > 0 and not self.units.late_ns:
            self.units.late_ns = round(self._late_s * 1e9)
        elif self._astray and not math.isnan(self.units.rate):
            self.units.distrust("the IMU contradicts fixes that may be: it is not used", wholly=True)
        else:
            return False
        return True

    def _relearn(self) -> None:
        """Begin again where the IMU is found to measure something else, which has led the estimate astray."""
        if self._learnt == self.units.notes:
            return
        self._learnt, self.receiver.late_s = self.units.notes, self.units.late_ns / 1e9
        if self.nodes:
            self.receiver.tell()
            self._courses, self._rolls = Courses(), self._vehicle.rolls
            self._begin_with(self.nodes[-1:])

    def _give_up(self) -> None:
        """Begin again at the last node: no motion explains what was measured, and no pose is known there."""
        self.receiver.give_up(self.nodes)
        self._lost_s += (self.nodes[-1].time_ns - self.nodes[0].time_ns) / 1e9
        self.path.series.cut(self.nodes[0].time_ns + 1)
        self._begin_with(self.nodes[-1:])

    def _begin_with(self, nodes: list[Node]) -> None:
        self.receiver.drop(nodes[0].time_ns)
        self.nodes, nodes[0].segment, self._prior = nodes, None, None
        self._headed, self._solved, self._integrated = False, 0, len(nodes)

    def _optimum(self, first: int, rounds: int, stop: int | None = None) -> Optimum:
        """The optimum of some nodes, written into them."""
        nodes, prior = self.nodes[first:stop], self._prior if first == 0 else None
        if prior is None and first:
            heading_rad = 0.05 if self._rolls else 0.3
            prior = rough(nodes[0], tilt_rad=0.02, heading_rad=heading_rad, place_m=5.0, known_bias=True)
        elif prior is None:
            # Without any fix nothing depends on where it begins.
            placed = any(node.place is not None for node in nodes)
            prior = rough(nodes[0], place_m=1e3 if placed else 1.0)
        # Without the rule headings take longer.
        far = self._headed and not self._rolls
        rounds *= 3 if far else 1
        return Optimum(nodes, prior, rolls=self._headed and self._rolls, rounds=rounds, far=far)

    def _stand(self, optimum: Optimum) -> set[bool]:
        """Find where the vehicle stands: a quiet IMU, hardly any way, and a velocity that may be zero.

        Returns:
            What changed: nodes stand now, or do not any more, so that their optimum was bent.
        """
        changed: set[bool] = set()
        quietly = groupby(optimum.nodes, lambda node: node.segment is not None and node.segment.quiet)
        # Before the first fix nothing tells a steady drive from a stop.
        runs = [list(several) for quiet, several in quietly if quiet and self.receiver.datum is not None]
        for run in runs:
            if len(run) < 3:
                continue
            way = run[-1].pose.translation() - run[0].pose.translation()
            mean_m_s = math.hypot(way[0], way[1]) / (run[-1].time_ns - run[0].time_ns) * 1e9
            # What floats or flies is as quiet now and then, and drifts.
            standing = self._rolls and mean_m_s < STANDING_M_S
            sped = standing and optimum.moves(run[-1], run[0])
            if sped and len(run) >= SPLIT_NODES:
                runs += [run[: len(run) // 2], run[len(run) // 2 :]]  # which come in their turn
                continue
            standing = standing and not (sped or optimum.moves(run[-1]))
            changed |= {standing for each in run if each.standing != standing}
            for each in run:
                each.standing = standing
        return changed

    # The path

    def _rows(self, optimum: Optimum, nodes: list[Node]) -> tuple[list[int], Floats]:
        """Rows of the path."""
        self.fixes_ns = self.receiver.fixes_ns()
        sigmas = optimum.sigmas(nodes)
        arm_m = math.hypot(*self._vehicle.antenna_m)
        for row, node in zip(sigmas, nodes, strict=True):
            slow = float(np.linalg.norm(node.velocity_m_s)) < BACKWARDS_M_S
            blind = slow and node.segment is not None and not node.segment.turns
            if blind or not self._headed:
                # Without a gyroscope a slow rig may go backwards: so much, for half a turn now and then.
                # Standing tells of no heading, though velocities that are nearly zero seem to.
                sigma_rad = math.hypot(0.35 * blind, ANY_RAD * (not self._headed))
                row[3:] = np.hypot(row[3:], sigma_rad * node.pose.rotation().matrix()[2])
            # Where the antenna is, the rotation tells, whose error the fixes do not know of.
            row[:3] = np.hypot(row[:3], arm_m * min(float(row[3:].max()), 2.0))
        return rows_of(nodes, sigmas)

    def _shorten(self, optimum: Optimum) -> None:
        """Let a prior stand for what is older than the window."""
        # What moves sideways shows its heading in a longer time, and what stands for it must not be wrong.
        cut = self._index(self.nodes[-1].time_ns - self._pace.keep_ns * (1 if self._rolls else 2))
        if cut < 10:
            return
        self._prior = optimum.prior_at(cut) if self._headed else None
        self._direct(optimum, cut)
        self._drop(cut)

    def _publish(self, stop: int) -> None:
        """Estimate all nodes of the window at once, and publish those before one."""
        self._tested_ns = 0
        optimum = self._solve(0, last=True)
        # White noise that is a tenth too large would pass for the slow error.
        self.receiver.learn(self.nodes, least=0.0)
        enough = self._evident()
        self._late_s = self._lateness(min(enough, FEW))
        if enough and self.receiver.explain(self._optimum(0, 0, enough)):
            optimum = self._solve(0, last=True)
        self._astray |= self.receiver.astray(rolls=self._rolls)
        self._direct(optimum, stop)
        self.receiver.tell(self.nodes[stop - 1].time_ns + (stop == len(self.nodes)))
        self.path.replace(*self._rows(optimum, self.nodes[:stop]))
        if stop < len(self.nodes):
            self._prior = optimum.prior_at(stop - 1)
            self._drop(stop - 1)

    def _direct(self, optimum: Optimum, stop: int) -> None:
        """Compare the directions of nodes before one with those that are written, if they are sure."""
        last = max((n for n, node in enumerate(self.nodes[:stop]) if node.place is not None), default=0)
        sigma_rad = optimum.heading_sigma_rad(self.nodes[last]) if self._headed else math.inf
        if sigma_rad < SURE_RAD:
            self._courses.add(self.nodes[: last + 1], sigma_rad, rolls=self._rolls)

    def _lateness(self, count: int) -> float:
        """By how many seconds fixes are late against the IMU: what costs least; 0 if nothing is sure."""
        costs = [self._cost(late_s, count) for late_s in LATE_S[:2]] if count else [0.0, 0.0]
        if not costs[1] < costs[0] < math.inf:
            return 0.0
        bend, slope, _ = np.polyfit(LATE_S, [*costs, self._cost(LATE_S[2], count)], 2).tolist()
        best_s: float = -slope / (2 * bend)
        # Of the ten seconds that there are during a drive, a gain of less than e¹⁰ is chance.
        most = min(SURELY * costs[0], costs[0] - 10.0)
        return best_s if best_s > 0 and self._cost(best_s, count) < most else 0.0

    def _cost(self, late_s: float, count: int) -> float:
        """The cost of the first nodes, were their fixes so late."""
        nodes = [replace(node) for node in self.nodes[:count]]
        for node in nodes:
            if node.place is not None:
                ahead_m = node.place.position_m + late_s * node.velocity_m_s
                node.place = replace(node.place, position_m=ahead_m)
        prior = rough(nodes[0], tilt_rad=0.02, heading_rad=0.1, place_m=20.0, known_bias=True)
        return min(1e12, Optimum(nodes, prior, rolls=self._headed and self._rolls, rounds=2).cost)

    def _evident(self) -> int:
        """How many nodes show the receiver's slow error; 0 if all do not."""
        known = (n.place is not None and n.segment is not None and n.segment.feels for n in self.nodes)
        shown = [index for index, is_known in enumerate(known) if is_known]
        return shown[:MOST_EVIDENCE][-1] + 1 if self._headed and len(shown) >= LEAST_EVIDENCE else 0

    def _drop(self, count: int) -> None:
        node = self.nodes[count]
        self.receiver.drop(node.time_ns)
        del self.nodes[:count]
        self._solved -= count
        self._integrated -= count


def solve(
    log: NavigationLog,
    vehicle: Vehicle,
    rig_from_imu_xyzw: Quaternion | None,
    proceed: Callable[[], bool] = lambda: True,
) -> Motion:
    """Estimate the motion of a whole drive.

    Args:
        log: its measurements.
        vehicle: what the configuration says of it.
        rig_from_imu_xyzw: rotates from the IMU's axes to the rig's.
        proceed: called now and then; False stops, and the result is then no estimate.
    """
    units = Units(rig_from_imu_xyzw)
    learner: Units | Motion = units
    motion = Motion(vehicle, rig_from_imu_xyzw, WHOLE, units)
    # What the drive tells of its IMU is known before anything is estimated.
    while True:
        motion.odometer = log.odometer
        motion.receiver.altitude_m = log.altitude_m
        for part in log.measured(late_ns=units.late_ns):
            if len(part) == 3:
                learner.add_fix(*part)
            else:
                learner.add_samples(*part)
            if not proceed():
                return Motion(vehicle, rig_from_imu_xyzw)
        if learner is motion:
            motion.finish()
            if not motion.misled():
                break
        learner = motion = Motion(vehicle, rig_from_imu_xyzw, WHOLE, units)
    motion.refusals = {arrival: reason for arrival, reason in motion.receiver.judged() if reason is not None}
    return motion
