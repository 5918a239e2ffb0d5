"""What several cameras see, in samples made by hand: which of their tracks are of one object."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from l5_samples import CALIBRATION, CAMERA, STEP_NS, box, boxes, sample, write

from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.formats.l5kit.write.boxes import CLUSTER_KEYS, VIEWS, PlacedDetections, track_key
from edgefirst_ros.formats.l5kit.write.prepare import prepare_frame
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.sample import Measurement, Role, Sample, View

Place = tuple[float, float]
Seen = dict[str, tuple[Place, str]]
"""By track, x and y of an object in base_link, and its class."""
LATE_NS = 40_000_000
"""By so much later than the first camera the second one looks."""
SIDE = View("side", {}, CALIBRATION)


def solid(seen: Seen) -> Detections:
    """Boxes of the fusion, of which the device numbers none."""
    return boxes(*(
        box(distance_m=x, center_x=-y, center_y=0.0, width=1.0, height=1.7, label=label, track_id=track)
        for track, ((x, y), label) in seen.items()
    ))  # fmt: skip


def seen_at(frame: int, first: Seen, second: Seen) -> Sample:
    """A sample with 3-D boxes of two cameras, the second one's a little later; the rig drives at 10 m/s."""
    given = sample(frame, {Role.BOXES_3D: solid(first)}, position_m=(float(frame), 0.0, 0.0))
    at_ns = given.time_ns + LATE_NS
    theirs = Measurement("/side/boxes3d", at_ns, at_ns, at_ns, frame, "base_link", solid(second))
    return replace(given, views=(replace(SIDE, companions={Role.BOXES_3D: theirs}),))


def tracks_of(root: Path, samples: Iterable[Sample]) -> list[dict[int, Place]]:
    """By frame, where each track is in the world."""
    dataset = write(root, samples)
    agents = (dataset.agents[slice(*each["agent_index_interval"])] for each in dataset.frames[:])
    return [{int(a["track_id"]): tuple(a["centroid"].tolist()) for a in each} for each in agents]


def drive(
    root: Path,
    where: dict[str, Callable[[float], Place]],
    sees: Callable[[int, str], tuple[bool, bool]],
    count: int = 20,
    labels: Sequence[str] = ("person", "person"),
) -> list[dict[int, Place]]:
    """Objects by name: where in the world at a time in seconds, and which of two cameras sees them."""
    samples = []
    for frame in range(count):
        views: list[Seen] = [{}, {}]
        for name, at in where.items():
            for number, (off_s, is_seen) in enumerate(
                zip((0.0, LATE_NS / 1e9), sees(frame, name), strict=True)
            ):
                time_s = frame / 10 + off_s
                x, y = at(time_s)
                if is_seen:
                    views[number][f"{name} of {number}"] = ((x - 10 * time_s, y), labels[number])
        samples.append(seen_at(frame, *views))
    return tracks_of(root, samples)


def still(x: float, y: float) -> Callable[[float], Place]:
    return lambda _: (x, y)


def test_what_both_see_is_one_agent_at_its_place(tmp_path: Path) -> None:
    """Though the rig has driven 0.4 m, and the car 0.6 m, before the second one looks."""
    found = drive(
        tmp_path, {"car": lambda s: (40.0 + 15 * s, 3.0)}, lambda *_: (True, True), labels=("car", "van")
    )
    assert {len(each) for each in found} == {1}
    assert {*found[0]} == {track_key("car of 0")}
    assert all(math.dist(*each.values(), (40 + 1.5 * n, 3.0)) < 0.05 for n, each in enumerate(found))


@pytest.mark.parametrize("overlap", [4, 1, -4])
def test_it_keeps_its_track_when_it_passes_to_the_other_camera(tmp_path: Path, overlap: int) -> None:
    """Also where neither sees it for 0.4 s, as its box is cut in both pictures."""
    at = lambda s: (30.0, 6 - 4 * s)  # noqa: E731
    found = drive(tmp_path, {"x": at}, lambda n, _: (n < 10 + overlap, n >= 10), count=24)
    tracks = {track for each in found for track in each}
    assert tracks == {track_key("x of 0")}
    assert {len(each) for each in found if each} == {1}
    assert sum(not each for each in found) <= max(-overlap, 0)
    assert found[22]


def test_it_comes_back_to_the_first_camera_with_its_track(tmp_path: Path) -> None:
    """Under another name, as the first tracker has lost it."""

    def samples() -> Iterable[Sample]:
        for frame in range(40):
            seen: Seen = {f"{frame >= 20} of a": ((30.0 - frame, 2.0), "person")}
            yield seen_at(
                frame, {} if 10 <= frame < 20 else seen, {"b": ((30.0 - frame - 0.4, 2.0), "person")}
            )

    assert {t for each in tracks_of(tmp_path, samples()) for t in each} == {track_key("False of a")}


@pytest.mark.parametrize(
    "sees",
    [
        pytest.param(lambda *_: (True, True), id="both see both"),
        pytest.param(lambda _, name: (name == "a", name == "b"), id="each sees one"),
        pytest.param(lambda _, name: (True, name == "b"), id="one sees both"),
        pytest.param(lambda n, name: (name == "a" or n > 9, True), id="one sees the other later"),
    ],
)
def test_two_people_beside_each_other_stay_two(
    tmp_path: Path, sees: Callable[[int, str], tuple[bool, bool]]
) -> None:
    found = drive(tmp_path, {"a": still(25.0, 0.0), "b": still(25.0, 2.5)}, sees)
    assert {tuple(sorted(round(y, 6) for _, y in each.values())) for each in found} == {(0.0, 2.5)}
    assert len({track for each in found for track in each}) == 2


def test_a_person_beside_a_car_is_not_the_car(tmp_path: Path) -> None:
    found = drive(tmp_path, {"x": still(25.0, 0.0)}, lambda *_: (True, True), labels=("car", "person"))
    assert {len(each) for each in found} == {2}


def test_what_was_one_by_chance_is_two_when_it_comes_apart(tmp_path: Path) -> None:
    where = {"a": still(40.0, 0.0), "b": lambda s: (40.0, 2.5 * (s - 0.1))}
    found = drive(tmp_path, where, lambda _, name: (name == "a", name == "b"), count=40)
    assert [*map(len, found[15:38])] == [2] * 23


def test_noise_makes_no_second_track(tmp_path: Path) -> None:
    """Of 0.4 m in each camera."""
    rng = np.random.default_rng(1)
    at = lambda s: tuple((np.array([30.0 + 5 * s, 2.0]) + rng.normal(0, 0.4, 2)).tolist())  # noqa: E731
    found = drive(tmp_path, {"x": at}, lambda *_: (True, True), count=60)
    assert {len(each) for each in found} == {1}
    assert len({track for each in found for track in each}) == 1


def test_without_tracks_an_object_is_there_once_as_well(tmp_path: Path) -> None:
    samples = [
        seen_at(n, {"": ((30.0 - n, 1.0), "person")}, {"": ((29.6 - n, 1.0), "person")}) for n in range(20)
    ]
    assert {len(each) for each in tracks_of(tmp_path, samples)} == {1}


def test_the_number_of_one_camera_means_nothing_to_another(tmp_path: Path) -> None:
    """Trackers count from 1."""
    given = [seen_at(n, {"1": ((30.0 - n, 0.0), "person")}, {"1": ((9.6, 8.0), "person")}) for n in range(20)]
    assert {len(each) for each in tracks_of(tmp_path, given)} == {2}


def test_boxes_of_a_picture_are_placed_by_their_own_camera() -> None:
    """By its CameraInfo and in the frame that they name; without these they are refused, not misplaced."""
    at_ns = STEP_NS
    flat = Measurement("/side/model", at_ns, at_ns, at_ns, 0, "lidar", boxes(box(center_x=0.4)))
    info = replace(CAMERA, k=CAMERA.k * np.array([[2.0, 1, 1], [1, 1, 1], [1, 1, 1]]))
    view = View("side", {Role.MODEL: flat}, replace(CALIBRATION, camera_info=info))
    found = prepare_frame(replace(sample(), views=(view,)), L5KitOptions())
    assert len(found.candidates) == 1
    assert found.origins == {1 * VIEWS + track_key("side"): "/side/model"}
    (place,) = found.candidates.place_m
    assert place[0] == pytest.approx(1.0 - 20 * 0.1 / math.hypot(0.1, 1), abs=0.02)
    for frame_id, calibration in (
        ("nowhere", view.calibration),
        ("lidar", replace(CALIBRATION, camera_info=None)),
    ):
        unknown = View("side", {Role.MODEL: flat._replace(frame_id=frame_id)}, calibration)
        refused = prepare_frame(replace(sample(), views=(unknown,)), L5KitOptions())
        assert not len(refused.candidates)
        assert [topic for topic, _ in refused.refused] == ["/side/model"]


def test_clusters_of_two_radars_have_different_keys() -> None:
    given = replace(
        PlacedDetections.none(), key=np.array([0, 1, CLUSTER_KEYS + 1]), source=np.zeros(3, np.int64)
    )
    one, two = (given.of_view(track_key(name)) for name in ("left", "rear"))
    assert not {*one.key.tolist()[1:]} & {*two.key.tolist()[1:], *given.key.tolist()}
    assert one.key[0] == 0
    assert (one.key < CLUSTER_KEYS).tolist() == [True, True, False]
