"""Small JSON files beside the datasets that say what is done, failed, running and planned.

Whoever may write to the output may write notes: they are validated where they are read, all of them here.
"""

from __future__ import annotations

import errno
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

from edgefirst_ros.formats.crashsafe.names import refuse_links
from edgefirst_ros.formats.crashsafe.sync import make_folder, sync_file, sync_path
from edgefirst_ros.model.untrusted import parse_json, read_regular

try:
    import fcntl
except ImportError:  # not a POSIX system: two coordinators at once go unnoticed there
    fcntl = None  # type: ignore[assignment]

DONE, FAILED, RUNNING, PLAN = "_done", "_failed", "_running", "_plan"
"""Folders of the output: a note for each complete dataset, each failure, each claim, each planned run."""
SUFFIX = ".json"
MOST_NOTE_BYTES = 64 << 20
"""A note on a million files has less."""
MOST_TABLE_BYTES = 1 << 30
"""Whole notes on a million drives have less, compressed."""
_READERS = 16
_NO_NOTE = frozenset({errno.EINVAL, errno.EFBIG, errno.EISDIR, errno.ELOOP})
"""What is wrong with something that has a note's name and is no file, or a larger one than any note."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a note says, and its version, which changes whenever the note does.

    One that is damaged, or that has not the shape of its kind, says nothing: its values are empty.
    """

    values: Mapping[str, Any]
    version: str


class Notes(Protocol):
    """Notes by name, as ``_done/KEY``; safe to use from several threads, processes and machines.

    All methods raise OSError if the storage does not answer.
    """

    def names(self, folder: str) -> list[str]:
        """Names of all notes in a folder, without the folder, in alphabetical order."""

    def states(self, folder: str) -> dict[str, str]:
        """By name, what changes whenever a note does, as the folder's listing says without reading it."""

    def read(self, name: str) -> Note | None:
        """A note; None if there is none."""

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

    def load(self, file: str) -> bytes | None:
        """A file beside the notes, such as a table of them; None if there is none, or none of such size."""

    def store(self, file: str, data: bytes) -> None:
        """Write a file beside the notes; it appears whole, in place of any that has the name."""


def read_all(
    notes: Notes, folder: str, names: Iterable[str] | None = None, damaged: list[str] | None = None
) -> dict[str, Mapping[str, Any]]:
    """What the notes of a folder say, by name.

    Those that vanish meanwhile are left out, and those that are damaged, which ``damaged`` gets.
    """
    wanted = list(notes.names(folder) if names is None else names)
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(lambda name: notes.read(f"{folder}/{name}"), wanted)
        by_name = {name: note.values for name, note in zip(wanted, found, strict=True) if note is not None}
    if damaged is not None:
        damaged += [f"{folder}/{name}{SUFFIX}" for name, values in by_name.items() if not values]
    return {name: values for name, values in by_name.items() if values}


def encoded(values: Mapping[str, Any]) -> bytes:
    """The bytes of a note."""
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode()


def decoded(name: str, data: bytes, version: str) -> Note:
    """The note of this name whose bytes these are."""
    try:
        values = parse_json(data)
    except ValueError:
        return Note({}, version)
    return Note(values if _fits(values, _SHAPES[name.partition("/")[0]]) else {}, version)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**63


def _is_real(value: object) -> bool:
    """Whether it is a number with which one can calculate: shares and sums of it are finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or 1e-9 <= abs(value) <= 1e15


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def _is_place(value: object) -> bool:
    """Whether it is a latitude and a longitude in degrees."""
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_real, value)):
        return False
    return bool(abs(value[0]) <= 90 and abs(value[1]) <= 360)


_LONGEST_TEXT = 1 << 16


@dataclass(frozen=True, slots=True)
class _Maybe:
    """A value that need not be there."""

    shape: Any


_EACH = "*"
"""The only key of a mapping's shape that is that of all its values, by whatever names."""
COUNTS = ("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written", "lost_upstream")
_PAIRING = dict.fromkeys(("p50", "p95", "max"), _is_real)
_ACCOUNT = {
    "type": _is_text,
    **dict.fromkeys(COUNTS, _is_count),
    "pairing_error_ms": lambda value: value is None or _fits(value, _PAIRING),
}
_HEAD = {"drive": _is_text, "key": _is_text}
_SHAPES: Mapping[str, Mapping[str, Any]] = {
    DONE: {
        **_HEAD,
        "inputs": [{"uri": _is_text, "size": _is_count}],
        "files": {_EACH: _is_count},
        "recorded_s": _is_real,
        "seconds": _is_real,
        "core_s": _Maybe(_is_real),
        "report": {
            "dataset": _is_text,
            "samples": _is_count,
            "lost": {_EACH: _is_count},
            "faults": _is_count,
            "warnings": [_is_text],
            "topics": {_EACH: _ACCOUNT},
            "grade": _Maybe(_is_text),
            "device": _Maybe(_is_text),
            "start_ns": _Maybe(_is_count),
            "track": _Maybe([_is_place]),
        },
    },
    FAILED: {
        **_HEAD,
        "reason": _is_text,
        "inputs": [{"uri": _is_text}],
        "again": _Maybe(lambda value: isinstance(value, bool)),
        "run": _Maybe(_is_text),
        "unix_s": _Maybe(_is_count),
    },
    RUNNING: {
        **{name: _Maybe(_is_text) for name in ("run", "key", "drive", "host", "machine", "started")},
        **{name: _Maybe(_is_count) for name in ("attempts", "beat", "unix_s", "pid")},
        "released": _Maybe(lambda value: isinstance(value, bool)),
    },
    PLAN: {"unix_s": _is_count, "drives": {_EACH: _is_text}},
}
"""What is read of the notes of each folder; they may say more."""


def _fits(value: Any, shape: Any) -> bool:  # noqa: ANN401 - JSON
    if callable(shape):
        return bool(shape(value))
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(each, shape[0]) for each in value)
    if not isinstance(value, dict):
        return False
    if _EACH in shape:
        return all(_is_text(name) and _fits(each, shape[_EACH]) for name, each in value.items())
    return _has_parts(value, shape)


def _has_parts(value: Mapping[str, Any], shape: Mapping[str, Any]) -> bool:
    for name, part in shape.items():  # most of the time that a report of many drives takes
        is_optional = isinstance(part, _Maybe)
        if name not in value:
            if not is_optional:
                return False
        elif not _fits(value[name], part.shape if is_optional else part):
            return False
    return True


class LocalNotes:
    """Notes in a folder of a file system; a note appears whole, and survives a power cut."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        """Names of all notes in a folder."""
        return sorted(self.states(folder))

    def states(self, folder: str) -> dict[str, str]:
        """By name, when and where a note's file was written."""
        refuse_links(self._root, self._root / folder)
        found = {}
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                        with suppress(FileNotFoundError):
                            s = entry.stat(follow_symlinks=False)
                            name = entry.name.removesuffix(SUFFIX)
                            found[name] = f"{s.st_mtime_ns}-{s.st_size}-{s.st_ino}"
        except FileNotFoundError:
            return {}
        return found

    def read(self, name: str) -> Note | None:
        """A note; its version is a hash of its bytes."""
        path = self._path(name)
        try:
            data = read_regular(path, MOST_NOTE_BYTES, follow=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NO_NOTE:
                raise
            data = b""
        return decoded(name, data, _digest(data))

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
        with locked(path.parent):
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
        with suppress(FileNotFoundError), locked(path.parent):
            path.unlink()
            sync_path(path.parent)

    def load(self, file: str) -> bytes | None:
        """A file beside the notes."""
        path = self._root / file
        refuse_links(self._root, path.parent)
        try:
            return read_regular(path, MOST_TABLE_BYTES, follow=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NO_NOTE:
                raise
            return None

    def store(self, file: str, data: bytes) -> None:
        """Write a file beside the notes."""
        path = self._root / file
        refuse_links(self._root, path.parent)
        self._written(path, data).replace(path)

    def _path(self, name: str) -> Path:
        path = self._root / f"{name}{SUFFIX}"
        refuse_links(self._root, path.parent)
        return path

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
def locked(folder: Path) -> Iterator[None]:
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
