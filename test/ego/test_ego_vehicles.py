"""Vehicles that roll along no axis, and sensors that err: never worse than the fixes joined by lines."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from places import REPOSITORY

sys.path.append(str(REPOSITORY / "benchmarks"))

import cars
import crafts
import ego_judged
import ego_ours

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.receiver import Receiver
from edgefirst_ros.model.navigation import NavSatFix

LENGTH_S = 70.0
SAID = {
    "boat": "moves sideways",
    "ferry": "moves sideways",
    "drone": "moves sideways",
    "ahrs-jump": "orientations err by",
    "height-leap": "leap by 4",
    "fixes-late": "s late against the IMU",
    "fixes-a-little-late": "0.3 s late against the IMU",
    "rtk-float": "",
    "gyroscope-z-dead": "the IMU contradicts fixes",
    "gyroscope-off": "",
    "motorway": "",
}


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("name", SAID)
def test_it_is_no_worse_than_the_fixes(name: str) -> None:
    drive = cars.made(crafts.DRIVES[name], 2 if name == "ferry" else 0, LENGTH_S)
    found = ego_ours.estimated(drive, np.arange(0.5, LENGTH_S - 0.5, 0.2))
    judged = ego_judged.judged(drive, "whole", found, None)
    assert judged.failed == ()
    up_m = found.position_m[:, 2] - drive.truth.places_at(found.time_s)[:, 2]
    assert np.sqrt(np.mean(up_m**2)) < (22.5 if name == "height-leap" else 3.0)
    assert judged.heading_deg < (15.0 if name == "gyroscope-z-dead" else 4.0) or name == "boat"
    # The slow error of the fixes of that seed alone is 1.35 m.
    assert judged.rms_m < {"rtk-float": 0.4, "ferry": 1.6}.get(name, 1.4)
    assert (len(found.notes) > 0) == bool(SAID[name]), found.notes
    assert all(SAID[name] in note for note in found.notes)


LAGGING = {
    "fixes-late": ("0.9 s late against the IMU", 2.0),
    "gyroscope-dead": ("the IMU contradicts fixes", 2.0),
    "rtk-float": ("", 1.16),
    "ferry": ("moves sideways", 1.6),
}
"""What is said during the drive, and the most that poses may be off in metres."""


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("name", LAGGING)
def test_it_is_no_worse_during_the_drive(name: str) -> None:
    said, most_m = LAGGING[name]
    drive = cars.made(crafts.DRIVES[name], 0, 120.0)
    found = ego_ours.estimated(drive, np.arange(0.5, 119.5, 0.2), "lag")
    judged = ego_judged.judged(drive, "lag", found, None)
    assert judged.rms_m < min(most_m, judged.interpolated_rms_m)
    assert judged.nees_position < 2.0
    assert any(said in note for note in found.notes) == bool(said)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("up_m", [0.0, 45.0])
@pytest.mark.parametrize("seed", range(3))
def test_only_what_stays_elsewhere_has_leapt(up_m: float, seed: int) -> None:
    """Of 2,000 heights that scatter by 3 m some are 15 m from the one before."""
    rng, receiver = np.random.default_rng(seed), Receiver(Vehicle(), whole=True)
    heights = 500 + rng.normal(0, 3.0, 2000) + up_m * (np.arange(2000) >= 1000)
    taken = [receiver.take(n * 200_000_000, n, NavSatFix(48.0, 11.0, h, 0)) for n, h in enumerate(heights)]
    off_m = np.array([np.nan if fix is None else fix.point.altitude_m - 500 for fix in taken])
    assert abs(off_m[1100:].mean()) < 9.0  # of one height and the middle of ten
    assert abs(off_m).max() < 20.0
