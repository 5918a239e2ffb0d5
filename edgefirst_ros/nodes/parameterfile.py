"""The parameter file of a launch, found and looked into before anything starts; knows nothing of rclpy."""

from __future__ import annotations

from pathlib import Path

from edgefirst_ros.config import read_yaml
from edgefirst_ros.errors import ConfigError


def find_parameter_file(given: str, shipped: Path, node: str) -> Path:
    """A parameter file by its path, or a shipped one by its name, with or without ``.yaml``.

    ROS itself starts a node without its parameters when a file is missing or speaks of another node, and
    then a drive is captured in another way than was meant.

    Args:
        given: what the user said.
        shipped: folder of the shipped files.
        node: name of the node whose parameters are in it.

    Raises:
        ConfigError: there is no such file, or nothing in it is for this node.
    """
    path = Path(given).expanduser()
    by_name = shipped / f"{given.removesuffix('.yaml')}.yaml"
    if not path.is_file() and "/" not in given and by_name.is_file():
        path = by_name
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in shipped.glob("*.yaml")))
        raise ConfigError([f"config {given}: no such file; give a path, or one of {names}"])
    keys = [str(key) for key in read_yaml(path)]
    if not any(key.endswith("*") or key.rpartition("/")[2] == node for key in keys):
        found = ", ".join(keys) or "nothing"
        raise ConfigError(
            [f"config {path}: holds {found}, nothing for {node}; begin it with /**: and ros__parameters:"]
        )
    return path
