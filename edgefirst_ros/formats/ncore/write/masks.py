"""Ego masks: which part of each camera's picture is the vehicle itself."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from edgefirst_ros.errors import ConfigError, DatasetError
from edgefirst_ros.formats.ncore.finish.remarks import Remarks
from edgefirst_ros.model.untrusted import read_regular, refusing

_MOST_BYTES = 64 << 20
"""A larger mask is not read."""

Size = tuple[int, int]


class EgoMasks:
    """The ego masks of all cameras, read when the writer is made.

    Attributes:
        data: PNG by camera and name.

    Args:
        paths: by camera and name.

    Raises:
        ConfigError: naming every mask that is not a readable PNG file.
    """

    def __init__(self, paths: Mapping[str, Mapping[str, Path]]) -> None:
        self.data: dict[str, dict[str, bytes]] = {}
        self._paths = paths
        self._sizes: dict[tuple[str, str], Size] = {}
        self._came: set[str] = set()
        faults = []
        for camera, named in paths.items():
            for name, path in named.items():
                where = f"ego_masks.{camera}.{name}: {path}"
                try:
                    with refusing(where, DatasetError, "is not a readable PNG file"):
                        png = read_regular(path, _MOST_BYTES)
                        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
                            self._sizes[camera, name] = image.size
                            image.verify()
                except DatasetError as error:
                    faults.append(str(error))
                else:
                    self.data.setdefault(camera, {})[name] = png
        if faults:
            raise ConfigError(faults)

    def check(self, camera: str, size: Size) -> None:
        """The first picture of a camera is here; later sequences leave masks of another size out.

        Raises:
            ConfigError: naming every mask of the camera that is of another size.
        """
        if camera in self._came:
            return
        self._came.add(camera)
        faults = [
            f"ncore.ego_masks.{camera}.{name}: {self._paths[camera][name]} is {width}x{height}, the pictures "
            f"of {camera} are {size[0]}x{size[1]}; make the mask of that size"
            for (owner, name), (width, height) in self._sizes.items()
            if owner == camera and (width, height) != size
        ]
        if faults:
            raise ConfigError(faults)

    def remark(self, remarks: Remarks) -> None:
        """Warn of masks whose camera sent no picture."""
        there = ", ".join(sorted(self._came)) or "none"
        for camera in sorted(self._paths.keys() - self._came):
            remarks.warn(
                f"ncore.ego_masks names the camera {camera}, which sent no picture; cameras: {there}"
            )
