"""Configuration: YAML files and parameter files, and what is given to ``--set``."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from fuzz_outcomes import command
from fuzzing import FLOATS, NUMBERS, Target, mutate_bytes

from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.config.names import fits, is_pattern, key_expression, split_names
from edgefirst_ros.config.yamltext import read_yaml
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.nodes.parameters import check_parameter_files, converted, nest, specify
from edgefirst_ros.simulation import DriveOptions

CONFIG = Path(__file__).resolve().parents[2] / "config"
PLAIN = b"""formats: [edgefirst, ncore, l5kit]
reference: camera/h264
rate_hz: 2.5
prefix: maivin
edgefirst: {schema_version: '2026.10', container: folder, exif_camera: [X, auto]}
l5kit: {sources: model}
ncore: {unknown_pose: cut}
ego: {smoothing: lag}
topics:
  radar_targets: {required: never, topic: 'radar/targets'}
  lidar_points: {topic: '**/points*', tolerance_ms: 20}
"""
SETTINGS = (
    b"seconds=3.5", b"cube_hz=2.5", b"clock=realtime",
    b"cube_shape=[2, 8, 2, 8]", b"gps_hz=12", b"noise.gyro=0.1", b"prefix=maivin-7",
    b"mask_size=[16, 9]", b"stops=[[2, 4], [30, 40]]", b"boxes3d=true", b"start_ns=1773483630000000000",
)  # fmt: skip
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    "",
    "x" * 5000,
    "\x1b[2J",
    "a\0b",
    "\ud800",
    "*",
    "**/**/**",
    "[a",
    "(a+)+$",
    "/" * 300,
    "é\u202e",
    10**400,
    -1,
    1 << 63,
    {},
    [],
    [[]],
    {"": {}},
    [None],
    {"a": {"b": {"c": []}}},
    "2026-01-01",
    *NUMBERS,
    *FLOATS,
)
TEXTS = (
    b"&a [*a]",
    b"*x",
    b"!!python/object:os.system x",
    b"!!binary x",
    b"!!float x",
    b"!!int ''",
    b"!!set {a}",
    b"!!omap [a: 1]",
    b"<<: 1",
    b"? [a]\n: 1",
    b"? {a: 1}\n: 1",
    b"2026-99-99",
    b"2026-01-01 99:99:99",
    b"0b",
    b"0x",
    b"1:99:99",
    b"[" * 3000,
    b"{a: " * 3000,
    b"- " * 3000,
    b"%TAG ! x",
    b"--- a\n--- b",
    b"\xff\xfe",
    b"\t",
    b"!!timestamp x",
    b"a: &a [1]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: *c",
    b"=",
    b"!!null x",
    b"!!bool x",
    b"0o8",
    b"._",
    b"-",
    b"9" * 5000,
)
TOPICS = ("/camera/h264", "/maivin-7/lidar/points", "/" + "a/" * 40 + "b", "x" * 300)


def files() -> list[bytes]:
    return [
        *(path.read_bytes() for path in sorted(CONFIG.glob("*.yaml"))),
        PLAIN,
        b"/**:\n  ros__parameters:\n    rate_hz: 2\n",
    ]


def settings() -> list[bytes]:
    return [*SETTINGS, *(f"{name}=1".encode() for name in sorted(DriveOptions.__dataclass_fields__))]


def mutate_file(rng: random.Random, data: bytes) -> bytes:
    way = rng.random()
    if way < 0.5:
        content = yaml.safe_load(data)
        for _ in range(rng.choice((1, 1, 3))):
            content = _changed(rng, content)
        return yaml.safe_dump(content, allow_unicode=True).encode(errors="surrogatepass")
    if way < 0.8:
        lines = data.splitlines(keepends=True)
        place = rng.randrange(len(lines))
        name, colon, _ = lines[place].partition(b":")
        lines[place] = (name + colon if rng.random() < 0.8 else b"") + b" " + rng.choice(TEXTS) + b"\n"
        return b"".join(lines)
    return mutate_bytes(rng, data)


def _changed(rng: random.Random, content: Any) -> Any:  # noqa: ANN401 - YAML
    """One value somewhere replaced, one more, or one less."""
    if isinstance(content, dict) and content and rng.random() < 0.95:
        key = rng.choice(list(content))
        way = rng.random()
        if way < 0.05:
            return {k: v for k, v in content.items() if k != key}
        if way < 0.15:
            return {
                **content,
                rng.choice((*(h for h in HOSTILE if not isinstance(h, (dict, list))), key)): rng.choice(
                    HOSTILE
                ),
            }
        return {**content, key: _changed(rng, content[key])}
    if isinstance(content, list) and content and rng.random() < 0.9:
        place = rng.randrange(len(content))
        return [*content[:place], _changed(rng, content[place]), *content[place + 1 :]]
    return rng.choice(HOSTILE)


def mutate_setting(rng: random.Random, data: bytes) -> bytes:
    name, _, value = data.partition(b"=")
    way = rng.random()
    if way < 0.4:
        return name + b"=" + rng.choice(TEXTS)
    if way < 0.7:
        dumped = yaml.safe_dump(rng.choice(HOSTILE), default_flow_style=True).encode(errors="surrogatepass")
        return name + b"=" + dumped
    if way < 0.8:
        return name + b"." + rng.choice(string.ascii_letters).encode() + b"=" + value
    return mutate_bytes(rng, data)


def run_file(data: bytes, folder: Path) -> str:
    path = folder / "file.yaml"
    path.write_bytes(data)
    code = command("convert", folder / "none.mcap", "-o", folder / "out", "--config", path)
    said = "refused"
    for read in (_plain, _parameters):
        try:
            read(path)
            said = "taken"
        except ConfigError as error:
            if code != 2 or not error.faults:
                raise AssertionError from error
    return said


def _plain(path: Path) -> None:
    config = build_config(load_values(path))
    for rule in config.topics.values():
        for name in split_names(rule.topic):
            for topic in TOPICS:
                fits(name, topic)
            if is_pattern(name):
                key_expression(name, anywhere=True)


def _parameters(path: Path) -> None:
    check_parameter_files(["--ros-args", "--params-file", str(path)], "capture")
    given: dict[str, Any] = {}
    _flatten(read_yaml(path), given)
    specs = specify(Config, list(given))
    known = {spec.name: spec for spec in specs}
    values = {
        name: converted(known[name], value) if name in known else value for name, value in given.items()
    }
    build_config(nest(values, specs))


def _flatten(values: dict[Any, Any], into: dict[str, Any], above: str = "") -> None:
    for key, value in values.items():
        name = f"{above}.{key}" if above else str(key)
        if isinstance(value, dict):
            inner = value.get("ros__parameters", value)
            _flatten(inner if isinstance(inner, dict) else {}, into, "" if inner is not value else name)
        else:
            into[name] = value


def run_setting(data: bytes, folder: Path) -> str:
    text = data.decode(errors="surrogateescape")
    stop: Callable[..., None] = mock.Mock(side_effect=ConfigError(["taken"]))
    with mock.patch("edgefirst_ros.simulation.simulate", stop):
        command("simulate", "-o", folder / "out", "--set", text, "--quiet")
    return "taken" if stop.called else "refused"  # type: ignore[attr-defined]


YAML = Target("yaml", files, run_file, mutate_file)
SET = Target("set", settings, run_setting, mutate_setting, share=0.3)
