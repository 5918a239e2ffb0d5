"""Takes access units apart and puts them together again, for streams no encoder at hand would write."""

from __future__ import annotations

import re
from unittest import mock

from edgefirst_ros.video import headers, parameters


def nal_units(data: bytes) -> list[bytes]:
    return [unit.rstrip(b"\x00") for unit in re.split(b"\x00\x00\x01", data)[1:]]


def rejoin(units: list[bytes]) -> bytes:
    return b"".join(b"\x00\x00\x00\x01" + unit for unit in units)


def escape(payload: bytes) -> bytes:
    """Emulation prevention, clause 7.4.1."""
    out = bytearray()
    for byte in payload:
        if len(out) >= 2 and out[-1] == out[-2] == 0 and byte <= 3:
            out.append(3)
        out.append(byte)
    return bytes(out)


def bits_to_bytes(bits: str) -> bytes:
    """Bits with the stop bit and padding of clause 7.3.2.11."""
    bits += "1"
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def ue(number: int) -> str:
    code = f"{number + 1:b}"
    return "0" * (len(code) - 1) + code


def se(number: int) -> str:
    return ue(2 * number - 1 if number > 0 else -2 * number)


def without_vui(data: bytes) -> bytes:
    """The access unit with a sequence parameter set that says nothing about reordering."""
    return rejoin([_shortened(unit) if unit[0] & 0x1F == 7 else unit for unit in nal_units(data)])


def _shortened(unit: bytes) -> bytes:
    payload = headers.unescape(unit[1:])
    left: list[int] = []
    with mock.patch.object(parameters, "_h264_reorder", lambda bits: left.append(bits.left)):
        parameters.sequence_set("h264", unit)
    bits = "".join(f"{byte:08b}" for byte in payload)
    return unit[:1] + escape(bits_to_bytes(bits[: len(bits) - left[0] - 1] + "0"))
