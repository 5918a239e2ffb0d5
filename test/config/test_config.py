"""Configuration: every fault at once, files of both kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from edgefirst_ros.cli.shared import make_config
from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import MAIVIN_TOPICS, Config, SelectOptions, build_config, chosen_config
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.nodes.parameters import specify

NO_FORMAT = (
    "is not a format; available: edgefirst, ncore, l5kit; installed packages can add others "
    "(entry points edgefirst_ros.formats)"
)
SHIPPED = sorted((Path(__file__).parents[2] / "config").glob("*.yaml"))


def test_every_fault_is_listed_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        build_config(
            {"rate_hz": -1, "pictures": "jpeg101", "topcis": {}, "topics": {"imu": {"clock": "sundial"}}}
        )
    text = str(error.value)
    for named in ("rate_hz", "pictures", "topcis", "topics.imu.clock"):
        assert named in text
    assert len(error.value.faults) == 4


def test_selections_exclude_one_another() -> None:
    with pytest.raises(ConfigError, match=r"rate_hz and select\.keyframes exclude one another"):
        build_config({"rate_hz": 2, "select": {"keyframes": True}})


def test_topics_overlay_the_maivins() -> None:
    config = build_config({"topics": {"radar_cube": {"tolerance_ms": 100}, "imu": {"topic": ""}}})
    assert config.topics["radar_cube"].tolerance_ms == 100
    assert config.topics["radar_cube"].topic == "radar/cube"
    assert config.topics["imu"].topic == ""
    assert config.topics.keys() == MAIVIN_TOPICS.keys()


def test_parameter_files_and_plain_files_say_the_same(tmp_path: Path) -> None:
    plain, ros = tmp_path / "plain.yaml", tmp_path / "ros.yaml"
    plain.write_text("rate_hz: 2.0\nego: {wait_s: 1.0}\n")
    ros.write_text("/**:\n  ros__parameters:\n    rate_hz: 2.0\n    ego: {wait_s: 1.0}\n")
    assert build_config(load_values(plain)) == build_config(load_values(ros))
    assert build_config(load_values(plain)).ego.wait_s == 1.0


def test_what_ros2_param_dump_writes_converts(tmp_path: Path) -> None:
    """ROS has an empty text or list, or nan, for "not set"."""
    values: dict[str, Any] = {}
    for spec in specify(Config):
        inner = values
        for part in spec.path[:-1]:
            inner = inner.setdefault(part, {})
        inner[spec.path[-1]] = spec.default
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump({"/capture": {"ros__parameters": values}}))
    assert build_config(load_values(path)) == build_config({})


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


@pytest.mark.parametrize("name", ["raivin", "raivin.yaml"])
def test_a_shipped_file_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (raivin,) = [load_values(path) for path in SHIPPED if path.name == "raivin.yaml"]
    assert load_values(Path(name)) == raivin
    (tmp_path / name).write_text("rate_hz: 3\n")
    assert load_values(Path(name)) == {"rate_hz": 3}
    with pytest.raises(
        ConfigError, match=r"raivn: no such .*; give a path, or one of generic, maivin, raivin"
    ):
        load_values(Path("raivn"))
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_values(tmp_path / "other" / name)


def test_what_only_the_nodes_take_is_said(tmp_path: Path) -> None:
    notes: list[str] = []
    file = tmp_path / "c.yaml"
    file.write_text("/**:\n  ros__parameters: {rate: 2.0, name: monday, use_sim_time: true, rate_hz: 1.0}\n")
    assert load_values(file, notes) == {"rate_hz": 1.0}
    not_used = "is a parameter of the ROS nodes and is not used here"
    assert notes == [
        f"{file}: rate {not_used}; rate_hz and --rate set the samples per second",
        f"{file}: name {not_used}; --name sets it",
    ]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_shipped_configurations_are_valid(path: Path) -> None:
    build_config(load_values(path))


def test_configurations_are_shipped() -> None:
    assert {p.name for p in SHIPPED} >= {"maivin.yaml", "raivin.yaml", "generic.yaml"}


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"rat_hz": 2}, "rat_hz: no such parameter; did you mean rate_hz?"),
        (
            {"topics": {"imu": {"tolerence_ms": 3}}},
            "topics.imu.tolerence_ms: no such parameter; did you mean topics.imu.tolerance_ms?",
        ),
        (
            {"topics": {"camra": {}}},
            "topics.camra.role: a new topic needs a role; did you mean topics.camera?",
        ),
        (
            {"edgefirst": {"val_raito": 1}},
            "edgefirst.val_raito: no such parameter; did you mean edgefirst.val_ratio?",
        ),
        ({"topcis.imu.clock": "x"}, "topcis.imu.clock: no such parameter; did you mean topics.imu.clock?"),
        ({"frame_id": "lidar"}, "frame_id: no such parameter"),
        ({"every_n": 2}, "every_n: no such parameter; did you mean select.every?"),
        (
            {"topics": {"imu": {"xyz_m": [0, 0, 1]}}},
            "topics.imu.xyz_m: no such parameter; did you mean topics.imu.mount.xyz_m?",
        ),
        (
            {"rate_hz": 2, "select": {"every": 2}},
            "rate_hz and select.every exclude one another: give one of them",
        ),
        ({"formats": ["x"]}, f"formats: 'x' {NO_FORMAT}"),
        ({"formats": 3}, "formats: expected a list, as [a, b], found 3"),
        (
            {"topics": {"imu": {"mount": {"xyzw": "0"}}}},
            "topics.imu.mount.xyzw: expected a list, as [a, b], found '0'",
        ),
        ({"rate_hz": float("inf")}, "rate_hz: expected a finite number, found inf"),
        ({"rate_hz": -1}, "rate_hz: expected at least 0, found -1"),
        ({"class_names": {"car": 3}}, "class_names.car: expected a text, found 3; put it in quotes"),
        ({"vehicle": {"length_m": 4.5, "width_m": 2}}, "vehicle: height_m must be given, too"),
        ({"topics": {"imu": {"tolerance_ms": -1}}}, "topics.imu.tolerance_ms: expected at least 0, found -1"),
        (
            {"pictures": "jpeg101"},
            "pictures: expected png, or jpeg and its quality, as jpeg90, found 'jpeg101'",
        ),
        ({"split_every": 600}, "split_every: expected a time or a size, as 600s or 2GB, found 600"),
        (
            {"split_every": "2GB, 0s"},
            "split_every: expected a time or a size, as 600s or 2GB, found '2GB, 0s'",
        ),
        ({"select": {"every": 1.5}}, "select.every: expected a whole number, found 1.5"),
        ({"rate_hz": "fast"}, "rate_hz: expected a number, found 'fast'"),
        ({"select": {"moving": "perhaps"}}, "select.moving: expected true or false, found 'perhaps'"),
        ({"decoder": True}, "decoder: expected 'software', 'v4l2m2m' or 'nvdec', found true"),
        ({"prefix": 7}, "prefix: expected a text, found 7; put it in quotes"),
        ({"ego": None}, "ego: expected parameters by name, found nothing"),
        ({"rate_hz": "x" * 80}, f"rate_hz: expected a number, found '{'x' * 59}…"),
    ],
)
def test_a_fault_is_one_sentence_that_says_what_may_be_meant(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_config(values)
    assert caught.value.faults == [fault]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate_hz: 2\nrate_hz: 3\n", "c.yaml, line 2: cannot be read as YAML: rate_hz is given twice"),
        ("topics:\n  imu: {clock: auto, clock: stamp}\n", "line 2: .*clock is given twice"),
        ("rate_hz: [\n", "c.yaml, line 2: cannot be read as YAML: "),
        ("a: 1\nprefix: 2026-99-99\n", "line 2: cannot be read as YAML: this is not a valid timestamp"),
        ("rate_hz: 2026-01-01 99:99:99\n", "line 1: .* timestamp"),
        ("rate_hz: !!timestamp x\n", "line 1: .* timestamp"),
        ("rate_hz: " + "[" * 101, "line 1: cannot be read as YAML: nested too deeply"),
        ("rate_hz: !!bool x\n", "line 1: .* bool"),
        ("rate_hz: !!int ''\n", "line 1: .* int"),
        (f"rate_hz: {'9' * 5000}\n", "line 1: .* too many digits"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        load_values(tmp_path / "c.yaml")
    assert "\n" not in str(caught.value)


def test_a_choice_of_frames_on_the_command_line_replaces_the_files(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("rate_hz: 2\nselect: {distance_m: 5}\n")
    config = make_config(file, {"select": {"every": 3}})
    assert (config.rate_hz, config.select.every, config.select.distance_m) == (0, 3, 5)
    assert chosen_config(config.model_dump(), {"rate_hz": 1}).select == SelectOptions(distance_m=5)
