"""Draws the lidar's points and the 2-D boxes of a sample onto its picture.

    python examples/overlay.py DATASET [NUMBER] [-o overlay.jpeg]

DATASET is the folder of an EdgeFirst dataset, as it was converted: intrinsics and transforms are in the
capture_report.json beside it, because the format has no place for them. Without that file the boxes alone are
drawn. Points are red near and violet far.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

import edgefirst_ros
from edgefirst_ros.formats.edgefirst.read.decoding import positions
from edgefirst_ros.formats.scene import Box2d
from edgefirst_ros.model.untrusted import REPORT
from edgefirst_ros.report.drawing import draw_boxes, draw_points
from edgefirst_ros.report.models import read_report
from edgefirst_ros.report.page.thumbnails import projection_of


def overlay(dataset: edgefirst_ros.EdgeFirstDataset, number: int) -> tuple[Image.Image, str]:
    """The picture of a sample with what was measured on it, and what there is of the lidar or why not."""
    sample = dataset[number]
    if sample["image"] is None:
        raise SystemExit(f"{sample['name']} has no picture")
    picture, report = Image.fromarray(sample["image"]), dataset.path / REPORT
    projection = projection_of(read_report(report), sample["sequence"]) if report.is_file() else None
    if sample["lidar"] is None:
        lidar = "the sample has no lidar"
    elif projection is None:
        missing = "does not say where the lidar is" if report.is_file() else "is missing"
        lidar = f"no points: {report} {missing}"
    else:
        lidar = f"{draw_points(picture, positions(sample['lidar']), projection):,} points of the lidar"
    if sample["boxes2d"] is None:
        return picture, f"{lidar}; no model looked at the picture"
    labels = [dataset.labels[label] if label >= 0 else "" for label in sample["labels2d"]]
    boxes = [Box2d(*box, label) for box, label in zip(sample["boxes2d"].tolist(), labels, strict=True)]
    draw_boxes(picture, boxes)
    return picture, lidar


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws lidar and boxes of a sample onto its picture.")
    parser.add_argument("dataset", type=Path)
    parser.add_argument("number", type=int, nargs="?", default=0, help="of the sample, from 0")
    parser.add_argument("-o", "--output", type=Path, default=Path("overlay.jpeg"))
    chosen = parser.parse_args()
    try:
        dataset = edgefirst_ros.open(chosen.dataset, keys=["image", "lidar", "boxes2d"])
        picture, lidar = overlay(dataset, chosen.number)
    except (edgefirst_ros.EdgeFirstError, IndexError) as error:
        raise SystemExit(f"error: {error}") from error
    picture.save(chosen.output, "JPEG", quality=90)
    print(f"{chosen.output}: sample {chosen.number} of {len(dataset):,}; {lidar}")


if __name__ == "__main__":
    main()
