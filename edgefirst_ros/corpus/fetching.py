"""Ranges of objects for any process: several at once, through the cache, also where a process was forked.

The client of object stores has threads, which a fork does not copy. So a process that opens datasets, and may
be forked, has a helper ask at first: those that are forked from it have clients of their own. One that is
forked from a process which had a client has a helper, too; what it gets comes through a pipe.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from edgefirst_ros.corpus.cache import Cache, default_cache
from edgefirst_ros.formats.edgefirst.read.places import ForkLock
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, RecordingError, RecordingNotFound
from edgefirst_ros.sources.location import Url
from edgefirst_ros.sources.remote import Fetcher, ObjectVersion, has_client, read_range, wait_for, was_forked

Result = TypeVar("Result")
REQUESTS = 8
"""Under way at once, for a process: a batch of training needs one answer's time."""
JOIN_GAP_BYTES = 64 << 10
"""Ranges that are nearer than this are fetched together; at 100 MB/s it takes less than a request."""
PIECE_BYTES = 8 << 20
"""Fetched at most by one request."""
_MOST_AHEAD_BYTES = 256 << 20
"""Fetched ahead and not yet read, for a process: a batch of 32 pictures with radar cubes."""
_LOOKS = 16
"""Samples or batches for which a helper asks in a process that may be forked: enough to look at a few, as one
does before training; who reads more reads them itself."""


class Wanted(NamedTuple):
    """A range of an object, as it was when it was found."""

    url: Url
    version: ObjectVersion
    begin: int
    end: int

    @property
    def key(self) -> str:
        """What the cache knows it by; an object that was replaced has another one."""
        said = f"{self.url}\n{tag(self.version)}\n{self.version.size}\n{self.begin}\n{self.end}"
        return sha256(said.encode("utf-8", "surrogateescape")).hexdigest()

    def pieces(self) -> list[Wanted]:
        """The requests for it."""
        begins = range(self.begin, self.end, PIECE_BYTES)
        return [self._replace(begin=at, end=min(at + PIECE_BYTES, self.end)) for at in begins]


def tag(version: ObjectVersion) -> str:
    """An ETag without its quotes, which listings of some stores leave out."""
    return version.tag.removeprefix("W/").strip('"')


@contextmanager
def of_datasets() -> Iterator[None]:
    """A block in which errors of object stores are those of datasets."""
    try:
        yield
    except RecordingNotFound as error:
        raise DatasetNotFound(str(error)) from error
    except RecordingError as error:
        raise DatasetError(str(error)) from error


class Requests:
    """What this process fetches."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._lock = threading.Lock()
        self._ahead: OrderedDict[Wanted, Future[memoryview]] = OrderedDict()
        self._ahead_bytes = 0
        self._helper: _Helper | None = None
        self._looks = 0

    def open_first(self) -> None:
        """Datasets are opened, and processes may be forked then: have a helper ask for a while."""
        if not has_client() and _may_be_forked():
            self._looks = _LOOKS

    def read(self, wanted: Wanted) -> bytes | memoryview:
        """A range: fetched ahead, from the cache, or by a request.

        Raises:
            DatasetError: it cannot be read, or the object was replaced.
        """
        with self._lock:
            under_way = self._ahead.pop(wanted, None)
            self._ahead_bytes -= 0 if under_way is None else wanted.end - wanted.begin
        if under_way is not None:
            with of_datasets():
                return under_way.result()
        if (found := self.cache.get(wanted.key)) is not None:
            return found
        data = self.together(wanted.pieces())
        self.cache.put(wanted.key, data)
        return data

    def together(self, pieces: list[Wanted]) -> bytes:
        """Adjoining pieces, several at once.

        Raises:
            DatasetError: they cannot be read, or the object was replaced.
        """
        with of_datasets():
            futures = [self._fetcher.submit(partial(self._fetch, piece)) for piece in pieces]
            return b"".join(future.result() for future in futures)

    def ahead(self, wanted: Iterable[Wanted]) -> None:
        """Begin to fetch ranges which are read soon in this order, near ones of an object together."""
        with self._lock:
            asked = [each for each in dict.fromkeys(wanted) if each not in self._ahead]
        new = {each: number for number, each in enumerate(asked) if not self.cache.has(each.key)}
        if new and self._looks:
            self._looks -= 1
            if not self._looks and self._helper is not None:
                self._helper.end()
                self._helper = None
        groups: list[list[Wanted]] = []
        for each in sorted(new):
            last = groups[-1] if groups else []
            is_near = last and last[0][:2] == each[:2] and each.begin <= last[-1].end + JOIN_GAP_BYTES
            if is_near and each.end - last[0].begin <= PIECE_BYTES:
                last.append(each)
            else:
                groups.append([each])
        for group in sorted(groups, key=lambda group: min(new[each] for each in group)):
            self._fetch_ahead(group)

    def _fetch_ahead(self, group: list[Wanted]) -> None:
        whole = group[0]._replace(end=max(each.end for each in group))
        futures: dict[Wanted, Future[memoryview]] = {each: Future() for each in group}

        def fetch() -> memoryview:
            try:
                data = self._fetch(whole)
            except BaseException as error:
                for future in futures.values():
                    future.set_exception(error)
                raise
            for each, future in futures.items():
                part = data[each.begin - whole.begin : each.end - whole.begin]
                self.cache.put(each.key, part)
                future.set_result(part)
            return data

        with self._lock:
            self._ahead.update(futures)
            self._ahead_bytes += sum(each.end - each.begin for each in group)
            while self._ahead_bytes > _MOST_AHEAD_BYTES and len(self._ahead) > len(group):
                dropped, _ = self._ahead.popitem(last=False)
                self._ahead_bytes -= dropped.end - dropped.begin
        self._fetcher.submit(fetch)

    def _fetch(self, wanted: Wanted) -> memoryview:
        try:
            data, version = self._range(wanted)
        except RecordingNotFound as error:
            raise DatasetError(f"{wanted.url} is gone since the dataset was opened") from error
        if (version.size, tag(version)) != (wanted.version.size, tag(wanted.version)):
            raise DatasetError(
                f"{wanted.url} has changed since the dataset was opened (ETag {tag(wanted.version)}, now "
                f"{tag(version)}); open it again"
            )
        if len(data) != wanted.end - wanted.begin:
            got = f"{len(data):,} bytes instead of {wanted.end - wanted.begin:,}"
            raise DatasetError(f"{wanted.url}: the server sent {got} at {wanted.begin:,}; try again")
        return data

    def _range(self, wanted: Wanted) -> tuple[memoryview, ObjectVersion]:
        url, _, begin, end = wanted
        if self._is_direct():
            return read_range(url, begin, end)
        data, version = self.call(_copied_range, url, begin, end)
        return memoryview(data), version

    def call(self, function: Callable[..., Result], *given: object) -> Result:
        """Call a function of a module, which asks a store, here or in a helper."""
        while not self._is_direct():
            try:
                return cast("Result", self._own_helper().call(function, *given))
            except (
                _HelperEnded
            ):  # without an interpreter of its own, such as in a frozen program, none begins
                if was_forked():
                    raise
                self._looks = 0
        return wait_for(partial(function, *given))

    def _is_direct(self) -> bool:
        return not was_forked() and (self._looks <= 0 or has_client())

    def _own_helper(self) -> _Helper:
        with self._lock:
            before = self._helper
            if before is None or before.environment != dict(os.environ):
                self._helper = _Helper()
                if before is not None:
                    before.end()
            return cast("_Helper", self._helper)

    @cached_property
    def _fetcher(self) -> Fetcher:
        return Fetcher(REQUESTS)


_LOCK = ForkLock()
_OWN: dict[int, Requests] = {}


def requests() -> Requests:
    """Those of this process."""
    process = os.getpid()
    with _LOCK:
        if process not in _OWN:
            _OWN.clear()  # a fork copies no threads
            _OWN[process] = Requests(default_cache())
        return _OWN[process]


def _copied_range(url: Url, begin: int, end: int) -> tuple[bytes, ObjectVersion]:
    """Of ``read_range``, as what goes through a pipe."""
    data, version = read_range(url, begin, end)
    return bytes(data), version


def _may_be_forked() -> bool:
    """Whether workers of this process would be forked from it, as far as was said; one itself has none."""
    said = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return said == "fork" and multiprocessing.parent_process() is None


_PIPE_BYTES = 1 << 20
"""Held by the pipe of answers: with 64 kB a picture would take ten changes from one process to the other."""


class _HelperEnded(DatasetError):
    def __init__(self, text: str = "the process that makes requests for this one has ended") -> None:
        super().__init__(text)


class _Helper:
    """A process that calls functions for this one, several at once; it ends with this one.

    Attributes:
        environment: that of this process, which it has; credentials are in there.
    """

    def __init__(self) -> None:
        path, self.environment = os.pathsep.join(filter(None, sys.path)), dict(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**self.environment, "PYTHONPATH": path},
        )
        with suppress(AttributeError, OSError):  # elsewhere than on Linux pipes hold what they hold
            fcntl.fcntl(cast("BinaryIO", self._process.stdout).fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[object]] = {}
        self._count = 0
        threading.Thread(target=self._receive, daemon=True).start()

    def call(self, function: Callable[..., object], *given: object) -> object:
        """What a function of a module returns, or raises."""
        future: Future[object] = Future()
        with self._lock:
            self._count += 1
            self._waiting[self._count] = future
            try:
                _send(cast("BinaryIO", self._process.stdin), (self._count, (function, given)))
            except (OSError, ValueError) as error:
                raise _HelperEnded from error
        return future.result()

    def end(self) -> None:
        """Let it end; who waits for it is told."""
        with self._lock, suppress(OSError):
            cast("BinaryIO", self._process.stdin).close()

    def _receive(self) -> None:
        for number, answer in _received(cast("BinaryIO", self._process.stdout)):
            future = self._waiting.pop(number)
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        with self._lock:
            for future in self._waiting.values():
                future.set_exception(_HelperEnded())
            self._waiting.clear()
        self._process.wait()


def serve() -> None:
    """Answer the requests that come by standard input until it ends; what ``_Helper`` starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    lock, fetcher = threading.Lock(), Fetcher(REQUESTS)

    def answer(number: int, function: Callable[..., object], given: tuple[object, ...]) -> memoryview:
        answer: object
        try:
            answer = function(*given)
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            answer = error
        with lock:
            _send(sys.stdout.buffer, (number, answer))
        return memoryview(b"")

    for number, (function, given) in _received(sys.stdin.buffer):
        fetcher.submit(partial(answer, number, function, given))


def _send(stream: BinaryIO, what: object) -> None:
    pickle.dump(what, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _received(stream: BinaryIO) -> Iterator[tuple[int, Any]]:
    """What comes through a pipe from a process of one's own, until it is closed."""
    while True:
        try:
            yield pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            return
