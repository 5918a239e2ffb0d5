"""Whether the sockets that messages come in by have room for a burst of them; knows nothing of rclpy."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from edgefirst_ros.nodes.diagnostics import Entry, Level

WANTED_BYTES = 8 * 1024 * 1024
"""An uncompressed 1080p picture (6 MB), or a radar cube and a cloud, arrive as one burst of packets. This is
also what ``min="16MB"`` comes to: Linux doubles what is asked for, and Cyclone compares with the double."""
ALLOW = "sudo sysctl -w net.core.rmem_max=33554432"
SHIPPED = "file://$(ros2 pkg prefix --share edgefirst_ros)/config/cyclonedds.xml"
NAME = "receive buffer"
_LIMIT = Path("/proc/sys/net/core/rmem_max")
_OPEN = Path("/proc/self/fd")
_DATAGRAMS = {"rmw_cyclonedds_cpp": "Cyclone DDS", "rmw_fastrtps_cpp": "Fast DDS"} | {
    "rmw_fastrtps_dynamic_cpp": "Fast DDS",
    "rmw_connextdds": "Connext DDS",
}
"""Middlewares whose messages come in UDP packets; others wait for a receiver that is slow."""


def granted_bytes() -> int | None:
    """Room that this process's UDP sockets asked for and got; None if it has none, or not Linux.

    What the middleware was told and what the kernel allowed are both in it, whichever middleware that is.
    """
    sizes = []
    try:
        entries = list(_OPEN.iterdir())
    except OSError:
        return None
    for entry in entries:
        try:
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as one:
                if one.type == socket.SOCK_DGRAM and one.family in {socket.AF_INET, socket.AF_INET6}:
                    sizes.append(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2)
        except OSError:
            continue  # closed since
    return max(sizes, default=None)


def allowed_bytes() -> int | None:
    """What the kernel allows a socket to ask for (net.core.rmem_max), None where that cannot be read."""
    try:
        return int(_LIMIT.read_text())
    except (OSError, ValueError):
        return None


def receive_buffer(
    middleware: str, granted: int | None, allowed: int | None, environment: Mapping[str, str]
) -> list[Entry]:
    """One diagnostic entry on the receive buffer, none where it means nothing.

    Args:
        middleware: as rclpy names it.
        granted: bytes, see ``granted_bytes``.
        allowed: bytes, see ``allowed_bytes``.
        environment: of the process.
    """
    name = _DATAGRAMS.get(middleware)
    if name is None or granted is None:
        return []
    values = (
        ("granted", _mb(granted)),
        ("wanted", _mb(WANTED_BYTES)),
        ("net.core.rmem_max", "unknown" if allowed is None else _mb(allowed)),
        ("middleware", middleware),
    )
    if granted >= WANTED_BYTES:
        return [Entry(Level.OK, NAME, _mb(granted), values)]
    short = allowed is None or allowed < WANTED_BYTES
    cure = _cure(name, environment.get("CYCLONEDDS_URI", ""), short=short)
    text = f"{_mb(granted)}, a burst of large messages needs {_mb(WANTED_BYTES)} or is lost: {cure}"
    return [Entry(Level.WARN, NAME, text, values)]


def refused(middleware: str, allowed: int | None, environment: Mapping[str, str]) -> str:
    """What may help if the middleware does not start at all; it says itself what it misses."""
    given = environment.get("CYCLONEDDS_URI", "")
    if _DATAGRAMS.get(middleware) != "Cyclone DDS" or not given:
        return "the middleware did not start, and says why above"
    limit = "" if allowed is None else f" ({_mb(allowed)} by net.core.rmem_max)"
    return (
        f"Cyclone DDS did not start with CYCLONEDDS_URI={given}, and says why above. If it is the socket "
        f"receive buffer, of which the kernel allows less than that demands{limit}: {ALLOW}"
    )


def _cure(name: str, uri: str, *, short: bool) -> str:
    """What to do; ``uri`` is CYCLONEDDS_URI, and ``short`` says that the kernel does not allow enough."""
    if name == "Fast DDS":
        # It asks for nothing by itself, so it gets the kernel's default.
        return f"{ALLOW} net.core.rmem_default=16777216, or give its UDP transport a receiveBufferSize"
    steps = [ALLOW] if short else []
    if name == "Connext DDS":
        steps.append("set dds.transport.UDPv4.builtin.recv_socket_buffer_size")
    elif "SocketReceiveBufferSize" not in uri:
        steps.append(f"start with CYCLONEDDS_URI={'$CYCLONEDDS_URI,' if uri else ''}{SHIPPED}")
    return ", then ".join(steps) or "let CYCLONEDDS_URI ask for more"


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
