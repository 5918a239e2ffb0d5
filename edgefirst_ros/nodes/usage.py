"""What a node's executable says to --help, and to arguments that mean nothing; knows nothing of rclpy."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from edgefirst_ros.nodes.parameters import specify

INDENT, WIDTH = " " * 6, 100
CONFIGURATION = """\
Every other parameter configures the pipeline, and a file for `edgefirst-ros convert --config` is a parameter file
for this node. config/maivin.yaml, raivin.yaml and generic.yaml in the package's share folder show what can be said:
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
        parser = argparse.ArgumentParser(
            prog=f"ros2 run edgefirst_ros {self.executable}",
            usage="%(prog)s [--help] [--ros-args [-p NAME:=VALUE]... [--params-file FILE] ...]",
            description=self.about,
            epilog="\n".join(
                ["parameters of its own:", *self._parameters(), "", CONFIGURATION, "", self.more]
            ),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _, unknown = parser.parse_known_args(list(arguments))
        if unknown:
            words = " ".join(unknown)
            parser.error(f"{words}: not understood; parameters are given as --ros-args -p NAME:=VALUE")

    def _parameters(self) -> Iterator[str]:
        for spec in specify(self.options):
            default = "" if spec.default in ("", []) else f", default {str(spec.default).lower()}"
            yield f"  {spec.name} ({spec.kind}{default})"
            yield from textwrap.wrap(spec.description, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
