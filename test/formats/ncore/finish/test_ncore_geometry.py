from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pymap3d
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ncoremade import CAMERA_INFO
from scipy.spatial.transform import Rotation

from edgefirst_ros.formats.ncore.poses import (
    BASES,
    RigPoses,
    cover,
    enu_to_ecef,
    filled,
    frames_in_rig,
    inverse,
    matrix,
    node,
    rig_to_world,
    sensor_edges,
    thin,
)
from edgefirst_ros.formats.ncore.prepare.camera import (
    camera_info_json,
    camera_model,
    fisheye_max_angle_rad,
)
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.sample import PoseBasis
from edgefirst_ros.model.transform import bare

COEFFICIENTS = st.floats(-0.2, 0.2)
POINTS = np.random.default_rng(1).uniform(-0.6, 0.6, (50, 2))


def info(model: str, d: tuple[float, ...], size: tuple[int, int] = (1280, 720)) -> CameraInfo:
    k = np.array([[900.0, 0, 630.0], [0, 910.0, 350.0], [0, 0, 1]])
    return CameraInfo(*size, model, d, k, np.eye(3), np.eye(3, 4))


def ros_project(camera: CameraInfo, xy: np.ndarray) -> np.ndarray:
    """OpenCV's projection as its documentation has it, pixel centres at whole numbers."""
    x, y = xy.T
    if camera.distortion_model == "equidistant":
        k1, k2, k3, k4 = camera.d
        r = np.hypot(x, y)
        theta = np.arctan(r)
        scale = theta * (1 + k1 * theta**2 + k2 * theta**4 + k3 * theta**6 + k4 * theta**8) / r
        u, v = x * scale, y * scale
    else:
        k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = (*camera.d, *[0.0] * (12 - len(camera.d)))
        r2 = x * x + y * y
        radial = (1 + k1 * r2 + k2 * r2**2 + k3 * r2**3) / (1 + k4 * r2 + k5 * r2**2 + k6 * r2**3)
        u = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + s1 * r2 + s2 * r2**2
        v = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + s3 * r2 + s4 * r2**2
    return np.stack([camera.k[0, 0] * u + camera.k[0, 2], camera.k[1, 1] * v + camera.k[1, 2]], axis=1)


def ncore_project(model: dict, xy: np.ndarray) -> np.ndarray:
    """The parameters as NCore's specification reads them, origin at the corner of the first pixel."""
    p = model["camera_model_parameters"]
    x, y = xy.T
    if model["camera_model_type"] == "opencv-fisheye":
        theta = np.arctan2(np.hypot(x, y), 1)
        powers = sum(k * theta ** (2 * i + 2) for i, k in enumerate(p["radial_coeffs"]))
        uv = xy * (theta * (1 + powers) / np.hypot(x, y))[:, None]
    else:
        k1, k2, k3, k4, k5, k6 = p["radial_coeffs"]
        (p1, p2), (s1, s2, s3, s4) = p["tangential_coeffs"], p["thin_prism_coeffs"]
        r2 = x * x + y * y
        radial = (1 + k1 * r2 + k2 * r2**2 + k3 * r2**3) / (1 + k4 * r2 + k5 * r2**2 + k6 * r2**3)
        tangential = [2 * p1 * x * y + p2 * (r2 + 2 * x * x), p1 * (r2 + 2 * y * y) + 2 * p2 * x * y]
        prism = [s1 * r2 + s2 * r2**2, s3 * r2 + s4 * r2**2]
        uv = np.stack([x * radial + tangential[0] + prism[0], y * radial + tangential[1] + prism[1]], axis=1)
    return uv * p["focal_length"] + p["principal_point"]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(
        [("plumb_bob", 5), ("rational_polynomial", 8), ("rational_polynomial", 12), ("equidistant", 4)]
    ),
    st.lists(COEFFICIENTS, min_size=12, max_size=12),
)
def test_points_land_where_ros_has_them_half_a_pixel_on(model: tuple[str, int], d: list[float]) -> None:
    camera = info(model[0], tuple(d[: model[1]]))
    found = camera_model(camera_info_json(camera), (1280, 720), rolling=False)
    assert (found.derived, found.assumed) == ("", "")
    written = found.attributes
    assert np.allclose(ncore_project(written, POINTS), ros_project(camera, POINTS) + 0.5)
    assert written["camera_model_parameters"]["resolution"] == [1280, 720]
    assert written["camera_model_parameters"]["shutter_type"] == "GLOBAL"


def test_a_smaller_picture_scales_the_camera_about_its_corner() -> None:
    camera = info("plumb_bob", (0.1, 0.0, 0.0, 0.0, 0.0))
    full = camera_model(camera_info_json(camera), (1280, 720), rolling=True).attributes
    made = camera_model(camera_info_json(camera), (640, 360), rolling=True)
    assert (made.derived, made.assumed) == ("scaled from 1280x720", "")
    half = made.attributes
    assert np.allclose(ncore_project(half, POINTS) * 2, ncore_project(full, POINTS))
    assert half["camera_model_parameters"]["shutter_type"] == "ROLLING_TOP_TO_BOTTOM"


@pytest.mark.parametrize(
    ("camera", "why"),
    [
        (None, "no CameraInfo"),
        (CameraInfo(0, 0, "", (), np.zeros((3, 3)), np.eye(3), np.eye(3, 4)), "without focal length"),
        (info("plumb_bob", (math.nan,) * 5), "without focal length"),
        (info("my_own_model", (1.0,)), "my_own_model"),
        (info("rational_polynomial", (0.0,) * 12 + (0.1, 0.0)), "tilted"),
        (info("equidistant", (0.0,) * 4 + (0.1,)), "5 coefficients"),
    ],
)
def test_without_a_usable_camera_info_a_pinhole_is_assumed_and_said(
    camera: CameraInfo | None, why: str
) -> None:
    found = camera_model(camera and camera_info_json(camera), (200, 100), rolling=False)
    assert why in found.assumed
    parameters = found.attributes["camera_model_parameters"]
    assert parameters["focal_length"] == pytest.approx([100 / math.tan(math.radians(40))] * 2)
    assert parameters["principal_point"] == [100.0, 50.0]
    assert not any(parameters["radial_coeffs"])


def test_zeros_behind_the_coefficients_of_a_fisheye_are_none() -> None:
    written = [
        camera_model(camera_info_json(info("equidistant", d)), (1280, 720), rolling=False)
        for d in ((0.01, -0.002, 0.0, 0.0), (0.01, -0.002, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    ]
    assert written[0] == written[1]
    assert not written[0].assumed


def test_the_fisheye_angle_ends_at_the_corner() -> None:
    fisheye = camera_info_json(info("equidistant", (0.01, -0.002, 0, 0)))
    written = camera_model(fisheye, (1280, 720), rolling=False).attributes
    angle = written["camera_model_parameters"]["max_angle"]
    ray = np.array([[math.tan(angle), 0.0]])
    p = written["camera_model_parameters"]
    reach = (ncore_project(written, ray)[0, 0] - p["principal_point"][0]) / p["focal_length"][0]
    corners = np.array([[0, 0], [1280, 0], [0, 720], [1280, 720]])
    farthest = np.linalg.norm((corners - p["principal_point"]) / p["focal_length"], axis=1).max()
    assert reach == pytest.approx(farthest, rel=1e-4)


def test_the_fisheye_angle_ends_where_the_projection_turns_back() -> None:
    turn = fisheye_max_angle_rad([-0.2, 0.0, 0.0, 0.0], 5.0)
    assert turn == pytest.approx(math.sqrt(1 / 0.6), abs=1e-3)
    assert fisheye_max_angle_rad([0.0, 0.0, 0.0, 0.0], 10.0) == pytest.approx(math.pi)


def test_transforms_chain_in_both_directions_to_the_rig() -> None:
    turn = tuple(Rotation.from_euler("z", 90, degrees=True).as_quat())
    rows = [
        ("base_link", "mast", (0.0, 0.0, 2.0), (0.0, 0.0, 0.0, 1.0)),
        ("/mast", "lidar", (1.0, 0.0, 0.0), turn),
        ("chassis", "base_link", (0.0, 5.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
        ("elsewhere", "lost", (1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0)),
    ]
    found = frames_in_rig(rows, "base_link")
    assert found.keys() == {"mast", "lidar", "chassis"}
    point = found["lidar"] @ np.array([1.0, 0.0, 0.0, 1.0])
    assert np.allclose(point, [1.0, 1.0, 2.0, 1.0])
    assert np.allclose(found["chassis"] @ np.array([0.0, 5.0, 0.0, 1.0]), [0.0, 0.0, 0.0, 1.0])


def test_quaternions_need_not_be_normalised() -> None:
    pose = matrix((1.0, 2.0, 3.0), (-5.0, 5.0, -5.0, 5.0))
    assert np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-15)
    assert np.allclose(pose @ np.array([0, 0, 1, 1.0]), [2.0, 2.0, 3.0, 1.0])  # optical z is forward
    assert np.allclose(inverse(pose) @ pose, np.eye(4))


def test_sensors_without_transform_are_placed_and_named() -> None:
    nodes = {
        "cam": ("camera_optical", True),
        "lidar": ("", False),
        "imu": ("base_link", False),
        "rig": ("", False),
    }
    edges, assumed = sensor_edges([], "base_link", nodes)
    assert assumed == ["cam", "lidar"]
    assert edges.keys() == {"cam", "lidar", "imu"}
    assert np.allclose(edges["cam"][:3, 2], [1.0, 0.0, 0.0])
    assert np.allclose(edges["imu"], np.eye(4))


def test_frames_do_not_take_the_names_that_ncore_uses() -> None:
    assert [node(name, "base_link") for name in ("base_link", "", "/lidar", "world", "rig")] == [
        "rig", "rig", "lidar", "tf_world", "tf_rig"
    ]  # fmt: skip
    assert bare(" /a/b") == "a/b"


@given(st.lists(st.integers(1, 120), min_size=0, max_size=80), st.integers(1, 60))
def test_thinning_keeps_ends_and_gaps(steps: list[int], gap: int) -> None:
    times = np.cumsum([0, *steps])
    kept = thin(trajectory(times), gap)
    assert kept[0] == 0
    assert kept[-1] == len(times) - 1
    gaps = np.diff(times[kept])
    native = np.array([np.diff(times[a : b + 1]).max() for a, b in pairwise(kept)])
    assert (gaps <= np.maximum(gap, native)).all()
    pairs = times[kept][2:] - times[kept][:-2]
    assert (pairs > gap).all() or len(kept) < 4  # nothing was kept that could have been left out


def trajectory(times: npt.NDArray[np.int64], *basis: PoseBasis) -> RigPoses:
    numbers = [[BASES.index(each)] * 2 for each in basis or [PoseBasis.MEASURED] * len(times)]
    sigma = np.tile(np.arange(6.0), (len(times), 1)) + np.arange(len(times))[:, None]
    return RigPoses(times, rows(times), np.array(numbers, np.uint8), sigma)


def rows(times: np.ndarray) -> np.ndarray:
    angle = times / 1e6
    turns = Rotation.from_rotvec(np.outer(angle, [0.0, 0.0, 1.0])).as_quat()
    return np.column_stack([angle * 10, angle * 0, angle, turns])


def test_the_trajectory_covers_the_interval_exactly() -> None:
    times = np.arange(0, 1_000_000, 30_000)
    covered = cover(trajectory(times), 100_001, 800_003)
    assert (covered.times_us[0], covered.times_us[-1]) == (100_001, 800_003)
    assert np.allclose(covered.rows, rows(covered.times_us))
    assert (covered.basis == BASES.index(PoseBasis.MEASURED)).all()


def test_ends_are_held_not_extrapolated_and_said_to_be_assumed() -> None:
    times = np.array([100_000, 200_000])
    covered = cover(trajectory(times), 0, 900_000)
    assert covered.times_us.tolist() == [0, 100_000, 200_000, 900_000]
    assert np.allclose(covered.rows[0], covered.rows[1])
    assert np.allclose(covered.rows[2], covered.rows[3])
    assert [BASES[n] for n in covered.basis[:, 0]] == ["assumed", "measured", "measured", "assumed"]
    assert covered.assumed_us(0) == 800_000
    covered = cover(trajectory(times[:1]), 0, 900_000)
    assert covered.times_us.tolist() == [0, 100_000, 900_000]
    assert np.allclose(covered.rows[0], covered.rows[1])
    assert cover(trajectory(times), 99_500, 200_000).assumed_us(0) == 0, "half a millisecond is no time"


def test_one_instant_has_one_pose() -> None:
    covered = cover(trajectory(np.array([5, 10])), 7, 7)
    assert covered.times_us.tolist() == [7]
    assert covered.rows.shape == (1, 7)


def test_what_lies_between_rests_on_the_worse_of_its_sides() -> None:
    times = np.array([0, 100_000, 200_000, 300_000])
    M, D = PoseBasis.MEASURED, PoseBasis.DEAD_RECKONED
    covered = cover(trajectory(times, M, D, D, M), 50_000, 250_000)
    assert [BASES[n] for n in covered.basis[:, 1]] == [D, D, D, D]
    assert covered.sigma[:, 0].tolist() == [1.0, 1.0, 2.0, 3.0]


def test_thinning_keeps_both_sides_of_a_change() -> None:
    times = np.arange(0, 1_000_000, 10_000)
    bases = [PoseBasis.MEASURED] * 37 + [PoseBasis.ASSUMED] * 26 + [PoseBasis.INTERPOLATED] * 37
    kept = thin(trajectory(times, *bases), 50_000)
    assert {36, 37, 62, 63} <= set(kept.tolist())
    assert trajectory(times, *bases).taken(kept).assumed_us(0) == 270_000


def test_what_is_unknown_gets_placeholders_that_are_marked() -> None:
    times = np.arange(0, 700_000, 100_000)
    told = trajectory(times)
    told.rows[[0, 3, 6], :3] = np.nan
    told.rows[4:, 3:] = np.nan
    poses = filled(told)
    truth = rows(times)
    assert np.isfinite(poses.rows).all()
    assert np.allclose(poses.rows[[0, 6], :3], truth[[1, 5], :3]), "held before the first and after the last"
    assert np.allclose(poses.rows[3, :3], truth[3, :3]), "a straight line between known ends"
    assert np.allclose(poses.rows[4:, 3:], truth[3, 3:])
    assert [BASES[n] == PoseBasis.ASSUMED for n in poses.basis[:, 0]] == [1, 0, 0, 1, 0, 0, 1]
    assert [BASES[n] == PoseBasis.ASSUMED for n in poses.basis[:, 1]] == [0, 0, 0, 0, 1, 1, 1]
    told.rows[:] = np.nan
    assert told.is_unknown
    assert (filled(told).rows == [0, 0, 0, 0, 0, 0, 1]).all()


def test_the_world_is_the_first_pose() -> None:
    table = rows(np.array([300_000, 400_000, 900_000]))
    poses, T_world_enu = rig_to_world(table)
    assert (poses[0] == np.eye(4)).all()
    assert (poses[:, 3] == [0, 0, 0, 1]).all()
    for row, pose in zip(table, poses, strict=True):
        assert np.allclose(T_world_enu @ pose, matrix(row[:3], row[3:]))
        assert np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-12)


@given(
    st.floats(-89, 89),
    st.floats(-180, 180),
    st.floats(-100, 4000),
    st.lists(st.floats(-500, 500), min_size=3, max_size=3),
)
def test_enu_reaches_ecef_where_pymap3d_does(lat: float, lon: float, alt: float, enu: list[float]) -> None:
    found = enu_to_ecef(lat, lon, alt) @ np.array([*enu, 1.0])
    assert np.allclose(found[:3], pymap3d.enu2ecef(*enu, lat, lon, alt), atol=1e-6)


def test_the_camera_info_json_is_equal_for_equal_cameras() -> None:
    assert camera_info_json(CAMERA_INFO) == camera_info_json(CAMERA_INFO)
    assert camera_info_json(CAMERA_INFO)["k"] == [60.0, 61.0, 31.5, 23.5]
