"""KITTI-like folders as an output format of edgefirst_ros, in a package of its own.

    pip install examples/kitti
    edgefirst-ros convert drive.mcap -o out --format kitti

A frame is a file in each of image_2 (.jpg), velodyne (.bin, float32: x, y, z in metres, intensity), calib
(.txt: the camera's projection P2) and oxts (.txt: latitude, longitude, altitude, roll, pitch, yaw).
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from edgefirst_ros.formats.crashsafe.names import (
    finished_path,
    free_name,
    old_path,
    part_path,
    remove,
    take_name,
)
from edgefirst_ros.formats.format import (
    EVERYTHING,
    Check,
    Findings,
    Format,
    LeftOut,
    Look,
    NoPlace,
    Recovery,
    Target,
    Written,
    below,
    concluded,
)
from edgefirst_ros.formats.scene import Detail, Moment, Scene, Scenes
from edgefirst_ros.model.errors import DatasetNotFound, DecodeError, OutputExists
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Role, Sample, SequenceInfo

FOLDERS = ("image_2", "velodyne", "calib", "oxts")


class KittiOptions(BaseModel):
    """What a user can choose: in YAML ``kitti: {digits: 10}``, as a ROS parameter ``kitti.digits``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    digits: int = Field(default=6, ge=1, le=20, description="Digits of a frame's number; KITTI raw has 10.")


class Frame(NamedTuple):
    """Topic and bytes of a sample's files, by folder and extension; why other topics have none."""

    files: dict[tuple[str, str], tuple[str, bytes]]
    refused: list[tuple[str, str]]


class KittiWriter:
    """Numbers the frames of all sequences and writes them into ``PATH.part``, which then gets its name."""

    name, unit = "kitti", "frames"
    warnings = notes = ()

    def __init__(self, path: Path, options: KittiOptions) -> None:
        self.path, self.part, self.options, self.frames = path, part_path(path), options, 0

    def begin(self, sequence: SequenceInfo) -> None:
        if not self.frames:
            remove(self.part)
        for folder in FOLDERS:
            (self.part / folder).mkdir(parents=True, exist_ok=True)

    def prepare(self, sample: Sample) -> Frame:
        frame, image, info = Frame({}, []), sample.image, sample.calibration.camera_info
        for role, measurement in sample.companions.items():
            topic, datum = measurement.topic, measurement.datum
            try:
                if role is Role.CAMERA and image:
                    frame.files["image_2", "jpg" if image.format == "jpeg" else "png"] = topic, image.data
                elif role is Role.LIDAR_POINTS and isinstance(datum, PointCloud):
                    frame.files["velodyne", "bin"] = topic, velodyne(datum)
                else:
                    frame.refused.append((topic, NoPlace(f"KITTI has no file for {role}")))
            except DecodeError as error:
                frame.refused.append((topic, str(error)))
        if info is not None:
            frame.files["calib", "txt"] = "", line("P2:", *info.p.ravel().tolist())
        where, rpy = sample.ego.location, sample.ego.rpy_deg
        place = (where.latitude_deg, where.longitude_deg, where.altitude_m) if where else (math.nan,) * 3
        # The last file of a frame: one without it was not committed.
        frame.files["oxts", "txt"] = "", line(*place, *map(math.radians, rpy or (math.nan,) * 3))
        return frame

    def write(self, prepared: Frame) -> Written:
        files, refused = prepared
        if not any(folder == "image_2" for folder, _ in files):
            return Written(refused=tuple(refused), left_out=LeftOut("unusable", "sample without a picture"))
        for (folder, end), (_, data) in files.items():
            (self.part / folder / f"{self.frames:0{self.options.digits}d}.{end}").write_bytes(data)
        self.frames += 1
        stored = {topic: len(data) for topic, data in files.values() if topic}
        return Written(stored, sum(len(data) for _, data in files.values()), tuple(refused))

    def close(self) -> list[Path]:
        if not self.frames:
            remove(self.part)
            return []
        take_name(self.path)
        remove(old_path(self.path))
        return [self.path]

    def abort(self) -> None: ...


def line(*words: str | float) -> bytes:
    return (" ".join(map(str, words)) + "\n").encode()


def velodyne(cloud: PointCloud) -> bytes:
    intensity = cloud.column("intensity") if cloud.has("intensity") else np.zeros(len(cloud.points))
    return np.column_stack([cloud.xyz(), intensity]).astype("<f4").tobytes()


class KittiScenes(Scenes):
    """What there is to see of a dataset: for pages of reports and contact sheets."""

    def __init__(self, path: Path, files: list[tuple[Path, Path]]) -> None:
        self.path, self.files = path, files

    def moments(self) -> list[Moment]:
        return [Moment(self.path.name, number) for number in range(len(self.files))]

    def scene(self, moment: Moment, detail: Detail = Detail.PICTURE) -> Scene:
        picture, cloud = self.files[moment.frame or 0]
        scene = Scene(moment, picture.read_bytes(), name=picture.stem)
        if cloud.exists():
            scene.points = np.fromfile(cloud, "<f4").reshape(-1, 4)[:, :3].astype(float)
        return scene


class KittiFormat(Format[KittiOptions]):
    """What commands, configuration and ROS nodes know of it."""

    name = "kitti"
    options = KittiOptions
    nothing = "nothing was written: no sample had a picture"

    def writer(self, options: KittiOptions, target: Target) -> KittiWriter:
        path = target.root / target.dataset
        if not target.overwrite and (path.exists() or part_path(path).exists()):
            raise OutputExists(f"{path} exists, finished or not: choose another name or allow overwriting")
        return KittiWriter(path, options)

    def find(self, path: Path) -> list[Path]:
        return sorted({finished_path(oxts.parent) for oxts in below(path, "oxts")})

    def recover(self, path: Path, *, complete: bool = False) -> Recovery:
        part, done = part_path(path), free_name(path) if path.exists() and not complete else path
        if not part.exists():
            return Recovery(path, was_finished=True, paths=(path,))
        committed = {file.stem for file in part.glob("oxts/*") if file.read_bytes().endswith(b"\n")}
        for torn in (file for file in part.glob("*/*") if file.stem not in committed):
            torn.unlink()
        part.rename(done)
        return Recovery(done, kept=Counter(frames=len(committed)), paths=(done,))

    def check(self, path: Path, *, official_python: Path | None = None, look: Look = EVERYTHING) -> Check:
        findings, names = Findings(), {name: {p.stem for p in path.glob(f"{name}/*")} for name in FOLDERS}
        if part_path(path).exists():
            findings.error(part_path(path).name, "unfinished; edgefirst-ros recover can finish it")
        for name in sorted(names["oxts"] ^ names["image_2"]):
            findings.error(name, "has no picture or no pose")
        return concluded(self.name, path.name, findings, {name: len(files) for name, files in names.items()})

    def scenes(self, path: Path) -> KittiScenes:
        return KittiScenes(path, self.read(path))

    def read(self, path: Path) -> list[tuple[Path, Path]]:
        if not (path / "image_2").is_dir():
            raise DatasetNotFound(f"{path}: no KITTI folder")
        return [(p, path / "velodyne" / f"{p.stem}.bin") for p in sorted(path.glob("image_2/*"))]
