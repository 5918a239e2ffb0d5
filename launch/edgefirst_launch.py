"""What the launch files of both nodes share: arguments, parameters, and RViz on the previews.

Only launch, ament and the standard library are imported: the Python of `ros2` lacks what the nodes need.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from tempfile import NamedTemporaryFile
from textwrap import indent
from typing import Any

from ament_index_python.packages import (
    PackageNotFoundError,
    get_package_prefix,
    get_package_share_directory,
)
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, LogInfo, OpaqueFunction
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

SHIPPED = Path(get_package_share_directory("edgefirst_ros")) / "config"
SAID: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(
    Path(__file__).with_name("options.json").read_text(encoding="utf-8")
)
"""What the nodes say of their parameters, and the configuration of its options."""
TYPES: Mapping[str, type] = {"bool": bool, "double": float, "string": str}
SIGNALLED = {-signal.SIGINT, -signal.SIGTERM}
"""Exit codes of a node that had not begun yet: once it has, it handles these signals."""
PREVIEWS = ("image/compressed", "lidar", "radar")


def arguments(node: str, *names: str) -> list[DeclareLaunchArgument]:
    """Arguments for parameters of a node, which says what they are; an empty one is as in config."""
    return [
        DeclareLaunchArgument(
            name,
            default_value="",
            choices=["", "true", "false"] if said["kind"] == "bool" else None,
            description=f"{said['is']} Empty: as in config.",
        )
        for name in names
        for said in [SAID[node].get(name) or SAID["config"][name]]
    ]


def common_arguments(node: str) -> list[DeclareLaunchArgument]:
    """The arguments that both launch files have."""
    return [
        DeclareLaunchArgument("output", description=SAID[node]["output"]["is"]),
        DeclareLaunchArgument(
            "config",
            default_value="",
            description=f"ROS parameter file, or the name of one in {SHIPPED}: maivin, raivin (radar, lidar) "
            "or generic (any robot); maivin lists the usual options. auto: made of what is in the recording, "
            "or published in the namespace within five seconds, and kept beside the output. Empty: auto if "
            "a camera or lidar is published and no topic of a Maivin, else maivin. The other arguments "
            "override the file.",
        ),
        *arguments(node, "formats", "prefix", "name", "preview"),
        DeclareLaunchArgument(
            "rviz",
            default_value="false",
            choices=["true", "false"],
            description="Also start RViz on the previews, if installed. Turns preview on unless given.",
        ),
        DeclareLaunchArgument("log_level", default_value="info", description="Log level of the node."),
        # The node ignores a SIGTERM this soon after a SIGINT; SIGKILL is only for a node that hangs.
        DeclareLaunchArgument(
            "sigterm_timeout",
            default_value="70",
            description="Seconds from the launch's SIGINT to its SIGTERM; the node ends by itself before, "
            "within its stop_within_s of at most 60.",
        ),
        DeclareLaunchArgument(
            "sigkill_timeout", default_value="120", description="Seconds from SIGTERM to SIGKILL."
        ),
    ]


def launched(
    file: str, arguments: Sequence[DeclareLaunchArgument], make: Callable[[LaunchContext], list[object]]
) -> LaunchDescription:
    """A launch file whose arguments are checked by name, and are none of the file's that includes it."""

    def checked(context: LaunchContext) -> list[object]:
        # Where another file includes this one, the command line is that one's.
        is_given = Path(file).name in {Path(each).name for each in sys.argv}
        known = [each.name for each in arguments]
        for name in (given.partition(":=")[0] for given in context.argv if is_given):
            if name not in known and not name.startswith("launch-prefix"):
                near = "".join(f"; did you mean {each}?" for each in get_close_matches(name, known, 1))
                raise RuntimeError(f"{name}: no such argument{near or '; --show-args lists them'}")
        return make(context)

    return LaunchDescription([GroupAction([*arguments, OpaqueFunction(function=checked)])])


def is_true(context: LaunchContext, name: str) -> bool:
    """Whether an argument is given as ``true``."""
    return bool(LaunchConfiguration(name).perform(context) == "true")


def config_file(context: LaunchContext) -> str:
    """Path of the file that the argument ``config`` names, or of a copy that has the form of ROS.

    Raises:
        RuntimeError: there is no such file.
    """
    given = LaunchConfiguration("config").perform(context)
    if given in {"", "auto"} and (made := suggested(context, is_asked=bool(given))):
        return made
    given = given or "maivin"
    path = Path(given).expanduser()
    by_name = SHIPPED / f"{given.removesuffix('.yaml')}.yaml"
    if not path.is_file() and "/" not in given and by_name.is_file():
        path = by_name
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in SHIPPED.glob("*.yaml")))
        raise RuntimeError(f"config {given}: no such file; give a path, auto, or one of {names}")
    text = path.read_text(encoding="utf-8")
    if "ros__parameters" in text:
        return str(path)
    with NamedTemporaryFile("w", suffix=f"_{path.name}", delete=False, encoding="utf-8") as file:
        file.write("/**:\n  ros__parameters:\n" + indent(text, "    "))
    return file.name


def suggested(context: LaunchContext, *, is_asked: bool) -> str:
    """Path of a file beside the output that ``suggest`` makes of what is published in the namespace now.

    Empty if none ``is_asked`` for, and a Maivin's topics are published, or nothing that samples begin with.

    Raises:
        RuntimeError: one is asked for and nothing is published, or the folder cannot be made.
    """
    space, prefix, output, simulated = (
        LaunchConfiguration(name, default="").perform(context)
        for name in ("namespace", "prefix", "output", "use_sim_time")
    )
    command = [str(Path(get_package_prefix("edgefirst_ros"), "lib", "edgefirst_ros", "suggest"))]
    command += ["--prefix", prefix, *["--if-needed"] * (not is_asked)]
    command += ["--ros-args", "-r", f"__ns:=/{space.strip('/')}"]
    command += ["-p", f"use_sim_time:={simulated or 'false'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and is_asked:
        raise RuntimeError(f"config auto: {done.stderr.strip()}")
    if not done.stdout:
        return ""
    path = Path(output).expanduser() / f"config_{time.strftime('%Y_%m_%d_%H_%M_%S')}.yaml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(done.stdout, encoding="utf-8")
    except OSError as error:
        raise RuntimeError(f"config auto: {path}: cannot be written: {error.strerror}") from error
    for line in done.stderr.splitlines():
        get_logger("launch").warning(line.removeprefix("warning: "))
    why = "" if is_asked else "no topic of a Maivin is published, but others are: "
    get_logger("launch").info(
        f"config auto: {why}{path} was made; correct what is wrong in it, then give it as config"
    )
    return str(path)


def given_parameters(context: LaunchContext, node: str, *names: str) -> dict[str, object]:
    """The node's parameters from the arguments of these names, and of both nodes', that are not empty."""
    parameters: dict[str, object] = {}
    for name in ("output", "formats", "prefix", "name", "preview", *names):
        given = LaunchConfiguration(name).perform(context)
        kind = (SAID[node].get(name) or SAID["config"].get(name, {"kind": "bool"}))["kind"]
        if given and kind == "string array":
            parameters[name] = [each.strip() for each in given.split(",")]
        elif given:
            parameters[name] = ParameterValue(LaunchConfiguration(name), value_type=TYPES[kind])
    if is_true(context, "rviz") and "preview" not in parameters:
        parameters["preview"] = True
    return parameters


def patience(context: LaunchContext) -> dict[str, str]:
    """How long the launch waits for a node to end, as it is given; the node's group is over by then."""
    names = ("sigterm_timeout", "sigkill_timeout")
    return {name: LaunchConfiguration(name).perform(context) for name in names}


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
    shown = [(f"/capture/preview/{each}", f"{own}/preview/{each}") for each in PREVIEWS]
    return [
        Node(
            package="rviz2",
            executable="rviz2",
            arguments=["-d", str(SHIPPED / "edgefirst.rviz")],
            remappings=[*shown, ("/tf_static", f"{own}/preview/tf_static")],
        )
    ]
