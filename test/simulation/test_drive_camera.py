"""The camera of a simulated drive: pictures, calibration, detections."""

from __future__ import annotations

import numpy as np
import pytest
from faulty import read_number
from played import Played


def nal_types(data: bytes) -> list[int]:
    starts = [i + 3 for i in range(len(data) - 3) if data[i : i + 3] == b"\0\0\1"]
    return [data[at] & 31 for at in starts]


def test_every_picture_carries_its_number_and_exact_stamp(drive: Played) -> None:
    video = drive.truth.data["video"]["/camera/h264"]
    assert [read_number(p) for p in drive.pictures("/camera/h264")] == list(range(60))
    assert video["presentation"] == list(range(60))
    stamps = [entry.stamp_ns for entry in drive.topics["/camera/h264"]]
    assert stamps == drive.truth.true_ns("/camera/h264").tolist()
    start_ns = drive.truth.data["start_ns"]
    assert stamps == [start_ns + 20_000_000 + k * 1_000_000_000 // 15 for k in range(60)]


def test_an_access_unit_a_message_and_parameter_sets_in_every_key_frame(drive: Played) -> None:
    assert drive.truth.data["video"]["/camera/h264"]["keyframes"] == [0, 15, 30, 45]
    for i, entry in enumerate(drive.topics["/camera/h264"]):
        kinds = [kind for kind in nal_types(entry.message.data.tobytes()) if kind != 6]
        assert kinds == ([7, 8, 5] if i % 15 == 0 else [1])
        assert entry.message.format == "h264"
        assert entry.message.frame_id == "camera_optical"


def test_camera_info_is_the_camera_that_the_world_was_drawn_with(drive: Played) -> None:
    for entry in drive.topics["/camera/info"]:
        info = entry.message
        k = np.array(info.k).reshape(3, 3)
        assert (info.width, info.height, info.distortion_model, info.d) == (640, 360, "plumb_bob", [0.0] * 5)
        assert np.array(info.p).reshape(3, 4)[:, :3] == pytest.approx(k)
        ahead = np.array([[0.3, -0.2, 2.0], [-1.0, 0.5, 5.0]])
        assert drive.truth.world.camera.project(ahead) == pytest.approx((ahead @ k.T / ahead[:, 2:])[:, :2])


def test_box_in_image_frames_the_boxs_colour(drive: Played) -> None:
    judged = 0
    pictures, times_ns = drive.pictures("/camera/h264"), drive.truth.true_ns("/camera/h264").tolist()
    for picture, time_ns in zip(pictures[::3], times_ns[::3], strict=True):
        shown = drive.truth.box_of_color(picture.reshape(-1, 3)).reshape(360, 640)
        shown[:18] = -1
        # Where two boxes meet, subsampled chroma shows a third colour, a pixel or two wide.
        solid = np.all([np.roll(shown, by, axis) == shown for by in (-2, 2) for axis in (0, 1)], axis=0)
        for index in range(len(drive.truth.world.boxes)):
            corners = drive.truth.box_corners(index, time_ns)
            rectangle = drive.truth.box_in_image(index, time_ns)
            if rectangle is None:
                assert not (solid & (shown == index)).any()
                continue
            left, top, right, bottom = rectangle
            if min(right - left, bottom - top) > 15 and drive.truth.seen(corners, time_ns).sum() >= 6:
                rows, columns = np.nonzero(solid & (shown == index))
                found = [columns.min() - 2, rows.min() - 2, columns.max() + 3, rows.max() + 3]
                if left > 0 and right < 640:
                    assert found == pytest.approx(rectangle, abs=2.6)
                    judged += 1
                else:
                    assert found[1] >= top - 2.6
                    assert found[3] <= bottom + 2.6
    assert judged > 15


def test_model_boxes_are_those_rectangles_with_label_range_speed_and_steady_tracks(drive: Played) -> None:
    world = drive.truth.world
    by_track = {box.track_id: i for i, box in enumerate(world.boxes)}
    assert len(by_track) == len(world.boxes)
    frames = drive.truth.true_ns("/camera/h264").tolist()
    times = drive.truth.true_ns("/model/output").tolist()
    assert times == frames[::2]
    seen: dict[str, int] = {}
    for entry, time_ns in zip(drive.topics["/model/output"], times, strict=True):
        assert entry.stamp_ns == time_ns
        for box in entry.message.boxes:
            index = by_track[box.track_id]
            left, top, right, bottom = drive.truth.box_in_image(index, time_ns) or (0, 0, 0, 0)
            got = [box.center_x * 640, box.center_y * 360, box.width * 640, box.height * 360]
            assert got == pytest.approx(
                [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], abs=1e-3
            )
            eye = drive.truth.sensor("camera_optical", time_ns)[:3, 3]
            middle = drive.truth.box_corners(index, time_ns).mean(axis=0)
            assert box.distance == pytest.approx(np.linalg.norm(middle - eye), abs=1e-4)
            assert box.label == world.boxes[index].label
            step = drive.truth.box(index, time_ns + 1_000_000) - drive.truth.box(index, time_ns - 1_000_000)
            assert box.speed == pytest.approx(np.linalg.norm(step[:3, 3]) / 0.002, abs=1e-3)
            assert box.track_lifetime == seen.get(box.track_id, 0) + 1
            seen[box.track_id] = box.track_lifetime
    assert len(seen) >= 4
    assert {"car", "truck", "person"} <= {world.boxes[by_track[track]].label for track in seen}


def test_nothing_hidden_is_reported(drive: Played) -> None:
    pictures = drive.pictures("/camera/h264")[::2]
    by_track = {box.track_id: i for i, box in enumerate(drive.truth.world.boxes)}
    hidden = 0
    for entry, picture in zip(drive.topics["/model/output"], pictures, strict=True):
        shown = drive.truth.box_of_color(picture.reshape(-1, 3))
        reported = {by_track[box.track_id] for box in entry.message.boxes}
        for index in range(len(by_track)):
            pixels = int((shown == index).sum())
            if index in reported:
                assert pixels > 10
            hidden += pixels == 0 and drive.truth.box_in_image(index, entry.stamp_ns) is not None
    assert hidden > 0


def test_boxes_3d_are_the_boxes_in_base_link(drive: Played) -> None:
    by_track = {box.track_id: i for i, box in enumerate(drive.truth.world.boxes)}
    for entry, flat in zip(drive.topics["/fusion/boxes3d"], drive.topics["/model/output"], strict=True):
        assert [b.track_id for b in entry.message.boxes] == [b.track_id for b in flat.message.boxes]
        to_rig = np.linalg.inv(drive.truth.rig(entry.stamp_ns))
        for box in entry.message.boxes:
            corners = drive.truth.box_corners(by_track[box.track_id], entry.stamp_ns)
            local = corners @ to_rig[:3, :3].T + to_rig[:3, 3]
            x, y, z = local.mean(axis=0)
            assert [box.distance, -box.center_x, -box.center_y] == pytest.approx([x, y, z], abs=1e-4)
            assert [box.width, box.height] == pytest.approx(np.ptp(local, axis=0)[1:], abs=1e-4)
