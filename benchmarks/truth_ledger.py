"""The account against the files: duplicates, damaged video, and what is called written."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scenarios import Figure, driven, exactly, scenario, seconds, told

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.pipeline.ledger import COLUMNS

FORMATS = ("edgefirst", "ncore", "l5kit")
CAMERA = "/camera/h264"
SENSORS = (CAMERA, "/radar/targets", "/lidar/points", "/model/output", "/imu", "/gps")
COMPLETE: dict[str, Any] = {"radar_hz": 20.0, "lidar_hz": 20.0, "fps": 10, "model_hz": 10.0, "gps_no_fix": 0}
"""Every picture has its companions."""


def pictures(out: Path) -> int:
    """Camera pictures in the EdgeFirst datasets below a folder."""
    count = 0
    for path in out.rglob("*.zip"):
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as opened:
            count += sum(name.endswith(".camera.jpeg") for name in opened.namelist())
    return count


def frames(out: Path) -> int:
    """Frames in the L5Kit datasets below a folder."""
    return sum(json.loads(path.read_text())["shape"][0] for path in out.rglob("*.zarr/frames/.zarray"))


def unbalanced(report: Mapping[str, Any]) -> int:
    """Topics whose columns do not add up to what was received."""
    topics = report["topics"].values()
    return sum(account["received"] != sum(account[c] for c in COLUMNS) for account in topics)


@scenario("duplicates", "a message recorded twice is refused and counted, in every format")
def duplicates(folder: Path) -> Iterator[Figure]:
    """Every format by itself, with every sensor's messages recorded twice, against the truth's counts."""
    for name in FORMATS:
        done, truth = driven(folder / name, [name], seconds=seconds(8.0), duplicate={"*": 1.0}, **COMPLETE)
        report, counts = done.report, truth.data["counts"]
        refused = sum(report["topics"][t]["reasons"]["refused"].get(Reason.SAME_MESSAGE, 0) for t in SENSORS)
        yield exactly(f"{name}: refused", refused, sum(counts[t] for t in SENSORS) // 2)
        yield exactly(f"{name}: topics that do not balance", unbalanced(report), 0)
        yield told(f"{name}: samples", report["samples"])
    yield exactly("edgefirst: pictures", pictures(folder / "edgefirst" / "out"), counts[CAMERA] // 2)


@scenario("same-stamp", "a picture with the stamp of the one before costs itself and no other")
def same_stamp(folder: Path) -> Iterator[Figure]:
    """All formats; the pictures after such a one are built on it, and still come out."""
    done, truth = driven(folder, FORMATS, seconds=seconds(8.0), same_stamp=0.1, **COMPLETE)
    report, twice = done.report, len(truth.data["video"][CAMERA]["same_stamp"])
    camera = report["topics"][CAMERA]
    yield exactly("refused", camera["reasons"]["refused"].get(Reason.SAME_STAMP, 0), twice)
    yield exactly("dropped", camera["dropped"], 0)
    yield exactly("samples", report["samples"], camera["received"] - twice)
    yield exactly("pictures", pictures(folder / "out"), report["samples"])


@scenario("counts", "what the report counts is what lies in the datasets, under damaged video")
def counts_under_damage(folder: Path) -> Iterator[Figure]:
    """H.264 and H.265, a fifth of the access units damaged in place."""
    for codec in ("h264", "h265"):
        done, _ = driven(
            folder / codec, FORMATS, seconds=seconds(8.0), codec=codec, damage_video=0.2, **COMPLETE
        )
        report, out = done.report, folder / codec / "out"
        yield exactly(f"{codec}: samples", report["samples"], pictures(out))
        yield exactly(f"{codec}: l5kit frames", report["formats"]["l5kit"]["frames"], frames(out))
        of_sequences = sum(each["sample"] for each in report["sequences"])
        yield exactly(f"{codec}: samples of the sequences", of_sequences, report["samples"])
        yield exactly(f"{codec}: topics that do not balance", unbalanced(report), 0)
        yield exactly(f"{codec}: errors of check", sum(each.errors for each in check(out)), 0)


@scenario("pairing-error", "the same whatever formats are written")
def pairing_error(folder: Path) -> Iterator[Figure]:
    """Median of lidar and radar, of one drive, format by format and all at once."""
    first: dict[str, Any] = {}
    for formats in (*((name,) for name in FORMATS), FORMATS):
        done, _ = driven(folder / "-".join(formats), formats, seconds=seconds(6.0), fps=10)
        for topic in ("/lidar/points", "/radar/targets"):
            median = done.report["topics"][topic]["pairing_error_ms"]["p50"]
            expected = first.setdefault(topic, median)
            yield exactly(f"{' '.join(formats)}: {topic} p50", median, expected, "ms")
