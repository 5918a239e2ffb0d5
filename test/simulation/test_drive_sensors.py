"""What each sensor of a simulated drive sends, against geometry worked out again from the truth."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from played import Played
from scipy.spatial.transform import Rotation

from edgefirst_ros.simulation.world import inverse, transform

STEP_NS = 1_000_000


def xyz(points: np.ndarray) -> np.ndarray:
    return np.stack([points[axis].astype(np.float64) for axis in "xyz"], axis=1)


def test_lidar_points_lie_on_boxes_or_ground(drive: Played) -> None:
    on_boxes = 0
    for index, time_ns in enumerate(drive.truth.true_ns("/lidar/points").tolist()):
        points = drive.points("/lidar/points", index)
        world = transform(drive.truth.sensor("lidar", time_ns), xyz(points))
        off_m, surface = drive.truth.surface_distance(world, time_ns)
        assert off_m.max() < 1e-4
        touching = (surface >= 0) & (world[:, 2] > 0.01)
        assert (points["reflect"][touching] == 40 + 15 * surface[touching]).all()
        assert (points["reflect"][world[:, 2] < 1e-4] == 25).mean() > 0.99
        on_boxes += int(touching.sum())
    assert on_boxes > 1000


def test_lidar_sees_no_point_through_a_box(drive: Played) -> None:
    for index, time_ns in enumerate(drive.truth.true_ns("/lidar/points").tolist()[::5]):
        points = xyz(drive.points("/lidar/points", index * 5))
        mount = drive.truth.sensor("lidar", time_ns)
        for share in (0.3, 0.6, 0.9, 0.99):
            between = transform(mount, points * share)
            assert between[:, 2].min() > 0
            for box in range(len(drive.truth.world.boxes)):
                half = np.array(drive.truth.world.boxes[box].size_m) / 2
                local = transform(inverse(drive.truth.box(box, time_ns)), between) - [0, 0, half[2]]
                assert not (np.abs(local) < half - 1e-3).all(axis=1).any()


def test_lidar_points_fall_on_their_boxes_colour_in_the_picture(drive: Played) -> None:
    pictures = drive.pictures("/camera/h264")
    frames_ns = drive.truth.true_ns("/camera/h264")
    judged = wrong = 0
    for index, time_ns in enumerate(drive.truth.true_ns("/lidar/points").tolist()):
        frame = int(np.abs(frames_ns - time_ns).argmin())
        frame_ns = int(frames_ns[frame])
        if abs(frame_ns - time_ns) > 2_000_000:
            continue
        world = transform(drive.truth.sensor("lidar", time_ns), xyz(drive.points("/lidar/points", index)))
        _, surface = drive.truth.surface_distance(world, time_ns)
        # The box has moved on a little until the picture was taken.
        for box in set(surface[surface >= 0].tolist()):
            mine = surface == box
            local = transform(inverse(drive.truth.box(box, time_ns)), world[mine])
            world[mine] = transform(drive.truth.box(box, frame_ns), local)
        pixels, depth = drive.truth.project(world, frame_ns)
        clear = (depth > 1) & drive.truth.seen(world, frame_ns) & (world[:, 2] > 0.05)
        clear &= ((pixels > 3) & (pixels < [636, 356])).all(axis=1) & (pixels[:, 1] > 20)
        u, v = np.rint(pixels[clear]).astype(int).T
        shown = drive.truth.box_of_color(pictures[frame][v, u])
        judged += len(shown)
        wrong += int((shown != surface[clear]).sum())
    assert judged > 300
    assert wrong / judged < 0.05


def test_hashes_are_those_of_clouds_and_cubes(drive: Played) -> None:
    for index, expected in enumerate(drive.truth.data["sha256"]["/lidar/points"]):
        points = drive.points("/lidar/points", index)
        packed = np.stack([points[axis] for axis in "xyz"], axis=1)
        assert hashlib.sha256(packed.tobytes()).hexdigest() == expected
    for entry, expected in zip(
        drive.topics["/radar/cube"], drive.truth.data["sha256"]["/radar/cube"], strict=True
    ):
        assert hashlib.sha256(entry.message.cube.tobytes()).hexdigest() == expected


def test_radar_targets_are_on_facing_surfaces_and_move_as_they_say(drive: Played) -> None:
    fastest = slowest = 0.0
    for index, time_ns in enumerate(drive.truth.true_ns("/radar/targets").tolist()):
        points = drive.points("/radar/targets", index)
        local = xyz(points)
        world = transform(drive.truth.sensor("radar", time_ns), local)
        off_m, box = drive.truth.surface_distance(world, time_ns)
        assert off_m.max() < 1e-4
        assert (box >= 0).all()
        assert (np.abs(np.degrees(np.arctan2(local[:, 1], local[:, 0]))) <= 60.001).all()
        for point, owner, speed in zip(world, box, points["speed"], strict=True):
            on_box = transform(inverse(drive.truth.box(owner, time_ns)), point)
            away = []
            for at_ns in (time_ns - STEP_NS, time_ns + STEP_NS):
                radar = drive.truth.sensor("radar", at_ns)[:3, 3]
                away.append(math.dist(transform(drive.truth.box(owner, at_ns), on_box), radar))
            assert speed == pytest.approx((away[1] - away[0]) / (2 * STEP_NS / 1e9), abs=2e-4)
            fastest, slowest = max(fastest, speed), min(slowest, speed)
    assert slowest < -10
    assert fastest > -1


def test_radar_returns_fade_with_the_fourth_power_of_range(drive: Played) -> None:
    points = np.concatenate([drive.points("/radar/targets", i) for i in range(20)])
    away = np.linalg.norm(xyz(points), axis=1)
    assert np.allclose(points["power"], 60 + points["rcs"] - 40 * np.log10(away / 10), atol=1e-3)


def test_cube_peaks_stand_where_the_targets_of_the_same_stamp_are(drive: Played) -> None:
    scans = {entry.stamp_ns: i for i, entry in enumerate(drive.topics["/radar/targets"])}
    assert len(drive.topics["/radar/cube"]) == 8
    for entry in drive.topics["/radar/cube"]:
        message = entry.message
        shape = np.frombuffer(message.shape, "<u2")
        _, range_m, _, doppler_m_s = np.frombuffer(message.scales, "<f4")
        assert bytes(message.layout.tobytes()) == bytes([6, 1, 5, 2])
        assert shape.tolist() == [2, 200, 4, 256]
        assert message.is_complex
        assert message.timestamp == entry.stamp_ns // 1000
        values = np.frombuffer(message.cube, "<i2").reshape(2, 200, 4, 128, 2).astype(float)
        level = np.hypot(values[..., 0], values[..., 1]).min(axis=(0, 2))
        points = drive.points("/radar/targets", scans[entry.stamp_ns])
        rows = np.rint(np.linalg.norm(xyz(points), axis=1) / range_m).astype(int)
        columns = (np.rint(points["speed"] / doppler_m_s).astype(int) + 64) % 128
        expected = set(zip(rows.tolist(), columns.tolist(), strict=True))
        assert set(zip(*(axis.tolist() for axis in np.nonzero(level > 200)), strict=True)) == expected
        strongest = np.argmax(points["power"])
        turn = np.angle(values[0, rows[strongest], 1, columns[strongest]] @ [1, 1j])
        sine = points["y"][strongest] / np.linalg.norm(xyz(points)[strongest])
        assert turn == pytest.approx(math.pi * sine, abs=0.02)


def test_gps_epochs_are_on_the_path_and_sent_twice(drive: Played) -> None:
    accepted = drive.truth.data["gps"]["accepted"]
    entries = drive.topics["/gps"]
    assert len(entries) == 2 * drive.truth.data["gps"]["epochs"] == 2 * (len(accepted) + 2)
    for entry in entries[:4]:
        assert (entry.message.latitude, entry.message.longitude) == (0, 0)
    for i, (time_ns, *place) in enumerate(accepted):
        first, second = entries[4 + 2 * i : 6 + 2 * i]
        for entry in (first, second):
            message = entry.message
            assert [message.latitude, message.longitude, message.altitude] == place
            assert (message.status.status, message.status.service, message.frame_id) == (0, 1, "")
        assert first.stamp_ns == time_ns
        assert second.stamp_ns - first.stamp_ns == 40_000_000
        assert drive.truth.enu(*place) == pytest.approx(drive.truth.rig(time_ns)[:3, 3], abs=1e-4)


def test_imu_feels_what_the_path_does(drive: Played) -> None:
    truth = drive.truth
    step = STEP_NS / 1e9
    for entry, time_ns in zip(drive.topics["/imu"], truth.true_ns("/imu").tolist(), strict=True):
        before, here, after = (truth.rig(time_ns + d) for d in (-STEP_NS, 0, STEP_NS))
        q, rate = entry.message.orientation, entry.message.angular_velocity
        felt = entry.message.linear_acceleration
        turned = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
        assert np.abs(turned - here[:3, :3]).max() < 1e-12
        spin = Rotation.from_matrix(before[:3, :3].T @ after[:3, :3]).as_rotvec() / (2 * step)
        assert [rate.x, rate.y, rate.z] == pytest.approx(spin, abs=1e-5)
        pull = (after[:3, 3] - 2 * here[:3, 3] + before[:3, 3]) / step**2 + [0, 0, 9.80665]
        assert [felt.x, felt.y, felt.z] == pytest.approx(here[:3, :3].T @ pull, abs=1e-3)
        assert entry.message.orientation_covariance[0] == -1
        assert entry.message.frame_id == ""


def test_mounts_are_sent_each_second_and_the_camera_quaternion_is_not_normalised(drive: Played) -> None:
    sent = drive.topics["/tf_static"]
    assert [e.message.child_frame_id for e in sent] == ["camera_optical", "radar", "lidar"] * 4
    for entry in sent:
        shift, q = entry.message.transform.translation, entry.message.transform.rotation
        T_sensor_rig = np.eye(4)
        T_sensor_rig[:3, :3] = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
        T_sensor_rig[:3, 3] = shift.x, shift.y, shift.z
        start_ns = drive.truth.data["start_ns"]
        expected = inverse(drive.truth.rig(start_ns)) @ drive.truth.sensor(
            entry.message.child_frame_id, start_ns
        )
        assert pytest.approx(expected, abs=1e-9) == T_sensor_rig
    q = sent[0].message.transform.rotation
    assert math.hypot(q.x, q.y, q.z, q.w) == 2.0
