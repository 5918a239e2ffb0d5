"""Configuration: every fault at once, files of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefirst_ros.config import MAIVIN_TOPICS, build_config, load_values
from edgefirst_ros.errors import ConfigError

SHIPPED = sorted((Path(__file__).parent.parent / "config").glob("*.yaml"))


def test_every_fault_is_listed_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        build_config(
            {"rate_hz": -1, "jpeg_quality": 101, "topcis": {}, "topics": {"imu": {"clock": "sundial"}}}
        )
    text = str(error.value)
    for named in ("rate_hz", "jpeg_quality", "topcis", "topics.imu.clock"):
        assert named in text
    assert len(error.value.faults) == 4


def test_selections_exclude_one_another() -> None:
    with pytest.raises(ConfigError, match="rate_hz and keyframes exclude one another"):
        build_config({"rate_hz": 2, "keyframes": True})


def test_topics_overlay_the_maivins() -> None:
    config = build_config({"topics": {"radar_cube": {"tolerance_ms": 100}, "imu": {"topic": ""}}})
    assert config.topics["radar_cube"].tolerance_ms == 100
    assert config.topics["radar_cube"].topic == "radar/cube"
    assert config.topics["imu"].topic == ""
    assert config.topics.keys() == MAIVIN_TOPICS.keys()


def test_a_topic_without_role_says_so() -> None:
    with pytest.raises(ConfigError, match=r"topics\.front\.role"):
        build_config({"topics": {"front": {"topic": "/front"}}})


def test_parameter_files_and_plain_files_say_the_same(tmp_path: Path) -> None:
    plain, ros = tmp_path / "plain.yaml", tmp_path / "ros.yaml"
    plain.write_text("rate_hz: 2.0\nego: {hold_s: 1.0}\n")
    ros.write_text("/**:\n  ros__parameters:\n    rate_hz: 2.0\n    ego: {hold_s: 1.0}\n")
    assert build_config(load_values(plain)) == build_config(load_values(ros))
    assert build_config(load_values(plain)).ego.hold_s == 1.0


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("- a\n", "holds a list"),
        ("a: [", "cannot be read as YAML"),
        ("a: {ros__parameters: 3}", "not a mapping"),
    ],
)
def test_a_file_that_cannot_be_meant_says_why(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=why):
        load_values(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_values(tmp_path / "no.yaml")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_shipped_configurations_are_valid(path: Path) -> None:
    build_config(load_values(path))


def test_configurations_are_shipped() -> None:
    assert {p.name for p in SHIPPED} >= {"maivin.yaml", "raivin.yaml", "generic.yaml"}
