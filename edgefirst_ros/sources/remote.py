"""Object stores and web servers through obstore: listings, and objects that are read like files.

An object is streamed from where it is read on, in bounded memory; of an answer no more is taken than was
asked for. Errors are sentences that say what to do.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar

from edgefirst_ros.model.errors import RecordingError, RecordingNotFound, StorageUnreachable, extra
from edgefirst_ros.model.untrusted import PositionedFile
from edgefirst_ros.sources.location import ByteRange, Url

if TYPE_CHECKING:
    from obstore import ObjectMeta, SuffixRange
    from obstore.store import BackoffConfig, ObjectStore, RetryConfig
    from typing_extensions import Buffer

Result = TypeVar("Result")
RETRIES = 10
"""Times that a request is made again after a server error or a broken connection, over half a minute."""
_FIRST_PAUSE, _LONGEST_PAUSE, _PATIENCE = timedelta(seconds=0.2), timedelta(seconds=5), timedelta(minutes=2)
EXTRA = "cloud"
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
_KEY = re.compile(r'path: "([^"]*)')
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


_processes: set[int] = set()
"""Those that have used a store: this one, and the one that it was forked from."""


def connect(root: str) -> ObjectStore:
    """The store of a bucket, container or server; credentials come from the environment.

    The environment is what obstore reads: variables, files they name, and the identity of the machine; for S3
    also the profiles of boto3 where that is installed.

    Raises:
        ExtraNotInstalled: obstore is missing.
        RecordingError: credentials or options in the environment make no sense; or this process was forked
            after a store was used, where its first request would hang.
    """
    _processes.add(os.getpid())
    if len(_processes) > 1:
        raise RecordingError(f"{root}: this process was forked from one that used it; start it by spawn")
    # Part of the key, since tests and long-lived processes may change them.
    environment = tuple(sorted((name, os.environ[name]) for name in os.environ if name.startswith(_PREFIXES)))
    return _connect(root, environment, RETRIES)


@lru_cache(maxsize=64)
def _connect(root: str, environment: tuple[tuple[str, str], ...], retries: int) -> ObjectStore:
    with extra(EXTRA):
        from obstore.store import HTTPStore, from_url  # noqa: PLC0415 - only where a URL is given

    backoff: BackoffConfig = {"init_backoff": _FIRST_PAUSE, "max_backoff": _LONGEST_PAUSE, "base": 2}
    retry: RetryConfig = {"max_retries": retries, "retry_timeout": _PATIENCE, "backoff": backoff}
    with _said(Url(root, "")):
        if root.startswith("http"):
            # An object may be named as those of a cloud; this is a plain server nevertheless. One that is
            # asked by https does not lead to another one by http.
            plain = root.startswith("http://")
            return HTTPStore.from_url(root, client_options={"allow_http": plain}, retry_config=retry)
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


def list_objects(url: Url, odd: list[str] | None = None) -> Iterator[StoredObject]:
    """All objects below a prefix; URLs of those whose keys are no paths (``a//b``) go to ``odd``.

    Raises:
        RecordingNotFound: no such bucket.
        RecordingError: it cannot be listed, as on a web server.
    """
    if url.root.startswith("http"):
        raise RecordingError(f"{url}: a web server lists no folders; name a file")
    no_paths: list[str] = []
    with _said(url):
        for meta in _listed(connect(url.root), url.key, no_paths):
            yield StoredObject(Url(url.root, meta["path"]), _version(meta))
    if odd is not None:
        odd.extend(f"{url.root}/{key}" for key in no_paths)


def _listed(
    store: ObjectStore, folder: str, no_paths: list[str], after: str | None = None
) -> list[ObjectMeta]:
    """All objects in a folder and those in it; one key that is no path fails the page of 1,000 it is on."""
    from obstore.exceptions import InvalidPathError  # noqa: PLC0415

    try:
        return [meta for page in store.list(folder or None, offset=after, chunk_size=1000) for meta in page]
    except InvalidPathError as error:
        key, past = _no_path(str(error))
    if after is None:
        with suppress(InvalidPathError):
            here = store.list_with_delimiter(folder or None)
            inner = [_listed(store, each, no_paths) for each in here["common_prefixes"]]
            return [*here["objects"], *(meta for each in inner for meta in each)]
    no_paths.append(key)
    if past <= (after or ""):
        return []  # of servers that list from the beginning, whatever they are asked for
    return _listed(store, folder, no_paths, past)


def _no_path(said: str) -> tuple[str, str]:
    """The key that an error of obstore names, and a path behind it and those that begin as it does."""
    key = next(iter(_KEY.findall(said)), "")
    for part, past in (("//", "/0"), ("/./", "/.0"), ("/../", "/..0"), ("\\", " ")):
        if part in key:
            return key, key.partition(part)[0] + past
    return key, ""


def list_folder(url: Url) -> list[StoredObject]:
    """The objects of a folder, without those of folders in it; none where a key is no path.

    Raises:
        RecordingNotFound: no such bucket.
        RecordingError: it cannot be listed.
    """
    with _said(url):
        from obstore.exceptions import InvalidPathError  # noqa: PLC0415

        try:
            found = connect(url.root).list_with_delimiter(url.key or None)["objects"]
        except InvalidPathError:
            return []
        return [StoredObject(Url(url.root, meta["path"]), _version(meta)) for meta in found]


def read_version(url: Url) -> ObjectVersion:
    """The version of an object, without its bytes.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read.
    """
    with _said(url):
        return _version(connect(url.root).head(url.key))


def read_tail(url: Url, length: int) -> tuple[memoryview, ObjectVersion]:
    """The last ``length`` bytes of an object, all of a smaller one, and its version.

    Raises:
        RecordingNotFound: no such object or bucket.
        RecordingError: it cannot be read; the message says what to do.
    """
    try:
        if url.root.startswith("a"):  # Azure has no ranges from the end
            version = read_version(url)
            wanted = max(0, version.size - length), version.size
            return _get(url, wanted, length) if version.size else (memoryview(b""), version)
        return _get(url, {"suffix": length}, length)
    except RecordingError as error:
        if "416 " not in str(error.__cause__):
            raise
        return memoryview(b""), read_version(url)  # an empty object has no last bytes


def write_object(url: Url, path: Path) -> None:
    """Make an object of a file; it appears whole, or not at all.

    Raises:
        RecordingError: it cannot be written; the message says what to do.
    """
    with _said(url, "written"):
        connect(url.root).put(url.key, path)


def _get(url: Url, wanted: ByteRange | SuffixRange, most: int) -> tuple[memoryview, ObjectVersion]:
    """What a request is answered, as far as it was asked for."""
    with _said(url):
        found = connect(url.root).get(url.key, options={"range": wanted})
        data = bytearray()
        for part in found.stream(min_chunk_size=1):
            data += memoryview(part)[: most - len(data)]
            if len(data) >= most:
                break
        return memoryview(data).toreadonly(), _version(found.meta)


def _version(meta: ObjectMeta) -> ObjectVersion:
    return ObjectVersion(meta["size"], meta["e_tag"] or meta["last_modified"].isoformat())


@contextmanager
def _said(url: Url, wanted: str = "read") -> Iterator[None]:
    """Turn obstore's errors into sentences on this URL."""
    with extra(EXTRA):
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
PART_BYTES = 1 << 20
"""Of a stream, at least; a few of them are in memory."""
SINGLE_BYTES = 64 << 10
"""Asked for at least outside of what is planned."""
JOIN_GAP_BYTES = 128 << 10
"""Planned ranges that are nearer than this are streamed together, with what is between them."""
_BUFFER_BYTES = 64 << 10


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
        planned = _joined([(0, self.size)] if ranges is None else ranges, self.size)
        return BufferedReader(_Reader(self, planned), _BUFFER_BYTES)

    def pin(self, begin: int, end: int) -> None:
        """Fetch a range by one request, as far as it is not kept already, and keep it."""
        for start, data in self._pinned:
            if start <= begin < start + len(data):
                begin = start + len(data)
            if start < end <= start + len(data):
                end = start
        if begin < end:
            parts = self.stream((begin, end))
            self._pinned.append((begin, memoryview(b"".join(parts))))

    def keep(self) -> None:
        """Keep a local copy of what is read from now on."""
        self._copy = self._copy or _LocalCopy()

    def kept(self, position: int) -> memoryview:
        """What is here from a position on; nothing if it has to be asked for."""
        for start, data in self._pinned:
            if start <= position < start + len(data):
                return data[position - start :]
        return memoryview(b"") if self._copy is None else self._copy.read(position)

    def stream(self, wanted: ByteRange) -> Iterator[memoryview]:
        """The bytes of a range, part by part.

        Raises:
            RecordingError: they cannot be read, or the object has changed since it was opened.
        """
        position, end = wanted
        with _said(self._url):
            found = wait_for(lambda: connect(self._url.root).get(self._url.key, options={"range": wanted}))
            self._check(_version(found.meta))
            parts = iter(found.stream(min_chunk_size=PART_BYTES))
            while position < end and (part := wait_for(lambda: next(parts, None))) is not None:
                data = memoryview(part)[: end - position]
                if self._copy is not None:
                    self._copy.write(position, data)
                position += len(data)
                yield data
        if position < end:
            raise RecordingError(
                f"{self._url}: the server sent {position - wanted[0]:,} bytes of the {end - wanted[0]:,} at "
                f"{wanted[0]:,}; try again"
            ) from ConnectionResetError(errno.ECONNRESET, "the answer is short")

    def _check(self, version: ObjectVersion) -> None:
        if version != self._version:
            raise RecordingError(
                f"{self._url}: changed while it was read (ETag {self._version.tag}, now {version.tag}): "
                "start again once its upload is complete"
            )


class _LocalCopy:
    """Ranges of an object in a temporary file without name; if the disk is full, they are asked for again."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="edgefirst-ros-")  # noqa: SIM115 - closed with this
        self._ranges: list[ByteRange] = []

    def read(self, position: int) -> memoryview:
        """What was written from a position on, or some of it."""
        end = next((end for begin, end in self._ranges if begin <= position < end), position)
        return memoryview(os.pread(self._file.fileno(), min(end - position, PART_BYTES), position))

    def write(self, position: int, data: memoryview) -> None:
        """Keep a range if there is room."""
        try:
            if os.pwrite(self._file.fileno(), data, position) == len(data):
                self._ranges = _joined([*self._ranges, (position, position + len(data))], sys.maxsize, 0)
        except OSError:
            pass


class _Reader(PositionedFile):
    """Reads at a position from what is kept, or from a stream that goes on to the end of a planned range."""

    def __init__(self, file: RemoteFile, planned: Sequence[ByteRange]) -> None:
        super().__init__(file.size)
        self._file, self._planned = file, planned
        self._stream: Iterator[memoryview] = iter(())
        self._next = sys.maxsize
        """Where the stream goes on."""
        self._part: tuple[int, memoryview] = (0, memoryview(b""))

    def readinto(self, buffer: Buffer) -> int:
        into = memoryview(buffer).cast("B")
        found = self._at(self.position, len(into))[: len(into)]
        into[: len(found)] = found
        self.position += len(found)
        return len(found)

    def _at(self, position: int, length: int) -> memoryview:
        """Some bytes from a position on, empty at the end of the file."""
        while position < self._file.size:
            start, data = self._part
            if start <= position < start + len(data):
                return data[position - start :]
            if kept := self._file.kept(position):
                return kept
            if not 0 <= position - self._next <= JOIN_GAP_BYTES:
                self._begin(position, length)
            if (following := next(self._stream, None)) is None:
                self._next = sys.maxsize
                continue
            self._part = self._next, following
            self._next += len(following)
        return memoryview(b"")

    def _begin(self, position: int, length: int) -> None:
        """Ask for what is planned from a position on, or for a little."""
        end = next((end for begin, end in self._planned if begin <= position < end), 0)
        end = end or min(self._file.size, position + max(length, SINGLE_BYTES))
        self._stream, self._next = self._file.stream((position, end)), position


def _joined(ranges: Sequence[ByteRange], size: int, gap: int = JOIN_GAP_BYTES) -> list[ByteRange]:
    """Ranges in order of the file, near ones as one."""
    joined: list[ByteRange] = []
    for begin, end in sorted(ranges):
        if joined and begin - joined[-1][1] <= gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], min(end, size))
        else:
            joined.append((begin, min(end, size)))
    return joined


def begin(fetch: Callable[[], Result]) -> Future[Result]:
    """Call a function in a daemon thread, so that Ctrl-C ends the wait for what it returns."""
    future: Future[Result] = Future()

    def call() -> None:
        try:
            future.set_result(fetch())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def wait_for(fetch: Callable[[], Result]) -> Result:
    """What a function returns, unless Ctrl-C comes first."""
    return begin(fetch).result()
