"""Options of EdgeFirst datasets, and which samples are for training and which for validation.

What a sample's group is depends on its own drive or place alone, so that it is the same
whatever else there is, and on every machine.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, field_validator

from edgefirst_ros.formats.format import OptionsModel

SchemaVersion = Literal["2025.01", "2026.10"]
Container = Literal["zip", "folder"]
Degradation = Literal["none", "low", "medium", "high"]
Split = Literal["time", "drive", "place"]

AUTO = "auto"
Rows = Annotated[int, Field(ge=0, le=4096)]
Columns = Annotated[int, Field(ge=0, le=16384)]
Tag = Annotated[str, Field(pattern=r"^[\x20-\x7e]*$", max_length=64)]


class EdgeFirstOptions(OptionsModel):
    """Options of an EdgeFirst dataset; every field has a default that suits a Maivin.

    Raises:
        pydantic.ValidationError: a value out of range, or a field of another name.
    """

    schema_version: SchemaVersion = Field(
        default="2025.01",
        description="Columns and types of the Arrow file: the published article's (2025.01), or today's "
        "of the vendor's client. Choose 2026.10 to use the dataset with that client.",
    )
    container: Container = Field(
        default="zip",
        description="Sensor files in one ZIP, or as plain files. The ZIP is not compressed. Choose "
        "folder for tools that cannot read a ZIP, and for cloud storage.",
    )
    split: Split = Field(
        default="time",
        description="What goes to train or val as a whole: blocks of time with 5 s of test between them, "
        "drives, or places of 550 m. Set drive or place to test on what was not seen.",
    )
    val_ratio: float = Field(
        default=0.2,
        ge=0.0,
        le=1.0,
        description="Share of the group val. Set 0 or 1 if whole drives are for one or the other.",
    )
    lidar_image_size: tuple[Rows, Columns] = Field(
        default=(128, 1024),
        description="Rows and columns of lidar.png and lidar.jpeg, in schema 2025.01 only. Set it to the "
        "lidar's beams and points a turn, or to 0, 0 for none.",
    )
    degradation: Degradation | None = Field(
        default=None,
        description="How much weather, light or dirt impaired the pictures of the drive, in schema "
        "2025.01 only. Set it to train or test on bad conditions.",
    )
    exif_camera: tuple[Tag, Tag] = Field(
        default=(AUTO, AUTO),
        description="EXIF Make and Model of the camera; auto knows the device's own. Name yours if a tool "
        "that reads the pictures asks for it.",
    )

    @field_validator("schema_version", mode="before")
    @classmethod
    def _unquoted(cls, value: object) -> object:
        """YAML reads 2026.10 without quotes as the number 2026.1."""
        return f"{value:.2f}" if isinstance(value, float) else value


TRAIN, VAL, BETWEEN = GROUPS = ("train", "val", "test")
"""The third is of samples between blocks of the others: they are too much like both for either."""
BLOCK_S, GAP_S = 30.0, 5.0
"""Intended length of a block, and of the time that it keeps from one of the other group: what a vehicle sees
within 5 s is much the same."""


@dataclass(frozen=True, slots=True)
class BlockSplit:
    """The split of one sequence.

    Its time is divided into n equal blocks of about ``block_s``, and these into round(n × val_ratio) equal
    strata. One block of each stratum is val, chosen by the SHA-256 of the sequence's name and the stratum's
    number. The ratio therefore holds for the sequence and for any long part of it, and the choice is the same
    on every machine but differs between sequences.

    In short sequences the blocks are shorter, so that at least one of them is of the smaller group: 6 s at a
    ratio of 0.2 make five blocks of 1.2 s, one of which is val. Of the larger group, samples that are nearer
    to the other one than GAP_S, or than a sixth of the sequence, belong to neither.

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
    block_s: float = BLOCK_S

    def group(self, time_ns: int) -> str:
        """The group of the sample at a time: train or val, or test if it is between them."""
        blocks = self._blocks()
        gap_ns = min(round(GAP_S * 1e9), (self.last_ns - self.first_ns) // 6)
        begin, own, end = (self._block(time_ns + off_ns, blocks) for off_ns in (-gap_ns, 0, gap_ns))
        group, larger = self._group_of(own, blocks), GROUPS[self.val_ratio > 0.5]
        is_between = group == larger and {self._group_of(n, blocks) for n in range(begin, end + 1)} != {group}
        return BETWEEN if is_between else group

    def _block(self, time_ns: int, blocks: int) -> int:
        inside_ns = min(max(time_ns, self.first_ns), self.last_ns) - self.first_ns
        return inside_ns * blocks // (self.last_ns - self.first_ns + 1)

    def _group_of(self, block: int, blocks: int) -> str:
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
        return begin + _number(f"{self.sequence}\0{stratum}") % (end - begin)


def drive_of(sequences: Iterable[str]) -> str:
    """What a drive is known by, whatever its dataset is called: its first sequence, of host and time."""
    return min(sequences)


def drive_group(drive: str, val_ratio: float) -> str:
    """The group of a whole drive."""
    return _chosen(f"drive\0{drive}\x000", val_ratio)


CELL_DEG = 1 / 200
"""Height of a cell: 556 m. Its width is about the same in metres, whatever the latitude."""


def place_group(latitude_deg: float, longitude_deg: float, val_ratio: float) -> str:
    """The group of a place: that of its cell, whoever drives there and whenever."""
    row = math.floor(latitude_deg / CELL_DEG)
    # Each row has whole cells all around; at the poles a single one.
    cells = max(1, round(360.0 / CELL_DEG * math.cos(math.radians((row + 0.5) * CELL_DEG))))
    column = math.floor((longitude_deg + 180.0) / 360.0 * cells) % cells
    return _chosen(f"place\0{row}\0{column}\x000", val_ratio)


def _chosen(text: str, val_ratio: float) -> str:
    return GROUPS[_number(text) < val_ratio * 2.0**64]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
