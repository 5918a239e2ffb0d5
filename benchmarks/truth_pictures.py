"""Video of many encoders, and video whose bytes were damaged on the way: what of it reaches a dataset."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
import numpy.typing as npt
from mcap.writer import Writer
from PIL import Image
from scenarios import Figure, at_least, converted, driven, exactly, scenario, seconds, told

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.simulation.wire import video
from edgefirst_ros.video.pictures import Picture, encode

RUINED_DB = 40.0
"""Of JPEGs of the same picture; what differs less can hardly be seen."""


def pictures(root: Path) -> dict[int, npt.NDArray[np.uint8]]:
    """The camera's pictures of the dataset below ``root``, by frame number."""
    (archive,) = root.rglob("*.zip")
    with zipfile.ZipFile(archive) as opened:
        return {
            int(name.removesuffix(".camera.jpeg").rpartition("_")[2]): np.asarray(
                Image.open(io.BytesIO(opened.read(name)))
            )
            for name in opened.namelist()
            if name.endswith(".camera.jpeg")
        }


def alike(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> bool:
    """Whether two pictures are the same as far as anybody sees."""
    error = float(((one.astype(float) - other) ** 2).mean())
    return error == 0 or 10 * np.log10(255**2 / error) > RUINED_DB


def in_place(folder: Path, codec: str) -> Iterator[Figure]:
    """A drive with damaged access units against the same one without."""
    length_s = seconds(24.0)
    common = {"seconds": length_s, "codec": codec}
    driven(folder / "sound", **common)
    done, truth = driven(folder / "damaged", damage_video=0.08, **common)
    sound, made = pictures(folder / "sound"), pictures(folder / "damaged")
    topic = f"/camera/{codec}"
    damaged = {message for message, _ in truth.data["video"][topic]["damaged"]}
    clean = set(truth.clean_messages(topic))
    ruined = [number for number, picture in made.items() if not alike(picture, sound[number])]
    yield told("access units damaged", len(damaged))
    yield exactly("ruined pictures written", len(ruined), 0)
    caught = 100.0 * len(damaged - set(made)) / max(1, len(damaged))
    yield at_least("damaged access units held back", caught, 90.0, "%")
    yield exactly("sound pictures held back", len(clean - set(made)), 0)
    yield told("samples", done.report["samples"])


@scenario("h264 damaged in place", "H.264: at least 90 % of damage caught, no sound picture refused")
def h264_in_place(folder: Path) -> Iterator[Figure]:
    """Which libavcodec finds."""
    yield from in_place(folder, "h264")


STREAMS = Path(__file__).resolve().parents[1] / "test" / "video" / "streams"
ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "x264, pyramid of 8": (
        "libx264",
        {"x264-params": "keyint=32:bframes=7:b-adapt=0:b-pyramid=normal:ref=4"},
    ),
    "x264, open groups": ("libx264", {"x264-params": "keyint=20:bframes=5:b-adapt=0:open-gop=1:ref=3"}),
    "x264, MBAFF": ("libx264", {"x264-params": "keyint=24:interlaced=1:bframes=3:ref=3"}),
    "x264, slices by size": ("libx264", {"x264-params": "keyint=24:slice-max-size=600:bframes=2"}),
    "x264, intra refresh": ("libx264", {"x264-params": "keyint=24:intra-refresh=1:bframes=0"}),
    "x265, pyramid of 17": (
        "libx265",
        {"x265-params": "log-level=none:keyint=64:bframes=16:b-adapt=0:rc-lookahead=20"},
    ),
    "x265, open groups": ("libx265", {"x265-params": "log-level=none:keyint=20:open-gop=1:bframes=5"}),
    "x265, temporal layers": (
        "libx265",
        {"x265-params": "log-level=none:keyint=24:temporal-layers=2:bframes=3"},
    ),
    "x265, intra only": ("libx265", {"x265-params": "log-level=none:keyint=1"}),
}


def streams() -> Iterator[tuple[str, Codec, list[bytes]]]:
    """Access units of many encoders and structures, by name."""
    for name, (encoder, options) in ENCODERS.items():
        codec: Codec = "h264" if encoder == "libx264" else "h265"
        context = cast("av.VideoCodecContext", av.CodecContext.create(encoder, "w"))
        context.width, context.height, context.pix_fmt, context.framerate = 176, 144, "yuv420p", Fraction(30)
        context.options = {"preset": "superfast", **options}
        packets = []
        for number in range(72):
            y, x = np.mgrid[0:144, 0:176]
            grey = 128 + 70 * np.sin((x + 3 * number) / 9) * np.cos((y - 2 * number) / 11)
            frame = av.VideoFrame.from_ndarray(np.repeat(grey[..., None], 3, 2).astype(np.uint8))
            frame.pts = number
            packets += context.encode(frame.reformat(format="yuv420p"))
        yield name, codec, [bytes(packet) for packet in [*packets, *context.encode(None)]]
    for path in sorted(STREAMS.iterdir()):
        codec = "h264" if path.suffix == ".264" else "h265"
        parser = av.CodecContext.create("h264" if codec == "h264" else "hevc", "r")
        yield path.stem, codec, [bytes(p) for data in (path.read_bytes(), b"") for p in parser.parse(data)]


def recorded(path: Path, codec: Codec, units: Sequence[bytes], *, checksums: bool) -> list[bytes]:
    """Write access units as a camera sends them; in order, the JPEGs of what libavcodec alone decodes."""
    context = cast("av.VideoCodecContext", av.CodecContext.create("h264" if codec == "h264" else "hevc", "r"))
    context.thread_count = 1
    frames = []
    for place, data in enumerate(units):
        packet = av.Packet(data)
        packet.pts = place
        frames += context.decode(packet)
    frames += context.decode(None)
    number_of = {frame.pts: number for number, frame in enumerate(frames)}
    with path.open("wb") as file:
        writer = Writer(file, enable_crcs=checksums)
        writer.start(profile="", library="truth")
        schema = "foxglove_msgs/msg/CompressedVideo"
        kind = writer.register_schema(schema, "ros2msg", definition(schema).encode())
        channel = writer.register_channel(f"/camera/{codec}", "cdr", kind)
        arrival_ns = 0
        for place, data in enumerate(units):
            # The second field of a picture follows half a period after the first.
            half = 0 if place in number_of else 16_666_667
            number = number_of[place if place in number_of else place - 1]
            stamp_ns = 1_773_483_630_000_000_000 + number * 33_333_333 + half
            arrival_ns = max(arrival_ns + 1_000_000, stamp_ns + 20_000_000)
            message = video(stamp_ns, data, codec, "camera")
            writer.add_message(channel, arrival_ns, message, arrival_ns, place)
        writer.finish()
    return [encode(Picture(frame), "jpeg", 90).data for frame in frames]


@scenario("video of other encoders", "every picture, as libavcodec alone decodes it")
def other_encoders(folder: Path) -> Iterator[Figure]:
    """With checksums and without."""
    for name, codec, units in streams():
        for checksums in (True, False):
            place = folder / f"{name}-{checksums}"
            place.mkdir()
            meant = recorded(place / "k_2026_05_01_09_00_00.mcap", codec, units, checksums=checksums)
            converted(place / "k_2026_05_01_09_00_00.mcap", place / "out")
            made = [picture for _, picture in sorted(pictures(place / "out").items())]
            right = [np.asarray(Image.open(io.BytesIO(data))) for data in meant]
            same = len(made) == len(right) and all(map(np.array_equal, made, right))
            yield exactly(
                f"{name}, {'with' if checksums else 'no'} checksums", "all" if same else "not all", "all"
            )
