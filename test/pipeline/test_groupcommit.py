"""What is written becomes durable beside the writing, and nothing counts as durable that was not synced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from envelopes import Keeper

from edgefirst_ros.model.errors import WriteError
from edgefirst_ros.pipeline.disk import GroupCommit, Mark

WAIT_S = 20.0


class Safe(Keeper):
    """A crash-safe format; each sync waits until the test lets it go."""

    def __init__(self) -> None:
        super().__init__("safe")
        self.synced = 0
        self.begun_sync = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.failure: Exception | None = None

    @contextmanager
    def syncing(self) -> Iterator[list[Path]]:
        self.begun_sync.release()
        assert self.may_end.acquire(timeout=WAIT_S)
        if self.failure is not None:
            raise self.failure
        yield []
        self.synced += 1

    def complete(self) -> list[Path]:
        return []


class Written:
    """How far writing has come, as the test says."""

    def __init__(self) -> None:
        self.now = Mark(0, None, 0)

    def __call__(self) -> Mark:
        return self.now


@pytest.fixture
def written() -> Written:
    return Written()


def until(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(round(WAIT_S * 200)):
        if condition():
            return
        tick.wait(0.005)
    pytest.fail("did not come about")


@pytest.mark.parametrize("sync_s", [0.0, 0.01])
def test_what_was_written_when_a_sync_began_is_durable_when_it_ends(sync_s: float, written: Written) -> None:
    writer, durable = Safe(), list[Mark]()
    commits = GroupCommit([writer], sync_s, written, durable.append)
    first = written.now = Mark(3, 300, 30)
    commits.wrote()
    assert writer.begun_sync.acquire(timeout=WAIT_S)
    second = written.now = Mark(5, 500, 50)  # while the disk is at work: not of this sync
    commits.wrote()
    assert commits.durable == Mark(0, None, 0)
    writer.may_end.release()
    until(lambda: commits.durable == first)
    writer.may_end.release()
    until(lambda: commits.durable == second)
    assert writer.begun_sync.acquire(timeout=WAIT_S)
    assert not writer.begun_sync.acquire(timeout=0.1), "synced although nothing was new"
    commits.stop()
    assert durable == [first, second]


def test_a_sample_is_synced_after_half_of_the_interval_and_other_bytes_after_all_of_it(
    written: Written,
) -> None:
    writer = Safe()
    writer.may_end.release(2)
    commits = GroupCommit([writer], 1.6, written)
    written.now = Mark(0, None, 30)
    commits.wrote()
    assert not writer.begun_sync.acquire(timeout=1.2)
    assert writer.begun_sync.acquire(timeout=WAIT_S)
    until(lambda: commits.durable == written.now)
    written.now = Mark(1, 100, 60)
    commits.wrote()
    assert writer.begun_sync.acquire(timeout=1.4)
    commits.stop()


def test_what_is_left_is_synced_before_the_output_is_completed(written: Written) -> None:
    writer, durable = Safe(), list[Mark]()
    commits = GroupCommit([writer], 1000.0, written, durable.append)
    written.now = Mark(3, 300, 30)
    writer.may_end.release()
    commits.stop()
    assert durable == [written.now]


def test_after_an_error_nothing_more_becomes_durable(written: Written) -> None:
    """The disk forgets what it could not write: a later sync that succeeds would prove nothing."""
    writer = Safe()
    writer.failure = WriteError("out: cannot be written: Input/output error")
    commits = GroupCommit([writer], 0.0, written)
    written.now = Mark(3, 300, 30)
    commits.wrote()
    writer.may_end.release(5)
    until(lambda: commits.failure is not None)
    written.now = Mark(4, 400, 40)
    commits.wrote()
    commits.stop()
    assert commits.failure is writer.failure
    assert (writer.synced, commits.durable) == (0, Mark())
