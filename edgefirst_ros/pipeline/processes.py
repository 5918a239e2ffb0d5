"""Worker processes: functions called in other processes, so that they do not wait for this one's lock.

Calls and results are pickled; large ones go through memory that both have.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.pipeline.executor import Backlog, worker_count

KEPT_BYTES = 64 << 20
"""Freed memory that is kept at the end of each heap."""
LARGEST_BYTES = 32 << 20
"""Larger blocks are mapped, and given back as soon as they are freed; the largest value that glibc takes."""
ARENAS = 2
"""Heaps that threads share. By default glibc makes up to eight for each core, one for each new thread, and in
every one some pictures' memory stays: sessions with threads of their own took 5 MB more each."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's malloc.h."""


def keep_freed_memory() -> None:
    """Have freed memory kept for the next allocation, of whichever thread.

    By default glibc gives back every picture's memory and takes it again for the next picture, page by page:
    a tenth of the CPU time of a conversion. Call it before there are threads: a heap that is there stays.
    Without glibc nothing is changed.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, LARGEST_BYTES)


def give_back_memory() -> None:
    """Give freed memory back to the system, also that between what is in use, which is never given back else.

    What completes a sequence takes much memory once; scattered over it then lies what lives long.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


LARGE_BYTES = 16 << 10
"""What is smaller is copied into the pickle."""
GRAIN_BYTES = 1 << 20
ALIGNED = 64
_COUNT = struct.Struct("<I")
_Value = Any
"""Whatever can be pickled."""


class Area:
    """Memory that two processes share, in a file without a name: it ends with the last process that has it.

    One of them writes, and the other one reads before the next is written.

    Args:
        descriptor: of the file; None to make one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _nameless() if descriptor is None else descriptor
        self._map: mmap.mmap | None = None
        self._size = 0

    def write(self, parts: Sequence[memoryview]) -> list[int]:
        """Write all parts; their sizes, for ``read``."""
        sizes = [part.nbytes for part in parts]
        self._reach(sum(map(_padded, sizes)), may_grow=True)
        at = 0
        for part, size in zip(parts, sizes, strict=True):
            if self._map is not None:
                self._map[at : at + size] = part
            at += _padded(size)
        return sizes

    def read(self, sizes: Sequence[int]) -> list[memoryview]:
        """The parts as views that are valid until the next ``write``; they are to be released before it."""
        self._reach(sum(map(_padded, sizes)), may_grow=False)
        parts, at = [], 0
        for size in sizes:
            parts.append(memoryview(b"" if self._map is None else self._map)[at : at + size].toreadonly())
            at += _padded(size)
        return parts

    def close(self) -> None:
        """Give the memory up."""
        os.close(self.descriptor)
        self._map, self._size = None, 0

    def _reach(self, size: int, *, may_grow: bool) -> None:
        if size <= self._size:
            return
        self._size = -(-size // GRAIN_BYTES) * GRAIN_BYTES
        if may_grow:
            os.ftruncate(self.descriptor, self._size)
        # Views of the old mapping may live on; it goes with the last of them.
        self._map = mmap.mmap(self.descriptor, self._size)


def _nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("edgefirst-ros")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _padded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


class _Pickler(pickle.Pickler):
    """Keeps large bytes apart, which pickle itself does for arrays only."""

    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer], large: list[bytes]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._large = large

    def persistent_id(self, value: _Value) -> int | None:
        if type(value) is not bytes or len(value) < LARGE_BYTES:
            return None
        self._large.append(value)
        return len(self._large) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: memoryview, buffers: Sequence[Any], large: Sequence[memoryview]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._large = large

    def persistent_load(self, number: int) -> bytes:
        return bytes(self._large[number])


class LinkClosed(Exception):
    """The other side has gone."""


class Line:
    """One end of the connection of two processes; each sends and receives in turn.

    Args:
        link: tells the other side what was written.
        mine: what this side writes to.
        theirs: what it reads.
    """

    def __init__(self, link: socket.socket, mine: Area, theirs: Area) -> None:
        self._link, self._mine, self._theirs = link, mine, theirs

    def send(self, value: _Value) -> None:
        """Send any value that can be pickled.

        Raises:
            LinkClosed: the other side has gone.
        """
        file, buffers, large = io.BytesIO(), list[pickle.PickleBuffer](), list[bytes]()
        _Pickler(file, buffers, large).dump(value)
        parts = [file.getbuffer(), *(memoryview(each) for each in large), *(each.raw() for each in buffers)]
        sizes = self._mine.write(parts)
        head = [len(large), *sizes]
        try:
            self._link.sendall(_COUNT.pack(len(head)) + struct.pack(f"<{len(head)}Q", *head))
        except OSError as error:
            raise LinkClosed from error

    def receive(self, *, copied: bool) -> _Value:
        """Wait for a value.

        Args:
            copied: whether its arrays are copies; else they are read-only, and valid until the next one.

        Raises:
            LinkClosed: the other side has gone.
        """
        (count,) = _COUNT.unpack(self._exactly(_COUNT.size))
        apart, *sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count))
        data, *rest = self._theirs.read(sizes)
        large, arrays = rest[:apart], rest[apart:]
        return _Unpickler(data, [bytearray(a) for a in arrays] if copied else arrays, large).load()

    def _exactly(self, size: int) -> bytes:
        try:
            data = self._link.recv(size, socket.MSG_WAITALL)
        except OSError as error:
            raise LinkClosed from error
        if len(data) < size:
            raise LinkClosed
        return data


Made = TypeVar("Made")
COMMAND = (sys.executable, "-P", "-c", "from edgefirst_ros.pipeline.processes import main; main()")
ATTEMPTS = 2
"""How often a call is made whose process ends before it is done."""
WORTH_BYTES = 20 << 20
"""Threads have converted less than this, some seconds of a drive, before processes have started."""
WORTH_S = 60.0
"""Selected frames of a shorter drive cost less than the start of processes (20 s of 1080p30 at 1 Hz)."""
PATIENCE_S = 5.0
"""For a process to end once its connection is closed."""


def are_worth_it(workers: int, size: int, selected_s: float | None) -> bool:
    """Whether worker processes make recordings of so many bytes in all faster than threads do.

    ``selected_s`` is how long they are, where only some frames are decoded; else None.
    """
    is_short = selected_s is not None and selected_s < WORTH_S
    return workers > 1 and size >= WORTH_BYTES and not is_short


class WorkerLost(EdgeFirstError):
    """A worker process ended in the middle of a call, and so did the next one with the same call."""


class _Child:
    """One process that makes calls for one thread of this one.

    It ends when this process does, however that ends: then this end of the connection is closed.
    """

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        requests, replies = self._areas = Area(), Area()
        descriptors = theirs.fileno(), requests.descriptor, replies.descriptor
        path = os.pathsep.join(each for each in sys.path if each)
        with theirs:
            self.process = subprocess.Popen(
                [*COMMAND, *map(str, descriptors)],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,  # Ctrl-C in a terminal is for this process alone
            )
        self._line = Line(self._link, requests, replies)

    def call(self, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:  # noqa: ANN401 - of any function
        """What the function returns.

        Raises:
            LinkClosed: the process has ended.
            Exception: whatever the function raises.
        """
        self._line.send((function, given))
        made, error = self._line.receive(copied=True)
        if error is not None:
            raise error
        return made

    def close(self) -> str:
        """End the process, and say how it ended."""
        self._link.close()
        for area in self._areas:
            area.close()
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(PATIENCE_S)
            return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self.process.kill()
        self.process.wait()
        return "did not answer"


_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class ProcessPool:
    """Calls functions in worker processes, which the first calls start.

    A thread of this process waits for each of them. Functions must be found by their names in modules, and
    arguments and results be such that pickle copies them; large ones cross through shared memory.

    Args:
        workers: processes.

    Attributes:
        failure: why a call could not be made at all; None while all could.
    """

    def __init__(self, workers: int) -> None:
        self.failure: WorkerLost | None = None
        self._workers = workers
        self._urgent: deque[_Call] = deque()
        self._calls: deque[_Call] = deque()
        self._idle = 0
        self._is_closed = self._is_killed = False
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._children: set[_Child] = set()

    def submit(self, function: Callable[..., Made], *given: Any) -> Future[Made]:  # noqa: ANN401 - of any function
        """Call a function in a worker process; the future has what it returns or raises, or WorkerLost."""
        return self._put(function, given, urgent=False)

    def call(self, function: Callable[..., Made], *given: Any) -> Made:  # noqa: ANN401 - of any function
        """Call a function in a worker process, before what was submitted, and wait for it."""
        return self._put(function, given, urgent=True).result()

    def shutdown(self) -> None:
        """Wait for all calls, and end the processes."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def kill(self) -> None:
        """End the processes at once; calls that are not done fail."""
        with self._changed:
            self._is_killed = True
            for child in self._children:
                child.process.kill()
        self.shutdown()

    def _put(self, function: Callable[..., Made], given: tuple[Any, ...], *, urgent: bool) -> Future[Made]:
        made: Future[Made] = Future()
        with self._changed:
            if self._is_closed:
                made.set_exception(WorkerLost("the worker processes have ended"))
                return made
            (self._urgent if urgent else self._calls).append((made, function, given))
            if len(self._urgent) + len(self._calls) > self._idle and len(self._threads) < self._workers:
                # A daemon: a caller that died before shutting down must not keep the process from ending.
                name = f"worker-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
            self._changed.notify()
        return made

    def _next(self) -> _Call | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._urgent or self._calls or self._is_closed)
            self._idle -= 1
            waiting = self._urgent or self._calls
            return waiting.popleft() if waiting else None

    def _run(self) -> None:
        child: _Child | None = None
        while (call := self._next()) is not None:
            made, function, given = call
            if made.set_running_or_notify_cancel():
                child = self._make(child, made, function, given)
            del call, made, function, given
        if child is not None:
            self._close(child)

    def _make(
        self,
        child: _Child | None,
        made: Future[Any],
        function: Callable[..., Any],
        given: tuple[Any, ...],
    ) -> _Child | None:
        """Make a call, in another process if one ends; the one that made it."""
        ended = ""
        for _ in range(ATTEMPTS):
            if self._is_killed:
                break
            try:
                child = child or self._open()
                made.set_result(child.call(function, given))
            except LinkClosed:
                ended = "" if child is None else self._close(child)
                child = None
            except BaseException as error:  # noqa: BLE001 - handed on to whoever asks for the result
                made.set_exception(error)
                return child
            else:
                return child
        lost = WorkerLost(
            f"a worker process {ended}, and so did the next one at the same call: if memory is short, "
            "fewer workers take less (--workers 1 takes no process)"
        )
        self.failure = self.failure or lost
        made.set_exception(lost)
        return child

    def _open(self) -> _Child:
        child = _Child()
        with self._changed:
            self._children.add(child)
            if self._is_killed:
                child.process.kill()
        return child

    def _close(self, child: _Child) -> str:
        with self._changed:
            self._children.discard(child)
        return child.close()


GROUP_ITEMS, GROUP_BYTES = 256, 64 << 20
"""Items, and bytes of messages, under way for each group of pictures that a process decodes."""


class Workers:
    """What sessions that follow each other share: threads or processes that decode and encode.

    Args:
        configured: how many; 0 is one for every core.
        processes: whether they are processes, in place of threads.

    Attributes:
        count: how many there are.
        pool: of threads; those that wait for processes take no time.
        backlog: limits what is under way.
    """

    def __init__(self, configured: int, *, processes: bool = False) -> None:
        count = self.count = worker_count(configured)
        self.processes = ProcessPool(count) if processes else None
        self.pool = ThreadPoolExecutor(4 * count if processes else count, "encode")
        # Enough under way to keep every core busy while one slow picture holds the order up.
        self.backlog = (
            Backlog(GROUP_ITEMS * count, GROUP_BYTES * (count + 2)) if processes else Backlog(4 * count + 8)
        )
        self._users: set[object] = set()
        self._lock = threading.Lock()

    def enter(self, user: object) -> None:
        """Another session needs them."""
        with self._lock:
            self._users.add(user)

    def leave(self, user: object, *, at_once: bool = False) -> None:
        """A session needs them no more, which it may say again if it fails at its end.

        After the last one they end, ``at_once`` whatever is under way.
        """
        with self._lock:
            self._users.discard(user)
            if self._users:
                return
        self.pool.shutdown(wait=not at_once, cancel_futures=at_once)
        if self.processes is not None:
            (self.processes.kill if at_once else self.processes.shutdown)()

    def raise_failure(self) -> None:
        """Raise why a call could not be made at all, if one could not."""
        if self.processes is not None and self.processes.failure is not None:
            raise self.processes.failure


def main() -> None:
    """In a worker process: receive a function, call it, send what it returns or raises; and again."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    link, theirs, mine = map(int, sys.argv[1:])
    line = Line(socket.socket(fileno=link), Area(mine), Area(theirs))
    with suppress(LinkClosed):
        while True:
            _serve(line)
    os._exit(0)  # whoever waited is gone: nothing to tidy up


def _serve(line: Line) -> None:
    try:
        call, given = line.receive(copied=False)
        made = call(*given), None
        del call, given
        line.send(made)
    except LinkClosed:
        raise
    except Exception as error:  # noqa: BLE001 - it is raised where the call came from
        line.send((None, _sendable(error)))


def _sendable(error: Exception) -> Exception:
    """The error, or its text if it cannot be sent; one that nobody foresaw takes its traceback along."""
    if isinstance(error, EdgeFirstError):
        return error
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - a class of a library may refuse in any way
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(trace)
    return error
