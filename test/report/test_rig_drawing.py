"""The drawing of the rig: sensors where transforms place them, what cameras see, what has no place."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from reports import report, section, stream
from test_report_page import HOSTILE

from edgefirst_ros.model.transform import quaternion_of_angles
from edgefirst_ros.report.models import Camera, parsed
from edgefirst_ros.report.page.make import document
from edgefirst_ros.report.page.rig import COLOURS, drawing
from edgefirst_ros.report.scene import Projection, projected
from edgefirst_ros.report.sensors import field_of_view, mounted

SVG = "{http://www.w3.org/2000/svg}"
OPTICAL = (math.radians(-90), 0.0, math.radians(-90))
CAMERA = {"size": (1280, 720), "focal_px": (640.0, 640.0), "principal_px": (640.0, 360.0)}
Vector = tuple[float, float, float]


def place(
    frame: str, at: Vector, *, yaw_deg: float = 0.0, parent: str = "base_link", optical: bool = False
) -> Any:  # noqa: ANN401
    rpy = np.array(OPTICAL if optical else (0.0,) * 3)
    rpy[2] += math.radians(yaw_deg)
    turn = quaternion_of_angles(rpy).tolist()
    return {"parent": parent, "child": frame, "translation_m": at, "rotation_xyzw": turn}


def values(streams: dict[str, tuple[str, str]], *transforms: Any, **calibration: Any) -> dict[str, Any]:  # noqa: ANN401
    """A report of topics, each with role and frame."""
    found = report({t: stream(r, 0, 9, 10) | {"frame_id": f, "sensor": t} for t, (r, f) in streams.items()})
    found["sequences"][0]["calibration"] = {"transforms": list(transforms), **calibration}
    return found


RIG = values(
    {
        "front": ("camera", "front_optical"),
        "left": ("camera", "left_optical"),
        "lidar": ("lidar_points", "/mast/lidar"),
        "radar_targets": ("radar_targets", "radar"),
        "radar_cube": ("radar_cube", "radar"),
        "imu": ("imu", ""),
        "gps": ("gps", "antenna"),
    },
    place("front_optical", (1.5, 0.0, 1.4), optical=True),
    place("left_optical", (1.0, 0.6, 1.5), yaw_deg=90, optical=True),
    place("mast", (0.5, 0.0, 1.0), yaw_deg=90),
    place("mast/lidar", (0.2, 0.0, 0.5), parent="mast"),
    place("radar", (2.0, -0.3, 0.5)),
    cameras={"front": CAMERA},
)


def of_kind(root: ET.Element, kind: str, name: str = "circle") -> list[ET.Element]:
    return [each for each in root.iter(f"{SVG}{name}") if each.get("fill") == COLOURS.get(kind, kind)]


def centres(root: ET.Element, kind: str) -> list[tuple[float, float]]:
    """Without the one of the legend."""
    found = [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in of_kind(root, kind)]
    return [each for each in found if each[1] != 16.0]


def drawn(found: dict[str, Any]) -> ET.Element:
    return ET.fromstring(drawing([e for e in mounted(parsed(found)) if e.is_near], "base_link"))


def page(found: dict[str, Any]) -> str:
    return section(document(parsed(found), "t", []), "rig")


def test_sensors_are_where_transforms_place_them_in_both_views() -> None:
    root = drawn(RIG)
    origins = centres(root, "currentColor")
    assert len(origins) == 2
    at = {"lidar": (0.5, 0.2, 1.5), "radar": (2.0, -0.3, 0.5)}
    scale = (centres(root, "radar")[0][0] - origins[0][0]) / 2.0
    for kind, (x_m, *others_m) in at.items():
        for origin, centre, up_m in zip(origins, centres(root, kind), others_m, strict=True):
            expected = (origin[0] + scale * x_m, origin[1] - scale * up_m)
            assert centre == pytest.approx(expected, abs=0.15), kind


def test_a_camera_sees_to_where_it_looks() -> None:
    root = drawn(RIG)
    front = of_kind(root, "camera", "polygon")
    assert len(front) == 2  # of the other camera it is not known how far
    for polygon in front:
        apex, *rim = (tuple(map(float, each.split(","))) for each in polygon.get("points", "").split())
        assert min(x for x, _ in rim) > apex[0]
        assert np.mean([y for _, y in rim]) == pytest.approx(apex[1], abs=1)
    (first, *_, last) = (np.array(each.split(","), float) for each in front[0].get("points", "").split()[1:])
    assert math.dist(first, last) == pytest.approx(2 * 58 * math.sin(math.radians(45)), abs=1)
    left = centres(root, "camera")[1]
    dashed = [each.get("d", "") for each in root.iter(f"{SVG}path") if each.get("stroke-dasharray")]
    begin, end = next(
        (a, b)
        for a, b in ([tuple(map(float, p.split())) for p in d[1:].split("L")] for d in dashed)
        if a == left
    )
    assert end == pytest.approx((begin[0], begin[1] - 58), abs=0.2)


def test_the_table_has_places_and_what_is_nowhere_is_said() -> None:
    text = page(RIG)
    assert '>0.50</td><td class="n">0.20</td><td class="n">1.50</td>' in text
    assert "90 x 59" in text
    assert text.count("<b>radar</b>") == 1
    assert "No transform leads from base_link to: imu (its messages name no frame), gps (antenna)." in text


def test_without_a_placed_sensor_there_is_no_drawing() -> None:
    text = document(parsed(values({"lidar": ("lidar_points", "lidar")})), "t", [])
    assert 'id="rig"' not in text


def test_a_tile_of_a_picture_is_where_its_camera_is() -> None:
    tiles = values({"c": ("camera", "cam_topleft")}, place("cam", (1.0, 0.0, 1.0), optical=True))
    assert centres(drawn(tiles), "camera")


def test_the_place_of_another_sequence_counts_where_one_knows_none() -> None:
    found = values({"lidar": ("lidar_points", "l")}, place("l", (1.0, 0.0, 1.0)))
    found["sequences"].insert(0, found["sequences"][0] | {"calibration": None})
    assert centres(drawn(found), "lidar")


def test_a_transform_in_millimetres_shrinks_nothing() -> None:
    streams = {"lidar": ("lidar_points", "l"), "gps": ("gps", "g"), "imu": ("imu", "i")}
    whole = values(
        streams, place("l", (1.0, 0.0, 1.0)), place("g", (1200.0, 0.0, 0.0)), place("i", (1e12,) * 3)
    )
    assert len(centres(drawn(whole), "lidar")) == 2
    assert "Too far away to be on a vehicle, which is 50 m: imu (i), gps (g)." in page(whole)
    few = {t: s for t, s in streams.items() if t == "lidar"}
    assert centres(drawn(whole), "lidar") == centres(drawn(values(few, place("l", (1.0, 0.0, 1.0)))), "lidar")


def test_hostile_values_are_shown_as_text_and_cost_little() -> None:
    names = [f"{HOSTILE}{number}" for number in range(250)]
    places = [
        place(n, (1.0, 0.0, 1.0), parent=names[k - 1] if k % 100 else HOSTILE) for k, n in enumerate(names)
    ]
    odd = {
        "size": (2**53, 1),
        "focal_px": (1e-12, 1e12),
        "principal_px": (1.0, 0.5),
        "distortion": [-1e12] * 64,
    }
    found = values({n: ("camera", n) for n in names}, *places, rig=HOSTILE, cameras=dict.fromkeys(names, odd))
    found["sequences"] *= 20
    text = page(found)
    assert "<img src=x" not in text
    assert "\u202e" not in text
    ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    assert len(text) < 200_000
    assert "nan" not in text


def test_a_transform_that_is_not_finite_costs_the_drawing_only() -> None:
    found = values({"lidar": ("lidar_points", "l")}, place("l", (math.inf, 0.0, 0.0)))
    assert 'id="attention"' in document(parsed(found), "t", [])


@pytest.mark.parametrize(
    "distortion", [(), (-0.1, 0.01, 0.0, 0.0, -0.0005), (0.2, 0.05, 0.0, 0.0, 0.0, 0.25, 0.05, 0.0)]
)
def test_a_ray_at_the_edge_of_what_a_camera_sees_is_at_the_edge_of_its_picture(
    distortion: tuple[float, ...],
) -> None:
    camera = Camera.model_validate({**CAMERA, "principal_px": (500.0, 400.0), "distortion": list(distortion)})
    angles = field_of_view(camera)
    assert angles is not None
    left, right, top, bottom = angles
    rays = np.array(
        [[-math.tan(left), 0, 1], [math.tan(right), 0, 1], [0, -math.tan(top), 1], [0, math.tan(bottom), 1]]
    )
    focal, principal = (640 / 1280, 640 / 720), (500 / 1280, 400 / 720)
    inside = Projection(np.eye(3), np.zeros(3), focal, principal, distortion)
    for ray, edge in zip(rays, [(0, 400), (1280, 400), (500, 0), (500, 720)], strict=True):
        near = ray * (0.985, 0.985, 1.0)
        (pixel,), _ = projected(near[None], (1280, 720), inside)
        assert pixel == pytest.approx(edge, abs=16)


def test_a_fisheye_sees_by_its_angle() -> None:
    fish = Camera.model_validate({**CAMERA, "focal_px": (320.0, 320.0), "distortion_model": "equidistant"})
    assert field_of_view(fish) == pytest.approx((2.0, 2.0, 1.125, 1.125), abs=0.01)
    wide = Camera.model_validate({**CAMERA, "focal_px": (1.0, 1.0), "distortion_model": "equidistant"})
    assert field_of_view(wide) == pytest.approx((math.pi,) * 4)
