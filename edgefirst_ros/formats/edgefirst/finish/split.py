"""Splits samples into training and validation by blocks of time, which keeps similar samples together."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

GROUPS = ("train", "val")


@dataclass(frozen=True, slots=True)
class BlockSplit:
    """The split of one sequence.

    Its time is divided into n equal blocks of about ``block_s``, and these into round(n × val_ratio) equal
    strata. One block of each stratum is val, chosen by the SHA-256 of the sequence's name and the stratum's
    number. The ratio therefore holds for the sequence and for any long part of it, and the choice is the same
    on every machine but differs between sequences.

    In short sequences the blocks are shorter, so that at least one of them is of the smaller group: 6 s at a
    ratio of 0.2 make five blocks of 1.2 s, one of which is val.

    Args:
        sequence: name of the sequence.
        first_ns: time of its first sample.
        last_ns: time of its last sample.
        val_ratio: share of val, 0 to 1.
        block_s: intended length of a block in seconds.
    """

    sequence: str
    first_ns: int
    last_ns: int
    val_ratio: float
    block_s: float

    def group(self, time_ns: int) -> str:
        """The group of the sample at a time: train or val."""
        blocks = self._blocks()
        block = (time_ns - self.first_ns) * blocks // (self.last_ns - self.first_ns + 1)
        val = round(blocks * self.val_ratio)
        # a block can be in two strata at most, those of its two ends
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
