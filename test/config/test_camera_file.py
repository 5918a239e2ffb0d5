"""Calibration files of camera_calibration: what they say is what a CameraInfo of the same numbers says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import camera_infos
from edgefirst_ros.model.errors import ConfigError

# As `ros2 run camera_calibration cameracalibrator` saves it.
SAVED = """\
image_width: 640
image_height: 480
camera_name: narrow_stereo/left
camera_matrix:
  rows: 3
  cols: 3
  data: [412.31234, 0.     , 318.99104,
         0.     , 413.00812, 242.10033,
         0.     , 0.     , 1.     ]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [-0.289211, 0.073114, -0.0000003, 0.000812, 0.000000]
rectification_matrix:
  rows: 3
  cols: 3
  data: [1., 0., 0., 0., 1., 0., 0., 0., 1.]
projection_matrix:
  rows: 3
  cols: 4
  data: [352.1, 0., 320.4, 0., 0., 385.7, 241.2, 0., 0., 0., 1., 0.]
"""
CAMERA = {"role": "camera", "topic": "/left/image"}


def topics(file: object) -> dict[str, Any]:
    return {"topics": {"left": CAMERA | {"info_file": file}}}


def test_a_file_is_named_from_the_configurations_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cal").mkdir()
    (tmp_path / "cal" / "left.yaml").write_text(SAVED)
    path = tmp_path / "robot.yaml"
    path.write_text("topics:\n  left: {role: camera, topic: /left/image, info_file: cal/left.yaml}\n")
    monkeypatch.chdir("/")
    config = build_config(load_values(path))
    (info,) = camera_infos(config).values()
    assert (info.width, info.height, info.distortion_model) == (640, 480, "plumb_bob")
    assert info.k.tolist() == [[412.31234, 0, 318.99104], [0, 413.00812, 242.10033], [0, 0, 1]]
    assert info.d == (-0.289211, 0.073114, -3e-7, 0.000812, 0.0)
    assert info.p[1].tolist() == [0, 385.7, 241.2, 0]
    # Settings that are stored hold what was in the file, which may be gone.
    (tmp_path / "cal" / "left.yaml").unlink()
    again = camera_infos(build_config(config.model_dump(mode="json")))
    assert np.array_equal(again["left"].k, info.k)
    assert again["left"].d == info.d


@pytest.mark.parametrize("masks", [7, ["a.png"], {"front": "a.png"}, {"front": {"ego": 7}}])
def test_what_names_no_file_is_refused_as_ever(tmp_path: Path, masks: object) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump({"ncore": {"ego_masks": masks}}))
    with pytest.raises(ConfigError, match=r"robot.yaml: ncore\.ego_masks"):
        load_values(path)


def test_what_is_in_a_file_may_be_given_itself() -> None:
    values = yaml.safe_load(SAVED)
    del values["rectification_matrix"], values["projection_matrix"]
    info = camera_infos(build_config(topics(values)))["left"]
    assert np.array_equal(info.p, np.hstack([info.k, np.zeros((3, 1))]))
    assert camera_infos(build_config(topics(""))) == camera_infos(build_config(topics(None))) == {}


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_text("#" * 70_000 + SAVED)
    for name, why in (("absent", "No such file"), ("large", "more than 65,536 bytes"), (".", "directory")):
        with pytest.raises(ConfigError, match=rf"topics.left.info_file: .*{why}"):
            build_config(topics(str(tmp_path / name)))
    with pytest.raises(ConfigError, match="info_file: expected the name of a file, found 7"):
        build_config(topics(7))
    with pytest.raises(ConfigError, match=r"topics\.a: info_file is a camera's: give it to the entry"):
        build_config({"topics": {"a": {"role": "lidar_points", "info_file": yaml.safe_load(SAVED)}}})
