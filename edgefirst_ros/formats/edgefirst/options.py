"""Options of EdgeFirst datasets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from edgefirst_ros.formats.options import OptionsModel

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

    @field_validator("schema_version", mode="before")
    @classmethod
    def _unquoted(cls, value: object) -> object:
        """YAML reads 2026.10 without quotes as the number 2026.1."""
        return f"{value:.2f}" if isinstance(value, float) else value
