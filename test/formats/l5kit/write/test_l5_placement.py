"""Where detections are put in the world, worked out on paper, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from l5_samples import CALIBRATION, CAMERA, OPTICAL, box, boxes, cloud, sample, write

from edgefirst_ros.formats.l5kit import L5KitOptions
from edgefirst_ros.formats.l5kit.write.boxes import track_key
from edgefirst_ros.formats.l5kit.write.prepare import prepare_frame
from edgefirst_ros.formats.tracks.rays import image_plane
from edgefirst_ros.model.sample import Calibration, Role, Sample, View
from edgefirst_ros.model.transform import Transform, frame_in_base

OPTIONS = L5KitOptions()


def placed(given: Sample, options: L5KitOptions = OPTIONS) -> list[list[float]]:
    return prepare_frame(given, options).candidates.place_m.round(6).tolist()


def refused(given: Sample, options: L5KitOptions = OPTIONS) -> list[tuple[str, str]]:
    return list(prepare_frame(given, options).refused)


def test_box_of_the_picture_lies_along_the_ray_through_its_middle() -> None:
    # 375 px right of the axis at 500 px a unit is a ray of (3/4, 0, 1): 25 m along it are 15 right, 20 ahead.
    given = sample(0, {Role.MODEL: boxes(box(), box(center_x=0.875, distance_m=25.0, track_id="b"))})
    found = prepare_frame(given, OPTIONS).candidates
    np.testing.assert_allclose(found.place_m, [[22.0, 0.0], [22.0, -15.0]], atol=1e-9)
    # 100 px and 50 px wide and high, at a depth of 20 m.
    np.testing.assert_allclose(found.lateral_m, [4.0, 4.0])
    np.testing.assert_allclose(found.height_m, [2.0, 2.0])
    np.testing.assert_allclose(found.bearing_rad, [0.0, -np.arctan2(3, 4)])


def test_world_is_the_ego_poses(tmp_path: Path) -> None:
    turned = {"position_m": (100.0, 200.0, 3.0), "yaw_deg": 90.0}
    seen = boxes(box(center_x=0.875, distance_m=25.0, width=0.045))
    (agent,) = write(tmp_path, [sample(0, {Role.MODEL: seen}, **turned)]).agents
    np.testing.assert_allclose(agent["centroid"], [115.0, 222.0], atol=1e-9)
    assert agent["yaw"] == pytest.approx(np.pi / 2)


def test_distortion_is_undone() -> None:
    k1, k2, p1, p2, k3 = d = (-0.3, 0.12, 0.001, -0.0005, -0.02)
    plane = np.array([[0.0, 0.0], [0.4, -0.2], [-0.5, 0.25]])
    x, y = plane.T
    r2 = x * x + y * y
    radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    seen = np.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
            y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
        ],
        axis=1,
    )
    normalised = (seen * 500 + [499.5, 249.5] + 0.5) / [1000, 500]
    np.testing.assert_allclose(image_plane(replace(CAMERA, d=d), normalised), plane, atol=1e-7)


def test_distortion_of_another_model_is_refused() -> None:
    info = replace(CAMERA, d=(0.1,) * 4, distortion_model="equidistant")
    given = sample(0, {Role.MODEL: boxes(box())}, calibration=replace(CALIBRATION, camera_info=info))
    assert refused(given) == [("/model/output", "distortion model equidistant with 4 coefficients")]


@pytest.mark.parametrize(
    ("calibration", "reason"),
    [
        (Calibration(transforms=CALIBRATION.transforms), "no camera info to place boxes with"),
        (Calibration(camera_info=CAMERA), "no transform from camera_optical to base_link"),
        (
            replace(CALIBRATION, camera_info=replace(CAMERA, k=np.zeros((3, 3)))),
            "camera info without focal length or picture size",
        ),
    ],
)
def test_without_calibration_nothing_is_placed(calibration: Calibration, reason: str) -> None:
    given = sample(0, {Role.MODEL: boxes(box())}, calibration=calibration)
    assert placed(given) == []
    assert refused(given) == [("/model/output", reason)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"distance_m": 0.0}, "box without distance"),
        ({"width": 0.0}, "box without size"),
        ({"height": float("nan")}, "box without size"),
        ({"distance_m": float("inf")}, "box without distance"),
        ({"center_y": float("nan")}, "box without size"),
        ({"center_x": 0.951}, "box cut by the picture's edge"),
        ({"center_x": 0.049}, "box cut by the picture's edge"),
        ({"track_id": "other", "distance_m": -3.0}, "box without distance"),
    ],
)
def test_boxes_that_cannot_be_placed_are_counted(change: dict[str, object], reason: str) -> None:
    given = sample(0, {Role.MODEL: boxes(box(**change), box(track_id="good"))})
    assert placed(given) == [[22.0, 0.0]]
    assert refused(given) == [("/model/output", reason)]


def test_fused_boxes_without_a_place_are_counted() -> None:
    wrong = box(center_x=float("nan"), track_id="lost", track_lifetime=3)
    given = sample(0, {Role.BOXES_3D: boxes(wrong, box(distance_m=9.0, center_x=0.0, center_y=0.0))})
    assert placed(given) == [[9.0, 0.0]]
    assert refused(given) == [("/fusion/boxes3d", "box without position")]


@pytest.mark.parametrize(
    ("frame", "place", "bearing"),
    [
        ("base_link", [10.0, -2.0], 0.0),
        ("/base_link", [10.0, -2.0], 0.0),
        ("", [10.0, -2.0], 0.0),
        ("lidar", [11.0, -2.0], 0.0),
        ("radar", [-7.0, 2.0], np.pi),
        ("camera_optical", [12.0, -2.0], 0.0),
    ],
)
def test_boxes_of_the_fusion_lie_in_the_frame_they_name(
    frame: str, place: list[float], bearing: float
) -> None:
    given = sample(0, {Role.BOXES_3D: boxes(box(center_x=2.0, center_y=-0.5, distance_m=10.0, width=1.8))})
    moved = given.companions[Role.BOXES_3D]._replace(frame_id=frame)
    found = prepare_frame(replace(given, companions={Role.BOXES_3D: moved}), OPTIONS).candidates
    np.testing.assert_allclose(found.place_m, [place], atol=1e-9)
    np.testing.assert_allclose(np.abs(found.bearing_rad), [bearing], atol=1e-9)
    assert found.lateral_m.tolist() == [1.8]


def test_unknown_frame_is_refused() -> None:
    given = sample(0, {Role.BOXES_3D: boxes(box())})
    moved = given.companions[Role.BOXES_3D]._replace(frame_id="elsewhere")
    given = replace(given, companions={Role.BOXES_3D: moved})
    assert refused(given) == [("/fusion/boxes3d", "no transform from elsewhere to base_link")]


def test_frames_are_followed_to_the_rig_whatever_the_chain() -> None:
    quarter = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))
    chain = {
        "mast": Transform("base_link", "mast", (1.0, 2.0, 3.0), quarter),
        "head": Transform("mast", "head", (10.0, 0.0, 0.0), (0.0, 0.0, 0.0, 2.0)),
        "a": Transform("b", "a", (0.0, 0.0, 0.0), quarter),
        "b": Transform("a", "b", (0.0, 0.0, 0.0), quarter),
    }
    pose = frame_in_base(chain, "head", "base_link")
    assert pose is not None
    np.testing.assert_allclose(pose @ [1.0, 0.0, 0.0, 1.0], [1.0, 13.0, 3.0, 1.0], atol=1e-9)
    assert frame_in_base(chain, "a", "base_link") is None
    assert frame_in_base(chain, "nowhere", "base_link") is None


def test_an_object_of_several_sources_is_taken_from_the_first() -> None:
    solid = box(center_x=1.0, center_y=0.0, distance_m=21.0, width=1.8, height=1.5)
    data = {Role.MODEL: boxes(box(), box(track_id="b", center_x=0.875)), Role.BOXES_3D: boxes(solid)}
    assert placed(sample(0, data)) == [[21.0, -1.0], [18.0, -12.0]]
    assert placed(sample(0, data), L5KitOptions(sources=("model", "boxes3d"))) == [[22.0, 0.0], [18.0, -12.0]]
    assert placed(sample(0, data), L5KitOptions(sources=("boxes3d",))) == [[21.0, -1.0]]
    assert placed(sample(0, data), L5KitOptions(sources=())) == []
    assert prepare_frame(sample(0, data), OPTIONS).topics == ("/fusion/boxes3d", "/model/output")


def test_a_box_without_distance_is_only_missing_if_nobody_else_places_it() -> None:
    solid = box(distance_m=21.0, center_x=0.0, width=1.8)
    data = {Role.MODEL: boxes(box(distance_m=0.0)), Role.BOXES_3D: boxes(solid)}
    assert refused(sample(0, data)) == []
    assert refused(sample(0, {Role.MODEL: data[Role.MODEL]})) == [("/model/output", "box without distance")]


def test_a_track_twice_in_a_frame_is_counted() -> None:
    given = sample(0, {Role.MODEL: boxes(box(), box(center_x=0.6), box(center_x=0.4))})
    assert placed(given) == [[22.0, 0.0]]
    assert refused(given) == [("/model/output", "the same track twice in one frame")] * 2


def test_fusions_own_numbers_give_way_to_the_models_track() -> None:
    # As the device's fusion sends them: class by number, the box's number in this message, no lifetime.
    loose = {"label": "1", "track_lifetime": 0, "score": 1.0, "width": 1.8, "height": 1.5, "center_y": 1.5}
    ahead = box(center_x=0.2, distance_m=22.0, track_id="1", **{**loose, "center_y": -1.5})
    aside = box(center_x=15.0, distance_m=22.0, track_id="2", **{**loose, "center_y": -1.5})
    alone = box(center_x=-9.0, distance_m=22.0, track_id="3", **{**loose, "center_y": -1.5})
    flat = boxes(
        box(track_id="right", center_x=0.875, distance_m=0.0, label="truck", score=0.55),
        box(track_id="front", distance_m=0.0, label="bus", score=0.6),
    )
    given = sample(0, {Role.BOXES_3D: boxes(alone, aside, ahead), Role.MODEL: flat})
    found = prepare_frame(given, OPTIONS)
    assert found.candidates.key.tolist() == [0, track_key("right"), track_key("front")]
    assert found.candidates.label.argmax(axis=1).tolist() == [3, 7, 6]
    np.testing.assert_allclose(found.candidates.label.max(axis=1), [1.0, 0.55, 0.6])
    assert found.refused == ()


def test_boxes_of_the_fusion_are_matched_one_to_one_nearest_first() -> None:
    loose = {"track_lifetime": 0, "center_y": -1.5, "distance_m": 22.0, "width": 1.0}
    solid = boxes(*(box(center_x=x, track_id=str(i), **loose) for i, x in enumerate((0.9, 0.1, -0.5))))
    wide = box(track_id="wide", center_x=0.5, width=0.4, distance_m=0.0)
    narrow = box(track_id="narrow", center_x=0.52, width=0.1, distance_m=0.0)
    given = sample(0, {Role.BOXES_3D: solid, Role.MODEL: boxes(wide, narrow)})
    # The second is nearest to the wide box, and the first to the narrow one; none is left for the third.
    found = prepare_frame(given, OPTIONS).candidates
    assert found.key.tolist() == [track_key("narrow"), track_key("wide"), 0]


def test_fusion_without_the_model_has_no_tracks_but_classes_by_number() -> None:
    loose = box(
        label="2", track_id="7", track_lifetime=0, center_x=0.0, distance_m=9.0, width=0.6, height=1.7
    )
    found = prepare_frame(sample(0, {Role.BOXES_3D: boxes(loose)}), OPTIONS).candidates
    assert found.key.tolist() == [0]
    assert found.label.argmax(axis=1).tolist() == [14]


def test_messages_of_another_kind_are_refused() -> None:
    nothing = cloud(x=np.zeros(1), y=np.zeros(1), z=np.zeros(1))
    for role, datum, reason in (
        (Role.MODEL, nothing, "message is PointCloud, not boxes"),
        (Role.BOXES_3D, nothing, "message is PointCloud, not boxes"),
    ):
        given = sample(0, {role: datum})
        assert [why for _, why in refused(given)] == [reason]


def test_model_frame_that_is_not_known_is_the_cameras() -> None:
    given = sample(0, {Role.MODEL: boxes(box())})
    for frame in ("", "unheard_of"):
        moved = given.companions[Role.MODEL]._replace(frame_id=frame)
        assert placed(replace(given, companions={Role.MODEL: moved})) == [[22.0, 0.0]]
    other = Calibration(camera_info=CAMERA, transforms={"eye": replace(OPTICAL, child="eye")})
    given = sample(0, {Role.MODEL: boxes(box())}, calibration=other)
    unknown = given.companions[Role.MODEL]._replace(frame_id="unheard_of")
    seen = {Role.MODEL: unknown, Role.CAMERA: unknown._replace(frame_id="eye")}
    assert placed(replace(given, companions=seen)) == [[22.0, 0.0]]


def test_track_key_is_the_hash_that_the_device_uses() -> None:
    # Values of FNV-1a, 32 bit, as published with the function.
    assert [track_key(name) for name in ("a", "foobar", "")] == [0xE40C292C, 0xBF9CF968, 0]


def test_what_is_on_a_mount_that_moves_is_placed_by_where_it_was_then() -> None:
    """A camera that looked to the left when its picture was taken, and looks ahead now."""
    given = sample(0, {Role.MODEL: boxes(box())})
    known = CALIBRATION.transforms["camera_optical"]
    x, y, z, w = known.rotation_xyzw
    half = np.sqrt(0.5)
    left = half * (x - y), half * (x + y), half * (z + w), half * (w - z)
    model = given.companions[Role.MODEL]._replace(
        mounted={"camera_optical": replace(known, rotation_xyzw=left)}
    )
    ((ahead_m, _),), ((x_m, left_m),) = placed(given), placed(replace(given, companions={Role.MODEL: model}))
    at_m = known.translation_m
    assert (x_m, left_m) == pytest.approx((at_m[0], at_m[1] + ahead_m - at_m[0]), abs=1e-5)


def test_two_cameras_have_tracks_of_their_own() -> None:
    given = sample(0, {Role.BOXES_3D: boxes(box(distance_m=9.0, center_x=0.0, width=1.8))})
    beside = View("side", given.companions, CALIBRATION)
    found = prepare_frame(replace(given, views=(beside,)), OPTIONS).candidates
    assert found.key.tolist() == [track_key("car-1"), track_key("car-1") ^ track_key("side")]
    assert len({*found.source.tolist()}) == 2
