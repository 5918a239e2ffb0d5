"""Exports pictures and 2-D boxes as COCO, in the layout of Ultralytics' YOLO, or for Hugging Face."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.many import find, open_datasets
from edgefirst_ros.formats.edgefirst.read.dataset import NO_LABEL, EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.read.decoding import CAMERA
from edgefirst_ros.model.errors import DatasetError, OutputExists
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.untrusted import refusing

Place: TypeAlias = str | PathLike[str]
Source: TypeAlias = EdgeFirstDataset | Place | Iterable[Place]
"""An open dataset, with the samples that it has; or paths of some, or of folders above them."""
OnProgress: TypeAlias = Callable[[int, int], None]
_NO_FILE_NAME = re.compile(r"[/\\\x00-\x1f]")
_UNGROUPED = "all"


def _nothing(done: int, of: int) -> None: ...


class Exported(NamedTuple):
    """What an export wrote.

    Attributes:
        files: that say what there is: annotations of COCO, ``data.yaml`` of YOLO, else ``metadata.parquet``.
        pictures: how many, by group; ``all`` where there are no groups.
        boxes: how many, by group.
    """

    files: list[Path]
    pictures: Counter[str]
    boxes: Counter[str]


def export_coco(
    source: Source, out: Place, *, unlabelled: bool = False, on_progress: OnProgress = _nothing
) -> Exported:
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
        on_progress: gets how many samples were looked at, and of how many.

    Raises:
        OutputExists: ``out`` is not empty.
        WriteError: the disk is full, or refuses.
        DatasetNotFound: there is no finished dataset.
        DatasetError: a file of it is damaged.
    """
    return _export(_coco, source, out, unlabelled, on_progress)


def export_yolo(
    source: Source, out: Place, *, unlabelled: bool = False, on_progress: OnProgress = _nothing
) -> Exported:
    """Write the pictures of datasets with their 2-D boxes as Ultralytics' tools read them.

    ``out/images/GROUP/NAME.jpg`` is the picture byte for byte, ``out/labels/GROUP/NAME.txt`` has a line for
    each box: class from 0, centre x, centre y, width, height as fractions of the picture. Boxes without a
    label and those to be ignored are left out, as the format has neither. Where there is no group ``val``,
    ``data.yaml`` names the others for it, too. Arguments and errors are those of ``export_coco``.
    """
    return _export(_yolo, source, out, unlabelled, on_progress)


def export_hf(
    source: Source, out: Place, *, unlabelled: bool = False, on_progress: OnProgress = _nothing
) -> Exported:
    """Write the pictures of datasets with their 2-D boxes for ``datasets.load_dataset(out)``.

    ``out/SPLIT/NAME.jpg`` is the picture byte for byte, ``out/SPLIT/metadata.parquet`` has a row for each
    with its ``objects``: ``bbox`` (left, top, width, height in pixels), ``category`` and ``ignored``.
    The group ``val`` is the split ``validation``. Arguments and errors are those of ``export_coco``.
    """
    return _export(_hf, source, out, unlabelled, on_progress)


class _Box(NamedTuple):
    """A box with a label: number of its class, centre and size as fractions of the picture."""

    label: int
    place: list[float]
    is_ignored: bool

    def pixels(self, size: tuple[int, int]) -> list[float]:
        """Left, top, width and height."""
        x, y, width, height = self.place
        shares = zip((x - width / 2, y - height / 2, width, height), size * 2, strict=True)
        return [round(share * pixels, 2) for share, pixels in shares]


class _Picture(NamedTuple):
    """A sample's picture as it is stored, and a name for its files that no other has.

    ``size`` is width and height in pixels; ``ending`` is that of the picture's file.
    """

    data: bytes
    name: str
    size: tuple[int, int]
    ending: str
    boxes: list[_Box]

    @property
    def file_name(self) -> str:
        """Of the picture."""
        return f"{self.name}.{self.ending}"


Pictures: TypeAlias = Iterator[tuple[str, _Picture]]
"""Those of an export, each with its group."""


def _coco(folder: Path, labels: Sequence[str], pictures: Pictures) -> list[Path]:
    groups: dict[str, tuple[list[Any], list[Any]]] = {}
    for group, each in pictures:
        _write(folder / "images" / each.file_name, each.data)
        images, boxes = groups.setdefault(group, ([], []))
        width, height = each.size
        image = {"id": len(images) + 1, "file_name": each.file_name, "width": width, "height": height}
        images.append(image)
        for box in each.boxes:
            area = round(box.place[2] * width * (box.place[3] * height), 2)
            what = {"category_id": box.label + 1, "bbox": box.pixels(each.size), "area": area}
            whose = {"id": len(boxes) + 1, "image_id": image["id"]}
            boxes.append({**whose, **what, "iscrowd": int(box.is_ignored)})
    categories = [{"id": number, "name": label} for number, label in enumerate(labels, 1)]
    unnamed = "ungrouped" if len(groups) > 1 else _UNGROUPED
    files = []
    for group, (images, boxes) in groups.items():
        content = {"images": images, "annotations": boxes, "categories": categories}
        name = f"instances_{unnamed if group == _UNGROUPED else group}.json"
        files.append(_write(folder / "annotations" / name, json.dumps(content)))
    return files


def _yolo(folder: Path, labels: Sequence[str], pictures: Pictures) -> list[Path]:
    groups: dict[str, list[str]] = {}
    for group, each in pictures:
        groups[group] = [f"images/{group}"]
        _write(folder / "images" / group / each.file_name, each.data)
        rows = (" ".join([f"{box.label}", *(f"{v:.6f}" for v in box.place)]) + "\n" for box in each.boxes)
        _write(folder / "labels" / group / f"{each.name}.txt", "".join(rows))
    every = [*chain(*groups.values())]
    # Without "path" the folder of the file counts. JSON quotes as YAML does, whatever a label holds.
    lines = [f"{group}: {json.dumps(groups.get(group, every))}" for group in ("train", "val")]
    lines += ["names:", *(f"  {number}: {json.dumps(label)}" for number, label in enumerate(labels))]
    return [_write(folder / "data.yaml", "\n".join(lines) + "\n")]


_OBJECTS = {"bbox": pa.list_(pa.float64()), "category": pa.string(), "ignored": pa.bool_()}
_ROWS = pa.schema(
    {
        "file_name": pa.string(),
        "name": pa.string(),
        "objects": pa.struct({name: pa.list_(kind) for name, kind in _OBJECTS.items()}),
    }
)
"""Stated, as a split whose pictures are all without objects would else have other types than the next."""


def _hf(folder: Path, labels: Sequence[str], pictures: Pictures) -> list[Path]:
    rows: dict[Path, list[Any]] = {}
    for group, each in pictures:
        split = folder / {_UNGROUPED: "train", "val": "validation"}.get(group, group)
        _write(split / each.file_name, each.data)
        values = [(box.pixels(each.size), labels[box.label], box.is_ignored) for box in each.boxes]
        objects = {name: [value[n] for value in values] for n, name in enumerate(_OBJECTS)}
        row = {"file_name": each.file_name, "name": each.name, "objects": objects}
        rows.setdefault(split / "metadata.parquet", []).append(row)
    for path, several in rows.items():
        pq.write_table(pa.Table.from_pylist(several, _ROWS), made := BytesIO())
        _write(path, made.getvalue())
    return [*rows]


def _export(
    layout: Callable[[Path, Sequence[str], Pictures], list[Path]],
    source: Source,
    out: Place,
    unlabelled: bool,
    on_progress: OnProgress,
) -> Exported:
    dataset, pictures, boxes = _opened(source), Counter[str](), Counter[str]()

    def counted() -> Pictures:
        for group, each in _pictures(dataset, unlabelled, on_progress):
            each.boxes[:] = [box for box in each.boxes if not (layout is _yolo and box.is_ignored)]
            pictures[group] += 1
            boxes[group] += len(each.boxes)
            yield group, each

    with _new_folder(out) as folder:
        done = Exported(layout(folder, dataset.labels, counted()), pictures, boxes)
        if not pictures:
            raise DatasetError(f"{dataset.path}: no picture has labels, and those without were not asked for")
        return done


def _opened(source: Source) -> EdgeFirstDataset:
    if isinstance(source, EdgeFirstDataset):
        return source
    places = [source] if isinstance(source, str | PathLike) else source
    return open_datasets([each for place in places for each in find(Path(place))])


def _pictures(dataset: EdgeFirstDataset, unlabelled: bool, on_progress: OnProgress) -> Pictures:
    """The samples that have a picture, and those without boxes if nobody looked for them only if wanted."""
    read, used = dataset.with_keys(["boxes2d"]), set[str]()
    for number, sample in enumerate(read):
        on_progress(number, len(read))
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
        group = _file_name(sample["group"] or _UNGROUPED)
        yield group, _Picture(data, name, size, ending, [*_boxes(sample)])


def _boxes(sample: Sample) -> Iterator[_Box]:
    """Those that have a label."""
    if sample["boxes2d"] is not None:
        columns = (sample[key].tolist() for key in ("labels2d", "boxes2d", "ignore2d"))
        yield from (_Box(*each) for each in zip(*columns, strict=True) if each[0] != NO_LABEL)


def _file_name(text: str) -> str:
    """A sample's or group's name as a file name: no path, whatever a table says."""
    return _NO_FILE_NAME.sub("_", text)


@contextmanager
def _new_folder(out: Place) -> Iterator[Path]:
    """The folder, made if it is not there; emptied again by an error, for another try.

    Raises:
        OutputExists: it is not empty, or a file.
        WriteError: it cannot be made.
    """
    folder = Path(out)
    is_new = not folder.exists()
    if not is_new and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputExists(f"{folder}: is not empty, or a file; choose a new folder")
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


def _write(path: Path, data: bytes | str) -> Path:
    """Write a file that is not there yet, in a folder that is made if it is not; where it is.

    Raises:
        WriteError: it cannot be written, or is there.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
    return path
