"""When each format waits until the disk holds what it wrote, and how that is done."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SyncPolicy:
    """At which steps a format waits for the disk; at the others the operating system decides.

    Attributes:
        commit: each append to the journal and to the data, before it is reported as written.
        data: each file of data that is written as a whole, or completed, before it gets its final name.
        completion: the file that says that a dataset is complete, before it gets its name.
        replacement: all of a dataset, before the complete one that it replaces is removed.
        names: the folder, after everything in it has its name and before the journal is removed.
    """

    commit: bool = False
    data: bool = False
    completion: bool = False
    replacement: bool = False
    names: bool = False


EDGEFIRST = SyncPolicy(data=True, names=True)
"""The files of a container that is a folder are not synced."""
NCORE = SyncPolicy(completion=True, replacement=True)
"""``commit`` is the user's choice."""
L5KIT = SyncPolicy(data=True, completion=True)
"""Chunks and metadata are synced; the rows of chunks that are not complete are not."""


def sync_file(descriptor: int) -> None:
    """Have the disk hold the bytes of an open file, and its size.

    Raises:
        OSError: the disk refuses.
    """
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """The same without times, which nobody needs after a power cut."""
    (getattr(os, "fdatasync", None) or os.fsync)(descriptor)


def sync_path(path: Path) -> None:
    """Have the disk hold a file's bytes, or the names in a folder.

    Raises:
        OSError: it is not there, or the disk refuses.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_trees(paths: Iterable[Path]) -> None:
    """Have the disk hold files and whole folders; those that are not there are passed over.

    Raises:
        OSError: the disk refuses.
    """
    for top in paths:
        for path in (top, *top.rglob("*")):
            if path.exists():
                sync_path(path)
