"""A vehicle stands where nothing speaks against it: a wrong stop would bend tilt, biases and the place."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from places import REPOSITORY
from test_ego_graph import Drive, give_fixes

from edgefirst_ros.ego.graph import Optimum, rough

sys.path.append(str(REPOSITORY / "benchmarks"))

import cars
import ego_judged
import ego_ours

Legs = tuple[tuple[float, float, float], ...]
DRIVEN: Legs = ((4, 0, 0), (6, 9, 40), (6, 9, -40), (5, 0, 0), (7, 0, 0))
BACKWARDS: Legs = ((8, -1.8, 0), (6, -1.8, 25), (8, 0, 0), (4, 0, 0))
GENTLY: Legs = ((14, 3, 0), (5, 3, 60), (12, 0, 0), (4, 0, 0))


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("legs", [BACKWARDS, GENTLY], ids=["backwards", "gently"])
@pytest.mark.parametrize("name", ["no-orientation-5hz", "no-orientation-1hz-0.3m"])
def test_what_starts_slowly_does_not_stand(monkeypatch: pytest.MonkeyPatch, name: str, legs: Legs) -> None:
    """Constant forces are as quiet as none, and half a metre per second is less than the noise of fixes."""
    monkeypatch.setattr(cars, "LEGS", DRIVEN + legs)
    monkeypatch.setattr(cars, "LENGTH_S", float(sum(leg[0] for leg in cars.LEGS)))
    drive = cars.made(cars.DRIVES[name], 2, cars.LENGTH_S)
    time_s = np.arange(0.5, cars.LENGTH_S - 0.5, 0.1)
    found = ego_judged.judged(drive, "lag", ego_ours.estimated(drive, time_s, "lag"), None)
    assert found.failed == ()
    assert found.nees_tilt < 1.5
    assert found.nees_position < 1.5


@pytest.mark.parametrize(("white_m", "sure"), [(0.05, True), (2.0, False)])
def test_a_velocity_that_is_unsure_may_be_zero(white_m: float, sure: bool) -> None:
    drive = Drive(seconds=2.0, speed_m_s=0.4, swing_rad=0.0)
    nodes = drive.nodes()
    give_fixes(nodes, drive.places_m, white_m, 0.1)
    prior = rough(nodes[0], tilt_rad=1e-3, heading_rad=0.1, place_m=5.0, known_bias=True)
    optimum = Optimum(nodes, prior, rolls=True, rounds=6)
    assert optimum.moves(nodes[-1]) is sure
    # How it changes the IMU knows all the same.
    assert not optimum.moves(nodes[-1], nodes[0])
    nodes[-1].velocity_m_s = np.add(nodes[-1].velocity_m_s, (0.5, 0.0, 0.0))
    assert optimum.moves(nodes[-1], nodes[0])
