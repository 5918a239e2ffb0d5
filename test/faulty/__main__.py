"""Make a recording of a drive with faults, as ``edgefirst-ros simulate`` makes one without.

python test/faulty simulate -o recording --seconds 8 --set drop_video=0.03 --set 'silent.gps=[[1,2]]'
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from edgefirst_ros.cli.recordings import _size, _values

sys.path[0] = str(Path(__file__).resolve().parents[1])

from faulty import faulty_options, simulate  # noqa: E402


def main() -> None:
    """Make it, and print the names of its files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["simulate"])
    parser.add_argument("--output", "-o", type=Path, required=True)
    for name, of in (("seconds", float), ("seed", int), ("fps", int), ("splits", int), ("codec", str)):
        parser.add_argument(f"--{name}", type=of, default=argparse.SUPPRESS)
    parser.add_argument("--size", type=_size, default="1280x720")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = vars(parser.parse_args())
    output, (width, height), settings = given.pop("output"), given.pop("size"), given.pop("set")
    del given["command"]
    made = simulate(output, faulty_options(given | {"width": width, "height": height} | _values(settings)))
    sys.stdout.writelines(f"{path}\n" for path in (*made.files, made.truth))


if __name__ == "__main__":
    main()
