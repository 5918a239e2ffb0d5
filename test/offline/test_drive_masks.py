"""Masks of a simulated drive, in the datasets, against what the pictures beside them show."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from drives import simulate
from faulty import FaultyOptions, Truth
from PIL import Image
from written import Written, exif_time_ns

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ledger import COLUMNS
from edgefirst_ros.sources.mcap import McapRecording

SIZE = (64, 36)
SMALL: dict[str, Any] = {
    "seconds": 3.0,
    "width": 192,
    "height": 108,
    "lidar_hz": 0.0,
    "radar_hz": 0.0,
    "cube_hz": 0.0,
    "imu_hz": 20.0,
    "gps_hz": 1.0,
    "masks": True,
    "mask_size": SIZE,
}
VALUES: dict[str, Any] = {
    "formats": ["edgefirst", "ncore"],
    "edgefirst": {"schema_version": "2026.10"},
    "topics": {name: {"required": "never"} for name in ("model", "model_mask")},
}
OUTPUT_SPOILT = {"silent": {"model/output": ((0.8, 2.2),)}}


def iou(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Of the pixels that belong to anything, the share on whose class both agree."""
    either = (one > 0) | (other > 0)
    return float((one == other)[either].mean()) if either.any() else 1.0


def edgefirst_ious(folder: Path, truth: Truth) -> list[float]:
    """By frame with a mask: its raster against the true one of the picture's own time."""
    written = Written(folder)
    pictures = written.of_kind("camera.jpeg")
    table = written.table
    found = []
    for (frame,), rows in table.filter(table["mask"].is_not_null()).group_by(["frame"], maintain_order=True):
        classes = np.zeros(SIZE[::-1], np.uint8)
        for label, mask in rows.select("label_index", "mask").iter_rows():
            classes[np.asarray(Image.open(io.BytesIO(mask))) > 0] = label
        found.append(iou(classes, truth.mask(exif_time_ns(pictures[int(str(frame))]), SIZE)))
    return found


def ncore_ious(folder: Path, truth: Truth) -> list[float]:
    """By label: its classes against the true ones of the picture nearest to its time."""
    pictures_ns = truth.true_ns("/camera/h264")
    found = []
    for path in folder.rglob("*segmentation*.itar"):
        with tarfile.open(path, "r:") as archive:
            members = {m.name: m for m in archive.getmembers()}
            read = {name: archive.extractfile(m).read() for name, m in members.items()}  # type: ignore[union-attr]
        for key in (k.removesuffix("/data/.zarray") for k in read if k.endswith("/data/.zarray")):
            png = read_array(read.__getitem__, f"{key}/data").tobytes()
            label_ns = int(key.rpartition("/")[2]) * 1000
            nearest = int(np.abs(pictures_ns - label_ns).argmin())
            assert abs(int(pictures_ns[nearest]) - label_ns) < 1000
            # Three pixels of the picture are one of the mask.
            classes = np.asarray(Image.open(io.BytesIO(png)))[1::3, 1::3]
            found.append(iou(classes, truth.mask(int(pictures_ns[nearest]), SIZE)))
    return found


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("options", "values", "least"),
    [
        ({}, {}, 44),
        ({"model_hz": 30.0}, {}, 89),
        ({"jitter": {"model/mask": 1.8}}, {}, 42),
        (OUTPUT_SPOILT, {}, 30),
        ({"silent": {"model/output": ((0.0, 9.0),)}}, {}, 39),
        ({"silent": {"model/mask": ((0.8, 1.6), (2.3, 2.6))}}, {}, 27),
        ({"clock": "realtime"}, {"lookahead_s": 0.5}, 44),
    ],
    ids=lambda o: "-".join(o) if isinstance(o, dict) else str(o),
)
def test_a_mask_is_of_the_picture_it_is_written_with(
    tmp_path: Path, options: dict[str, Any], values: dict[str, Any], least: int
) -> None:
    made = simulate(tmp_path, FaultyOptions(**(SMALL | options)))
    truth = Truth.read(made.truth)
    done = convert([made.mcap], tmp_path / "out", build_config({**VALUES, **values}), dataset="drive")
    for ious in (
        edgefirst_ious(tmp_path / "out" / "edgefirst" / "drive", truth),
        ncore_ious(tmp_path / "out" / "ncore", truth),
    ):
        assert len(ious) >= least - 1  # NCore has no label before the camera is known
        assert min(ious) == 1.0
    account = done.report["topics"]["/model/mask"]
    assert account["received"] == sum(account[column] for column in COLUMNS)
    assert any(note.startswith("/model/mask: masks have no stamp") for note in done.report["notes"])


@pytest.mark.long
def test_live_dates_masks_as_a_conversion_does(tmp_path: Path) -> None:
    options = {**SMALL, "clock": "realtime", "silent": {"model/mask": ((1.4, 1.8),)}}
    made = simulate(tmp_path, FaultyOptions(**options))
    config = build_config({**VALUES, "min_free_mb": 0, "ego": {"smoothing": "lag"}})
    done = convert([made.mcap], tmp_path / "convert", config, dataset="drive")
    live = LiveCapture(config, tmp_path / "live", "maivin-sim")
    live.start("drive", sequence=made.mcap.stem)
    for message in McapRecording(made.mcap).messages():
        live.put(message)
    (captured,) = live.stop(60)
    assert captured.report["topics"] == done.report["topics"]
    ious = edgefirst_ious(tmp_path / "live" / "edgefirst" / "drive", Truth.read(made.truth))
    assert len(ious) > 33
    assert min(ious) == 1.0
    files = [
        path for path in (tmp_path / "convert").rglob("*") if path.is_file() and "report" not in path.name
    ]
    for path in files:
        assert path.read_bytes() == (tmp_path / "live" / path.relative_to(tmp_path / "convert")).read_bytes()
