"""Depth whose view is no other camera's is a camera of its own, by what is suggested and in every format."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from livedrive import live_and_converted
from ncoreread import Sequence
from oracle import NCORE_PYTHON, run_ncore
from PIL import Image
from recorded import record
from robots import NONE, Robot, as_tf, camera, dropped, instead_of, robot, seconds
from written import Written

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.sources.suggest import Look, Suggestion

COLOUR, DEPTH, ALIGNED = "/cam/color/image_raw", "/cam/depth/image_rect_raw", "/cam/aligned_depth/image_raw"
WIDTH, HEIGHT = 320, 180
FAR = 3
"""Pixels of a picture that are farther than 16 bits of millimetres say."""


def metres(number: int) -> npt.NDArray[np.float32]:
    """A picture of each kind of value."""
    made = np.random.default_rng(number).uniform(0.3, 60.0, (HEIGHT, WIDTH)).astype(np.float32)
    made[0, :8] = (np.nan, np.inf, -np.inf, -1.0, 65.535, 70.0, 1e4, 3e38)
    return made


def millimetres(number: int) -> npt.NDArray[np.uint16]:
    known = np.rint(metres(number)[1:].astype(np.float64) * 1000).astype(np.uint16)
    first = np.rint(metres(number)[:1].astype(np.float64) * 1000)
    first[0, :8] = (0, 0, 0, 0, 65535, 65535, 65535, 65535)
    return np.vstack([first.astype(np.uint16), known])


def as_depth(
    message: RawMessage, topic: str, number: int, *, frame: str = "", whole: bool = False
) -> RawMessage:
    stamp_ns, own, _ = decode(message)
    pixels = millimetres(number).astype("<u2") if whole else metres(number)
    values = {
        "header": {"stamp": seconds(stamp_ns), "frame_id": frame or own},
        "height": HEIGHT, "width": WIDTH, "encoding": "16UC1" if whole else "32FC1",
        "step": pixels[0].nbytes, "data": pixels.tobytes(),
    }  # fmt: skip
    return instead_of(message, topic, "sensor_msgs/Image", values)


@cache
def recorded(*, colour: bool = True, whole: bool = False) -> Robot:
    """A stereo camera: colour, depth with calibration and frame of its own, and depth moved to colour."""
    numbers = iter(range(1000))

    def sent(message: RawMessage) -> Iterator[RawMessage]:
        number = next(numbers)
        yield as_depth(message, DEPTH, number, whole=whole)
        if colour:
            yield as_depth(message, ALIGNED, number, frame="cam_rgb_optical", whole=True)

    cameras = (
        camera(COLOUR[1:], 0.0, "cam_rgb_optical", "cam/color/camera_info"),
        camera(DEPTH[1:], 30.0, "cam_depth_optical", "cam/depth/camera_info", codec="raw"),
    )
    changes = {**NONE, "/lidar/points": dropped, "/tf_static": as_tf("/tf_static"), DEPTH: sent}
    return Robot(robot(changes, more=cameras[not colour :], seconds=1.0), {}, COLOUR if colour else DEPTH)


def suggested(made: Robot) -> Suggestion:
    look = Look((message.topic, message.schema) for message in made.content)
    for message in made.content:
        look.feed(message)
    return look.suggestion("robot")


def config_of(made: Robot, **more: Any) -> Config:  # noqa: ANN401
    return build_config({**suggested(made).values, "formats": ["edgefirst", "ncore"], **more})


def test_which_of_the_two_depth_is_and_why_is_said() -> None:
    found = suggested(recorded())
    topics = found.values["topics"]
    own, label = topics["depth_camera"], topics["depth"]
    assert (own["role"], own["topic"], own["sixteen_bits"]) == ("camera", DEPTH, "depth")
    assert topics["depth_camera_info"]["topic"] == "/cam/depth/camera_info"
    assert topics["depth_camera_info"]["sensor"] == "depth_camera"
    assert (label["role"], label["topic"]) == ("depth", ALIGNED)
    assert "sixteen_bits" not in label
    assert topics[build_config(found.values).reference]["topic"] == COLOUR
    assert "depth of a camera of its own, as no other is in its frame" in found.text
    assert f"depth of the view of {COLOUR}, as it is in its frame" in found.text


READ = """
import hashlib, json, sys
import numpy as np
from ncore.data.v4 import CameraSensorComponent, SequenceComponentGroupsReader, SequenceLoaderV4
reader = SequenceComponentGroupsReader([sys.argv[1]])
component = reader.open_component_readers(CameraSensorComponent.Reader)["cam_depth_optical"]
loader = SequenceLoaderV4(reader)
camera = loader.get_camera_sensor("cam_depth_optical")
pictures = [np.asarray(camera.get_frame_image(frame)) for frame in range(camera.frames_count)]
print(json.dumps({
    "kinds": [[str(each.dtype), *each.shape] for each in pictures],
    "digests": [hashlib.sha256(each.astype("<u2").tobytes()).hexdigest() for each in pictures],
    "meta": component.generic_meta_data,
    "resolution": np.asarray(camera.model_parameters.resolution).tolist(),
    "place": np.asarray(camera.T_sensor_rig).tolist(),
}))
"""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("depth")
    path = record(folder / "k_2026_05_01_09_00_00.mcap", recorded().content)
    convert([path], folder / "out", config_of(recorded()), dataset="d")
    assert all(found.ok for found in check(folder / "out"))
    return folder / "out"


def test_ncore_has_a_camera_of_its_own_with_its_scale(converted: Path) -> None:
    (folder,) = (converted / "ncore").iterdir()
    sequence = Sequence(folder)
    assert set(sequence.instances("cameras")) == {"cam_rgb_optical", "cam_depth_optical"}
    meta = sequence.attributes("cameras/cam_depth_optical")["generic_meta_data"]
    assert meta["topic"] == DEPTH
    assert meta["pixel_values"] == {
        "dtype": "uint16", "quantity": "depth along the optical axis",
        "unit": "METERS", "scale": 0.001, "offset": 0.0, "unknown": 0,
    }  # fmt: skip
    assert "pixel_values" not in sequence.attributes("cameras/cam_rgb_optical")["generic_meta_data"]
    assert sequence.instances("camera_labels") == ["depth.z@cam_rgb_optical"]
    between = np.linalg.inv(sequence.pose("cam_rgb_optical", "rig")) @ sequence.pose(
        "cam_depth_optical", "rig"
    )
    assert np.degrees(np.arccos(between[2, 2])) == pytest.approx(30.0, abs=1e-3)
    parameters = sequence.attributes("intrinsics/default/cameras/cam_depth_optical")[
        "camera_model_parameters"
    ]
    assert parameters["resolution"] == [WIDTH, HEIGHT]
    frames = sequence.frames("cameras/cam_depth_optical")
    assert len(frames) == 10
    for number, (_, end_us) in enumerate(frames):
        png = bytes(sequence.array(f"cameras/cam_depth_optical/frames/{end_us}/image").tobytes())
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(png))), millimetres(number))
    report = Written(converted / "edgefirst" / "d").report
    assert (
        f"{DEPTH}: {FAR * 10} pixels are farther than 65.535 m, which is what they are written as"
        in report["notes"]
    )
    assert not [said for said in report["warnings"] if "measures depth" in said or "no CameraInfo" in said]


def test_the_official_reader_reads_the_values_that_were_sent(converted: Path, tmp_path: Path) -> None:
    if not NCORE_PYTHON.exists():
        pytest.skip("the official reader is not installed (make oracles)")
    (folder,) = (converted / "ncore").iterdir()
    script = tmp_path / "read.py"
    script.write_text(READ)
    done = run_ncore(script, folder / f"{folder.name}.json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kinds"] == [["uint16", HEIGHT, WIDTH]] * 10
    assert found["digests"] == [
        hashlib.sha256(millimetres(n).astype("<u2").tobytes()).hexdigest() for n in range(10)
    ]
    assert found["meta"]["pixel_values"]["scale"] == 0.001
    assert found["resolution"] == [WIDTH, HEIGHT]


def test_edgefirst_has_a_sequence_of_it(converted: Path) -> None:
    files = Written(converted / "edgefirst" / "d").files()
    own = {name: data for name, data in files.items() if name.endswith("camera.png")}
    assert len(own) == 10
    for number, (_, data) in enumerate(sorted(own.items())):
        with Image.open(io.BytesIO(data)) as picture:
            assert np.array_equal(np.asarray(picture), millimetres(number))
            assert (picture.info["Unit"], picture.info["Unknown"]) == ("mm", "0")
    labels = [name for name in files if name.endswith("depth.png")]
    assert len(labels) == 10
    assert not {name.split("/")[0] for name in own} & {name.split("/")[0] for name in labels}


def test_a_capture_writes_the_same_as_its_recording_converted(tmp_path: Path) -> None:
    made = recorded()
    values = {**suggested(made).values, "formats": ["edgefirst", "ncore"]}
    live, again, report = live_and_converted(tmp_path, made.content, values, "robot")
    assert live == again
    assert any(path.endswith(".zarr.itar") and "cam_depth_optical" in path for path in live)
    assert [said for said in report["notes"] if f"{DEPTH}: {FAR * 10} pixels are farther" in said]


def test_what_is_no_depth_is_refused_by_name(tmp_path: Path) -> None:
    made = recorded()
    values = suggested(made).values
    topics = {**values["topics"], "color": {"role": "camera", "topic": DEPTH, "sixteen_bits": "as_sent"}}
    del topics["depth_camera"]
    path = record(tmp_path / "k_2026_05_01_09_00_00.mcap", made.content)
    config = build_config({**values, "topics": topics, "formats": ["ncore"]})
    done = convert([path], tmp_path / "out", config, dataset="d")
    (reason,) = done.report["topics"][DEPTH]["reasons"]["dropped"]
    assert reason == "sixteen_bits is as_sent, but image encoding 32FC1 is not gray of 16 bits"
