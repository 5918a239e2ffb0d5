"""Where a drawing goes: a file, Rerun's viewer, or a web page."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import rerun as rr

from edgefirst_ros.formats.crashsafe.names import part_path
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.model.errors import ConfigError, OutputExists, WriteError
from edgefirst_ros.model.untrusted import displayed
from edgefirst_ros.report.rerun.canvas import Canvas

SUFFIX = ".rrd"
MAGIC = b"RRF"
APPLICATION = "edgefirst-ros view"
START_S = 60.0
"""Longest time until a process of Rerun listens."""
END_S = 5.0
"""Longest time until it does not listen any more."""
WEB_MEMORY = "2GB"
"""Kept for browsers that come later; of more, what was drawn first is left out."""


def refuse_file(path: Path) -> None:
    """Refuse to write under a name that is no drawing's, or in place of something else.

    Raises:
        OutputExists: the name does not end in .rrd, or a file is there that Rerun did not write.
    """
    if path.suffix.lower() != SUFFIX:
        raise OutputExists(f"{path}: Rerun's files end in {SUFFIX}; give -o such a name")
    if not path.exists():
        return
    if not path.is_file():
        raise OutputExists(f"{path}: is no file; nothing was written")
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
    if begin and begin != MAGIC:
        raise OutputExists(f"{path}: is there and is no file of Rerun; nothing was written")


def refuse_display(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to open a window where there is none.

    Raises:
        ConfigError: no display.
    """
    if sys.platform == "linux" and not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        advice = "save with -o x.rrd and open that elsewhere (rerun x.rrd), or use a browser with --web"
        raise ConfigError([f"there is no display for the viewer: {advice}"])


@contextmanager
def to_file(path: Path, name: str) -> Iterator[Canvas]:
    """A canvas whose drawing is in the file once the block has ended; after an error nothing is.

    Raises:
        OutputExists: see ``refuse_file``.
        WriteError: it cannot be written.
    """
    refuse_file(path)
    part = part_path(path)
    stream = _stream(name)
    try:
        with disk_errors(path):
            part.unlink(missing_ok=True)
            part.open("xb").close()  # says what is wrong, which Rerun does not
        stream.save(part)
        canvas = Canvas(stream, live=False)
        yield canvas
        canvas.finish()
        stream.disconnect()
        with disk_errors(path):
            part.replace(path)
    finally:
        stream.disconnect()
        part.unlink(missing_ok=True)


@contextmanager
def to_viewer(name: str) -> Iterator[Canvas]:
    """A canvas that Rerun's viewer shows, which stays open.

    Raises:
        ConfigError: there is no display.
        WriteError: the viewer does not start.
    """
    refuse_display()
    port = _free_port()
    viewer = _start("--hide-welcome-screen", port=port)
    with _watched(name, viewer, port) as canvas:
        yield canvas


@contextmanager
def to_web(name: str, tell: Callable[[str], None]) -> Iterator[Canvas]:
    """A canvas that browsers on this machine show as long as the block lasts.

    Args:
        name: of the drawing.
        tell: gets the page's address.

    Raises:
        WriteError: the server does not start.
    """
    port, page = _free_port(), _free_port()
    memory = ("--server-memory-limit", WEB_MEMORY)
    server = _start("--serve-web", "--web-viewer-port", str(page), *memory, port=port)
    try:
        with _watched(name, server, port) as canvas:
            tell(f"http://127.0.0.1:{page}/?url={quote(_address(port), safe='')}")
            yield canvas
    finally:
        _end(server)
        _wait_until_closed(port, page)


def _start(*arguments: str, port: int) -> subprocess.Popen[bytes]:
    """A process of Rerun that only this machine reaches; Rerun's own ways to start one listen everywhere."""
    command = [sys.executable, "-m", "rerun", "--bind", "127.0.0.1", "--port", str(port), *arguments]
    quiet = subprocess.DEVNULL
    # In a session of its own, so that Ctrl-C is for us.
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


@contextmanager
def _watched(name: str, shower: subprocess.Popen[bytes], port: int) -> Iterator[Canvas]:
    _wait(shower, port)
    stream = _stream(name)
    stream.connect_grpc(_address(port))
    canvas = Canvas(stream, live=True)
    try:
        yield canvas
        canvas.finish()
    finally:
        stream.disconnect()


def _wait(shower: subprocess.Popen[bytes], port: int) -> None:
    """Wait until it listens.

    Raises:
        WriteError: it does not.
    """
    until_s = time.monotonic() + START_S
    try:
        while time.monotonic() < until_s:
            if shower.poll() is not None:
                break
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return
            time.sleep(0.1)
    except KeyboardInterrupt:
        _end(shower)
        raise
    _end(shower)
    raise WriteError("Rerun does not start; does the command `rerun` open a window? Or save with -o x.rrd")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with those that it has started: what Python starts is not the program itself."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def _wait_until_closed(*ports: int) -> None:
    """Wait until nothing listens any more: the program may end a moment after what has started it."""
    until_s = time.monotonic() + END_S
    for port in ports:
        with suppress(OSError):
            while time.monotonic() < until_s:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                time.sleep(0.02)


def _address(port: int) -> str:
    return f"rerun+http://127.0.0.1:{port}/proxy"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stream(name: str) -> rr.RecordingStream:
    stream = rr.RecordingStream(APPLICATION, send_properties=False)
    # The time at which something was drawn says nothing about the drive.
    stream.set_log_time_enabled(False)
    stream.set_log_tick_enabled(False)
    stream.send_recording_name(displayed(name))
    return stream
