"""Convert recordings with a ROS node, with status and preview topics; the launch ends with the conversion."""

from __future__ import annotations

import sys
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, RegisterEventHandler
from launch.actions import Shutdown as ShutdownAction
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

sys.path.append(str(Path(__file__).parent))  # launch runs this file without putting its folder there
from edgefirst_launch import SIGNALLED, arguments, common_arguments, config_file, given_parameters, rviz

INTERRUPTED = 130
"""Exit code of a replay that was interrupted and completed what it had read."""

OWN = ("overwrite", "rate")
ARGUMENTS = (
    DeclareLaunchArgument("bag", description="Recording: an MCAP file, or a folder of MCAP files."),
    *common_arguments("replay"),
    *arguments("replay", *OWN),
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of the node."),
)


def _ended(event: ProcessExited, context: LaunchContext) -> list[ShutdownAction]:
    """End the launch when the node ends, with an error if the node failed."""
    if context.is_shutdown and event.returncode not in {0, INTERRUPTED, *SIGNALLED}:
        output = LaunchConfiguration("output").perform(context)
        raise RuntimeError(
            f"replay ended with exit code {event.returncode}, its dataset may be incomplete (see its log); "
            f"`edgefirst-ros recover {output}` completes what was committed"
        )
    if context.is_shutdown:
        return []
    if event.returncode:
        raise RuntimeError(f"replay failed with exit code {event.returncode}: see its log above")
    return [ShutdownAction(reason="replay is done")]


def _replay(context: LaunchContext) -> list[object]:
    bag = LaunchConfiguration("bag").perform(context)
    # Where the file is auto, the node makes one of its recording.
    is_auto = LaunchConfiguration("config").perform(context) == "auto"
    node = Node(
        package="edgefirst_ros",
        executable="replay",
        name="replay",
        namespace=LaunchConfiguration("namespace"),
        parameters=[
            *([] if is_auto else [config_file(context)]),
            {**given_parameters(context, "replay", *OWN), "bag": [bag]},
        ],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        output="screen",
        emulate_tty=True,
        # The node ignores a SIGTERM this soon after a SIGINT; SIGKILL is only for a node that hangs.
        sigterm_timeout=LaunchConfiguration("sigterm_timeout", default="5"),
        sigkill_timeout=LaunchConfiguration("sigkill_timeout", default="120"),
    )
    return [
        RegisterEventHandler(OnProcessExit(target_action=node, on_exit=_ended)),
        node,
        *rviz(context, "replay"),
    ]


def generate_launch_description() -> LaunchDescription:
    """The arguments and the node."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_replay)])
