"""A parameter file that is not there, or not for the node, is told before the node joins the graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import REPOSITORY

from edgefirst_ros.config.files import understood
from edgefirst_ros.config.model import Config
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.nodes.parameters import check_parameter_files, folder_of


def check(file: Path, *more: str) -> None:
    check_parameter_files(["capture", "--ros-args", *more, "--params-file", str(file)], "capture")


@pytest.mark.parametrize("name", ["maivin", "raivin", "generic"])
def test_the_shipped_ones_are_for_every_node(name: str) -> None:
    check(REPOSITORY / "config" / f"{name}.yaml", "-r", "__ns:=/front", "-r", "__node:=recorder")


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("/**", []),
        ("capture", []),
        ("/capture", ["-r", "__ns:=/"]),
        ("/*", []),
        ("/**/capture", []),
        ("/front/capture", ["-r", "__ns:=/front"]),
        ("front/capture", ["--remap", "__ns:=front"]),
        ("/front/**", ["-r", "__ns:=/front/left"]),
        ("/*/capture", ["-r", "capture:__ns:=/front"]),
        ("/recorder", ["-r", "__node:=recorder"]),
        ("/capture", ["-r", "camera:__node:=recorder", "-r", "/image:=/front/image"]),
    ],
)
def test_a_file_for_the_node_is_taken(tmp_path: Path, key: str, names: list[str]) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(f"{key}:\n  ros__parameters: {{rate_hz: 2.0}}\n")
    check(file, *names)


@pytest.mark.parametrize(
    ("key", "names", "node"),
    [
        ("/*", ["-r", "__ns:=/front"], "/front/capture"),
        ("/capture", ["-r", "__ns:=/front"], "/front/capture"),
        ("/capture", ["-r", "__node:=recorder"], "/recorder"),
        ("/rear/**", ["-r", "__ns:=/front"], "/front/capture"),
        ("/capture2", [], "/capture"),
    ],
)
def test_a_file_for_another_node_is_refused(tmp_path: Path, key: str, names: list[str], node: str) -> None:
    """ROS would pass over it without a word."""
    file = tmp_path / "given.yaml"
    file.write_text(f"{key}:\n  ros__parameters: {{rate_hz: 2.0}}\n")
    with pytest.raises(ConfigError, match=f"none of {node};"):
        check(file, *names)


def test_lists_as_launch_writes_them_are_read(tmp_path: Path) -> None:
    file = tmp_path / "launch_params"
    file.write_text("/**:\n  ros__parameters:\n    formats: !!python/tuple\n    - edgefirst\n    - ncore\n")
    check(file)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("foo: [", "cannot be read as YAML"),
        (
            "camera_driver: {ros__parameters: {rate_hz: 2.0}}",
            "holds parameters of /camera_driver, none of /capture",
        ),
        ("rate_hz: 2.0", "holds parameters of no node, none of /capture; begin it with /"),
        ("/**: {rate_hz: 2.0}", "none of /capture; begin it with .* and ros__parameters:"),
        ("", "holds parameters of no node"),
        ("- 1", "expected parameters by name"),
    ],
)
def test_a_file_that_says_nothing_to_the_node_is_refused(tmp_path: Path, text: str, match: str) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=match):
        check(file)


def test_every_file_is_looked_into_and_every_fault_told(tmp_path: Path) -> None:
    good, other = tmp_path / "good.yaml", tmp_path / "other.yaml"
    good.write_text("/**: {ros__parameters: {rate_hz: 2.0}}\n")
    other.write_text("driver: {ros__parameters: {fps: 30}}\n")
    files = [word for file in (good, other, tmp_path / "none.yaml") for word in ("--params-file", str(file))]
    with pytest.raises(ConfigError) as error:
        check_parameter_files(
            ["capture", "--ros-args", *files, "--", "--params-file", "not for ROS"], "capture"
        )
    assert [fault.split(":")[0] for fault in error.value.faults] == [str(other), str(tmp_path / "none.yaml")]


def test_a_file_names_others_from_its_own_folder() -> None:
    """As for ``convert``; what launch gives beside it comes after it."""
    given = ["capture", "--ros-args", "--params-file", "/robot/c.yaml", "--params-file", "/tmp/launch"]
    values = {
        "topics": {"left": {"info_file": "cal/left.yaml"}},
        "ncore": {"ego_masks": {"a": {"b": "/m.png"}}},
    }
    found = understood(values, Config, folder_of(given))
    assert found["topics"]["left"]["info_file"] == "/robot/cal/left.yaml"
    assert found["ncore"] == values["ncore"]
    assert folder_of(["capture"]) == Path()
