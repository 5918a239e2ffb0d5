"""Bits of a video header: fixed-length and Exp-Golomb codes."""

from __future__ import annotations

from edgefirst_ros.errors import DecodeError


class BitReader:
    """Reads a header from its first bit on.

    Source: ITU-T H.264 and H.265, clauses 7.2 and 9.1 (u, ue, se).

    Args:
        data: the raw byte sequence payload, emulation prevention already removed.

    Raises:
        DecodeError: on reading past the end, or an Exp-Golomb code longer than any a header has.
    """

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    @property
    def left(self) -> int:
        """How many bits have not been read."""
        return self._left

    def u(self, bits: int) -> int:
        """An unsigned number of that many bits."""
        if bits > self._left:
            raise DecodeError("the video header ends too early")
        self._left -= bits
        return (self._value >> self._left) & ((1 << bits) - 1)

    def flag(self) -> bool:
        """One bit."""
        return self.u(1) == 1

    def ue(self) -> int:
        """An unsigned Exp-Golomb code."""
        rest = self._value & ((1 << self._left) - 1)
        zeros = self._left - rest.bit_length()
        if zeros > 32:
            raise DecodeError("the video header is malformed: a code of more than 65 bits")
        return self.u(2 * zeros + 1) - 1

    def se(self) -> int:
        """A signed Exp-Golomb code."""
        code = self.ue()
        return (code + 1) // 2 if code & 1 else -(code // 2)
