"""Object stores through obstore: listings, and objects that are read like files.

By ranges, ahead of the reader, within bounded memory; errors say what to do.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from io import BufferedReader
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from edgefirst_ros.model.errors import (
    ConfigError,
    RecordingError,
    RecordingNotFound,
    StorageUnreachable,
    extra,
)
from edgefirst_ros.model.untrusted import PositionedFile
from edgefirst_ros.sources import s3query
from edgefirst_ros.sources.location import ByteRange, Url

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore, RetryConfig, S3Store
    from typing_extensions import Buffer


RETRIES = 6
"""Times that a request is made again after a server error or a broken connection, over 2 to 12 s."""
RETRIES_VARIABLE = "EDGEFIRST_ROS_RETRIES"
"""Environment variable with another number of them: each adds up to 5 s, up to two minutes."""
EXTRA, _CLIENT = "cloud", "obstore"
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL), or "
    "AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_TOKEN",
}
_OTHER_SCHEMES = {"s3a": "s3", "abfs": "az", "abfss": "az"}
_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")
_MISSING = ("169.254.169.254", "metadata.google.internal", "MissingCredentials", "Account must be specified")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist", "bucket name")
_REFUSED = (" 401 ", " 403 ", "AccessDenied", "Forbidden", "ExpiredToken", "InvalidToken")
_STATUS = re.compile(r"status code: (\d{3})")
_PASSING = frozenset({"408", "429", "500", "502", "503", "504"})
_PASSING_CODES = ("RequestTimeout", "SlowDown")
"""Of S3, with status 400."""
_NO_NETWORK = ("error sending request", "dns error", "ConnectError", "timed out", "HTTP error")


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """What tells whether an object is still the same one: its size in bytes, and its ETag or time stamp."""

    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing."""

    url: Url
    version: ObjectVersion


@dataclass(slots=True)
class Reading:
    """How this process reads: for so long a request is made again while a store is away."""

    patience_s: float = 0.0

    @property
    def retries(self) -> int:
        """Of a request; pauses are 2.5 s in the mean, once they have grown."""
        return fewest_retries() + ceil(self.patience_s / 2.5)


READING = Reading()


_had_client = False


def has_client() -> bool:
    """Whether this process has loaded the client of object stores, which has threads once it is used."""
    return _CLIENT in sys.modules


def was_forked() -> bool:
    """Whether this process was forked from one that had the client: then requests would hang, or crash."""
    return _had_client


def _note_fork() -> None:
    global _had_client  # noqa: PLW0603 - of the process, as the client's threads are
    _had_client = has_client()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def connect(root: str, retries: int | None = None) -> ObjectStore:
    """The store of a bucket, container or server; credentials come from the environment.

    The environment is what obstore reads: variables, files they name, and the identity of the machine; for S3
    also the profiles of boto3 where that is installed.

    Raises:
        ExtraNotInstalled: obstore is missing.
        RecordingError: credentials or options in the environment make no sense; or this process was forked
            after a store was used, where its first request would hang.
        ConfigError: the number of retries makes no sense.
    """
    if was_forked():
        raise RecordingError(f"{root}: this process was forked from one that used it; start it by spawn")
    # Part of the key, since tests and long-lived processes may change them.
    environment = tuple(sorted((name, os.environ[name]) for name in os.environ if name.startswith(_PREFIXES)))
    return _connect(root, environment, fewest_retries() if retries is None else retries)


def fewest_retries() -> int:
    """Times that a request is made again, as the environment has it.

    Raises:
        ConfigError: it is no such number.
    """
    return number_of(RETRIES_VARIABLE, RETRIES, most=100)


def number_of(variable: str, default: int, *, most: int) -> int:
    """The whole number in an environment variable, a default where it is not set.

    Raises:
        ConfigError: it is none, or is not between 1 and ``most``.
    """
    if (text := os.environ.get(variable)) is None:
        return default
    if not (text.isdecimal() and 1 <= int(text) <= most):
        raise ConfigError([f"{variable}={text}: expected a whole number from 1 to {most}"])
    return int(text)


@lru_cache(maxsize=64)
def _connect(root: str, environment: tuple[tuple[str, str], ...], retries: int) -> ObjectStore:
    with extra(EXTRA):
        from obstore.store import HTTPStore, from_url  # noqa: PLC0415 - only where a URL is given

    retry: RetryConfig = {
        "max_retries": retries,
        "retry_timeout": timedelta(minutes=2),
        "backoff": {
            "init_backoff": timedelta(milliseconds=200),
            "max_backoff": timedelta(seconds=5),
            "base": 2,
        },
    }
    with _said(Url(root, "")):
        if root.startswith("http"):
            # An object may be named as those of a cloud; this is a plain server nevertheless.
            return HTTPStore.from_url(root, client_options={"allow_http": True}, retry_config=retry)
        options: dict[str, Any] = {}
        names = {name for name, _ in environment}
        if root.startswith("s3") and not names & {"AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"}:
            options = _profile()
        return from_url(root, retry_config=retry, **options)


def _profile() -> dict[str, Any]:
    """Credentials of boto3's profiles, empty where it is not installed or has none."""
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - optional

        return {"credential_provider": Boto3CredentialProvider()}
    except (ImportError, ValueError):
        return {}


def read_range(url: Url, begin: int, end: int) -> tuple[memoryview, ObjectVersion]:
    """The bytes ``begin <= offset < end`` of an object, and its version.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read; the message says what to do.
    """
    return _get(url, {"range": (begin, end)})


def read_tail(url: Url, length: int) -> tuple[memoryview, ObjectVersion]:
    """The last ``length`` bytes of an object, all of a smaller one, and its version.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read; the message says what to do.
    """
    if url.root.partition("://")[0] in {"az", "abfs", "abfss"}:  # has no ranges from the end
        version = read_version(url)
        if not version.size:
            return memoryview(b""), version
        return read_range(url, max(0, version.size - length), version.size)
    try:
        return _get(url, {"range": {"suffix": length}})
    except RecordingError as error:
        if "416 " not in str(error.__cause__):
            raise
        return memoryview(b""), read_version(url)  # an empty object has no last bytes


def read_version(url: Url) -> ObjectVersion:
    """The version of an object, without its bytes.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read.
    """
    store = connect(url.root, READING.retries)
    with _said(url):
        import obstore  # noqa: PLC0415

        return _version(obstore.head(store, url.key))


def list_objects(url: Url, odd: list[str] | None = None) -> Iterator[StoredObject]:
    """All objects below a prefix, in any order.

    Keys that the client cannot name (``a//b``, ``a/./b``, with a tab) are left out of S3, and go to ``odd``.

    Raises:
        RecordingNotFound: no such bucket.
        RecordingError: it cannot be listed.
    """
    if url.root.startswith("http"):
        raise RecordingError(f"{url}: a web server lists no folders; name a file, as in {url}/drive.mcap")
    with _said(url):
        yield from listed(url, odd)


def listed(url: Url, odd: list[str] | None = None) -> Iterator[StoredObject]:
    """The same, but what obstore raises goes through."""
    import obstore  # noqa: PLC0415
    from obstore.exceptions import InvalidPathError  # noqa: PLC0415

    store, last = connect(url.root), ""
    try:
        for each in obstore.list(store, url.key or None, chunk_size=1000):
            for meta in each:
                last = meta["path"]
                yield StoredObject(Url(url.root, last), _version(meta))
    except InvalidPathError:
        # One odd key, and obstore refuses the page of 1,000 that it is on.
        if not url.root.startswith(s3query.SCHEMES):
            raise
        found = s3query.list_all(cast("S3Store", store), url, last)
    else:
        return
    for key, size, tag in found:
        if not s3query.is_odd(key):
            yield StoredObject(Url(url.root, key.strip("/")), ObjectVersion(size, tag))
        elif odd is not None:
            odd.append(f"{url.root}/{key}")


def list_folder(url: Url) -> list[StoredObject]:
    """The objects of a folder, without those of folders in it.

    Raises:
        RecordingNotFound: no such bucket.
        RecordingError: it cannot be listed.
    """
    store = connect(url.root)
    with _said(url):
        import obstore  # noqa: PLC0415
        from obstore.exceptions import InvalidPathError  # noqa: PLC0415

        try:
            found = obstore.list_with_delimiter(store, url.key or None)["objects"]
        except InvalidPathError:  # an odd key is among them: each has to be asked for by its name
            return []
        return [StoredObject(Url(url.root, meta["path"]), _version(meta)) for meta in found]


def write_object(url: Url, path: Path) -> None:
    """Make an object of a file; it appears whole, or not at all.

    Raises:
        RecordingError: it cannot be written; the message says what to do.
    """
    store = connect(url.root)
    with _said(url, "written"):
        import obstore  # noqa: PLC0415

        obstore.put(store, url.key, path)


def _get(url: Url, options: GetOptions) -> tuple[memoryview, ObjectVersion]:
    store = connect(url.root, READING.retries)
    with _said(url):
        import obstore  # noqa: PLC0415

        found = obstore.get(store, url.key, options=options)
        return memoryview(found.bytes()), _version(found.meta)


def _version(meta: ObjectMeta) -> ObjectVersion:
    return ObjectVersion(meta["size"], meta["e_tag"] or meta["last_modified"].isoformat())


@contextmanager
def _said(url: Url, wanted: str = "read") -> Iterator[None]:
    """Turn obstore's errors into sentences on this URL."""
    # All of it first: this part is not Python's, so another thread that imports does not hold it back.
    import obstore  # noqa: F401, PLC0415
    from obstore.exceptions import BaseError  # noqa: PLC0415

    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        if isinstance(error, RecordingError | RecordingNotFound):
            raise
        raise translated(url, error, wanted) from error


def translated(url: Url, error: Exception, wanted: str = "read") -> RecordingError | RecordingNotFound:
    """An error of obstore as a sentence on a URL that cannot be ``wanted``, and what to do."""
    text = str(error)
    scheme = url.root.partition("://")[0]
    variables = _CREDENTIALS.get(_OTHER_SCHEMES.get(scheme, scheme), "")

    if _has(text, _NO_BUCKET):
        return RecordingNotFound(f"{url.root}: no such bucket; check its name, its region and the endpoint")
    if isinstance(error, FileNotFoundError):
        return RecordingNotFound(f"{url}: no such object")
    if _has(text, _MISSING):
        said = f"no credentials were found: set {variables}"
    elif is_refusal(error):
        which = f"check {variables}" if variables else "the server demands a login, which is not supported"
        said = f"no permission ({_reason(text)}); {which}"
    elif type(error).__name__ == "NotSupportedError":
        said = "the server sends no parts of files (HTTP ranges); download it first"
    elif _has(text, _NO_NETWORK):
        said = f"no answer ({_reason(text)}); check the network and the endpoint"
    else:
        said = f"cannot be {wanted}: {_reason(text)}"
    kind = StorageUnreachable if is_refusal(error) or is_outage(error) else RecordingError
    return kind(f"{url}: {said}")


def is_refusal(error: BaseException) -> bool:
    """Whether obstore says that there are no credentials, or that a store does not accept them."""
    if type(error).__name__ in {"PermissionDeniedError", "UnauthenticatedError"}:
        return True
    return _has(str(error), _MISSING + _REFUSED)


def is_outage(error: BaseException) -> bool:
    """Whether obstore says that a store, or the way to it, is overloaded or away for a time."""
    text = str(error)
    if (status := _STATUS.search(text)) is not None:
        return status[1] in _PASSING or _has(text, _PASSING_CODES)
    return _has(text, _NO_NETWORK)


def is_answer(error: BaseException) -> bool:
    """Whether obstore says what a server answered, other than that there is none."""
    return _STATUS.search(str(error)) is not None


def _has(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


def _reason(text: str) -> str:
    """What an error of obstore says in its first line, or the code that a server gave."""
    _, found, code = text.partition("<Code>")
    if found:
        return code.partition("</Code>")[0]
    line = text.split("\n", 1)[0]
    return line if len(line) <= 300 else f"{line[:300]}…"


TAIL_BYTES = 256 << 10
"""Fetched first; holds the summary of most recordings."""
BLOCK_BYTES = 4 << 20
"""Fetched by one request where reading is planned."""
AHEAD = 2
"""Blocks under way or read ahead.

With the one that is read, the one before it, and what obstore holds of those under way they take some 32 MiB.
"""
CONNECTIONS = 2
SINGLE_BYTES = 64 << 10
"""Fetched at least by a request outside of what is planned."""
JOIN_GAP_BYTES = 128 << 10
"""Planned ranges that are nearer than this are fetched together, with what is between them."""
_BUFFER_BYTES = 64 << 10
_JOIN_S = 1.0

Result = TypeVar("Result")


class RemoteFile:
    """An object that is read as a file; its end is fetched at once, and kept.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read.
        ExtraNotInstalled: obstore is missing.
    """

    def __init__(self, url: Url) -> None:
        self._url = url
        tail, self._version = wait_for(lambda: read_tail(url, TAIL_BYTES))
        self.size = self._version.size
        self._pinned: list[tuple[int, memoryview]] = [(self.size - len(tail), tail)]
        self._copy: _LocalCopy | None = None

    def open(self, ranges: Sequence[ByteRange] | None = None) -> BinaryIO:
        """Open it for reading; see ``StoredFile``."""
        planned = [(0, self.size)] if ranges is None else ranges
        return BufferedReader(_RangeReader(self, _blocks(planned, self.size)), _BUFFER_BYTES)

    def pin(self, begin: int, end: int) -> None:
        """Fetch a range by one request, as far as it is not kept already, and keep it."""
        for start, data in self._pinned:
            if start <= begin < start + len(data):
                begin = start + len(data)
            if start < end <= start + len(data):
                end = start
        if begin < end:
            self._pinned.append((begin, wait_for(lambda: self.fetch((begin, end)))))

    def keep(self) -> None:
        """Keep a local copy of what is read from now on."""
        self._copy = self._copy or _LocalCopy()

    def pinned(self, position: int) -> memoryview | None:
        """What is kept in memory from a position on, None if nothing is."""
        for start, data in self._pinned:
            if start <= position < start + len(data):
                return data[position - start :]
        return None

    def fetch(self, wanted: ByteRange) -> memoryview:
        """The bytes of a range; any thread.

        Raises:
            RecordingError: it cannot be read, or has changed since it was opened.
        """
        copy = self._copy
        if copy is not None and (found := copy.read(wanted)) is not None:
            return found
        data, version = read_range(self._url, *wanted)
        self._check(version, wanted, len(data))
        if copy is not None:
            copy.write(wanted, data)
        return data

    def _check(self, version: ObjectVersion, wanted: ByteRange, received: int) -> None:
        if version != self._version:
            raise RecordingError(
                f"{self._url}: changed while it was read (ETag {self._version.tag}, now {version.tag}): "
                "start again once its upload is complete"
            )
        if received != wanted[1] - wanted[0]:
            raise RecordingError(
                f"{self._url}: the server sent {received:,} bytes of the {wanted[1] - wanted[0]:,} at "
                f"{wanted[0]:,}; try again"
            ) from ConnectionResetError(errno.ECONNRESET, "the answer is short")


class _LocalCopy:
    """Ranges of an object in a temporary file without name; if the disk is full, they are fetched again."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="edgefirst-ros-")  # noqa: SIM115 - closed with this
        self._ranges: set[ByteRange] = set()

    def read(self, wanted: ByteRange) -> memoryview | None:
        """A range that was written, else None."""
        if wanted not in self._ranges:
            return None
        return memoryview(os.pread(self._file.fileno(), wanted[1] - wanted[0], wanted[0]))

    def write(self, wanted: ByteRange, data: memoryview) -> None:
        """Keep a range if there is room."""
        try:
            if os.pwrite(self._file.fileno(), data, wanted[0]) == len(data):
                self._ranges.add(wanted)
        except OSError:
            pass


class _RangeReader(PositionedFile):
    """Reads at a position from what is kept, from blocks read ahead, or by a request of its own."""

    def __init__(self, file: RemoteFile, blocks: Sequence[ByteRange]) -> None:
        super().__init__(file.size)
        self._file = file
        self._blocks = blocks
        self._begins = [begin for begin, _ in blocks]
        self._fetched: dict[int, Future[memoryview]] = {}
        self._single: tuple[int, memoryview] = (0, memoryview(b""))
        self._fetcher: Fetcher | None = None

    def readinto(self, buffer: Buffer) -> int:
        into = memoryview(buffer).cast("B")
        found = self._at(self.position, len(into))
        length = min(len(found), len(into))
        into[:length] = found[:length]
        self.position += length
        return length

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None
        self._fetched.clear()
        super().close()

    def _at(self, position: int, length: int) -> memoryview:
        """Some bytes from a position on, empty at the end of the file."""
        if position >= self._file.size:
            return memoryview(b"")
        if (pinned := self._file.pinned(position)) is not None:
            return pinned
        number = bisect_right(self._begins, position) - 1
        if number >= 0 and position < self._blocks[number][1]:
            return self._block(number)[position - self._begins[number] :]
        start, data = self._single
        if not start <= position < start + len(data):
            end = min(self._file.size, position + max(length, SINGLE_BYTES))
            data = wait_for(lambda: self._file.fetch((position, end)))
            start, self._single = position, (position, data)
        return data[position - start :]

    def _block(self, number: int) -> memoryview:
        """A block that is planned; those behind it are fetched meanwhile."""
        if self._fetcher is None:
            self._fetcher = Fetcher(min(CONNECTIONS, len(self._blocks)))
        for old in [n for n in self._fetched if not number - 1 <= n <= number + AHEAD]:
            self._fetched.pop(old).cancel()
        for following in range(number, min(number + AHEAD + 1, len(self._blocks))):
            if following not in self._fetched:
                block = self._blocks[following]
                self._fetched[following] = self._fetcher.submit(partial(self._file.fetch, block))
        return self._fetched[number].result()


class Fetcher:
    """Threads that fetch blocks.

    They are daemons, because a request that hangs must not keep the process from ending.
    """

    def __init__(self, threads: int) -> None:
        self._tasks: SimpleQueue[tuple[Future[memoryview], Callable[[], memoryview]] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        self._open: list[Future[memoryview]] = []
        for thread in self._threads:
            thread.start()

    def submit(self, fetch: Callable[[], memoryview]) -> Future[memoryview]:
        """Have a block fetched."""
        future: Future[memoryview] = Future()
        self._open = [each for each in self._open if not each.done()] + [future]
        self._tasks.put((future, fetch))
        return future

    def close(self) -> None:
        """Cancel what has not begun, and give what has a moment to end."""
        for future in self._open:
            future.cancel()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, fetch = task
            if future.set_running_or_notify_cancel():
                _settle(future, fetch)


def wait_for(fetch: Callable[[], Result]) -> Result:
    """Call a function in a thread, so that Ctrl-C ends the wait for it; returns what it returns."""
    future: Future[Result] = Future()
    threading.Thread(target=_settle, args=(future, fetch), daemon=True).start()
    return future.result()


def _settle(future: Future[Result], fetch: Callable[[], Result]) -> None:
    try:
        future.set_result(fetch())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(error)


def _blocks(ranges: Sequence[ByteRange], size: int) -> list[ByteRange]:
    """The requests for ranges: in order of the file, near ones together, none longer than a block."""
    joined: list[ByteRange] = []
    for begin, end in sorted(ranges):
        if joined and begin - joined[-1][1] <= JOIN_GAP_BYTES:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return [
        (at, min(at + BLOCK_BYTES, end, size))
        for begin, end in joined
        for at in range(begin, min(end, size), BLOCK_BYTES)
    ]
