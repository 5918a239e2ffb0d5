"""What is known of each sensor: the name of its instance, ego mask, scale of intensity."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from edgefirst_ros.formats.ncore.finish.facts import Remarks
from edgefirst_ros.formats.ncore.poses import RIG, WORLD, WORLD_GLOBAL
from edgefirst_ros.formats.ncore.prepare.parts import (
    COMPRESSOR,
    LONGEST_NAME,
    Intensity,
    Json,
    safe_instance_name,
)
from edgefirst_ros.formats.ncore.prepare.scans import scaled_intensity
from edgefirst_ros.formats.zarr2 import Record, array_records, under
from edgefirst_ros.model.errors import ConfigError, DatasetError
from edgefirst_ros.model.pointcloud import float_scale
from edgefirst_ros.model.transform import bare
from edgefirst_ros.model.untrusted import read_regular, refusing

_TAKEN = {RIG, WORLD, WORLD_GLOBAL}


class InstanceNames:
    """Gives every topic its instance name and remembers it from one sequence to the next."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._frames: dict[str, tuple[str, str]] = {}
        self._by_cube: set[str] = set()

    def sensor(self, component: str, topic: str, frame_id: str, role_name: str) -> str:
        """Name of a sensor: its frame, or its role where it has no frame."""
        if (component, topic) not in self._names:
            name = self.unique(bare(frame_id) or role_name)
            self._names[component, topic] = name
            self._frames[name] = (component, bare(frame_id))
        return self._names[component, topic]

    def same_frame(self, component: str, frame_id: str) -> list[str]:
        """Sensors of a component that have this frame; all of them if none has it."""
        mine = {name: frame for name, (kind, frame) in self._frames.items() if kind == component}
        return [name for name, frame in mine.items() if frame and frame == bare(frame_id)] or list(mine)

    def radar(self, topic: str, frame_id: str, *, cube: bool = False) -> str:
        """Name of the radar that sends scans or cubes; those of one frame belong to the same radar."""
        if ("radars", topic) not in self._names:
            mates = self.same_frame("radars", frame_id)
            mates = mates if cube else [name for name in mates if name in self._by_cube]
            if mates:
                self._names["radars", topic] = mates[0]
            elif cube:
                self._by_cube.add(self.sensor("radars", topic, frame_id, "radar"))
            if not cube:
                self._by_cube.discard(self._names.get(("radars", topic), ""))
        return self.sensor("radars", topic, frame_id, "radar")

    def other(self, component: str, topic: str, wanted: str) -> str:
        """Name of an instance that is not a sensor."""
        if (component, topic + wanted) not in self._names:
            self._names[component, topic + wanted] = self.unique(wanted)
        return self._names[component, topic + wanted]

    def unique(self, wanted: str) -> str:
        """The name made safe, with a number behind it if it is taken."""
        safe = safe_instance_name(wanted)
        taken = _TAKEN | set(self._names.values())
        name, number = safe, 2
        while name in taken:
            name, number = f"{safe[: LONGEST_NAME - 4]}_{number}", number + 1
        return name


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


@dataclass(slots=True)
class _Seen:
    """What a lidar has sent so far."""

    field: str
    dtype: str
    scale: float | None
    learnt: bool
    largest: float = 0.0
    outside: int = 0


class LidarScales:
    """One scale per lidar for a whole run; once learnt from a float field, later sweeps do not change it."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def scaled(self, name: str, intensity: Intensity | None) -> Sequence[Record]:
        """Intensity records, below the frame, of a sweep whose scale has to be learnt; else none."""
        if intensity is None:
            return ()
        learnt = intensity.scale is None
        seen = self._seen.setdefault(name, _Seen(intensity.field, intensity.dtype, intensity.scale, learnt))
        seen.largest = max(seen.largest, intensity.largest)
        if not learnt:
            seen.outside += intensity.outside
            return ()
        if seen.scale is None and intensity.largest > 0:
            seen.scale = float_scale(intensity.largest)
        scale = seen.scale or 1.0
        sent = np.frombuffer(intensity.values, np.float32)
        seen.outside += int(np.count_nonzero((sent < 0) | (sent > scale)))
        values = scaled_intensity(intensity.values, scale)
        values = values.reshape(intensity.returns, -1)
        return under("ray_bundle_returns", array_records("intensity", values, COMPRESSOR))

    def learnt(self, name: str) -> Json:
        """Metadata of a learnt scale; empty if it was known from the type, or is not known yet."""
        seen = self._seen.get(name)
        if seen is None or not seen.learnt or seen.scale is None:
            return {}
        how = f"{seen.dtype}; the least of 1, 255 and 65535 that holds the first sweep's values"
        return {"intensity_max": seen.scale, "intensity_scale": how}

    def remark(self, remarks: Remarks) -> None:
        """Warn of clipped intensities, and note scales that were learnt."""
        for name, seen in self._seen.items():
            if seen.outside:
                remarks.warn(
                    f"{seen.outside} intensities of {name} were clipped: its {seen.field} reached "
                    f"{seen.largest:g}, above the full scale of {seen.scale or 1:g}"
                )
            elif seen.learnt and seen.scale is not None:
                remarks.note(
                    f"the {seen.field} of {name} is {seen.dtype}; {seen.scale:g} is taken as full scale"
                )
