"""A parameter file that is not there, or not for the node, is told before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import REPOSITORY

from edgefirst_ros.errors import ConfigError
from edgefirst_ros.nodes.parameterfile import find_parameter_file

SHIPPED = REPOSITORY / "config"


@pytest.mark.parametrize("given", ["raivin", "raivin.yaml", str(SHIPPED / "raivin.yaml")])
def test_shipped_ones_are_found_by_name(given: str) -> None:
    assert find_parameter_file(given, SHIPPED, "capture") == SHIPPED / "raivin.yaml"


def test_what_lies_here_comes_before_what_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raivin.yaml").write_text("/**: {ros__parameters: {rate_hz: 2.0}}\n")
    assert find_parameter_file("raivin.yaml", SHIPPED, "capture").resolve() == tmp_path / "raivin.yaml"


@pytest.mark.parametrize("given", ["ravin", "./raivin", "~/nowhere.yaml", "/nowhere/raivin.yaml", ""])
def test_what_is_not_there_is_told_with_what_is(given: str) -> None:
    with pytest.raises(ConfigError, match="one of generic, maivin, raivin"):
        find_parameter_file(given, SHIPPED, "capture")


@pytest.mark.parametrize("key", ["/**", "capture", "/capture", "/front/capture", "/front/**", "/*"])
def test_a_file_for_the_node_is_taken(tmp_path: Path, key: str) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(f"{key}:\n  ros__parameters: {{rate_hz: 2.0}}\n")
    assert find_parameter_file(str(file), SHIPPED, "capture") == file


def test_a_file_may_speak_of_other_nodes_as_well(tmp_path: Path) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text("driver: {ros__parameters: {fps: 30}}\ncapture: {ros__parameters: {rate_hz: 2.0}}\n")
    assert find_parameter_file(str(file), SHIPPED, "capture") == file


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("foo: [", "cannot be read as YAML"),
        ("camera_driver: {ros__parameters: {rate_hz: 2.0}}", "holds camera_driver, nothing for capture"),
        ("rate_hz: 2.0", "holds rate_hz, nothing for capture; begin it with /"),
        ("", "holds nothing"),
        ("- 1", "expected parameters by name"),
    ],
)
def test_a_file_that_says_nothing_to_the_node_is_refused(tmp_path: Path, text: str, match: str) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=match):
        find_parameter_file(str(file), SHIPPED, "capture")
