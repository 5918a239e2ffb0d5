"""What a node's executable says to --help, and to arguments that mean nothing; knows nothing of rclpy."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pydantic import BaseModel

from edgefirst_ros.nodes.options import CaptureOptions, ReplayOptions
from edgefirst_ros.nodes.parameters import specify

INDENT, WIDTH = " " * 6, 100
CONFIGURATION = """\
Every other parameter configures the pipeline, and a file for `edgefirst-ros convert --config` is a
parameter file for this node, too. config/maivin.yaml, raivin.yaml and generic.yaml show what can be said:
  ros2 pkg prefix --share edgefirst_ros"""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is said of an executable: ``about`` it, its own parameters, and ``more`` that helps."""

    executable: str
    about: str
    options: type[BaseModel]
    more: str

    def check(self, arguments: Sequence[str]) -> None:
        """Answer --help, and refuse what is not for ROS; ``arguments`` are those that ROS has no use for.

        Raises:
            SystemExit: the process is to end, with this exit code.
        """
        parser = self._parser()
        _, unknown = parser.parse_known_args(list(arguments))
        if unknown:
            self.refuse(
                f"{' '.join(unknown)}: not understood; parameters are given as --ros-args -p NAME:=VALUE"
            )

    def refuse(self, why: str) -> NoReturn:
        """End the process because of its arguments.

        Raises:
            SystemExit: with exit code 2.
        """
        self._parser().error(why)

    def _parser(self) -> argparse.ArgumentParser:
        return argparse.ArgumentParser(
            prog=f"ros2 run edgefirst_ros {self.executable}",
            usage="%(prog)s [--help] [--ros-args [-p NAME:=VALUE]... [--params-file FILE] ...]",
            description=self.about,
            epilog="\n".join(
                ["parameters of its own:", *self._parameters(), "", CONFIGURATION, "", self.more]
            ),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def _parameters(self) -> Iterator[str]:
        for spec in specify(self.options):
            default = "" if spec.default in ("", []) else f", default {str(spec.default).lower()}"
            yield f"  {spec.name} ({spec.kind}{default})"
            yield from textwrap.wrap(spec.description, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)


CAPTURE = Usage(
    "capture",
    "Capture live from a ROS graph into datasets, every message accounted for: a lifecycle node.",
    CaptureOptions,
    """\
Nothing is recorded until the node is active:
  ros2 lifecycle set /capture configure      checks everything, lists every fault
  ros2 lifecycle set /capture activate       a session begins
  ros2 lifecycle set /capture deactivate     it is finished, and so it is by Ctrl-C
or in one: the parameter autostart, or ros2 launch edgefirst_ros capture.launch.py output:=DIR

While it is active: services ~/start, ~/stop, ~/split, ~/pause, ~/resume, ~/toggle_paused
(std_srvs/Trigger), topics ~/status, ~/events/split (each session that a split ended) and /diagnostics,
and with the parameter preview also ~/preview/image/compressed, ~/preview/lidar and ~/preview/radar.""",
)
REPLAY = Usage(
    "replay",
    "Convert recordings (MCAP) into datasets, as `edgefirst-ros convert` does, and end.",
    ReplayOptions,
    """\
Progress is on ~/status; with the parameter preview what is written is on ~/preview/..., which is
sensible with rate:=1.0. In one: ros2 launch edgefirst_ros replay.launch.py bag:=FILE output:=DIR

Exit codes: 0 done, 1 nothing came of it, 2 wrong usage or input, 130 interrupted and finished.""",
)
