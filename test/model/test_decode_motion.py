from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from valid_messages import STAMP_NS, TRANSFORM, VALUES
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
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
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


@pytest.mark.parametrize("rotation", BAD_ROTATIONS)
def test_imu_without_orientation(rotation: tuple[float, ...]) -> None:
    made = imu(orientation=quaternion(rotation))
    assert made.orientation_xyzw is None
    assert made.angular_velocity_rad_s == (0.1, 0.2, 0.3)


def test_imu_with_covariances() -> None:
    kinds = ("orientation", "angular_velocity", "linear_acceleration")
    sent = {f"{kind}_covariance": [float(9 * n + k) for k in range(9)] for n, kind in enumerate(kinds)}
    assert imu(**sent).covariances == tuple(map(float, range(27)))


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


def test_fix_is_taken_as_sent() -> None:
    schema = "sensor_msgs/NavSatFix"
    made = decode_navsat(encode(schema, VALUES[schema])).datum
    assert (made.latitude_deg, made.longitude_deg, made.altitude_m) == (42.377, -71.147, -23.1)
    assert (made.status, made.sigma_m) == (-1, (2, 2, 3))
    assert made.covariance_m2 == (4, 0, 0, 0, 4, 0, 0, 0, 9)
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


def test_poses_are_odometry_without_velocity() -> None:
    for schema, sigma in (("PoseStamped", None), ("PoseWithCovarianceStamped", (2, 2, 2))):
        data = encode(f"geometry_msgs/{schema}", VALUES[f"geometry_msgs/{schema}"])
        found = decode(RawMessage("/a", f"geometry_msgs/msg/{schema}", data, 1, 1, 0))
        assert (found.stamp_ns, found.frame_id) == (STAMP_NS, "base_link")
        odometry = found.datum
        assert isinstance(odometry, Odometry)
        assert (odometry.position_m, odometry.orientation_xyzw) == ((1, 2, 3), (0, 0, 0.6, 0.8))
        assert odometry.position_sigma_m == odometry.rotation_sigma_rad == sigma
        assert all(map(math.isnan, odometry.linear_m_s))


@pytest.mark.parametrize(
    ("frames", "position", "forward"), [((1, 1), (2, 1, 3), (4, -1, 2)), ((2, 3), (1, -2, 3), (4, -1, 2))]
)
def test_an_autopilots_odometry_is_turned_into_the_axes_of_ros(
    frames: tuple[int, int], position: tuple[float, ...], forward: tuple[float, ...]
) -> None:
    """North, east, down becomes east, north, up; of another frame the middle axis and the last are turned."""
    schema = "px4_msgs/VehicleOdometry"
    values = {**VALUES[schema], "pose_frame": frames[0], "velocity_frame": frames[1]}
    found = decode(RawMessage("/a", "px4_msgs/msg/VehicleOdometry", encode(schema, values), 1, 1, 0))
    odometry = found.datum
    assert isinstance(odometry, Odometry)
    assert found.stamp_ns == 1_500_000_000
    assert odometry.position_m == pytest.approx(position)
    assert odometry.linear_m_s == pytest.approx(forward)
    assert odometry.angular_rad_s == (0.5, -0.25, -0.125)
    assert odometry.position_sigma_m == (2, 2, 3)
    # That looks north, at 90 degrees from east; or ahead.
    yaw = 2 * math.atan2(odometry.orientation_xyzw[2], odometry.orientation_xyzw[3])
    assert math.degrees(yaw) % 360 == pytest.approx(90 if frames[0] == 1 else 0, abs=1e-6)


def test_a_fix_with_more_to_it_is_a_fix() -> None:
    data = encode("gps_msgs/GPSFix", VALUES["gps_msgs/GPSFix"])
    assert decode(RawMessage("/a", "gps_msgs/msg/GPSFix", data, 1, 1, 0)).datum == NavSatFix(
        42.377, -71.147, -23.1, 1, (2, 2, 3), (4, 0, 0, 0, 4, 0, 0, 0, 9), 2
    )


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
