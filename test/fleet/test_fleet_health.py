"""A fleet that goes on while the storage is away for a time, or some of its workers are of no use."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fleets import drive, settings

from edgefirst_ros.fleet import health
from edgefirst_ros.fleet import run as coordinator
from edgefirst_ros.fleet.engines.engine import Argument, Engine, Result, lacking
from edgefirst_ros.fleet.engines.local import LocalEngine
from edgefirst_ros.fleet.health import Fault, Health, fault_of, patiently, pauses_s
from edgefirst_ros.fleet.notes import LocalNotes, read_all
from edgefirst_ros.fleet.output import LocalOutput
from edgefirst_ros.fleet.plan import make_plan
from edgefirst_ros.fleet.run import Event, Fleet, FleetOutcome
from edgefirst_ros.fleet.task import Ended, Task, unfit
from edgefirst_ros.model.errors import ExtraNotInstalled, RecordingError, WriteError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(coordinator, "LOOK_S", 0.0)
    monkeypatch.setattr(coordinator, "_WAKE_S", 0.005)


def raised(kind: type[Exception], message: str, cause: Exception | None = None) -> Exception:
    error = kind(message)
    error.__cause__ = cause
    return error


class FromStore(Exception):
    """What obstore raises, for the tests that run without it."""

    __module__ = "obstore.exceptions"


FAILED_GET = "Generic S3 error: Error performing GET http://s3 - Server returned non-2xx status code: "


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (raised(RecordingError, "a", FromStore(f"{FAILED_GET}503 Service Unavailable")), Fault.STORAGE),
        (raised(WriteError, "a", FromStore(f"{FAILED_GET}500 Internal Server Error")), Fault.STORAGE),
        (raised(WriteError, "a", FromStore(f"{FAILED_GET}429 Too Many Requests")), Fault.STORAGE),
        (FromStore(f"{FAILED_GET}400 Bad Request: <Code>RequestTimeout</Code>"), Fault.STORAGE),
        (FromStore("Generic S3 error: HTTP error: request or response body error"), Fault.STORAGE),
        (FromStore("Generic S3 error: HTTP error: error sending request"), Fault.STORAGE),
        (FromStore(f"{FAILED_GET}501 Not Implemented"), Fault.DRIVE),
        (FromStore(f"{FAILED_GET}400 Bad Request"), Fault.DRIVE),
        (FromStore(f"{FAILED_GET}400 Bad Request: <Code>ExpiredToken</Code>"), Fault.WORKER),
        (raised(RecordingError, "a", FromStore(f"{FAILED_GET}403 Forbidden")), Fault.WORKER),
        (ExtraNotInstalled("obstore is not installed"), Fault.WORKER),
        (raised(WriteError, "a", OSError(errno.ENOSPC, "full")), Fault.WORKER),
        (raised(RecordingError, "a", OSError(errno.ENOSPC, "full")), Fault.WORKER),
        (PermissionError(errno.EACCES, "no"), Fault.WORKER),
        (raised(RecordingError, "a", PermissionError(errno.EACCES, "no")), Fault.DRIVE),
        (OSError(errno.ESTALE, "stale"), Fault.STORAGE),
        (raised(RecordingError, "a", ConnectionResetError(errno.ECONNRESET, "cut")), Fault.STORAGE),
        (FileExistsError(errno.EEXIST, "there"), Fault.DRIVE),
        (RecordingError("damaged"), Fault.DRIVE),
        (KeyError("a"), Fault.DRIVE),
    ],
)
def test_whose_fault_it_is(error: Exception, fault: Fault) -> None:
    assert fault_of(error) is fault


def test_pauses_grow_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pauses = [*pauses_s(600)]
    assert pauses[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert max(pauses) == 60
    assert 540 < sum(pauses) <= 600
    assert [*pauses_s(0)] == []
    assert [*pauses_s(0.5)] == [0.5]


def test_a_request_is_repeated_while_the_storage_is_at_fault() -> None:
    errors: list[Exception] = [OSError(errno.EIO, "a"), OSError(errno.EIO, "b"), ValueError("c")]
    checks = []

    def call() -> None:
        raise errors.pop(0)

    with pytest.raises(ValueError, match="c"):
        patiently(call, 1.0, lambda: checks.append(1))
    assert len(checks) == 2
    errors += [OSError(errno.EIO, "a")]
    with pytest.raises(OSError, match="a"):
        patiently(call, 0.0)
    errors += [OSError(errno.EIO, "a")]
    stop = threading.Event()
    stop.set()
    with pytest.raises(OSError, match="a"):
        patiently(call, 1.0, stop=stop)


def test_three_different_drives_in_a_row_are_too_many() -> None:
    found = Health(60)
    assert not found.blame("w", "a", "expired")
    assert not found.blame("w", "a", "expired")
    assert not found.blame("w", "b", "expired")
    assert not found.blame("v", "c", "expired"), "of another worker"
    found.praise("w")
    assert not found.blame("w", "c", "expired")
    assert not found.blame("w", "d", "expired")
    assert found.blame("w", "e", "expired")
    assert not found.blame("w", "f", "expired"), "once is enough"
    assert found.quarantined == {"w": "expired"}


def test_what_a_worker_lacks_is_named() -> None:
    needed = {"edgefirst_ros": "2", "obstore": ""}
    assert lacking(needed, {"edgefirst_ros": "2", "obstore": "1"}) == ""
    assert (
        lacking(needed, {"edgefirst_ros": "1", "obstore": "1"})
        == "has edgefirst_ros 1, the coordinator has 2"
    )
    assert lacking(needed, {"edgefirst_ros": "2", "obstore": ModuleNotFoundError("no")}) == "has no obstore"
    assert lacking(needed, {"edgefirst_ros": OSError("gone"), "obstore": None}) == "", "nothing is known"


class Cluster(Engine):
    """Workers that are threads, each with a name; a task is told whose it is."""

    text, workers = "threads", 1

    def __init__(self, *names: str) -> None:
        self.names, self.free = [*names], [*names]
        self.changed = threading.Condition()
        self.pool = ThreadPoolExecutor(len(names))
        self.unfit: dict[str, str] = {}

    @property
    def slots(self) -> int:
        return len(self.names)

    def avoid(self, worker: str) -> None:
        self.names.remove(worker)

    def find_unfit(self, needed: Any) -> dict[str, str]:  # noqa: ANN401, ARG002
        found, self.unfit = self.unfit, {}
        return found

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        return self.pool.submit(self.call, function, argument)

    def call(self, function: Any, argument: Any) -> Any:  # noqa: ANN401
        with self.changed:
            while not (able := [name for name in self.free if name in self.names]):
                self.changed.wait()
            self.free.remove(able[0])
        try:
            return function(argument, able[0])
        finally:
            with self.changed:
                self.free.append(able[0])
                self.changed.notify_all()

    def stop(self) -> None:
        pass

    def shutdown(self) -> None:
        self.pool.shutdown()


Become = Callable[[Task, str], Ended]


def run(
    folder: Path, names: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, become: Become, **more: float
) -> tuple[FleetOutcome, list[Event]]:
    monkeypatch.setattr(coordinator, "run_task", become)
    events: list[Event] = []
    output = LocalOutput(folder)
    with engine:
        plan = make_plan([drive(name, uri=f"/{name}") for name in names], settings(), output.notes)
        fleet = Fleet(plan, settings(), output, engine, on_event=events.append, **more)
        return fleet.convert(), events


def done(task: Task, worker: str) -> Ended:
    return Ended("done", {"drive": task.drive.name}, worker)


def drives_of(notes: list[Any]) -> list[str]:
    return sorted(str(note["drive"]) for note in notes)


def test_storage_errors_go_back_to_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: Counter[str] = Counter()

    def become(task: Task, worker: str) -> Ended:
        tried[task.drive.name] += 1
        if tried[task.drive.name] < 4:
            return Ended("storage", {"reason": "503"}, worker)
        return done(task, worker)

    outcome, events = run(tmp_path, "abcd", Cluster("v", "w"), monkeypatch, become)
    assert drives_of(outcome.done) == [*"abcd"]
    assert not outcome.quarantined, "a store that is away says nothing of a worker"
    assert {e.note["reason"] for e in events if e.what == "resting"} == {"503"}
    assert read_all(LocalNotes(tmp_path), "_failed") == {}


def test_a_storage_that_stays_away_fails_the_drive_for_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def become(task: Task, worker: str) -> Ended:
        return Ended("storage", {"reason": "503"}, worker) if task.drive.name == "a" else done(task, worker)

    outcome, _ = run(tmp_path, "ab", Cluster("w"), monkeypatch, become, patience_s=0.02)
    assert drives_of(outcome.done) == ["b"]
    (note,) = read_all(LocalNotes(tmp_path), "_failed").values()
    assert (note["drive"], note["reason"], note["again"]) == ("a", "503", True)


def test_a_task_that_raises_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker does to which this package's classes mean nothing."""
    tried: Counter[str] = Counter()

    def become(task: Task, worker: str) -> Ended:
        tried[task.drive.name] += 1
        if tried[task.drive.name] == 1:
            raise AttributeError("no such class")
        return done(task, worker)

    outcome, _ = run(tmp_path, "ab", Cluster("w"), monkeypatch, become)
    assert drives_of(outcome.done) == ["a", "b"]
    tried.clear()
    outcome, _ = run(tmp_path, "ab", Cluster("w"), monkeypatch, become, patience_s=0.0)
    assert outcome.left == ["a", "b"]
    assert not outcome.quarantined, "nobody knows which worker it was"
    assert read_all(LocalNotes(tmp_path), "_failed") == {}


def test_a_bad_worker_is_quarantined_and_the_others_do_its_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by: list[tuple[str, str]] = []
    began = threading.Barrier(2)

    def become(task: Task, worker: str) -> Ended:
        by.append((worker, task.drive.name))
        if worker == "bad":
            return Ended("unfit", {"reason": "the token has expired"}, worker)
        if len([w for w, _ in by if w == "good"]) == 1:
            began.wait(30)
        return done(task, worker)

    def told(event: Event) -> None:
        if event.what == "quarantined":
            began.wait(30)

    engine = Cluster("bad", "good")
    monkeypatch.setattr(coordinator, "run_task", become)
    output = LocalOutput(tmp_path)
    with engine:
        plan = make_plan([drive(name, uri=f"/{name}") for name in "abcdefgh"], settings(), output.notes)
        outcome = Fleet(plan, settings(), output, engine, on_event=told).convert()
    assert drives_of(outcome.done) == [*"abcdefgh"]
    assert outcome.quarantined == {"bad": "the token has expired"}
    assert len({name for worker, name in by if worker == "bad"}) == 3
    assert read_all(LocalNotes(tmp_path), "_failed") == {}


def test_an_unfit_worker_is_found_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Cluster("old", "good")
    engine.unfit = {"old": "has edgefirst_ros 0.0.1"}
    by = []

    def become(task: Task, worker: str) -> Ended:
        by.append(worker)
        return done(task, worker)

    outcome, events = run(tmp_path, "abcd", engine, monkeypatch, become)
    assert {*by} == {"good"}
    assert outcome.quarantined == {"old": "has edgefirst_ros 0.0.1"}
    assert events[0].what == "quarantined"
    assert len(outcome.done) == 4


def test_what_fails_all_drives_needs_no_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = []

    def become(task: Task, worker: str) -> Ended:
        if worker != "old":
            return done(task, worker)
        bad.append(task.drive.name)
        return Ended("unfit", {"reason": "another version", "all": True}, worker)

    outcome, _ = run(tmp_path, "abcd", Cluster("old", "good"), monkeypatch, become)
    assert len(bad) == 1
    assert len(outcome.done) == 4
    assert [*outcome.quarantined] == ["old"]


@pytest.mark.parametrize("names", ["a", "abcdef"])
def test_without_a_worker_that_can_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    def become(task: Task, worker: str) -> Ended:
        return Ended("unfit", {"reason": "no space left"}, worker)

    outcome, _ = run(tmp_path, names, Cluster("w"), monkeypatch, become)
    assert sorted(outcome.left) == [*names]
    assert outcome.quarantined == {"w": "no space left"}
    assert not outcome.interrupted
    assert read_all(LocalNotes(tmp_path), "_failed") == {}


def test_there_is_one_local_worker() -> None:
    with LocalEngine(3, 1) as engine:
        engine.avoid("this machine")
        assert engine.slots == 0


def test_an_end_says_whether_the_worker_fails_all_drives() -> None:
    assert unfit("a").note == {"reason": "a", "all": False}
    assert len(unfit("a" * 10**6).note["reason"]) < 10**5
