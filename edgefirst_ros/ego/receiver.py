"""What is believed of the receiver: which of its fixes, their white noise, and their slow error."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edgefirst_ros.ego.findings import refused_text, restart_text
from edgefirst_ros.ego.fixes import EPOCH_NS, SAME_M, Fix, FixJudge, JudgedFix, Vehicle, drivable
from edgefirst_ros.ego.geometry import Floats, enu_m
from edgefirst_ros.ego.graph import Node, Optimum, Place
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.messages.reasons import Reason
from edgefirst_ros.sample import GeoPoint

ALONE_NS = 2_000_000_000
"""A first fix is believed after this time if it remains the only one."""
SIGMAS, LEAST_OFF_M, LEAST_OFF_UP_M = 6.0, 5.0, 15.0
"""A fix nearer than this is never refused, but it may weigh less."""
WHITE_M, FLOOR_M, CEILING_M = (1.0, 1.0, 2.0), 0.01, 10.0
"""White noise of fixes that declare none: at first, at least and at most."""
WANDER = 1.0
"""Slow error of a receiver as a multiple of its white noise, until a drive shows it."""
WANDERS, ODDS, UNLIKELY = (0.03, 1.0, 2.0, 4.0), 25.0, 7.0
"""What a whole drive is asked for. An error that stays the same all the time cannot be seen, and real
receivers wander by more than their noise: that is taken to be so much likelier than none. Beyond one that is
e⁻⁷ as likely larger ones are not looked at."""
DECLARED_WHITE, DECLARED_WANDER = 0.5, 0.85
"""Shares of a declared standard deviation: most of a receiver's error stays for a minute."""
LEAST_FIXES = 6
"""As many show their noise."""


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

    @property
    def is_believed(self) -> bool:
        """Whether its node has a place."""
        return self.node.place is not None

    def place(self, datum: GeoPoint) -> Floats:
        """The chosen fix in ENU at a point that is always the same, metres (3,)."""
        number = self.chosen or 0
        if number not in self._places:
            self._places[number] = np.array(enu_m(self.fixes[number].point, datum))
        return self._places[number]


class Receiver:
    """Judges fixes, first by themselves, then by the motion, and gives nodes their places.

    Args:
        vehicle: what the configuration says of it.
        recover_ns: refused fixes over this time, with none believed after them, disprove the motion.

    Attributes:
        judge: of fixes by themselves.
        datum: origin of the places that nodes get; None until a fix is chosen.
        white_m: white noise of fixes that declare none (3,).
    """

    def __init__(self, vehicle: Vehicle, recover_ns: int) -> None:
        self.judge = FixJudge()
        self.datum: GeoPoint | None = None
        self.white_m, self._wander = np.array(WHITE_M), WANDER
        self._learns = not vehicle.fix_sigma_m
        if not self._learns:
            self.white_m = vehicle.fix_sigma_m * np.array((1.0, 1.0, 2.0)) * DECLARED_WHITE
            self._wander = DECLARED_WANDER / DECLARED_WHITE
        self._recover_ns = recover_ns
        self._epochs: list[_Epoch] = []
        self._last: _Epoch | None = None
        self._past_ns: list[int] = []
        """Of believed fixes that are not in the window any more."""
        self._judged: list[JudgedFix] = []
        self._worst: tuple[float, float] = (0.0, math.nan)
        self._outliers = self._restarts = 0

    def take(self, time_ns: int, arrival: int, fix: NavSatFix, *, speed_m_s: float) -> Fix | None:
        """The fix if a new epoch begins with it; None if it is refused, or contradicts the last one's."""
        judged = self.judge.judge(time_ns, arrival, fix)
        if isinstance(judged, str):
            self._judged.append((arrival, judged))
            return None
        last = self._last
        if last is not None and judged.time_ns - last.fixes[0].time_ns < EPOCH_NS:
            if last.told or _is_near(judged, last.fixes):
                self._judged.append((arrival, Reason.SAME_EPOCH))
            else:
                last.fixes.append(judged)
            return None
        if self.judge.freezes(judged, speed_m_s=speed_m_s):
            self._judged.append((arrival, Reason.FROZEN_FIX))
            return None
        return judged

    def add(self, node: Node, fix: Fix) -> None:
        """Begin an epoch, at its node."""
        self._last = _Epoch(node, [fix])
        self._epochs.append(self._last)

    def judged(self) -> list[JudgedFix]:
        """Fixes believed or refused since the last call."""
        done, self._judged = self._judged, []
        return done

    def leave_telling(self) -> None:
        """Another one, of which this one is a copy, tells what becomes of the fixes so far."""
        self._judged = []
        for epoch in self._epochs:
            epoch.told_elsewhere = True

    @property
    def notes(self) -> list[str]:
        """Sentences on refused fixes and new beginnings."""
        found = [refused_text(self._outliers, *self._worst)] if self._outliers else []
        return found + ([restart_text(self._restarts)] if self._restarts else [])

    def fixes_ns(self) -> list[int]:
        """Times of believed fixes that are not forgotten."""
        return [*self._past_ns, *(each.node.time_ns for each in self._epochs if each.is_believed)]

    def first(self) -> tuple[GeoPoint, Floats] | None:
        """The first believed fix of the window, and its place."""
        first = next((each for each in self._epochs if each.is_believed), None)
        if first is None or self.datum is None:
            return None
        return first.fixes[first.chosen or 0].point, first.place(self.datum)

    def choose(self, now_ns: int, horizon_ns: int, *, final: bool) -> None:
        """Choose which fixes since a time may be: the longest chain that a vehicle could have driven."""
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
        times_ns = [epoch.node.time_ns for epoch, _ in candidates]
        chain = drivable(times_ns, np.array([fix.ecef for fix in fixes]))
        if self.datum is None:
            if sum(chain) < 2 and not final and now_ns - recent[0].node.time_ns < ALONE_NS:
                return
            self.datum = fixes[chain.index(True)].point
        chosen = {id(epoch): number for (epoch, number), may in zip(candidates, chain, strict=True) if may}
        left = 0
        for epoch in recent:
            number = chosen.get(id(epoch))
            if epoch.told:
                if number is None and epoch.is_believed:
                    epoch.node.place, left = None, left + 1
            elif number != epoch.chosen or (number is not None and not epoch.is_believed):
                epoch.chosen = number
                self._believe(epoch)
        self._restarts += left > 0

    def _believe(self, epoch: _Epoch) -> None:
        """Give a node the place that its fix tells."""
        epoch.node.shown_m = epoch.node.place = None
        if epoch.chosen is None or epoch.chosen in epoch.refused or self.datum is None:
            return
        white, wander = self.white_m, np.maximum(self.white_m * self._wander, 0.5 * FLOOR_M)
        declared = epoch.fixes[epoch.chosen].sigma_m
        if declared is not None:
            sigma = np.maximum(declared, 0.02)
            white, wander = sigma * DECLARED_WHITE, sigma * DECLARED_WANDER
        epoch.node.place = Place(epoch.place(self.datum), white, wander)

    def _believe_again(self) -> bool:
        """Give all nodes their places once more, since the noise has changed."""
        for epoch in self._epochs:
            if epoch.is_believed:
                self._believe(epoch)
        return True

    def refuse(self, nodes: Sequence[Node]) -> tuple[bool, Node | None]:
        """Refuse fixes that contradict the motion, believe those again that do not.

        Returns:
            Whether any changed, and the node where fixes disprove the motion.
        """
        changed = False
        run: list[_Epoch] = []
        noise = self.white_m * math.hypot(1.0, self._wander)
        most_m, most_up_m = max(LEAST_OFF_M, SIGMAS * noise[0]), max(LEAST_OFF_UP_M, SIGMAS * noise[2])
        for epoch in self._epochs:
            if epoch.node.time_ns < nodes[0].time_ns or epoch.chosen is None or self.datum is None:
                continue
            level_m, up_m = _apart(epoch.place(self.datum), epoch.node)
            if level_m <= most_m and up_m <= most_up_m:
                run = []
                if not epoch.is_believed and not epoch.told:
                    epoch.refused.discard(epoch.chosen)
                    self._believe(epoch)
                    changed = True
                continue
            run.append(epoch)
            if not epoch.is_believed:
                continue
            changed = True
            if epoch.told:
                epoch.node.place = None
                continue
            epoch.refused.add(epoch.chosen)
            self._note(epoch, level_m, up_m)
            others = (n for n in range(len(epoch.fixes)) if n not in epoch.refused)
            epoch.chosen = next(others, epoch.chosen)
            self._believe(epoch)
        disproved = self._disproved(run)
        return changed or disproved is not None, disproved

    def _disproved(self, run: list[_Epoch]) -> Node | None:
        """Where the motion is wrong, if fixes contradict it for long, and none agrees after them."""
        if len(run) < 3 or run[-1].node.time_ns - run[0].node.time_ns < self._recover_ns:
            return None
        if run[0].node.begins_again:
            return None
        self._restarts += 1
        run[0].node.begins_again = True
        for epoch in run:
            epoch.refused.discard(epoch.chosen or 0)
            self._believe(epoch)
        return run[0].node

    def _note(self, epoch: _Epoch, level_m: float, up_m: float) -> None:
        off_m = max(level_m, up_m)
        if off_m > self._worst[0]:
            others = [e.node.time_ns for e in self._epochs if e.is_believed and e is not epoch]
            apart_s = min((abs(t - epoch.node.time_ns) / 1e9 for t in others), default=math.nan) or math.nan
            self._worst = off_m, off_m / apart_s

    def learn(self, since_ns: int) -> bool:
        """Learn the fixes' white noise from how their error changes to the next; whether it changed."""
        if not self._learns or self.datum is None:
            return False
        known = [
            epoch
            for epoch in self._epochs
            if epoch.is_believed
            and epoch.node.time_ns >= since_ns
            and epoch.fixes[epoch.chosen or 0].sigma_m is None
        ]
        if len(known) < LEAST_FIXES:
            return False
        off = np.array([epoch.place(self.datum) - epoch.node.pose.translation() for epoch in known])
        axes = 1.4826 * np.median(np.abs(np.diff(off, axis=0)), axis=0) / math.sqrt(2)
        level = math.sqrt(0.5 * float(axes[0] ** 2 + axes[1] ** 2))
        found = np.clip((level, level, float(axes[2])), FLOOR_M, CEILING_M)
        if np.all(np.abs(np.log(found / self.white_m)) < 0.2):
            return False
        self.white_m = found
        return self._believe_again()

    def explain(self, optimum: Optimum) -> None:
        """Find how large the slow error of the fixes is, on average over what explains a drive."""
        found: list[float] = []
        for evidence in optimum.evidence([self.white_m * ratio for ratio in WANDERS]):
            found.append(evidence + (math.log(ODDS) if found else 0.0))
            if len(found) > 2 and found[-1] < max(found) - UNLIKELY:
                break
        weights = np.exp(np.array(found) - max(found))
        squares = np.square(WANDERS[: len(found)])
        self._wander = math.sqrt(float(weights @ squares / weights.sum()))
        self._believe_again()

    def tell(self, before_ns: float = math.inf) -> None:
        """Tell what becomes of the fixes before a time."""
        for epoch in self._epochs:
            if epoch.told or epoch.node.time_ns >= before_ns:
                continue
            epoch.told = True
            for number, fix in enumerate(epoch.fixes if not epoch.told_elsewhere else ()):
                others = [other for other in epoch.fixes if other is not fix]
                believed = number == epoch.chosen and epoch.is_believed
                reason = (
                    None if believed else Reason.SAME_EPOCH if _is_near(fix, others) else Reason.OUTLYING_FIX
                )
                self._judged.append((fix.arrival, reason))
                if reason is Reason.OUTLYING_FIX:
                    self._outliers += 1
                    if self.datum is not None and epoch.chosen is None:
                        self._note(epoch, *_apart(np.array(enu_m(fix.point, self.datum)), epoch.node))

    def give_up(self) -> None:
        """Believe none of the window's fixes."""
        for epoch in self._epochs:
            epoch.node.place = None
        self.tell()
        self._epochs, self._last = [], None

    def drop(self, before_ns: int) -> None:
        """Fixes before a time are not in the window any more."""
        past = [each for each in self._epochs if each.node.time_ns < before_ns]
        self._past_ns += [each.node.time_ns for each in past if each.is_believed]
        del self._epochs[: len(past)]

    def forget(self, before_ns: int) -> None:
        """Drop times that poses from ``before_ns`` on do not need."""
        old = bisect_left(self._past_ns, before_ns - 60_000_000_000)
        if old > 100:
            del self._past_ns[:old]


def _is_near(fix: Fix, others: Sequence[Fix]) -> bool:
    return any(math.dist(fix.ecef, other.ecef) < SAME_M for other in others)


def _apart(place_m: Floats, node: Node) -> tuple[float, float]:
    """How far a place is from a node, level and up."""
    off = place_m - node.pose.translation()
    return math.hypot(off[0], off[1]), abs(float(off[2]))
