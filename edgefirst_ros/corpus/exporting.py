"""What exports share: which samples they take, and the new folder that they write."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from edgefirst_ros.corpus.places import Place
from edgefirst_ros.corpus.reading import NAME
from edgefirst_ros.corpus.reading import open as open_dataset
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.read.decoding import CAMERA
from edgefirst_ros.model.errors import DatasetError, OutputExists
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.untrusted import refusing

_NO_FILE_NAME = re.compile(r"[/\\\x00-\x1f]")

Source = EdgeFirstDataset | Place | Iterable[Place]


def gathered(source: Source) -> EdgeFirstDataset:
    """What an export takes: an open dataset, or those that paths, URLs and lists of samples name, as one.

    Raises:
        DatasetNotFound: there is none at one of the places.
        DatasetError: one is damaged.
    """
    if isinstance(source, EdgeFirstDataset):
        return source
    found: EdgeFirstDataset = open_dataset(source, format=NAME)
    return found


class StoredPicture(NamedTuple):
    """A sample, its picture as it is stored, and a name for its files that no other has.

    ``size`` is width and height in pixels; ``ending`` is that of the picture's file.
    """

    sample: Sample
    data: bytes
    name: str
    size: tuple[int, int]
    ending: str


def pictures(
    samples: EdgeFirstDataset,
    keys: Iterable[str],
    *,
    unlabelled: bool = True,
    order: Iterable[int] | None = None,
    dot: str = ".",
) -> Iterator[StoredPicture]:
    """The samples that have a picture.

    Args:
        samples: all that may be taken.
        keys: what to read of them.
        unlabelled: also pictures in which nobody looked for 2-D boxes.
        order: numbers of the samples; by default all as they are.
        dot: what stands for dots in names.

    Raises:
        DatasetError: a file is damaged.
    """
    read, used = samples.with_keys(keys), set[str]()
    for number, sample in enumerate(read) if order is None else ((each, read[each]) for each in order):
        if not unlabelled and sample["boxes2d"] is None:
            continue
        picture = samples.file(number, *CAMERA)
        if picture is None:
            continue
        name = file_name(sample["name"]).replace(".", dot)
        name = name if name not in used else f"{name}_{number}"
        used.add(name)
        size, ending = _size_of(picture, f"{samples.path}: the picture of {sample['name']}")
        yield StoredPicture(sample, picture, name, size, ending)


def file_name(text: str) -> str:
    """A sample's or group's name as a file name: no path, whatever a table says."""
    return _NO_FILE_NAME.sub("_", text)


def _size_of(picture: bytes, what: str) -> tuple[tuple[int, int], str]:
    with refusing(what, DatasetError, "cannot be decoded"), open_picture(picture) as opened:
        return opened.size, "jpg" if opened.format == "JPEG" else "png"


@contextmanager
def new_folder(out: str | PathLike[str]) -> Iterator[Path]:
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


def write_new(path: Path, data: bytes | str) -> None:
    """Write a file that is not there yet, in a folder that is made if it is not.

    Raises:
        WriteError: it cannot be written, or is there.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
