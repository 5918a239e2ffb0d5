"""Configuration files: plain, or ROS 2 parameters; and those that are shipped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from edgefirst_ros.config.model import NODE_PARAMETERS, Config, build_config
from edgefirst_ros.config.yamltext import read_yaml
from edgefirst_ros.model.errors import ConfigError

SHARE = Path("share", "edgefirst_ros", "config")
NO_FILE = Path("none")
"""In place of a file: the defaults, and no suggestion."""
_ELSEWHERE = {
    "rate": "rate_hz and --rate set the samples per second",
    "name": "--name sets it",
    "session": "--session of capture sets it",
    "output": "--output sets it",
    "overwrite": "--overwrite sets it",
    "bag": "recordings are arguments of the command",
    "start_paused": "--start-paused of capture sets it",
}
"""Parameters of the ROS nodes for which a user of the command may hope, and what to use instead."""


def shipped() -> Mapping[str, Path]:
    """The configuration files that come with the package, by name: ``raivin`` for ``raivin.yaml``.

    pip and colcon install them below the prefix that the package is in; in a checkout they are beside it.
    """
    package = Path(__file__).resolve().parents[1]
    places = [package.parent / "config", *(above / SHARE for above in package.parents)]
    found = next((place for place in places if (place / "maivin.yaml").is_file()), None)
    return {} if found is None else {path.stem: path for path in sorted(found.glob("*.yaml"))}


def _meant(given: Path) -> Path:
    """The file of this path, or else the shipped one of this name.

    Raises:
        ConfigError: there is neither.
    """
    if given.is_file():
        return given
    named = shipped()
    if len(given.parts) == 1 and (found := named.get(given.name.removesuffix(".yaml"))):
        return found
    if given.exists():
        return given
    raise ConfigError([f"{given}: no such configuration file; give a path, or one of {', '.join(named)}"])


def load_values(path: Path, notes: list[str] | None = None) -> dict[str, Any]:
    """Values of a YAML file: a ROS 2 parameter file (any node's ``ros__parameters``) or a plain mapping.

    Of a parameter file, what concerns only the ROS nodes is left out.

    Args:
        path: the file, or the name of a shipped one.
        notes: gets a sentence for everything left out that a user may have meant for the command.

    Raises:
        ConfigError: the file is missing, not YAML, not a mapping, speaks of several nodes, or has values that
            the configuration refuses; every fault begins with its name.
    """
    values = _own_values(path, notes)
    try:
        build_config(values)
    except ConfigError as error:
        raise ConfigError([f"{path}: {fault}" for fault in error.faults]) from error
    return values


def understood(value: Any, kind: Any, folder: Path, *, is_ros: bool = False) -> Any:  # noqa: ANN401 - of any option
    """A value of a file in this folder, from which it names others; ROS has an empty value for "not set"."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, dict):
        fields = kind.model_fields
        unset = {name for name in value if is_ros and name in fields and fields[name].default is None}
        return {
            name: understood(each, getattr(fields.get(name), "annotation", None), folder, is_ros=is_ros)
            for name, each in value.items()
            if name not in unset or (each not in ("", []) and each == each)  # noqa: PLR0124 - nan is not
        }
    if isinstance(value, dict) and get_origin(kind) is dict:
        inner = get_args(kind)[1]
        return {name: understood(each, inner, folder, is_ros=is_ros) for name, each in value.items()}
    if value and isinstance(value, str) and Path in (kind, *get_args(kind)):
        return str(folder / value)
    return value


def _own_values(path: Path, notes: list[str] | None) -> dict[str, Any]:
    """The file's values for the configuration, without those for the ROS nodes."""
    if path == NO_FILE:
        return {}
    data = read_yaml(_meant(path))
    blocks = [v["ros__parameters"] for v in data.values() if isinstance(v, dict) and "ros__parameters" in v]
    if not blocks:
        return dict(understood(data, Config, path.parent))
    if len(blocks) > 1:
        raise ConfigError([f"{path}: holds parameters of {len(blocks)} nodes, expected one"])
    if not isinstance(blocks[0], dict):
        raise ConfigError([f"{path}: ros__parameters is not a mapping"])
    if notes is not None:
        notes += [
            f"{path}: {name} is a parameter of the ROS nodes and is not used here; {_ELSEWHERE[name]}"
            for name in blocks[0]
            if name in _ELSEWHERE
        ]
    own = {name: value for name, value in blocks[0].items() if name not in NODE_PARAMETERS}
    return dict(understood(own, Config, path.parent, is_ros=True))
