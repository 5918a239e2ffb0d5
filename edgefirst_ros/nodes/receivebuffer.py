"""Whether the receive buffers of the middleware's sockets can hold a burst of large messages."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from edgefirst_ros.nodes.diagnostics import Diagnostic, Level

WANTED_BYTES = 8 * 1024 * 1024
"""An uncompressed 1080p picture (6 MB), or a radar cube and a cloud, arrive as one burst of packets. This is
also what ``min="16MB"`` requires: Linux doubles the requested size, and Cyclone compares with the double."""
ALLOW = "sudo sysctl -w net.core.rmem_max=33554432"
SHIPPED = "file://$(ros2 pkg prefix --share edgefirst_ros)/config/cyclonedds.xml"
NAME = "receive buffer"
_LIMIT = Path("/proc/sys/net/core/rmem_max")
_OPEN = Path("/proc/self/fd")
_DATAGRAMS = {"rmw_cyclonedds_cpp": "Cyclone DDS", "rmw_fastrtps_cpp": "Fast DDS"} | {
    "rmw_fastrtps_dynamic_cpp": "Fast DDS",
    "rmw_connextdds": "Connext DDS",
}
"""Middlewares that send messages as UDP packets; the others wait for slow receivers."""


def granted_bytes() -> int | None:
    """The largest receive buffer of this process's UDP sockets in bytes; None without such, or off Linux.

    This is what the middleware requested as far as the kernel granted it.
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
            continue  # closed meanwhile
    return max(sizes, default=None)


def allowed_bytes() -> int | None:
    """The kernel's limit in bytes (net.core.rmem_max), None where it cannot be read."""
    try:
        return int(_LIMIT.read_text())
    except (OSError, ValueError):
        return None


def receive_buffer(
    middleware: str, granted: int | None, allowed: int | None, environment: Mapping[str, str]
) -> list[Diagnostic]:
    """One diagnostic on the receive buffer, none where it does not matter.

    Args:
        middleware: rclpy's identifier.
        granted: bytes, see ``granted_bytes``.
        allowed: bytes, see ``allowed_bytes``.
        environment: the process's environment variables.
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
        return [Diagnostic(Level.OK, NAME, _mb(granted), values)]
    short = allowed is None or allowed < WANTED_BYTES
    cure = _cure(name, environment.get("CYCLONEDDS_URI", ""), short=short)
    text = f"{_mb(granted)}; bursts of large messages may be lost below {_mb(WANTED_BYTES)}: {cure}"
    return [Diagnostic(Level.WARN, NAME, text, values)]


def start_failure_help(middleware: str, allowed: int | None, environment: Mapping[str, str]) -> str:
    """What may help if the middleware does not start; it prints the reason itself."""
    given = environment.get("CYCLONEDDS_URI", "")
    if _DATAGRAMS.get(middleware) != "Cyclone DDS" or not given:
        return "the middleware did not start; its own message is above"
    limit = "" if allowed is None else f" ({_mb(allowed)} by net.core.rmem_max)"
    return (
        f"Cyclone DDS did not start with CYCLONEDDS_URI={given}; its own message is above. If it demands a "
        f"larger socket receive buffer than the kernel allows{limit}: {ALLOW}"
    )


def _cure(name: str, uri: str, *, short: bool) -> str:
    """What to do; ``uri`` is CYCLONEDDS_URI, ``short`` whether the kernel's limit is too low."""
    if name == "Fast DDS":
        # It requests no size by itself, so it gets the kernel's default.
        return f"{ALLOW} net.core.rmem_default=16777216, or give its UDP transport a receiveBufferSize"
    steps = [ALLOW] if short else []
    if name == "Connext DDS":
        steps.append("set dds.transport.UDPv4.builtin.recv_socket_buffer_size")
    elif "SocketReceiveBufferSize" not in uri:
        steps.append(f"start with CYCLONEDDS_URI={'$CYCLONEDDS_URI,' if uri else ''}{SHIPPED}")
    return ", then ".join(steps) or "increase SocketReceiveBufferSize in CYCLONEDDS_URI"


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
