"""What the messages of a topic hold: spells in which something is wrong, and measures over time."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
from PIL import Image

from edgefirst_ros.model.camera import Codec, CompressedImage
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.pipeline.content import MOST_SPELLS, SpellCounter, StreamContent
from edgefirst_ros.report.content import Condition
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.simulation.video import access_units
from edgefirst_ros.video.pictures import look_at, look_at_jpeg

S = 1_000_000_000
RNG = np.random.default_rng(1)


def spans(content: StreamContent, condition: Condition) -> list[tuple[float, float]]:
    """Begin and end in seconds."""
    found = content.summary()["spells"].get(condition)
    return [] if found is None else [(a / S, b / S) for a, b in found["longest_ns"]]


def cloud(points: np.ndarray, *, height: int = 1) -> PointCloud:
    made = np.zeros(len(points), [(axis, "f4") for axis in "xyz"])
    for number, axis in enumerate("xyz"):
        made[axis] = points[:, number]
    return PointCloud(made, height, len(points) // height)


def around(count: int = 2000, zeros: float = 0.0, sectors: float = 1.0) -> np.ndarray:
    angles = RNG.random(count) * 2 * np.pi * sectors
    points = np.stack([10 * np.cos(angles), 10 * np.sin(angles), RNG.random(count)], axis=1)
    points[RNG.random(count) < zeros] = 0
    return points


class TestFrozen:
    def test_a_still_whose_bytes_repeat_has_a_begin_and_an_end(self) -> None:
        content = StreamContent()
        for n in range(100):
            shown = n if not 30 <= n < 70 else 30
            content.message(n * S // 10, CompressedImage("jpeg", b"picture %05d" % shown))
        assert spans(content, Condition.FROZEN) == [(3.0, 7.0)]

    def test_a_cloud(self) -> None:
        content, kept = StreamContent(), around()
        for n in range(60):
            content.message(n * S // 10, cloud(kept if 20 <= n < 40 else around()))
        assert spans(content, Condition.FROZEN) == [(2.0, 4.0)]

    def test_an_imu(self) -> None:
        content = StreamContent()
        for n in range(600):
            noise = RNG.normal(size=6) if not 200 <= n < 400 else np.ones(6)
            content.message(n * S // 100, Imu(None, tuple(noise[:3]), tuple(noise[3:])))
        ((begin, end),) = spans(content, Condition.FROZEN)
        assert (begin, end) == (pytest.approx(2.0), pytest.approx(4.0))


class TestPictures:
    def seen(self, *pictures: np.ndarray) -> StreamContent:
        content = StreamContent()
        for n, picture in enumerate(pictures):
            content.look(content.expect(n * S // 5), look_at(picture.astype(np.uint8)), moving=True)
        return content

    def test_black_and_blank_are_told_apart_and_night_is_neither(self) -> None:
        scene = RNG.integers(40, 200, (90, 160))
        night = RNG.integers(0, 12, (90, 160))
        night[40:44, 70:78] = 200  # a lamp
        for picture, conditions in (
            (RNG.integers(0, 6, (90, 160)), {"black"}),
            (np.full((90, 160), 128), {"blank"}),
            (night, set[str]()),
        ):
            found = self.seen(*[scene] * 3, *[picture] * 10).summary()["spells"]
            assert set(found) - {"still"} == conditions

    def test_measures_are_those_of_the_picture(self) -> None:
        picture = RNG.integers(0, 256, (96, 128), dtype=np.uint8)
        look = look_at(picture)
        assert look.luminance == pytest.approx(float(picture.mean()), abs=0.01)
        assert look.contrast == pytest.approx(float(picture.std()), abs=0.01)
        smooth = look_at(np.asarray(Image.fromarray(picture).resize((64, 48)).resize((128, 96))))
        assert smooth.sharpness < look.sharpness / 2

    def test_a_jpeg_is_measured_by_its_blocks(self) -> None:
        picture = Image.fromarray(RNG.integers(0, 256, (360, 640), dtype=np.uint8)).resize((640, 360))
        written = io.BytesIO()
        picture.save(written, "JPEG")
        look = look_at_jpeg(written.getvalue())
        assert look is not None
        assert look.luminance == pytest.approx(float(np.asarray(picture).mean()), abs=1)
        assert look_at_jpeg(b"no picture") is None

    def test_stills_are_looked_at_once_a_second_and_when_their_size_changes(self) -> None:
        content = StreamContent()
        due = [n for n in range(40) if content.is_due(n * S // 10, 90_000 if n < 25 else 9_000)]
        assert due == [0, 10, 20, 25, 35]


class TestClouds:
    @pytest.mark.parametrize("height", [1, 8])
    def test_zeros_that_begin_are_found(self, height: int) -> None:
        content = StreamContent()
        for n in range(100):
            content.message(n * S // 10, cloud(around(zeros=0.5 if n >= 60 else 0.1), height=height))
        assert spans(content, Condition.ZERO_POINTS) == [(6.0, 9.9)]

    def test_of_a_list_half_of_zeros_is_too_much_from_the_start(self) -> None:
        content = StreamContent()
        for n in range(30):
            content.message(n * S // 10, cloud(around(zeros=0.5)))
        assert spans(content, Condition.ZERO_POINTS) == [(0.0, 2.9)]

    def test_directions_that_are_covered(self) -> None:
        content = StreamContent()
        for n in range(100):
            content.message(n * S // 10, cloud(around(sectors=0.4 if n >= 60 else 1.0)))
        assert spans(content, Condition.EMPTY_SECTORS) == [(6.0, 9.9)]


def test_what_is_kept_of_a_long_drive_is_bounded() -> None:
    spells = SpellCounter()
    for n in range(40_000):
        spells.add(n * S // 2, holds=n % 10 < 6)
    found = spells.summary()
    assert found is not None
    assert (found["count"], len(found["longest_ns"])) == (4000, MOST_SPELLS)
    assert found["total_s"] == pytest.approx(4000 * 3.0)


@pytest.mark.parametrize(("codec", "mbit_s"), [("h264", 0.0), ("h264", 0.5), ("h265", 0.0)])
def test_video_that_is_frozen_goes_on_to_show_the_same_though_its_packets_differ(
    codec: Codec, mbit_s: float
) -> None:
    """Encoded and decoded by libavcodec, with a key frame a second."""
    small = Image.fromarray(RNG.integers(0, 256, (12, 50, 3), dtype=np.uint8))
    texture = np.asarray(small.resize((400, 96)))
    shown = [n if not 30 <= n < 70 else 30 for n in range(100)]
    pictures = (np.ascontiguousarray(texture[:, 2 * n : 2 * n + 160]) for n in shown)
    options = DriveOptions(codec=codec, width=160, height=96, fps=10, mbit_s=mbit_s)
    units = access_units(pictures, options)
    decoder, content = av.CodecContext.create({"h264": "h264", "h265": "hevc"}[codec], "r"), StreamContent()
    packets = [av.Packet(unit.data) for unit in units]
    frames = [frame for packet in (*packets, None) for frame in decoder.decode(packet)]
    assert len(frames) == 100
    for n, frame in enumerate(frames):
        luma = frame.to_ndarray(format="gray")
        content.look(content.expect(n * S // 10), look_at(luma), moving=True)
    ((begin, end),) = spans(content, Condition.STILL)
    assert (begin, end) == (pytest.approx(3.0, abs=0.5), pytest.approx(7.0, abs=0.05))
