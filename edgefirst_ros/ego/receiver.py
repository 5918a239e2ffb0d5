"""What is believed of the receiver: which of its fixes, their white noise, and their slow error."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from edgefirst_ros.ego.fixes import EPOCH_NS, SAME_M, Fix, JudgedFix, Vehicle, drivable, judged
from edgefirst_ros.ego.geometry import Floats, enu_axes
from edgefirst_ros.ego.graph import Node, Optimum, Place
from edgefirst_ros.model.navigation import NavSatFix
from edgefirst_ros.model.reasons import Reason

RECENT, LEAPT_M, MOST_LEAP_M = 10, 15.0, 1e4
"""A height that is so far from each of the last, and from them by twice what they scatter, has leapt, unless
it is none."""
ALONE_NS = 2_000_000_000
"""A first fix is believed after this time if it remains the only one."""
SIGMAS, LEAST_OFF_M = 6.0, 5.0
"""A fix nearer than this is never refused, but it may weigh less."""
REPEATED = 10.0
"""White noise of a fix that repeats the last, by how much larger: its error is the same once more."""
WHITE_M, FLOOR_M, CEILING_M = (1.0, 1.0, 2.0), 0.01, 10.0
"""White noise of fixes that declare none: at first, at least and at most."""
WANDERS, ODDS, UNLIKELY = (0.03, 1.0, 2.0, 4.0, 8.0, 16.0), 25.0, 7.0
"""What a whole drive is asked for. An error that stays the same all the time cannot be seen, and real
receivers wander by more than their noise: that is taken to be so much likelier than none. Beyond one that is
e⁻⁷ as likely larger ones are not looked at."""
DECLARED_WHITE, DECLARED_WANDER = 0.5, 1.7
"""White noise as a share of a declared standard deviation, and the slow error as one of the white noise: most
of a receiver's error stays for a minute."""
LEAST_M = 0.02
"""No declared standard deviation is taken to be smaller."""
RECOVER_NS, RECOVER_WHOLE_NS = 2_500_000_000, 10_000_000_000
"""Refused fixes over this time, with none believed after them, disprove the motion; the second for a whole
drive, where those after them are known, too."""
LEAST_FIXES, KEPT_FIXES, MOST_PAST = 6, 60, 3000
"""As many show their noise; the others: those before the window, and times of them, at 20 Hz."""


class DisprovedError(Exception):
    """Fixes disprove the motion up to a node, which is its argument."""


@dataclass(slots=True, eq=False)
class _Candidate:
    """A fix with a position, and what becomes of it.

    Attributes:
        epoch: all fixes of its epoch, which contradict each other; of them one at most is chosen.
        leapt_m: by how much it is elsewhere than most since a leap (3,), as where a receiver loses the
            carrier's phase and declares what it did before.
        repeats: it repeats the last position to the last digit, so it may be frozen.
        chosen: nothing but the motion speaks against it.
        refused: the motion does.
        told: whether it is believed does not change any more, unless it turns out to be wrong.
    """

    node: Node
    fix: Fix
    epoch: list[_Candidate]
    repeats: bool
    chosen: bool
    leapt_m: Floats = field(default_factory=lambda: np.zeros(3))
    believed: bool = False
    refused: bool = False
    told: bool = False


class Receiver:
    """Judges fixes, first by themselves, then by the motion, and gives nodes their places.

    Args:
        vehicle: what the configuration says of it.
        whole: the drive is over.

    Attributes:
        datum: the fix that is the origin of the places that nodes get; None until one is chosen.
        late_s: fixes are so much older than their stamps say.
        altitude_m: of the last fix, which one without an altitude takes.
        white_m: white noise (3,) of fixes that declare none, and (True) as a share of what is declared.
    """

    def __init__(self, vehicle: Vehicle, *, whole: bool) -> None:
        self.altitude_m, self._latest_ns, self._is_flat = 0.0 if whole else math.nan, 0, True
        self._heights_m: deque[float] = deque(maxlen=RECENT)
        self._raised_m = self._leapt_m = 0.0
        """The last heights, what is added to them, and the farthest that they leapt."""
        self.datum: Fix | None = None
        self._axes = np.eye(3)
        self._antenna_m = np.array(vehicle.antenna_m)
        # The slow error is as large as the white noise, until a drive shows it.
        self._wander, self.late_s = 1.0, 0.0
        self.white_m = {False: np.array(WHITE_M), True: np.ones(3)}
        self._whole, self._leaps_m = whole, np.zeros(3)
        """The largest leap so far of fixes that declare their noise."""
        self._candidates: list[_Candidate] = []
        self._epoch: list[_Candidate] = []
        """Those of the last epoch."""
        # During a drive poses need those of two minutes.
        self._past_ns: deque[int] = deque(maxlen=None if whole else MOST_PAST)
        self._kept: deque[_Candidate] = deque(maxlen=KEPT_FIXES)
        """Times of believed fixes that are not in the window any more, and the last of these."""
        self._judged: list[JudgedFix] = []
        self._worst_m = 0.0
        self._outliers = self._restarts = 0

    def take(self, time_ns: int, arrival: int, fix: NavSatFix) -> Fix | None:
        """The fix if it may hold; None if it is refused, or agrees with the last of its epoch."""
        level = replace(fix, altitude_m=fix.altitude_m + self._leap_m(time_ns, fix))
        taken = judged(time_ns, arrival, level, self.altitude_m)
        if isinstance(taken, str):
            self._judged.append((arrival, taken))
            return None
        self.altitude_m, self._latest_ns = taken.point.altitude_m, time_ns
        self._is_flat &= math.isnan(fix.altitude_m)
        self._heights_m.extend([self.altitude_m] * math.isfinite(fix.altitude_m))
        if self._is_new(taken):
            return taken
        if self._epoch[0].told or any(math.dist(taken.ecef, each.fix.ecef) < SAME_M for each in self._epoch):
            self._judged.append((arrival, Reason.SAME_EPOCH))
            return None
        return taken

    def _leap_m(self, time_ns: int, fix: NavSatFix) -> float:
        """What makes a height go on from the last: a receiver's may leap from the ellipsoid to the geoid."""
        last = sorted(self._heights_m)
        if time_ns - self._latest_ns > ALONE_NS or len(last) < RECENT:
            self._raised_m = 0.0
        elif fix.is_fix:
            most_m, off_m = max(LEAPT_M, 2 * (last[-1] - last[0])), last[RECENT // 2] - fix.altitude_m
            nearest_m = min(abs(each - fix.altitude_m - self._raised_m) for each in last)
            if most_m < nearest_m < MOST_LEAP_M:
                self._raised_m = 0.0 if abs(off_m) < most_m else off_m
                self._leapt_m = max(self._leapt_m, abs(off_m))
        return self._raised_m

    def _is_new(self, fix: Fix) -> bool:
        """Whether an epoch begins with a fix."""
        return not self._epoch or fix.time_ns - self._epoch[0].fix.time_ns >= EPOCH_NS

    def add(self, node: Node, fix: Fix) -> None:
        """Add a fix that was taken, at its node."""
        is_new = self._is_new(fix)
        repeats = is_new and bool(self._epoch) and fix.point == self._epoch[0].fix.point
        if is_new:
            self._epoch = []
        self._epoch.append(_Candidate(node, fix, self._epoch, repeats, chosen=repeats))
        self._candidates.append(self._epoch[-1])

    def has(self, node: Node) -> bool:
        """Whether the last fix is at a node."""
        return bool(self._epoch) and self._epoch[-1].node is node

    def judged(self) -> list[JudgedFix]:
        """Fixes believed or refused since the last call."""
        done, self._judged = self._judged, []
        return done

    @property
    def notes(self) -> list[str]:
        """Sentences on refused fixes and new beginnings."""
        found: list[str] = []
        off = f"refused for contradicting the motion, the farthest by {self._worst_m:,.1f} m"
        if self._is_flat and self._candidates:
            found.append("no fix has an altitude: the rig is taken to be at 0 m")
        if self._outliers:
            found.append(f"1 fix was {off}" if self._outliers == 1 else f"{self._outliers} fixes were {off}")
        if self._restarts:
            times = "once" if self._restarts == 1 else f"{self._restarts} times"
            again = f"consistent fixes contradicted the estimated motion {times}"
            found.append(f"{again}: the position starts again from them")
        if self._leapt_m:
            found.append(f"heights of fixes leap by {self._leapt_m:,.0f} m: they are taken to go on")
        return found

    def astray(self, *, rolls: bool) -> bool:
        """Whether most fixes that a vehicle could have driven are far from the estimated way.

        No receiver is so far off for long: reflections between houses shift fixes by less than 7 m, and what
        does not roll is not between houses.
        """
        may_be = [each for each in self._candidates if each.chosen and not each.repeats]
        refused = sum(not each.believed for each in may_be)
        slow_m = float(self.white_m[False][0]) * self._wander
        return slow_m > (7.0 if rolls else 3.0) or refused > 0.25 * len(may_be)

    def fixes_ns(self) -> list[int]:
        """Times of believed fixes that are not forgotten."""
        return [*self._past_ns, *(each.node.time_ns for each in self._candidates if each.believed)]

    def choose(self, now_ns: int, horizon_ns: int, *, final: bool) -> None:
        """Choose which fixes since a time may be: the longest chain that a vehicle could have driven.

        Raises:
            DisprovedError: others were believed for good, which have misled the estimate.
        """
        if self.late_s:
            self._believe_again()
        recent = [each for each in self._candidates if not each.repeats]
        if self.datum is not None:
            recent = [each for each in recent if each.node.time_ns >= horizon_ns]
        may_be = [each for each in recent if not each.refused]
        if not may_be:
            return
        times_ns = [each.epoch[0].node.time_ns for each in may_be]
        chain = drivable(times_ns, np.array([each.fix.ecef for each in may_be]))
        if self.datum is None:
            alone = sum(chain) < 2 and len(self._candidates) == len(recent)
            if alone and not final and now_ns - times_ns[0] < ALONE_NS:
                return
            self.datum = may_be[chain.index(True)].fix
            self._axes = enu_axes(self.datum.point)
        chosen = {id(each) for each, may in zip(may_be, chain, strict=True) if may}
        left = [each for each in recent if each.told and each.believed and id(each) not in chosen]
        for each in left:
            self._believe(each, believed=False)
        # Those that are not first: two may be at one node.
        for each in sorted(recent, key=lambda each: id(each) in chosen):
            may = id(each) in chosen
            if not (each.told or each.refused) and (may != each.chosen or (may and not each.believed)):
                each.chosen = may
                self._believe(each, believed=may)
        if left:
            self._begin_again([each for each in may_be if id(each) in chosen])

    def _place(self, each: _Candidate) -> Floats:
        """Where a fix shows its node in ENU at the datum, metres (3,)."""
        origin = each.fix if self.datum is None else self.datum
        place: Floats = self._axes @ np.subtract(each.fix.ecef, origin.ecef)
        return place + self.late_s * each.node.velocity_m_s

    def _believe(self, each: _Candidate, *, believed: bool) -> None:
        """Give a node the place that its fix tells, unless a rig that stands was told before."""
        if each.believed and not believed:
            each.node.place = None
        each.believed = believed
        if believed:
            each.node.place = None
            if not (each.repeats and each.node.standing):
                white_m, wander_m = self._noise(each.fix)
                # During a drive nothing tells yet which are right.
                wander_m = np.hypot(wander_m, each.leapt_m if self._whole else self._leaps_m)
                white_m = white_m * (REPEATED if each.repeats else 1.0)
                each.node.place = Place(self._place(each), white_m, wander_m, self._antenna_m)

    def _noise(self, fix: Fix) -> tuple[Floats, Floats]:
        """Standard deviations (3,) of a fix's white noise and slow error."""
        declares = fix.sigma_m is not None
        white_m = _declared_m(fix) * self.white_m[declares]
        return white_m, np.maximum(white_m * (DECLARED_WANDER if declares else self._wander), 0.5 * FLOOR_M)

    def _believe_again(self) -> None:
        """Give all nodes their places once more, since the noise has changed."""
        for each in self._candidates:
            if each.believed:
                self._believe(each, believed=True)

    def _among(self, nodes: Sequence[Node]) -> list[_Candidate]:
        first_ns, last_ns = nodes[0].time_ns, nodes[-1].time_ns
        return [each for each in self._candidates if first_ns <= each.node.time_ns <= last_ns]

    def refuse(self, nodes: Sequence[Node]) -> bool:
        """Refuse fixes that contradict the motion, believe those again that do not; whether any changed.

        Raises:
            DisprovedError: fixes contradict the motion for long, and none agrees after them.
        """
        changed = False
        run: list[_Candidate] = []
        most_m = max(LEAST_OFF_M, SIGMAS * float(self.white_m[False][0]) * math.hypot(1.0, self._wander))
        for each in self._among(nodes):
            if not each.chosen:
                continue
            level_m = self._off_m(each)
            if each.repeats:
                stands = self._stands(each, level_m)
                is_new = stands and not each.node.standing
                if not each.told and (stands, is_new) != (each.believed, each.node.place is not None):
                    each.refused, changed = not stands, True
                    self._believe(each, believed=stands)
            elif level_m <= most_m:
                run = []
                if not (each.believed or each.told):
                    each.refused, changed = False, True
                    self._believe(each, believed=True)
            else:
                run.append(each)
                changed = changed or each.believed
                self._refuse(each, level_m)
        long_ns = run[-1].node.time_ns - run[0].node.time_ns if len(run) > 2 else 0
        if long_ns >= (RECOVER_WHOLE_NS if self._whole else RECOVER_NS) and run[0].node is not nodes[0]:
            self._begin_again([each for each in run if each.chosen])
        return changed

    def _refuse(self, each: _Candidate, off_m: float) -> None:
        """Refuse a fix that is so far from the motion; another of its epoch may be right."""
        if not each.believed:
            return
        self._believe(each, believed=False)
        if not each.told:
            each.refused, self._worst_m = True, max(self._worst_m, off_m)
        other = next((o for o in each.epoch if not (o.refused or o.told)), None)
        if other is not None:
            each.chosen, other.chosen = False, True
            self._believe(other, believed=True)

    def _begin_again(self, chain: list[_Candidate]) -> NoReturn:
        self._restarts += 1
        for each in chain:
            each.refused = False
            self._believe(each, believed=True)
        raise DisprovedError(chain[0].node)

    def _stands(self, each: _Candidate, off_m: float) -> bool:
        """Whether a rig may be where it was: not frozen is what repeats the place of one that stands."""
        near_m = 3 * math.hypot(*(float(sigma[0]) for sigma in self._noise(each.fix)))
        if each.node.standing:
            # A fix that repeats the last is believed of a rig that is slower, and near it by 3 sigma; where
            # the IMU shows that it stands, by so much at least.
            near_m = max(near_m, 0.5)
        return off_m <= near_m and float(np.linalg.norm(each.node.velocity_m_s)) < 1.0

    def _off_m(self, each: _Candidate) -> float:
        """How far a fix is from its node, level: heights leap, and tell little of a fix."""
        pose = each.node.pose
        off = self._place(each) - pose.translation() - pose.rotation().matrix() @ self._antenna_m
        return min(math.hypot(off[0], off[1]), 2e7)  # on the other side of the earth

    def learn(self, nodes: Sequence[Node], least: float = 0.2) -> bool:
        """Learn the fixes' white noise from how their error changes to the next; whether it changed.

        Of fixes that declare their noise it is learnt by how many times it is larger, if it is. Changes of
        less than a share, ``least``, are none.
        """
        recent = [each for each in self._among(nodes) if each.believed and not each.repeats]
        known = [*self._kept, *recent]
        changed = False
        for declares, (low, high) in ((False, (FLOOR_M, CEILING_M)), (True, (1.0, math.inf))):
            some = [each for each in known if (each.fix.sigma_m is not None) is declares]
            if len(some) < LEAST_FIXES:
                continue
            east, north, up = self._scatter(some)
            level = math.sqrt(0.5 * (east**2 + north**2))
            found = np.clip((level, level, up), low, high)
            if np.any(np.abs(np.log(found / self.white_m[declares])) >= least):
                self.white_m[declares], changed = found, True
            changed |= declares and self._learn_leaps(some)
        if changed:
            self._believe_again()
        return changed

    def _learn_leaps(self, told: Sequence[_Candidate]) -> bool:
        """Find where fixes leap by more than they declare: from then on they may be as far off."""
        off_m = np.array([self._place(each) - each.node.pose.translation() for each in told])
        steps_m = np.diff(off_m, axis=0, prepend=off_m[:1])
        noise_m = np.array([np.hypot(*self._noise(each.fix)) for each in told])
        leapt_m = np.cumsum(np.where(np.abs(steps_m) > SIGMAS * noise_m, steps_m, 0.0), axis=0)
        leapt_m -= np.median(leapt_m, axis=0)
        leapt_m[np.abs(leapt_m) < SIGMAS * noise_m] = 0.0
        # One alone may be no leap but a blip.
        self._leaps_m = np.maximum(self._leaps_m, np.sort(np.abs(leapt_m), axis=0)[-2])
        for each, leapt in zip(told, leapt_m, strict=True):
            each.leapt_m = leapt
        return bool(leapt_m.any())

    def _scatter(self, fixes: Sequence[_Candidate]) -> list[float]:
        """White noise of fixes east, north and up, in metres or as a share of what they declare."""
        off = [self._place(each) - each.node.pose.translation() for each in fixes]
        changes = np.diff(off, axis=0) / [_declared_m(each.fix) for each in fixes[1:]]
        scatter: list[float] = (1.4826 / math.sqrt(2) * np.median(np.abs(changes), axis=0)).tolist()
        return scatter

    def explain(self, optimum: Optimum) -> bool:
        """Find how large the slow error of the fixes is, on average over what explains a drive.

        Returns:
            Whether it is not as it was taken to be.
        """
        found: list[float] = []
        for evidence in optimum.evidence([self.white_m[False] * ratio for ratio in WANDERS]):
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
        for each in self._candidates:
            if each.told or each.node.time_ns >= before_ns:
                continue
            each.told = True
            refusal = Reason.FROZEN_FIX if each.repeats else Reason.OUTLYING_FIX
            self._judged.append((each.fix.arrival, None if each.believed else refusal))
            if not (each.believed or each.repeats):
                self._outliers += 1
                if not each.chosen:
                    self._worst_m = max(self._worst_m, self._off_m(each))

    def give_up(self, nodes: Sequence[Node]) -> None:
        """Believe none of the fixes of some nodes."""
        for each in self._among(nodes):
            self._believe(each, believed=False)
            each.chosen = True  # how far it is from no motion is not told
        self.tell(nodes[-1].time_ns + 1)

    def drop(self, before_ns: int) -> None:
        """Fixes before a time are not in the window any more."""
        past = [each for each in self._candidates if each.node.time_ns < before_ns]
        self._past_ns += [each.node.time_ns for each in past if each.believed]
        self._kept += [each for each in past if each.believed and not each.repeats]
        del self._candidates[: len(past)]


def _declared_m(fix: Fix) -> Floats:
    """White noise that a fix declares (3,); 1 m if it declares none."""
    return np.ones(3) if fix.sigma_m is None else np.maximum(fix.sigma_m, LEAST_M) * DECLARED_WHITE
