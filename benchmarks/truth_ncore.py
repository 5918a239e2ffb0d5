"""NCore: boxes in their pictures, tiles in their camera's place, what is assumed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scenarios import Figure, at_least, at_most, driven, exactly, scenario, seconds

from edgefirst_ros.offline.convert import Conversion

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHON = REPOSITORY / ".venv-ncore" / "bin" / "python"
ORACLE = REPOSITORY / "test" / "oracles" / "ncore_places.py"

Arrays = dict[str, npt.NDArray[Any]]


def places(done: Conversion, folder: Path) -> Arrays:
    """Where NVIDIA's own reader places everything.

    Raises:
        FileNotFoundError: its interpreter is not there.
    """
    if not PYTHON.exists():
        raise FileNotFoundError(f"{PYTHON}: needs nvidia-ncore; run make oracles")
    (meta,) = (path for path in done.paths if path.suffix == ".json" and path.parent.parent.name == "ncore")
    subprocess.run([str(PYTHON), str(ORACLE), str(meta), str(folder / "places.npz")], check=True)
    with np.load(folder / "places.npz") as arrays:
        return dict(arrays)


def said(done: Conversion, *words: str) -> int:
    """How many warnings have one of these words."""
    return sum(any(word in warning for word in words) for warning in done.report["warnings"])


@scenario("ncore-boxes", "2-D boxes are in the generic data of their picture")
def boxes(folder: Path) -> Iterator[Figure]:
    """Every message of the model against the true rectangles at the time of the picture it is with."""
    done, truth = driven(folder, ["ncore"], seconds=seconds(6.0), model_hz=7.5)
    arrays = places(done, folder)
    tracks = {box.track_id: index for index, box in enumerate(truth.world.boxes)}
    times = truth.true_ns("/camera/h264")
    errors, answered, wrong = [0.0], 0, 0
    for frame, time_us in enumerate(arrays["camera_times_us"].tolist()):
        if f"boxes2d_{frame}" not in arrays:
            continue
        answered += 1
        shown_ns = int(times[np.abs(times - time_us * 1000).argmin()])
        found = (arrays[f"{name}_{frame}"] for name in ("boxes2d", "boxes2d_label", "boxes2d_track_id"))
        for corners, label, track in zip(*found, strict=True):
            true = truth.box_in_image(tracks[track], shown_ns)
            wrong += true is None or label != truth.world.boxes[tracks[track]].label
            errors.append(np.inf if true is None else float(np.abs(np.subtract(true, corners)).max()))
    sent = truth.data["counts"]["/model/output"]
    yield exactly("messages with their picture", answered, sent, f"of {sent}")
    yield at_least("boxes", len(errors) - 1, 20)
    yield at_most("corner, largest", max(errors), 0.05, "px")
    yield exactly("wrong labels", wrong, 0)
    yield exactly("written", done.report["topics"]["/model/output"]["written"], sent)


@scenario("ncore-tiles", "a 4K picture of tiles has its camera's place and intrinsics")
def tiles(folder: Path) -> Iterator[Figure]:
    """The camera of the sequence against the mount and the pinhole of the simulator."""
    done, truth = driven(folder, ["ncore"], seconds=seconds(2.0), tiles=True)
    arrays = places(done, folder)
    camera = truth.world.camera
    (mount,) = (mount for mount in truth.world.mounts if mount.child == "camera_optical")
    T_rig_camera = np.linalg.inv(arrays["T_rig_world"]) @ arrays["T_camera_world"]
    off_m = np.linalg.norm(T_rig_camera[:, :3, 3] - mount.translation_m, axis=1).max()
    off_px = np.abs(arrays["principal_point"] - np.array(camera.center_px) - 0.5).max()
    yield at_most("camera from its mount", off_m, 1e-4, "m")
    yield at_most("principal point", off_px, 1e-3, "px")
    yield at_most("focal length", np.abs(arrays["focal_length"] - camera.focal_px).max(), 1e-3, "px")
    yield exactly("assumptions warned of", said(done, "no transform", "are assumed"), 0)


@scenario("ncore-assumed", "whatever is assumed of a sensor's place or intrinsics is a warning")
def assumed(folder: Path) -> Iterator[Figure]:
    """A drive that says nothing of where its sensors are, nor of its camera."""
    silent = {"tf_static": ((0.0, 1e6),), "camera/info": ((0.0, 1e6),)}
    done, _ = driven(folder, ["ncore"], seconds=seconds(2.0), silent=silent)
    sensors: Sequence[str] = ("camera_optical", "lidar", "radar")
    for sensor in sensors:
        yield exactly(f"place of {sensor}", said(done, f"no transform for {sensor} "), 1)
    yield exactly("intrinsics", said(done, "the intrinsics of camera_optical are assumed: no CameraInfo"), 1)
