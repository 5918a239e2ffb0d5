"""The filter: Jacobians against differences, the backward pass against one least-squares fit of all."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.ego.filter import FAR_M, FAST_M_S, Filter, FilterStart, Noise
from edgefirst_ros.ego.gate import drivable
from edgefirst_ros.ego.geometry import exponential, logarithm, quaternion
from edgefirst_ros.ego.inertia import ImuStep
from edgefirst_ros.ego.path import smooth
from edgefirst_ros.ego.state import PLACE, SIZE, SPEED, Floats, MotionState, Update

NONE = (math.nan,) * 4
SMALL = st.floats(-0.3, 0.3)
VECTOR = st.tuples(SMALL, SMALL, SMALL)
STEP = ImuStep(
    0, 0.05, (0.0, 0.0, 0.0), (0.0, 0.0, 0.49), (0.0, 0.0, 0.0123), (0.0, 0.0, 0.0), NONE, *[True] * 3
)


def apart(one: MotionState, other: MotionState) -> Floats:
    """The error state from one to the other."""
    return np.concatenate(
        [
            logarithm(one.rotation @ other.rotation.T),
            one.velocity_m_s - other.velocity_m_s,
            one.position_m - other.position_m,
            one.gyro_rad_s - other.gyro_rad_s,
            one.force_m_s2 - other.force_m_s2,
            [one.north_rad - other.north_rad],
            logarithm(other.mount.T @ one.mount)[1:],
        ]
    )


def made(numbers: list[float], *, travels: bool = True) -> Filter:
    """A filter in some state."""
    motion = Filter(9.81, Noise())
    motion.begin(STEP, FilterStart(exponential(np.array(numbers[:3]) * 5), travels=travels))
    state = replace(motion.node.state, velocity_m_s=np.array(numbers[3:6]) * 30)
    motion.resume(replace(motion.node, state=state.moved(np.array(numbers[6:24]) * 0.1)))
    return motion


STATES = st.lists(SMALL, min_size=24, max_size=24)


@settings(max_examples=40)
@given(STATES, VECTOR, VECTOR, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_the_transition_is_the_derivative_of_the_prediction(
    numbers: list[float],
    turn: tuple[float, float, float],
    push: tuple[float, float, float],
    kind: tuple[bool, bool, bool],
) -> None:
    turns, feels, travels = kind
    motion = made(numbers, travels=travels)
    step = STEP._replace(
        turn_rad=(0.1 * turn[0], 0.1 * turn[1], 0.1 * turn[2]) if turns else (0.0, 0.0, 0.0),
        dv_m_s=(push[0], push[1], push[2] + 0.49),
        dp_m=(0.025 * push[0], 0.025 * push[1], 0.025 * push[2] + 0.0123),
        turns=turns,
        feels=feels,
    )
    before = replace(motion.node, turns=turns)
    motion.resume(before)
    node = motion.predict(step)
    assert node.transition is not None
    for index in range(SIZE):
        error = np.zeros(SIZE)
        error[index] = 1e-5
        motion.resume(replace(before, state=before.state.moved(error)))
        column = apart(motion.predict(step).state, node.state) / 1e-5
        # Within a step the attitude is taken for the middle one's: a hundredth of the effect.
        scale = 0.02 * (1 + np.abs(node.transition[:, index]).max()) * step.dt_s + 1e-4
        assert np.abs(column - node.transition[:, index]).max() < scale


@settings(max_examples=30)
@given(STATES, VECTOR)
def test_measurements_derivatives_are_those_of_their_residuals(
    numbers: list[float], turn: tuple[float, float, float]
) -> None:
    motion = made(numbers)
    before = motion.node
    north = exponential(np.array((0.0, 0.0, before.state.north_rad)))
    near = quaternion(exponential(np.array(turn) * 0.01) @ north @ before.state.rotation)
    for step in (
        STEP._replace(orientation_xyzw=near, quiet=False),
        STEP._replace(quiet=False, rate_rad_s=turn),
        STEP._replace(turns=False, feels=False, quiet=False),
        STEP._replace(quiet=True, rate_rad_s=turn),
    ):

        def first(error: Floats, step: ImuStep = step) -> Update:
            motion.resume(replace(before, state=before.state.moved(error), updates=[]))
            motion._due_s = 10.0
            motion.constrain(step)
            return motion.node.updates[0]

        told = first(np.zeros(SIZE))
        for index in range(SIZE):
            error = np.zeros(SIZE)
            error[index] = 1e-6
            change = -(first(error).innovation - told.innovation) / 1e-6
            assert np.abs(change - told.jacobian[:, index]).max() < 5e-3 * (1 + np.abs(told.jacobian).max())


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0.05, 2.0), st.floats(-9, 9), st.booleans()), min_size=2, max_size=9))
def test_the_backward_pass_is_the_least_squares_fit_of_everything(
    steps: list[tuple[float, float, bool]],
) -> None:
    """Of position and velocity alone, which are linear, so that a fit of all nodes at once is exact."""
    noise = Noise()
    motion = Filter(9.81, noise)
    step = STEP._replace(turns=False, feels=False, quiet=False, dt_s=0.0)
    motion.begin(step, FilterStart(np.eye(3)))
    nodes = [motion.node]
    jacobian = np.zeros((1, SIZE))
    jacobian[0, 6] = 1.0
    rows: list[Floats] = []
    values: list[float] = []
    size = 2 * (len(steps) + 1)

    def row(entries: dict[int, float], value: float, sigma: float) -> None:
        line = np.zeros(size)
        for at, entry in entries.items():
            line[at] = entry
        rows.append(line / sigma)
        values.append(value / sigma)

    row({0: 1.0}, 0.0, FAR_M)
    row({1: 1.0}, 0.0, FAST_M_S)
    for number, (dt_s, place, measured) in enumerate(steps):
        node = motion.predict(step._replace(dt_s=dt_s))
        process = noise.blind_force**2 * np.array([[dt_s**3 / 3, dt_s**2 / 2], [dt_s**2 / 2, dt_s]])
        white = np.linalg.inv(np.linalg.cholesky(process))
        moves = np.zeros((2, size))
        moves[:, 2 * number + 2 : 2 * number + 4] = white
        moves[:, 2 * number : 2 * number + 2] = -white @ [[1.0, dt_s], [0.0, 1.0]]
        rows.extend(moves)
        values.extend([0.0, 0.0])
        if measured:
            motion.update(jacobian, np.array([place - node.state.position_m[0]]), np.array([0.04]))
            row({2 * number + 2: 1.0}, place, 0.2)
        nodes.append(node)
    matrix = np.array(rows)
    fitted, *_ = np.linalg.lstsq(matrix, np.array(values), rcond=None)
    spread = np.linalg.inv(matrix.T @ matrix)
    for number, (_, state, covariance, _) in enumerate(reversed(list(smooth(nodes)))):
        at = slice(2 * number, 2 * number + 2)
        found = np.array([state.position_m[0], state.velocity_m_s[0]])
        assert found == pytest.approx(fitted[at], abs=2e-5, rel=1e-6)
        variances = np.array([covariance[PLACE, PLACE][0, 0], covariance[SPEED, SPEED][0, 0]])
        assert variances == pytest.approx(np.diagonal(spread)[at], rel=1e-4, abs=1e-6)


@given(st.lists(st.tuples(st.integers(80, 3_000), st.booleans()), min_size=1, max_size=40))
def test_what_no_vehicle_drives_through_is_left_out(fixes: list[tuple[int, bool]]) -> None:
    times, places, at = [], [], 0
    for step_ms, wrong in fixes:
        at += step_ms * 1_000_000
        times.append(at)
        places.append((at / 1e9 * 20.0, 1e6 if wrong else 0.0, 0.0))
    chosen = drivable(times, np.array(places), 75_000_000)
    kept = [wrong for (_, wrong), is_chosen in zip(fixes, chosen, strict=True) if is_chosen]
    # One side or the other, whichever has more; never a mixture.
    assert len(set(kept)) == 1
    assert len(kept) == max(sum(w for _, w in fixes), sum(not w for _, w in fixes))


def test_of_one_epoch_one_is_chosen() -> None:
    second = 1_000_000_000
    times = [0, second, second, 2 * second]
    places = np.array([(0.0, 0, 0), (300.0, 0, 0), (8.0, 0, 0), (16.0, 0, 0)])
    assert drivable(times, places, 75_000_000) == [True, False, True, True]


def test_a_gap_may_be_crossed_and_no_fix_is_no_chain() -> None:
    times = [0, 1_000_000_000, 60_000_000_000]
    assert drivable(times, np.array([(0.0, 0, 0), (5.0, 0, 0), (1500.0, 0, 0)]), 75_000_000) == [True] * 3
    assert drivable([], np.empty((0, 3)), 75_000_000) == []
