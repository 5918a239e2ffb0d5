"""The simulated world itself: motion, room between bodies, rays, and the painter against the rays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from faulty import Truth, read_number
from faulty.truth import sees
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.simulation import sensors as rays
from edgefirst_ros.simulation.camera import Renderer, corners
from edgefirst_ros.simulation.video import burn_number
from edgefirst_ros.simulation.world import Circuit, Lens, SceneBox, World, build, inverse, transform

SEEDS = range(4)


def circuits() -> st.SearchStrategy[Circuit]:
    return st.builds(
        Circuit,
        st.tuples(st.floats(-50, 50), st.floats(-50, 50)),
        st.floats(20, 80),
        st.floats(-0.5, 0.5).filter(lambda rate: abs(rate) > 0.01),
        st.floats(-4, 4),
        st.floats(0, 3),
        st.integers(1, 3),
        st.floats(-5, 5),
    )


@given(circuits(), st.floats(0, 600))
@settings(max_examples=60, deadline=None)
def test_velocity_and_turning_are_the_derivatives_of_the_pose(circuit: Circuit, time_s: float) -> None:
    step = 1e-4
    before, here, after = (circuit.state(time_s + d) for d in (-step, 0, step))
    velocity = (after.position_m - before.position_m) / (2 * step)
    assert here.velocity_m_s == pytest.approx(velocity, abs=1e-4)
    turned = np.angle(np.exp(1j * (after.yaw_rad - before.yaw_rad))) / (2 * step)
    assert here.yaw_rate_rad_s == pytest.approx(turned, abs=1e-4)
    heading = here.velocity_m_s / np.linalg.norm(here.velocity_m_s)
    assert here.rotation()[:, 0] == pytest.approx(heading, abs=1e-6)
    corner = np.array([2.0, 1.0, 0.5])
    moved = (transform(after.matrix(), corner) - transform(before.matrix(), corner)) / (2 * step)
    assert here.velocity_at(transform(here.matrix(), corner)[None])[0] == pytest.approx(moved, abs=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_bodies_never_touch_each_other_nor_the_vehicle(seed: int) -> None:
    world = build(seed, 640, 360)
    vehicle = SceneBox("vehicle", "", (0, 0, 0), (4.5, 2.0, 2.0), world.rig)
    for time_s in np.arange(0, 120, 0.5):
        bodies = [(body, body.motion.state(float(time_s)), corners(body, float(time_s)))
                  for body in (vehicle, *world.boxes)]  # fmt: skip
        for (a, at_a, corners_a), (b, at_b, corners_b) in itertools.combinations(bodies, 2):
            if np.linalg.norm(at_a.position_m - at_b.position_m) > (a.size_m[0] + b.size_m[0]) / 2 + 3:
                continue
            apart = False
            for wall, state, beyond in ((a, at_a, corners_b), (b, at_b, corners_a)):
                foot = transform(inverse(state.matrix()), beyond)[:, :2]
                half = np.array(wall.size_m[:2]) / 2 + 0.05
                apart |= bool((foot > half).all(axis=0).any() or (foot < -half).all(axis=0).any())
            assert apart, (a.label, b.label, time_s)


def box_world(*motions: Circuit) -> World:
    boxes = tuple(
        SceneBox("car", str(i), (255, 0, 0), (4.0, 2.0, 1.0), motion) for i, motion in enumerate(motions)
    )
    return World(0.0, 0.0, 0.0, Circuit((0.0, 0.0), 10.0, 0.1, 0.0), boxes, (), Lens(640, 360, 400.0))


def test_rays_meet_known_surfaces() -> None:
    # Radius 0 apart: the box's middle is at (10, 0), and at angle 0 it heads along +y.
    world = box_world(Circuit((0.0, 0.0), 10.0, 0.0, 0.0))
    eye = np.array([0.0, 0.0, 0.5])
    level = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 0, -1], [0, 0, 1]])
    distance, hit = rays.cast(world, 0.0, eye, level, 50.0)
    assert hit.tolist() == [0, rays.NOTHING, rays.GROUND, rays.NOTHING]
    assert distance[[0, 2]] == pytest.approx([9.0, 0.5])
    assert np.isinf(distance[[1, 3]]).all()
    edge = np.array([[9.0, side, 0.0] for side in (1.99, 2.01, -1.99, -2.01)])
    _, hit = rays.cast(world, 0.0, eye, edge / np.linalg.norm(edge, axis=1, keepdims=True), 50.0)
    assert hit.tolist() == [0, rays.NOTHING, 0, rays.NOTHING]
    assert rays.cast(world, 0.0, eye, level, 8.9)[1][0] == rays.NOTHING


def test_the_nearer_surface_hides_the_farther() -> None:
    world = box_world(Circuit((0.0, 0.0), 20.0, 0.0, 0.0), Circuit((0.0, 0.0), 10.0, 0.0, 0.0))
    eye = np.array([0.0, 0.0, 0.5])
    assert rays.cast(world, 0.0, eye, np.array([[1.0, 0, 0]]), 50.0)[1].tolist() == [1]
    points = np.array([[9.0, 0, 0.5], [19.0, 0, 0.5], [19.0, 1.9, 0.9], [19.0, 5.0, 0.5]])
    assert sees(world, 0.0, eye, points).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("seed", "times_s"),
    [
        *((seed, np.arange(0, 40, 3.3)) for seed in SEEDS),
        # Here a box hides another whose middle, or whose nearest wall, is nearer.
        (1, [10.5]),
        (9, [10.5]),
        (13, [3.0, 34.0]),
        (15, [4.0]),
    ],
)
def test_the_painter_shows_what_rays_meet(seed: int, times_s: Iterable[float]) -> None:
    world = build(seed, 480, 270)
    renderer, truth = Renderer(world), Truth({"start_ns": 0}, world)
    cx, cy = world.camera.center_px
    v, u = (axis.ravel() for axis in np.mgrid[2:268:4, 2:478:4])
    around = [(0, 0), (1.5, 0), (-1.5, 0), (0, 1.5), (0, -1.5), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    for time_s in times_s:
        shown = truth.box_of_color(renderer.picture(float(time_s))[v, u])
        T_optical_world = world.sensor("camera_optical", float(time_s))
        accepted = np.zeros(len(shown), bool)
        for du, dv in around:
            ray = np.stack([(u + du - cx), (v + dv - cy), np.full(len(u), world.camera.focal_px)], axis=1)
            ray = ray @ T_optical_world[:3, :3].T / np.linalg.norm(ray, axis=1, keepdims=True)
            _, hit = rays.cast(world, float(time_s), T_optical_world[:3, 3], ray, 500.0)
            accepted |= np.maximum(hit, -1) == shown
        assert accepted.all(), (time_s, np.stack([u, v, shown], axis=1)[~accepted])


@given(st.integers(0, 2**24 - 1), st.sampled_from([160, 320, 640, 1280]))
@settings(max_examples=40, deadline=None)
def test_burnt_numbers_read_back(number: int, width: int) -> None:
    pixels = np.full((48, width, 3), 90, np.uint8)
    marked = burn_number(pixels, number)
    assert read_number(marked) == number
    assert read_number(marked[..., 0]) == number
    assert (marked[16:] == 90).all()
    assert (pixels == 90).all()
