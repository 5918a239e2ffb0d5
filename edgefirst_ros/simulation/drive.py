"""Writes a simulated drive: one MCAP recording and the truth beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
from mcap.writer import CompressionType, Writer

from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.errors import ConfigError, OutputExists, WriteError
from edgefirst_ros.simulation.channels import SimulatedDrive
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.schedule import Channel

COMPRESSIONS = {"lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD, "none": CompressionType.NONE}


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

    Args:
        directory: created if it does not exist.
        options: equal options give equal bytes.
        progress: called with the share written so far, 0..1.
        overwrite: replace an existing drive of this name.

    Raises:
        ConfigError: the directory is a file.
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
    path = directory / f"{device_name(drive.options.host, drive.options.start_ns)}.mcap"
    recording = Recording(path, path.with_suffix(".truth.json"), (path,))
    for each in (path, recording.truth):
        if each.exists() and not overwrite:
            raise OutputExists(f"{each} exists; choose another directory or allow overwriting")
    if directory.is_file():
        raise ConfigError([f"{directory}: is a file, not a folder"])
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".mcap.part")
    try:
        with unfinished.open("w+b") as stream:
            _write(stream, drive, progress or (lambda _: None))
        unfinished.replace(path)
        whole = {"name": path.name, "bytes": path.stat().st_size}
        truth = drive.truth() | {"file": path.name, "bytes": whole["bytes"], "files": [whole]}
        recording.truth.write_text(json.dumps(truth, separators=(",", ":"), allow_nan=False))
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return recording


def device_name(host: str, time_ns: int) -> str:
    """What a device calls a recording that begins then."""
    return f"{host}_{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y_%m_%d_%H_%M_%S}"


def _write(stream: BinaryIO, drive: SimulatedDrive, progress: Callable[[float], None]) -> None:
    writer = Writer(stream, compression=COMPRESSIONS[drive.options.compression])
    writer.start(profile="", library="edgefirst_ros simulation")
    schemas: dict[str, int] = {}
    ids = []
    for channel in drive.channels:
        if channel.schema not in schemas:
            text = definition(channel.schema).encode()
            schemas[channel.schema] = writer.register_schema(channel.schema, "ros2msg", text)
        ids.append(writer.register_channel(drive.topic(channel.name), "cdr", schemas[channel.schema]))
    total = sum(len(channel.log_ns) for channel in drive.channels)
    for done, (number, index) in enumerate(_by_receipt(drive.channels)):
        channel = drive.channels[number]
        data, log_ns = channel.encode(index), int(channel.log_ns[index])
        writer.add_message(ids[number], log_ns, data, publish_time=log_ns, sequence=index)
        if done % 64 == 0:
            progress(done / total)
    writer.finish()  # type: ignore[no-untyped-call]  # mcap annotates no return
    progress(1.0)


def _by_receipt(channels: list[Channel]) -> Iterator[tuple[int, int]]:
    """Channel number and message index of every message by log_time, then by channel."""
    log = np.concatenate([channel.log_ns for channel in channels])
    number = np.repeat(np.arange(len(channels)), [len(channel.log_ns) for channel in channels])
    index = np.concatenate([np.arange(len(channel.log_ns)) for channel in channels])
    for at in np.lexsort((index, number, log)):
        yield int(number[at]), int(index[at])
