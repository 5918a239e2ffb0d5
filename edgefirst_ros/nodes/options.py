"""The nodes' own parameters, and their executables' --help."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from inspect import getdoc
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.nodes.parameters import QOS_OVERRIDE, specify

STRICT = ConfigDict(extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True)


def _named(output: str) -> str:
    if not output.strip():
        raise ValueError("required: the folder to write to")
    return output


Folder = Annotated[str, AfterValidator(_named)]


class CaptureOptions(BaseModel):
    """Lifecycle node that captures datasets live from a ROS graph and accounts for every message.

    Nothing is captured until the node is active:
      ros2 lifecycle set /capture configure      checks the whole configuration and lists every fault
      ros2 lifecycle set /capture activate       begins a session
      ros2 lifecycle set /capture deactivate     completes the session, as Ctrl-C does
    To do this at start, set the parameter autostart, or use capture.launch.py.

    Services while active: ~/start, ~/stop, ~/split, ~/pause, ~/resume, ~/toggle_paused (std_srvs/Trigger).
    Topics: ~/status, ~/is_paused, ~/events/split (one message for each session that a split ended),
    /diagnostics, and with the parameter preview ~/preview/...
    """

    model_config = STRICT

    output: Folder = ""
    """Output folder; sessions are written below it. Required."""
    name: str = ""
    """Dataset name; empty: hostname_date_time. A name can be used only once."""
    session: str = ""
    """Session and sequence name; empty: hostname_date_time."""
    unlisted: bool = True
    """Subscribe to the device's topics before they are announced: a bridge to a Maivin creates a route
    only when there is a subscriber."""
    stop_within_s: float = Field(2.5, ge=0.1, le=60.0)
    """Time to write what is queued and to complete the files at the end of a session; messages that are
    left are dropped and counted."""
    preview: bool = False
    """Publish each sample on ~/preview/... for RViz and Foxglove."""
    start_paused: bool = False
    """Begin sessions paused: nothing is written until the service ~/resume is called."""
    bond_heartbeat_period: float = Field(0.1, ge=0.0, le=2.0)
    """Seconds between the heartbeats that an active node sends to a nav2_lifecycle_manager; 0: no bond.
    Needs the package bond; without it set bond_timeout: 0.0 in the manager."""
    autostart: bool = False
    """Configure and activate at start; if that fails, the node ends with exit code 2."""


def output_faults(folder: str) -> list[str]:
    """Create an output folder if it does not exist, and list what prevents writing to it."""
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=path).close()
    except OSError as error:
        return [f"output: {path}: cannot be written: {error.strerror}"]
    return []


class ReplayOptions(BaseModel):
    """Convert MCAP recordings into a dataset, as `edgefirst-ros convert` does, and end.

    Progress is published on ~/status; with the parameter preview the samples are published on ~/preview/...,
    which is useful with rate:=1.0.
    With launch: ros2 launch edgefirst_ros replay.launch.py bag:=FILE output:=DIR

    Exit codes: 0 done, 1 no samples, 2 wrong usage or input, 130 interrupted (what was read is complete).
    """

    model_config = STRICT

    bag: list[str] = []
    """Recordings: MCAP files, or folders of them. Required."""
    output: Folder = ""
    """Output folder; the dataset is written below it. Required."""
    name: str = ""
    """Dataset name; empty: the first recording's."""
    overwrite: bool = False
    """Replace an existing dataset of that name once the new one is complete."""
    rate: float = Field(0.0, ge=0.0)
    """Speed: 1 is the recording's own, 2 twice that, 0 as fast as possible."""
    preview: bool = False
    """Publish each sample on ~/preview/... for RViz and Foxglove."""

    @field_validator("bag")
    @classmethod
    def _given(cls, bag: list[str]) -> list[str]:
        if not any(path.strip() for path in bag):
            raise ValueError("required: at least one recording")
        return bag


NAMES = frozenset(CaptureOptions.model_fields) | frozenset(ReplayOptions.model_fields)
"""Options of both nodes: a parameter file may serve both, and each ignores the other's options."""
READ_ONLY = frozenset({"autostart"})
"""Parameters that are read once, when the node is created."""
LIVE = frozenset({"preview", "stop_within_s"})
"""Parameters that may change while a session is in progress."""
OTHERS = ("use_sim_time", "start_type_description_service", QOS_OVERRIDE)
"""Parameters that rclpy declares itself."""

INDENT, WIDTH = " " * 6, 100
CONFIGURATION = """\
All other parameters configure the pipeline; a configuration file of `edgefirst-ros convert --config` also is
a parameter file for this node. The options are listed in config/maivin.yaml, raivin.yaml and generic.yaml of
  ros2 pkg prefix --share edgefirst_ros"""


def check_arguments(node: str, options: type[BaseModel], arguments: Sequence[str]) -> None:
    """Answer --help and reject all other arguments; ``arguments`` are those left after ROS took its own.

    Raises:
        SystemExit: with the exit code of the process.
    """
    if not {"-h", "--help"}.isdisjoint(arguments):
        sys.stdout.write(_help(node, options))
        sys.exit(0)
    if arguments:
        refuse(node, f"{' '.join(arguments)}: unknown; parameters are given as --ros-args -p NAME:=VALUE")


def refuse(node: str, why: str) -> NoReturn:
    """End the process because its arguments are invalid.

    Raises:
        SystemExit: with exit code 2.
    """
    sys.stderr.write(f"{node}: error: {visible(why)}\n")
    sys.exit(2)


def _help(node: str, options: type[BaseModel]) -> str:
    call = f"usage: ros2 run edgefirst_ros {node} [--help] [--ros-args [-p NAME:=VALUE]..."
    head, _, more = (getdoc(options) or "").partition("\n\n")
    own = []
    for spec in specify(options):
        default = "" if spec.default in ("", []) else f", default {str(spec.default).lower()}"
        own.append(f"  {spec.name} ({spec.kind}{default})")
        own += textwrap.wrap(spec.description, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
    lines = (f"{call} [--params-file FILE]...]", "", head, "", "the node's own parameters:", *own)
    return "\n".join((*lines, "", CONFIGURATION, "", more, ""))
