"""Capture live, from configuring to the first session: the node is configured and activated by itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import environ
from pathlib import Path

# Nothing but launch and the standard library: what the nodes need is not on the path of `ros2`.
from ament_index_python.packages import (
    PackageNotFoundError,
    get_package_prefix,
    get_package_share_directory,
)
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.parameter_descriptions import ParameterValue

SHIPPED = Path(get_package_share_directory("edgefirst_ros")) / "config"
RESPAWN_S = 2.0
RMEM_MAX = Path("/proc/sys/net/core/rmem_max")
ENOUGH_BYTES = 8 * 1024 * 1024
"""Of net.core.rmem_max for the minimum in cyclonedds.xml: Linux grants the double, Cyclone compares it."""
PREVIEWS = ("image/compressed", "lidar", "radar")
UNUSABLE = 2
"""Exit code of a node that cannot use what it was told, however often it is started."""

ARGUMENTS = (
    DeclareLaunchArgument(
        "output", description="Folder that sessions are written below, each in a folder of its own."
    ),
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
        description="Prefix of the device's topics, a host name or rt; empty: as in config, else found.",
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
        "respawn",
        default_value="false",
        choices=["true", "false"],
        description=f"Start a node that died again, after {RESPAWN_S:g} s, with a new session; leave name "
        "empty then, since it can be used once. What the dead one left, `edgefirst-ros recover` finishes.",
    ),
    DeclareLaunchArgument(
        "name",
        default_value="",
        description="Name of the dataset; empty: as in config, else hostname_date_time-dataset.",
    ),
    DeclareLaunchArgument(
        "session",
        default_value="",
        description="Name of the session, a sequence; empty: as in config, else hostname_date_time.",
    ),
    DeclareLaunchArgument(
        "preview",
        default_value="",
        choices=["", "true", "false"],
        description="Publish every sample on ~/preview/... for RViz and Foxglove; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "cyclonedds",
        default_value="auto",
        description="Configuration of Cyclone DDS for the node: a file; none; or auto, which takes "
        f"{SHIPPED / 'cyclonedds.xml'} unless CYCLONEDDS_URI is set or another middleware is.",
    ),
    DeclareLaunchArgument(
        "split_every_s",
        default_value="",
        description="Begin another session after so many seconds; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "split_every_mb",
        default_value="",
        description="Begin another session after so many MB written; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "split_every_m",
        default_value="",
        description="Begin another session after so many metres driven; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "use_sim_time",
        default_value="",
        choices=["", "true", "false"],
        description="Take times from /clock, as a simulation or a player publishes it; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "rviz",
        default_value="false",
        choices=["true", "false"],
        description="Also start RViz on the previews, if it is installed; they are published then, unless "
        "preview is false.",
    ),
    DeclareLaunchArgument(
        "start_paused",
        default_value="",
        choices=["", "true", "false"],
        description="Begin sessions paused, until the service ~/resume is called; empty: as in config.",
    ),
    DeclareLaunchArgument(
        "record",
        default_value="",
        choices=["", "true", "false"],
        description="Also write every message that comes to an MCAP in recordings/ below output; empty: as "
        "in config.",
    ),
    DeclareLaunchArgument("log_level", default_value="info", description="Level of the node's log."),
)
PARAMETERS: Mapping[str, type] = {
    "output": str,
    "prefix": str,
    "autostart": bool,
    "name": str,
    "session": str,
    "preview": bool,
    "split_every_s": float,
    "split_every_mb": float,
    "split_every_m": float,
    "start_paused": bool,
    "record": bool,
    "use_sim_time": bool,
}
"""Arguments that are parameters, where something is given; ``formats`` is one, too, as a list."""


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
    given = {name: LaunchConfiguration(name).perform(context) for name in ("rviz", "formats", *PARAMETERS)}
    parameters: dict[str, object] = {
        name: ParameterValue(LaunchConfiguration(name), value_type=kind)
        for name, kind in PARAMETERS.items()
        if given[name]
    }
    if given["formats"]:
        parameters["formats"] = [name.strip() for name in given["formats"].split(",")]
    if given["rviz"] == "true" and not given["preview"]:
        parameters["preview"] = True
    return parameters


def _cyclonedds(given: str) -> tuple[dict[str, str], list[object]]:
    """Environment that gives Cyclone DDS room to receive in, and what is to be said of it.

    Cyclone does not start with less than the shipped file's minimum, so where the kernel allows less it is
    asked for as much as there is. Another middleware does not look at it.
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
    said = (
        f"Cyclone DDS gets {allowed / 1e6:.1f} MB to receive in, since net.core.rmem_max allows no more: "
        "large messages may be lost; sudo sysctl -w net.core.rmem_max=33554432"
    )
    told = [LogInfo(msg=said)] if middleware else []
    return {"CYCLONEDDS_URI": f"<CycloneDDS><Domain>{asked}</Domain></CycloneDDS>"}, told


def _rviz(context: LaunchContext) -> list[object]:
    """RViz on the previews of this node, wherever its namespace puts them."""
    if LaunchConfiguration("rviz").perform(context) != "true":
        return []
    try:
        get_package_prefix("rviz2")
    except PackageNotFoundError:
        return [LogInfo(msg=f"rviz2 is not installed here; elsewhere: rviz2 -d {SHIPPED / 'edgefirst.rviz'}")]
    namespace = LaunchConfiguration("namespace").perform(context).strip("/")
    own = f"/{namespace}/capture" if namespace else "/capture"
    return [
        Node(
            package="rviz2",
            executable="rviz2",
            arguments=["-d", str(SHIPPED / "edgefirst.rviz")],
            remappings=[(f"/capture/preview/{each}", f"{own}/preview/{each}") for each in PREVIEWS],
        )
    ]


def _ended(event: ProcessExited, context: LaunchContext, *, respawn: bool) -> list[object]:
    """End the launch with the node, and with an error if the node had one, unless it is started again."""
    if context.is_shutdown and event.returncode:
        output = LaunchConfiguration("output").perform(context)
        raise RuntimeError(
            f"capture ended with exit code {event.returncode}, its session may be unfinished: see its log; "
            f"`edgefirst-ros recover {output}` finishes what was committed"
        )
    if context.is_shutdown:
        return []
    if not event.returncode:
        return [EmitEvent(event=Shutdown(reason="capture has ended"))]
    if respawn and event.returncode != UNUSABLE:
        return [LogInfo(msg=f"capture ended with exit code {event.returncode}; it is started again")]
    raise RuntimeError(f"capture ended with exit code {event.returncode}: see its log above")


def _capture(context: LaunchContext) -> list[object]:
    respawn = LaunchConfiguration("respawn").perform(context) == "true"
    environment, told = _cyclonedds(LaunchConfiguration("cyclonedds").perform(context))
    node = LifecycleNode(
        package="edgefirst_ros",
        executable="capture",
        name="capture",
        namespace=LaunchConfiguration("namespace"),
        parameters=[
            _find_config(LaunchConfiguration("config").perform(context)),
            _parameters(context),
        ],
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        additional_env=environment,
        output="screen",
        emulate_tty=True,
        respawn=respawn,
        respawn_delay=RESPAWN_S,
        # The node does not mind SIGTERM so soon after a SIGINT; what kills it is to come when it hangs only.
        sigterm_timeout=LaunchConfiguration("sigterm_timeout", default="5"),
        sigkill_timeout=LaunchConfiguration("sigkill_timeout", default="120"),
    )
    ended = OnProcessExit(target_action=node, on_exit=partial(_ended, respawn=respawn))
    # Registered before the node starts, so that no event is missed.
    return [*told, RegisterEventHandler(ended), node, *_rviz(context)]


def generate_launch_description() -> LaunchDescription:
    """The arguments, then the node."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_capture)])
