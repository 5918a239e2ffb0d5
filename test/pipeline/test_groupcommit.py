"""What is written becomes durable beside the writing, and nothing counts as durable that was not synced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from envelopes import Keeper

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import WriteError
from edgefirst_ros.model.reasons import Code
from edgefirst_ros.pipeline import disk as groupcommit
from edgefirst_ros.pipeline.disk import REPORT_BYTES, Disk, GroupCommit, Mark

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


class Clock:
    """Stands still unless the test moves it."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.mark.parametrize("sync_s", [0.0, 0.01])
def test_at_risk_is_what_was_written_since_the_last_sync_began_that_ended(
    sync_s: float, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, clock = Safe(), Clock()
    monkeypatch.setattr(groupcommit, "time", clock)
    commits = GroupCommit([writer], sync_s, written)
    assert (commits.at_risk_s, commits.findings) == (0, ())
    written.now = Mark(3, 300, 30)
    commits.wrote()
    assert writer.begun_sync.acquire(timeout=WAIT_S)
    clock.now_s = 100.9
    assert commits.at_risk_s == pytest.approx(0.9), "the disk has not answered"
    assert not commits.findings
    written.now = Mark(5, 500, 50)
    writer.may_end.release()
    assert writer.begun_sync.acquire(timeout=WAIT_S)
    clock.now_s = 102.5  # what was written at 100.0 was not in the first sync
    assert commits.at_risk_s == pytest.approx(2.5)
    writer.may_end.release()
    until(lambda: commits.durable == written.now)
    clock.now_s = 200.0
    assert commits.at_risk_s == pytest.approx(2.5), "nothing is written, nothing can be lost"
    assert [each.code for each in commits.findings] == [Code.DISK_SLOW]
    commits.stop()
    assert commits.at_risk_s == pytest.approx(2.5)


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


def test_off_syncs_nothing_before_the_end(written: Written) -> None:
    writer = Safe()
    commits = GroupCommit([writer], -1.0, written)
    written.now = Mark(3, 300, 30)
    commits.wrote()
    commits.stop()
    assert (writer.synced, commits.durable) == (0, Mark())
    assert (commits.at_risk_s, commits.findings) == (None, ())
    commits.complete(written.now)
    assert commits.durable == written.now


def test_a_format_that_cannot_be_synced_is_durable_at_the_end(written: Written) -> None:
    commits = GroupCommit([Keeper()], 0.0, written)
    written.now = Mark(3, 300, 30)
    commits.wrote()
    commits.stop()
    assert commits.durable == Mark()


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


@pytest.mark.parametrize(("spare", "is_admitted"), [(0, True), (-1, False)])
def test_space_for_the_report_and_to_complete_is_left_beside_what_is_kept_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, is_admitted: bool
) -> None:
    disk = Disk(tmp_path, build_config({"min_free_mb": 10}), needed=lambda: 3_000_000)
    monkeypatch.setattr(disk, "free_bytes", lambda: 13_000_000 + REPORT_BYTES + spare)
    assert disk.admits() is is_admitted
    assert bool(disk.reason) is not is_admitted
