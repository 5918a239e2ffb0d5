"""What is believed of the receiver: which of its fixes, their white noise, and their slow error."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edgefirst_ros.ego.fixes import (
    EPOCH_NS,
    SAME_M,
    Fix,
    JudgedFix,
    Vehicle,
    drivable,
    judged,
    refused_text,
    restart_text,
)
from edgefirst_ros.ego.geometry import Floats, Vector, enu_m
from edgefirst_ros.ego.graph import Node, Optimum, Place
from edgefirst_ros.model.navigation import NavSatFix
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import GeoPoint

ALONE_NS = 2_000_000_000
"""A first fix is believed after this time if it remains the only one."""
SIGMAS, LEAST_OFF_M, LEAST_OFF_UP_M = 6.0, 5.0, 15.0
"""A fix nearer than this is never refused, but it may weigh less."""
MOVED_M_S, STOOD_M = 1.0, 0.5
"""A fix that repeats the last is believed of a rig that is slower, and near it by 3 sigma; where the IMU
shows that it stands, by so much at least."""
REPEATED = 10.0
"""White noise of a fix that repeats the last, by how much larger: its error is the same once more."""
WHITE_M, FLOOR_M, CEILING_M = (1.0, 1.0, 2.0), 0.01, 10.0
"""White noise of fixes that declare none: at first, at least and at most."""
WANDER = 1.0
"""Slow error of a receiver as a multiple of its white noise, until a drive shows it."""
WANDERS, ODDS, UNLIKELY = (0.03, 1.0, 2.0, 4.0, 8.0, 16.0), 25.0, 7.0
"""What a whole drive is asked for. An error that stays the same all the time cannot be seen, and real
receivers wander by more than their noise: that is taken to be so much likelier than none. Beyond one that is
e⁻⁷ as likely larger ones are not looked at."""
DECLARED_WHITE, DECLARED_WANDER = 0.5, 0.85
"""Shares of a declared standard deviation: most of a receiver's error stays for a minute."""
LEAST_M = 0.02
"""No declared standard deviation is taken to be smaller."""
LEAST_FIXES = 6
"""As many show their noise."""


@dataclass(slots=True, eq=False)
class _Epoch:
    """Fixes of one time that contradict each other, or one alone, and which of them is believed."""

    node: Node
    fixes: list[Fix]
    repeats: bool
    """It repeats the last position to the last digit, so it may be frozen."""
    chosen: int | None = None
    believed: bool = False
    refused: set[int] = field(default_factory=set)
    told: bool = False
    _places: dict[int, Floats] = field(default_factory=dict)

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
        datum: origin of the places that nodes get; None until a fix is chosen.
        white_m: white noise of fixes that declare none (3,).
    """

    def __init__(self, vehicle: Vehicle, recover_ns: int) -> None:
        self._altitude_m = math.nan
        self.datum: GeoPoint | None = None
        self.white_m, self._wander, self._factor = np.array(WHITE_M), WANDER, 1.0
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

    def take(self, time_ns: int, arrival: int, fix: NavSatFix) -> Fix | None:
        """The fix if a new epoch begins with it; None if it is refused, or contradicts the last one's."""
        taken = judged(time_ns, arrival, fix, self._altitude_m)
        if isinstance(taken, str):
            self._judged.append((arrival, taken))
            return None
        self._altitude_m = taken.point.altitude_m
        last = self._last
        if last is None or time_ns - last.fixes[0].time_ns >= EPOCH_NS:
            return taken
        if last.told or _is_near(taken, last.fixes):
            self._judged.append((arrival, Reason.SAME_EPOCH))
        else:
            last.fixes.append(taken)
        return None

    def add(self, node: Node, fix: Fix) -> None:
        """Begin an epoch, at its node."""
        repeats = self._last is not None and fix.point == self._last.fixes[0].point
        self._last = _Epoch(node, [fix], repeats, chosen=0 if repeats else None)
        self._epochs.append(self._last)

    def has(self, node: Node) -> bool:
        """Whether the last epoch is at a node."""
        return self._last is not None and self._last.node is node

    def judged(self) -> list[JudgedFix]:
        """Fixes believed or refused since the last call."""
        done, self._judged = self._judged, []
        return done

    @property
    def notes(self) -> list[str]:
        """Sentences on refused fixes and new beginnings."""
        found = [refused_text(self._outliers, *self._worst)] if self._outliers else []
        return found + ([restart_text(self._restarts)] if self._restarts else [])

    def fixes_ns(self) -> list[int]:
        """Times of believed fixes that are not forgotten."""
        return [*self._past_ns, *(each.node.time_ns for each in self._epochs if each.believed)]

    def first(self) -> tuple[GeoPoint, Floats] | None:
        """The first believed fix of the window, and its place."""
        first = next((each for each in self._epochs if each.believed), None)
        if first is None or self.datum is None:
            return None
        return first.fixes[first.chosen or 0].point, first.place(self.datum)

    def choose(self, now_ns: int, horizon_ns: int, *, final: bool) -> None:
        """Choose which fixes since a time may be: the longest chain that a vehicle could have driven."""
        recent = [
            each
            for each in self._epochs
            if not each.repeats and (self.datum is None or each.node.time_ns >= horizon_ns)
        ]
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
            alone = sum(chain) < 2 and not any(each.repeats for each in self._epochs)
            if alone and not final and now_ns - recent[0].node.time_ns < ALONE_NS:
                return
            self.datum = fixes[chain.index(True)].point
        chosen = {id(epoch): number for (epoch, number), may in zip(candidates, chain, strict=True) if may}
        left = 0
        for epoch in recent:
            number = chosen.get(id(epoch))
            if epoch.told:
                if number is None and epoch.believed:
                    epoch.node.place, epoch.believed, left = None, False, left + 1
            elif number != epoch.chosen or (number is not None and not epoch.believed):
                epoch.chosen = number
                self._believe(epoch)
        self._restarts += left > 0

    def _believe(self, epoch: _Epoch) -> None:
        """Give a node the place that its fix tells, unless a rig that stands was told before."""
        epoch.node.place = None
        epoch.believed = epoch.chosen is not None and epoch.chosen not in epoch.refused
        if epoch.chosen is None or not epoch.believed or self.datum is None:
            return
        if not (epoch.repeats and epoch.node.standing):
            white_m, wander_m = self._noise(epoch.fixes[epoch.chosen])
            white_m = white_m * (REPEATED if epoch.repeats else 1.0)
            epoch.node.place = Place(epoch.place(self.datum), white_m, wander_m)

    def _noise(self, fix: Fix) -> tuple[Floats, Floats]:
        """Standard deviations (3,) of a fix's white noise and slow error."""
        if fix.sigma_m is None:
            return self.white_m, np.maximum(self.white_m * self._wander, 0.5 * FLOOR_M)
        sigma = np.maximum(fix.sigma_m, LEAST_M) * self._factor
        return sigma * DECLARED_WHITE, sigma * DECLARED_WANDER

    def _believe_again(self) -> None:
        """Give all nodes their places once more, since the noise has changed."""
        for epoch in self._epochs:
            if epoch.believed:
                self._believe(epoch)

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
            if epoch.repeats:
                stands = self._stands(epoch, level_m)
                is_new = stands and not epoch.node.standing
                if not epoch.told and (stands, is_new) != (epoch.believed, epoch.node.place is not None):
                    epoch.refused, changed = set() if stands else {0}, True
                    self._believe(epoch)
                continue
            if level_m <= most_m and up_m <= most_up_m:
                run = []
                if not epoch.believed and not epoch.told:
                    epoch.refused.discard(epoch.chosen)
                    self._believe(epoch)
                    changed = True
                continue
            run.append(epoch)
            if not epoch.believed:
                continue
            changed = True
            if epoch.told:
                epoch.node.place, epoch.believed = None, False
                continue
            epoch.refused.add(epoch.chosen)
            self._note(epoch, level_m, up_m)
            others = (n for n in range(len(epoch.fixes)) if n not in epoch.refused)
            epoch.chosen = next(others, epoch.chosen)
            self._believe(epoch)
        disproved = self._disproved(run)
        return changed or disproved is not None, disproved

    def _stands(self, epoch: _Epoch, off_m: float) -> bool:
        """Whether a rig may be where it was: not frozen is what repeats the place of one that stands."""
        near_m = 3 * math.hypot(*(float(sigma[0]) for sigma in self._noise(epoch.fixes[0])))
        if epoch.node.standing:
            near_m = max(near_m, STOOD_M)
        return off_m <= near_m and float(np.linalg.norm(epoch.node.velocity_m_s)) < MOVED_M_S

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
            others = [e.node.time_ns for e in self._epochs if e.believed and e is not epoch]
            apart_s = min((abs(t - epoch.node.time_ns) / 1e9 for t in others), default=math.nan) or math.nan
            self._worst = off_m, off_m / apart_s

    def learn(self, since_ns: int, least: float = 0.2) -> bool:
        """Learn the fixes' white noise from how their error changes to the next; whether it changed.

        Of fixes that declare their noise it is learnt by how many times it is larger, if it is. Changes of
        less than a share, ``least``, are none.
        """
        known = [
            (epoch, epoch.fixes[epoch.chosen or 0].sigma_m)
            for epoch in self._epochs
            if epoch.believed and not epoch.repeats and epoch.node.time_ns >= since_ns
        ]
        told = [(epoch, sigma_m) for epoch, sigma_m in known if sigma_m is not None]
        changed = len(told) >= LEAST_FIXES and self._learn_factor(told, least)
        silent = [epoch for epoch, sigma_m in known if sigma_m is None]
        if self._learns and len(silent) >= LEAST_FIXES:
            east, north, up = self._scatter(silent, np.ones((len(silent), 3)))
            level = math.sqrt(0.5 * (east**2 + north**2))
            found = np.clip((level, level, up), FLOOR_M, CEILING_M)
            if np.any(np.abs(np.log(found / self.white_m)) >= least):
                self.white_m, changed = found, True
        if changed:
            self._believe_again()
        return changed

    def _learn_factor(self, told: Sequence[tuple[_Epoch, Vector]], least: float) -> bool:
        declared = np.maximum([sigma_m for _, sigma_m in told], LEAST_M) * DECLARED_WHITE
        scatter = self._scatter([epoch for epoch, _ in told], declared)
        factor = max(1.0, math.sqrt(0.5 * (scatter[0] ** 2 + scatter[1] ** 2)), scatter[2])
        if abs(math.log(factor / self._factor)) < least:
            return False
        self._factor = factor
        return True

    def _scatter(self, epochs: Sequence[_Epoch], units_m: Floats) -> list[float]:
        """White noise of fixes east, north and up, in their units (n, 3)."""
        datum = self.datum
        off = [each.place(datum) - each.node.pose.translation() for each in epochs if datum is not None]
        changes = np.diff(off, axis=0) / units_m[1:]
        scatter: list[float] = (1.4826 / math.sqrt(2) * np.median(np.abs(changes), axis=0)).tolist()
        return scatter

    def explain(self, optimum: Optimum) -> bool:
        """Find how large the slow error of the fixes is, on average over what explains a drive.

        Returns:
            Whether it is not as it was taken to be.
        """
        found: list[float] = []
        for evidence in optimum.evidence([self.white_m * ratio for ratio in WANDERS]):
            found.append(evidence + (math.log(ODDS) if found else 0.0))
            if found[-1] < max(found) - UNLIKELY:
                break
        if not found:
            return False
        weights = np.exp(np.array(found) - max(found))
        squares = np.square(WANDERS[: len(found)])
        before, self._wander = self._wander, math.sqrt(float(weights @ squares / weights.sum()))
        self._believe_again()
        return abs(math.log(self._wander / before)) > 0.1

    def tell(self, before_ns: float = math.inf) -> None:
        """Tell what becomes of the fixes before a time."""
        for epoch in self._epochs:
            if epoch.told or epoch.node.time_ns >= before_ns:
                continue
            epoch.told = True
            for number, fix in enumerate(epoch.fixes):
                others = [other for other in epoch.fixes if other is not fix]
                believed = number == epoch.chosen and epoch.believed
                refusal = Reason.FROZEN_FIX if epoch.repeats else Reason.OUTLYING_FIX
                reason = None if believed else Reason.SAME_EPOCH if _is_near(fix, others) else refusal
                self._judged.append((fix.arrival, reason))
                if reason is Reason.OUTLYING_FIX:
                    self._outliers += 1
                    if self.datum is not None and epoch.chosen is None:
                        self._note(epoch, *_apart(np.array(enu_m(fix.point, self.datum)), epoch.node))

    def give_up(self) -> None:
        """Believe none of the window's fixes."""
        for epoch in self._epochs:
            epoch.node.place, epoch.believed = None, False
        self.tell()
        self._epochs = []

    def drop(self, before_ns: int) -> None:
        """Fixes before a time are not in the window any more."""
        past = [each for each in self._epochs if each.node.time_ns < before_ns]
        self._past_ns += [each.node.time_ns for each in past if each.believed]
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
