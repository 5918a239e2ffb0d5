"""Exports what reconstructions and splats begin with: COLMAP's text model, and nerfstudio's transforms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import ImageChops

from edgefirst_ros.corpus.cloud import ColouredCloud, Colours, inverted, ply
from edgefirst_ros.corpus.exporting import new_folder, write_new
from edgefirst_ros.corpus.places import Place, location, standing_in
from edgefirst_ros.corpus.survey import Pose, Survey, View, surveys
from edgefirst_ros.formats.scene import Points
from edgefirst_ros.model.camera import Intrinsics
from edgefirst_ros.model.errors import ConfigError, DatasetError
from edgefirst_ros.model.pictures import JPEG
from edgefirst_ros.model.transform import quaternion_of
from edgefirst_ros.model.untrusted import read_regular, refusing, safe_name
from edgefirst_ros.sources.location import Url

VOXEL_M = 0.1
_MOST_MASK_BYTES = 64 << 20
_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])
"""From a camera with y up and z backward to one with y down and z forward."""

Places = Place | Iterable[Place]


class Exported(NamedTuple):
    """A sequence that was exported.

    Attributes:
        folder: where.
        pictures: how many.
        points: of the cloud.
        unplaced: pictures that were left out, as nobody knows where the rig was.
    """

    folder: Path
    pictures: int
    points: int
    unplaced: int


class _Shot(NamedTuple):
    file: str
    mask: str
    camera: str
    lens: Intrinsics
    T_camera_world: Pose


def export_colmap(
    sources: Places,
    out: str | PathLike[str],
    *,
    masks: str | PathLike[str] | None = None,
    voxel_m: float = VOXEL_M,
) -> list[Exported]:
    """Write each sequence as a COLMAP project: pictures, masks, and a text model of cameras and points.

    ``out/SEQUENCE/images/CAMERA/NAME.jpg``, ``masks/CAMERA/NAME.jpg.png`` (0 is not used) and
    ``sparse/0/cameras.txt``, ``images.txt``, ``points3D.txt``. Cameras are PINHOLE, OPENCV, FULL_OPENCV or
    OPENCV_FISHEYE, the first that says all. The world has metres and z up; the cloud has a point of the
    lidar for each voxel, in the colour of a picture. If it fails, nothing is left of it.

    Args:
        sources: datasets with pictures and poses, folders above them, or a list of both, as paths or URLs.
        out: a new or empty folder.
        masks: a folder with CAMERA.png, not 0 where the vehicle is, for datasets that have none.
        voxel_m: edge of a voxel in metres.

    Raises:
        OutputExists: ``out`` is not empty.
        WriteError: the disk is full, or refuses.
        DatasetNotFound: there is no dataset.
        DatasetError: one is damaged, or does not say how its cameras see and where they are.
    """
    return _exported(sources, out, masks, voxel_m, _write_colmap)


def export_nerfstudio(
    sources: Places,
    out: str | PathLike[str],
    *,
    masks: str | PathLike[str] | None = None,
    voxel_m: float = VOXEL_M,
) -> list[Exported]:
    """Write each sequence for nerfstudio: pictures, masks, ``transforms.json`` and ``points3D.ply``.

    ``out/SEQUENCE/transforms.json`` has a frame for each picture: pose (4, 4) of the camera in the world (x
    right, y up, z backward, as OpenGL has it; metres, world z up), lens, and mask. Otherwise as
    ``export_colmap``.

    Raises:
        DatasetError: also if a lens is none of nerfstudio's, or pinhole and fisheye cameras are in one drive.
    """
    return _exported(sources, out, masks, voxel_m, _write_nerfstudio)


def _exported(sources: Places, out: Any, masks: Any, voxel_m: float, write: Any) -> list[Exported]:  # noqa: ANN401
    if not voxel_m > 0:
        raise ConfigError([f"voxel: expected more than 0 m, found {voxel_m:g}"])
    if masks is not None and not Path(masks).is_dir():
        raise ConfigError([f"masks: {masks}: no such folder"])
    given = [sources] if isinstance(sources, str | PathLike | Url) else [*sources]
    found: list[Exported] = []
    with new_folder(out) as folder, ExitStack() as stack:
        used: set[str] = set()
        places = map(location, given)
        paths = (
            stack.enter_context(standing_in(each, complete=True)) if isinstance(each, Url) else each
            for each in places
        )
        for survey in surveys(paths):
            name = safe_name(survey.name)
            while name in used:
                name += "_2"
            used.add(name)
            sequence = _Sequence(folder / name, None if masks is None else Path(masks))
            cloud = ColouredCloud(voxel_m)
            for each in survey:
                if isinstance(each, View):
                    sequence.take(each, survey)
                    cloud.see(each)
                else:
                    cloud.add(each)
            if not sequence.shots:
                raise DatasetError(
                    f"{survey.name}: no picture has a pose; convert recordings with GPS, IMU or odometry"
                )
            points, colours = cloud.result()
            write(sequence, points, colours)
            found.append(Exported(folder / name, len(sequence.shots), len(points), survey.unplaced))
    return found


class _Sequence:
    """Pictures and masks of a sequence, which are written as they come."""

    def __init__(self, folder: Path, masks: Path | None) -> None:
        self.folder, self._masks = folder, masks
        self.shots: list[_Shot] = []
        self._mask: dict[str, bytes | None] = {}

    def take(self, view: View, survey: Survey) -> None:
        ending = "jpg" if view.data.startswith(JPEG) else "png"
        camera = safe_name(view.camera)
        file = f"{camera}/{safe_name(view.name)}.{ending}"
        write_new(self.folder / "images" / file, view.data)
        if camera not in self._mask:
            self._mask[camera] = self._made(camera, survey.masks.get(view.camera, []), view.lens.size)
        mask = self._mask[camera]
        if mask is not None:
            write_new(self.folder / "masks" / f"{file}.png", mask)
        self.shots.append(_Shot(file, f"{file}.png" if mask else "", camera, view.lens, view.T_camera_world))

    def _made(self, camera: str, own: Sequence[bytes], size: tuple[int, int]) -> bytes | None:
        """The mask of a camera: what the dataset has, and the file of its name."""
        path = None if self._masks is None else self._masks / f"{camera}.png"
        found = list(own)
        if path is not None and path.is_file():
            found.append(read_regular(path, _MOST_MASK_BYTES))
        if not found:
            return None
        with refusing(path or camera, DatasetError, "cannot be used as a mask"):
            pictures = [inverted(png) for png in found]
            if any(each.size != size for each in pictures):
                raise DatasetError(
                    f"the mask of {camera} is not of {size[0]}x{size[1]} pixels, as its pictures"
                )
            whole = pictures[0]
            for each in pictures[1:]:
                whole = ImageChops.darker(whole, each)
            file = BytesIO()
            whole.save(file, "PNG")
            return file.getvalue()


def _write_colmap(sequence: _Sequence, points: Points, colours: Colours) -> None:
    lenses: dict[tuple[str, Intrinsics], int] = {}
    images = ["# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then its points: none"]
    for number, shot in enumerate(sequence.shots, 1):
        camera = lenses.setdefault((shot.camera, shot.lens), len(lenses) + 1)
        turned = shot.T_camera_world[:3, :3].T
        x, y, z, w = quaternion_of(turned).tolist()
        moved = (-turned @ shot.T_camera_world[:3, 3]).tolist()
        values = " ".join(f"{value:.12g}" for value in (w, x, y, z, *moved))
        images += [f"{number} {values} {camera} {shot.file}", ""]
    cameras = ["# CAMERA_ID MODEL WIDTH HEIGHT PARAMS"]
    for (_, lens), number in lenses.items():
        model, parameters = colmap_model(lens)
        values = " ".join(f"{value:.12g}" for value in parameters)
        cameras.append(f"{number} {model} {lens.size[0]} {lens.size[1]} {values}")
    cloud = ["# POINT3D_ID X Y Z R G B ERROR TRACK"]
    cloud += [
        f"{number} {x:.4f} {y:.4f} {z:.4f} {red} {green} {blue} 0"
        for number, ((x, y, z), (red, green, blue)) in enumerate(
            zip(points.tolist(), colours.tolist(), strict=True), 1
        )
    ]
    model_folder = sequence.folder / "sparse" / "0"
    for name, lines in (("cameras", cameras), ("images", images), ("points3D", cloud)):
        write_new(model_folder / f"{name}.txt", "\n".join(lines) + "\n")


def colmap_model(lens: Intrinsics) -> tuple[str, tuple[float, ...]]:
    """COLMAP's name of a lens, and its parameters.

    Raises:
        DatasetError: there is none.
    """
    plain = (*lens.focal_px, *lens.principal_px)
    own = (*lens.distortion, *(0.0,) * 12)[:12]
    if lens.is_fisheye:
        return "OPENCV_FISHEYE", (*plain, *own[:4])
    if any(own[8:]):
        raise DatasetError("COLMAP has no camera with a thin prism's distortion (s1 to s4)")
    if any(own[4:]):
        return "FULL_OPENCV", (*plain, *own[:8])
    return ("OPENCV", (*plain, *own[:4])) if any(own) else ("PINHOLE", plain)


def _write_nerfstudio(sequence: _Sequence, points: Points, colours: Colours) -> None:
    if len({shot.lens.is_fisheye for shot in sequence.shots}) > 1:
        raise DatasetError(f"{sequence.folder.name}: nerfstudio takes pinhole or fisheye cameras, not both")
    frames = []
    for shot in sequence.shots:
        frame: dict[str, Any] = {
            "file_path": f"images/{shot.file}",
            "transform_matrix": (shot.T_camera_world @ _OPENGL).tolist(),
            **_lens_json(shot.lens, sequence.folder.name),
        }
        if shot.mask:
            frame["mask_path"] = f"masks/{shot.mask}"
        frames.append(frame)
    fisheye = sequence.shots[0].lens.is_fisheye
    content = {
        "camera_model": "OPENCV_FISHEYE" if fisheye else "OPENCV",
        "ply_file_path": "points3D.ply",
        "frames": frames,
    }
    write_new(sequence.folder / "points3D.ply", ply(points, colours))
    write_new(sequence.folder / "transforms.json", json.dumps(content, indent=1))


def _lens_json(lens: Intrinsics, where: str) -> Mapping[str, float]:
    own = (*lens.distortion, *(0.0,) * 12)[:12]
    names = ("k1", "k2", "k3", "k4") if lens.is_fisheye else ("k1", "k2", "p1", "p2", "k3")
    if not lens.is_fisheye and any(own[5:]):
        raise DatasetError(
            f"{where}: transforms.json has no rational and no thin prism distortion; export colmap"
        )
    (fx, fy), (cx, cy), (width, height) = lens.focal_px, lens.principal_px, lens.size
    plain = {"fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy, "w": width, "h": height}
    return plain | dict(zip(names, own, strict=False))
