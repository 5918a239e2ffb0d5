"""Messages that are recorded twice, and others with the stamp of the one before."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from drives import simulate
from edgefirst.schemas import foxglove_msgs
from edgefirst.schemas.builtin_interfaces import Time
from faulty import FaultyOptions
from places import contents
from test_ledger import FORMATS, TINY, converted, pictures_in, stamp_ns
from written import burnt_in_number

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.mcap import McapRecording

CAMERA = "/camera/h264"
SENSORS = ("camera/h264", "radar/targets", "radar/cube", "lidar/points", "model/output", "imu", "gps")
DRIVE: dict[str, Any] = {
    **TINY,
    "width": 400,
    "lidar_points": 640,
    "seconds": 2.0,
    "fps": 10,
    "model_hz": 10.0,
    "cube_hz": 20.0,
    "radar_hz": 20.0,
    "lidar_hz": 20.0,
    "cube_shape": (1, 50, 2, 16),
    "gps_no_fix": 0,
}


def drive(folder: Path, **options: Any) -> list[RawMessage]:  # noqa: ANN401
    made = simulate(folder, FaultyOptions(**{**DRIVE, **options}))
    return list(McapRecording(made.mcap).messages())


def in_order(content: Iterable[RawMessage]) -> list[RawMessage]:
    return [m._replace(arrival=n) for n, m in enumerate(sorted(content, key=lambda m: m.receive_ns))]


def numbers(files: dict[str, bytes]) -> list[int]:
    """The numbers burnt into the camera's pictures, frame by frame."""
    with zipfile.ZipFile(io.BytesIO(files["edgefirst/d/d.zip"])) as opened:
        names = sorted(n for n in opened.namelist() if n.endswith(".camera.jpeg"))
        return [burnt_in_number(opened.read(name)) for name in names]


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("late_ms", [0, 300], ids=["same log time", "within the look-ahead"])
def test_a_recording_with_every_measurement_twice_gives_the_same_datasets(
    tmp_path: Path, late_ms: int
) -> None:
    content = drive(tmp_path / "drive")
    sensors = [m for m in content if m.topic.strip("/") in SENSORS]
    again = [m._replace(receive_ns=m.receive_ns + late_ms * 1_000_000) for m in sensors]
    once, files = converted(tmp_path / "once", in_order(content))
    twice, same = converted(tmp_path / "twice", in_order([*content, *again]))
    assert {k: v for k, v in same.items() if v != files.get(k)} == {}
    assert same.keys() == files.keys()
    for topic in (f"/{name}" for name in SENSORS):
        before, after = once["topics"][topic], twice["topics"][topic]
        assert after["written"] == before["written"], topic
        assert after["reasons"]["skipped"][Reason.SAME_MESSAGE] == before["received"], topic
        assert after["pairing_error_ms"] == before["pairing_error_ms"], topic
    assert twice["samples"] == once["samples"] == 20


def test_frames_with_the_stamp_of_the_one_before_cost_themselves_alone(tmp_path: Path) -> None:
    """The decoder needs them all the same: pictures after one are built on it."""
    made = simulate(tmp_path / "drive", FaultyOptions(**{**DRIVE, "seconds": 3.0, "same_stamp": 0.2}))
    truth = json.loads(made.truth.read_text())["video"][CAMERA]["same_stamp"]
    content = list(McapRecording(made.mcap).messages())
    report, files = converted(tmp_path / "c", content)
    account = report["topics"][CAMERA]
    assert len(truth) > 2
    assert account["reasons"]["skipped"] == {Reason.SAME_STAMP: len(truth)}
    assert account["written"] == report["samples"] == pictures_in(files) == 30 - len(truth)
    assert sorted(numbers(files)) == [n for n in range(30) if n not in truth]


def restamped(message: RawMessage, stamp_ns: int) -> RawMessage:
    """The message with another stamp at the head of its data."""
    stamp = (stamp_ns // 10**9).to_bytes(4, "little") + (stamp_ns % 10**9).to_bytes(4, "little")
    return message._replace(data=message.data[:4] + stamp + message.data[12:])


def test_a_duplicate_of_a_tile_spoils_no_picture(tmp_path: Path) -> None:
    content = drive(tmp_path / "drive", tiles=True, width=640, height=192)
    tile = "/camera/h264/bl"
    again = [m._replace(receive_ns=m.receive_ns + 5_000_000) for m in content if m.topic == tile]
    report, files = converted(tmp_path / "c", in_order([*content, *again]))
    assert report["topics"][tile]["reasons"]["skipped"] == {Reason.SAME_MESSAGE: 20}
    assert report["samples"] == pictures_in(files) == 20


def segments(message: RawMessage, count: int) -> list[RawMessage]:
    """A cloud of one row in so many messages, 5 ms apart, of one stamp."""
    data, u32 = message.data, (lambda at: int.from_bytes(message.data[at : at + 4], "little"))
    at = 16 + u32(12)
    at += -at % 4
    width = u32(at + 4)
    start = next(n for n in range(at, len(data)) if u32(n - 4) == u32(n - 12) * width == len(data) - n - 1)
    step, made = u32(start - 12), []
    for number in range(count):
        first, last = (width * each // count for each in (number, number + 1))
        points = data[start + first * step : start + last * step]
        head = data[: at + 4] + (last - first).to_bytes(4, "little") + data[at + 8 : start - 8]
        size = len(points).to_bytes(4, "little")
        whole = head + size + size + points + data[-1:]
        made.append(message._replace(data=whole, receive_ns=message.receive_ns + number * 5_000_000))
    return made


def test_segments_of_a_scan_are_one_sweep(tmp_path: Path) -> None:
    """MultiScan sends up to 8 of one stamp, Continental's radars and Livox several."""
    content = drive(tmp_path / "drive")
    whole, files = converted(tmp_path / "whole", content)
    clouds = {m.arrival: segments(m, 4) for m in content if m.topic == "/lidar/points"}
    split = in_order(each for m in content for each in clouds.get(m.arrival, [m]))
    report, same = converted(tmp_path / "split", split)
    assert {name for name, data in same.items() if data != files.get(name)} == set()
    before, after = (each["topics"]["/lidar/points"] for each in (whole, report))
    assert after["written"] == 4 * before["written"]
    assert after["reasons"].get("skipped") is None


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("topic", ["/radar/targets", "/lidar/points", "/model/output", "/camera/jpeg"])
def test_other_content_with_the_stamp_of_the_one_before_is_refused(tmp_path: Path, topic: str) -> None:
    content = drive(tmp_path / "drive", jpeg=topic == "/camera/jpeg")
    of_topic = [m for m in content if m.topic == topic]
    second, third = of_topic[1], of_topic[2]
    content[content.index(third)] = restamped(third, stamp_ns(second))
    report, files = converted(tmp_path / "c", content)
    account = report["topics"][topic]
    assert account["reasons"]["skipped"] == {Reason.SAME_STAMP: 1}
    assert account["written"] <= len(of_topic) - 1
    assert report["samples"] == pictures_in(files) >= 18


def test_live_refuses_duplicates_as_well(tmp_path: Path) -> None:
    content = drive(tmp_path / "drive")
    expected, files = converted(tmp_path / "offline", content, ego={"smoothing": "lag"})
    config = build_config({"formats": list(FORMATS), "prefix": "", "ego": {"smoothing": "lag"}})
    capture = LiveCapture(config, tmp_path / "live", "maivin-1")
    capture.start("d", sequence="maivin-1_2026_05_01_09_00_00")
    for message in content:
        capture.put(message)
        capture.put(message._replace(receive_ns=message.receive_ns + 1_000))
    (done,) = capture.stop(60.0)
    for name in SENSORS:
        account = done.report["topics"][f"/{name}"]
        assert (
            account["reasons"]["skipped"][Reason.SAME_MESSAGE] == expected["topics"][f"/{name}"]["received"]
        ), name
    assert done.report["samples"] == expected["samples"] == 20
    assert done.report["formats"] == expected["formats"]
    live = tmp_path / "live"
    assert contents(live, "capture_report.json") == files


def packets(content: Iterable[RawMessage]) -> list[tuple[RawMessage, bytes]]:
    return [(m, decode(m).datum.data) for m in content if m.topic == CAMERA]  # type: ignore[union-attr]


def packet(like: RawMessage, data: bytes, codec: str = "h264") -> RawMessage:
    made = foxglove_msgs.CompressedVideo(Time.from_nanos(stamp_ns(like)), "camera_optical", data, codec)
    return like._replace(data=made.to_bytes())


def apart(data: bytes) -> list[bytes]:
    """The NAL units of an access unit, each with its start code."""
    return [b"\0\0\0\1" + unit.rstrip(b"\0") for unit in data.split(b"\0\0\1")[1:]]


@pytest.mark.long
def test_parameter_sets_in_a_packet_of_the_pictures_own_stamp_are_no_frame(tmp_path: Path) -> None:
    content = drive(tmp_path / "drive")
    _, files = converted(tmp_path / "whole", content)
    taken_apart = [m for m in content if m.topic != CAMERA]
    sets = 0
    for message, data in packets(content):
        units = apart(data)
        first = next(n for n, unit in enumerate(units) if unit[4] & 31 in (1, 5))
        if first:
            sets += 1
            taken_apart.append(packet(message, b"".join(units[:first])))
        taken_apart.append(packet(message, b"".join(units[first:])))
    report, same = converted(tmp_path / "apart", in_order(taken_apart))
    account = report["topics"][CAMERA]
    assert sets > 0
    assert (account["received"], account["decoded"], account["refused"]) == (20 + sets, sets, 0)
    assert report["samples"] == report["sequences"][0]["reference_frames"] == 20
    assert numbers(same) == numbers(files) == list(range(20))


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("bframes", [0, 2])
def test_a_picture_in_two_messages_is_one_picture(tmp_path: Path, codec: str, bframes: int) -> None:
    """Slices of one access unit, sent one by one with its stamp."""
    slices = sliced_video(codec, bframes)
    like = drive(tmp_path / "drive", codec=codec)
    camera = f"/camera/{codec}"
    pictures = [m for m in like if m.topic == camera]
    rest = [m for m in like if m.topic in {"/camera/info", "/tf_static", "/imu", "/gps"}]
    whole, parts = list(rest), list(rest)
    for arrival, (shown, units) in enumerate(slices):
        stamped = pictures[arrival]._replace(data=pictures[shown].data)
        whole.append(packet(stamped, b"".join(units), codec))
        parts += [
            p._replace(receive_ns=p.receive_ns + n * 1_000_000)
            for n, p in enumerate(packet(stamped, unit, codec) for unit in units)
        ]
    _, files = converted(tmp_path / "whole", in_order(whole), ["edgefirst", "ncore"])
    report, same = converted(tmp_path / "parts", in_order(parts), ["edgefirst", "ncore"])
    account = report["topics"][camera]
    assert pictures_in(files) == len(slices)
    assert same == files
    assert account["received"] == account["written"] == sum(len(units) for _, units in slices)


def sliced_video(codec: str, bframes: int) -> list[tuple[int, list[bytes]]]:
    """Access units in order of decoding: which picture each shows, and its slices with what leads them."""
    name = {"h264": "libx264", "h265": "libx265"}[codec]
    encoder = av.CodecContext.create(name, "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt = 400, 192, "yuv420p"
    encoder.framerate, encoder.time_base, encoder.gop_size = Fraction(10), Fraction(1, 10), 5
    common = f"keyint=5:min-keyint=5:scenecut=0:bframes={bframes}:repeat-headers=1:slices=2"
    own = {
        "h264": {"x264-params": common + ":sliced-threads=0"},
        "h265": {"x265-params": common + ":log-level=none"},
    }
    encoder.options = {"preset": "ultrafast", **own[codec]}
    made = []
    for number in range(15):
        picture = av.VideoFrame.from_ndarray(
            np.random.default_rng(number).integers(0, 255, (288, 400), np.uint8), format="yuv420p"
        )
        picture.pts = number
        made += encoder.encode(picture)
    made += encoder.encode(None)
    result = []
    for coded in made:
        units, groups, led = apart(bytes(coded)), [], b""
        for unit in units:
            is_slice = unit[4] & 31 in (1, 5) if codec == "h264" else unit[4] >> 1 < 32
            led += unit
            if is_slice:
                groups, led = [*groups, led], b""
        assert len(groups) == 2, "the encoder made no two slices"
        result.append((int(coded.pts or 0), groups))
    return result
