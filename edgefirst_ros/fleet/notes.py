"""Small JSON files beside the datasets that say what is done, failed, running and planned."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from edgefirst_ros.formats.crashsafe.sync import make_folder, sync_file, sync_path

try:
    import fcntl
except ImportError:  # not a POSIX system: two coordinators at once go unnoticed there
    fcntl = None  # type: ignore[assignment]

DONE, FAILED, RUNNING, PLAN = "_done", "_failed", "_running", "_plan"
"""Folders of the output: a note for each complete dataset, each failure, each claim, each planned run."""
SUFFIX = ".json"
_READERS = 16


@dataclass(frozen=True, slots=True)
class Note:
    """What a note says, and its version, which changes whenever the note does."""

    values: Mapping[str, Any]
    version: str


class Notes(Protocol):
    """Notes by name, as ``_done/KEY``; safe to use from several threads, processes and machines.

    All methods raise OSError if the storage does not answer.
    """

    def names(self, folder: str) -> list[str]:
        """Names of all notes in a folder, without the folder, in alphabetical order."""

    def read(self, name: str) -> Note | None:
        """A note; None if there is none, or if it is damaged."""

    def create(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Write a note that must not exist yet; its version, None if there is one already.

        The storage holds it when this returns.
        """

    def replace(self, name: str, values: Mapping[str, Any], version: str) -> str | None:
        """Replace a note if it still has this version; the new version, None if it was changed or removed."""

    def put(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a note, in place of any that has the name."""

    def remove(self, name: str) -> None:
        """Remove a note if it exists."""


def read_all(notes: Notes, folder: str, names: Iterable[str] | None = None) -> dict[str, Mapping[str, Any]]:
    """What the notes of a folder say, by name; those that vanish meanwhile are left out."""
    wanted = list(notes.names(folder) if names is None else names)
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda name: notes.read(f"{folder}/{name}"), wanted)
        return {name: note.values for name, note in zip(wanted, found, strict=True) if note is not None}


def encoded(values: Mapping[str, Any]) -> bytes:
    """The bytes of a note."""
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode()


def decoded(data: bytes) -> dict[str, Any] | None:
    """What the bytes of a note say; None if they are damaged."""
    try:
        values = json.loads(data)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


class LocalNotes:
    """Notes in a folder of a file system; a note appears whole, and survives a power cut."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        """Names of all notes in a folder."""
        return sorted(
            p.name.removesuffix(SUFFIX)
            for p in (self._root / folder).glob(f"*{SUFFIX}")
            if not p.name.startswith(".")
        )

    def read(self, name: str) -> Note | None:
        """A note; its version is a hash of its bytes."""
        try:
            data = self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        values = decoded(data)
        return None if values is None else Note(values, _digest(data))

    def create(self, name: str, values: Mapping[str, Any]) -> str | None:
        """Write a note that must not exist yet."""
        path, data = self._path(name), encoded(values)
        new = self._written(path, data)
        try:
            # Fails if the name is taken, unlike a rename, and shows nothing half-written, unlike O_EXCL.
            os.link(new, path)
        except FileExistsError:
            return None
        finally:
            new.unlink(missing_ok=True)
        sync_path(path.parent)
        return _digest(data)

    def replace(self, name: str, values: Mapping[str, Any], version: str) -> str | None:
        """Replace a note if it still has this version."""
        path, data = self._path(name), encoded(values)
        with self._locked(path.parent):
            found = self.read(name)
            if found is None or found.version != version:
                return None
            self._written(path, data).replace(path)
        return _digest(data)

    def put(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a note."""
        path = self._path(name)
        self._written(path, encoded(values)).replace(path)
        sync_path(path.parent)

    def remove(self, name: str) -> None:
        """Remove a note if it exists."""
        path = self._path(name)
        with suppress(FileNotFoundError), self._locked(path.parent):
            path.unlink()
            sync_path(path.parent)

    def _path(self, name: str) -> Path:
        return self._root / f"{name}{SUFFIX}"

    def _written(self, path: Path, data: bytes) -> Path:
        """A file beside ``path`` that holds the data."""
        make_folder(path.parent)
        new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            sync_file(file.fileno())
        return new

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """Others wait meanwhile; where the file system has no locks, nobody does."""
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            if fcntl is not None:
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
