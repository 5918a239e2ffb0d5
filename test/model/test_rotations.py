"""Rotations against scipy's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial.transform import Rotation, Slerp

from edgefirst_ros.model import transform as rotations

Floats = npt.NDArray[np.float64]
COUNT = 500


@pytest.fixture
def turned() -> Rotation:
    """Any rotations, half turns and small ones among them."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(COUNT, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    angles = np.concatenate(
        [rng.uniform(0, np.pi, COUNT - 40), np.full(20, np.pi), np.geomspace(1e-12, 1e-3, 20)]
    )
    return Rotation.from_rotvec(vectors * angles[:, None])


def same(found: Floats, wanted: Floats) -> bool:
    """Whether quaternions turn alike."""
    signs = np.sign((found * wanted).sum(axis=-1, keepdims=True))
    return bool(np.allclose(found, signs * wanted, rtol=0, atol=1e-14))


def test_matrices_and_quaternions(turned: Rotation) -> None:
    xyzw, matrices = turned.as_quat(), turned.as_matrix()
    assert np.allclose(rotations.matrix_of(3 * xyzw), matrices, rtol=0, atol=1e-15)
    assert (rotations.matrix_of(np.zeros(4)) == np.eye(3)).all()
    assert same(rotations.quaternion_of(matrices), xyzw)
    assert same(rotations.quaternion_of(matrices[0]), xyzw[0])


def test_angles(turned: Rotation) -> None:
    yaw_pitch_roll = turned.as_euler("ZYX")
    # Scipy's own, which go through quaternions, are a little off near the poles.
    assert np.allclose(rotations.angles_of(turned.as_matrix()), yaw_pitch_roll[:, ::-1], rtol=0, atol=1e-9)
    assert same(rotations.quaternion_of_angles(yaw_pitch_roll[:, ::-1]), turned.as_quat())


def test_the_inner_rotation_comes_first(turned: Rotation) -> None:
    one, other = turned[: COUNT // 2], turned[COUNT // 2 :]
    assert same(rotations.product(one.as_quat(), other.as_quat()), (one * other).as_quat())


def test_between_times_the_shortest_way_is_turned(turned: Rotation) -> None:
    rng = np.random.default_rng(6)
    known_s = np.cumsum(rng.uniform(0.01, 2.0, COUNT))
    wanted_s = np.append(rng.uniform(known_s[0], known_s[-1], 2000), known_s)
    xyzw = turned.as_quat() * np.where(rng.random(COUNT) < 0.5, 1, -1)[:, None]
    xyzw[1:4] = xyzw[0], -xyzw[0], xyzw[0]
    wanted = Slerp(known_s, Rotation.from_quat(xyzw))(wanted_s)
    found = Rotation.from_quat(rotations.interpolated(known_s, xyzw, wanted_s))
    assert (found * wanted.inv()).magnitude().max() < 1e-13
