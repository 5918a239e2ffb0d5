"""Where the datasets of many drives go: a folder, or a bucket of an object store.

Both take a drive's datasets when they are complete. A folder gives them their name by a rename. A bucket gets
their data, then the files by which readers find them, then the report: what a reader finds is whole.
"""

from __future__ import annotations

import errno
import fcntl
import fnmatch
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from edgefirst_ros.formats.crashsafe.names import refuse_links, replace_file
from edgefirst_ros.formats.crashsafe.sync import make_folder, sync_path, sync_paths, tree
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, OutputBusy, RecordingNotFound, WriteError
from edgefirst_ros.model.untrusted import REPORT, displayed, read_regular
from edgefirst_ros.sources.location import Url, location_of
from edgefirst_ros.sources.remote import connect, translated
from edgefirst_ros.sources.scratch import scratch_folder, sweep

Result = TypeVar("Result")
LOCK = "_lock"
WHO = f"process {os.getpid()} on {socket.gethostname()}"
UNFINISHED = ".converting"
"""Folder of an output in which datasets are made."""
MOST_NOTE_BYTES = 64 << 20
"""The plan of a million drives has fewer."""
UPLOADS = 8
PART_BYTES = 8 << 20
"""Of a file that is uploaded in parts."""
RENEW_S = 10.0
"""How often the lock of a bucket is renewed. One that is not for three times as long is of a killed run."""


def busy(shown: str, who: bytes | None) -> OutputBusy:
    """The error of an output that another run has."""
    other = displayed((who or b"another run").decode(errors="replace").partition("\n")[0][:200])
    return OutputBusy(f"{shown}: {other} is converting drives to it; wait for it, or choose another output")


class Folder:
    """A folder of a file system; runs at once are refused where it has locks.

    All methods raise OSError if the storage does not answer, or refuses.

    Attributes:
        shown: path or URL, by which other processes open it.
    """

    def __init__(self, root: Path) -> None:
        self._root, self.shown = root, str(root)

    @contextmanager
    def hold(self, lost: Callable[[], None]) -> Iterator[None]:  # noqa: ARG002 - the system keeps it
        """Be the only run that writes here, by the lock of a file, which ends with this process.

        Args:
            lost: is called from a thread if another run has taken the output over.

        Raises:
            OutputBusy: another run has it.
        """
        make_folder(self._root)
        descriptor = os.open(
            self._path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
        )
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise busy(self.shown, os.read(descriptor, 200)) from None
            except OSError:
                pass  # a file system without locks
            os.ftruncate(descriptor, 0)
            os.write(descriptor, WHO.encode())
            yield
        finally:
            os.close(descriptor)
            sweep(self._root / UNFINISHED)
            with suppress(OSError):
                (self._root / UNFINISHED).rmdir()

    def list_files(self, folder: str) -> list[str]:
        """The names of the files in a folder."""
        try:
            return [path.name for path in self._path(folder).iterdir()]
        except FileNotFoundError:
            return []

    def list_drives(self) -> set[str]:
        """The names of the folders that are not empty."""
        if not self._root.exists():
            return set()
        return {p.name for p in self._root.iterdir() if p.is_symlink() or (p.is_dir() and any(p.iterdir()))}

    def read_file(self, name: str) -> bytes | None:
        """A small file; None if there is none, nothing of what is no regular file."""
        try:
            return read_regular(self._path(name), MOST_NOTE_BYTES, follow=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.EFBIG, errno.EISDIR, errno.ELOOP}:
                raise
            return b""

    def put_file(self, name: str, data: bytes) -> None:
        """Write a small file: it appears whole, and the disk holds it."""
        path = self._path(name)
        make_folder(path.parent)
        replace_file(path, data)

    def remove_files(self, names: Collection[str]) -> None:
        """Remove files, as far as they exist."""
        for name in names:
            self._path(name).unlink(missing_ok=True)
        for folder in {self._path(name).parent for name in names}:
            if folder.is_dir():
                sync_path(folder)

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        """A folder to make in which a drive's datasets are made; what is there goes with the block."""
        make_folder(self._path(UNFINISHED))
        with scratch_folder(self._root / UNFINISHED) as folder:
            yield folder / "new"

    def publish(self, name: str, folder: Path) -> None:
        """Make a folder visible as the datasets of a drive; the old one goes with the work folder."""
        path = self._path(name)
        sync_paths(tree(folder))
        with suppress(FileNotFoundError):
            path.rename(folder.with_name("old"))
        folder.rename(path)
        sync_path(self._root)

    def _path(self, name: str) -> Path:
        path = self._root / name
        refuse_links(self._root, path)
        return path


class Bucket:
    """The objects below a URL, with the methods of ``Folder``; datasets are made on local scratch first."""

    def __init__(self, url: Url) -> None:
        self._url, self.shown = url, str(url)
        self._store = connect(url.root)

    @contextmanager
    def hold(self, lost: Callable[[], None]) -> Iterator[None]:
        """Put an object, and renew it; one that nobody renews any more is taken over."""
        token = f"{WHO}\n{uuid.uuid4().hex}\n"
        self.list_drives()  # some stores make a bucket of any name that is written to
        self._await_lock()
        self.put_file(LOCK, token.encode())
        self._check_lock(token)
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEW_S):
                try:
                    self._check_lock(token)
                    self.put_file(LOCK, f"{token}{time.time()}\n".encode())
                except OutputBusy:
                    lost()
                    return
                except OSError:
                    continue  # the store is away; if it takes long another run will have the lock

        thread = threading.Thread(target=renew, name="lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with suppress(OSError):
                self._check_lock(token)
                self.remove_files([LOCK])

    def _await_lock(self) -> None:
        """Wait until nobody has the lock, or who has it was killed."""
        before, since_s = self.read_file(LOCK), time.monotonic()
        while before is not None and time.monotonic() - since_s < 3 * RENEW_S:
            time.sleep(RENEW_S / 10)
            if (now := self.read_file(LOCK)) is None:
                return
            if now != before:
                raise busy(self.shown, now)

    def _check_lock(self, token: str) -> None:
        found = self.read_file(LOCK)
        if found is None or not found.startswith(token.encode()):
            raise busy(self.shown, found)

    def list_files(self, folder: str) -> list[str]:
        """The names of objects."""
        top = f"{self._key(folder)}/"
        found = self._ask(lambda: [meta["path"] for page in self._store.list(top) for meta in page])
        return [path.removeprefix(top) for path in found]

    def list_drives(self) -> set[str]:
        """The common prefixes of keys."""
        top = f"{self._url.key}/" if self._url.key else None
        found = self._ask(lambda: self._store.list_with_delimiter(top)["common_prefixes"])
        return {prefix.rstrip("/").rpartition("/")[2] for prefix in found}

    def read_file(self, name: str) -> bytes | None:
        """An object's bytes."""

        def read() -> bytes:
            found = self._store.get(self._key(name))
            return bytes(found.bytes()) if found.meta["size"] <= MOST_NOTE_BYTES else b""

        with suppress(RecordingNotFound):
            return self._ask(read)
        return None

    def put_file(self, name: str, data: bytes) -> None:
        """Put an object."""
        self._ask(lambda: self._store.put(self._key(name), data))

    def remove_files(self, names: Collection[str]) -> None:
        """Delete objects."""
        if keys := [self._key(name) for name in names]:
            with suppress(RecordingNotFound):
                self._ask(lambda: self._store.delete(keys))

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        """A folder on local scratch."""
        with scratch_folder() as folder:
            yield folder / "new"

    def publish(self, name: str, folder: Path) -> None:
        """Upload files; of what is replaced, what makes it visible is removed first."""
        files = [path.relative_to(folder).as_posix() for path in tree(folder) if path.is_file()]
        there = self.list_files(name)
        self.remove_files([f"{name}/{file}" for file in there if upload_step(file)])
        with ThreadPoolExecutor(UPLOADS) as pool:
            for step in range(3):
                wanted = [file for file in sorted(files) if upload_step(file) == step]
                for _ in pool.map(lambda file: self._upload(f"{name}/{file}", folder / file), wanted):
                    pass
        self.remove_files([f"{name}/{file}" for file in {*there} - {*files}])

    def _upload(self, name: str, path: Path) -> None:
        part = max(PART_BYTES, path.stat().st_size // 9000)  # S3 takes 10,000
        self._ask(lambda: self._store.put(self._key(name), path, chunk_size=part, max_concurrency=2))

    def _key(self, name: str) -> str:
        return f"{self._url.key}/{name}" if self._url.key else name

    def _ask(self, call: Callable[[], Result]) -> Result:
        """What a call of obstore returns.

        Raises:
            RecordingNotFound: there is no such object, or bucket.
            WriteError: for all other errors of obstore.
        """
        from obstore.exceptions import BaseError

        try:
            return call()
        except (BaseError, FileNotFoundError) as error:
            found = translated(self._url, error, "written")
            if isinstance(found, RecordingNotFound):
                raise found from error
            raise WriteError(str(found)) from error


def upload_step(file: str) -> int:
    """When a file of a drive appears: 0 data, 1 what makes a dataset visible, 2 the report on all of them."""
    name = Path(file).name
    if name.removesuffix(".html").removesuffix(".json").endswith(REPORT.removesuffix(".json")):
        return 2
    made_by = FORMATS.get(Path(file).parts[0])
    return int(made_by is not None and any(fnmatch.fnmatchcase(name, p) for p in made_by.visible_by))


Output: TypeAlias = Folder | Bucket


def open_output(text: str) -> Output:
    """The output of a path or URL.

    Raises:
        ConfigError: a URL that cannot be written to.
        ExtraNotInstalled: the client of object stores is missing.
    """
    location = location_of(text)
    if not isinstance(location, Url):
        return Folder(location.absolute())
    if location.root.startswith("http"):
        raise ConfigError([f"{text}: cannot be written to; expected a folder, or s3://, gs:// or az://"])
    return Bucket(location)
