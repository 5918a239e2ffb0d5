"""Capture live: starts the node, then configures and activates it, which begins the first session."""

from __future__ import annotations

import sys
from functools import partial
from os import environ
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, LogInfo, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode

sys.path.append(str(Path(__file__).parent))  # launch runs this file without putting its folder there
from edgefirst_launch import (
    SHIPPED,
    SIGNALLED,
    arguments,
    common_arguments,
    config_file,
    given_parameters,
    is_true,
    launched,
    patience,
    rviz,
)

RESPAWN_S = 2.0
RMEM_MAX = Path("/proc/sys/net/core/rmem_max")
ENOUGH_BYTES = 8 * 1024 * 1024
"""net.core.rmem_max that cyclonedds.xml needs: Linux grants twice the limit, and Cyclone compares that."""
UNUSABLE = 2
"""Exit code of a node whose arguments or configuration are invalid: starting it again does not help."""

OWN = ("session", "start_paused", "record", "split_every")
ARGUMENTS = (
    *common_arguments("capture"),
    *arguments("capture", *OWN),
    DeclareLaunchArgument(
        "namespace",
        default_value="",
        description="Namespace of the node and of the device's topics. Give each device its own.",
    ),
    DeclareLaunchArgument(
        "autostart",
        default_value="true",
        choices=["true", "false"],
        description="Configure and activate the node at once, which begins a session. false: leave that to "
        "`ros2 lifecycle`.",
    ),
    DeclareLaunchArgument(
        "respawn",
        default_value="false",
        choices=["true", "false"],
        description=f"Restart the node {RESPAWN_S:g} s after it died, with a new session. Leave name empty "
        "then: a name can be used only once. `edgefirst-ros recover` completes the interrupted session.",
    ),
    DeclareLaunchArgument(
        "cyclonedds",
        default_value="auto",
        description="Cyclone DDS configuration for the node: a file, none, or auto, which uses "
        f"{SHIPPED / 'cyclonedds.xml'} unless CYCLONEDDS_URI is set or another middleware is selected.",
    ),
    DeclareLaunchArgument(
        "use_sim_time",
        default_value="",
        choices=["", "true", "false"],
        description="Take the time from /clock, as published by a simulator or player. Empty: as in config.",
    ),
)


def _cyclonedds(given: str) -> tuple[dict[str, str], list[object]]:
    """Environment variables that give Cyclone DDS a larger receive buffer, and actions that log a warning.

    Cyclone refuses to start if it gets less than the minimum in the shipped file. Where the kernel allows
    less, it is therefore given a configuration without a minimum. Other middlewares ignore the variable.
    """
    if given == "none":
        return {}, []
    if given != "auto":
        path = Path(given).expanduser()
        if not path.is_file():
            raise RuntimeError(f"cyclonedds {given}: no such file; give a path, auto or none")
        return {"CYCLONEDDS_URI": path.resolve().as_uri()}, []
    middleware = environ.get("RMW_IMPLEMENTATION", "")
    if environ.get("CYCLONEDDS_URI") or (middleware and "cyclonedds" not in middleware):
        return {}, []
    try:
        allowed = int(RMEM_MAX.read_text())
    except (OSError, ValueError):
        return {}, []
    if allowed >= ENOUGH_BYTES:
        return {"CYCLONEDDS_URI": (SHIPPED / "cyclonedds.xml").as_uri()}, []
    asked = "<Internal><SocketReceiveBufferSize max='16MB'/></Internal>"
    warning = (
        f"net.core.rmem_max limits Cyclone DDS to a receive buffer of {allowed / 1e6:.1f} MB: large messages "
        "may be lost; raise it with: sudo sysctl -w net.core.rmem_max=33554432"
    )
    actions = [LogInfo(msg=warning)] if middleware else []
    return {"CYCLONEDDS_URI": f"<CycloneDDS><Domain>{asked}</Domain></CycloneDDS>"}, actions


def _ended(event: ProcessExited, context: LaunchContext, *, respawn: bool, output: str) -> list[object]:
    """End the launch when the node ends, with an error if the node failed and is not respawned."""
    if context.is_shutdown and event.returncode and event.returncode not in SIGNALLED:
        raise RuntimeError(
            f"capture ended with exit code {event.returncode}, its session may be incomplete (see its log); "
            f"`edgefirst-ros recover {output}` completes what was committed"
        )
    if context.is_shutdown:
        return []
    if not event.returncode:
        return [EmitEvent(event=Shutdown(reason="capture has ended"))]
    if respawn and event.returncode != UNUSABLE:
        return [LogInfo(msg=f"capture ended with exit code {event.returncode}; restarting it")]
    raise RuntimeError(f"capture ended with exit code {event.returncode}: see its log above")


def _capture(context: LaunchContext) -> list[object]:
    respawn = is_true(context, "respawn")
    environment, warnings = _cyclonedds(LaunchConfiguration("cyclonedds").perform(context))
    node = LifecycleNode(
        package="edgefirst_ros",
        executable="capture",
        name="capture",
        namespace=LaunchConfiguration("namespace").perform(context),
        parameters=[
            config_file(context),
            given_parameters(context, "capture", *OWN, "autostart", "use_sim_time"),
        ],
        ros_arguments=["--log-level", LaunchConfiguration("log_level").perform(context)],
        additional_env=environment,
        output="screen",
        emulate_tty=True,
        respawn=respawn,
        respawn_delay=RESPAWN_S,
        **patience(context),
    )
    output = LaunchConfiguration("output").perform(context)
    ended = OnProcessExit(target_action=node, on_exit=partial(_ended, respawn=respawn, output=output))
    # Registered before the node starts, so that no event is missed.
    return [*warnings, RegisterEventHandler(ended), node, *rviz(context, "capture")]


def generate_launch_description() -> LaunchDescription:
    """The arguments and the node."""
    return launched(__file__, ARGUMENTS, _capture)
