"""The error of an IMU's north and of its mounting, from comparing its motion with that of the fixes."""

from __future__ import annotations

import cmath
import math
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.ego.filter import ANY_RAD, FilterStart
from edgefirst_ros.ego.geometry import exponential, matrix
from edgefirst_ros.ego.inertia import ImuStep
from edgefirst_ros.ego.state import Floats

COURSE_NS = 1_000_000_000
"""A course is measured over at least this time: fixes are resolved to a decimetre, too coarse for less."""
COURSE_M_S, LEAST_M_S = 3.0, 1.0
"""Least speed for a course to show the mounting, and for a first, rough heading."""
WINDOW_NS, EVERY_NS, SAMPLE_NS = 8_000_000_000, 2_000_000_000, 190_000_000
LEAST_SAMPLES = 7
RESIDUAL_M = 0.02
SURE_RAD = math.radians(5)
BEST_RAD = math.radians(0.5)
FORCES_RAD = math.radians(3)
"""Forces show the north no better: a bias of 5 cm/s² turns the 1 m/s² of a bend by this much."""
AGREED_RAD, TRUSTED_RAD = math.radians(2.5), math.radians(1.5)
"""If course and orientation agree within the first, both are trusted to within the second."""
ROUGH_RAD = math.radians(10)
SMALL_RAD = math.radians(20)
LEVEL_RAD, LEANING_RAD = math.radians(3), math.radians(8)
"""Uncertainty of a tilt: of a measured one, or of one from the force on a vehicle that may brake or turn."""
TURNED_RAD = math.radians(10)
"""An error this close to a multiple of 90° is in the mounting."""


@dataclass(frozen=True, slots=True)
class _ForceSample:
    time_ns: int
    place: complex
    pushed: complex
    """Second integral of the force, in the axes of the reference."""


class Alignment:
    """Compares the fixes with a reference attitude: the IMU's own orientation, or its integrated rates.

    Attributes:
        oriented: whether the reference is the IMU's own orientation.
        reference: from the rig's axes, as configured, to level axes with the reference's north (3, 3).
        first: the same at the end of the first step.
    """

    def __init__(self, gravity_m_s2: float) -> None:
        self._gravity = np.array((0.0, 0.0, -gravity_m_s2))
        self.oriented = False
        self.reference = self.first = np.eye(3)
        self._begun = False
        self._turns = False
        self._bias, self._quiet_s = np.zeros(3), 0.0
        self._history: deque[tuple[int, Floats]] = deque()
        self._fixes: deque[tuple[int, Floats]] = deque()
        self._window: deque[_ForceSample] = deque()
        self._evaluated_ns = 0
        self._weight, self._north = 0.0, 0j
        self._forward, self._up, self._courses = np.zeros(3), np.zeros(3), 0
        self._first_course: tuple[Floats, Floats] | None = None
        """Reference attitude (3, 3) and direction of travel (3,) in the frame of the fixes."""
        self._lean: Floats | None = None
        self._clear()

    def restarted(self) -> Alignment:
        """A copy that keeps the reference and forgets the fixes."""
        fresh = Alignment(-float(self._gravity[2]))
        fresh.oriented, fresh.reference, fresh.first = self.oriented, self.reference, self.first
        fresh._begun, fresh._bias, fresh._quiet_s = self._begun, self._bias, self._quiet_s
        fresh._history = self._history
        return fresh

    def _clear(self) -> None:
        self._speed, self._pushed = np.zeros(3), np.zeros(3)
        self._window.clear()

    def step(self, step: ImuStep) -> None:
        """Update the reference by a step."""
        dt = step.dt_s
        oriented = step.orientation_xyzw[0] == step.orientation_xyzw[0]  # not NaN
        if not self._begun:
            self._begun = True
            self.reference = self.first = matrix(step.orientation_xyzw) if oriented else _level(step)
            self.oriented = oriented
            self._history.append((step.end_ns, self.reference))
            return
        before, after = self.reference, self.reference
        if not step.quiet or self.oriented:
            after = before @ exponential(np.array(step.turn_rad) - self._bias * dt)
        if oriented:
            known = matrix(step.orientation_xyzw)
            if not self.oriented:
                # The orientation fixes where the summed rotation ends, and thereby where it began.
                self.oriented, self.first = True, known @ after.T @ self.first
                self._first_course = None
                self._clear()
            after = known
        self.reference = after
        if step.quiet and not self.oriented and dt > 0:
            # While nothing moves, a gyroscope measures its bias.
            self._quiet_s = min(self._quiet_s + dt, 30.0)
            self._bias += dt / self._quiet_s * (np.array(step.turn_rad) / dt - self._bias)
        self._turns = step.turns
        if step.turns and step.feels:
            self._pushed += self._speed * dt + before @ np.array(step.dp_m) + self._gravity * (0.5 * dt * dt)
            self._speed += before @ np.array(step.dv_m_s) + self._gravity * dt
        else:
            self._clear()
        self._history.append((step.end_ns, self.reference))
        while self._history[-1][0] - self._history[0][0] > 10 * COURSE_NS:
            self._history.popleft()

    def fix(self, time_ns: int, position_m: Floats) -> bool:
        """Use an accepted fix at the end of the last step; True if the alignment has changed."""
        news = self._course(time_ns, position_m)
        if self._window and time_ns - self._window[-1].time_ns < SAMPLE_NS:
            return news
        pushed = complex(self._pushed[0], self._pushed[1])
        self._window.append(_ForceSample(time_ns, complex(position_m[0], position_m[1]), pushed))
        while time_ns - self._window[0].time_ns > WINDOW_NS:
            self._window.popleft()
        spans = time_ns - self._window[0].time_ns >= WINDOW_NS * 3 // 4
        if spans and time_ns - self._evaluated_ns >= EVERY_NS and len(self._window) >= LEAST_SAMPLES:
            self._evaluated_ns = time_ns
            news = self._evaluate() or news
        return news

    def _course(self, time_ns: int, position_m: Floats) -> bool:
        while len(self._fixes) > 1 and time_ns - self._fixes[1][0] >= COURSE_NS:
            self._fixes.popleft()
        self._fixes.append((time_ns, position_m))
        start_ns, start_m = self._fixes[0]
        span_ns = time_ns - start_ns
        moved = position_m - start_m
        speed = math.hypot(moved[0], moved[1]) / (span_ns / 1e9) if span_ns else 0.0
        if not COURSE_NS <= span_ns <= 4 * COURSE_NS or speed < LEAST_M_S:
            return False
        attitude = self._attitude((start_ns + time_ns) // 2)
        level = np.array((moved[0], moved[1], 0.0))
        course = level / np.linalg.norm(level)
        forward, up = attitude.T @ course, attitude[2]
        news = self._first_course is None
        if news:
            self._first_course = attitude, course
        if speed >= COURSE_M_S:
            self._forward, self._up = self._forward + forward, self._up + up
            self._courses += 1
            # Use each stretch once: overlapping stretches are not independent.
            while len(self._fixes) > 1:
                self._fixes.popleft()
            news = news or self._courses in {1, 3, 10, 30}
        return news

    def _attitude(self, time_ns: int) -> Floats:
        """The reference attitude at a past time."""
        times = [each for each, _ in self._history]
        if not times:
            return self.reference
        return self._history[min(bisect_left(times, time_ns), len(times) - 1)][1]

    def _evaluate(self) -> bool:
        """Fit the positions by the integrated force, rotated and scaled, plus a parabola for its errors."""
        samples = list(self._window)
        tau = np.array([(s.time_ns - samples[0].time_ns) / 1e9 for s in samples])
        places = np.array([s.place for s in samples])
        pushed = np.array([s.pushed for s in samples])
        parabola = np.stack([np.ones_like(tau), tau, tau * tau], axis=1)
        basis, triangle = np.linalg.qr(parabola)
        pushed_by, placed_by = basis.T @ pushed, basis.T @ places
        pushed = pushed - basis @ pushed_by
        places = places - basis @ placed_by
        power = float(np.sum(np.abs(pushed) ** 2))
        if power < 1e-6:
            return False
        turned = complex(np.vdot(pushed, places)) / power
        left = places - turned * pushed
        noise = float(np.sum(np.abs(left) ** 2)) / max(1, 2 * (len(samples) - 4)) + RESIDUAL_M**2
        sigma = math.sqrt(noise / power)
        if abs(abs(turned) - 1) > 0.2 + 3 * sigma or sigma > SURE_RAD:
            return False
        sigma = max(sigma, BEST_RAD)
        if self.oriented:
            self._weight += 1 / sigma**2
            self._north += turned / abs(turned) / sigma**2
        elif not self._weight:
            # A reference integrated from rates drifts: only what is near the start is valid for it.
            self._weight, self._north = 1 / sigma**2, turned / abs(turned) / sigma**2
            # A constant remaining acceleration is gravity, seen through the tilt error of the reference.
            left_m_s2 = 2 * np.linalg.solve(triangle, placed_by - turned * pushed_by)[2]
            self._lean = np.array((-left_m_s2.imag, left_m_s2.real, 0.0)) / -self._gravity[2]
        return True

    @property
    def north(self) -> tuple[float, float] | None:
        """Rotation to the left that corrects the reference's north, and its uncertainty; radians."""
        if not self._weight:
            return None
        sigma = max(1 / math.sqrt(self._weight), FORCES_RAD)
        return cmath.phase(self._north), sigma

    def _travel(self, true: Floats) -> tuple[Floats, Floats] | None:
        """Directions of travel and up (3,) in the rig's axes, if ``true`` (3, 3) corrects the reference."""
        if self.oriented and self._courses:
            up = self._up / np.linalg.norm(self._up)
            yaw = math.atan2(true[1, 0], true[0, 0])
            return exponential(up * -yaw) @ self._forward, up
        if self._first_course is None:
            return None
        attitude, course = self._first_course
        mended = true @ attitude
        return mended.T @ course, mended[2]

    @property
    def mounting(self) -> tuple[Floats, float, int] | None:
        """Directions of travel, left and up as columns (3, 3), their sigma (radians), number of courses.

        None if the IMU has no orientation of its own. Travel may point up or down in the rig's axes.
        """
        if not self.oriented or not self._courses:
            return None
        length = float(np.linalg.norm(self._forward)) / self._courses
        scatter = math.sqrt(max(0.0, -2 * math.log(min(1.0, max(length, 1e-3)))))
        forward = self._forward / np.linalg.norm(self._forward)
        up = self._up - (self._up @ forward) * forward
        up = up / np.linalg.norm(up)
        axes = np.stack([forward, np.cross(up, forward), up], axis=1)
        return axes, max(scatter / math.sqrt(self._courses), BEST_RAD), self._courses

    def start(self, first: Floats, *, rolls: bool) -> FilterStart:
        """The state in which a filter begins, where the reference has the attitude ``first``.

        Args:
            first: rig's axes as configured to the reference's (3, 3).
            rolls: whether the vehicle moves only where it points.
        """
        found = self.north
        north, sigma = (0.0, 2 * ROUGH_RAD if self.oriented else ANY_RAD) if found is None else found
        lean = np.zeros(3) if self._lean is None else self._lean
        true = exponential(lean) @ exponential(np.array((0.0, 0.0, north)))
        travel = self._travel(true)
        mount, mount_rad, travels = _axes(_ahead(first[2]), first[2]), ROUGH_RAD, False
        if travel is not None:
            forward, up = travel
            ahead = _axes(_ahead(up), up)
            off = math.atan2(float(forward @ ahead[:, 1]), float(forward @ ahead[:, 0]))
            travels = rolls
            agreed = self.oriented and abs(off) < AGREED_RAD and abs(north) < 3 * sigma
            if agreed and rolls:
                north, sigma, mount, mount_rad = 0.0, TRUSTED_RAD, ahead, TRUSTED_RAD
                true = np.eye(3)
            elif found is not None:
                mount, mount_rad = _axes(forward, up), SURE_RAD
            elif self.oriented and abs(off) < SMALL_RAD:
                sigma, mount = ROUGH_RAD, ahead
            elif self.oriented and abs(math.remainder(off, math.pi / 2)) < TURNED_RAD:
                sigma, mount = ROUGH_RAD, _axes(forward, up)
            elif rolls:
                north, sigma, mount = off, ROUGH_RAD, ahead
                mount_rad = mount_rad if self.oriented else BEST_RAD
                true = exponential(np.array((0.0, 0.0, north)))
        sure = self.oriented or self._lean is not None
        return FilterStart(
            rotation=true @ first,
            north_rad=-north if self.oriented else 0.0,
            mount=mount,
            tilt_rad=LEVEL_RAD if sure else LEANING_RAD,
            heading_rad=math.hypot(sigma, 0.25 * math.hypot(*lean.tolist())),
            north_sigma_rad=sigma if self.oriented else 0.0,
            mount_rad=mount_rad,
            travels=travels,
        )


def _level(step: ImuStep) -> Floats:
    """The attitude (3, 3) with the tilt that gravity shows and heading zero."""
    force = np.array(step.dv_m_s)
    length = float(np.linalg.norm(force))
    if not step.feels or length == 0:
        return np.eye(3)
    return _axes(_ahead(force / length), force / length).T


def _ahead(up: Floats) -> Floats:
    """The level direction nearest to x, or to y where x is vertical."""
    for axis in (np.array((1.0, 0.0, 0.0)), np.array((0.0, 1.0, 0.0))):
        level = axis - (axis @ up) * up
        length = float(np.linalg.norm(level))
        if length > 0.3:
            break
    return level / length


def _axes(forward: Floats, up: Floats) -> Floats:
    """Directions forward, left and up as columns (3, 3)."""
    ahead = forward - (forward @ up) * up
    ahead = ahead / np.linalg.norm(ahead)
    return np.stack([ahead, np.cross(up, ahead), up], axis=1)
