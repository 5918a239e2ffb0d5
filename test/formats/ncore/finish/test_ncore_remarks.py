"""What the user is told of an output that is other than it seems: assumed calibration, masks of no use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ncoremade import (
    CALIBRATION,
    CAMERA_INFO,
    HEIGHT,
    SEQUENCE,
    START_NS,
    WIDTH,
    camera,
    lidar,
    observation,
    radar,
)
from ncoreread import Sequence
from PIL import Image

from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import Calibration, Observation, Role

MS = 1_000_000
START_US = START_NS // 1000


def write(root: Path, steps: Iterable[Observation], **options: object) -> tuple[Sequence, NCoreWriter]:
    writer = NCoreWriter(root, NCoreOptions(**options))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in steps:
        assert not writer.write(writer.prepare(step)).refused
    writer.close()
    return Sequence(root / SEQUENCE.name), writer


def said(writer: NCoreWriter, *words: str) -> list[str]:
    """The warnings that have all these words."""
    return [warning for warning in writer.warnings if all(word in warning for word in words)]


def tile(frame_id: str, ms: int = 0, calibration: Calibration = CALIBRATION) -> Observation:
    found = camera(START_NS + ms * MS, calibration=calibration)
    return replace(found, measurement=found.measurement._replace(frame_id=frame_id))


def test_what_no_transform_places_is_a_warning_each_once(tmp_path: Path) -> None:
    nothing = Calibration(camera_info=CAMERA_INFO)
    steps = [
        make(START_NS + at * MS, calibration=nothing) for at in (0, 400) for make in (camera, lidar, radar)
    ]
    _, writer = write(tmp_path, steps)
    for name, how in (("camera_optical", "facing forward"), ("lidar", ""), ("radar", "")):
        assert len(said(writer, f"no transform for {name} ", "origin of the rig", how)) == 1
        assert said(writer, f"no transform for {name} ", "publish one from base_link, or set rig_frame")
    _, writer = write(tmp_path / "placed", [camera(START_NS), lidar(START_NS), radar(START_NS)])
    assert not said(writer, "no transform")
    assert not said(writer, "intrinsics")


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (None, "no CameraInfo"),
        (replace(CAMERA_INFO, width=640, height=640), "another aspect ratio"),
        (replace(CAMERA_INFO, distortion_model="mei"), "distortion model mei is not supported"),
        (replace(CAMERA_INFO, k=np.zeros((3, 3))), "without focal length"),
    ],
)
def test_intrinsics_that_are_assumed_are_a_warning(info: object, reason: str, tmp_path: Path) -> None:
    unsure = replace(CALIBRATION, camera_info=info)  # type: ignore[arg-type]
    steps = [camera(START_NS + at * MS, calibration=unsure) for at in (0, 50)]
    sequence, writer = write(tmp_path, steps)
    assert len(said(writer, "intrinsics of camera_optical are assumed", reason)) == 1
    meta = sequence.attributes("intrinsics/default")["generic_meta_data"]
    assert reason in meta["assumed"]["camera_optical"]


@pytest.mark.parametrize(("by", "warns"), [(1.001, False), (1.2, True)])
def test_a_calibration_that_changes_is_a_warning(by: float, tmp_path: Path, *, warns: bool) -> None:
    zoomed = replace(CAMERA_INFO, k=CAMERA_INFO.k * [[by], [by], [1.0]])
    infos = (CAMERA_INFO, CAMERA_INFO, zoomed)
    steps = [
        camera(START_NS + at * 50 * MS, calibration=replace(CALIBRATION, camera_info=info))
        for at, info in enumerate(infos)
    ]
    _, writer = write(tmp_path, steps)
    assert len(said(writer, "CameraInfo of camera_optical changed: fx ", "the newest is taken")) == warns
    assert len(said(writer, "CameraInfo")) == warns


def test_a_scaled_calibration_is_a_note(tmp_path: Path) -> None:
    info = replace(CAMERA_INFO, width=2 * WIDTH, height=2 * HEIGHT)
    steps = [camera(START_NS, calibration=replace(CALIBRATION, camera_info=info))]
    _, writer = write(tmp_path, steps)
    assert not said(writer, "intrinsics")
    (note,) = writer.notes
    assert f"camera_optical follow from its CameraInfo: scaled from {2 * WIDTH}x{2 * HEIGHT}" in note


def test_a_camera_without_calibration_has_the_field_of_view_that_is_assumed(tmp_path: Path) -> None:
    steps = [camera(START_NS, calibration=replace(CALIBRATION, camera_info=None))]
    sequence, writer = write(tmp_path, steps)
    model = sequence.attributes("intrinsics/default/cameras/camera_optical")["camera_model_parameters"]
    assert model["focal_length"] == pytest.approx([WIDTH / 2 / np.tan(np.radians(40))] * 2)
    assert said(writer, "no CameraInfo")


def test_a_tile_is_where_its_camera_is_and_shows_its_quarter(tmp_path: Path) -> None:
    whole = replace(CAMERA_INFO, width=2 * WIDTH, height=2 * HEIGHT)
    k = whole.k * [[2], [2], [1]] + [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]
    calibration = replace(CALIBRATION, camera_info=replace(whole, k=k))
    sequence, writer = write(tmp_path, [tile("camera_optical_bottomright", calibration=calibration)])
    name = "camera_optical_bottomright"
    assert np.allclose(sequence.pose(name, "rig"), sequence.pose("camera_optical", "rig"))
    parameters = sequence.attributes(f"intrinsics/default/cameras/{name}")["camera_model_parameters"]
    assert parameters["resolution"] == [WIDTH, HEIGHT]
    assert parameters["principal_point"] == [k[0, 2] + 0.5 - WIDTH, k[1, 2] + 0.5 - HEIGHT]
    assert parameters["focal_length"] == [k[0, 0], k[1, 1]]
    assert not said(writer, "no transform")
    assert any("the quarter br" in note for note in writer.notes)


def test_a_camera_that_only_sounds_like_a_tile_stays_itself(tmp_path: Path) -> None:
    """A rig's camera at the top left has a transform of its own."""
    own = replace(
        CALIBRATION.transforms["camera_optical"], child="camera_top_left", translation_m=(0.0, 0.7, 2.0)
    )
    rig = replace(CALIBRATION, transforms={**CALIBRATION.transforms, "camera_top_left": own})
    sequence, writer = write(tmp_path, [tile("camera_top_left", calibration=rig)])
    assert sequence.pose("camera_top_left", "rig")[:3, 3] == pytest.approx([0.0, 0.7, 2.0])
    parameters = sequence.attributes("intrinsics/default/cameras/camera_top_left")["camera_model_parameters"]
    assert parameters["principal_point"] == [32.0, 24.0]
    assert not writer.notes


def test_of_a_second_devices_sensors_it_is_said_what_places_that_device(tmp_path: Path) -> None:
    own = replace(CALIBRATION.transforms["camera_optical"], parent="rear/base_link", child="rear/camera")
    two = replace(CALIBRATION, transforms={**CALIBRATION.transforms, "rear/camera": own})
    _, writer = write(tmp_path, [tile("rear/camera", calibration=two)])
    (told,) = said(writer, "no transform for rear_camera ")
    assert (
        "publish one from base_link to rear/base_link, give mount.xyz_m to the tf entry with frame_prefix "
        "rear, or" in told
    )


def mask(path: Path, size: tuple[int, int]) -> Path:
    Image.new("L", size, 255).save(path)
    return path


def test_a_mask_of_another_size_ends_the_run_at_the_first_picture(tmp_path: Path) -> None:
    png = mask(tmp_path / "hood.png", (32, 24))
    writer = NCoreWriter(tmp_path / "out", NCoreOptions(ego_masks={"camera_optical": {"hood": png}}))
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(lidar(START_NS)))
    with pytest.raises(ConfigError) as caught:
        writer.write(writer.prepare(camera(START_NS + MS)))
    writer.abort()
    for part in (
        "ncore.ego_masks.camera_optical.hood",
        str(png),
        "32x24",
        f"{WIDTH}x{HEIGHT}",
        "make the mask",
    ):
        assert part in str(caught.value)


def test_a_mask_of_a_camera_that_never_came_is_a_warning(tmp_path: Path) -> None:
    png = mask(tmp_path / "hood.png", (WIDTH, HEIGHT))
    masks = {"camera_optical": {"hood": png}, "rear": {"tow_bar": png}}
    sequence, writer = write(tmp_path / "out", [camera(START_NS)], ego_masks=masks)
    (told,) = said(writer, "ego_masks")
    assert "names the camera rear, which sent no picture; cameras: camera_optical" in told
    assert sequence.attributes("masks/default/cameras/camera_optical") == {"mask_names": ["hood"]}


def test_a_mask_of_pictures_that_changed_their_size_is_left_out_and_said(tmp_path: Path) -> None:
    png = mask(tmp_path / "hood.png", (WIDTH, HEIGHT))
    writer = NCoreWriter(tmp_path / "out", NCoreOptions(ego_masks={"camera_optical": {"hood": png}}))
    for number, size in enumerate(((WIDTH, HEIGHT), (32, 24))):
        writer.begin(replace(SEQUENCE, name=f"s{number}"))
        writer.write(writer.prepare(camera(START_NS + number * MS, size=size)))
    writer.close()
    (told,) = said(writer, "hood is left out")
    assert told.startswith("s1:")
    assert "32x24" in told
    names = [
        Sequence(tmp_path / "out" / f"s{number}").attributes("masks/default/cameras/camera_optical")
        for number in (0, 1)
    ]
    assert names == [{"mask_names": ["hood"]}, {"mask_names": []}]


def depth(pixels: np.ndarray, picture: tuple[int, int] | None) -> Observation:
    kind = "16UC1" if pixels.dtype == np.uint16 else "32FC1"
    found = observation(Role.DEPTH, "/camera/depth", START_NS, RawImage(kind, pixels), "camera_optical")
    return replace(found, picture=picture)
