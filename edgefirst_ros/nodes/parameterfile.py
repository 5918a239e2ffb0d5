"""A node's parameter files, looked into before it joins the graph; knows nothing of rclpy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import read_yaml
from edgefirst_ros.errors import ConfigError

_WILDCARDS = {"*": "/[^/]+", "**": "(/[^/]+)*"}


def check_parameter_files(arguments: Sequence[str], node: str) -> None:
    """Refuse a parameter file that the node cannot use.

    ROS itself starts a node without its parameters when a file speaks of another one, or of the same one in
    another namespace, and then a drive is captured in another way than was meant.

    Args:
        arguments: of the process, those for ROS among them.
        node: the name that the node has unless an argument gives it another one.

    Raises:
        ConfigError: a file is missing or no YAML, or nothing in it is for this node.
    """
    space = ""
    files: list[str] = []
    for option, value in _options(arguments):
        if option == "--params-file":
            files.append(value)
            continue
        rule, _, name = value.partition(":=")
        target, _, what = rule.rpartition(":")
        if target not in ("", node):
            continue
        if what == "__ns":
            space = name.strip("/")
        elif what in ("__node", "__name"):
            node = name
    own = f"/{space}/{node}" if space else f"/{node}"
    faults = [fault for file in files for fault in _faults(Path(file), own)]
    if faults:
        raise ConfigError(faults)


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options for ROS that have a value, each with it."""
    ours, waiting = False, ""
    for argument in arguments:
        if not ours:
            ours = argument == "--ros-args"
        elif argument == "--":
            ours, waiting = False, ""
        elif waiting:
            yield {"-r": "--remap"}.get(waiting, waiting), argument
            waiting = ""
        elif argument in ("--params-file", "--remap", "-r"):
            waiting = argument


def _faults(path: Path, node: str) -> list[str]:
    try:
        blocks = list(_blocks(read_yaml(path)))
    except ConfigError as error:
        return error.faults
    if any(meant and re.fullmatch(_pattern(name), node) for name, meant in blocks):
        return []
    found = ", ".join(name for name, _ in blocks) or "nothing"
    return [f"{path}: holds {found}, nothing for {node}; begin it with /**: and ros__parameters:"]


def _blocks(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, bool]]:
    """Every name in a file, and whether it is a node's; a namespace may be spelt as levels."""
    for key, value in data.items():
        name = f"{above}/{str(key).strip('/')}" if above else str(key)
        if not isinstance(value, dict):
            yield name, False
        elif "ros__parameters" in value:
            yield name, True
        else:
            yield from _blocks(value, name) if value else [(name, False)]


def _pattern(name: str) -> str:
    """A name in a file, with its wildcards, as a pattern of whole node names."""
    return "".join(_WILDCARDS.get(token, f"/{re.escape(token)}") for token in name.strip("/").split("/"))
