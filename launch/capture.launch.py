"""Capture live, from configuring to the first session: the node is configured and activated by itself."""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.conditions import IfCondition
from launch.event_handlers import OnProcessExit, OnProcessStart
from launch.events import Shutdown, matches_action
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from lifecycle_msgs.msg import Transition

from edgefirst_ros.nodes.parameterfile import find_parameter_file

SHIPPED = Path(get_package_share_directory("edgefirst_ros")) / "config"

ARGUMENTS = (
    DeclareLaunchArgument(
        "output", description="Folder that sessions are written below, each in a folder of its own."
    ),
    DeclareLaunchArgument(
        "config",
        default_value="maivin",
        description=f"ROS parameter file, or the name of one in {SHIPPED}, which show what can be said: "
        "maivin, raivin (radar, lidar) or generic (any robot).",
    ),
    DeclareLaunchArgument(
        "namespace",
        default_value="",
        description="Namespace of the node, and of the device's topics: give every device its own.",
    ),
    DeclareLaunchArgument(
        "autostart",
        default_value="true",
        choices=["true", "false"],
        description="Configure and activate at once, so that a session begins; or use `ros2 lifecycle`.",
    ),
    DeclareLaunchArgument(
        "name", default_value="", description="Name of the dataset; empty makes hostname_date_time-dataset."
    ),
    DeclareLaunchArgument(
        "preview",
        default_value="false",
        choices=["true", "false"],
        description="Publish every sample on ~/preview/... for RViz and Foxglove.",
    ),
    DeclareLaunchArgument("log_level", default_value="info", description="Level of the node's log."),
)


def _failed(context: LaunchContext, what: str) -> None:
    """End the launch with an error, unless it is ending anyway."""
    if not context.is_shutdown:
        raise RuntimeError(f"capture {what}: see its log above")


def _ended(event: ProcessExited, context: LaunchContext) -> list[EmitEvent]:
    """End the launch with the node, and with an error if the node had one."""
    if context.is_shutdown:
        return []
    if event.returncode:
        raise RuntimeError(f"capture ended with exit code {event.returncode}: see its log above")
    return [EmitEvent(event=Shutdown(reason="capture has ended"))]


def _capture(context: LaunchContext) -> list[object]:
    """The node, and what makes it start by itself."""
    config = find_parameter_file(LaunchConfiguration("config").perform(context), SHIPPED, "capture")
    node = LifecycleNode(
        package="edgefirst_ros",
        executable="capture",
        name="capture",
        namespace=LaunchConfiguration("namespace"),
        parameters=[
            str(config),
            {
                name: ParameterValue(LaunchConfiguration(name), value_type=kind)
                for name, kind in (("output", str), ("name", str), ("preview", bool))
            },
        ],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        output="screen",
        emulate_tty=True,
    )

    def change(transition: int) -> EmitEvent:
        return EmitEvent(
            event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition)
        )

    def when(start: str, goal: str, *actions: object) -> RegisterEventHandler:
        return RegisterEventHandler(
            OnStateTransition(
                target_lifecycle_node=node, start_state=start, goal_state=goal, entities=list(actions)
            ),
            condition=IfCondition(LaunchConfiguration("autostart")),
        )

    return [
        # Registered before the node starts, so that no event is missed.
        RegisterEventHandler(
            OnProcessStart(target_action=node, on_start=[change(Transition.TRANSITION_CONFIGURE)]),
            condition=IfCondition(LaunchConfiguration("autostart")),
        ),
        when("configuring", "inactive", change(Transition.TRANSITION_ACTIVATE)),
        when("activating", "active", LogInfo(msg="capture is active")),
        when(
            "configuring",
            "unconfigured",
            OpaqueFunction(function=_failed, args=["could not be configured"]),
        ),
        when("activating", "inactive", OpaqueFunction(function=_failed, args=["could not be activated"])),
        RegisterEventHandler(OnProcessExit(target_action=node, on_exit=_ended)),
        node,
    ]


def generate_launch_description() -> LaunchDescription:
    """The arguments, then the node."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_capture)])
