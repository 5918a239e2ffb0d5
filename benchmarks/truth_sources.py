"""Recordings in several files, and in another order than that of receipt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from scenarios import Figure, converted, exactly, scenario, seconds, simulated


def contents(root: Path) -> str:
    """A digest of every dataset below ``root``: the report, which names the files read, apart."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != "capture_report.json":
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@scenario("splits", "a drive in 12 files is one sequence, byte for byte that of one file")
def splits(folder: Path) -> Iterator[Figure]:
    """12 files as rosbag2 and as the device names them against one file of the same drive."""
    length_s = seconds(24.0)
    whole = simulated(folder / "whole", seconds=length_s)
    expected = converted(whole.mcap, folder / "out-whole", dataset="drive")
    for names in ("rosbag2", "device"):
        split = simulated(folder / names, seconds=length_s, splits=12, split_names=names)
        done = converted(split.mcap.parent, folder / f"out-{names}", dataset="drive")
        yield exactly(f"{names}: sequences", len(done.report["sequences"]), 1)
        yield exactly(f"{names}: samples", done.report["samples"], expected.report["samples"])
    same = contents(folder / "out-device") == contents(folder / "out-whole")
    yield exactly("device: bytes as of one file", str(same), "True")
