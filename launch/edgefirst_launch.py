"""What the launch files of both nodes share: arguments, parameters, and RViz on the previews.

Only launch, ament and the standard library are imported: the Python of `ros2` lacks what the nodes need.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ament_index_python.packages import (
    PackageNotFoundError,
    get_package_prefix,
    get_package_share_directory,
)
from launch import LaunchContext
from launch.actions import DeclareLaunchArgument, LogInfo
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

SHIPPED = Path(get_package_share_directory("edgefirst_ros")) / "config"
PREVIEWS = ("image/compressed", "lidar", "radar")


def common_arguments() -> list[DeclareLaunchArgument]:
    """The arguments that both launch files have."""
    return [
        DeclareLaunchArgument(
            "config",
            default_value="maivin",
            description=f"ROS parameter file, or the name of one in {SHIPPED}: maivin, raivin (radar, lidar) "
            "or generic (any robot); maivin lists the usual options. The other arguments override the file.",
        ),
        DeclareLaunchArgument(
            "formats",
            default_value="",
            description="Formats, separated by commas: edgefirst, ncore, l5kit. Empty: as in config.",
        ),
        DeclareLaunchArgument(
            "prefix",
            default_value="",
            description="Prefix of the topics: a host name, or rt. Empty: as in config, else detected.",
        ),
        DeclareLaunchArgument(
            "rviz",
            default_value="false",
            choices=["true", "false"],
            description="Also start RViz on the previews, if installed. Turns preview on unless given.",
        ),
        DeclareLaunchArgument("log_level", default_value="info", description="Log level of the node."),
    ]


def is_true(context: LaunchContext, name: str) -> bool:
    """Whether an argument is given as ``true``."""
    return bool(LaunchConfiguration(name).perform(context) == "true")


def config_file(context: LaunchContext) -> str:
    """Path of the file that the argument ``config`` names: any file, or a shipped one by its stem.

    Raises:
        RuntimeError: there is no such file.
    """
    given = LaunchConfiguration("config").perform(context)
    path = Path(given).expanduser()
    by_name = SHIPPED / f"{given.removesuffix('.yaml')}.yaml"
    if not path.is_file() and "/" not in given and by_name.is_file():
        path = by_name
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in SHIPPED.glob("*.yaml")))
        raise RuntimeError(f"config {given}: no such file; give a path, or one of {names}")
    return str(path)


def given_parameters(context: LaunchContext, kinds: Mapping[str, type]) -> dict[str, object]:
    """The node's parameters from the arguments that are not empty; ``kinds`` maps arguments to types."""
    given = {name: LaunchConfiguration(name).perform(context) for name in ("formats", *kinds)}
    parameters: dict[str, object] = {
        name: ParameterValue(LaunchConfiguration(name), value_type=kind)
        for name, kind in kinds.items()
        if given[name]
    }
    if given["formats"]:
        parameters["formats"] = [name.strip() for name in given["formats"].split(",")]
    if is_true(context, "rviz") and not given["preview"]:
        parameters["preview"] = True
    return parameters


def rviz(context: LaunchContext, node: str) -> list[object]:
    """RViz on the previews of ``node`` in the launch's namespace, if the argument ``rviz`` asks for it."""
    if not is_true(context, "rviz"):
        return []
    try:
        get_package_prefix("rviz2")
    except PackageNotFoundError:
        there = f"rviz2 -d {SHIPPED / 'edgefirst.rviz'}"
        return [LogInfo(msg=f"rviz2 is not installed on this machine; on another one: {there}")]
    namespace = LaunchConfiguration("namespace").perform(context).strip("/")
    own = f"/{namespace}/{node}" if namespace else f"/{node}"
    return [
        Node(
            package="rviz2",
            executable="rviz2",
            arguments=["-d", str(SHIPPED / "edgefirst.rviz")],
            remappings=[(f"/capture/preview/{each}", f"{own}/preview/{each}") for each in PREVIEWS],
        )
    ]
