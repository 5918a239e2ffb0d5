"""Options of EdgeFirst datasets."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SchemaVersion = Literal["2025.01", "2026.10"]
Container = Literal["zip", "folder"]

AUTO = "auto"


class EdgeFirstOptions(BaseModel):
    """Options of an EdgeFirst dataset; every field has a default that suits a Maivin.

    Raises:
        pydantic.ValidationError: a value out of range, or a field of another name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: SchemaVersion = Field(
        default="2025.01",
        description="Columns and types of the Arrow file: 2025.01 is the published article, 2026.10 is what "
        "the vendor's client writes today. 2026.10 has no lidar.png and lidar.jpeg.",
    )
    container: Container = Field(
        default="zip", description="Sensor files in one uncompressed ZIP, or as plain files in a folder."
    )
    val_ratio: float = Field(
        default=0.2, ge=0.0, le=1.0, description="Share of each sequence's time in the group val."
    )
    block_s: float = Field(
        default=10.0,
        gt=0.0,
        description="Train and val alternate in blocks of about this duration; shorter in sequences with too "
        "few blocks for val_ratio.",
    )
    lidar_images: bool = Field(
        default=True,
        description="Write lidar.png and lidar.jpeg (schema 2025.01 only), from lidar/depth and "
        "lidar/reflect if the device sends them, else projected from the points.",
    )
    lidar_rows: int = Field(
        default=128,
        ge=1,
        le=4096,
        description="Rows of the projected range image. With the default elevations a row covers 0.7°: one "
        "beam of an OS1-64, about one of an E1R.",
    )
    lidar_columns: int = Field(
        default=1024,
        ge=1,
        le=16384,
        description="Columns of the projected range image, over 360° of azimuth; the centre column is "
        "straight ahead.",
    )
    lidar_elevation_min_deg: float = Field(
        default=-45.0, ge=-90.0, le=90.0, description="Elevation of the lower edge of the range image."
    )
    lidar_elevation_max_deg: float = Field(
        default=45.0, ge=-90.0, le=90.0, description="Elevation of the upper edge of the range image."
    )
    lidar_jpeg_quality: int = Field(
        default=95, ge=1, le=100, description="JPEG quality of the reflectivity image lidar.jpeg."
    )
    camera_make: str = Field(
        default=AUTO,
        pattern=r"^[\x20-\x7e]*$",
        max_length=64,
        description="EXIF Make, the manufacturer of the camera. Empty omits the tag; auto writes the vendor "
        "of the device for its own topics (camera/h264, ...) and omits the tag for others.",
    )
    camera_model: str = Field(
        default=AUTO,
        pattern=r"^[\x20-\x7e]*$",
        max_length=64,
        description="EXIF Model of the camera. Empty omits the tag; auto is as for camera_make.",
    )
    sensor_width_mm: float | None = Field(
        default=None,
        gt=0.0,
        description="Width of the image sensor area that the picture shows. If given, EXIF gets FocalLength "
        "and FocalPlaneXResolution, whose product is the focal length of CameraInfo in pixels. "
        "FocalLengthIn35mmFilm is always written, as it does not depend on it.",
    )

    @field_validator("schema_version", mode="before")
    @classmethod
    def _unquoted(cls, value: object) -> object:
        """YAML reads 2026.10 without quotes as the number 2026.1."""
        return f"{value:.2f}" if isinstance(value, float) else value

    @model_validator(mode="after")
    def _elevations_ascend(self) -> EdgeFirstOptions:
        if not self.lidar_elevation_min_deg < self.lidar_elevation_max_deg:
            raise ValueError(
                f"lidar_elevation_min_deg {self.lidar_elevation_min_deg} must be less than "
                f"lidar_elevation_max_deg {self.lidar_elevation_max_deg}"
            )
        return self
