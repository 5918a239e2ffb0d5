"""Exports 2-D boxes to COCO."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from edgefirst_ros.corpus.exporting import (
    Source,
    file_name,
    gathered,
    new_folder,
    pictures,
    write_new,
)
from edgefirst_ros.formats.edgefirst.read.dataset import NO_LABEL, Sample

IMAGES, ANNOTATIONS = "images", "annotations"


def export_coco(
    dataset: Source,
    out: str | PathLike[str],
    *,
    unlabelled: Literal["leave out", "include"] = "leave out",
) -> list[Path]:
    """Write the pictures of datasets with their 2-D boxes as COCO, a file of annotations for each group.

    Pictures are copied byte for byte to ``out/images/``. ``out/annotations/instances_GROUP.json`` has boxes
    in pixels (left, top, width, height); those to be ignored have ``iscrowd`` 1. Pictures without a group are
    in ``instances_ungrouped.json``, or in ``instances_all.json`` if none has one. Categories are the labels
    of the dataset, of several all of theirs, from 1. Samples without a picture, boxes without a label, and
    masks are left out. So are pictures in which nobody looked for boxes: COCO's readers take them for
    pictures without objects. If it fails, nothing is left of it.

    Args:
        dataset: an open dataset, with the groups that it has, the path of one or of a folder of several, or
            a list of these.
        out: a new or empty folder.
        unlabelled: "include" exports pictures in which nobody looked for boxes as well.

    Returns:
        the files of annotations.

    Raises:
        OutputExists: ``out`` is not empty.
        WriteError: the disk is full, or refuses.
        DatasetNotFound: there is no finished dataset.
        DatasetError: a file of it is damaged.
    """
    source = gathered(dataset)
    groups: dict[str | None, _Group] = {}
    with new_folder(out) as folder:
        for each in pictures(source, ["boxes2d"], unlabelled=unlabelled == "include"):
            name = f"{each.name}.{each.ending}"
            write_new(folder / IMAGES / name, each.data)
            groups.setdefault(each.sample["group"], _Group()).add(each.sample, name, each.size)
        unnamed = "ungrouped" if len(groups) > 1 else "all"
        return [
            group.write(folder / ANNOTATIONS, name or unnamed, source.labels)
            for name, group in groups.items()
        ]


@dataclass(slots=True)
class _Group:
    images: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, sample: Sample, file_name: str, size: tuple[int, int]) -> None:
        """Add a picture and its boxes."""
        width, height = size
        image = len(self.images) + 1
        self.images.append({"id": image, "file_name": file_name, "width": width, "height": height})
        if sample["boxes2d"] is None:
            return
        columns = sample["boxes2d"].astype(float), sample["labels2d"].tolist(), sample["ignore2d"].tolist()
        for box, label, is_ignored in zip(*columns, strict=True):
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
                    "iscrowd": int(is_ignored),
                }
            )

    def write(self, folder: Path, name: str, labels: Sequence[str]) -> Path:
        """Write the file of the group's annotations."""
        categories = [{"id": number, "name": label} for number, label in enumerate(labels, 1)]
        path = folder / f"instances_{file_name(name)}.json"
        content = {"images": self.images, "annotations": self.annotations, "categories": categories}
        write_new(path, json.dumps(content))
        return path
