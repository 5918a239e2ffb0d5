"""Splits samples into training and validation by blocks of time, so that neighbours stay together."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

GROUPS = ("train", "val")


@dataclass(frozen=True, slots=True)
class BlockSplit:
    """The split of one sequence.

    The sequence's time is cut into equal blocks of about ``block_s``. Of n blocks, round(n × val_ratio) are
    val, one drawn from each of as many equal strata, so the ratio holds over the whole sequence and in any
    long part of it. Which block a stratum gives is drawn by SHA-256 of the sequence's name and the
    stratum's number: the same on every machine, and unrelated between sequences.

    A sequence too short for the ratio to come out in blocks of ``block_s`` gets shorter blocks, just
    enough of them for one to be the smaller group; a 6 s recording at 0.2 has five blocks of 1.2 s, one
    of them val. Train and val touch only where blocks meet.

    Args:
        sequence: the sequence's name.
        first_ns: time of its first sample.
        last_ns: time of its last sample.
        val_ratio: share of val, 0 to 1.
        block_s: wanted block length in seconds.
    """

    sequence: str
    first_ns: int
    last_ns: int
    val_ratio: float
    block_s: float

    def group(self, time_ns: int) -> str:
        """The group of a sample of this sequence."""
        blocks = self._blocks()
        block = (time_ns - self.first_ns) * blocks // (self.last_ns - self.first_ns + 1)
        val = round(blocks * self.val_ratio)
        # the only strata that can hold this block are those its two ends fall into
        strata = {block * val // blocks, ((block + 1) * val - 1) // blocks}
        return GROUPS[any(self._drawn(stratum, blocks, val) == block for stratum in strata if val)]

    def _blocks(self) -> int:
        wanted = round((self.last_ns - self.first_ns) / (self.block_s * 1e9))
        smaller = min(self.val_ratio, 1.0 - self.val_ratio)
        least = math.ceil(1.0 / smaller - 1e-9) if smaller > 0.0 else 1
        return max(1, wanted, least)

    def _drawn(self, stratum: int, blocks: int, val: int) -> int:
        begin, end = stratum * blocks // val, (stratum + 1) * blocks // val
        digest = hashlib.sha256(f"{self.sequence}\0{stratum}".encode()).digest()
        return begin + int.from_bytes(digest[:8], "big") % (end - begin)
