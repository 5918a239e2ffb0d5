"""The same filter live: every pose knows what came within two seconds after it, and nothing later."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ego_drives import MEMS, Case, Off, from_yaw, ns, off
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.ego import motion
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.navigation import Imu, NavSatFix
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import PoseBasis

S = 1_000_000_000
TIMES = np.arange(0.0, 20.0, 0.1)


def followed(case: Case) -> tuple[Trajectory, Off, dict[int, str | None]]:
    trajectory = Trajectory()
    poses, outcomes = case.live(trajectory, TIMES)
    return trajectory, off(case.world, poses), outcomes


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("case", "rms_m", "worst_m", "rms_deg"),
    [
        (Case(), 0.03, 0.1, 0.2),
        (Case(gps=lambda at: at < 8), 0.4, 1.2, 0.2),
        (Case(oriented=False), 0.05, 0.2, 2.0),
        (Case(imu_hz=0), 0.05, 0.3, 1.0),
        (Case(imu=MEMS, gps=lambda at: not 7 < at < 14), 0.3, 0.8, 1.0),
        (Case(imu=MEMS, stops=((0.0, 3.0),)), 0.1, 0.3, 1.0),
        (Case(jumps={0: (0, 240)}), 0.03, 0.2, 0.2),
        (Case(jumps=dict.fromkeys(range(80, 95), (200, -120))), 0.03, 0.1, 0.2),
    ],
    ids=lambda value: None if isinstance(value, Case) else f"{value:g}",
)
def test_the_motion_is_followed(case: Case, rms_m: float, worst_m: float, rms_deg: float) -> None:
    _, found, outcomes = followed(case)
    assert found.rms_m < rms_m
    assert found.place_m.max() < worst_m
    assert found.between(0.1, 19.9).rms_deg < rms_deg
    assert len(outcomes) == len(case.fixes())


def test_before_the_first_fix_no_place_is_known() -> None:
    _, found, _ = followed(Case(gps=lambda at: at > 9))
    early, soon, late = found.between(0, 6.9), found.between(8.0, 8.9), found.between(9.1, 19.9)
    assert all(pose.position_m is None and pose.location is None for pose in early.poses)
    assert {pose.position_basis for pose in early.poses} == {PoseBasis.ASSUMED}
    # Samples wait for what comes within two seconds, and that tells where they were.
    assert {pose.position_basis for pose in soon.poses} == {PoseBasis.DEAD_RECKONED}
    assert soon.place_m.max() < 0.2
    assert {pose.position_basis for pose in late.poses} == {PoseBasis.MEASURED}
    assert found.between(0.1, 19.9).rms_deg < 0.1


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gps_hz", [1.0, 10.0])
def test_motion_that_later_fixes_disprove_begins_anew(gps_hz: float, seed: int) -> None:
    wrong = dict.fromkeys(range(15 if gps_hz > 1 else 2), (0.0, 240.0))
    trajectory, found, outcomes = followed(Case(gps_hz=gps_hz, jumps=wrong, seed=seed))
    assert found.between(12.0, 19.9).place_m.max() < 0.1
    refused = Counter(outcomes.values())[Reason.OUTLYING_FIX]
    assert refused <= 20
    assert trajectory.notes[-1].endswith("motion once: the position starts again from them")


def test_an_account_is_made_of_every_fix_once() -> None:
    case = Case(jumps={0: (0, 240), 50: (80, 0), 51: (80, 0)}, jumping=(0,))
    _, _, outcomes = followed(case)
    assert sorted(outcomes) == [arrival for _, arrival, _ in case.fixes()]
    wrong = [arrival for arrival, why in outcomes.items() if why == Reason.OUTLYING_FIX]
    assert wrong == [0, 100, 102]
    assert {outcomes[1], outcomes[101], outcomes[103]} == {None}


EVENTS = st.lists(st.tuples(st.integers(1, 3_000), st.sampled_from("ffiiiz")), max_size=60)


@settings(max_examples=60)
@given(EVENTS, st.lists(st.integers(0, 60_000), min_size=1, max_size=6))
def test_whatever_comes_every_fix_is_judged_once_and_poses_are_finite(
    events: list[tuple[int, str]], asked_ms: list[int]
) -> None:
    trajectory, now, judged = Trajectory(), ns(0), Counter[int]()
    for index, (step_ms, kind) in enumerate(events):
        now += step_ms * 1_000_000
        if kind == "f":
            fix = NavSatFix(48.1 + (index * 7 % 31) * 1e-5, 11.5, 500.0, 0)
            trajectory.add_fix(now, index, fix)
        else:
            rotation = from_yaw(math.remainder(index * 0.7, 2 * math.pi)) if kind == "i" else None
            trajectory.add_imu(now, Imu(rotation, (0.01, 0.0, 0.7), (0.1, 0.2, 9.8)))
        judged.update(arrival for arrival, _ in trajectory.judged())
        trajectory.forget(now - 5 * S)
    trajectory.finish()
    judged.update(arrival for arrival, _ in trajectory.judged())
    assert judged == {index: 1 for index, (_, kind) in enumerate(events) if kind == "f"}
    for each in asked_ms:
        pose = trajectory.pose(ns(each / 1000))
        for part in (pose.position_m, pose.rotation_xyzw, pose.position_sigma_m, pose.rotation_sigma_rad):
            assert part is None or all(map(math.isfinite, part))
        assert (pose.position_m is None) == (pose.position_basis is PoseBasis.ASSUMED)
        assert (pose.rotation_xyzw is None) == (pose.rotation_basis is PoseBasis.ASSUMED)


@pytest.mark.long
def test_a_long_drive_needs_no_more_memory_than_a_short_one() -> None:
    trajectory = Trajectory(memory_ns=10 * S)
    sizes = []
    for tick in range(2_200):
        trajectory.add_imu(ns(tick / 20), Imu(from_yaw(0.1), (0, 0, 1e-9), (0, 0, 9.81)))
        if tick % 40 == 0:
            trajectory.add_fix(ns(tick / 20), tick, NavSatFix(48 + tick * 2e-6, 11.5, 500.0, 0))
            list(trajectory.judged())
        sizes.append(len(trajectory._motion.nodes) + len(trajectory._orientation))
    assert max(sizes) < 2000, "rows are forgotten a thousand at a time"


def test_where_no_motion_explains_the_measurements_none_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """GTSAM ends with an error where measurements contradict each other beyond all noise."""
    optimum = motion.Optimum

    def failing(nodes: Sequence[Node], *args: Any, **options: Any) -> motion.Optimum:  # noqa: ANN401
        if ns(8) < nodes[-1].time_ns < ns(9):
            raise RuntimeError("Indeterminate linear system")
        return optimum(nodes, *args, **options)

    monkeypatch.setattr(motion, "Optimum", failing)
    case = Case(imu=MEMS)
    trajectory, found, outcomes = followed(case)
    assert sorted(outcomes) == [arrival for _, arrival, _ in case.fixes()]
    assert any("no motion explains" in note for note in trajectory.notes)
    assert {pose.position_basis for pose in found.between(12.0, 19.9).poses} == {PoseBasis.MEASURED}
    assert found.between(12.0, 19.9).place_m.max() < 0.3
