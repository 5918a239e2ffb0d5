"""Small recordings made of messages that a test has had in its hands."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drives import simulated
from faulty import FaultyOptions
from mcap.writer import Writer

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.mcap import McapRecording

SMALL: dict[str, Any] = {
    "fps": 10,
    "width": 320,
    "height": 180,
    "lidar_points": 200,
    "cube_hz": 0.0,
    "imu_hz": 50.0,
    "clock": "mixed",
}


def messages(**options: Any) -> list[RawMessage]:  # noqa: ANN401
    return list(McapRecording(simulated(FaultyOptions(**{**SMALL, **options})).mcap).messages())


def record(
    path: Path,
    content: Iterable[RawMessage],
    *,
    chunk_bytes: int = 1 << 20,
    checksums: bool = True,
    encoding: str = "cdr",
) -> Path:
    """A recording of these messages in this order."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=chunk_bytes, enable_crcs=checksums)
        writer.start(profile="", library="test")
        schemas: dict[str, int] = {}
        channels: dict[tuple[str, str], int] = {}
        for number, message in enumerate(content):
            if message.schema not in schemas:
                schemas[message.schema] = writer.register_schema(
                    message.schema, "ros2msg", message.definition.encode()
                )
            key = (message.topic, message.schema)
            if key not in channels:
                channels[key] = writer.register_channel(message.topic, encoding, schemas[message.schema])
            writer.add_message(channels[key], message.receive_ns, message.data, message.publish_ns, number)
        writer.finish()
    return path
