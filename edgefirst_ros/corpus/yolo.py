"""Exports 2-D boxes in the layout of Ultralytics' YOLO."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

from edgefirst_ros.corpus.exporting import (
    Source,
    file_name,
    gathered,
    new_folder,
    pictures,
    write_new,
)
from edgefirst_ros.formats.edgefirst.read.dataset import NO_LABEL, Sample

TRAIN, VAL, UNGROUPED = "train", "val", "all"


def export_yolo(dataset: Source, out: str | PathLike[str], *, unlabelled: bool = False) -> Path:
    """Write the pictures of datasets with their 2-D boxes as Ultralytics' tools read them.

    ``out/images/GROUP/NAME.jpg`` is the picture byte for byte, ``out/labels/GROUP/NAME.txt`` has a line for
    each box: class from 0, centre x, centre y, width, height as fractions of the picture. Boxes without a
    label and those to be ignored are left out, as the format has neither. Where there is no group ``val``,
    ``data.yaml`` names the others for it, too. If it fails, nothing is left of it.

    Args:
        dataset: as ``export_coco`` takes it.
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
    source, groups = gathered(dataset), dict[str, None]()
    with new_folder(out) as folder:
        for each in pictures(source, ["boxes2d"], unlabelled=unlabelled):
            group = file_name(each.sample["group"] or UNGROUPED)
            groups[group] = None
            write_new(folder / "images" / group / f"{each.name}.{each.ending}", each.data)
            write_new(folder / "labels" / group / f"{each.name}.txt", _lines(each.sample))
        every = [f"images/{group}" for group in groups]
        named = {group: [f"images/{group}"] if group in groups else every for group in (TRAIN, VAL)}
        names = dict(enumerate(source.labels))
        # Without "path" the folder of the file counts. JSON quotes as YAML does, whatever a label holds.
        lines = [f"{key}: {json.dumps(value)}" for key, value in named.items()]
        lines += ["names:", *(f"  {number}: {json.dumps(label)}" for number, label in names.items())]
        write_new(folder / "data.yaml", "\n".join(lines) + "\n")
        return folder / "data.yaml"


def _lines(sample: Sample) -> str:
    if sample["boxes2d"] is None:
        return ""
    columns = (sample[key].tolist() for key in ("boxes2d", "labels2d", "ignore2d"))
    rows = [
        f"{label} " + " ".join(f"{value:.6f}" for value in box)
        for box, label, is_ignored in zip(*columns, strict=True)
        if label != NO_LABEL and not is_ignored
    ]
    return "".join(f"{row}\n" for row in rows)
