"""Room to receive in: what the sockets have, when it is too little, what is said to do."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.nodes.receiving import (
    WANTED_BYTES,
    receive_buffer,
)

ROOT = Path(__file__).parents[2]
CYCLONE, FAST, MIB = "rmw_cyclonedds_cpp", "rmw_fastrtps_cpp", 1024 * 1024
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, which is Linux's")


@linux
def test_what_the_sockets_were_granted_is_read_from_them() -> None:
    """Of UDP alone, the largest; measured in another process, which has no other sockets."""
    code = (
        "import socket\n"
        "from edgefirst_ros.nodes.receiving import granted_bytes\n"
        "print(granted_bytes())\n"
        "udp, tcp = socket.SOCK_DGRAM, socket.SOCK_STREAM\n"
        "made = [socket.socket(type=kind) for kind in (udp, udp, tcp)]\n"
        "for one, asked in zip(made, (30_000, 50_000, 90_000)):\n"
        "    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, asked)\n"
        "print(granted_bytes(), [s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for s in made])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["None", "50000 [60000, 100000, 180000]"]


def test_enough_is_well() -> None:
    (entry,) = receive_buffer(CYCLONE, WANTED_BYTES)
    assert (entry.level, entry.message) == (Severity.NOTE, "8.4 MB")


@pytest.mark.parametrize(
    ("middleware", "said", "unsaid"),
    [
        (CYCLONE, ["net.core.rmem_max=33554432", "CYCLONEDDS_URI,file://$("], ["rmem_default"]),
        (FAST, ["rmem_max=33554432 net.core.rmem_default=16777216"], ["CYCLONEDDS"]),
    ],
)
def test_too_little_is_a_warning_with_what_to_do(middleware: str, said: list[str], unsaid: list[str]) -> None:
    (entry,) = receive_buffer(middleware, 2 * MIB)
    assert entry.level == Severity.WARNING
    assert entry.message.startswith("2.1 MB; ")
    assert [text for text in said if text not in entry.message] == []
    assert [text for text in unsaid if text in entry.message] == []


def test_a_middleware_that_waits_for_slow_receivers_needs_none() -> None:
    assert receive_buffer("rmw_zenoh_cpp", 2 * MIB) == []


def test_the_shipped_configuration_asks_for_what_is_wanted() -> None:
    """In Cyclone's words; the kernel doubles what it grants, and Cyclone compares with that."""
    root = ET.parse(ROOT / "config" / "cyclonedds.xml").getroot()
    (size,) = root.iter("{https://cdds.io/config}SocketReceiveBufferSize")
    assert size.attrib == {"min": "16MB"}
    assert 16 * MIB // 2 == WANTED_BYTES
