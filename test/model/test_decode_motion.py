from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from valid_messages import TRANSFORM, VALUES
from wire_encoder import FieldValue, encode

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.navigation import (
    Imu,
    NavSatFix,
    Odometry,
    decode_imu,
    decode_navsat,
    decode_odometry,
)
from edgefirst_ros.model.transform import Transform, decode_tf, decode_transform

BAD_ROTATIONS = [
    (0.0, 0.0, 0.0, 0.0),
    (1e-12, 0.0, 0.0, 0.0),
    (math.nan, 0.0, 0.0, 1.0),
    (0.0, math.inf, 0.0, 1.0),
    (1e308, 1e308, 1e308, 1e308),
]


def quaternion(values: tuple[float, ...]) -> dict[str, float]:
    return dict(zip("xyzw", values, strict=True))


def imu(**changes: FieldValue) -> Imu:
    return decode_imu(encode("sensor_msgs/Imu", {**VALUES["sensor_msgs/Imu"], **changes})).datum


def transform(**changes: FieldValue) -> bytes:
    inner = {**TRANSFORM["transform"], **changes}
    return encode("geometry_msgs/TransformStamped", {**TRANSFORM, "transform": inner})


def test_imu_keeps_the_orientation_that_its_covariance_denies() -> None:
    made = imu()
    assert made.orientation_xyzw == (0, 0, 0.6, 0.8)
    assert made.angular_velocity_rad_s == (0.1, 0.2, 0.3)
    assert made.linear_acceleration_m_s2 == (1, 2, 9.81)


@pytest.mark.parametrize("rotation", BAD_ROTATIONS)
def test_imu_without_orientation(rotation: tuple[float, ...]) -> None:
    made = imu(orientation=quaternion(rotation))
    assert made.orientation_xyzw is None
    assert made.angular_velocity_rad_s == (0.1, 0.2, 0.3)


@given(st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda v: math.hypot(*v) > 0.1), st.floats(0.91, 1.09))
def test_quaternions_become_unit_quaternions_of_the_same_rotation(
    direction: tuple[float, ...], length: float
) -> None:
    values = tuple(value / math.hypot(*direction) * length for value in direction)
    made = imu(orientation=quaternion(values)).orientation_xyzw
    assert made is not None
    assert math.hypot(*made) == pytest.approx(1, abs=1e-12)
    norm = math.hypot(*values)
    assert made == pytest.approx([value / norm for value in values], abs=1e-12)


@pytest.mark.parametrize("wrong", [(0, 0, 0.6, 3.0), (0, 0, 0.6, 0.1), (1e9, 0, 0, 1)])
def test_a_measured_orientation_that_is_no_rotation_is_refused(wrong: tuple[float, ...]) -> None:
    """Normalised, a quaternion with one wrong component would be a rotation that nobody measured."""
    with pytest.raises(DecodeError, match="the orientation is not a unit quaternion"):
        imu(orientation=quaternion(wrong))
    pose = {"pose": {"orientation": quaternion(wrong)}}
    with pytest.raises(DecodeError, match="the orientation is not a unit quaternion"):
        decode_odometry(encode("nav_msgs/Odometry", {"pose": pose}))


def test_a_mount_may_have_a_quaternion_of_any_length() -> None:
    made = decode_transform(transform(rotation=quaternion((-1, 1, -1, 1)))).datum.transforms
    assert made[0].rotation_xyzw == (-0.5, 0.5, -0.5, 0.5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"angular_velocity": {"x": 101}}, "an angular velocity in rad/s of more than 100"),
        ({"angular_velocity": {"x": math.nan, "y": -math.inf}}, "an angular velocity in rad/s of more than"),
        ({"linear_acceleration": {"z": -5e3}}, "an acceleration in m/s² of more than 4000"),
    ],
)
def test_what_no_sensor_measures_is_refused(changes: FieldValue, reason: str) -> None:
    for _ in range(2):  # of a frame that is known, messages are read in another way
        imu()
        with pytest.raises(DecodeError, match=reason):
            imu(**changes)


def test_rates_that_are_not_measured_are_unknown() -> None:
    made = imu(angular_velocity={"y": math.nan}, linear_acceleration={"z": math.nan})
    assert all(map(math.isnan, (*made.angular_velocity_rad_s, *made.linear_acceleration_m_s2)))
    assert made.orientation_xyzw is not None


def test_a_velocity_that_nothing_has_is_refused() -> None:
    value = VALUES["nav_msgs/Odometry"]
    for part, reason in (
        ("linear", "a velocity in m/s of more than 1000"),
        ("angular", "an angular velocity"),
    ):
        twist = {"twist": {"twist": {part: {"y": 2e4}}}}
        with pytest.raises(DecodeError, match=reason):
            decode_odometry(encode("nav_msgs/Odometry", {**value, **twist}))


def test_fix_is_taken_as_sent() -> None:
    schema = "sensor_msgs/NavSatFix"
    assert decode_navsat(encode(schema, VALUES[schema])).datum == NavSatFix(
        42.377, -71.147, -23.1, -1, sigma_m=(2, 2, 3)
    )
    unjudged = {"latitude": math.inf, "longitude": -500, "altitude": math.nan, "status": {"status": 2}}
    made = decode_navsat(encode(schema, unjudged)).datum
    assert (made.latitude_deg, made.longitude_deg, made.status) == (math.inf, -500, 2)
    assert math.isnan(made.altitude_m)


def test_odometry() -> None:
    schema = "nav_msgs/Odometry"
    assert decode_odometry(encode(schema, VALUES[schema])).datum == Odometry(
        *("base", (1, 2, 3), (0, 0.6, 0, -0.8), (4, 5, 6), (7, 8, 9)),
        position_sigma_m=(1, 1, 1),
        rotation_sigma_rad=(1, 1, 1),
    )


@pytest.mark.parametrize(
    ("kind", "variances"), [(0, (4, 4, 9)), (2, (0, 0, 0)), (2, (-1, 4, 4)), (3, (math.nan, 1, 1))]
)
def test_a_covariance_that_is_none_is_not_taken(kind: int, variances: tuple[float, ...]) -> None:
    matrix = [0.0] * 9
    matrix[::4] = variances
    unsure = {"position_covariance": matrix, "position_covariance_type": kind, "latitude": 1.0}
    assert decode_navsat(encode("sensor_msgs/NavSatFix", unsure)).datum.sigma_m is None
    pose = {"covariance": [0.0] * 36, "pose": {"orientation": {"w": 1}}}
    odometry = decode_odometry(encode("nav_msgs/Odometry", {"pose": pose})).datum
    assert (odometry.position_sigma_m, odometry.rotation_sigma_rad) == (None, None)


@pytest.mark.parametrize("rotation", BAD_ROTATIONS)
def test_odometry_without_a_rotation_is_refused(rotation: tuple[float, ...]) -> None:
    pose = {"pose": {"orientation": quaternion(rotation)}}
    with pytest.raises(DecodeError, match="odometry pose"):
        decode_odometry(encode("nav_msgs/Odometry", {"pose": pose}))


def test_odometry_from_nowhere_is_refused() -> None:
    pose = {"pose": {"orientation": {"w": 1}, "position": {"x": math.nan}}}
    with pytest.raises(DecodeError, match="odometry pose"):
        decode_odometry(encode("nav_msgs/Odometry", {"pose": pose}))


def test_transform_is_normalised() -> None:
    made = decode_transform(transform()).datum.transforms
    assert made == (Transform("base_link", "radar", (1.5, 0, -2), (0, 0, 0.6, 0.8)),)


def test_tf_message_has_many() -> None:
    schema = "tf2_msgs/TFMessage"
    made = decode_tf(encode(schema, VALUES[schema])).datum.transforms
    assert [(one.parent, one.child) for one in made] == [("base_link", "radar"), ("base_link", "lidar")]
    assert made[1].rotation_xyzw == (0, 0, 0.6, 0.8)


@pytest.mark.parametrize("rotation", BAD_ROTATIONS)
def test_transforms_without_a_rotation_are_refused(rotation: tuple[float, ...]) -> None:
    data = transform(rotation=quaternion(rotation))
    with pytest.raises(DecodeError, match="zero or not finite"):
        decode_transform(data)
    bad = {**TRANSFORM, "transform": {"rotation": quaternion(rotation)}}
    with pytest.raises(DecodeError, match="zero or not finite"):
        decode_tf(encode("tf2_msgs/TFMessage", {"transforms": [TRANSFORM, bad]}))


def test_transforms_to_nowhere_are_refused() -> None:
    with pytest.raises(DecodeError, match="zero or not finite"):
        decode_transform(transform(translation={"y": -math.inf}))
    for child in ("", "base_link"):
        with pytest.raises(DecodeError, match="two frames"):
            decode_transform(encode("geometry_msgs/TransformStamped", {**TRANSFORM, "child_frame_id": child}))
    with pytest.raises(DecodeError, match="no transforms"):
        decode_tf(encode("tf2_msgs/TFMessage", {}))
