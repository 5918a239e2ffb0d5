from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ncoremade import (
    CALIBRATION,
    CAMERA_INFO,
    CLUSTERS,
    FUSION,
    HEIGHT,
    LIDAR,
    RADAR,
    START_NS,
    WIDTH,
    box,
    camera,
    cloud,
    cube,
    gps,
    imu,
    lidar,
    observation,
    points,
    radar,
)
from PIL import Image

from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.parts import (
    ComponentEntry,
    Cuboids,
    FlatBoxes,
    Prepared,
    SeriesValue,
)
from edgefirst_ros.formats.ncore.prepare.roles import prepare
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.detection import Box, Detections, Mask
from edgefirst_ros.model.navigation import Imu, NavSatFix
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Calibration, Observation, Role

DEFAULT = NCoreOptions()


def made(observed: Observation, options: NCoreOptions = DEFAULT) -> Prepared:
    return prepare(observed, options)


def entry(observed: Observation, options: NCoreOptions = DEFAULT) -> ComponentEntry:
    prepared = made(observed, options)
    assert prepared.refused == ()
    (part,) = prepared.parts
    assert isinstance(part, ComponentEntry)
    return part


def array(part: ComponentEntry, name: str) -> np.ndarray:
    return read_array(dict(part.records).__getitem__, name)


def attributes(part: ComponentEntry, name: str) -> dict[str, Any]:
    return json.loads(dict(part.records)[f"{name}/.zattrs"])


def sweep(array_: np.ndarray, height: int = 1, stamp_ns: int = START_NS) -> Observation:
    return observation(
        Role.LIDAR_POINTS, "/lidar/points", START_NS, cloud(array_, height), "lidar", stamp_ns=stamp_ns
    )


def test_a_picture_is_stored_as_it_is() -> None:
    observed = camera(START_NS + 999)
    part = entry(observed)
    assert observed.image is not None
    assert array(part, "image").item() == observed.image.data
    assert attributes(part, "image") == {"format": "jpeg"}
    assert (part.start_us, part.end_us) == (START_NS // 1000, START_NS // 1000)
    assert part.size == (WIDTH, HEIGHT)


def test_a_rolling_shutter_makes_a_frame_of_its_readout() -> None:
    part = entry(camera(START_NS), NCoreOptions(camera_readout_ms=16.5))
    assert part.end_us - part.start_us == 16_500


def test_each_camera_has_a_readout_of_its_own() -> None:
    options = NCoreOptions(camera_readout_ms={"camera_optical": 8.0, "all": 2.0})
    other = camera(START_NS)
    other = replace(other, measurement=other.measurement._replace(frame_id="rear"))
    spans = [
        (part.start_us, part.end_us) for part in (entry(camera(START_NS), options), entry(other, options))
    ]
    assert [end - start for start, end in spans] == [8000, 2000]


def turning(returns: int = 1, name: str = "reflect") -> tuple[np.ndarray, np.ndarray]:
    """A cloud of 16 rows and 64 columns that turns by a full turn, and the directions of its rays."""
    up, around = np.radians(np.linspace(-15, 15, 16)), np.linspace(0, 2 * np.pi, 64, endpoint=False)
    up, around = np.meshgrid(up, around, indexing="ij")
    around = around + np.linspace(0, 0.05, 16)[:, None]
    looks = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=-1)
    found = np.zeros((16, 64, returns), np.dtype([*LIDAR.descr[:3], (name, "u1")]))
    for number in range(returns):
        for axis, each in enumerate("xyz"):
            found[each][..., number] = (5 + number) * looks[..., axis]
        found[name][..., number] = 100 + number
    return found, looks


def test_rays_of_an_organised_cloud_that_met_nothing_stay() -> None:
    cloud_, looks = turning()
    gone = np.zeros((16, 64), bool)
    gone[::3, ::5] = True
    cloud_[gone] = np.zeros(1, cloud_.dtype)
    part = entry(sweep(cloud_.ravel(), height=16))
    distance = array(part, "ray_bundle_returns/distance_m")
    assert distance.shape == (1, 1024)
    assert np.array_equal(np.isnan(distance[0]), gone.ravel())
    assert np.array_equal(np.isnan(array(part, "ray_bundle_returns/intensity")), np.isnan(distance))
    assert np.abs(array(part, "ray_bundle/direction") - looks.reshape(-1, 3)).max() < 0.01
    mask = np.unpackbits(array(part, "ray_bundle_returns_valid_mask_packed"), count=1024)
    assert np.array_equal(mask == 0, gone.ravel())


@pytest.mark.parametrize("layout", ["by turns", "one after the other", "rows"])
def test_two_returns_of_a_ray_are_returns(layout: str) -> None:
    cloud_, looks = turning(returns=2)
    cloud_[::2, :, 1] = np.zeros(1, cloud_.dtype)  # half of the rays have one echo
    axes, height = {
        "by turns": ((0, 1, 2), 16),
        "one after the other": ((0, 2, 1), 16),
        "rows": ((2, 0, 1), 32),
    }[layout]
    part = entry(sweep(np.ascontiguousarray(cloud_.transpose(axes)).ravel(), height=height))
    assert attributes(part, "ray_bundle_returns") == {"n_returns": 2}
    distance, intensity = (array(part, f"ray_bundle_returns/{name}") for name in ("distance_m", "intensity"))
    assert distance.shape == intensity.shape == (2, 1024)
    assert np.allclose(distance[0], 5)
    assert np.array_equal(np.isnan(distance[1]).reshape(16, 64).all(axis=1), np.arange(16) % 2 == 0)
    assert np.array_equal(np.isnan(distance), np.isnan(intensity))
    assert np.allclose(array(part, "ray_bundle/direction"), looks.reshape(-1, 3), atol=1e-6)


def test_intensity_may_be_called_i() -> None:
    cloud_, _ = turning(name="i")
    assert np.allclose(array(entry(sweep(cloud_.ravel(), 16)), "ray_bundle_returns/intensity"), 100 / 255)


def test_a_packet_without_picture_is_refused() -> None:
    prepared = made(replace(camera(START_NS), image=None))
    assert prepared.parts == ()
    assert prepared.refused == ("no picture",)


def test_rays_times_distance_are_the_points() -> None:
    cloud_ = points(LIDAR, 500, 3)
    part = entry(sweep(cloud_))
    direction, distance = array(part, "ray_bundle/direction"), array(part, "ray_bundle_returns/distance_m")
    assert direction.dtype == distance.dtype == np.float32
    assert np.abs((direction.astype(float) ** 2).sum(1) - 1).max() < 1e-6
    xyz = np.stack([cloud_[axis] for axis in "xyz"], axis=1)
    assert np.allclose(direction * distance[0][:, None], xyz, atol=1e-5)
    intensity = array(part, "ray_bundle_returns/intensity")
    assert np.array_equal(np.rint(intensity[0] * 255).astype(np.uint8), cloud_["reflect"])
    assert (array(part, "ray_bundle/timestamp_us") == START_NS // 1000).all()
    assert attributes(part, "ray_bundle") == {"n_rays": 500}
    mask = np.unpackbits(array(part, "ray_bundle_returns_valid_mask_packed"))[:500]
    assert mask.all()


def test_points_without_direction_are_dropped_with_all_their_fields() -> None:
    dtype = np.dtype([*LIDAR.descr, ("ring", "<u2")])
    cloud_ = points(dtype, 6, 3)
    cloud_["ring"] = np.arange(6)
    cloud_["x"][0] = np.nan
    cloud_["z"][2] = np.inf
    for axis in "xyz":
        cloud_[axis][4] = 0.0
    cloud_["x"][5] = 1e30
    part = entry(sweep(cloud_))
    assert array(part, "generic_data/ring").tolist() == [1, 3]
    assert attributes(part, "ray_bundle") == {"n_rays": 2}
    assert attributes(part, "ray_bundle_returns_valid_mask_packed") == {"n_rays": 2, "n_returns": 1}


def test_a_sweep_of_nothing_is_a_frame_of_nothing() -> None:
    part = entry(sweep(np.zeros(3, LIDAR)))
    assert array(part, "ray_bundle/direction").shape == (0, 3)
    assert array(part, "ray_bundle_returns/distance_m").shape == (1, 0)
    assert array(part, "ray_bundle_returns_valid_mask_packed").shape == (0,)
    assert part.start_us == part.end_us == START_NS // 1000
    assert entry(sweep(np.zeros(0, LIDAR))).end_us == START_NS // 1000


@pytest.mark.parametrize(
    "dtype",
    [
        [("reflect", "u1"), ("x", "<f4"), ("y", "<f4"), ("z", "<f4")],
        [("x", ">f4"), ("y", ">f4"), ("z", ">f4"), ("reflect", "u1")],
        [("x", "<f8"), ("y", "<f8"), ("z", "<f8"), ("reflect", "u1")],
        [("z", "<f4"), ("y", "<f4"), ("x", "<f4"), ("reflect", "u1")],
    ],
)
def test_coordinates_are_found_wherever_and_however_they_are(dtype: list[Any]) -> None:
    reference = points(LIDAR, 40, 5)
    cloud_ = np.zeros(40, dtype)
    for name in LIDAR.names:
        cloud_[name] = reference[name]
    assert np.array_equal(
        array(entry(sweep(cloud_)), "ray_bundle/direction"),
        array(entry(sweep(reference)), "ray_bundle/direction"),
    )


def timed(kind: str, name: str, values: list[float]) -> np.ndarray:
    cloud_ = points(np.dtype([*LIDAR.descr, (name, kind)]), len(values), 1)
    cloud_[name] = values
    return cloud_


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        ("<u4", "t", [0, 1_500_000, 99_000_000]),
        ("<f4", "time", [0.0, 0.0015, 0.099]),
        ("<i4", "time_offset", [0, 1_500_000, 99_000_000]),
        ("<f8", "timestamp", [137.25, 137.2515, 137.349]),
        ("<f8", "timestamp", [137_250_000_000.0, 137_251_500_000.0, 137_349_000_000.0]),  # Livox
        ("<u8", "timestamp", [137_250_000_000, 137_251_500_000, 137_349_000_000]),
    ],
)
def test_ray_times_come_from_the_field_whatever_its_unit(kind: str, name: str, values: list[float]) -> None:
    part = entry(sweep(timed(kind, name, values), stamp_ns=137_250_000_000))
    times = array(part, "ray_bundle/timestamp_us").astype(np.int64) - START_NS // 1000
    assert np.abs(times - [0, 1500, 99_000]).max() <= 1
    assert (part.start_us, part.end_us) == (START_NS // 1000, START_NS // 1000 + times[2])
    assert part.meta["ray_times"] == name
    assert not any(key.startswith(f"generic_data/{name}") for key, _ in part.records)


@pytest.mark.parametrize("values", [[0.0, 5e9, 3.0], [0.0, 5e18, 3.0], [0.0, np.nan, 0.1]])
def test_times_that_cannot_be_are_kept_as_data_and_not_believed(values: list[float]) -> None:
    part = entry(sweep(timed("<f8", "time", values)))
    assert part.meta["ray_times"] == "constant"
    assert part.start_us == part.end_us
    assert array(part, "generic_data/time").shape == (3,)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [("<u2", [0, 65535, 13107], [0.0, 1.0, 0.2]), ("u1", [0, 255, 51], [0.0, 1.0, 0.2])],
)
def test_intensity_is_scaled_to_one(kind: str, values: list[float], expected: list[float]) -> None:
    cloud_ = points(np.dtype([*LIDAR.descr[:3], ("intensity", kind)]), 3, 1)
    cloud_["intensity"] = values
    found = array(entry(sweep(cloud_)), "ray_bundle_returns/intensity")
    assert found[0] == pytest.approx(expected)


def test_a_cloud_without_intensity_has_zeros_and_says_so() -> None:
    part = entry(sweep(points(np.dtype(LIDAR.descr[:3]), 4, 1)))
    assert not array(part, "ray_bundle_returns/intensity").any()
    assert "none" in part.meta["intensity_field"]


def test_a_cloud_without_coordinates_is_refused() -> None:
    prepared = made(sweep(np.zeros(3, [("x", "<f4"), ("y", "<f4")])))
    assert prepared.refused == ("cloud has fields x, y but no x, y and z",)


def test_detections_have_their_fields_as_generic_data() -> None:
    observed = radar(START_NS)
    part = entry(observed)
    assert isinstance(observed.measurement.datum, PointCloud)
    wire = observed.measurement.datum.points
    assert np.array_equal(array(part, "generic_data/radial_velocity_m_s"), wire["speed"])
    assert np.array_equal(array(part, "generic_data/rcs_dBsm"), wire["rcs"])
    assert np.array_equal(array(part, "generic_data/power"), wire["power"])
    assert part.meta["radial_velocity"] == {"positive": "receding", "ego_motion_compensated": False}
    turned = entry(observed, NCoreOptions(radar_speed_receding_positive=False))
    assert np.array_equal(array(turned, "generic_data/radial_velocity_m_s"), -wire["speed"])


def test_noise_and_cluster_ids_are_kept_where_the_radar_sends_them() -> None:
    dtype = np.dtype([*RADAR.descr, ("noise", "<f4"), ("cluster_id", "<f4")])
    observed = observation(
        Role.RADAR_TARGETS, "/radar/targets", START_NS, cloud(points(dtype, 5, 1)), "radar"
    )
    part = entry(observed)
    names = {key.split("/")[1] for key, _ in part.records if key.startswith("generic_data/")}
    assert names >= {"noise", "cluster_id", "power", "radial_velocity_m_s", "rcs_dBsm"}


def test_cubes_are_stored_only_when_asked() -> None:
    assert made(cube(START_NS)).refused == ("radar_cube is off",)
    prepared = made(cube(START_NS), NCoreOptions(radar_cube=True))
    (part,) = prepared.parts
    records = dict(part.records)  # type: ignore[union-attr]
    meta = json.loads(records[".zattrs"])["radar_cube"]
    assert meta["layout"] == ["SEQUENCE", "RANGE", "RXCHANNEL", "DOPPLER"]
    assert meta["shape"] == [2, 4, 2, 16]
    assert meta["scales"] == [1.0, 0.5, 1.0, 0.25]
    assert meta["is_complex"] is True
    found = read_array(records.__getitem__, "radar_cube")
    assert np.array_equal(found, cube(START_NS).measurement.datum.cube)  # type: ignore[union-attr]


def test_clusters_become_a_cloud_with_integer_clusters() -> None:
    wire = points(CLUSTERS, 6, 2)
    wire["x"][1] = np.nan
    part = entry(observation(Role.RADAR_CLUSTERS, "/radar/clusters", START_NS, cloud(wire), "radar"))
    schemas = part.shared["attribute_schemas"]  # type: ignore[index]
    assert schemas["cluster"] == {"transform_type": "INVARIANT", "dtype": "int32", "shape_suffix": []}
    assert array(part, "cluster").tolist() == [int(c) for i, c in enumerate(wire["cluster_id"]) if i != 1]
    assert array(part, "xyz").shape == (5, 3)


def test_fused_clouds_have_class_instance_and_track() -> None:
    wire = points(FUSION, 6, 2)
    part = entry(observation(Role.FUSION_LIDAR, "/fusion/lidar", START_NS, cloud(wire), "base_link"))
    assert set(part.shared["attribute_schemas"]) == {"class", "instance", "track"}  # type: ignore[index]
    assert array(part, "class").dtype == np.uint16
    assert np.array_equal(array(part, "track"), wire["track_id"])


def mask(values: np.ndarray, *, boxed: bool = False, calibration: Calibration = CALIBRATION) -> Observation:
    datum = Mask(values.astype(np.uint8), boxed=boxed)
    return observation(Role.MASK, "/model/mask", START_NS, datum, "camera_optical", calibration=calibration)


def png(part: ComponentEntry) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(array(part, "data").tobytes()), formats=["PNG"]))


def test_a_mask_is_enlarged_to_the_picture() -> None:
    values = np.arange(12).reshape(3, 4, 1)
    part = entry(mask(values))
    found = png(part)
    assert found.shape == (HEIGHT, WIDTH)
    assert np.array_equal(found[HEIGHT // 6 :: HEIGHT // 3, WIDTH // 8 :: WIDTH // 4], values[..., 0])
    assert png(entry(mask(values, calibration=Calibration()))).shape == (3, 4)
    claimed = Calibration(camera_info=replace(CAMERA_INFO, width=16_384, height=16_384))
    assert png(entry(mask(values, calibration=claimed))).shape == (3, 4)
    assert part.name == "segmentation.semantic"
    schema = part.shared["descriptor"]["label_schema"]  # type: ignore[index]
    assert (schema["encoding"], schema["encoded_format"], schema["dtype"]) == (
        "IMAGE_ENCODED",
        "png",
        "uint8",
    )


def test_of_layers_the_strongest_class_counts() -> None:
    scores = np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 5))
    assert np.array_equal(png(entry(mask(scores))), scores.astype(np.uint8).argmax(axis=2))


def test_masks_that_are_no_label_of_a_picture_are_refused() -> None:
    assert made(mask(np.zeros((2, 2, 1)), boxed=True)).refused == ("mask of a single box",)
    assert made(mask(np.zeros((0, 0, 1)))).refused == ("empty mask",)


def test_a_model_message_gives_its_boxes_and_its_mask() -> None:
    datum = Detections((box(1.0, 0.0, 0.0),), (Mask(np.zeros((2, 2, 1), np.uint8), boxed=False),))
    prepared = made(observation(Role.MODEL, "/model/output", START_NS, datum, "camera_optical"))
    boxes, mask = prepared.parts
    assert isinstance(boxes, FlatBoxes)
    assert isinstance(mask, ComponentEntry)
    assert (mask.component, prepared.refused) == ("camera_labels", ())
    flat = replace(box(1.0, 0.0, 0.0), height=0.0)
    thin = made(observation(Role.MODEL, "/model/output", START_NS, Detections((flat,), ()), ""))
    assert thin.refused == ("2-D box without extent",)


def test_depth_in_millimetres_is_quantised_and_in_metres_is_raw() -> None:
    millimetres = RawImage("16UC1", np.array([[0, 1500], [65535, 7]], np.uint16))
    part = entry(observation(Role.DEPTH, "/depth", START_NS, millimetres, "camera_optical"))
    schema = part.shared["descriptor"]["label_schema"]  # type: ignore[index]
    assert schema["quantization"] == {"quantized_dtype": "uint16", "scale": 0.001, "offset": 0.0}
    assert schema["dtype"] == "float32"
    assert np.array_equal(array(part, "data"), millimetres.pixels)
    metres = RawImage("32FC1", np.array([[0.5, 1.5]], np.float32))
    part = entry(observation(Role.DEPTH, "/depth", START_NS, metres, "camera_optical"))
    assert part.shared["descriptor"]["label_schema"]["quantization"] is None  # type: ignore[index]
    colours = RawImage("rgb8", np.zeros((2, 2, 3), np.uint8))
    assert made(observation(Role.DEPTH, "/depth", START_NS, colours, "")).refused == (
        "rgb8 is not a depth image; expected 16UC1 in millimetres or 32FC1 in metres",
    )


def boxes(*found: Box, frame: str = "lidar") -> Cuboids:
    prepared = made(observation(Role.BOXES_3D, "/fusion/boxes3d", START_NS, Detections(found, ()), frame))
    (part,) = prepared.parts
    assert isinstance(part, Cuboids)
    return part


def test_boxes_are_turned_into_the_frame_they_are_sent_in() -> None:
    (observed,) = boxes(box(10.0, 2.0, 0.5)).observations
    assert observed["bbox3"] == {"centroid": [10.0, 2.0, 0.5], "dim": [1.5, 1.5, 1.2], "rot": [0.0, 0.0, 0.0]}
    assert (observed["track_id"], observed["class_id"]) == ("7", "3")
    assert observed["timestamp_us"] == observed["reference_frame_timestamp_us"] == START_NS // 1000


def test_boxes_in_an_optical_frame_stay_optical_if_tf_knows_it() -> None:
    (observed,) = boxes(box(10.0, 2.0, 0.5), frame="camera_optical").observations
    assert observed["bbox3"]["centroid"] == [-2.0, -0.5, 10.0]
    assert observed["bbox3"]["dim"] == [1.5, 1.2, 1.5]
    older = boxes(box(10.0, 2.0, 0.5), frame="base_link_optical")
    assert older.frame_id == "base_link"
    assert older.observations[0]["bbox3"]["centroid"] == [10.0, 2.0, 0.5]


def test_untracked_boxes_are_tracks_of_their_own_and_flat_ones_are_refused() -> None:
    flat = replace(box(1.0, 0.0, 0.0), width=0.0)
    lost = replace(box(1.0, 0.0, 0.0), distance_m=float("nan"))
    datum = Detections((box(5.0, 1.0, 0.0, track=""), box(6.0, 1.0, 0.0, track=""), flat, lost), ())
    prepared = made(observation(Role.BOXES_3D, "/fusion/boxes3d", START_NS, datum, "lidar"))
    (part,) = prepared.parts
    assert isinstance(part, Cuboids)
    assert len({observed["track_id"] for observed in part.observations}) == 2
    assert len(part.extra) == 2
    assert prepared.refused == ("box without extent or position",)


def test_raw_series_keep_every_value() -> None:
    (row,) = made(imu(START_NS)).parts
    assert isinstance(row, SeriesValue)
    assert row.values == (0.0, 0.0, 0.0, 1.0, 0.01, 0.02, 0.03, 0.0, 0.0, 9.81, *range(27))
    assert sum(size for _, size in row.layout) == len(row.values)
    blind = observation(Role.IMU, "/imu", START_NS, Imu(None, (0.0,) * 3, (0.0,) * 3))  # type: ignore[arg-type]
    (row,) = made(blind).parts
    assert isinstance(row, SeriesValue)
    assert np.isnan(row.values[:4]).all()
    (row,) = made(gps(START_NS)).parts
    assert isinstance(row, SeriesValue)
    fix = NavSatFix(45.5, -73.6, 30.0, 0, None, tuple(map(float, range(9))), 2, 5)
    (row,) = made(observation(Role.GPS, "/gps", START_NS, fix)).parts
    assert isinstance(row, SeriesValue)
    assert row.values == (45.5, -73.6, 30.0, 0.0, 5.0, *range(9), 2.0)
    assert sum(size for _, size in row.layout) == len(row.values)


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        (Role.LIDAR_POINTS, "lidar message is Imu, not a point cloud"),
        (Role.RADAR_TARGETS, "radar message is Imu, not a point cloud"),
        (Role.FUSION_RADAR, "message is Imu, not a point cloud"),
        (Role.BOXES_3D, "message is Imu, not boxes"),
        (Role.DEPTH, "Imu is not a depth image; expected 16UC1 in millimetres or 32FC1 in metres"),
        (Role.LIDAR_DEPTH, "image of a lidar, not aligned with a camera"),
    ],
)
def test_what_is_not_what_its_role_says_is_refused(role: Role, reason: str) -> None:
    assert made(observation(role, "/x", START_NS, imu(START_NS).measurement.datum)).refused == (reason,)


@pytest.mark.parametrize("role", [Role.TF, Role.CAMERA_INFO, Role.RADAR_INFO, Role.MODEL_INFO])
def test_context_makes_no_parts_and_is_not_refused(role: Role) -> None:
    prepared = made(observation(role, "/x", START_NS, CALIBRATION.camera_info))  # type: ignore[arg-type]
    assert (prepared.parts, prepared.refused) == ((), ())


def test_preparing_is_a_pure_function() -> None:
    assert made(lidar(START_NS)) == made(lidar(START_NS))
    assert entry(camera(START_NS)).records == entry(camera(START_NS)).records
