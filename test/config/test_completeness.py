"""What a sample must have, by the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgefirst_ros.cli.help import valued
from edgefirst_ros.config.model import build_config, chosen_config
from edgefirst_ros.model.errors import ConfigError


@pytest.mark.parametrize(
    ("values", "required"),
    [
        ({}, "never"),
        ({"complete": True}, "auto"),
        ({"topics": {"radar_cube": {"required": "auto"}}}, "auto"),
        ({"topics": {"radar_cube": {"required": "always"}}}, "always"),
        ({"complete": True, "topics": {"radar_cube": {"required": "never"}}}, "never"),
        ({"complete": True, "formats": ["l5kit"]}, "never"),
        ({"complete": "model,lidar"}, "never"),
        ({"complete": ["cube"]}, "auto"),
        ({"complete": "radar_cube,model"}, "auto"),
    ],
)
def test_what_a_sample_must_have(values: dict[str, Any], required: str) -> None:
    config = build_config(values)
    assert config.required(config.topics["radar_cube"]) == required


def test_the_command_line_chooses_complete_samples_whatever_the_file_says() -> None:
    assert chosen_config({"complete": False}, {"complete": True}).complete
    assert chosen_config({"complete": True}, {"complete": None}).complete


def test_a_sensor_that_is_none_is_named_with_those_that_are() -> None:
    with pytest.raises(
        ConfigError, match=r"complete: no sensor lidr; there are all, .*lidar_points.*entries"
    ):
        build_config({"complete": "model,lidr"})
    with pytest.raises(ConfigError, match="complete: all includes the others"):
        build_config({"complete": "all,model"})


def test_the_option_takes_names_or_none_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drive").mkdir()
    given = {
        ("--complete", "drive.mcap"): ["--complete=all", "drive.mcap"],
        ("--complete", "drive"): ["--complete=all", "drive"],
        ("--complete", "model,lidar", "drive"): ["--complete=model,lidar", "drive"],
        ("drive", "--complete"): ["drive", "--complete=all"],
        ("--", "--complete"): ["--", "--complete"],
    }
    for arguments, understood in given.items():
        assert list(valued(list(arguments))) == understood
