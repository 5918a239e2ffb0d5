"""What exports share: which samples they take, and the new folder that they write."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from edgefirst_ros.corpus.reading import NAME, Place
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


def pictures(
    samples: EdgeFirstDataset, keys: Iterable[str], *, unlabelled: bool = True
) -> Iterator[tuple[int, Sample, bytes, str]]:
    """Number, sample, picture as it is stored, and a name for its files that no other has.

    Args:
        samples: those without a picture are left out.
        keys: what to read of them.
        unlabelled: also pictures in which nobody looked for 2-D boxes.
    """
    used: set[str] = set()
    for number, sample in enumerate(samples.with_keys(keys)):
        if not unlabelled and sample["boxes2d"] is None:
            continue
        picture = samples.file(number, *CAMERA)
        if picture is None:
            continue
        name = file_name(sample["name"])
        name = name if name not in used else f"{name}_{number}"
        used.add(name)
        yield number, sample, picture, name


def file_name(text: str) -> str:
    """A sample's or group's name as a file name: no path, whatever a table says."""
    return _NO_FILE_NAME.sub("_", text)


def size_of(picture: bytes, what: str) -> tuple[tuple[int, int], str]:
    """Width and height of a picture in pixels, and how its file's name ends.

    Raises:
        DatasetError: it cannot be decoded.
    """
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
