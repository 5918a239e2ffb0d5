"""Sensors that fail, messages that come late, twice or damaged: as told, and as the truth says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from faulty import LABELS, GpsErrors, ImuErrors, read_number
from played import Played
from scipy.spatial.transform import Rotation

from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.detection import decode_mask

Make = Callable[..., Played]
GRAVITY_M_S2 = 9.80665
BARE = {"fps": 1, "lidar_hz": 0, "radar_hz": 0, "model_hz": 0}


def test_a_silent_topic_sends_nothing_of_that_time_and_the_others_go_on(make: Make) -> None:
    whole = make(seconds=2.0)
    silent = {"gps": ((0.5, 9.0),), "radar": ((0.0, 1.0),), "camera/h264": ((0.7, 1.2),)}
    played = make(seconds=2.0, silent=silent)
    start_ns = played.truth.data["start_ns"]

    def heard(name: str, time_ns: int) -> bool:
        spans = silent.get(name, silent.get(name.partition("/")[0], ()))
        return not any(start <= (time_ns - start_ns) / 1e9 < end for start, end in spans)

    for topic, messages in whole.truth.data["messages"].items():
        if topic != "/camera/h264":
            expected = [m for m in messages if heard(topic.removeprefix("/"), m[0])]
            assert played.truth.data["messages"][topic] == expected
            assert len(played.topics.get(topic, ())) == len(expected)
    assert len(played.truth.data["messages"]["/gps"]) == 2 * 5
    assert len(played.truth.data["gps"]["accepted"]) == 5 - 2
    assert played.truth.data["video"]["/camera/h264"]["dropped"] == [7, 8, 9, 10, 11]
    clean = played.truth.clean_messages("/camera/h264")
    assert [read_number(p) for p in played.pictures("/camera/h264", clean)] == list(range(7))
    assert played.truth.world == whole.truth.world


def test_fixes_are_as_wrong_as_told_and_the_truth_knows_where_the_rig_was(make: Make) -> None:
    quick = {**BARE, "seconds": 40.0, "imu_hz": 0, "gps_no_fix": 0}
    gps = GpsErrors(sigma_m=(1.5, 3.0), jumps=((10.0, 240.0, 0.0),), outlier_messages="second")
    played = make(**quick, gps=gps)
    truth = played.truth
    error = []
    for n, (entry, (true_ns, _, _), sent) in enumerate(
        zip(played.topics["/gps"], truth.data["messages"]["/gps"], truth.data["gps"]["sent"], strict=True)
    ):
        m = entry.message
        assert (m.latitude, m.longitude, m.altitude) == tuple(sent)
        epoch_ns = true_ns if n % 2 == 0 else truth.data["messages"]["/gps"][n - 1][0]
        error.append(truth.enu(*sent) - truth.rig(epoch_ns)[:3, 3])
        assert (m.position_covariance[0], m.position_covariance_type) == (-1.0, 0)
    off = np.array(error)
    (outlier,) = truth.data["gps"]["outliers"]
    assert outlier % 2 == 1
    assert abs(truth.data["messages"]["/gps"][outlier][0] - truth.data["start_ns"] - 10e9) < 150e6
    assert np.allclose(off[outlier] - off[outlier - 1], [240.0, 0, 0], atol=0.05)
    noise = np.delete(off, [outlier - 1, outlier], axis=0)[::2]
    assert np.allclose(noise.std(axis=0), [1.5, 1.5, 3.0], rtol=0.15)
    drifting = make(**quick, gps=GpsErrors(drift_m=2.0, drift_s=20.0)).truth
    drift = np.array([drifting.enu(*sent) for sent in drifting.data["gps"]["sent"][::2]])
    drift -= [drifting.rig(t)[:3, 3] for t in drifting.true_ns("/gps")[::2]]
    assert np.abs(np.diff(drift, axis=0)).max() < 1.0 < np.ptp(drift)


def test_the_imu_feels_the_rigs_motion_through_stops(make: Make) -> None:
    played = make(**BARE, seconds=16.0, stops=((5.0, 8.0),), imu_hz=50.0)
    truth, step_ns = played.truth, 1_000_000
    for entry, (true_ns, _, _) in zip(played.topics["/imu"], truth.data["messages"]["/imu"], strict=True):
        before, now, after = (truth.rig(true_ns + d) for d in (-step_ns, 0, step_ns))
        velocity = (after - before)[:3, 3] / (2 * step_ns / 1e9)
        acceleration = (after - 2 * now + before)[:3, 3] / (step_ns / 1e9) ** 2
        turned = Rotation.from_matrix(before[:3, :3].T @ after[:3, :3]).as_rotvec() / (2 * step_ns / 1e9)
        rate, force = entry.message.angular_velocity, entry.message.linear_acceleration
        assert np.allclose([rate.x, rate.y, rate.z], turned, atol=1e-5)
        expected = now[:3, :3].T @ (acceleration + np.array([0, 0, GRAVITY_M_S2]))
        # Double differences of positions some 60 m off the origin are good to a few mm/s².
        assert np.allclose([force.x, force.y, force.z], expected, atol=0.02)
        stands = 5.0 <= truth.seconds(true_ns) <= 8.0
        assert (np.linalg.norm(velocity) < 1e-9) == stands
        assert np.linalg.norm(velocity) < 11
    places = [truth.rig(int(time_ns))[:3, 3] for time_ns in truth.true_ns("/imu")]
    speeds = np.linalg.norm(np.diff(places, axis=0), axis=1) * 50
    assert np.abs(np.diff(speeds)).max() < 0.2


def test_an_imu_can_be_turned_biased_noisy_and_without_orientation(make: Make) -> None:
    quick = {**BARE, "seconds": 3.0, "imu_hz": 200.0}
    plain = make(**quick)
    errors = ImuErrors(
        gyroscope_sigma_rad_s=0.02, gyroscope_bias_rad_s=(0.1, 0.2, 0.3), accelerometer_sigma_m_s2=0.1,
        accelerometer_bias_m_s2=(0.0, 0.5, 0.0), heading_error_rad=0.2, mounting_deg=(0.0, 0.0, 90.0),
    )  # fmt: skip
    turned = make(**quick, imu=errors)
    differences = []
    for one, other in zip(plain.topics["/imu"], turned.topics["/imu"], strict=True):
        a, b = one.message, other.message
        q, p = ([m.orientation.x, m.orientation.y, m.orientation.z, m.orientation.w] for m in (a, b))
        yaw = (Rotation.from_quat(q).inv() * Rotation.from_quat(p)).as_rotvec()
        assert np.allclose(yaw, [0, 0, np.pi / 2 + 0.2], atol=1e-9)
        force, felt = a.linear_acceleration, b.linear_acceleration
        rate, said = a.angular_velocity, b.angular_velocity
        differences.append(
            [felt.x - force.y, felt.y + force.x, felt.z - force.z, said.x, said.y, said.z - rate.z]
        )
        assert a.orientation_covariance[0] == a.angular_velocity_covariance[0] == -1
    mean, sigma = np.mean(differences, axis=0), np.std(differences, axis=0)
    assert np.allclose(mean, [0, 0.5, 0, 0.1, 0.2, 0.3], atol=0.02)
    assert np.allclose(sigma, [0.1] * 3 + [0.02] * 3, rtol=0.15)
    for kind, w in (("identity", 1.0), ("zero", 0.0)):
        blind = make(**quick, imu=ImuErrors(orientation=kind)).topics["/imu"][0].message
        assert (blind.orientation.w, blind.orientation.z, blind.orientation_covariance[0]) == (w, 0.0, -1.0)


def test_latency_jitter_and_stalls_by_topic(make: Make) -> None:
    options = {"latency_ms": {"radar/cube": 80.0}, "jitter": {"radar": 0.0, "imu": 50.0}}
    played = make(seconds=2.0, **options, stalls={"lidar/points": (0.2, 900.0)}, imu_hz=50.0)
    plain = make(seconds=2.0, imu_hz=50.0)
    assert set(played.truth.latencies_ns("/radar/targets")) == {15_000_000}
    assert set(played.truth.latencies_ns("/radar/cube")) == {80_000_000}
    jittered, usual = (p.truth.latencies_ns("/imu") for p in (played, plain))
    assert jittered.min() == usual.min() == 3_000_000
    assert jittered.max() > 4 * usual.max()
    stalled = played.truth.latencies_ns("/lidar/points")
    assert stalled.max() > 960_000_000
    assert (np.diff([e.record.log_time for e in played.topics["/lidar/points"]]) >= 0).all()


@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_a_message_recorded_twice_is_the_same_twice(make: Make, codec: str) -> None:
    topics = ["/imu", "/lidar/points", f"/camera/{codec}", "/model/output"]
    once = make(seconds=2.0, codec=codec, imu_hz=50.0)
    played = make(seconds=2.0, codec=codec, imu_hz=50.0, duplicate={"*": 0.3})
    for topic in topics:
        again = played.truth.data["duplicates"][topic]
        entries = played.topics[topic]
        assert 0 < len(again) == len(entries) - len(once.topics[topic])
        for index in again:
            assert entries[index].record.data == entries[index - 1].record.data
            assert entries[index].record.log_time > entries[index - 1].record.log_time
        kept = [e.record.data for i, e in enumerate(entries) if i not in again]
        assert kept == [e.record.data for e in once.topics[topic]]
    video = played.truth.data["video"][f"/camera/{codec}"]
    clean = played.truth.clean_messages(f"/camera/{codec}")
    assert [video["presentation"][i] for i in clean] == list(range(20))
    assert [read_number(p) for p in played.pictures(f"/camera/{codec}", clean)] == list(range(20))


def test_two_pictures_can_have_one_stamp(make: Make) -> None:
    played = make(seconds=2.0, same_stamp=0.2)
    same = played.truth.data["video"]["/camera/h264"]["same_stamp"]
    stamps = [e.stamp_ns for e in played.topics["/camera/h264"]]
    assert same
    assert [i for i in range(1, 20) if stamps[i] == played.truth.true_ns("/camera/h264")[i - 1]] == same
    assert [read_number(p) for p in played.pictures("/camera/h264")] == list(range(20))


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_damaged_units_are_those_that_differ(make: Make, codec: str) -> None:
    topic = f"/camera/{codec}"
    whole, played = make(seconds=3.0, codec=codec), make(seconds=3.0, codec=codec, damage_video=0.3)
    differ = [
        i
        for i, (a, b) in enumerate(zip(whole.topics[topic], played.topics[topic], strict=True))
        if a.record.data != b.record.data
    ]
    damage = played.truth.data["video"][topic]["damaged"]
    assert [i for i, _ in damage] == differ
    assert {kind for _, kind in damage} == {"overwritten", "cut short", "cut out"}
    clean = played.truth.clean_messages(topic)
    assert 0 < len(clean) < 30
    assert not set(clean) & set(differ)
    assert [read_number(p) for p in played.pictures(topic, clean)] == clean


def test_masks_show_the_classes_of_the_picture_and_have_no_stamp(make: Make) -> None:
    played = make(seconds=1.0, masks=True, mask_size=(320, 180), width=640, height=360)
    pictures = played.pictures("/camera/h264")
    assert len(played.topics["/model/mask"]) == len(played.topics["/model/output"]) == 5
    seen = set()
    for entry, (true_ns, stamp_ns, log_ns) in zip(
        played.topics["/model/mask"], played.truth.data["messages"]["/model/mask"], strict=True
    ):
        assert stamp_ns == 0
        assert log_ns - true_ns >= 70_000_000
        decoded = decode_mask(entry.record.data, definition("edgefirst_msgs/msg/Mask")).datum
        classes = decoded.mask[:, :, 0]
        assert (classes == played.truth.mask(true_ns, (320, 180))).all()
        picture = pictures[played.truth.true_ns("/camera/h264").tolist().index(true_ns)]
        boxes = played.truth.box_of_color(picture[1::2, 1::2].reshape(-1, 3)).reshape(180, 320)
        labels = np.array([LABELS.index(b.label) for b in played.truth.world.boxes] + [0])[boxes]
        vivid = labels > 0
        # The rest are colours that chroma subsampling bled over a box's edge.
        assert (classes == labels)[vivid].mean() > 0.9
        seen |= set(np.unique(classes).tolist())
    assert len(seen) > 3
    assert list(played.topics["/model/info"][0].message.labels) == list(LABELS)


FIELDS = {
    "maivin": (13, {"x", "y", "z", "reflect"}),
    "ouster": (48, {"x", "y", "z", "intensity", "t", "reflectivity", "ring", "ambient", "range"}),
    "hesai": (26, {"x", "y", "z", "intensity", "ring", "timestamp"}),
}


@pytest.mark.parametrize("model", FIELDS)
def test_every_lidar_sees_the_same_world_in_its_own_fields(make: Make, model: str) -> None:
    usual = make(lidar_points=640)
    played = make(lidar_points=640, lidar_model=model, lidar_missing="nan", lidar_organised=True)
    cloud, points = played.topics["/lidar/points"][0].message, played.points("/lidar/points", 0)
    assert (cloud.point_step, {f.name for f in cloud.fields}) == FIELDS[model]
    assert (cloud.height, cloud.width, cloud.is_dense) == (32, 20, False)
    met = np.isfinite(points["x"])
    assert 0 < met.sum() < 640
    xyz, expected = (
        np.stack([p[a] for a in "xyz"], axis=1) for p in (points[met], usual.points("/lidar/points", 0))
    )
    assert (xyz == expected).all()
    if "range" in FIELDS[model][1]:
        assert np.allclose(points["range"][met] / 1000, np.linalg.norm(xyz, axis=1), atol=1e-3)
    if "ring" in FIELDS[model][1]:
        assert (points["ring"] == np.repeat(np.arange(32), 20)).all()
    zeros = make(lidar_points=640, lidar_model=model, lidar_missing="zero").points("/lidar/points", 0)
    assert (zeros["x"][~met] == 0).all()


def test_traffic_crosses_square_ahead_of_the_rig(make: Make) -> None:
    quick = {**BARE, "seconds": 8.0, "fps": 2, "imu_hz": 0, "model_hz": 2.0, "boxes3d": True}
    played = make(**quick, traffic="crossing", crossings_s=(2.5, 6.0))
    truth, start_ns = played.truth, played.truth.data["start_ns"]
    labels = [box.label for box in truth.world.boxes]
    assert labels == ["car", "truck", "bus", "car"]
    for index, time_s in ((2, 2.5), (3, 6.0)):
        at = start_ns + int(time_s * 1e9)
        local = np.linalg.inv(truth.rig(at)) @ truth.box(index, at)
        assert np.allclose(local[:3, 3], [18, 0, 0], atol=1e-6)
        assert abs(local[0, 0]) < 1e-9
    buses = [b for e in played.topics["/fusion/boxes3d"] for b in e.message.boxes if b.label == "bus"]
    assert len(buses) > 2
    assert {b.track_id for b in buses} == {truth.world.boxes[2].track_id}
    assert make(**quick, traffic="none").truth.world.boxes == ()
