"""What a sample must have, by the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from edgefirst_ros.config.choices import chosen_config
from edgefirst_ros.config.model import MAIVIN_TOPICS, build_config


@pytest.mark.parametrize(
    ("values", "required"),
    [
        ({}, "never"),
        ({"complete": True}, "auto"),
        ({"topics": {"radar_cube": {"required": "auto"}}}, "auto"),
        ({"topics": {"radar_cube": {"required": "always"}}}, "always"),
        ({"complete": True, "topics": {"radar_cube": {"required": "never"}}}, "never"),
        ({"complete": True, "formats": ["l5kit"]}, "never"),
    ],
)
def test_what_a_sample_must_have(values: dict[str, Any], required: str) -> None:
    config = build_config(values)
    assert config.required(config.topics["radar_cube"]) == required


def test_what_is_optional_by_default_stays_so_in_complete_samples() -> None:
    config = build_config({"complete": True})
    optional = {name for name, rule in MAIVIN_TOPICS.items() if rule.required == "never"}
    assert {"boxes3d", "radar_clusters"} <= optional
    assert {config.required(config.topics[name]) for name in optional} == {"never"}


def test_the_command_line_chooses_complete_samples_whatever_the_file_says() -> None:
    assert chosen_config({"complete": False}, {"complete": True}, {}).complete
    assert chosen_config({"complete": True}, {"complete": None}, {}).complete
