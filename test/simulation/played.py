"""Reads a simulated recording back without this package's own sources and decoders."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from edgefirst.schemas import edgefirst_msgs, foxglove_msgs, geometry_msgs, sensor_msgs
from faulty import FaultyOptions, Truth
from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader

from edgefirst_ros.simulation import Recording

MODULES = {
    "edgefirst_msgs": edgefirst_msgs,
    "foxglove_msgs": foxglove_msgs,
    "geometry_msgs": geometry_msgs,
    "sensor_msgs": sensor_msgs,
}


@dataclass(frozen=True)
class Entry:
    """One message: its record in the file, its schema's name and what edgefirst-schemas makes of it."""

    record: Any
    schema: str
    message: Any

    @property
    def stamp_ns(self) -> int:
        if self.schema.endswith("Mask"):
            return 0
        time = self.message.timestamp if self.schema.endswith("CompressedVideo") else self.message.stamp
        return time.sec * 1_000_000_000 + time.nanosec


@dataclass(frozen=True)
class Played:
    """A recording read back: entries by topic in file order, and all topics in file order."""

    recording: Recording
    truth: Truth
    topics: dict[str, list[Entry]]
    order: list[str]

    def points(self, topic: str, index: int) -> npt.NDArray[np.void]:
        cloud = self.topics[topic][index].message
        kinds = {2: "u1", 4: "<u2", 6: "<u4", 7: "<f4", 8: "<f8"}
        layout = {
            "names": [field.name for field in cloud.fields],
            "formats": [kinds[field.datatype] for field in cloud.fields],
            "offsets": [field.offset for field in cloud.fields],
            "itemsize": cloud.point_step,
        }
        return np.frombuffer(cloud.data, np.dtype(layout))

    def pictures(self, topic: str, messages: list[int] | None = None) -> list[npt.NDArray[np.uint8]]:
        """The decoded pictures in display order, all or of some messages."""
        chosen = self.topics[topic] if messages is None else [self.topics[topic][i] for i in messages]
        decoder = av.CodecContext.create("h264" if chosen[0].message.format == "h264" else "hevc", "r")
        decoder.thread_count = 1
        frames = [f for e in chosen for f in decoder.decode(av.Packet(e.message.data.tobytes()))]
        frames += decoder.decode(None)
        return [frame.to_ndarray(format="rgb24") for frame in frames]


def play(recording: Recording) -> Played:
    topics: dict[str, list[Entry]] = defaultdict(list)
    order = []
    for path in recording.files:
        with path.open("rb") as stream, suppress(EndOfFile):
            for schema, channel, record in NonSeekingReader(stream).iter_messages(log_time_order=False):
                package, _, kind = schema.name.split("/")
                message = getattr(MODULES[package], kind).from_cdr(record.data)
                topics[channel.topic].append(Entry(record, schema.name, message))
                order.append(channel.topic)
    return Played(recording, Truth.read(recording.truth), dict(topics), order)


def small(**changes: Any) -> FaultyOptions:  # noqa: ANN401 - any option
    """A drive cheap enough to make anew in a test."""
    quick: dict[str, Any] = {
        "seconds": 1.0,
        "fps": 10,
        "width": 320,
        "height": 180,
        "lidar_points": 640,
        "cube_shape": (1, 100, 2, 64),
        "model_hz": 5.0,
    }
    return FaultyOptions(**(quick | changes))
