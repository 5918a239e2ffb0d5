"""Motion of tracks: velocity, heading, size, identity and how long they are remembered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from l5_samples import SEQUENCE, STEP_NS, box, boxes, sample, write

from edgefirst_ros.formats.l5kit import L5KitOptions
from edgefirst_ros.formats.l5kit.options import PRIORS_OF_LABELS
from edgefirst_ros.formats.l5kit.store.schema import LABELS
from edgefirst_ros.formats.l5kit.write import tracks as of_tracks
from edgefirst_ros.formats.l5kit.write.boxes import VIEWS, track_key
from edgefirst_ros.formats.l5kit.write.tracks import AgentTrack, Sighting, Tracks
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.sample import Role, Sample, SequenceInfo

START = 10**18


def crossing(y_m: float, **changes: object) -> Detections:
    """A car of the fusion, 1.8 m wide as seen, 10 m ahead and y to the left."""
    values = {"center_x": -y_m, "center_y": 0.0, "distance_m": 10.0, "width": 1.8, "height": 1.5, **changes}
    return boxes(box(**values))


def crossings(*places_m: float, **changes: object) -> list[Sample]:
    return [sample(i, {Role.BOXES_3D: crossing(y, **changes)}) for i, y in enumerate(places_m)]


def sighting(key: int, second: float, place_m: tuple[float, float] = (0.0, 0.0), source: int = 0) -> Sighting:
    label = np.eye(len(LABELS), dtype=np.float32)[3]
    return Sighting(key, source, 0, START + round(second * 1e9), place_m, 0.0, 1.8, 1.5, label, 2.5)


def number_of(tracks: Tracks, second: float) -> int:
    (shown,) = tracks.rows(START + round(second * 1e9), 0.0, (0, 0))
    return int(shown.row["track_id"][0])


def test_velocity_is_the_tracks_motion_and_the_heading_follows_it(tmp_path: Path) -> None:
    """From the first row on, as a later sighting tells it."""
    agents = write(tmp_path, crossings(0.0, 1.0, 2.0, 3.0)).agents[:]
    np.testing.assert_allclose(agents["velocity"], [[0, 10]] * 4, atol=1e-4)
    np.testing.assert_allclose(agents["yaw"], [np.pi / 2] * 4, atol=1e-5)
    assert set(agents["track_id"].tolist()) == {track_key("car-1")}


def test_seen_once_it_has_no_velocity(tmp_path: Path) -> None:
    agents = write(tmp_path, crossings(0.0)).agents[:]
    assert agents["velocity"].tolist() == [[0.0, 0.0]]
    assert agents["yaw"].tolist() == [0.0]


def test_standing_still_keeps_the_heading(tmp_path: Path) -> None:
    agents = write(tmp_path, crossings(0.0, 1.0, 2.0, *[2.0] * 8)).agents[:]
    np.testing.assert_allclose(agents["yaw"], np.pi / 2, atol=1e-5)
    np.testing.assert_allclose(agents["velocity"][-1], [0.0, 0.0], atol=1e-4)


def test_slower_than_the_limit_never_had_a_heading(tmp_path: Path) -> None:
    slow = [
        sample(i, {Role.BOXES_3D: crossing(0.09 * i)}, yaw_deg=30.0, position_m=(0.0, 0.0, 0.0))
        for i in range(25)
    ]
    agents = write(tmp_path, slow).agents[:]
    np.testing.assert_allclose(agents["yaw"], np.radians(30.0), atol=1e-5)
    assert np.linalg.norm(agents["velocity"][-1]) == pytest.approx(0.9, abs=1e-4)


def test_velocity_is_the_line_of_least_squares_through_half_a_second_about_the_frame() -> None:
    rng = np.random.default_rng(0)
    place = rng.normal(size=(30, 2))
    tracks = Tracks()
    for frame in range(30):
        tracks.see(sighting(5, frame / 10, (place[frame, 0], place[frame, 1])))
    tracks.learn(START + 10**10)
    for frame in range(30):
        (shown,) = tracks.rows(START + frame * STEP_NS, 0.0, (0, 0))
        low, high = max(frame - 2, 0), min(frame + 2, 29)
        slope = np.polyfit(np.arange(low, high + 1) / 10, place[low : high + 1], 1)[0]
        np.testing.assert_allclose(shown.row["velocity"][0], slope, rtol=1e-5, atol=1e-5)


def test_size_of_a_car_that_crosses_is_seen_from_its_side(tmp_path: Path) -> None:
    """4.2 m wide as it looks: that is its length, and its width is what goes with it."""
    extent = write(tmp_path, crossings(0.0, 1.0, 2.0, width=4.2)).agents["extent"]
    np.testing.assert_allclose(extent[:, 0], 4.2, atol=0.05)
    np.testing.assert_allclose(extent[:, 1], 1.75, atol=0.1)
    np.testing.assert_allclose(extent[:, 2], 1.5, rtol=1e-6)


def test_size_is_seen_from_both_sides_of_a_turn(tmp_path: Path) -> None:
    """Driving away it looks 1.7 m wide, crossing 5.1 m long; then both are known."""
    away = [(10.0 + i, 0.0, 1.7) for i in range(10)]
    across = [(20.0, 1.0 + i, 5.1) for i in range(10)]
    given = [
        sample(i, {Role.BOXES_3D: crossing(y, distance_m=x, width=w)})
        for i, (x, y, w) in enumerate(away + across)
    ]
    extent = write(tmp_path, given).agents["extent"]
    np.testing.assert_allclose(extent[:, :2], [[5.1, 1.7]] * 20, atol=0.25)


@pytest.mark.parametrize(
    ("seen_m", "expected", "across"),
    [
        (2.5, (11.0, 2.5), False),
        (10.2, (11.0, 2.5), True),
        (12.4, (12.4, 2.5), True),
        (2.2, (11.0, 2.2), False),
        (44.0, (25.0, 2.5), True),
        (0.4, (11.0, 1.9), False),
    ],
)
def test_without_a_heading_a_bus_is_as_large_as_buses_are(
    tmp_path: Path, seen_m: float, expected: tuple[float, float], across: bool
) -> None:
    """Longer or narrower as far as it was seen to be, within what buses can be; it lies as it looks."""
    (agent,) = write(tmp_path, crossings(0.0, label="bus", width=seen_m, height=3.2)).agents[:]
    np.testing.assert_allclose(agent["extent"], [*expected, 3.2], rtol=1e-6)
    assert float(agent["yaw"]) == pytest.approx(np.pi / 2 if across else 0.0)


def test_no_size_leaves_its_kinds_range(tmp_path: Path) -> None:
    for name, width in (("car", 40.0), ("person", 9.0), ("bus", 0.1)):
        agents = write(tmp_path, crossings(0.0, 1.0, 2.0, label=name, width=width, height=20.0), name).agents
        priors = PRIORS_OF_LABELS[L5KitOptions().all_labels[name]]
        assert (agents["extent"] <= np.array(priors.most_m, np.float32)).all()
        assert (agents["extent"] >= np.array(priors.least_m, np.float32)).all()


def test_label_is_averaged_over_the_track(tmp_path: Path) -> None:
    """Up to a quarter of a second ahead: three sightings for the first row, then one more each."""
    labels = ["car", "truck", "car", "car"]
    given = [sample(i, {Role.BOXES_3D: crossing(0.0, label=n, score=0.8)}) for i, n in enumerate(labels)]
    found = write(tmp_path, given).agents["label_probabilities"]
    np.testing.assert_allclose(found[:, 3], [0.8 * 2 / 3, 0.6, 0.6, 0.6], rtol=1e-5)
    np.testing.assert_allclose(found[:, 7], [0.8 / 3, 0.2, 0.2, 0.2], rtol=1e-5)
    np.testing.assert_allclose(found[:, 1], 0.2, rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)


def test_track_that_was_away_too_long_starts_anew(tmp_path: Path) -> None:
    frames = [(0, 0.0), (1, 1.0), (20, 40.0), (42, 80.0)]
    given = [sample(frame, {Role.BOXES_3D: crossing(y)}) for frame, y in frames]
    velocity = write(tmp_path, given, rate_hz=0.0).agents["velocity"]
    # After 1.9 s it is the same, and only the two sightings next to it say how fast; after 2.2 s it is not.
    np.testing.assert_allclose(velocity[:, 1], [10.0, 10.0, 39.0 / 1.9, 0.0], rtol=1e-4)


def test_without_a_track_every_sighting_is_another(tmp_path: Path) -> None:
    given = [sample(i, {Role.BOXES_3D: crossing(float(i), track_id="")}) for i in range(3)]
    agents = write(tmp_path, given).agents[:]
    assert agents["track_id"].tolist() == [VIEWS, VIEWS + 1, VIEWS + 2]
    assert not agents["velocity"].any()


def test_a_named_track_keeps_its_number_when_it_leaps() -> None:
    tracks = Tracks()
    for second, x_m in ((0, 0.0), (1, 500.0), (9, 0.0)):
        tracks.see(sighting(7, second, (x_m, 0.0)))
        tracks.learn(START + second * 10**9)
        assert number_of(tracks, second) == 7


def test_memory_is_that_of_the_tracks_in_sight() -> None:
    tracks = Tracks()
    for frame in range(200):
        for key in range(frame * 5, frame * 5 + 5):
            tracks.see(sighting(key + 1, frame / 10))
            tracks.see(sighting(0, frame / 10))
        tracks.learn(START + frame * STEP_NS)
        tracks.forget(START + frame * STEP_NS)
        assert sum(len(messages) for messages in tracks._loose.values()) <= 1
    assert len(tracks) == 5 * 21
    tracks = Tracks()
    for frame in range(200):
        tracks.see(sighting(1, frame / 10))
        tracks.learn(START + frame * STEP_NS)
        tracks.forget(START + frame * STEP_NS)
    (track,) = tracks._all
    assert len(track._sightings) == len(track._path) <= 3


def test_tracks_end_with_the_scene(tmp_path: Path) -> None:
    other = SequenceInfo("another", "host", SEQUENCE.start_ns)
    given = [*crossings(0.0, 1.0), sample(2, {Role.BOXES_3D: crossing(2.0)}, sequence=other)]
    agents = write(tmp_path, given).agents[:]
    assert agents["velocity"][:, 1].tolist() == pytest.approx([10.0, 10.0, 0.0])
    assert len(set(agents["track_id"].tolist())) == 1


def test_who_first_stands_has_the_heading_with_which_he_walks(tmp_path: Path) -> None:
    """Known only when the row has long been written; it is mended when the dataset is completed."""
    places = [0.0] * 40 + [0.15 * i for i in range(1, 30)]
    given = crossings(*places, label="person", width=0.6)
    agents = write(tmp_path, given).agents[:]
    np.testing.assert_allclose(agents["yaw"], np.pi / 2, atol=0.02)
    assert len(np.unique(agents["extent"], axis=0)) == 1, "an object does not grow"


def test_a_track_that_was_settled_keeps_its_last_sightings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_tracks, "_MOST_SIGHTINGS", 250)
    track = AgentTrack(1)
    for second in range(300):
        track.add(sighting(1, second, (float(second), 0.0)))
    track.learn(START + 300 * 10**9)
    track.wrote(0, START, 0.0)
    assert track.is_long
    assert track.settle() is not None
    assert not track.is_long
