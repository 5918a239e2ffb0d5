"""Writes until it is killed and says what is acknowledged: python ncorekilled.py ROOT OPTIONS."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ncoremade import SEQUENCE, drive

from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.sample import EgoPose


def main() -> None:
    writer = NCoreWriter(Path(sys.argv[1]), NCoreOptions(**json.loads(sys.argv[2])))
    writer.begin(SEQUENCE)
    for step in drive(3600.0):
        if isinstance(step, EgoPose):
            writer.pose(step)
            said = f"pose {step.time_ns // 1000}"
        else:
            written = writer.write(writer.prepare(step))
            said = f"{step.role.value} {step.measurement.time_ns // 1000}" if written.topics else ""
        if said:
            os.write(1, f"{said}\n".encode())


if __name__ == "__main__":
    main()
