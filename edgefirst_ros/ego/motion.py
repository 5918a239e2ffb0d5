"""The motion of the rig from IMU samples and fixes, during a drive and after it: one graph over a window."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import gtsam
import numpy as np

from edgefirst_ros.ego.beginning import begin, carry, headed, placed, settle, steered
from edgefirst_ros.ego.findings import Courses, Mounting, refused_text, restart_text
from edgefirst_ros.ego.fixes import (
    DUPLICATE,
    EPOCH_NS,
    FROZEN,
    OUTLIER,
    SAME_M,
    Fix,
    FixJudge,
    JudgedFix,
    Vehicle,
    drivable,
)
from edgefirst_ros.ego.geometry import (
    STANDARD_GRAVITY_M_S2,
    Floats,
    Quaternion,
    enu_m,
    gravity_m_s2,
)
from edgefirst_ros.ego.graph import (
    ANY_RAD,
    FAR_M,
    FAST_M_S,
    KNOT_NS,
    LEANING_RAD,
    Node,
    Optimum,
    Place,
    Prior,
    Rolling,
    rough,
)
from edgefirst_ros.ego.inertia import SAMPLE_COLUMNS, Preintegrator, sample_row
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.ego.path import COLUMNS, Point, SmoothedPath, rows_of
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint

NODE_NS = 200_000_000
"""Least distance of nodes besides those at fixes: rolling and standing are told at them."""
ALONE_NS = 2_000_000_000
"""A first fix is believed after this time if it remains the only one."""
FINAL_NS = 6_000_000_000
"""During a drive poses older than this do not change any more: waits are shorter."""
OVERLAP_NS = 8_000_000_000
"""A drive's part is first estimated with so much of the part before."""
RECOVER_NS, RECOVER_WHOLE_NS = 2_500_000_000, 10_000_000_000
"""Refused fixes over this time, with none believed after them, disprove the motion; the second for a whole
drive, where those after them are known, too."""
SIGMAS, LEAST_OFF_M, LEAST_OFF_UP_M = 6.0, 5.0, 15.0
"""A fix nearer than this is never refused, but it may weigh less."""
WHITE_M, FLOOR_M, CEILING_M = (1.0, 1.0, 2.0), 0.01, 10.0
"""White noise of fixes that declare none: at first, at least and at most."""
WANDER = (1.0, 1.0)
"""Slow error of a receiver as a multiple of its white noise, level and up, until a drive shows it."""
WANDERS = (0.03, 0.3, 0.8, 1.3)
"""Of these the likeliest is taken for a whole drive ..."""
WANDER_NODES = 900
"""... from so many nodes, three minutes: it takes a fifth of the time of the estimate."""
DECLARED_WHITE, DECLARED_WANDER = 0.5, 0.85
"""Shares of a declared standard deviation: most of a receiver's error stays for a minute."""
STEERS = 8
"""Times that a mounting is corrected at once: each halves what is left."""
DOUBT = 30.0
"""Half of the squared residuals of each node, beyond which the heading itself is taken to be wrong."""
LEAST_FIXES = 6
"""As many show their noise."""
STANDING_M_S = 0.5
NO_OPTIMUM = (RuntimeError, ValueError, np.linalg.LinAlgError)
"""What GTSAM and numpy raise where measurements contradict each other beyond all noise."""
ROUNDS, FIRST_ROUNDS = 8, 2
"""Iterations at most: four are usual. The second: of a part that is estimated once more with the rest."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much of a drive is estimated at a time.

    Attributes:
        stride_ns: how often.
        keep_ns: what stays in the graph; before it a prior stands for the rest.
        ahead_ns: how much later than a pose the data must reach before it is final.
        whole: the drive is over: every pose is estimated once, from all around it.
    """

    stride_ns: int
    keep_ns: int
    ahead_ns: int
    whole: bool


WHOLE = Pace(40_000_000_000, 600_000_000_000, 60_000_000_000, whole=True)


def lagging(again_ns: int) -> Pace:
    """The pace of a drive that goes on: every so often, from what came so far."""
    return Pace(max(again_ns, 1), 15_000_000_000, 0, whole=False)


@dataclass(slots=True, eq=False)
class _Epoch:
    """Fixes of one time that contradict each other, or one alone, and which of them is believed."""

    node: Node
    fixes: list[Fix]
    chosen: int | None = None
    refused: set[int] = field(default_factory=set)
    told: bool = False
    told_elsewhere: bool = False
    _places: dict[int, Floats] = field(default_factory=dict)

    def place(self, datum: GeoPoint) -> Floats:
        """The chosen fix in ENU at a point that is always the same, metres (3,)."""
        number = self.chosen or 0
        if number not in self._places:
            self._places[number] = np.array(enu_m(self.fixes[number].point, datum))
        return self._places[number]


class Motion:
    """Estimates the motion from measurements in order of time.

    Attributes:
        origin: of the local frame: the first believed fix.
        fixes_ns: times of believed fixes that are not forgotten yet.
        oriented: whether the IMU has orientations.
        refusals: why fixes were refused, by the running number of their message.
    """

    def __init__(
        self, vehicle: Vehicle | None = None, rig_from_imu_xyzw: Quaternion | None = None, pace: Pace = WHOLE
    ) -> None:
        vehicle = vehicle or Vehicle()
        self.oriented = False
        self.refusals: dict[int, str] = {}
        self.origin: GeoPoint | None = None
        self.fixes_ns: list[int] = []
        self._vehicle, self._mount, self._pace = vehicle, rig_from_imu_xyzw, pace
        self._inertia = Preintegrator(rig_from_imu_xyzw)
        self._judge = FixJudge()
        self._times: list[int] = []
        self._samples: list[Sequence[float] | Floats] = []
        self._nodes: list[Node] = []
        self._epochs: list[_Epoch] = []
        self._last_epoch: _Epoch | None = None
        self._past_fixes_ns: list[int] = []
        """Of believed fixes that are not in the window any more."""
        self._judged: list[JudgedFix] = []
        self._prior: Prior | None = None
        self._rolling: Rolling | None = None
        """How it rolls once the heading is known; None before."""
        self._solved = 0
        """Nodes that have an estimate."""
        self._located = False
        self._due_ns: int | None = None
        self._knot_ns: int | None = None
        self._gravity = STANDARD_GRAVITY_M_S2
        self._datum: GeoPoint | None = None
        self._white, self._wander = np.array(WHITE_M), np.array(WANDER)
        if vehicle.fix_sigma_m:
            self._white = vehicle.fix_sigma_m * np.array((1.0, 1.0, 2.0)) * DECLARED_WHITE
        self._path = SmoothedPath()
        self._shift_m = np.zeros(3)
        self._courses = Courses()
        self._worst: tuple[float, float] = (0.0, math.nan)
        self._outliers = self._restarts = self._given_up_ns = 0

    # Measurements

    def add_imu(self, time_ns: int, imu: Imu) -> None:
        """Add an IMU sample."""
        self.add_sample(time_ns, sample_row(imu))

    def add_sample(self, time_ns: int, sample: Sequence[float] | Floats) -> None:
        """Add an IMU sample as ``inertia.sample_row`` gives it."""
        if self._times and time_ns <= self._times[-1]:
            return
        self._times.append(time_ns)
        self._samples.append(sample)
        if not self._nodes or time_ns - self._nodes[-1].time_ns >= NODE_NS:
            self._cut(time_ns)
            self._pass(time_ns)

    def add_fix(self, time_ns: int, arrival: int, fix: NavSatFix, *, speed_m_s: float = math.nan) -> None:
        """Add a fix by the running number of its message; ``judged`` returns the result.

        ``speed_m_s`` is that of the wheels, NaN if it is unknown.
        """
        judged = self._judge.judge(time_ns, arrival, fix)
        if isinstance(judged, str):
            self._judged.append((arrival, judged))
            return
        last = self._last_epoch
        if last is not None and judged.time_ns - last.fixes[0].time_ns < EPOCH_NS:
            if any(math.dist(judged.ecef, each.ecef) < SAME_M for each in last.fixes) or last.told:
                self._judged.append((arrival, DUPLICATE))
            else:
                last.fixes.append(judged)
            return
        if self._judge.freezes(judged, speed_m_s=speed_m_s):
            self._judged.append((arrival, FROZEN))
            return
        self._last_epoch = _Epoch(self._cut(time_ns), [judged])
        self._epochs.append(self._last_epoch)
        self._pass(time_ns)

    def finish(self) -> None:
        """Estimate what is left: nothing more arrives."""
        if self._times and (not self._nodes or self._times[-1] > self._nodes[-1].time_ns):
            self._cut(self._times[-1])
        self._settle(final=True)
        if self._pace.whole and self._nodes:
            self._publish(len(self._nodes))
        for epoch in self._epochs:
            self._tell(epoch)
        self._courses.add(self._nodes, self._rolling)

    def _cut(self, time_ns: int) -> Node:
        """The node at a time, which is not earlier than the last."""
        if not self._nodes:
            self._nodes.append(Node(0, time_ns))
            return self._nodes[-1]
        last = self._nodes[-1]
        if time_ns <= last.time_ns:
            return last
        samples = np.array(self._samples).reshape(-1, SAMPLE_COLUMNS)
        segment = self._inertia.segment(last.time_ns, time_ns, self._times, samples, self._gravity)
        del self._times[:-1], self._samples[:-1]
        node = Node(last.index + 1, time_ns, segment)
        reading = segment.orientation
        if reading is not None and (self._knot_ns is None or time_ns - self._knot_ns >= KNOT_NS):
            node.orientation, self._knot_ns = reading, time_ns
        if segment.turns and segment.feels:
            turned = gtsam.Rot3.Logmap(segment.measured.deltaRij())
            self._judge.felt(segment.dt_s, turned, segment.force_m_s2)
        self._nodes.append(node)
        return node

    def _pass(self, time_ns: int) -> None:
        if self._due_ns is None:
            self._due_ns = time_ns + self._pace.stride_ns
        if time_ns >= self._due_ns:
            self._due_ns = time_ns + self._pace.stride_ns
            self._settle(final=False)

    # Results

    def judged(self) -> Iterator[JudgedFix]:
        """Fixes believed or refused since the last call."""
        done, self._judged = self._judged, []
        yield from done

    def leave_telling(self) -> None:
        """Another estimate, of which this one is a copy, tells what becomes of the fixes so far."""
        self._judged = []
        for epoch in self._epochs:
            epoch.told_elsewhere = True

    @property
    def has_begun(self) -> bool:
        """Whether anything has arrived."""
        return bool(self._nodes)

    @property
    def mounting(self) -> Mounting | None:
        """How the IMU is rotated against its configuration, None if it may be as configured."""
        return self._courses.mounting(self._mount)

    @property
    def notes(self) -> list[str]:
        """Sentences on what has been found so far."""
        found = []
        if self._outliers:
            found.append(refused_text(self._outliers, *self._worst))
        if self._given_up_ns:
            seconds = self._given_up_ns / 1e9
            found.append(
                f"for {seconds:,.1f} s no motion explains what IMU and GPS measured: no pose is known"
            )
        if self._restarts:
            found.append(restart_text(self._restarts))
        return found

    def point(self, time_ns: int) -> Point | None:
        """The estimate at a time, None if there is none."""
        return self._path.at(time_ns)

    def forget(self, before_ns: int) -> None:
        """Drop what is not needed for times from ``before_ns`` on."""
        self._path.forget(before_ns)
        old = bisect_left(self._past_fixes_ns, before_ns - 60_000_000_000)
        if old > 100:
            del self._past_fixes_ns[:old]

    # The estimate

    def _settle(self, *, final: bool) -> None:
        """Estimate what has come since the last time."""
        if not self._nodes:
            return
        now_ns = self._nodes[-1].time_ns
        try:
            self._choose(now_ns, final=final)
            self._prepare()
            first = self._overlap() if self._pace.whole else 0
            optimum = self._solve(first, FIRST_ROUNDS if self._solved else ROUNDS)
        except NO_OPTIMUM:
            self._give_up()
            return
        self._solved = len(self._nodes)
        if not self._pace.whole:
            self._publish_lag(optimum)
            for epoch in self._epochs:
                settled = self._datum is not None and now_ns - epoch.node.time_ns >= self._pace.stride_ns
                if final or settled:
                    self._tell(epoch)
            self._shorten(optimum)
        elif now_ns - self._nodes[0].time_ns > self._pace.keep_ns + 2 * self._pace.ahead_ns:
            self._publish(bisect_left(self._nodes, now_ns - self._pace.ahead_ns, key=_time))

    def _choose(self, now_ns: int, *, final: bool) -> None:
        """Choose which fixes may be: the longest chain that a vehicle could have driven."""
        horizon_ns = now_ns - (self._pace.stride_ns + OVERLAP_NS if self._pace.whole else 3_000_000_000)
        recent = [each for each in self._epochs if each.node.time_ns >= horizon_ns]
        candidates = [
            (epoch, number)
            for epoch in recent
            for number in range(len(epoch.fixes))
            if number not in epoch.refused
        ]
        if not candidates:
            return
        fixes = [epoch.fixes[number] for epoch, number in candidates]
        chain = drivable(
            [epoch.node.time_ns for epoch, _ in candidates], np.array([fix.ecef for fix in fixes])
        )
        if self._datum is None:
            if sum(chain) < 2 and not final and now_ns - recent[0].node.time_ns < ALONE_NS:
                return
            self._datum = next(fix.point for fix, is_in in zip(fixes, chain, strict=True) if is_in)
            self._gravity = gravity_m_s2(self._datum)
        chosen = {
            id(epoch): number for (epoch, number), is_in in zip(candidates, chain, strict=True) if is_in
        }
        left = 0
        for epoch in recent:
            number = chosen.get(id(epoch))
            if epoch.told:
                if number is None and epoch.node.place is not None:
                    epoch.node.place, left = None, left + 1
                continue
            if number != epoch.chosen or (number is not None and epoch.node.place is None):
                epoch.chosen = number
                self._believe(epoch)
        self._restarts += left > 0

    def _believe(self, epoch: _Epoch) -> None:
        """Give a node the place that its fix tells."""
        epoch.node.shown_m = None
        if epoch.chosen is None or epoch.chosen in epoch.refused or self._datum is None:
            epoch.node.place = None
            return
        declared = epoch.fixes[epoch.chosen].sigma_m
        if declared is not None:
            sigma = np.maximum(declared, 0.02)
            white, wander = sigma * DECLARED_WHITE, sigma * DECLARED_WANDER
        elif self._vehicle.fix_sigma_m:
            white, wander = self._white, self._white * (DECLARED_WANDER / DECLARED_WHITE)
        else:
            white, wander = self._white, np.maximum(self._white * self._wander[[0, 0, 1]], 0.5 * FLOOR_M)
        epoch.node.place = Place(epoch.place(self._datum), white, wander)

    def _prepare(self) -> None:
        """Initial values of new nodes, by the IMU from the last estimate, and near the fixes."""
        nodes = self._nodes
        start = self._solved
        if start == 0:
            self._tilt()
        for before, node in zip(nodes[start - 1 :], nodes[start:], strict=False):
            if start == 0 or node.segment is None:
                break
            state = node.segment.measured.predict(
                gtsam.NavState(before.pose, before.velocity_m_s), before.bias
            )
            node.pose, node.velocity_m_s, node.bias = state.pose(), state.velocity(), before.bias
        placed(nodes[start:])
        if self._rolling is not None:
            headed(nodes[start:])
        elif self._solved and not self._located:
            self._locate()
        north = next((node.north for node in reversed(nodes) if node.north is not None), None)
        for node in nodes[start:]:
            if node.orientation is not None and north is not None:
                node.north = north

    def _locate(self) -> None:
        """Move what was estimated without fixes to the first of them."""
        nodes = self._nodes
        first = next((index for index, node in enumerate(nodes) if node.place is not None), None)
        if first is None:
            return
        self._located = True
        place = nodes[first].place
        if place is not None:
            off = place.position_m - nodes[first].pose.translation()
            for node in nodes[: max(first, self._solved)]:
                node.pose = gtsam.Pose3(node.pose.rotation(), node.pose.translation() + off)
        placed(nodes[first:])
        self._solved = 0

    def _tilt(self) -> None:
        carry(self._nodes, 0)
        settle(self._nodes)
        reading = next((each for each in self._nodes if each.orientation is not None), None)
        if reading is not None and reading.orientation is not None:
            reading.pose = gtsam.Pose3(reading.orientation, np.zeros(3))
            carry(self._nodes, self._nodes.index(reading))

    def _overlap(self) -> int:
        if not self._solved:
            return 0
        return max(0, bisect_left(self._nodes, self._nodes[self._solved - 1].time_ns - OVERLAP_NS, key=_time))

    def _solve(self, first: int, rounds: int, *, steers: bool = True) -> Optimum:
        """The optimum of the nodes from one on, with those fixes that agree with it."""
        if self._rolling is None:
            self._rolling = begin(self._nodes, rolls=self._vehicle.rolls)
            if self._rolling is not None:
                first, self._prior = 0, None
        rolling = self._rolling or Rolling(None)
        again = rounds > FIRST_ROUNDS or not self._pace.whole
        optimum = self._optimum(first, rolling, rounds)
        for _ in range(3):
            optimum.kept()
            refused = self._refuse(first)
            changed = self._stand(first)
            changed = self._learn(first) or changed
            if not refused and not (changed and again):
                break
            optimum = self._optimum(first, rolling, rounds)
        optimum.kept()
        for _ in range(STEERS if steers else 0):
            turned = None if self._rolling is None else steered(optimum.nodes, self._rolling)
            if turned is None:
                break
            self._rolling = turned
            optimum = self._optimum(first, turned, rounds)
            optimum.kept()
        if self._rolling is not None and optimum.cost > DOUBT * len(optimum.nodes):
            other = begin(self._nodes[first:], rolls=self._vehicle.rolls)
            if other is not None:
                self._rolling, self._prior = other, None if first == 0 else self._prior
                better = self._optimum(first, other, ROUNDS)
                better.kept()
                return better
        if not math.isfinite(optimum.cost):
            raise ValueError("the measurements have no optimum")
        return optimum

    def _give_up(self) -> None:
        """Begin again at the last node: no motion explains what was measured, and no pose is known there."""
        for epoch in self._epochs:
            epoch.node.place = None
            self._tell(epoch)
        self._given_up_ns += self._nodes[-1].time_ns - self._nodes[0].time_ns
        self._path.settle(self._nodes[0].time_ns)
        self._path.end_with([], np.empty((0, COLUMNS)))
        self._nodes, self._epochs = [Node(0, self._nodes[-1].time_ns)], []
        self._last_epoch = self._prior = self._rolling = self._knot_ns = None
        self._solved, self._located = 0, False

    def _optimum(self, first: int, rolling: Rolling, rounds: int, most: int | None = None) -> Optimum:
        nodes = self._nodes[first:most]
        prior = self._prior if first == 0 else None
        if prior is None:
            known = self._rolling is not None
            if first:
                prior = rough(
                    nodes[0],
                    tilt_rad=0.02,
                    heading_rad=0.05 if known else ANY_RAD,
                    place_m=5.0,
                    known_bias=True,
                )
            else:
                prior = rough(nodes[0], tilt_rad=LEANING_RAD, heading_rad=ANY_RAD, place_m=self._far_m(nodes))
        return Optimum(nodes, prior, rolling, rounds=rounds)

    def _far_m(self, nodes: Sequence[Node]) -> float:
        """How far from the first fix the rig may have begun; without any nothing depends on it."""
        fix = next((node for node in nodes if node.place is not None), None)
        return 1.0 if fix is None else min(FAR_M, 20.0 + FAST_M_S * (fix.time_ns - nodes[0].time_ns) / 1e9)

    def _refuse(self, first: int) -> bool:
        """Refuse fixes that contradict the motion, believe those again that do not; whether any changed."""
        changed = False
        start_ns = self._nodes[first].time_ns
        run: list[_Epoch] = []
        for epoch in self._epochs:
            if epoch.node.time_ns < start_ns or epoch.chosen is None or self._datum is None:
                continue
            off = epoch.place(self._datum) - epoch.node.pose.translation()
            noise = np.hypot(self._white, self._white * self._wander[[0, 0, 1]])
            level_m, up_m = math.hypot(off[0], off[1]), abs(float(off[2]))
            far = level_m > max(LEAST_OFF_M, SIGMAS * noise[0]) or up_m > max(
                LEAST_OFF_UP_M, SIGMAS * noise[2]
            )
            if not far:
                run = []
                if epoch.node.place is None and not epoch.told:
                    epoch.refused.discard(epoch.chosen)
                    self._believe(epoch)
                    changed = True
                continue
            run.append(epoch)
            if epoch.node.place is None:
                continue
            if epoch.told:
                epoch.node.place = None
                changed = True
                continue
            epoch.refused.add(epoch.chosen)
            self._note(epoch, level_m, up_m)
            other = next((n for n in range(len(epoch.fixes)) if n not in epoch.refused), None)
            if other is not None:
                epoch.chosen = other
            self._believe(epoch)
            changed = True
        return self._begin_again(run) or changed

    def _begin_again(self, run: list[_Epoch]) -> bool:
        """Take the motion to be wrong if fixes contradict it for long, and none agrees after them."""
        least_ns = RECOVER_WHOLE_NS if self._pace.whole else RECOVER_NS
        if len(run) < 3 or run[-1].node.time_ns - run[0].node.time_ns < least_ns:
            return False
        if run[0].node.begins_again:
            return False
        self._restarts += 1
        run[0].node.begins_again = True
        for epoch in run:
            epoch.refused.discard(epoch.chosen or 0)
            self._believe(epoch)
        placed(self._nodes[self._nodes.index(run[0].node) :])
        return True

    def _note(self, epoch: _Epoch, level_m: float, up_m: float) -> None:
        off_m = max(level_m, up_m)
        if off_m > self._worst[0]:
            others = [e.node.time_ns for e in self._epochs if e.node.place is not None and e is not epoch]
            apart_s = min((abs(t - epoch.node.time_ns) / 1e9 for t in others), default=math.nan) or math.nan
            self._worst = off_m, off_m / apart_s

    def _stand(self, first: int) -> bool:
        """Find where the vehicle stands: a quiet IMU, and hardly any way; whether anything changed."""
        changed, run = False, list[Node]()
        if self._datum is None:
            return False  # nothing tells a steady drive from a stop
        for node in [*self._nodes[first:], None]:
            if node is not None and node.segment is not None and node.segment.quiet:
                run.append(node)
                continue
            if len(run) >= 3:
                span_s = (run[-1].time_ns - run[0].time_ns) / 1e9
                way = run[-1].pose.translation() - run[0].pose.translation()
                standing = math.hypot(way[0], way[1]) / span_s < STANDING_M_S and not self._drove(run)
                for each in run:
                    changed = changed or each.standing != standing
                    each.standing = standing
            run = []
        return changed

    def _drove(self, run: list[Node]) -> bool:
        """Whether the fixes of a quiet time tell of a steady drive."""
        having = [(node.time_ns, node.place.position_m[:2]) for node in run if node.place is not None]
        if len(having) < 4:
            return False
        half = len(having) // 2
        times = np.array([time_ns - having[0][0] for time_ns, _ in having]) / 1e9
        places = np.array([place for _, place in having])
        apart_s = float(times[half:].mean() - times[:half].mean())
        moved = float(np.linalg.norm(places[half:].mean(axis=0) - places[:half].mean(axis=0)))
        noise = 2 * float(self._white[0]) / math.sqrt(half)
        return moved > STANDING_M_S * apart_s + 3 * noise

    def _learn(self, first: int) -> bool:
        """Learn the fixes' white noise from how their error changes to the next; whether it changed."""
        if self._vehicle.fix_sigma_m or self._datum is None:
            return False
        known = [
            e for e in self._epochs if e.node.place is not None and e.fixes[e.chosen or 0].sigma_m is None
        ]
        known = [e for e in known if e.node.time_ns >= self._nodes[first].time_ns]
        if len(known) < LEAST_FIXES:
            return False
        off = np.array([e.place(self._datum) - e.node.pose.translation() for e in known])
        differ = np.abs(np.diff(off, axis=0))
        axes = 1.4826 * np.median(differ, axis=0) / math.sqrt(2)
        level = math.sqrt(0.5 * float(axes[0] ** 2 + axes[1] ** 2))
        found = np.clip((level, level, float(axes[2])), FLOOR_M, CEILING_M)
        if np.all(np.abs(np.log(found / self._white)) < 0.2):
            return False
        self._white = found
        for epoch in self._epochs:
            if epoch.node.place is not None:
                self._believe(epoch)
        return True

    def _explain(self, rolling: Rolling) -> None:
        """Find the slow error of the fixes that explains a drive best."""
        if self._vehicle.fix_sigma_m or self._rolling is None:
            return
        nodes = self._nodes[:WANDER_NODES]
        blind = sum(node.segment is None or not node.segment.feels for node in nodes)
        if sum(node.place is not None for node in nodes) < 100 or 2 * blind > len(nodes):
            return
        optimum = self._optimum(0, rolling, FIRST_ROUNDS, WANDER_NODES)
        level, up = (float(self._white[axis]) for axis in (0, 2))
        best = optimum.likeliest(rolling, [(level * ratio, up * WANDER[1]) for ratio in WANDERS])
        self._wander[0] = WANDERS[best]
        best = optimum.likeliest(rolling, [(level * self._wander[0], up * ratio) for ratio in WANDERS])
        self._wander[1] = WANDERS[best]
        for epoch in self._epochs:
            if epoch.node.place is not None:
                self._believe(epoch)

    def _tell(self, epoch: _Epoch) -> None:
        """Tell what becomes of an epoch's fixes."""
        if epoch.told:
            return
        epoch.told = True
        if epoch.told_elsewhere:
            return
        for number, fix in enumerate(epoch.fixes):
            believed = number == epoch.chosen and epoch.node.place is not None
            near = any(math.dist(fix.ecef, other.ecef) < SAME_M for other in epoch.fixes if other is not fix)
            reason = None if believed else DUPLICATE if near else OUTLIER
            self._judged.append((fix.arrival, reason))
            if reason is OUTLIER:
                self._outliers += 1
                if self._datum is not None and epoch.chosen is None:
                    off = np.array(enu_m(fix.point, self._datum)) - epoch.node.pose.translation()
                    self._note(epoch, math.hypot(off[0], off[1]), abs(float(off[2])))

    # The path

    def _anchor(self) -> None:
        """The origin is the first believed fix."""
        if self.origin is not None or self._datum is None:
            return
        first = next((each for each in self._epochs if each.node.place is not None), None)
        if first is not None:
            self.origin = first.fixes[first.chosen or 0].point
            self._shift_m = first.place(self._datum)

    def _rows(self, optimum: Optimum, nodes: list[Node]) -> tuple[list[int], Floats]:
        self._anchor()
        believed = [each.node.time_ns for each in self._epochs if each.node.place is not None]
        self.fixes_ns = [*self._past_fixes_ns, *believed]
        sigmas = optimum.sigmas(nodes)
        if self._rolling is None and not any(node.orientation is not None for node in self._nodes):
            # Standing tells of no heading, though velocities that are nearly zero seem to.
            ups = np.array([node.pose.rotation().matrix()[2] for node in nodes])
            sigmas[:, 3:] = np.hypot(sigmas[:, 3:], ANY_RAD * ups)
        times, rows = rows_of(nodes, sigmas, self._norths(nodes), self._gravity)
        rows[:, :3] -= self._shift_m
        return times, rows

    def _norths(self, nodes: Sequence[Node]) -> Floats:
        """By how much the AHRS's north is turned to the left at nodes, in radians; 0 without an AHRS."""
        before = None if self._prior is None else self._prior.turned
        knots = [each for each in (before, *self._nodes) if each is not None and each.north is not None]
        if not knots:
            return np.zeros(len(nodes))
        turned = np.array(
            [[*each.north.rotation().matrix()[:2, 0]] for each in knots if each.north is not None]
        )
        angles = np.unwrap(np.arctan2(turned[:, 1], turned[:, 0]))
        base = knots[0].time_ns
        known = [each.time_ns - base for each in knots]
        found = np.interp([node.time_ns - base for node in nodes], known, angles)
        return np.asarray(np.remainder(found + np.pi, 2 * np.pi) - np.pi)

    def _publish_lag(self, optimum: Optimum) -> None:
        """Publish the newest nodes: nobody waits longer for a pose than for the others."""
        first = bisect_left(self._nodes, self._nodes[-1].time_ns - FINAL_NS, key=_time)
        nodes = self._nodes[max(0, first - 1) :]
        self._path.settle(nodes[0].time_ns - 1)
        times, rows = self._rows(optimum, nodes)
        self._path.end_with(times, rows)

    def _shorten(self, optimum: Optimum) -> None:
        """Let a prior stand for what is older than the window."""
        now_ns = self._nodes[-1].time_ns
        cut = bisect_left(self._nodes, now_ns - self._pace.keep_ns, key=_time)
        if cut < 10:
            return
        if self._datum is None:
            self._prior = None
        elif self._rolling is None:
            node = self._nodes[cut]
            self._prior = rough(node, tilt_rad=0.03, heading_rad=ANY_RAD, place_m=5.0, known_bias=True)
        else:
            self._prior = optimum.prior_at(cut, self._rolling)
        self._drop(cut)

    def _publish(self, stop: int) -> None:
        """Estimate all nodes of the window at once, and publish those before one."""
        rolling = self._rolling or Rolling(None)
        try:
            self._explain(rolling)
            optimum = self._solve(0, ROUNDS, steers=False)
        except NO_OPTIMUM:
            self._give_up()
            return
        for epoch in self._epochs:
            if epoch.node.time_ns < self._nodes[stop - 1].time_ns or stop == len(self._nodes):
                self._tell(epoch)
        times, rows = self._rows(optimum, self._nodes[:stop])
        self._path.append(times, rows)
        if stop < len(self._nodes):
            self._prior = optimum.prior_at(stop - 1, rolling)
            self._drop(stop - 1)

    def _drop(self, count: int) -> None:
        node = self._nodes[count]
        self._courses.add(self._nodes[:count], self._rolling)
        self._past_fixes_ns += [
            e.node.time_ns for e in self._epochs if e.node.place and e.node.time_ns < node.time_ns
        ]
        self._epochs = [each for each in self._epochs if each.node.time_ns >= node.time_ns]
        del self._nodes[:count]
        self._solved -= count


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
    motion = Motion(vehicle, rig_from_imu_xyzw)
    motion.oriented = log.oriented
    fixes = log.fixes()
    fix = next(fixes, None)
    for number, (time_ns, sample) in enumerate(log.samples(oriented=motion.oriented)):
        while fix is not None and fix[0] <= time_ns:
            motion.add_fix(*fix)
            fix = next(fixes, None)
        motion.add_sample(time_ns, sample)
        if number % 20_000 == 0 and not proceed():
            return Motion(vehicle, rig_from_imu_xyzw)
    while fix is not None:
        motion.add_fix(*fix)
        fix = next(fixes, None)
    motion.finish()
    motion.refusals = {arrival: reason for arrival, reason in motion.judged() if reason is not None}
    return motion


def _time(node: Node) -> int:
    return node.time_ns
