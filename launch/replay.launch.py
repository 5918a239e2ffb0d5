"""Convert recordings with the node that ROS users know how to watch; ends when that is done."""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, RegisterEventHandler
from launch.actions import Shutdown as ShutdownAction
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from edgefirst_ros.nodes.parameterfile import find_parameter_file

SHIPPED = Path(get_package_share_directory("edgefirst_ros")) / "config"

ARGUMENTS = (
    DeclareLaunchArgument("bag", description="Recording: an MCAP file, or a folder of them."),
    DeclareLaunchArgument("output", description="Folder that the dataset is written below."),
    DeclareLaunchArgument(
        "config",
        default_value="maivin",
        description=f"ROS parameter file, or the name of one in {SHIPPED}, which show what can be said: "
        "maivin, raivin (radar, lidar) or generic (any robot).",
    ),
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of the node."),
    DeclareLaunchArgument(
        "name", default_value="", description="Name of the dataset; empty takes the recording's."
    ),
    DeclareLaunchArgument(
        "overwrite",
        default_value="false",
        choices=["true", "false"],
        description="Replace a dataset of that name.",
    ),
    DeclareLaunchArgument(
        "rate",
        default_value="0.0",
        description="Pace: 1.0 is the recording's own, 0.0 as fast as it goes.",
    ),
    DeclareLaunchArgument(
        "preview",
        default_value="false",
        choices=["true", "false"],
        description="Publish every sample on ~/preview/... for RViz and Foxglove; sensible with rate:=1.0.",
    ),
    DeclareLaunchArgument("log_level", default_value="info", description="Level of the node's log."),
)


def _ended(event: ProcessExited, context: LaunchContext) -> list[ShutdownAction]:
    """End the launch with the node, and with an error if the node had one."""
    if context.is_shutdown:
        return []
    if event.returncode:
        raise RuntimeError(f"replay failed with exit code {event.returncode}: see its log above")
    return [ShutdownAction(reason="replay is done")]


def _replay(context: LaunchContext) -> list[object]:
    config = find_parameter_file(LaunchConfiguration("config").perform(context), SHIPPED, "replay")
    node = Node(
        package="edgefirst_ros",
        executable="replay",
        name="replay",
        namespace=LaunchConfiguration("namespace"),
        parameters=[
            str(config),
            {"bag": [LaunchConfiguration("bag").perform(context)]},
            {
                name: ParameterValue(LaunchConfiguration(name), value_type=kind)
                for name, kind in (
                    ("output", str),
                    ("name", str),
                    ("overwrite", bool),
                    ("rate", float),
                    ("preview", bool),
                )
            },
        ],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        output="screen",
        emulate_tty=True,
    )
    return [RegisterEventHandler(OnProcessExit(target_action=node, on_exit=_ended)), node]


def generate_launch_description() -> LaunchDescription:
    """The node, and what ends the launch with it."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_replay)])
