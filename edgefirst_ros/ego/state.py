"""What the filter estimates: nominal state, error state, and the nodes that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.geometry import exponential

Floats = npt.NDArray[np.float64]

SIZE = 18
TURN, SPEED, PLACE, GYRO, FORCE = (slice(n, n + 3) for n in (0, 3, 6, 9, 12))
"""Error state: rotation about ENU's axes, velocity, position, gyroscope's and accelerometer's bias, ..."""
NORTH = 15
"""... the angle of the orientation sensor's north to the right of true north, ..."""
MOUNT = slice(16, 18)
"""... and pitch and yaw of the direction of travel in the rig's axes as configured."""


@dataclass(slots=True)
class MotionState:
    """The nominal state at one time.

    Attributes:
        rotation: from the rig's axes, as configured, to ENU (3, 3).
        velocity_m_s: ENU (3,).
        position_m: ENU (3,).
        gyro_rad_s: bias of the angular rate, rig's axes (3,).
        force_m_s2: bias of the specific force, rig's axes (3,).
        north_rad: yaw of the orientation sensor minus the true one.
        mount: from the axes of travel (forward, left, up) to the rig's axes, as configured (3, 3).
    """

    rotation: Floats
    velocity_m_s: Floats
    position_m: Floats
    gyro_rad_s: Floats
    force_m_s2: Floats
    north_rad: float
    mount: Floats

    def moved(self, error: Floats) -> MotionState:
        """This state corrected by an error state (18,)."""
        mount = np.array((0.0, error[16], error[17]))
        return MotionState(
            exponential(error[TURN]) @ self.rotation,
            self.velocity_m_s + error[SPEED],
            self.position_m + error[PLACE],
            self.gyro_rad_s + error[GYRO],
            self.force_m_s2 + error[FORCE],
            self.north_rad + float(error[NORTH]),
            self.mount @ exponential(mount),
        )


@dataclass(slots=True)
class Update:
    """A measurement, for the backward pass; ``information`` is the inverse covariance of the innovation."""

    jacobian: Floats
    information: Floats
    innovation: Floats
    gain: Floats


@dataclass(slots=True)
class Node:
    """The filter after one step.

    Attributes:
        time_ns: end of the step.
        state: after all measurements at that time.
        covariance: of its error state (18, 18).
        transition: of the error state during the step; None where the estimate starts or restarts.
        updates: measurements applied, in order.
        rate_rad_s: angular rate, rig's axes (3,), bias included.
        turns: whether rates were measured during the step.
    """

    time_ns: int
    state: MotionState
    covariance: Floats
    transition: Floats | None
    updates: list[Update] = field(default_factory=list)
    rate_rad_s: Floats = field(default_factory=lambda: np.zeros(3))
    turns: bool = False
