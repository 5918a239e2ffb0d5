"""What options do to a recording: times, names, encodings, losses, files."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from faulty import Latency, read_number, simulate
from mcap.reader import make_reader
from PIL import Image
from played import Played, play, small

from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.errors import ConfigError, OutputExists
from edgefirst_ros.simulation import DriveOptions

Make = Callable[..., Played]
MONOTONIC = {"/imu", "/lidar/points", "/radar/cube", "/radar/targets", "/radar/info"}
FROZEN = {"/camera/info", "/radar/info", "/tf_static"}


def test_the_file_agrees_with_its_truth_message_by_message(drive: Played) -> None:
    data = drive.truth.data
    assert data["file"] == drive.recording.mcap.name == "maivin-sim_2026_05_01_09_00_00.mcap"
    assert data["bytes"] == drive.recording.mcap.stat().st_size
    assert data["counts"] == {topic: len(entries) for topic, entries in drive.topics.items()}
    logs = []
    for topic, entries in drive.topics.items():
        for index, (entry, (_, stamp_ns, log_ns)) in enumerate(
            zip(entries, data["messages"][topic], strict=True)
        ):
            record = entry.record
            assert (record.sequence, record.log_time, record.publish_time) == (index, log_ns, log_ns)
            assert entry.stamp_ns == stamp_ns
            logs.append(log_ns)
    assert len(drive.order) == len(logs)
    taken = {topic: iter(entries) for topic, entries in drive.topics.items()}
    in_file = [next(taken[topic]).record.log_time for topic in drive.order]
    assert in_file == sorted(logs)


def test_container_is_what_the_device_writes(drive: Played) -> None:
    with drive.recording.mcap.open("rb") as stream:
        reader = make_reader(stream)
        summary = reader.get_summary()
        assert reader.get_header().profile == ""
        assert summary is not None
        assert {chunk.compression for chunk in summary.chunk_indexes} == {"lz4"}
        assert {(c.message_encoding, len(c.metadata)) for c in summary.channels.values()} == {("cdr", 0)}
        for schema in summary.schemas.values():
            assert schema.encoding == "ros2msg"
            assert schema.data.decode() == definition(schema.name)


@pytest.mark.parametrize("clock", ["mixed", "realtime"])
def test_stamps_are_of_the_clock_of_the_service(make: Make, clock: str) -> None:
    played = make(clock=clock)
    offset_ns = played.truth.data["realtime_minus_monotonic_ns"]
    start_ns = played.truth.data["start_ns"]
    assert start_ns - offset_ns == 137_251_000_000
    for topic, messages in played.truth.data["messages"].items():
        true, stamp, _ = np.array(messages, np.int64).T
        behind = offset_ns if clock == "mixed" and topic in MONOTONIC else 0
        expected = np.full_like(true, start_ns - 41_000_000_000) if topic in FROZEN else true
        assert (stamp == expected - behind).all()


def test_receipt_is_never_before_the_least_latency_and_reaches_it(make: Make) -> None:
    latency = Latency(camera=30, lidar=50, radar=20, gps=90, imu=4, tf_static=1, model=60)
    played = make(latency=latency, seconds=2.0)
    least = {
        "/camera/h264": 30, "/camera/info": 30, "/lidar/points": 50, "/radar/targets": 20, "/radar/cube": 20,
        "/radar/info": 20, "/gps": 90, "/imu": 4, "/tf_static": 1, "/model/output": 60,
    }  # fmt: skip
    assert set(least) == set(played.topics)
    for topic, milliseconds in least.items():
        assert played.truth.least_latency_ns(topic) >= milliseconds * 1_000_000
        _, _, log = np.array(played.truth.data["messages"][topic]).T
        assert (np.diff(log) >= 0).all()
    assert played.truth.least_latency_ns("/imu", "/radar/targets", "/lidar/points") == 4_000_000


def test_rates_and_thinned_topics(make: Make) -> None:
    played = make(
        seconds=2.0, radar_hz=18.0, cube_hz=6.0, imu_hz=50.0, lidar_hz=5.0, gps_hz=4.0, gps_no_fix=3
    )
    counts = {topic: len(entries) for topic, entries in played.topics.items()}
    assert counts["/radar/targets"] == 36
    assert counts["/radar/cube"] == 12
    assert counts["/imu"] == 100
    assert counts["/lidar/points"] == 10
    assert counts["/model/output"] == 10
    assert counts["/gps"] == 2 * 8
    assert len(played.truth.data["gps"]["accepted"]) == 5
    targets = [entry.stamp_ns for entry in played.topics["/radar/targets"]]
    assert [entry.stamp_ns for entry in played.topics["/radar/cube"]] == targets[::3]


def test_topics_turned_off_are_listed_without_messages(make: Make) -> None:
    played = make(lidar_hz=0.0, radar_hz=0.0, imu_hz=0.0, gps_hz=0.0, model_hz=0.0)
    assert set(played.topics) == {"/camera/h264", "/camera/info", "/tf_static", "/radar/info"}
    assert played.truth.data["counts"]["/lidar/points"] == 0


@pytest.mark.parametrize("prefix", ["rt", "maivin-sim"])
def test_prefix_goes_before_every_topic(make: Make, prefix: str) -> None:
    played = make(prefix=prefix)
    assert set(played.topics) == set(played.truth.data["messages"])
    assert all(topic.startswith(f"/{prefix}/") for topic in played.topics)
    assert set(played.truth.data["video"]) == {f"/{prefix}/camera/h264"}


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("bframes", [0, 2])
def test_pictures_and_stamps_of_every_codec_with_and_without_b_frames(
    make: Make, codec: str, bframes: int
) -> None:
    played = make(codec=codec, bframes=bframes, seconds=2.0)
    topic = f"/camera/{codec}"
    video = played.truth.data["video"][topic]
    assert [read_number(p) for p in played.pictures(topic)] == list(range(20))
    assert sorted(video["presentation"]) == list(range(20))
    assert (video["presentation"] == sorted(video["presentation"])) == (bframes == 0)
    assert video["keyframes"] == [0, 10]
    assert [video["presentation"][i] for i in video["keyframes"]] == [0, 10]
    start_ns = played.truth.data["start_ns"] + 20_000_000
    assert played.truth.true_ns(topic).tolist() == [entry.stamp_ns for entry in played.topics[topic]]
    for entry, picture in zip(played.topics[topic], video["presentation"], strict=True):
        assert entry.message.format == codec
        assert entry.stamp_ns == start_ns + picture * 100_000_000
        assert entry.record.log_time >= entry.stamp_ns + 25_000_000


def test_the_same_world_whatever_the_codec(make: Make) -> None:
    one, other = make(), make(codec="h265", prefix="rt", compression="zstd")
    assert one.truth.world == other.truth.world
    hashes = [{k.removeprefix("/rt"): v for k, v in p.truth.data["sha256"].items()} for p in (one, other)]
    assert hashes[0] == hashes[1]


def test_lost_access_units_leave_what_the_truth_says_is_clean(make: Make) -> None:
    played = make(seconds=4.0, drop_video=0.15)
    video = played.truth.data["video"]["/camera/h264"]
    assert 2 <= len(video["dropped"]) <= 12
    assert len(played.topics["/camera/h264"]) == 40 - len(video["dropped"])
    assert video["presentation"] == [n for n in range(40) if n not in video["dropped"]]
    clean = played.truth.clean_messages("/camera/h264")
    assert 0 < len(clean) < len(video["presentation"])
    numbers = [read_number(p) for p in played.pictures("/camera/h264", clean)]
    assert numbers == [video["presentation"][i] for i in clean]
    whole = [n for n in range(40) if not set(range(n // 10 * 10, n + 1)) & set(video["dropped"])]
    assert numbers == whole


def test_tiles_are_the_quarters_of_one_picture_with_equal_stamps(make: Make) -> None:
    whole = make(width=640, height=360)
    cut = make(width=640, height=360, tiles=True)
    topics = [f"/camera/h264/{tile}" for tile in ("tl", "tr", "bl", "br")]
    assert set(topics) <= set(cut.topics)
    assert "/camera/h264" not in cut.topics
    stamps = [[entry.stamp_ns for entry in cut.topics[topic]] for topic in topics]
    assert stamps == [stamps[0]] * 4
    pictures = [cut.pictures(topic) for topic in topics]
    for n, expected in enumerate(whole.pictures("/camera/h264")):
        tl, tr, bl, br = (p[n] for p in pictures)
        assert [read_number(tile) for tile in (tl, tr, bl, br)] == [n] * 4
        stitched = np.block([[[tl], [tr]], [[bl], [br]]]).astype(int)
        difference = np.abs(stitched - expected)
        difference[:16] = difference[180:196] = 0
        assert difference.mean() < 2
    assert cut.topics["/camera/info"][0].message.width == 640


def test_tiles_are_lost_one_by_one(make: Make) -> None:
    played = make(width=640, height=360, tiles=True, drop_video=0.3)
    lost = [tuple(video["dropped"]) for video in played.truth.data["video"].values()]
    assert len(set(lost)) > 1
    for topic, video in played.truth.data["video"].items():
        assert len(played.topics[topic]) == 10 - len(video["dropped"])


def test_jpegs_take_the_place_of_video(make: Make) -> None:
    played = make(jpeg=True, drop_video=0.2)
    video = played.truth.data["video"]["/camera/jpeg"]
    assert played.truth.clean_messages("/camera/jpeg") == list(range(len(video["presentation"])))
    for entry, picture in zip(played.topics["/camera/jpeg"], video["presentation"], strict=True):
        assert (entry.schema, entry.message.format) == ("sensor_msgs/msg/CompressedImage", "jpeg")
        assert read_number(np.array(Image.open(io.BytesIO(entry.message.data.tobytes())))) == picture


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_chunk_compression(make: Make, compression: str) -> None:
    played = make(compression=compression)
    with played.recording.mcap.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None
    assert {chunk.compression for chunk in summary.chunk_indexes} == {
        "" if compression == "none" else compression
    }


def test_without_footer_every_message_is_still_there(tmp_path: Path) -> None:
    whole = simulate(tmp_path / "whole", small())
    cut = simulate(tmp_path / "cut", small(footer=False))
    kept = cut.mcap.read_bytes()
    assert whole.mcap.read_bytes().startswith(kept)
    assert not kept.endswith(b"\x89MCAP0\r\n")
    played = play(cut)
    assert played.truth.data["bytes"] == len(kept)
    assert played.truth.data["counts"] == {topic: len(entries) for topic, entries in played.topics.items()}


def test_equal_options_give_equal_bytes_and_another_seed_another_drive(tmp_path: Path) -> None:
    options = small(bframes=1, drop_video=0.1, boxes3d=True)
    first, again = (simulate(tmp_path / name, options) for name in ("first", "again"))
    other = simulate(tmp_path / "other", replace(options, seed=1))
    assert first.mcap.read_bytes() == again.mcap.read_bytes()
    assert first.truth.read_bytes() == again.truth.read_bytes()
    assert first.mcap.read_bytes() != other.mcap.read_bytes()
    assert play(first).truth.world != play(other).truth.world


def test_an_earlier_drive_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    simulate(tmp_path, small())
    with pytest.raises(OutputExists, match=r"maivin-sim_2026_05_01_09_00_00\.mcap exists"):
        simulate(tmp_path, small(seed=3))
    simulate(tmp_path, small(seed=3), overwrite=True)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".mcap"]


def test_every_fault_of_the_options_is_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        DriveOptions(
            seconds=0, fps=0, width=100, codec="av1", bframes=9, host="../up", prefix="a/b",
            cube_shape=(1, 2, 3, 5), gps_hz=25.0, imu_hz=-1.0, mbit_s=-1.0, stops=((1.0, 2.0), (4.0, 5.0)),
        )  # fmt: skip
    faults = " ".join(caught.value.faults)
    for word in ("seconds", "fps", "144", "codec", "bframes", "host", "prefix", "cube_shape"):
        assert word in faults
    for word in ("gps_hz", "imu_hz", "mbit_s", "stops"):
        assert word in faults
