"""Drives whose user changes the camera's resolution on the way: one recording after another, spliced."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from drives import simulated
from faulty import FaultyOptions
from mcap.writer import Writer

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.mcap import McapRecording

HOST = "maivin-sim"
START_NS = FaultyOptions().start_ns
SECONDS, FPS = 2.0, 10
FRAMES = round(SECONDS * FPS)
SMALL, LARGE = (320, 180), (384, 216)
COMMON: dict[str, Any] = {
    "seconds": SECONDS,
    "fps": FPS,
    "lidar_points": 300,
    "cube_hz": 0.0,
    "imu_hz": 50.0,
    "clock": "realtime",
    "gps_no_fix": 0,
    "stops": ((0.0, SECONDS),),  # one part goes on where the one before it ended
}


@cache
def _part(number: int, size: tuple[int, int], options: tuple[tuple[str, Any], ...]) -> tuple[RawMessage, ...]:
    start_ns = START_NS + number * round(SECONDS * 1e9)
    made = {**COMMON, "start_ns": start_ns, "width": size[0], "height": size[1], **dict(options)}
    return tuple(McapRecording(simulated(FaultyOptions(**made)).mcap).messages())


def spliced(*sizes: tuple[int, int], **options: Any) -> list[RawMessage]:  # noqa: ANN401
    """Messages by receipt of drives of 2 s at 10 Hz, each beginning when the one before it ends."""
    parts = [_part(n, size, tuple(sorted(options.items()))) for n, size in enumerate(sizes)]
    return list(heapq.merge(*parts, key=lambda message: message.receive_ns))


def recorded(path: Path, messages: Sequence[RawMessage]) -> Path:
    """A recording of these messages in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="test")
        schemas: dict[str, int] = {}
        channels: dict[str, int] = {}
        for number, message in enumerate(messages):
            if message.schema not in schemas:
                definition = message.definition.encode()
                schemas[message.schema] = writer.register_schema(message.schema, "ros2msg", definition)
            if message.topic not in channels:
                schema = schemas[message.schema]
                channels[message.topic] = writer.register_channel(message.topic, "cdr", schema)
            writer.add_message(
                channels[message.topic], message.receive_ns, message.data, message.publish_ns, number
            )
        writer.finish()
    return path
