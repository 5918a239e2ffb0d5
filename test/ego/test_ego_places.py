"""An antenna and an IMU far from the rig's origin: poses are the rig's where the configuration says so."""

from __future__ import annotations

import numpy as np
import pytest

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.inertia import sample_row
from edgefirst_ros.ego.motion import WHOLE, Motion, lagging
from edgefirst_ros.model.navigation import Imu, NavSatFix
from edgefirst_ros.model.transform import matrix_of
from edgefirst_ros.simulation.sensors import fix, specific_force
from edgefirst_ros.simulation.world import build, transform

START_NS = 1_700_000_000_000_000_000
AHEAD, ABOVE, ORIGIN = (1.5, 0.4, 0.0), (-0.8, 0.0, 1.9), (0.0, 0.0, 0.0)


def off(vehicle: Vehicle, *, live: bool, seconds: int = 10) -> tuple[float, float]:
    """By how many degrees and metres poses are off, of a rig with exact sensors AHEAD (IMU) and ABOVE."""
    world = build(0, 320, 192)
    motion = Motion(vehicle, None, lagging(2_000_000_000) if live else WHOLE)
    moments = [(i * 10_000_000, True) for i in range(100 * seconds)]
    moments += [(i * 100_000_000 + 35_000_000, False) for i in range(10 * seconds)]
    first_m = None
    for number, (since_ns, is_imu) in enumerate(sorted(moments)):
        time_s = since_ns / 1e9
        state = world.rig.state(time_s)
        if is_imu:
            force = specific_force(state, world.motion(AHEAD, time_s)[1])
            row = sample_row(Imu(None, state.turning_rad_s(), force))
            motion.add_samples((START_NS + since_ns,), np.array([row]))
        else:
            antenna_m = transform(state.matrix(), np.array(ABOVE))
            first_m = antenna_m if first_m is None else first_m
            motion.add_fix(START_NS + since_ns, number, NavSatFix(*fix(world, antenna_m), 0))
    motion.finish()
    turned_deg, moved_m = [], []
    for since_ns in (2_000_000_000, 5_000_000_000, 9_000_000_000):
        point, state = motion.path.at(START_NS + since_ns), world.rig.state(since_ns / 1e9)
        assert point is not None
        cosine = (np.trace(state.rotation().T @ matrix_of(point.rotation_xyzw)) - 1) / 2
        turned_deg.append(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
        moved_m.append(np.linalg.norm(np.array(point.position_m) + first_m - state.position_m))
    return max(turned_deg), float(max(moved_m))


@pytest.mark.parametrize("live", [False, True], ids=["whole", "live"])
def test_poses_are_of_the_rig_wherever_its_antenna_and_its_imu_are(live: bool) -> None:
    turned_deg, moved_m = off(Vehicle(antenna_m=ABOVE, imu_m=AHEAD), live=live)
    assert turned_deg < 0.1
    assert moved_m < 0.02
