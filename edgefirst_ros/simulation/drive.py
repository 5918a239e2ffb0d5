"""Writes a simulated drive: one MCAP recording and the truth beside it."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import yaml
from mcap.writer import CompressionType, Writer

from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.errors import OutputExists
from edgefirst_ros.simulation.channels import SimulatedDrive
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.schedule import Channel

COMPRESSIONS = {"lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD, "none": CompressionType.NONE}
Messages = Sequence[tuple[int, int]]
"""Channel number and message index, in order."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A simulated recording and its truth file; ``mcap`` is the first of its ``files``."""

    mcap: Path
    truth: Path
    files: tuple[Path, ...]


def simulate(
    directory: Path,
    options: DriveOptions,
    progress: Callable[[float], None] | None = None,
    *,
    overwrite: bool = False,
) -> Recording:
    """Write ``{host}_%Y_%m_%d_%H_%M_%S.mcap`` and its ``.truth.json`` into the directory.

    If it is split as rosbag2 does, the MCAP files are in a folder of that name, beside the truth.

    Args:
        directory: created if it does not exist.
        options: equal options give equal bytes.
        progress: called with the share written so far, 0..1.
        overwrite: replace an existing drive of this name.

    Raises:
        OutputExists: a drive of this name exists and ``overwrite`` is false.
    """
    return write(SimulatedDrive(options), directory, progress, overwrite=overwrite)


def write(
    drive: SimulatedDrive,
    directory: Path,
    progress: Callable[[float], None] | None = None,
    *,
    overwrite: bool = False,
) -> Recording:
    """Write a drive as ``simulate`` does."""
    options = drive.options
    stem = _device_name(options, options.start_ns)
    order = _order(drive)
    names = _names(drive, order, stem)
    metadata = [directory / stem / "metadata.yaml"] if _is_bag(options) else []
    recording = Recording(
        directory / names[0], directory / f"{stem}.truth.json", tuple(directory / name for name in names)
    )
    for path in (*recording.files, *metadata, recording.truth):
        if path.exists() and not overwrite:
            raise OutputExists(f"{path} exists; choose another directory or allow overwriting")
    recording.mcap.parent.mkdir(parents=True, exist_ok=True)
    sizes, done = [], 0
    for path, part in zip(recording.files, order, strict=True):
        unfinished = path.with_suffix(".mcap.part")
        with unfinished.open("w+b") as stream:
            _write(stream, drive, part, partial(_report, progress, sum(map(len, order)), done))
            sizes.append(stream.tell())
        unfinished.replace(path)
        done += len(part)
    for path in metadata:
        path.write_text(_metadata(drive, order, [file.name for file in recording.files]))
    truth = drive.truth() | {"file": recording.mcap.name, "bytes": sum(sizes)}
    truth |= {"files": [{"name": n, "bytes": size} for n, size in zip(names, sizes, strict=True)]}
    recording.truth.write_text(json.dumps(truth, separators=(",", ":"), allow_nan=False))
    if progress:
        progress(1.0)
    return recording


def _report(progress: Callable[[float], None] | None, total: int, before: int, done: int) -> None:
    if progress and (before + done) % 64 == 0:
        progress((before + done) / total)


def _device_name(options: DriveOptions, time_ns: int) -> str:
    return f"{options.host}_{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y_%m_%d_%H_%M_%S}"


def _is_bag(options: DriveOptions) -> bool:
    return options.splits > 1 and options.split_names == "rosbag2"


def _names(drive: SimulatedDrive, order: Sequence[Messages], stem: str) -> list[str]:
    """File names, relative to the directory."""
    options = drive.options
    if options.splits == 1:
        return [f"{stem}.mcap"]
    if _is_bag(options):
        return [f"{stem}/{stem}_{number}.mcap" for number in range(options.splits)]
    starts = (int(drive.channels[part[0][0]].log_ns[part[0][1]]) for part in order)
    return [f"{stem if not i else _device_name(options, start)}.mcap" for i, start in enumerate(starts)]


def _write(
    stream: BinaryIO, drive: SimulatedDrive, messages: Messages, written: Callable[[int], None]
) -> None:
    """Write one file."""
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
    for done, (number, index) in enumerate(messages):
        channel = drive.channels[number]
        data, log_ns = channel.encode(index), int(channel.log_ns[index])
        writer.add_message(ids[number], log_ns, data, publish_time=log_ns, sequence=index)
        written(done)
    writer.finish()  # type: ignore[no-untyped-call]  # mcap annotates no return


def _order(drive: SimulatedDrive) -> list[Messages]:
    """Channel number and message index of every message, by file, in the order of the file."""
    messages = list(_by_receipt(drive.channels))
    options = drive.options
    if options.splits == 1:
        return [messages]
    log_ns = [int(drive.channels[number].log_ns[index]) for number, index in messages]
    edges_ns = [
        options.start_ns + round(options.seconds * 1e9 * part / options.splits)
        for part in range(1, options.splits)
    ]
    cuts = [0, *(bisect_left(log_ns, edge_ns) for edge_ns in edges_ns), len(messages)]
    return [messages[start:end] for start, end in pairwise(cuts)]


def _metadata(drive: SimulatedDrive, order: Sequence[Messages], names: Sequence[str]) -> str:
    """metadata.yaml as rosbag2 writes it beside the files of a bag."""

    def span(messages: Messages) -> dict[str, Any]:
        times = [int(drive.channels[number].log_ns[index]) for number, index in messages]
        start_ns = min(times, default=0)
        return {
            "starting_time": {"nanoseconds_since_epoch": start_ns},
            "duration": {"nanoseconds": max(times, default=0) - start_ns},
            "message_count": len(messages),
        }

    topics = [
        {
            "topic_metadata": {
                "name": drive.topic(channel.name),
                "type": channel.schema,
                "serialization_format": "cdr",
                "offered_qos_profiles": "",
            },
            "message_count": len(channel.log_ns),
        }
        for channel in drive.channels
    ]
    information = {
        "version": 5,
        "storage_identifier": "mcap",
        **span([message for part in order for message in part]),
        "topics_with_message_count": topics,
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [*names],
        "files": [{"path": n, **span(part)} for n, part in zip(names, order, strict=True)],
    }
    return yaml.safe_dump({"rosbag2_bagfile_information": information}, sort_keys=False)


def _by_receipt(channels: list[Channel]) -> Iterator[tuple[int, int]]:
    """Channel number and message index of every message by log_time, then by channel."""
    log = np.concatenate([channel.log_ns for channel in channels])
    number = np.repeat(np.arange(len(channels)), [len(channel.log_ns) for channel in channels])
    index = np.concatenate([np.arange(len(channel.log_ns)) for channel in channels])
    for at in np.lexsort((index, number, log)):
        yield int(number[at]), int(index[at])
