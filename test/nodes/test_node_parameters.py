"""The configuration as parameters: every field has one, typed and described, and they lead back to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import MAIVIN_TOPICS, NODE_PARAMETERS, Config, TopicRule, build_config
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.nodes.options import LIVE, OTHERS, READ_ONLY, CaptureOptions, ReplayOptions
from edgefirst_ros.nodes.parameters import converted, nest, specify

SPECS = {spec.name: spec for spec in specify(Config)}


def back(given: dict[str, Any], names: list[str] | None = None) -> Config:
    specs = specify(Config, names or list(given))
    return build_config(nest({spec.name: spec.default for spec in specs} | given, specs))


def test_defaults_lead_back_to_the_default_configuration() -> None:
    assert back({}) == Config()


def test_every_parameter_is_described_and_typed() -> None:
    for models in (Config, CaptureOptions, ReplayOptions):
        for spec in specify(models):
            assert spec.description, spec.name
            assert converted(spec, spec.default) is not None, spec.name


def test_every_topic_has_all_fields_of_a_rule() -> None:
    for entry in MAIVIN_TOPICS:
        for name in {*TopicRule.model_fields, "mount.in", "mount.xyzw"} - {"mount"}:
            assert (f"topics.{entry}.{name}" in SPECS) == (name != "fields")


def test_choices_and_limits_are_said() -> None:
    assert SPECS["topics.imu.clock"].constraints == "one of 'auto', 'stamp', 'publish', 'receive'"
    assert SPECS["workers"].constraints == "at least 0, at most 1024"
    assert SPECS["queue_mb"].constraints == "more than 0"
    assert SPECS["rate_hz"].constraints == "at least 0"
    assert SPECS["formats"].kind == "string array"
    assert "camera_info" in SPECS["topics.camera.role"].constraints


def test_given_values_arrive() -> None:
    config = back({"rate_hz": 2.5, "topics.radar_cube.tolerance_ms": 20.0, "ego.wait_s": 1.5})
    assert config.rate_hz == 2.5
    assert config.topics["radar_cube"].tolerance_ms == 20.0
    assert config.ego.wait_s == 1.5


def test_a_topic_of_the_users_own_gets_parameters() -> None:
    given = {"topics.odometry.topic": "/odom"}
    specs = {spec.name: spec for spec in specify(Config, list(given))}
    assert specs["topics.odometry.clock"].default == "auto"
    config = back(given)
    assert config.topics["odometry"].topic == "/odom"
    assert config.topics["odometry"].role == "odometry"


def test_keys_with_slashes_are_keys() -> None:
    config = back({"l5kit.labels.a/b": "BUS"})
    assert config.l5kit.labels == {"a/b": "BUS"}


@pytest.mark.parametrize(
    "name", ["topcis.imu.clock", "rate_hz.value", "topics.imu.clok", "rate", "edgefirst"], ids=str
)
def test_names_that_mean_nothing_are_told(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        back({name: 3})
    assert any(fault.startswith(name) for fault in error.value.faults), error.value.faults


def test_values_of_other_types_do_not_fit() -> None:
    assert converted(SPECS["rate_hz"], 2) == 2.0
    assert isinstance(converted(SPECS["rate_hz"], 2), float)
    assert converted(SPECS["rate_hz"], True) is None
    assert converted(SPECS["rate_hz"], "2") is None
    assert converted(SPECS["rate_hz"], 10**400) is None
    assert converted(SPECS["select.every"], 2) == 2
    assert converted(SPECS["select.every"], 2.0) is None
    assert converted(SPECS["select.every"], True) is None
    assert converted(SPECS["select.keyframes"], True) is True
    assert converted(SPECS["select.keyframes"], 1) is None
    assert converted(SPECS["host"], "x") == "x"
    assert converted(SPECS["host"], 7) is None
    assert converted(SPECS["formats"], ("edgefirst",)) == ["edgefirst"]
    assert converted(SPECS["formats"], "edgefirst") is None
    assert converted(SPECS["formats"], ["edgefirst", 1]) is None
    assert converted(SPECS["vehicle.rear_axle_m"], [0, 0, 1.0]) == [0.0, 0.0, 1.0]


def test_the_nodes_own_names_are_not_the_configurations() -> None:
    for options in (CaptureOptions, ReplayOptions):
        assert not set(options.model_fields) & set(Config.model_fields)
    assert set(CaptureOptions.model_fields) >= READ_ONLY | LIVE
    assert not READ_ONLY & LIVE


def test_a_nodes_parameter_file_is_a_configuration_as_well(tmp_path: Path) -> None:
    own = {*CaptureOptions.model_fields, *ReplayOptions.model_fields}
    assert {name.rstrip(".") for name in OTHERS} | own == NODE_PARAMETERS
    path = tmp_path / "node.yaml"
    path.write_text(
        "/**:\n  ros__parameters:\n    output: /data\n    preview: true\n    rate_hz: 2.0\n"
        "    qos_overrides: {/imu: {subscription: {depth: 5}}}\n"
    )
    assert build_config(load_values(path)) == build_config({"rate_hz": 2.0})
