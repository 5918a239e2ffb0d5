"""Speed of a whole conversion against a plain loop of decode + JPEG + PNG + write over the same recording.

    python benchmarks/convert.py [RECORDING] [--runs 3]

Without a recording a 10-second drive is simulated. The plain loop is what a script would do in one thread
with the same libraries and no alignment, clocks, accounting or annotations: the ratio says what those cost,
and what the threads win. Both run in turn in one process, so that a noisy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
import zipfile
from pathlib import Path

import av
import simplejpeg

from edgefirst_ros.config.model import build_config
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.edgefirst.prepare.cube import encode_cube
from edgefirst_ros.formats.edgefirst.prepare.pcd import encode_lidar, encode_radar
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.messages.pointcloud import PointCloud
from edgefirst_ros.messages.radar import RadarCube
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions, simulate
from edgefirst_ros.sources.mcap import McapRecording

OPTIONAL = ("radar_cube", "radar_targets", "lidar_points", "model")


def plain_loop(recording: Path, out: Path) -> int:
    """Every picture, cube and cloud of the recording into a stored ZIP, in order of arrival."""
    decoder: av.VideoCodecContext | None = None
    pictures = 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:

        def save(frames: list[av.VideoFrame]) -> None:
            nonlocal pictures
            for frame in frames:
                data = simplejpeg.encode_jpeg(frame.to_ndarray(format="rgb24"), 90, "RGB", "420")
                archive.writestr(f"{pictures:06d}.camera.jpeg", data)
                pictures += 1

        for number, message in enumerate(McapRecording(recording).messages()):
            try:
                datum = decode(message).datum
            except DecodeError:
                continue
            if isinstance(datum, VideoPacket):
                if decoder is None:
                    decoder = av.CodecContext.create("hevc" if datum.codec == "h265" else "h264", "r")
                packet = av.Packet(len(datum.data))
                packet.update(datum.data)
                save(decoder.decode(packet))
            elif isinstance(datum, RadarCube):
                archive.writestr(f"{number:06d}.radar.png", encode_cube(datum))
            elif isinstance(datum, PointCloud):
                is_radar = "speed" in (datum.points.dtype.names or ())
                encoded = encode_radar(datum) if is_radar else encode_lidar(datum)
                archive.writestr(f"{number:06d}.pcd", encoded.data)
        if decoder is not None:
            save(decoder.decode(None))
    return pictures


def main() -> None:
    """Run both in turn and print medians and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recording", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        recording = arguments.recording or simulate(folder / "drive", DriveOptions()).mcap
        times = [m.receive_ns for m in McapRecording(recording).messages()]
        recorded_s = (max(times) - min(times)) / 1e9
        config = build_config(
            {
                "topics": {name: {"required": "never"} for name in OPTIONAL},
                "edgefirst": {"lidar_images": False},
            }
        )
        taken: dict[str, list[float]] = {"plain loop": [], "convert": []}
        for _ in range(arguments.runs):
            start = time.perf_counter()
            pictures = plain_loop(recording, folder / "plain.zip")
            taken["plain loop"].append(time.perf_counter() - start)
            start = time.perf_counter()
            done = convert([recording], folder / "out", config)
            taken["convert"].append(time.perf_counter() - start)
            shutil.rmtree(folder / "out")
        print(f"{recorded_s:.1f} s recorded, {pictures} pictures; {done.report['samples']} samples")
        for name, seconds in taken.items():
            median = statistics.median(seconds)
            speed = f"{recorded_s / median:5.2f} × real time"
            print(f"{name:>10}: {median:6.2f} s median of {len(seconds)}, {speed}")
        ratios = [p / c for p, c in zip(taken["plain loop"], taken["convert"], strict=True)]
        print(f"convert is {statistics.median(ratios):.2f} × as fast as the plain loop")


if __name__ == "__main__":
    main()
