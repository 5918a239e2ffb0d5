"""Writes a simulated drive: one MCAP recording and the truth beside it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
from mcap.writer import CompressionType, Writer

from edgefirst_ros.errors import OutputExists
from edgefirst_ros.messages.definitions import definition
from edgefirst_ros.simulation.channels import Drive
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.schedule import Channel

COMPRESSIONS = {"lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD, "none": CompressionType.NONE}
MCAP_FOOTER = struct.Struct("<BQQQI8s")
MCAP_DATA_END_BYTES = 13


@dataclass(frozen=True, slots=True)
class Recording:
    """A simulated recording and the file that says what is true about it."""

    mcap: Path
    truth: Path


def simulate(
    directory: Path,
    options: DriveOptions,
    progress: Callable[[float], None] | None = None,
    *,
    overwrite: bool = False,
) -> Recording:
    """Write ``{host}_%Y_%m_%d_%H_%M_%S.mcap`` and its ``.truth.json`` into the directory.

    Args:
        directory: made if it is not there.
        options: equal options give equal bytes.
        progress: told the share written so far, 0..1.
        overwrite: replace an earlier drive of the same name.

    Raises:
        OutputExists: a drive of that name is there and overwriting was not asked for.
    """
    start = datetime.fromtimestamp(options.start_ns // 1_000_000_000, UTC)
    stem = f"{options.host}_{start:%Y_%m_%d_%H_%M_%S}"
    recording = Recording(directory / f"{stem}.mcap", directory / f"{stem}.truth.json")
    for path in (recording.mcap, recording.truth):
        if path.exists() and not overwrite:
            raise OutputExists(f"{path} is already there; choose another directory or allow overwriting")
    directory.mkdir(parents=True, exist_ok=True)
    drive = Drive(options)
    part = recording.mcap.with_suffix(".mcap.part")
    with part.open("w+b") as stream:
        _write(stream, drive, progress)
        if not options.footer:
            _cut_footer(stream)
        size = stream.tell()
    truth = drive.truth() | {"file": recording.mcap.name, "bytes": size}
    recording.truth.write_text(json.dumps(truth, separators=(",", ":"), allow_nan=False))
    part.replace(recording.mcap)
    return recording


def _write(stream: BinaryIO, drive: Drive, progress: Callable[[float], None] | None) -> None:
    """All messages in the order of their receipt."""
    writer = Writer(stream, compression=COMPRESSIONS[drive.options.compression])
    writer.start(profile="", library="edgefirst_ros simulation")
    schemas: dict[str, int] = {}
    ids = []
    for channel in drive.channels:
        if channel.schema not in schemas:
            text = definition(channel.schema).encode()
            schemas[channel.schema] = writer.register_schema(channel.schema, "ros2msg", text)
        topic = drive.topic(channel.name)
        ids.append(writer.register_channel(topic, "cdr", schemas[channel.schema]))
    order = list(_by_receipt(drive.channels))
    for done, (number, index) in enumerate(order):
        channel = drive.channels[number]
        data, log_ns = channel.encode(index), int(channel.log_ns[index])
        writer.add_message(ids[number], log_ns, data, publish_time=log_ns, sequence=index)
        if progress and done % 64 == 0:
            progress(done / len(order))
    writer.finish()  # type: ignore[no-untyped-call]  # mcap annotates no return
    if progress:
        progress(1.0)


def _by_receipt(channels: list[Channel]) -> Iterator[tuple[int, int]]:
    """Channel number and message index of every message by log_time, ties in the channels' order."""
    log = np.concatenate([channel.log_ns for channel in channels])
    number = np.repeat(np.arange(len(channels)), [len(channel.log_ns) for channel in channels])
    index = np.concatenate([np.arange(len(channel.log_ns)) for channel in channels])
    for at in np.lexsort((index, number, log)):
        yield int(number[at]), int(index[at])


def _cut_footer(stream: BinaryIO) -> None:
    """Drop everything after the last chunk, as a recorder that lost its power leaves it."""
    stream.seek(-MCAP_FOOTER.size, 2)
    summary_start = MCAP_FOOTER.unpack(stream.read())[2]
    stream.truncate(summary_start - MCAP_DATA_END_BYTES)
    stream.seek(0, 2)
