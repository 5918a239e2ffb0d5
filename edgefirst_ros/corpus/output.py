"""The folder that an export writes: a new or empty one, of which nothing is left if it fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.model.errors import OutputExists


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
