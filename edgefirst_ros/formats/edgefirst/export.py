"""Exports pictures and 2-D boxes to COCO and to the layout of Ultralytics' YOLO."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.many import find, open_datasets
from edgefirst_ros.formats.edgefirst.read.dataset import NO_LABEL, EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.read.decoding import CAMERA
from edgefirst_ros.model.errors import DatasetError, OutputExists
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.untrusted import refusing

Source: TypeAlias = EdgeFirstDataset | str | PathLike[str] | Iterable[str | PathLike[str]]
"""An open dataset, with the samples that it has; or paths of some, or of folders above them."""
_NO_FILE_NAME = re.compile(r"[/\\\x00-\x1f]")
_TRAIN, _VAL, _UNGROUPED = "train", "val", "all"


def export_coco(source: Source, out: str | PathLike[str], *, unlabelled: bool = False) -> list[Path]:
    """Write the pictures of datasets with their 2-D boxes as COCO, a file of annotations for each group.

    Pictures are copied byte for byte to ``out/images/``. ``out/annotations/instances_GROUP.json`` has boxes
    in pixels (left, top, width, height); those to be ignored have ``iscrowd`` 1. Pictures without a group are
    in ``instances_ungrouped.json``, or in ``instances_all.json`` if none has one. Categories are the labels
    of the dataset, of several all of theirs, from 1. Samples without a picture, boxes without a label, and
    masks are left out. So are pictures in which nobody looked for boxes: COCO's readers take them for
    pictures without objects. If it fails, nothing is left of it.

    Args:
        source: see ``Source``.
        out: a new or empty folder.
        unlabelled: also pictures in which nobody looked for boxes, as pictures without objects.

    Returns:
        the files of annotations.

    Raises:
        OutputExists: ``out`` is not empty.
        WriteError: the disk is full, or refuses.
        DatasetNotFound: there is no finished dataset.
        DatasetError: a file of it is damaged.
    """
    dataset = _opened(source)
    groups: dict[str | None, _Group] = {}
    with _new_folder(out) as folder:
        for each in _pictures(dataset, unlabelled=unlabelled):
            name = f"{each.name}.{each.ending}"
            _write(folder / "images" / name, each.data)
            groups.setdefault(each.sample["group"], _Group()).add_picture(each.sample, name, each.size)
        unnamed = "ungrouped" if len(groups) > 1 else _UNGROUPED
        return [
            group.write(
                folder / "annotations" / f"instances_{_file_name(name or unnamed)}.json", dataset.labels
            )
            for name, group in groups.items()
        ]


def export_yolo(source: Source, out: str | PathLike[str], *, unlabelled: bool = False) -> Path:
    """Write the pictures of datasets with their 2-D boxes as Ultralytics' tools read them.

    ``out/images/GROUP/NAME.jpg`` is the picture byte for byte, ``out/labels/GROUP/NAME.txt`` has a line for
    each box: class from 0, centre x, centre y, width, height as fractions of the picture. Boxes without a
    label and those to be ignored are left out, as the format has neither. Where there is no group ``val``,
    ``data.yaml`` names the others for it, too. If it fails, nothing is left of it.

    Args:
        source: see ``Source``.
        out: a new or empty folder.
        unlabelled: also pictures in which nobody looked for boxes, as pictures without objects.

    Returns:
        ``data.yaml``.

    Raises:
        OutputExists: ``out`` is not empty.
        WriteError: the disk is full, or refuses.
        DatasetNotFound: there is no finished dataset.
        DatasetError: a file of it is damaged.
    """
    dataset, groups = _opened(source), dict[str, None]()
    with _new_folder(out) as folder:
        for each in _pictures(dataset, unlabelled=unlabelled):
            group = _file_name(each.sample["group"] or _UNGROUPED)
            groups[group] = None
            _write(folder / "images" / group / f"{each.name}.{each.ending}", each.data)
            _write(folder / "labels" / group / f"{each.name}.txt", _lines(each.sample))
        every = [f"images/{group}" for group in groups]
        named = {group: [f"images/{group}"] if group in groups else every for group in (_TRAIN, _VAL)}
        names = dict(enumerate(dataset.labels))
        # Without "path" the folder of the file counts. JSON quotes as YAML does, whatever a label holds.
        lines = [f"{key}: {json.dumps(value)}" for key, value in named.items()]
        lines += ["names:", *(f"  {number}: {json.dumps(label)}" for number, label in names.items())]
        _write(folder / "data.yaml", "\n".join(lines) + "\n")
        return folder / "data.yaml"


@dataclass(slots=True)
class _Group:
    """What is in a file of COCO's."""

    images: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    def add_picture(self, sample: Sample, file_name: str, size: tuple[int, int]) -> None:
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

    def write(self, path: Path, labels: Sequence[str]) -> Path:
        """Write the file."""
        categories = [{"id": number, "name": label} for number, label in enumerate(labels, 1)]
        content = {"images": self.images, "annotations": self.annotations, "categories": categories}
        _write(path, json.dumps(content))
        return path


def _lines(sample: Sample) -> str:
    """The boxes of a sample as YOLO has them."""
    if sample["boxes2d"] is None:
        return ""
    columns = (sample[key].tolist() for key in ("boxes2d", "labels2d", "ignore2d"))
    rows = [
        f"{label} " + " ".join(f"{value:.6f}" for value in box)
        for box, label, is_ignored in zip(*columns, strict=True)
        if label != NO_LABEL and not is_ignored
    ]
    return "".join(f"{row}\n" for row in rows)


def _opened(source: Source) -> EdgeFirstDataset:
    if isinstance(source, EdgeFirstDataset):
        return source
    places = [source] if isinstance(source, str | PathLike) else source
    return open_datasets([each for place in places for each in find(Path(place))])


class _Picture(NamedTuple):
    """A sample, its picture as it is stored, and a name for its files that no other has.

    ``size`` is width and height in pixels; ``ending`` is that of the picture's file.
    """

    sample: Sample
    data: bytes
    name: str
    size: tuple[int, int]
    ending: str


def _pictures(dataset: EdgeFirstDataset, *, unlabelled: bool) -> Iterator[_Picture]:
    """The samples that have a picture, and those without boxes if nobody looked for them only if wanted."""
    read, used = dataset.with_keys(["boxes2d"]), set[str]()
    for number, sample in enumerate(read):
        if sample["boxes2d"] is None and not unlabelled:
            continue
        data = dataset.file(number, *CAMERA)
        if data is None:
            continue
        name = _file_name(sample["name"])
        name = name if name not in used else f"{name}_{number}"
        used.add(name)
        what = f"{dataset.path}: the picture of {sample['name']}"
        with refusing(what, DatasetError, "cannot be decoded"), open_picture(data) as opened:
            size, ending = opened.size, "jpg" if opened.format == "JPEG" else "png"
        yield _Picture(sample, data, name, size, ending)


def _file_name(text: str) -> str:
    """A sample's or group's name as a file name: no path, whatever a table says."""
    return _NO_FILE_NAME.sub("_", text)


@contextmanager
def _new_folder(out: str | PathLike[str]) -> Iterator[Path]:
    """The folder, made if it is not there; emptied again by an error, for another try.

    Raises:
        OutputExists: it is not empty, or a file.
        WriteError: it cannot be made.
    """
    folder = Path(out)
    is_new = not folder.exists()
    if not is_new and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputExists(f"{folder}: exists and is not empty; give a new folder")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        for made in [folder] if is_new else folder.iterdir():
            if made.is_dir() and not made.is_symlink():
                shutil.rmtree(made, ignore_errors=True)
            else:
                made.unlink(missing_ok=True)
        raise


def _write(path: Path, data: bytes | str) -> None:
    """Write a file that is not there yet, in a folder that is made if it is not.

    Raises:
        WriteError: it cannot be written, or is there.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
