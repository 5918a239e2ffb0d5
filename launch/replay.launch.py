"""Convert recordings with a ROS node, with status and preview topics; the launch ends with the conversion."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, RegisterEventHandler
from launch.actions import Shutdown as ShutdownAction
from launch.event_handlers import OnProcessExit
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

sys.path.append(str(Path(__file__).parent))  # launch runs this file without putting its folder there
from edgefirst_launch import (
    SIGNALLED,
    arguments,
    common_arguments,
    config_file,
    given_parameters,
    launched,
    patience,
    rviz,
)

INTERRUPTED = 130
"""Exit code of a replay that was interrupted and completed what it had read."""

OWN = ("overwrite", "rate")
ARGUMENTS = (
    DeclareLaunchArgument("bag", description="Recording: an MCAP file, or a folder of MCAP files."),
    *common_arguments("replay"),
    *arguments("replay", *OWN),
    DeclareLaunchArgument("namespace", default_value="", description="Namespace of the node."),
)


def _ended(event: ProcessExited, context: LaunchContext, *, output: str) -> list[ShutdownAction]:
    """End the launch when the node ends, with an error if the node failed."""
    if context.is_shutdown and event.returncode not in {0, INTERRUPTED, *SIGNALLED}:
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
    # Where no file is named, the node makes one of its recording.
    is_auto = LaunchConfiguration("config").perform(context) in {"", "auto"}
    node = Node(
        package="edgefirst_ros",
        executable="replay",
        name="replay",
        namespace=LaunchConfiguration("namespace").perform(context),
        parameters=[
            *([] if is_auto else [config_file(context)]),
            {**given_parameters(context, "replay", *OWN), "bag": [bag]},
        ],
        ros_arguments=["--log-level", LaunchConfiguration("log_level").perform(context)],
        output="screen",
        emulate_tty=True,
        **patience(context),
    )
    ended = partial(_ended, output=LaunchConfiguration("output").perform(context))
    return [
        RegisterEventHandler(OnProcessExit(target_action=node, on_exit=ended)),
        node,
        *rviz(context, "replay"),
    ]


def generate_launch_description() -> LaunchDescription:
    """The arguments and the node."""
    return launched(__file__, ARGUMENTS, _replay)
