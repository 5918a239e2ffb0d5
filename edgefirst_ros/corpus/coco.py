"""Exports 2-D boxes to COCO."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from edgefirst_ros.corpus.reading import open as open_dataset
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.read.dataset import NO_LABEL, EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.read.decoding import CAMERA
from edgefirst_ros.model.errors import DatasetError, OutputExists
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.untrusted import refusing

IMAGES, ANNOTATIONS = "images", "annotations"
_NO_FILE_NAME = re.compile(r"[/\\\x00-\x1f]")


def export_coco(
    dataset: EdgeFirstDataset | str | PathLike[str],
    out: str | PathLike[str],
    *,
    unlabelled: Literal["leave out", "include"] = "leave out",
) -> list[Path]:
    """Write the pictures of a dataset with their 2-D boxes as COCO, a file of annotations for each group.

    Pictures are copied byte for byte to ``out/images/``. ``out/annotations/instances_GROUP.json`` has boxes
    in pixels (left, top, width, height); those to be ignored have ``iscrowd`` 1. Pictures without a group are
    in ``instances_ungrouped.json``, or in ``instances_all.json`` if none has one. Categories are the labels
    of the dataset, from 1. Samples without a picture, boxes without a label, and masks are left out. So are
    pictures in which nobody looked for boxes: COCO's readers take them for pictures without objects. If it
    fails, nothing is left of it.

    Args:
        dataset: an open dataset, with the groups that it has, or the path of one.
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
    source = dataset if isinstance(dataset, EdgeFirstDataset) else open_dataset(dataset)
    folder = Path(out)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputExists(f"{folder}: exists and is not empty; give a new folder")
    groups: dict[str | None, _Group] = {}
    used: set[str] = set()
    with _removed_on_errors(folder):
        with disk_errors(folder):
            (folder / IMAGES).mkdir(parents=True)
            (folder / ANNOTATIONS).mkdir()
        for number, sample in enumerate(source.with_keys(["boxes2d"])):
            if sample["boxes2d"] is None and unlabelled != "include":
                continue
            picture = source.file(number, *CAMERA)
            if picture is None:
                continue
            size, ending = _size(picture, f"{source.path}: the picture of {sample['name']}")
            name = _NO_FILE_NAME.sub("_", sample["name"])
            file_name = f"{name}.{ending}" if name not in used else f"{name}_{number}.{ending}"
            used.add(name)
            with disk_errors(folder), (folder / IMAGES / file_name).open("xb") as file:
                file.write(picture)
            groups.setdefault(sample["group"], _Group()).add(sample, file_name, size)
        unnamed = "ungrouped" if len(groups) > 1 else "all"
        with disk_errors(folder):
            return [
                group.write(folder / ANNOTATIONS, name or unnamed, source.labels)
                for name, group in groups.items()
            ]


@contextmanager
def _removed_on_errors(folder: Path) -> Iterator[None]:
    """Remove what was made in an empty or new folder if it cannot be completed, for another try."""
    is_new = not folder.exists()
    try:
        yield
    except BaseException:
        for made in (IMAGES, ANNOTATIONS):
            shutil.rmtree(folder / made, ignore_errors=True)
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise


def _size(picture: bytes, what: str) -> tuple[tuple[int, int], str]:
    """Width and height of a picture in pixels, and how its file's name ends."""
    with refusing(what, DatasetError, "cannot be decoded"), open_picture(picture) as opened:
        return opened.size, "jpg" if opened.format == "JPEG" else "png"


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
        path = folder / f"instances_{_NO_FILE_NAME.sub('_', name)}.json"
        content = {"images": self.images, "annotations": self.annotations, "categories": categories}
        path.write_text(json.dumps(content))
        return path
