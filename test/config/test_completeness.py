"""What a sample must have, by the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from edgefirst_ros.config.model import build_config, chosen_config
from edgefirst_ros.model.errors import ConfigError


@pytest.mark.parametrize(
    ("values", "required"),
    [
        ({}, "never"),
        ({"select": {"require": "all"}}, "auto"),
        ({"topics": {"radar_cube": {"required": "auto"}}}, "auto"),
        ({"topics": {"radar_cube": {"required": "always"}}}, "always"),
        ({"select": {"require": "all"}, "topics": {"radar_cube": {"required": "never"}}}, "never"),
        ({"select": {"require": "all"}, "formats": ["l5kit"]}, "never"),
        ({"select": {"require": "model,lidar"}}, "never"),
        ({"select": {"require": ["cube"]}}, "auto"),
        ({"select": {"require": "radar_cube,model"}}, "auto"),
    ],
)
def test_what_a_sample_must_have(values: dict[str, Any], required: str) -> None:
    config = build_config(values)
    assert config.required(config.topics["radar_cube"]) == required


def test_the_command_line_chooses_complete_samples_whatever_the_file_says() -> None:
    file = {"select": {"require": "model"}}
    assert chosen_config(file, {"select": {"require": "all"}}).select.require == "all"
    assert chosen_config(file, {"select": {"require": None}}).select.require == "model"
    assert chosen_config(file, {"select": {"require": "auto"}}).select.required == []


def test_a_sensor_that_is_none_is_named_with_those_that_are() -> None:
    with pytest.raises(
        ConfigError, match=r"select.require: no sensor lidr; there are auto, all, .*lidar_points.*entries"
    ):
        build_config({"select": {"require": "model,lidr"}})
    with pytest.raises(ConfigError, match=r"select\.require: all includes the others"):
        build_config({"select": {"require": "all,model"}})
