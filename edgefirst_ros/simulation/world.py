"""The world that all simulated sensors measure: a circuit, the rig on it, moving boxes, mounts."""

from __future__ import annotations

import cmath
import colorsys
import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.transform import matrix_of, product, quaternion_of, quaternion_of_angles
from edgefirst_ros.simulation.options import BRAKING_S, MoreSensor, Turns

FloatArray = npt.NDArray[np.float64]

CRUISE_M_S = 8.0
CIRCUIT_RADIUS_M = 60.0
STEP_S = 1e-3
"""Of differences in time: far shorter than any motion, far longer than what rounding does to positions."""


@dataclass(frozen=True)
class BodyState:
    """An upright body at one time: ENU metres and radians."""

    position_m: FloatArray
    velocity_m_s: FloatArray
    acceleration_m_s2: FloatArray
    yaw_rad: float
    yaw_rate_rad_s: float

    def quaternion_xyzw(self) -> tuple[float, float, float, float]:
        """The body in the world."""
        return 0.0, 0.0, math.sin(self.yaw_rad / 2), math.cos(self.yaw_rad / 2)

    def turning_rad_s(self) -> tuple[float, float, float]:
        """Angular velocity in the body's axes."""
        return 0.0, 0.0, self.yaw_rate_rad_s

    def rotation(self) -> FloatArray:
        """Body to world, 3×3, read-only."""
        return self._rotation

    def matrix(self) -> FloatArray:
        """Body to world, 4×4, read-only."""
        return self._matrix

    @cached_property
    def _rotation(self) -> FloatArray:
        c, s = math.cos(self.yaw_rad), math.sin(self.yaw_rad)
        return _fixed(np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]))

    @cached_property
    def _matrix(self) -> FloatArray:
        return _fixed(rigid(self.rotation(), self.position_m))

    def velocity_at(self, points_m: FloatArray) -> FloatArray:
        """Velocity of points fixed to the body, which are now at ``points_m`` (N×3, world)."""
        arm = points_m - self.position_m
        turning = np.stack([-arm[:, 1], arm[:, 0], np.zeros(len(arm))], axis=1)
        moving: FloatArray = self.velocity_m_s + self.yaw_rate_rad_s * turning
        return moving


class Motion(Protocol):
    """How a body moves."""

    def state(self, time_s: float) -> BodyState:
        """Where it is at a time."""


@dataclass(frozen=True)
class Circuit:
    """Motion along a closed curve: the rig's road, a lane beside it, or a walker's loop.

    At angle a = phase + rate·t the curve is centre + (radius + wobble·sin(lobes·a))·(cos a, sin a); the
    body is ``offset_m`` to the left of it (counter-clockwise sense) and heads along its own motion. It stands
    during ``stops`` (from, to in seconds) and brakes and accelerates for 4 s before and after each.
    """

    center_m: tuple[float, float]
    radius_m: float
    rate_rad_s: float
    phase_rad: float
    wobble_m: float = 0.0
    lobes: int = 3
    offset_m: float = 0.0
    stops: tuple[tuple[float, float], ...] = ()
    is_level: ClassVar[bool] = True
    """Whether a body that moves so stays upright."""

    def state(self, time_s: float) -> BodyState:
        """Closed-form state, its arrays read-only; the acceleration is that of the curve without offset."""
        return _state(self, time_s)

    def computed(self, time_s: float) -> BodyState:
        """The state, each time anew."""
        driven_s, share, change_1_s = driven(time_s, self.stops)
        angle = self.phase_rad + self.rate_rad_s * driven_s
        sin, cos = math.sin(self.lobes * angle), math.cos(self.lobes * angle)
        r = self.radius_m + self.wobble_m * sin
        dr = self.wobble_m * self.lobes * cos
        ddr = -self.wobble_m * self.lobes**2 * sin
        spin = cmath.exp(1j * angle)
        tangent = (dr + 1j * r) * spin
        curving = (ddr + 2j * dr - r) * spin
        turn = (tangent.conjugate() * curving).imag / abs(tangent) ** 2
        unit = tangent / abs(tangent)
        position = complex(*self.center_m) + r * spin + self.offset_m * 1j * unit
        rate_rad_s = self.rate_rad_s * share
        velocity = rate_rad_s * (tangent - self.offset_m * turn * unit)
        yaw = cmath.phase(unit if self.rate_rad_s >= 0 else -unit)
        return BodyState(
            _vector(position),
            _vector(velocity),
            _vector(rate_rad_s**2 * curving + self.rate_rad_s * change_1_s * tangent),
            yaw,
            turn * rate_rad_s,
        )


@dataclass(frozen=True, slots=True)
class SceneBox:
    """An upright box on the ground: ``size_m`` along its x, y, z; its origin is the centre of its floor."""

    label: str
    track_id: str
    color: tuple[int, int, int]
    size_m: tuple[float, float, float]
    motion: Motion


BASE = "base_link"
"""The rig's frame."""
OPTICAL = (-1.0, 1.0, -1.0, 1.0)
"""Quaternion of a camera that looks along x: z forward, x right; not normalised, as the device sends it."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Pose of a sensor in its parent, as in tf_static; the quaternion may be unnormalised.

    One that ``turns`` does so after that pose, as tf tells.
    """

    child: str
    translation_m: tuple[float, float, float]
    rotation_xyzw: tuple[float, float, float, float]
    parent: str = BASE
    turns: Turns | None = None

    def matrix(self) -> FloatArray:
        """Child to parent, 4×4, read-only; of one that turns in the middle of its swing."""
        return _mounted(self)

    def at(self, time_s: float) -> Mount:
        """Where it is at a time."""
        if self.turns is None:
            return self
        turned = product(np.array(self.rotation_xyzw), np.array(self.turns.xyzw(time_s)))
        return replace(self, rotation_xyzw=_quaternion(turned), turns=None)


@dataclass(frozen=True)
class Lens:
    """A camera without distortion; whole pixel coordinates are pixel centres (ROS)."""

    width: int
    height: int
    focal_px: float

    @property
    def center_px(self) -> tuple[float, float]:
        """Principal point (cx, cy)."""
        return (self.width - 1) / 2, (self.height - 1) / 2

    def project(self, points_m: FloatArray) -> FloatArray:
        """Pixels (..., 2) of optical-frame points (..., 3) in front of the camera."""
        pixels: FloatArray = self.focal_px * points_m[..., :2] / points_m[..., 2:] + self.center_px
        return pixels

    def directions(self) -> FloatArray:
        """Unit vectors of the optical frame through the centres of all pixels, (height, width, 3)."""
        away = self.away_px() / self.focal_px
        rays = np.concatenate([away, np.ones((self.height, self.width, 1))], axis=-1)
        found: FloatArray = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
        return found

    def away_px(self) -> FloatArray:
        """Every pixel from the principal point, (height, width, 2)."""
        places: FloatArray = np.stack(np.meshgrid(np.arange(self.width), np.arange(self.height)), axis=-1)
        return places - self.center_px


@dataclass(frozen=True)
class Fisheye(Lens):
    """A camera that sees by angles (Kannala and Brandt, as OpenCV's fisheye), up to 150 degrees wide."""

    coefficients: tuple[float, float, float, float] = (-0.02, 0.004, -0.001, 0.0002)
    """A bend as lenses have it."""

    def project(self, points_m: FloatArray) -> FloatArray:
        """Pixels (..., 2) of optical-frame points (..., 3), those behind the camera as well."""
        aside = np.linalg.norm(points_m[..., :2], axis=-1)
        angle = np.arctan2(aside, points_m[..., 2])
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(aside > 0, self.focal_px * self._bent(angle) / aside, 0.0)
        pixels: FloatArray = points_m[..., :2] * scale[..., None] + self.center_px
        return pixels

    def _bent(self, angle: FloatArray) -> FloatArray:
        bent: FloatArray = angle * (
            1 + sum(k * angle ** (2 * n + 2) for n, k in enumerate(self.coefficients))
        )
        return bent

    def directions(self) -> FloatArray:
        """Unit vectors of the optical frame through the centres of all pixels, (height, width, 3)."""
        away = self.away_px()
        radius = np.linalg.norm(away, axis=-1) / self.focal_px
        known = np.linspace(0.0, math.pi, 20_000)
        angle = np.interp(radius, self._bent(known), known)
        with np.errstate(divide="ignore", invalid="ignore"):
            aside = np.where(radius > 0, np.sin(angle) / radius, 1.0) / self.focal_px
        found: FloatArray = np.concatenate([away * aside[..., None], np.cos(angle)[..., None]], axis=-1)
        return found


@dataclass(frozen=True, slots=True)
class World:
    """The simulated world; times are seconds since the drive's start, positions ENU metres at the origin."""

    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    rig: Circuit
    boxes: tuple[SceneBox, ...]
    mounts: tuple[Mount, ...]
    camera: Lens
    other_cameras: tuple[tuple[str, Lens], ...] = ()
    """With their frames."""

    def lens(self, frame: str) -> Lens:
        """The camera of a frame."""
        return dict(self.other_cameras).get(frame, self.camera)

    def motion(self, at_m: tuple[float, float, float], time_s: float) -> tuple[FloatArray, FloatArray]:
        """Velocity and acceleration of a point of the rig, which is fixed at ``at_m`` in base_link."""
        before, here, after = (
            transform(self.rig.state(time_s + step_s).matrix(), np.array(at_m))
            for step_s in (-STEP_S, 0.0, STEP_S)
        )
        return (after - before) / (2 * STEP_S), (after - 2 * here + before) / STEP_S**2

    def sensor(self, child: str, time_s: float) -> FloatArray:
        """Sensor to world at a time, 4×4; ``child`` as in tf_static."""
        return self.rig.state(time_s).matrix() @ self.mounted(child, time_s)

    def mounted(self, child: str, time_s: float) -> FloatArray:
        """Sensor to base_link at a time, 4×4."""
        mount = next(mount for mount in self.mounts if mount.child == child)
        here = mount.at(time_s).matrix()
        return here if mount.parent == BASE else self.mounted(mount.parent, time_s) @ here


def rigid(rotation: FloatArray, translation: FloatArray) -> FloatArray:
    """4×4 transform of a 3×3 rotation and a translation."""
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = rotation
    matrix[:3, 3] = translation
    matrix[3, 3] = 1.0
    return matrix


def inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a rigid 4×4 transform."""
    back = matrix[:3, :3].T
    return rigid(back, -back @ matrix[:3, 3])


def transform(matrix: FloatArray, points_m: FloatArray) -> FloatArray:
    """Points (..., 3) transformed by a 4×4 matrix."""
    moved: FloatArray = points_m @ matrix[:3, :3].T + matrix[:3, 3]
    return moved


Move = tuple[str, tuple[float, float, float], Motion]
"""Label, size and motion of a box."""


def build(
    seed: int,
    width: int,
    height: int,
    *,
    stops: tuple[tuple[float, float], ...] = (),
    own: bool = True,
    more: Sequence[MoreSensor] = (),
) -> World:
    """A circuit of 377 m, traffic in lanes beside the rig's, parked vehicles, and people walking loops.

    Lanes and loops keep clear of each other at all times and for every seed, which only shifts them
    along the road and bends it.
    ``stops`` are the times at which the rig stands, from and to in seconds. ``more`` are sensors beside the
    device's own, or without these.
    """
    rng = np.random.default_rng([seed, 0])
    wobble = float(rng.uniform(4.0, 7.0))
    start = float(rng.uniform(-math.pi, math.pi))
    cruise = CRUISE_M_S / CIRCUIT_RADIUS_M

    def lane(ahead_rad: float, offset_m: float, speed: float) -> Circuit:
        phase = start + ahead_rad + float(rng.uniform(-0.03, 0.03))
        return Circuit((0.0, 0.0), CIRCUIT_RADIUS_M, speed * cruise, phase, wobble, offset_m=offset_m)

    def loop(ahead_rad: float, offset_m: float, rate_rad_s: float) -> Circuit:
        x, y, _ = lane(ahead_rad, offset_m, 0.0).state(0.0).position_m
        phase = float(rng.uniform(-math.pi, math.pi))
        return Circuit((float(x), float(y)), 2.2, rate_rad_s, phase)

    moves: list[Move] = [
        ("car", (4.4, 1.8, 1.5), lane(0.40, 0.0, 1.0)),
        ("car", (4.2, 1.8, 1.6), lane(1.25, 3.6, -1.0)),
        ("truck", (7.5, 2.4, 3.0), lane(0.62, -3.8, 0.55)),
        ("bus", (10.5, 2.5, 3.2), lane(3.20, 3.6, -1.0)),
        ("bicycle", (1.8, 0.6, 1.7), lane(0.30, -6.4, 0.5)),
        ("person", (0.5, 0.6, 1.75), loop(0.33, 9.5, 0.55)),
        ("person", (0.5, 0.6, 1.65), loop(0.75, -11.0, -0.6)),
        ("person", (0.5, 0.6, 1.85), loop(1.30, 9.5, -0.5)),
        ("person", (0.4, 0.5, 1.20), loop(3.60, -11.0, 0.7)),
        ("person", (0.5, 0.6, 1.70), loop(5.00, 9.5, 0.6)),
        ("car", (4.6, 1.9, 1.9), lane(1.70, -8.8, 0.0)),
        ("truck", (6.5, 2.4, 2.8), lane(4.30, 9.0, 0.0)),
    ]
    rig = Circuit((0.0, 0.0), CIRCUIT_RADIUS_M, cruise, start, wobble, stops=stops)
    small_tilt = quaternion_of_angles(np.radians((0.5, 1.0, 3.0)))
    small_yaw = quaternion_of_angles(np.radians((0.0, 0.0, -2.0)))
    mounts = (
        Mount("camera_optical", (1.2, 0.0, 1.5), OPTICAL),
        Mount("radar", (1.9, -0.1, 0.6), _quaternion(small_yaw)),
        Mount("lidar", (1.0, 0.1, 1.8), _quaternion(small_tilt)),
    )
    cameras = tuple(
        (each.frame, _lens(each.width, each.height, each.model)) for each in more if each.kind == "camera"
    )
    placed = (*(mounts if own else ()), *chain.from_iterable(map(_mounts, more)))
    return World(45.5017, -73.5673, 35.0, rig, scene(seed, moves), placed, _lens(width, height), cameras)


def scene(seed: int, moves: Sequence[Move]) -> tuple[SceneBox, ...]:
    """Boxes that move so, with the names and colours of their places in the list."""
    return tuple(
        SceneBox(
            label, str(uuid.UUID(int=(seed << 32) + 0x5EED_0000 + i, version=4)), _color(i), size_m, motion
        )
        for i, (label, size_m, motion) in enumerate(moves)
    )


def _lens(width: int, height: int, model: str = "pinhole") -> Lens:
    # A fisheye sees 150 degrees across.
    return Fisheye(width, height, 0.382 * width) if model == "fisheye" else Lens(width, height, 0.66 * width)


def _mounts(sensor: MoreSensor) -> Iterator[Mount]:
    """Where a sensor is: in base_link, or 0.1 m ahead of the axis of a mount that turns."""
    turn = matrix_of(quaternion_of_angles(np.radians(sensor.rpy_deg)))
    axes = matrix_of(OPTICAL) if sensor.kind == "camera" else np.eye(3)
    if sensor.turns is None:
        yield Mount(sensor.frame, sensor.at_m, _quaternion(quaternion_of(turn @ axes)))
        return
    head = f"{sensor.frame}_head"
    yield Mount(head, sensor.at_m, _quaternion(quaternion_of(turn)), turns=sensor.turns)
    yield Mount(sensor.frame, (0.1, 0.0, 0.0), _quaternion(quaternion_of(axes)), head)


@lru_cache(maxsize=256)  # sensors ask for the same bodies at the same times
def _state(motion: Circuit, time_s: float) -> BodyState:
    state = motion.computed(time_s)
    for array in (state.position_m, state.velocity_m_s, state.acceleration_m_s2):
        _fixed(array)
    return state


@lru_cache(maxsize=64)
def _mounted(mount: Mount) -> FloatArray:
    return _fixed(rigid(matrix_of(mount.rotation_xyzw), np.array(mount.translation_m)))


def _fixed(array: FloatArray) -> FloatArray:
    """The array, which others share from now on."""
    array.flags.writeable = False
    return array


def _vector(plane: complex) -> FloatArray:
    return np.array([plane.real, plane.imag, 0.0])


def _quaternion(xyzw: FloatArray) -> tuple[float, float, float, float]:
    x, y, z, w = (float(v) for v in xyzw)
    return x, y, z, w


def _color(index: int) -> tuple[int, int, int]:
    """Saturated, evenly spaced hues; neighbours in the list are far apart."""
    r, g, b = colorsys.hsv_to_rgb((index * 5 % 12) / 12, 0.9, 0.95)
    return round(r * 255), round(g * 255), round(b * 255)


def driven(time_s: float, stops: tuple[tuple[float, float], ...]) -> tuple[float, float, float]:
    """Seconds at full speed for the same distance, the share of full speed now, and its change (1/s)."""
    driven_s, share, change_1_s = time_s, 1.0, 0.0
    for start_s, end_s in stops:
        braked = min(max(time_s - start_s + BRAKING_S, 0.0), BRAKING_S)
        gained = min(max(time_s - end_s, 0.0), BRAKING_S)
        stood = min(max(time_s - start_s, 0.0), end_s - start_s)
        wave = math.pi / BRAKING_S
        driven_s -= stood + (braked + gained) / 2
        driven_s += (math.sin(wave * braked) - math.sin(wave * gained)) / (2 * wave)
        if start_s - BRAKING_S < time_s < end_s + BRAKING_S:
            share = (1 + math.cos(wave * (braked - gained))) / 2
            change_1_s = math.sin(wave * (braked - gained)) * wave / 2 * (1 if gained else -1)
    return driven_s, share, change_1_s
