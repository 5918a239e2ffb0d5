"""The pool between samples and files: nobody waits for what will never come."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pytest

from edgefirst_ros.formats.format import Written
from edgefirst_ros.pipeline.executor import Backlog, OrderedWriter, chain


@pytest.fixture
def busy() -> tuple[ThreadPoolExecutor, threading.Event]:
    """A pool whose only thread works until the event is set."""
    pool, gate = ThreadPoolExecutor(1), threading.Event()
    pool.submit(gate.wait)
    return pool, gate


class Task:
    """What comes of an item that is, or will be, prepared."""

    size = 0

    def __init__(self, prepared: Future[int]) -> None:
        self.prepared = prepared
        self.result: Written | BaseException | None = None

    def hold(self, written: Future[Written]) -> None:
        raise NotImplementedError

    def settle(self, result: Written | BaseException) -> None:
        self.result = result


def done(value: int) -> Future[int]:
    future: Future[int] = Future()
    future.set_result(value)
    return future


def test_a_writer_ends_although_the_pool_was_shut_down_under_it(
    busy: tuple[ThreadPoolExecutor, threading.Event],
) -> None:
    pool, gate = busy
    written: list[int] = []

    def write(value: int) -> Written:
        written.append(value)
        return Written()

    writer: OrderedWriter[int] = OrderedWriter("test", write, Backlog(8))
    tasks = [Task(chain(pool, done(number), lambda v: v)) for number in range(3)]
    for task in tasks:
        writer.submit(task)
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    writer.join()
    assert written == []
    assert [type(task.result) for task in tasks] == [CancelledError] * 3
    assert isinstance(writer.failure, CancelledError)


class Gatherer:
    """Gathers until it is told to begin, which makes room."""

    def __init__(self, backlog: Backlog) -> None:
        self.is_gathering = True
        self.flushed = 0
        self._backlog = backlog

    def flush(self) -> None:
        self.flushed += 1
        self.is_gathering = False
        while self._backlog._count:
            self._backlog.leave(0)


def test_while_somebody_gathers_twice_as_much_may_be_under_way() -> None:
    backlog = Backlog(items=3)
    gatherer = backlog.gatherer = Gatherer(backlog)
    for _ in range(6):
        backlog.enter(0)
    assert not gatherer.flushed
    backlog.enter(0)
    assert gatherer.flushed == 1
    for _ in range(2):
        backlog.enter(0)
    assert gatherer.flushed == 1
    backlog.enter(0)
    assert gatherer.flushed == 2


def test_what_is_under_way_is_limited_in_bytes_as_well() -> None:
    backlog = Backlog(items=10, most_bytes=100)
    backlog.enter(60)
    entered = threading.Event()

    def enter() -> None:
        backlog.enter(60)
        entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert not entered.wait(0.1)
    backlog.leave(60)
    assert entered.wait(60)
    backlog.leave(60)
    backlog.enter(1_000)  # one item is let through, however large it is
