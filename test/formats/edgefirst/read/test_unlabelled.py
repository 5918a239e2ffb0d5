"""A picture that no model looked at is not one without objects: in samples, COCO, report and table."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import polars as pl
import pytest
from drives import simulated
from faulty import FaultyOptions, Truth

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.edgefirst.finish import labelled
from edgefirst_ros.formats.edgefirst.prepare.annotations import annotate
from edgefirst_ros.formats.edgefirst.scenes import EdgeFirstScenes
from edgefirst_ros.formats.edgefirst.store.journal import Looked
from edgefirst_ros.model.detection import Box, Detections, Mask
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.sample import Calibration, EgoPose, Measurement, Role, Sample, SequenceInfo
from edgefirst_ros.offline.convert import convert

SMALL: dict[str, Any] = {
    "seconds": 2.0,
    "fps": 20,
    "model_hz": 10.0,
    "width": 320,
    "height": 180,
    "lidar_points": 64,
    "cube_hz": 0.0,
    "radar_hz": 0.0,
    "imu_hz": 20.0,
    "clock": "realtime",
}


@cache
def drive(schema: str, traffic: str = "lanes") -> tuple[Path, Truth, dict[str, Any]]:
    """A camera twice as fast as its model, as a dataset; its truth and its report."""
    made = simulated(FaultyOptions(**SMALL, traffic=traffic))  # type: ignore[arg-type]
    out = Path(mkdtemp())
    config = build_config({"edgefirst": {"schema_version": schema}})
    done = convert([made.mcap], out, config, dataset="d")
    return out / "edgefirst" / "d", Truth.read(made.truth), done.report


def looked_at(truth: Truth, time_ns: int) -> bool:
    stamps = truth.true_ns("/model/output")
    return bool(np.abs(stamps - time_ns).min() < 1_000_000)


@pytest.mark.parametrize("schema", ["2025.01", "2026.10"])
def test_boxes_are_none_where_no_model_looked_and_empty_where_it_saw_nothing(schema: str) -> None:
    for traffic in ("lanes", "none"):
        folder, truth, report = drive(schema, traffic)
        dataset = edgefirst_ros.open(folder, keys=["time_ns", "boxes2d", "boxes3d", "masks"])
        seen = 0
        for sample in dataset:
            expected = looked_at(truth, sample["time_ns"])
            assert (sample["boxes2d"] is not None) is expected
            assert all((sample[key] is not None) is expected for key in ("labels2d", "scores2d", "ignore2d"))
            assert sample["boxes3d"] is sample["masks"] is None, "nobody looked for those at all"
            seen += expected
            if expected:
                assert (len(sample["boxes2d"]) > 0) is (traffic == "lanes")
        assert len(dataset) / 3 < seen < len(dataset)
        only = edgefirst_ros.open(folder, keys=["boxes2d"], labelled="boxes2d")
        assert len(only) == seen
        assert all(sample["boxes2d"] is not None for sample in only)
        assert len(edgefirst_ros.open(folder, labelled="masks")) == 0
        assert report["labelled"] == seen == len(EdgeFirstScenes(folder).labelled()), "whom sheets show"
        table = pl.read_parquet(folder / "quality.parquet")
        assert table["box2d_labelled"].sum() == seen
        assert not table["box3d_labelled"].any()


@pytest.mark.parametrize("name", ["coco", "yolo", "hf"])
def test_exports_leave_out_what_nobody_looked_at_unless_it_is_asked_for(tmp_path: Path, name: str) -> None:
    folder, _, report = drive("2025.01")
    export = getattr(edgefirst_ros, f"export_{name}")
    for wanted in (False, True):
        made = export(folder, tmp_path / str(wanted), unlabelled=wanted)
        pictures = list((tmp_path / str(wanted)).rglob("*.jpg"))
        assert len(pictures) == sum(made.pictures.values()) == report["samples" if wanted else "labelled"]
    with pytest.raises(DatasetError, match="no picture has labels"):
        export(edgefirst_ros.open(folder, group="val").only("val", labelled="masks"), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_dataset_that_does_not_tell_has_empty_boxes(tmp_path: Path) -> None:
    """As of others or of an earlier version: no annotations mean no objects, by the vendor's rule."""
    folder, _, _ = drive("2025.01")
    old = tmp_path / "d"
    old.mkdir()
    for name in ("d.arrow", "d.zip"):
        (old / name).write_bytes((folder / name).read_bytes())
    samples = list(edgefirst_ros.open(old, keys=["boxes2d", "masks"]))
    assert all(sample["boxes2d"] is not None and sample["masks"] == [] for sample in samples)


BOX = Box(0.5, 0.5, 0.2, 0.2, "car", 0.9, 10.0, 0.0, "", 0, 0)
FULL = Mask(np.ones((4, 4, 1), np.uint8), boxed=False)
NO_MODEL = Mask(np.zeros((0, 0, 1), np.uint8), boxed=False)


def looked(**companions: object) -> set[Looked]:
    info = SequenceInfo("s", "h", 0)
    made = {
        Role(role): Measurement(f"/{role}", 1, 1, 1, 1, "camera", datum)  # type: ignore[arg-type]
        for role, datum in companions.items()
    }
    sample = Sample(info, 0, 1, made, {}, EgoPose(1), Calibration())
    return annotate(sample, with_raster=False).looked


def test_a_model_looks_for_what_it_ever_finds() -> None:
    """Models of boxes, of masks, and of both; a mask of no pixels is sent while the device has no model."""
    nothing = looked(model=Detections((), ()))
    boxes, masks = looked(model=Detections((BOX,), ())), looked(model=Detections((), (FULL,)))
    assert labelled(nothing, nothing) == {"box2d_labelled"}
    assert labelled(nothing, nothing | boxes) == {"box2d_labelled"}
    assert labelled(nothing, nothing | masks) == {"mask_labelled"}
    assert labelled(masks, masks) == {"mask_labelled"}
    assert labelled(nothing, boxes | masks) == {"box2d_labelled", "mask_labelled"}
    assert labelled(looked(mask=FULL), looked(mask=FULL)) == {"mask_labelled"}
    assert labelled(looked(mask=NO_MODEL), set()) == labelled(set(), boxes | masks) == frozenset()
    solid = looked(boxes3d=Detections((), ()))
    assert labelled(solid, solid | boxes) == {"box3d_labelled"}
    both = looked(model=Detections((BOX,), ()), mask=FULL, boxes3d=Detections((BOX,), ()))
    assert labelled(both, both) == {"box2d_labelled", "mask_labelled", "box3d_labelled"}
