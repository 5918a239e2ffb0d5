"""Make a recording of a drive with faults, as ``edgefirst-ros simulate`` makes one without.

python test/faulty simulate -o recording --seconds 8 --set drop_video=0.03 --set 'silent.gps=[[1,2]]'
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

sys.path[0] = str(Path(__file__).resolve().parents[1])

from faulty import faulty_options, simulate  # noqa: E402


def size(text: str) -> tuple[int, int]:
    """Width and height, as ``1280x720``."""
    width, height = map(int, text.split("x"))
    return width, height


def values(settings: Iterable[str]) -> dict[str, Any]:
    """Settings ``a.b=value``, with values in YAML, as nested mappings."""
    found: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        *parents, last = name.split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = yaml.safe_load(text)
    return found


def main() -> None:
    """Make it, and print the names of its files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["simulate"])
    parser.add_argument("--output", "-o", type=Path, required=True)
    for name, of in (("seconds", float), ("seed", int), ("fps", int), ("splits", int), ("codec", str)):
        parser.add_argument(f"--{name}", type=of, default=argparse.SUPPRESS)
    parser.add_argument("--size", type=size, default=(1280, 720))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = vars(parser.parse_args())
    output, (width, height), settings = given.pop("output"), given.pop("size"), given.pop("set")
    del given["command"]
    made = simulate(output, faulty_options(given | {"width": width, "height": height} | values(settings)))
    sys.stdout.writelines(f"{path}\n" for path in (*made.files, made.truth))


if __name__ == "__main__":
    main()
