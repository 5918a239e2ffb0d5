"""What was fetched, on the local disk: bounded, shared by processes, and lost without harm."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.zlib_backend import crc32

MEGABYTES = "EDGEFIRST_ROS_CACHE_MB"
"""The variable that bounds it, 0 for none."""
DEFAULT_MB = 4096
_SHARE, _KEPT = 32, 3 / 4
"""After so small a part of the bound was written a process removes what was not used for longest, down to the
latter part: with eight processes at once the bound holds."""
_TOUCHED_S = 60.0
"""What is used is marked so often at most, as that is written to the disk, too."""
_LEFT_S = 3600.0
"""What is still incomplete after so long was left by a kill."""
_CHECKSUM_BYTES = 4
_TABLE = ".arrow"


class Cache:
    """Bytes by key, each with its checksum, and tables and folders as they are.

    A file gets its name once it is complete. If the disk is full or refuses, nothing is kept.

    Args:
        folder: is made when it is needed.
        most_bytes: 0 keeps nothing.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most = folder, most_bytes
        self._written = most_bytes // _SHARE  # what others left may exceed the bound already

    def has(self, key: str) -> bool:
        """Whether a key is there, by now."""
        return self._most > 0 and self._path(key).exists()

    def get(self, key: str) -> bytes | None:
        """The bytes of a key; None if they are not there, or damaged."""
        if not self._most:
            return None
        path = self._path(key)
        try:
            with path.open("rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                # Apart, as to cut them off afterwards would copy megabytes.
                body = file.read(max(0, state.st_size - _CHECKSUM_BYTES))
                checksum = file.read()
        except OSError:
            return None
        if crc32(body).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
            path.unlink(missing_ok=True)
            return None
        _touch(path, state)
        return body

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Keep bytes, if there is room."""
        if self._most:
            with suppress(OSError):
                checksum = crc32(data).to_bytes(_CHECKSUM_BYTES, "little")
                self._write(self._path(key), data, checksum)

    def table(self, key: str, size: int) -> Path | None:
        """A table of so many bytes; None if it is not there."""
        path = self._path(key + _TABLE) if self._most else _temporary() / (key + _TABLE)
        try:
            if (state := path.stat()).st_size == size:
                _touch(path, state)
                return path
        except OSError:
            pass
        return None

    def put_table(self, key: str, data: bytes) -> Path:
        """Keep a table as a file; where that is impossible, until this process ends.

        Raises:
            OSError: there is no room for it at all.
        """
        if self._most:
            with suppress(OSError):
                # Without checksum, so a power cut may not leave it incomplete under its name.
                return self._write(self._path(key + _TABLE), data, sync=True)
        return self._write(_temporary() / (key + _TABLE), data)

    def folder(self, key: str, name: str, size: int, make: Callable[[Path], None]) -> Path:
        """A folder of so many bytes, made if it is not there; a too large one goes with this process.

        Raises:
            WriteError: there is no room for it.
        """
        top = self._path(key) if size <= self._most * _KEPT else _temporary() / key
        if not top.exists():
            part = top.with_name(f"{top.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
            try:
                with disk_errors(top):
                    (part / name).mkdir(parents=True, mode=0o700)
                    make(part / name)
                    try:
                        part.rename(top)
                    except OSError:
                        if not top.exists():  # else another process was quicker
                            raise
            finally:
                shutil.rmtree(part, ignore_errors=True)
            self._count(size)
        _touch(top, top.stat())
        return top / name

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]

    def _write(self, path: Path, *parts: bytes | memoryview, sync: bool = False) -> Path:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
        try:
            with part.open("xb") as file:
                for each in parts:
                    file.write(each)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._count(sum(map(len, parts)))
        return path

    def _count(self, written: int) -> None:
        self._written += written
        if self._most and self._written > self._most // _SHARE:
            self.shrink()

    def shrink(self) -> None:
        """Remove what was not used for longest, down to the part that is kept."""
        with suppress(OSError), (self._folder / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for a second at most, and by one process that writes
            self._written = 0
            now_s, held = time.time(), []
            for folder in filter(Path.is_dir, self._folder.iterdir()):
                for path in folder.iterdir():
                    with suppress(FileNotFoundError):
                        used_s, size = _state(path)
                        if path.suffix == ".part" and now_s - used_s > _LEFT_S:
                            _remove(path)
                        else:
                            held.append((used_s, size, path))
            total = sum(size for _, size, _ in held)
            for _, size, path in sorted(held):
                if total <= self._most * _KEPT:
                    break
                _remove(path)
                total -= size


def _state(path: Path) -> tuple[float, int]:
    """When a file, or a folder of some, was used last, and its bytes."""
    found = path.stat()
    if not path.is_dir():
        return found.st_mtime, found.st_size
    files = [each.stat() for each in path.rglob("*") if each.is_file()]
    is_growing = path.suffix == ".part"
    last_s = max([found.st_mtime, *(each.st_mtime for each in files if is_growing)])
    return last_s, sum(each.st_size for each in files)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _touch(path: Path, state: os.stat_result) -> None:
    if time.time() - state.st_mtime > _TOUCHED_S:
        with suppress(OSError):
            os.utime(path)


@lru_cache(maxsize=1)
def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="edgefirst-ros-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # processes that were forked use it, too
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def default_cache() -> Cache:
    """That of this user, as the environment says.

    Raises:
        ConfigError: its bound is no number.
    """
    said = os.environ.get(MEGABYTES, str(DEFAULT_MB))
    if not said.isdecimal():
        raise ConfigError([f"{MEGABYTES}: expected a number of megabytes, 0 for no cache, found {said!r}"])
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Cache(Path(base) / "edgefirst_ros", int(said) * 10**6)
