"""Whatever a camera or depth sensor sends becomes the same pictures, through a whole conversion."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from PIL import Image
from recorded import messages, record
from wire_encoder import encode
from written import Written

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ledger import COLUMNS
from edgefirst_ros.report.drawing import contact_sheet
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import parsed

Rgb = npt.NDArray[np.uint8]
CAMERA = "/camera/jpeg"
SOME = ("radar_targets", "lidar_points", "model", "radar_cube", "lidar_depth", "depth")
WIDTH, HEIGHT = 320, 180


def header(message: RawMessage) -> dict[str, Any]:
    stamped = decode(message)
    seconds, rest = divmod(stamped.stamp_ns, 10**9)
    return {"stamp": {"sec": seconds, "nanosec": rest}, "frame_id": stamped.frame_id}


def image(message: RawMessage, encoding: str, pixels: npt.NDArray[Any], **more: Any) -> RawMessage:  # noqa: ANN401
    step = pixels[0].nbytes
    values = {"header": header(message), "height": HEIGHT, "width": WIDTH, "encoding": encoding, "step": step}
    return as_type(message, "sensor_msgs/Image", {**values, "data": pixels.tobytes(), **more})


def as_type(message: RawMessage, schema: str, values: dict[str, Any]) -> RawMessage:
    name = schema.replace("/", "/msg/")
    return message._replace(schema=name, data=encode(schema, values), definition=definition(schema))


def mosaic(rgb: Rgb, order: str) -> Rgb:
    grey = np.empty(rgb.shape[:2], np.uint8)
    for place, colour in enumerate(order):
        rows, columns = slice(place // 2, None, 2), slice(place % 2, None, 2)
        grey[rows, columns] = rgb[rows, columns, "rgb".index(colour)]
    return grey


def nv21(rgb: Rgb) -> Rgb:
    ycc = np.asarray(Image.fromarray(rgb).convert("YCbCr"), float)  # full range
    luma = 16 + ycc[..., 0] * 219 / 255
    colour = 128 + (ycc[..., 1:] - 128) * 224 / 255
    small = colour.reshape(HEIGHT // 2, 2, WIDTH // 2, 2, 2).mean((1, 3))[..., ::-1]
    return np.vstack([luma, small.reshape(HEIGHT // 2, WIDTH)]).round().astype(np.uint8)


def yv12(rgb: Rgb) -> Rgb:
    crossed = nv21(rgb)
    pairs = crossed[HEIGHT:].reshape(-1, 2)
    return np.vstack([crossed[:HEIGHT], np.concatenate([pairs[:, 0], pairs[:, 1]]).reshape(-1, WIDTH)])


def run(path: Path, values: dict[str, Any]) -> Written:
    topics = {name: {"required": "never"} for name in SOME} | values.pop("topics", {})
    config = build_config({"formats": ["edgefirst", "ncore"], "topics": topics, **values})
    out = path.parent / "out"
    convert([path], out, config, dataset="d")
    written = Written(out / "edgefirst" / "d")
    for topic, account in written.report["topics"].items():
        assert account["received"] == sum(account[c] for c in COLUMNS), topic
    assert all(found.ok for found in check(out))
    return written


KINDS: dict[str, tuple[Callable[[RawMessage, Rgb], RawMessage], float]] = {
    "rgb8": (lambda m, rgb: image(m, "rgb8", rgb), 36),
    "bayer_rggb8": (lambda m, rgb: image(m, "bayer_rggb8", mosaic(rgb, "rggb")), 24),
    "bayer_gbrg12": (
        lambda m, rgb: image(m, "bayer_gbrg12", (mosaic(rgb, "gbrg") * (4095 / 255)).astype("<u2")),
        24,
    ),
    "bayer_bggr16 of 12 bits": (
        lambda m, rgb: image(m, "bayer_bggr16", (mosaic(rgb, "bggr") * (4095 / 255)).astype("<u2")),
        24,
    ),
    "rgb16, big-endian": (
        lambda m, rgb: image(m, "rgb16", (rgb.astype(">u2") * 257).astype(">u2"), is_bigendian=1),
        36,
    ),
    "nv21": (lambda m, rgb: image(m, "nv21", nv21(rgb)), 28),
    "yv12": (lambda m, rgb: image(m, "yv12", yv12(rgb)), 28),
}


@pytest.mark.long(cases=3)
@pytest.mark.parametrize("kind", KINDS)
def test_cameras_that_send_pixels(tmp_path: Path, kind: str) -> None:
    make, least_db = KINDS[kind]
    scenes: list[Rgb] = []
    content = []
    for message in messages(seconds=1.0, jpeg=True):
        if message.topic == CAMERA:
            rgb = simplejpeg.decode_jpeg(decode(message).datum.data)  # type: ignore[union-attr]
            scenes.append(rgb)
            content.append(make(message, rgb))
        else:
            content.append(message)
    written = run(record(tmp_path / "k_2026_05_01_09_00_00.mcap", content), {})
    pictures = written.of_kind("camera.jpeg")
    assert len(pictures) == len(scenes) == 10
    for frame, scene in enumerate(scenes):
        made = np.asarray(Image.open(io.BytesIO(pictures[frame])).convert("RGB"), float)
        assert 10 * np.log10(255**2 / ((made - scene) ** 2).mean()) > least_db


def gray16(message: RawMessage, level: int) -> RawMessage:
    return image(message, "mono16", np.full((HEIGHT, WIDTH), level, "<u2"))


@pytest.mark.parametrize(
    ("levels", "given", "white", "notes"),
    [
        ([4000, 100], 0, 4095, 1),
        ([900, 500], 0, 1023, 1),
        ([16000, 20], 0, 16383, 1),
        ([40000, 300], 0, 65535, 1),
        ([4000, 100], 16, 65535, 0),
        # Ten bits are found in the dark, and what comes behind the look-ahead does not fit.
        ([*[600] * 12, *[4000] * 8], 0, 1023, 2),
    ],
)
def test_bits_in_use_are_found_from_the_first_pictures(
    tmp_path: Path, levels: list[int], given: int, white: int, notes: int
) -> None:
    cameras = [m for m in messages(seconds=2.0, jpeg=True) if m.topic == CAMERA]
    sent = [levels[min(number, len(levels) - 1)] for number in range(len(cameras))]
    content = [gray16(message, level) for message, level in zip(cameras, sent, strict=True)]
    values = {"topics": {"camera_jpeg": {"significant_bits": given}}, "lookahead_s": 0.5}
    written = run(record(tmp_path / "k_2026_05_01_09_00_00.mcap", content), values)
    pictures = written.of_kind("camera.jpeg")
    assert len(pictures) == len(sent) == 20
    for number, level in enumerate(sent):
        made = np.asarray(Image.open(io.BytesIO(pictures[number])).convert("L"))
        assert abs(int(made.mean()) - min(255, round(level * 255 / white))) <= 1
    said = [note for note in written.report["notes"] if "significant_bits" in note]
    assert len(said) == notes
    if notes:
        assert f"so {white} is white" in said[0]
        assert "topics.camera_jpeg.sixteen_bits keeps gray ones" in said[0]


def warm(number: int) -> npt.NDArray[np.uint16]:
    """Counts of a thermal camera: a scene within 40 of 65,536 values, which 8 bits make one shade."""
    return np.random.default_rng(number).integers(30_000, 30_040, (HEIGHT, WIDTH)).astype(np.uint16)


def png16(message: RawMessage, values: npt.NDArray[np.uint16]) -> RawMessage:
    with io.BytesIO() as file:
        Image.fromarray(values).save(file, "PNG")
        fields = {"header": header(message), "format": "mono16; png compressed", "data": file.getvalue()}
    return as_type(message, "sensor_msgs/CompressedImage", fields)


@pytest.mark.parametrize(
    "send",
    [
        lambda m, values: image(m, "mono16", values.astype("<u2")),
        lambda m, values: image(m, "16UC1", values.astype(">u2"), is_bigendian=1),
        png16,
    ],
    ids=["mono16", "16UC1, big-endian", "png"],
)
def test_sixteen_bits_are_kept_where_that_is_asked_for(
    tmp_path: Path, send: Callable[[RawMessage, npt.NDArray[np.uint16]], RawMessage]
) -> None:
    content = [m for m in messages(seconds=1.0, jpeg=True) if m.topic == CAMERA]
    sent = [send(message, warm(number)) for number, message in enumerate(content)]
    written = run(
        record(tmp_path / "k_2026_05_01_09_00_00.mcap", sent),
        {"topics": {"camera_jpeg": {"sixteen_bits": "as_sent"}}},
    )
    pictures = written.of_kind("camera.png")
    assert len(pictures) == len(sent) == 10
    samples = edgefirst_ros.open(tmp_path / "out" / "edgefirst" / "d")
    (dataset,) = FORMATS["ncore"].find(tmp_path / "out")
    scenes = FORMATS["ncore"].scenes(dataset)
    assert scenes is not None
    for number, (sample, moment) in enumerate(zip(samples, scenes.moments(), strict=True)):
        for picture in (pictures[number], scenes.scene(moment).picture or b""):
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(picture))), warm(number))
        assert sample["image"].dtype == np.uint16
        assert np.array_equal(sample["image"], warm(number))
    assert not [note for note in written.report["notes"] if "8 bits" in note]
    contact_sheet(tmp_path / "out" / "edgefirst" / "d", 2)


@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_packets_of_the_ffmpeg_transport(tmp_path: Path, codec: str) -> None:
    plain = messages(seconds=1.0, codec=codec)
    name = {"h264": "libx264;yuv420p;bgr8;bgr8", "h265": "hevc_nvenc;nv12"}[codec]
    topic = f"/camera/{codec}"
    packets = [
        as_type(
            m,
            "ffmpeg_image_transport_msgs/FFMPEGPacket",
            {"header": header(m), "encoding": name, "data": decode(m).datum.data},  # type: ignore[union-attr]
        )
        if m.topic == topic
        else m
        for m in plain
    ]
    written = []
    for sub, content in (("o1", plain), ("o2", packets)):
        (tmp_path / sub).mkdir()
        written.append(run(record(tmp_path / sub / "k_2026_05_01_09_00_00.mcap", content), {}))
    assert written[0].files() == written[1].files()
    assert len(written[1].of_kind("camera.jpeg")) == 10


@pytest.mark.parametrize("form", ["16UC1; compressedDepth png", "16UC1; png compressed"])
def test_compressed_depth(tmp_path: Path, form: str) -> None:
    content: list[RawMessage] = []
    sent = []
    for message in messages(seconds=1.0, jpeg=True):
        content.append(message)
        if message.topic == CAMERA:
            millimetres = np.random.default_rng(len(sent)).integers(300, 9000, (24, 32)).astype(np.uint16)
            sent.append(millimetres)
            with io.BytesIO() as file:
                Image.fromarray(millimetres).save(file, "PNG")
                body = file.getvalue()
            body = struct.pack("<iff", 0, 0, 0) * ("Depth" in form) + body
            values = {"header": header(message), "format": form, "data": body}
            content.append(
                as_type(message, "sensor_msgs/CompressedImage", values)._replace(topic="/camera/depth")
            )
    written = run(record(tmp_path / "k_2026_05_01_09_00_00.mcap", content), {})
    depth = written.of_kind("depth.png")
    assert len(depth) == len(sent) == 10
    for frame, millimetres in enumerate(sent):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(depth[frame]))), millimetres)


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("checksums", [True, False])
def test_pictures_that_no_checksum_covers_are_counted_in_one_sentence(
    codec: Literal["h264", "h265"], checksums: bool, tmp_path: Path
) -> None:
    content = messages(seconds=1.0, codec=codec)
    path = record(tmp_path / "k_2026_05_01_09_00_00.mcap", content, checksums=checksums)
    pictures = sum(m.topic == f"/camera/{codec}" for m in content)
    said = [each.text for each in judge(parsed(run(path, {}).report)).findings if "checksum" in each.text]
    assert [f"covers {pictures} pictures" in text for text in said] == [True] * (not checksums)
