"""An IMU with other units or axes than REP 103 asks for is found by gravity and by turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from ego_drives import MEMS, Case, ns, off, whole
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.motion import solve
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.ego.units import Units
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import PoseBasis

G = 9.80665
FRD = np.diag((1.0, -1.0, -1.0))
"""Front-left-up to front-right-down, and back."""
NED = np.array(((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)))
"""East-north-up to north-east-down, and back."""

Sent = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""What a driver makes of rotation (3, 3), rates and forces."""


@dataclass(frozen=True)
class Driver(Case):
    """An IMU whose driver sends something else."""

    sent: Sent = lambda rotation, rates, forces: (rotation, rates, forces)
    sigma_m: float = 0.5
    seconds: float = 60.0

    def samples(self) -> list[tuple[int, Imu]]:
        found = []
        for time_ns, imu in super().samples():
            told = imu.orientation_xyzw
            rotation = np.eye(3) if told is None else Rotation.from_quat(told).as_matrix()
            sent = self.sent(
                rotation, np.array(imu.angular_velocity_rad_s), np.array(imu.linear_acceleration_m_s2)
            )
            x, y, z, w = Rotation.from_matrix(sent[0]).as_quat().tolist()
            rates, forces = (tuple(each.tolist()) for each in sent[1:])
            found.append((time_ns, Imu(None if told is None else (x, y, z, w), rates, forces)))
        return found


def learnt(case: Case) -> Units:
    units = Units()
    for part in case.log().measured():
        if len(part) == 3:
            units.add_fix(*part)
        else:
            units.add_samples(*part)
    return units


KINDS: dict[str, tuple[Sent, float, float, bool, tuple[str, ...]]] = {
    "as REP 103 asks": (lambda r, w, f: (r, w, f), 1, 1, True, ()),
    "in g": (lambda r, w, f: (r, w, f / G), G, 1, True, ("are in g",)),
    "in degrees": (lambda r, w, f: (r, np.degrees(w), f), 1, np.pi / 180, True, ("in degrees a second",)),
    "in g and degrees": (
        lambda r, w, f: (r, np.degrees(w), f / G), G, np.pi / 180, True, ("are in g", "degrees"),
    ),
    "without gravity": (
        lambda r, w, f: (r, w, f - r.T @ (0, 0, G)), np.nan, 1, True, ("lack gravity",),
    ),
    "north-east-down": (
        lambda r, w, f: (NED @ r @ FRD, FRD @ w, FRD @ f), 1, 1, True, ("north-east-down",),
    ),
    "north-east-down in g and degrees": (
        lambda r, w, f: (NED @ r @ FRD, np.degrees(FRD @ w), FRD @ f / G), G, np.pi / 180, True,
        ("are in g", "degrees", "north-east-down"),
    ),
    "forces negated": (lambda r, w, f: (r, w, -f), 1, 1, False, ("z down",)),
}  # fmt: skip


@pytest.mark.long(cases=3)
@pytest.mark.parametrize("oriented", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_driver_sends_is_found(kind: str, oriented: bool) -> None:
    sent, force, rate, believed, notes = KINDS[kind]
    found = learnt(Driver(imu=MEMS, oriented=oriented, sent=sent))
    assert (found.force, found.rate) == pytest.approx((force, rate), nan_ok=True)
    if not oriented:  # then axes are told by the mounting alone
        believed, notes = True, tuple(each for each in notes if "down" not in each)
    assert found.oriented == believed
    assert len(found.notes) == len(notes)
    assert all(note in each for note, each in zip(notes, found.notes, strict=True)), found.notes


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    ("kind", "oriented"),
    [
        ("in g and degrees", False),
        ("in g and degrees", True),
        ("north-east-down", True),
        ("north-east-down in g and degrees", True),
        ("without gravity", True),
        ("without gravity", False),
    ],
)
def test_poses_are_true_all_the_same(kind: str, oriented: bool, live: bool) -> None:
    case = Driver(imu=MEMS, oriented=oriented, sent=KINDS[kind][0])
    # Live, what was sent before it was found has to leave the window of the estimate.
    times = np.arange(45.0 if live else 5.0, 58.0, 0.5)
    if live:
        found = off(case.world, case.live(Trajectory(), times)[0])
    else:
        found = whole(case, solve(case.log(), Vehicle(), None), times)
    blind = np.isnan(KINDS[kind][1])
    assert found.rms_m < (2.0 if blind else 0.5)
    assert found.rms_deg < (8.0 if blind else 1.5)


@pytest.mark.long
def test_orientations_in_north_east_down_are_written_in_east_north_up() -> None:
    case = Driver(imu=MEMS, oriented=True, sent=KINDS["north-east-down"][0])
    motion = solve(case.log(), Vehicle(), None)
    trajectory = Trajectory(motion)
    for message in case.samples():
        trajectory.add_imu(*message)
    found = off(case.world, [trajectory.pose(ns(at)) for at in np.arange(5.0, 55.0, 1.0)])
    assert found.rms_deg < 1.5
    assert {each.rotation_basis for each in found.poses} <= {PoseBasis.MEASURED, PoseBasis.INTERPOLATED}


REJECTED: dict[str, Sent] = {
    "without gravity": KINDS["without gravity"][0],
    "none": lambda r, w, f: (r, w, f * 0),
    "in counts": lambda r, w, f: (r, w, f * 1670),
}


@pytest.mark.long
@pytest.mark.parametrize("oriented", [True, False])
@pytest.mark.parametrize("kind", REJECTED)
def test_no_fix_is_refused_for_forces_that_are_not_used(kind: str, oriented: bool) -> None:
    """A bend in forces without gravity looks like one to the other side."""
    case = Driver(imu=MEMS, oriented=oriented, seconds=85.0, sent=REJECTED[kind])
    motion = solve(case.log(), Vehicle(), None)
    assert {*motion.refusals.values()} == {Reason.SAME_EPOCH}
    live = Trajectory()
    _, outcomes = case.live(live, [80.0])
    assert {*outcomes.values()} == {None, Reason.SAME_EPOCH}
    assert not any("fix" in each for each in [*motion.notes, *live.notes])


def test_a_sensor_alone_is_left_alone() -> None:
    """Without a way, or an accelerometer without a gyroscope."""
    still = learnt(Driver(imu=MEMS, gps_hz=0))
    assert (still.force, still.rate, still.oriented, still.notes) == (1, 1, True, [])
    none = learnt(Driver(imu=MEMS, sent=lambda r, w, f: (r, w * 0, f * 0)))
    assert (none.force, none.rate, none.oriented, none.notes) == (1, 1, True, [])
