"""The error-state Kalman filter that docs/ego.md derives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from edgefirst_ros.ego.geometry import exponential, logarithm, matrix, skew
from edgefirst_ros.ego.inertia import ImuStep
from edgefirst_ros.ego.state import (
    FORCE,
    GYRO,
    MOUNT,
    NORTH,
    PLACE,
    SIZE,
    SPEED,
    TURN,
    Floats,
    MotionState,
    Node,
    Update,
)

FAR_M = 1e3
FAST_M_S = 20.0
"""Standard deviations of an unknown position and an unknown velocity."""
ANY_RAD = math.pi / math.sqrt(3)
"""Standard deviation of an unknown heading."""
LONGEST_S = 3600.0
"""Steps are computed as if no longer than this, as the covariance of longer ones loses its precision."""
FASTEST_M_S = 50.0
SLOW_M_S = 0.3
"""A vehicle slower than this stands still, if its IMU is quiet, too."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Assumed noise of sensors and vehicles; docs/ego.md gives the reasons.

    Attributes:
        gyro: angular rate, rad/s/√Hz.
        force: specific force, m/s²/√Hz.
        gyro_walk: drift of its bias, rad/s/√s.
        force_walk: drift of its bias, m/s²/√s.
        gyro_bias: initial uncertainty of the bias, rad/s.
        force_bias: initial uncertainty of the bias, m/s².
        blind_turn: change of the yaw rate without a gyroscope, rad/s/√s; less below 2 m/s.
        blind_rate: initial uncertainty of that yaw rate, rad/s.
        blind_force: acceleration without an accelerometer, besides that of a turn, m/s²/√Hz.
        tilt: an IMU's own roll and pitch, rad.
        heading: an IMU's own yaw besides its constant error, rad.
        level: roll and pitch of a vehicle that has no accelerometer, rad.
        north_walk: drift of an IMU's north, rad/√s.
        mount_walk: drift of its mounting, rad/√s.
        slip: velocity across the direction of travel, m/s, besides 1 % of the speed.
        arm_m: distance of the rig from the axle that does not slip; times the angular rate added to ``slip``.
        standing: velocity of a vehicle that stands still, m/s.
        standing_rate: angular rate of a vehicle that stands still, rad/s.
        every_s: least time between two of these constraints: their errors do not change faster.
    """

    gyro: float = 1e-3
    force: float = 0.02
    gyro_walk: float = 2e-5
    force_walk: float = 1e-3
    gyro_bias: float = 0.01
    force_bias: float = 0.2
    blind_turn: float = 0.2
    blind_rate: float = 0.2
    blind_force: float = 1.0
    tilt: float = math.radians(2)
    heading: float = math.radians(1)
    level: float = math.radians(3)
    north_walk: float = 5e-4
    mount_walk: float = 1e-5
    slip: float = 0.05
    arm_m: float = 1.5
    standing: float = 0.02
    standing_rate: float = 0.002
    every_s: float = 0.2


@dataclass(frozen=True, slots=True)
class FilterStart:
    """The filter's first rotation, north error and mounting, with their standard deviations in radians.

    ``travels``: the direction of travel in the rig's axes is known, so motion across it can be ruled out.
    """

    rotation: Floats
    north_rad: float = 0.0
    mount: Floats | None = None
    tilt_rad: float = math.radians(3)
    heading_rad: float = ANY_RAD
    north_sigma_rad: float = 0.0
    mount_rad: float = math.radians(5)
    travels: bool = False


class Filter:
    """Estimates the motion from steps and measurements in order of time.

    Attributes:
        node: the latest estimate.
        noise: of sensors and vehicle.
        travels: whether motion across the direction of travel is ruled out.
    """

    def __init__(self, gravity_m_s2: float, noise: Noise) -> None:
        self.gravity = gravity_m_s2
        self.noise = noise
        self.travels = False

    @property
    def gravity(self) -> float:
        """Downward acceleration, m/s²."""
        return -float(self._gravity[2])

    @gravity.setter
    def gravity(self, gravity_m_s2: float) -> None:
        self._gravity = np.array((0.0, 0.0, -gravity_m_s2))

    def begin(self, step: ImuStep, start: FilterStart) -> Node:
        """Begin at the end of a step, with unknown position and speed; the first node."""
        noise = self.noise
        mount = np.eye(3) if start.mount is None else start.mount
        zero = np.zeros(3)
        state = MotionState(start.rotation, zero, zero, zero, zero, start.north_rad, mount)
        sigma = np.empty(SIZE)
        sigma[TURN] = (start.tilt_rad, start.tilt_rad, start.heading_rad)
        sigma[SPEED], sigma[PLACE] = FAST_M_S, FAR_M
        sigma[GYRO], sigma[FORCE] = noise.gyro_bias, noise.force_bias
        sigma[NORTH], sigma[MOUNT] = start.north_sigma_rad, start.mount_rad
        self.travels = start.travels
        rate = np.array(step.rate_rad_s)
        self.resume(Node(step.end_ns, state, np.diag(sigma * sigma), None, [], rate, turns=True))
        return self.node

    def resume(self, node: Node) -> None:
        """Continue from a node."""
        self.node = node
        self._due_s = 0.0

    def predict(self, step: ImuStep) -> Node:
        """Advance to the end of a step; the node there, before any measurement."""
        node, dt = self.node, min(step.dt_s, LONGEST_S)
        before, covariance = node.state, node.covariance
        retaken = step.turns != node.turns
        if retaken:
            before, covariance = self._retaken(node, turns=step.turns)
        rotation, velocity = before.rotation, before.velocity_m_s
        after = rotation @ exponential(np.array(step.turn_rad) - before.gyro_rad_s * dt)
        middle = 0.5 * (rotation + after)
        transition = np.eye(SIZE)
        transition[TURN, GYRO] = -dt * middle
        if step.feels:
            dv = np.array(step.dv_m_s) - before.force_m_s2 * dt
            dv -= skew((0.5 * dt) * before.gyro_rad_s) @ dv
            dp = np.array(step.dp_m) - before.force_m_s2 * (0.5 * dt * dt)
            u, w = rotation @ dv, rotation @ dp
            faster = velocity + u + self._gravity * dt
            place = before.position_m + velocity * dt + w + self._gravity * (0.5 * dt * dt)
            across = skew(u)
            turned = across @ middle
            transition[PLACE, SPEED].flat[::4] = dt
            transition[SPEED, TURN] = -across
            transition[PLACE, TURN] = -skew(w)
            transition[SPEED, FORCE] = -dt * middle
            transition[PLACE, FORCE] = (-0.5 * dt * dt) * rotation
            transition[SPEED, GYRO] = (0.5 * dt) * turned
            transition[PLACE, GYRO] = (dt * dt / 6) * turned
        else:
            # No force is known, but the velocity of a vehicle that rolls turns with its axes.
            bend = after @ rotation.T if self.travels else np.eye(3)
            faster = bend @ velocity
            place = before.position_m + (0.5 * dt) * (velocity + faster)
            transition[SPEED, SPEED] = bend
            transition[PLACE, SPEED] = (0.5 * dt) * (np.eye(3) + bend)
            if self.travels:
                transition[SPEED, TURN] = bend @ skew(velocity) - skew(faster)
                transition[PLACE, TURN] = (0.5 * dt) * transition[SPEED, TURN]
                transition[SPEED, GYRO] = dt * skew(faster) @ middle
                transition[PLACE, GYRO] = (0.5 * dt) * transition[SPEED, GYRO]
        state = MotionState(
            *(after, faster, place, before.gyro_rad_s, before.force_m_s2),
            *(before.north_rad, before.mount),
        )
        covariance = transition @ covariance @ transition.T
        if retaken:
            transition[:, GYRO] = 0.0
        self._spread(covariance, state, step)
        self._due_s += dt
        rate = np.array(step.rate_rad_s)
        self.node = Node(step.end_ns, state, covariance, transition, [], rate, step.turns)
        return self.node

    def _retaken(self, node: Node, *, turns: bool) -> tuple[MotionState, Floats]:
        """State and covariance as a gyroscope comes or goes; without one, its bias is an unknown yaw rate."""
        noise = self.noise
        bias = np.zeros(3) if turns else node.state.gyro_rad_s - node.rate_rad_s
        covariance = node.covariance.copy()
        covariance[GYRO] = covariance[:, GYRO] = 0.0
        up = node.state.rotation[2]
        unknown = noise.gyro_bias**2 * np.eye(3)
        covariance[GYRO, GYRO] = unknown if turns else unknown + noise.blind_rate**2 * np.outer(up, up)
        return replace(node.state, gyro_rad_s=bias), covariance

    def _spread(self, covariance: Floats, state: MotionState, step: ImuStep) -> None:
        """Add the process noise of a step."""
        noise, dt = self.noise, min(step.dt_s, LONGEST_S)
        force = (noise.force if step.feels else noise.blind_force) ** 2
        diagonal = np.einsum("ii->i", covariance)
        diagonal[TURN] += noise.gyro**2 * dt
        if step.turns:
            diagonal[GYRO] += noise.gyro_walk**2 * dt
        else:
            speed = math.hypot(*state.velocity_m_s.tolist())
            up = state.rotation[2]
            walk = (noise.blind_turn * min(1.0, speed / 2)) ** 2 * dt
            covariance[GYRO, GYRO] += walk * np.outer(up, up)
        diagonal[SPEED] += force * dt
        diagonal[PLACE] += force * dt**3 / 3
        moving = force * dt * dt / 2
        np.einsum("ii->i", covariance[PLACE, SPEED])[:] += moving
        np.einsum("ii->i", covariance[SPEED, PLACE])[:] += moving
        diagonal[FORCE] += noise.force_walk**2 * dt
        diagonal[NORTH] += noise.north_walk**2 * dt
        diagonal[MOUNT] += noise.mount_walk**2 * dt

    def constrain(self, step: ImuStep) -> None:
        """Apply what needs no fix, some times a second: orientation, rolling without slip, standing still."""
        if self._due_s < self.noise.every_s:
            return
        state, noise = self.node.state, self.noise
        oriented = step.orientation_xyzw[0] == step.orientation_xyzw[0]  # not NaN
        if not oriented and step.turns and self._due_s < 2 * noise.every_s:
            return  # the next step may end at a sample with an orientation
        self._due_s = 0.0
        if oriented:
            self._orient(matrix(step.orientation_xyzw))
        elif not step.feels:
            # Without an accelerometer nothing measures the tilt, but vehicles are upright on their roads.
            axis = state.rotation[:, 2]
            up = np.array((0.0, 0.0, 1.0 if axis[2] >= 0 else -1.0))
            jacobian = np.zeros((2, SIZE))
            jacobian[:, TURN] = (axis[2] * up[2] * np.eye(3) - np.outer(axis, up))[:2]
            self.update(jacobian, (skew(axis) @ up)[:2], np.full(2, noise.level**2))
        speed = math.hypot(*state.velocity_m_s.tolist())
        uncertain = float(np.max(np.diagonal(self.node.covariance)[SPEED]))
        if step.quiet and speed < SLOW_M_S and uncertain < 0.25:
            self._stand(step)
        elif self.travels:
            self._roll(step, speed)
        if uncertain > FASTEST_M_S**2:
            jacobian = np.zeros((3, SIZE))
            jacobian[:, SPEED] = np.eye(3)
            self.update(jacobian, -self.node.state.velocity_m_s, np.full(3, FASTEST_M_S**2))

    def _orient(self, measured: Floats) -> None:
        """Use the IMU's own orientation, which is the true one rotated about the vertical."""
        north = exponential(np.array((0.0, 0.0, self.node.state.north_rad)))
        residual = logarithm(measured @ (north @ self.node.state.rotation).T)
        jacobian = np.zeros((3, SIZE))
        jacobian[:, TURN] = north
        jacobian[2, NORTH] = 1.0
        noise = self.noise
        self.update(jacobian, residual, np.array((noise.tilt**2, noise.tilt**2, noise.heading**2)))

    def _roll(self, step: ImuStep, speed: float) -> None:
        """The vehicle moves neither sideways nor upwards in its axes of travel."""
        state, noise = self.node.state, self.noise
        if not step.turns and speed < 1.0:
            # A vehicle that stands or creeps hardly turns, and has no course that would show its heading.
            jacobian = np.zeros((1, SIZE))
            jacobian[0, GYRO] = state.rotation[2]
            slight = np.array([(0.3 * speed) ** 2 + 1e-4])
            self.update(jacobian, -jacobian[:, GYRO] @ state.gyro_rad_s, slight)
            return
        axes = (state.rotation @ state.mount).T
        travel = axes @ state.velocity_m_s
        jacobian = np.zeros((2, SIZE))
        jacobian[:, TURN] = (axes @ skew(state.velocity_m_s))[1:]
        jacobian[:, SPEED] = axes[1:]
        jacobian[:, MOUNT] = skew(travel)[1:, 1:]
        own = noise.slip + 0.01 * speed
        rate = math.hypot(*step.rate_rad_s) if step.turns else 0.0
        sigma = np.array((own + noise.arm_m * rate, own))
        self.update(jacobian, -travel[1:], sigma * sigma, clip=3.0)

    def _stand(self, step: ImuStep) -> None:
        jacobian = np.zeros((6, SIZE))
        jacobian[:3, SPEED] = np.eye(3)
        jacobian[3:, GYRO] = np.eye(3)
        state, noise = self.node.state, self.noise
        residual = np.concatenate([-state.velocity_m_s, np.array(step.rate_rad_s) - state.gyro_rad_s])
        self.update(jacobian, residual, np.repeat((noise.standing**2, noise.standing_rate**2), 3))

    def update(self, jacobian: Floats, residual: Floats, variance: Floats, *, clip: float = math.inf) -> None:
        """Correct the state by a measurement.

        Args:
            jacobian: derivative of the measurement by the error state (m, 18).
            residual: measured minus expected (m,).
            variance: of the measurement's noise (m,).
            clip: beyond this many sigmas a residual weighs less, as if its noise were larger (Huber).
        """
        node = self.node
        across = node.covariance @ jacobian.T
        spread = jacobian @ across
        total = spread + np.diag(variance)
        information: Floats = np.linalg.inv(total).astype(np.float64, copy=False)
        if clip < math.inf:
            off = math.sqrt(float(residual @ information @ residual)) / clip
            if off > 1:
                total = spread + np.diag(variance * off * off)
                information = np.linalg.inv(total).astype(np.float64, copy=False)
        gain = across @ information
        node.state = node.state.moved(gain @ residual)
        covariance = node.covariance - gain @ across.T
        node.covariance = 0.5 * (covariance + covariance.T)
        node.updates.append(Update(jacobian, information, residual, gain))
