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
        description="Columns and types of the Arrow file: 2025.01 is the published article, 2026.10 is what "
        "the vendor's client writes today. 2026.10 has no lidar.png and lidar.jpeg. Choose 2026.10 to use "
        "the dataset with that client.",
    )
    container: Container = Field(
        default="zip",
        description="Sensor files in one uncompressed ZIP, or as plain files in a folder. Choose folder for "
        "tools that cannot read a ZIP, and for cloud storage that is read file by file.",
    )
    split: Split = Field(
        default="time",
        description="What is in one group, train or val: blocks of time, a whole drive, or a place, by cells "
        "of about 550 m. Set drive or place to test on what was not seen: neighbours in time are alike.",
    )
    val_ratio: float = Field(
        default=0.2,
        ge=0.0,
        le=1.0,
        description="Share of each sequence's time in the group val, or of drives or cells. Set 0 or 1 if "
        "whole drives are for one or the other.",
    )
    lidar_image_size: tuple[Rows, Columns] = Field(
        default=(128, 1024),
        description="Rows and columns of lidar.png and lidar.jpeg (schema 2025.01 only) where they are "
        "projected from the points, over 360° with straight ahead in the centre; lidar/depth and "
        "lidar/reflect of a device that sends them keep their size. Rows span elevations from -45 "
        "to 45°. Set it to the lidar's beams and to its points a turn, or to 0, 0 to write neither.",
    )
    degradation: Degradation | None = Field(
        default=None,
        description="How much weather, light or dirt impaired what the drive's cameras saw, for the column "
        "of that name (schema 2025.01 only). Set it by drive to train or test on bad conditions.",
    )
    exif_camera: tuple[Tag, Tag] = Field(
        default=(AUTO, AUTO),
        description="EXIF Make and Model of the camera. auto is the vendor of the device for its own topics "
        "(camera/h264, ...) and none for others; an empty one omits the tag. Name your camera if a tool that "
        "reads the pictures asks for it.",
    )

    @property
    def first_frame(self) -> int:
        """The vendor's client writes three digits, its validator wants no leading zeros: 100 suits both."""
        return 100 if (self.schema_version, self.container) == ("2026.10", "folder") else 0

    @field_validator("schema_version", mode="before")
    @classmethod
    def _unquoted(cls, value: object) -> object:
        """YAML reads 2026.10 without quotes as the number 2026.1."""
        return f"{value:.2f}" if isinstance(value, float) else value


GROUPS = ("train", "val")


BLOCK_S = 10.0
"""Intended length of a block: scenes that are alike are in one group."""


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
    block_s: float = BLOCK_S

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
