"""Convert recordings with the node that ROS users know how to watch; ends when that is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# Nothing but launch and the standard library: what the nodes need is not on the path of `ros2`.
from ament_index_python.packages import (
    PackageNotFoundError,
    get_package_prefix,
    get_package_share_directory,
)
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, RegisterEventHandler
from launch.actions import Shutdown as ShutdownAction
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

SHIPPED = Path(get_package_share_directory("edgefirst_ros")) / "config"
PREVIEWS = ("image/compressed", "lidar", "radar")
INTERRUPTED = 130
"""Exit code of a replay that was asked to end and finished what it had read."""

ARGUMENTS = (
    DeclareLaunchArgument("bag", description="Recording: an MCAP file, or a folder of them."),
    DeclareLaunchArgument("output", description="Folder that the dataset is written below."),
    DeclareLaunchArgument(
        "config",
        default_value="maivin",
        description=f"ROS parameter file, or the name of one in {SHIPPED}, which show what can be said: "
        "maivin, raivin (radar, lidar) or generic (any robot). The arguments below come before what it says.",
    ),
    DeclareLaunchArgument(
        "formats",
        default_value="",
        description="What to write: edgefirst, ncore and l5kit, several with commas; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "prefix",
        default_value="",
        description="Prefix of the recording's topics, a host name or rt; empty: as in config, else found.",
    ),
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of the node."),
    DeclareLaunchArgument(
        "name",
        default_value="",
        description="Name of the dataset; empty: as in config, else the recording's.",
    ),
    DeclareLaunchArgument(
        "overwrite",
        default_value="",
        choices=["", "true", "false"],
        description="Replace a dataset of that name; empty: as in config, else false.",
    ),
    DeclareLaunchArgument(
        "rate",
        default_value="",
        description="Pace: 1.0 is the recording's own, 0.0 as fast as it goes; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "preview",
        default_value="",
        choices=["", "true", "false"],
        description="Publish every sample on ~/preview/... for RViz and Foxglove, sensible with rate:=1.0; "
        "empty: as in config.",
    ),
    DeclareLaunchArgument(
        "rviz",
        default_value="false",
        choices=["true", "false"],
        description="Also start RViz on the previews, if it is installed; they are published then, unless "
        "preview is false.",
    ),
    DeclareLaunchArgument("log_level", default_value="info", description="Level of the node's log."),
)
PARAMETERS: Mapping[str, type] = {
    "output": str,
    "prefix": str,
    "name": str,
    "overwrite": bool,
    "rate": float,
    "preview": bool,
}
"""Arguments that are parameters, where something is given; ``bag`` and ``formats`` are lists."""


def _find_config(given: str) -> str:
    """A file by its path, or a shipped one by its name; the node says what is wrong in it."""
    path = Path(given).expanduser()
    by_name = SHIPPED / f"{given.removesuffix('.yaml')}.yaml"
    if not path.is_file() and "/" not in given and by_name.is_file():
        path = by_name
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in SHIPPED.glob("*.yaml")))
        raise RuntimeError(f"config {given}: no such file; give a path, or one of {names}")
    return str(path)


def _parameters(context: LaunchContext) -> dict[str, object]:
    given = {
        name: LaunchConfiguration(name).perform(context) for name in ("rviz", "bag", "formats", *PARAMETERS)
    }
    parameters: dict[str, object] = {
        name: ParameterValue(LaunchConfiguration(name), value_type=kind)
        for name, kind in PARAMETERS.items()
        if given[name]
    }
    if given["formats"]:
        parameters["formats"] = [name.strip() for name in given["formats"].split(",")]
    if given["rviz"] == "true" and not given["preview"]:
        parameters["preview"] = True
    return parameters | {"bag": [given["bag"]]}


def _rviz(context: LaunchContext) -> list[object]:
    """RViz on the previews of this node, wherever its namespace puts them."""
    if LaunchConfiguration("rviz").perform(context) != "true":
        return []
    try:
        get_package_prefix("rviz2")
    except PackageNotFoundError:
        return [LogInfo(msg=f"rviz2 is not installed here; elsewhere: rviz2 -d {SHIPPED / 'edgefirst.rviz'}")]
    namespace = LaunchConfiguration("namespace").perform(context).strip("/")
    own = f"/{namespace}/replay" if namespace else "/replay"
    return [
        Node(
            package="rviz2",
            executable="rviz2",
            arguments=["-d", str(SHIPPED / "edgefirst.rviz")],
            remappings=[(f"/capture/preview/{each}", f"{own}/preview/{each}") for each in PREVIEWS],
        )
    ]


def _ended(event: ProcessExited, context: LaunchContext) -> list[ShutdownAction]:
    """End the launch with the node, and with an error if the node had one."""
    if context.is_shutdown and event.returncode not in {0, INTERRUPTED}:
        output = LaunchConfiguration("output").perform(context)
        raise RuntimeError(
            f"replay ended with exit code {event.returncode}, its dataset may be unfinished: see its log; "
            f"`edgefirst-ros recover {output}` finishes what was committed"
        )
    if context.is_shutdown:
        return []
    if event.returncode:
        raise RuntimeError(f"replay failed with exit code {event.returncode}: see its log above")
    return [ShutdownAction(reason="replay is done")]


def _replay(context: LaunchContext) -> list[object]:
    node = Node(
        package="edgefirst_ros",
        executable="replay",
        name="replay",
        namespace=LaunchConfiguration("namespace"),
        parameters=[
            _find_config(LaunchConfiguration("config").perform(context)),
            _parameters(context),
        ],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        output="screen",
        emulate_tty=True,
        # The node does not mind SIGTERM so soon after a SIGINT; what kills it is to come when it hangs only.
        sigterm_timeout=LaunchConfiguration("sigterm_timeout", default="5"),
        sigkill_timeout=LaunchConfiguration("sigkill_timeout", default="120"),
    )
    return [RegisterEventHandler(OnProcessExit(target_action=node, on_exit=_ended)), node, *_rviz(context)]


def generate_launch_description() -> LaunchDescription:
    """The node, and what ends the launch with it."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_replay)])
