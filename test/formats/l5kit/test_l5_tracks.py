"""Motion of tracks: velocity, heading, size, identity and how long they are remembered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from l5_samples import SEQUENCE, STEP_NS, box, boxes, cloud, sample, write

from edgefirst_ros.formats.l5kit import L5KitOptions
from edgefirst_ros.formats.l5kit.candidates import CLUSTER_KEYS, track_key
from edgefirst_ros.formats.l5kit.tracks import Tracks
from edgefirst_ros.messages.detection import Detections
from edgefirst_ros.sample import Role, Sample, SequenceInfo


def crossing(y_m: float, **changes: object) -> Detections:
    """A car of the fusion, 1.8 m wide as seen, 10 m ahead and y to the left."""
    values = {"center_x": -y_m, "center_y": 0.0, "distance_m": 10.0, "width": 1.8, "height": 1.5, **changes}
    return boxes(box(**values))


def crossings(*places_m: float) -> list[Sample]:
    return [sample(i, {Role.BOXES_3D: crossing(y)}) for i, y in enumerate(places_m)]


def test_velocity_is_the_tracks_motion_and_the_heading_follows_it(tmp_path: Path) -> None:
    agents = write(tmp_path, crossings(0.0, 1.0, 2.0, 3.0)).agents[:]
    np.testing.assert_allclose(agents["velocity"], [[0, 0], [0, 10], [0, 10], [0, 10]], atol=1e-4)
    np.testing.assert_allclose(agents["yaw"], [0.0, *[np.pi / 2] * 3], atol=1e-5)
    assert set(agents["track_id"].tolist()) == {track_key("car-1")}


def test_standing_still_keeps_the_heading(tmp_path: Path) -> None:
    agents = write(tmp_path, crossings(0.0, 1.0, 2.0, *[2.0] * 8)).agents[:]
    np.testing.assert_allclose(agents["yaw"][1:], np.pi / 2, atol=1e-5)
    np.testing.assert_allclose(agents["velocity"][-1], [0.0, 0.0], atol=1e-4)


def test_slower_than_the_limit_never_had_a_heading(tmp_path: Path) -> None:
    slow = [
        sample(i, {Role.BOXES_3D: crossing(0.09 * i)}, yaw_deg=30.0, position_m=(0.0, 0.0, 0.0))
        for i in range(5)
    ]
    agents = write(tmp_path, slow).agents[:]
    np.testing.assert_allclose(agents["yaw"], np.radians(30.0), atol=1e-5)
    assert np.linalg.norm(agents["velocity"][-1]) == pytest.approx(0.9, abs=1e-4)
    agents = write(tmp_path, slow, "faster", heading_speed_m_s=0.5).agents[:]
    np.testing.assert_allclose(agents["yaw"][1:], np.radians(120.0), atol=1e-4)


def test_velocity_is_the_line_of_least_squares_through_half_a_second() -> None:
    rng = np.random.default_rng(0)
    place = rng.normal(size=(30, 2))
    tracks = Tracks(L5KitOptions())
    for frame in range(30):
        motion = tracks.see(np.array([5]), place[frame : frame + 1], 10**18 + frame * STEP_NS)
        window = place[max(frame - 5, 0) : frame + 1]
        if len(window) > 1:
            slope = np.polyfit(np.arange(len(window)) * 0.1, window, 1)[0]
            np.testing.assert_allclose(motion.velocity_m_s[0], slope, rtol=1e-6)
    tracks = Tracks(L5KitOptions(velocity_window_s=0.0))
    for frame in range(3):
        motion = tracks.see(np.array([5]), place[frame : frame + 1], 10**18 + frame * STEP_NS)
    np.testing.assert_allclose(motion.velocity_m_s[0], (place[2] - place[1]) / 0.1)


def test_size_turns_with_the_heading_and_is_averaged(tmp_path: Path) -> None:
    # A car is 2.5 times as long as wide. Seen 1.8 m wide from behind it is 4.5 m long; seen 1.8 m from the
    # side, once it moves, that is its length.
    extent = write(tmp_path, crossings(0.0, 1.0, 2.0)).agents["extent"]
    from_behind, from_aside = np.array([4.5, 1.8, 1.5]), np.array([1.8, 0.72, 1.5])
    expected = [from_behind, (from_behind + from_aside) / 2, (from_behind + 2 * from_aside) / 3]
    np.testing.assert_allclose(extent, expected, rtol=1e-5)


def test_proportions_are_configurable(tmp_path: Path) -> None:
    given = crossings(0.0)
    extent = write(tmp_path, given, sizes_m={"CAR": (3.0, 1.0, 1.0)}).agents["extent"]
    np.testing.assert_allclose(extent, [[5.4, 1.8, 1.5]], rtol=1e-6)


def test_cluster_has_the_extent_of_its_points_along_its_heading(tmp_path: Path) -> None:
    def at(frame: int) -> Sample:
        # The radar looks backwards, so this moves 2 m to the left in the rig's frame.
        points = cloud(
            x=np.array([-10.0, -11.0], np.float32),
            y=np.array([0.0, 4.0], np.float32) - 2.0 * frame,
            z=np.array([0.0, 1.5], np.float32),
            cluster_id=np.ones(2, np.float32),
        )
        return sample(frame, {Role.RADAR_CLUSTERS: points})

    agents = write(tmp_path, [at(0), at(1)]).agents[:]
    np.testing.assert_allclose(agents["extent"], [[1.0, 4.0, 1.5], [2.5, 2.5, 1.5]])
    np.testing.assert_allclose(agents["velocity"][1], [0.0, 20.0], atol=1e-4)


def test_label_is_averaged_over_the_track(tmp_path: Path) -> None:
    labels = ["car", "truck", "car", "car"]
    given = [sample(i, {Role.BOXES_3D: crossing(0.0, label=n, score=0.8)}) for i, n in enumerate(labels)]
    found = write(tmp_path, given).agents["label_probabilities"]
    np.testing.assert_allclose(found[:, 3], [0.8, 0.4, 0.8 * 2 / 3, 0.6], rtol=1e-5)
    np.testing.assert_allclose(found[:, 7], [0.0, 0.4, 0.8 / 3, 0.2], rtol=1e-5)
    np.testing.assert_allclose(found[:, 1], 0.2, rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)


def test_track_that_was_away_too_long_starts_anew(tmp_path: Path) -> None:
    frames = [(0, 0.0), (1, 1.0), (20, 40.0), (42, 80.0)]
    given = [sample(frame, {Role.BOXES_3D: crossing(y)}) for frame, y in frames]
    velocity = write(tmp_path, given, rate_hz=0.0).agents["velocity"]
    np.testing.assert_allclose(velocity[:, 1], [0.0, 10.0, 39.0 / 1.9, 0.0], rtol=1e-4)


def test_without_a_track_every_sighting_is_another(tmp_path: Path) -> None:
    given = [sample(i, {Role.BOXES_3D: crossing(float(i), track_id="")}) for i in range(3)]
    agents = write(tmp_path, given).agents[:]
    assert agents["track_id"].tolist() == [CLUSTER_KEYS, CLUSTER_KEYS + 1, CLUSTER_KEYS + 2]
    assert not agents["velocity"].any()


def test_numbers_of_clusters_that_are_used_again_are_another_object() -> None:
    tracks = Tracks(L5KitOptions())
    key = np.array([CLUSTER_KEYS + 3])

    def seen(second: float, x_m: float) -> int:
        return int(tracks.see(key, np.array([[x_m, 0.0]]), 10**18 + round(second * 1e9)).number[0])

    first = seen(0.0, 0.0)
    assert seen(0.1, 1.0) == first
    leapt = seen(0.2, 30.0)
    assert leapt != first
    assert seen(0.3, 31.0) == leapt
    assert seen(2.5, 32.0) not in {first, leapt}


def test_a_named_track_keeps_its_number_when_it_leaps() -> None:
    tracks = Tracks(L5KitOptions())
    for second, x_m in ((0, 0.0), (1, 500.0), (9, 0.0)):
        motion = tracks.see(np.array([7]), np.array([[x_m, 0.0]]), 10**18 + second * 10**9)
        assert motion.number.tolist() == [7]


def test_memory_is_that_of_the_tracks_in_sight() -> None:
    tracks = Tracks(L5KitOptions())
    for frame in range(200):
        key = np.arange(frame * 5, frame * 5 + 5) + 1
        tracks.see(key, np.zeros((5, 2)), 10**18 + frame * STEP_NS)
    assert len(tracks._state) == 5 * 21


def test_tracks_end_with_the_scene(tmp_path: Path) -> None:
    other = SequenceInfo("another", "host", SEQUENCE.start_ns)
    given = [*crossings(0.0, 1.0), sample(2, {Role.BOXES_3D: crossing(2.0)}, sequence=other)]
    agents = write(tmp_path, given).agents[:]
    assert agents["velocity"][:, 1].tolist() == [0.0, 10.0, 0.0]
    assert len(set(agents["track_id"].tolist())) == 1
