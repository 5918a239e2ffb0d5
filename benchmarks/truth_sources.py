"""Recordings in several files, and in another order than that of receipt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from faults import Truth
from scenarios import Figure, at_most, converted, exactly, scenario, seconds, simulated


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


@scenario("seams", "a file that is missing is said, and costs its own time and the wait for a key frame")
def seams(folder: Path) -> Iterator[Figure]:
    """One of twelve files of a drive is not there."""
    made = simulated(folder / "drive", seconds=seconds(24.0), splits=12)
    lost = made.files[5]
    lost.unlink()
    done = converted(made.mcap.parent, folder / "out")
    yield exactly("sequences", len(done.report["sequences"]), 1)
    yield exactly("told", str(any(lost.name in note for note in done.report["notes"])), "True")
    truth = Truth.read(made.truth)
    frames = len(truth.true_ns("/camera/h264"))
    # Its own two seconds, and up to one until the next key frame.
    yield at_most("pictures lost", frames - done.report["samples"], frames / 12 + 16)


@scenario("topic order", "a file that lies topic by topic gives the bytes of one in the order of receipt")
def topic_order(folder: Path) -> Iterator[Figure]:
    """The same drive in both orders, whole and cut before its summary."""
    length_s = seconds(12.0)
    whole = simulated(folder / "whole", seconds=length_s)
    expected = converted(whole.mcap, folder / "out-whole", dataset="drive")
    for name, footer in (("with summary", True), ("without summary", False)):
        made = simulated(folder / name, seconds=length_s, order="topic", footer=footer)
        done = converted(made.mcap, folder / f"out-{name}", dataset="drive")
        yield exactly(f"{name}: samples", done.report["samples"], expected.report["samples"])
        same = contents(folder / f"out-{name}") == contents(folder / "out-whole")
        yield exactly(f"{name}: bytes as in order", str(same), "True")
