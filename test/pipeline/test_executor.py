"""The pool between samples and files: nobody waits for what will never come."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pytest

from edgefirst_ros.formats.base import Written
from edgefirst_ros.pipeline.executor import OrderedWriter, chain, gather


@pytest.fixture
def busy() -> tuple[ThreadPoolExecutor, threading.Event]:
    """A pool whose only thread works until the event is set."""
    pool, gate = ThreadPoolExecutor(1), threading.Event()
    pool.submit(gate.wait)
    return pool, gate


def done(value: int) -> Future[int]:
    future: Future[int] = Future()
    future.set_result(value)
    return future


def test_a_writer_ends_although_the_pool_was_shut_down_under_it(
    busy: tuple[ThreadPoolExecutor, threading.Event],
) -> None:
    pool, gate = busy
    written: list[int] = []
    settled: list[BaseException | None] = []

    def write(value: int) -> Written:
        written.append(value)
        return Written()

    writer: OrderedWriter[int] = OrderedWriter("test", write, threading.Semaphore(8))
    for number in range(3):
        writer.submit(chain(pool, done(number), lambda v: v), lambda _, error: settled.append(error))
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    writer.join()
    assert written == []
    assert [type(error) for error in settled] == [CancelledError] * 3
    assert isinstance(writer.failure, CancelledError)


def test_a_cancelled_source_cancels_what_hangs_on_it(
    busy: tuple[ThreadPoolExecutor, threading.Event],
) -> None:
    pool, gate = busy
    source = pool.submit(int)
    chained, gathered = chain(pool, source, lambda v: v), gather([done(1), source])
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert isinstance(chained.exception(5), CancelledError)
    assert isinstance(gathered.exception(5), CancelledError)
