"""Exports 2-D boxes to COCO."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

from PIL import Image

from edgefirst_ros.api.reading import open as open_dataset
from edgefirst_ros.errors import OutputExists
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.edgefirst.read.dataset import CAMERA, NO_LABEL, EdgeFirstDataset, Sample

IMAGES, ANNOTATIONS = "images", "annotations"


def export_coco(dataset: EdgeFirstDataset | str | PathLike[str], out: str | PathLike[str]) -> list[Path]:
    """Write the pictures of a dataset with their 2-D boxes as COCO, a file of annotations for each group.

    Pictures are copied byte for byte to ``out/images/``. ``out/annotations/instances_GROUP.json`` has boxes
    in pixels (left, top, width, height). Categories are the dataset's labels, from 1. Samples without a
    picture, boxes without a label, and masks are left out.

    Args:
        dataset: an open dataset, with the groups that it has, or the path of one.
        out: a new or empty folder.

    Returns:
        the files of annotations.

    Raises:
        OutputExists: ``out`` is not empty.
        WriteError: the disk is full, or refuses.
        DatasetNotFound: there is no finished dataset.
        DatasetError: a file of it is damaged.
    """
    source = dataset if isinstance(dataset, EdgeFirstDataset) else open_dataset(dataset)
    folder = Path(out)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputExists(f"{folder}: exists and is not empty; give a new folder")
    groups: dict[str, _Group] = {}
    with disk_errors(folder):
        (folder / IMAGES).mkdir(parents=True)
        (folder / ANNOTATIONS).mkdir()
        for number, sample in enumerate(source.with_keys(["boxes2d"])):
            picture = source.file(number, *CAMERA)
            if picture is None:
                continue
            with Image.open(BytesIO(picture), formats=("JPEG", "PNG")) as opened:
                size = opened.size
                file_name = f"{sample['name']}.{'jpg' if opened.format == 'JPEG' else 'png'}"
            (folder / IMAGES / file_name).write_bytes(picture)
            groups.setdefault(sample["group"] or "all", _Group()).add(sample, file_name, size)
        return [group.write(folder / ANNOTATIONS, name, source.labels) for name, group in groups.items()]


@dataclass(slots=True)
class _Group:
    images: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, sample: Sample, file_name: str, size: tuple[int, int]) -> None:
        """Add a picture and its boxes."""
        width, height = size
        image = len(self.images) + 1
        self.images.append({"id": image, "file_name": file_name, "width": width, "height": height})
        for box, label in zip(sample["boxes2d"].astype(float), sample["labels2d"].tolist(), strict=True):
            if label == NO_LABEL:
                continue
            across, down = (box[2:] * size).tolist()
            left, top = ((box[:2] - box[2:] / 2) * size).tolist()
            self.annotations.append(
                {
                    "id": len(self.annotations) + 1,
                    "image_id": image,
                    "category_id": label + 1,
                    "bbox": [round(value, 2) for value in (left, top, across, down)],
                    "area": round(across * down, 2),
                    "iscrowd": 0,
                }
            )

    def write(self, folder: Path, name: str, labels: Sequence[str]) -> Path:
        """Write the file of the group's annotations."""
        categories = [{"id": number, "name": label} for number, label in enumerate(labels, 1)]
        path = folder / f"instances_{name}.json"
        content = {"images": self.images, "annotations": self.annotations, "categories": categories}
        path.write_text(json.dumps(content))
        return path
