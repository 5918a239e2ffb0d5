"""Calibration of a camera as ROS's camera_calibration writes it: a YAML file, or what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, ValidationError

from edgefirst_ros.model.camera import CameraInfo, plausible_camera_info
from edgefirst_ros.model.errors import ConfigError, DecodeError, sentences, shown
from edgefirst_ros.model.untrusted import read_regular, readable

_MOST_BYTES = 1 << 16
"""Such a file has some hundred numbers."""
_SHOWN = 3
"""Faults of a file that are told at once."""
_COEFFICIENTS: Mapping[str, tuple[int, ...]] = {
    "plumb_bob": (4, 5),
    "rational_polynomial": (8, 12, 14),
    "equidistant": (4,),
}
"""How many a distortion has, by its model."""
Side = Annotated[int, Field(ge=1, le=65_535)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class _Matrix(BaseModel):
    rows: Annotated[int, Field(ge=0, le=14)]
    cols: Annotated[int, Field(ge=0, le=14)]
    data: Annotated[tuple[Number, ...], Field(max_length=14)]

    def array(self, name: str, *shape: int) -> npt.NDArray[np.float64]:
        """The numbers in this shape.

        Raises:
            ValueError: they have another; begins with the name.
        """
        if (self.rows, self.cols) != shape or len(self.data) != self.rows * self.cols:
            wanted, size = "x".join(map(str, shape)), f"{self.rows}x{self.cols}"
            raise ValueError(f"{name}: expected {wanted} numbers, found {len(self.data)} as {size}")
        return np.array(self.data, np.float64).reshape(shape)


class CameraFile(BaseModel):
    """What such a file holds; other names in it, such as the camera's, have no use here."""

    image_width: Side
    image_height: Side
    camera_matrix: _Matrix
    distortion_model: Literal["plumb_bob", "rational_polynomial", "equidistant"]
    distortion_coefficients: _Matrix
    rectification_matrix: _Matrix | None = None
    projection_matrix: _Matrix | None = None

    def camera_info(self) -> CameraInfo:
        """The same as a message says it.

        Raises:
            ValueError: it is of no camera; names what is wrong.
        """
        k, d = self.camera_matrix.array("camera_matrix", 3, 3), self.distortion_coefficients
        counts = _COEFFICIENTS[self.distortion_model]
        if len(d.data) not in counts or len(d.data) != d.rows * d.cols:
            wanted, found = " or ".join(map(str, counts)), f"{len(d.data)} as {d.rows}x{d.cols}"
            raise ValueError(f"distortion_coefficients: {self.distortion_model} has {wanted}, found {found}")
        if min(k[0, 0], k[1, 1]) <= 0:
            raise ValueError("camera_matrix: no focal length, expected fx and fy above 0")
        r, p = self.rectification_matrix, self.projection_matrix
        info = CameraInfo(
            width=self.image_width,
            height=self.image_height,
            distortion_model=self.distortion_model,
            d=d.data,
            k=k,
            r=np.eye(3) if r is None else r.array("rectification_matrix", 3, 3),
            p=np.hstack([k, np.zeros((3, 1))]) if p is None else p.array("projection_matrix", 3, 4),
        )
        try:
            return plausible_camera_info(info)
        except DecodeError as error:
            raise ValueError(str(error).replace("CameraInfo", "camera_matrix")) from error


def camera_file(value: object) -> CameraFile | None:
    """The calibration of a file of this name, or of values; None for none.

    Raises:
        ValueError: there is none, or it is of no camera; names the file and what in it is wrong.
    """
    if isinstance(value, CameraFile):
        return value
    if value is None or value == "":
        return None
    if not isinstance(value, str | Path | dict):
        raise ValueError(f"expected the name of a file, found {shown(value)}")  # noqa: TRY004 - pydantic's
    from edgefirst_ros.config.yamltext import yaml_mapping  # noqa: PLC0415 - most configurations name none

    name = "" if isinstance(value, dict) else f"{readable(str(value))}: "
    try:
        values = value if isinstance(value, dict) else yaml_mapping(name[:-2], _read(Path(value), name))
        found = CameraFile.model_validate(values)
        found.camera_info()
    except ConfigError as error:
        raise ValueError("; ".join(error.faults)) from error
    except ValidationError as error:
        raise ValueError(f"{name}{'; '.join(sentences(error, CameraFile)[:_SHOWN])}") from error
    except ValueError as error:
        raise ValueError(f"{name}{error}") from error
    return found


def _read(path: Path, name: str) -> bytes:
    try:
        return read_regular(path, _MOST_BYTES)
    except OSError as error:
        raise ConfigError([f"{name}cannot be read: {error.strerror or error}"]) from error
