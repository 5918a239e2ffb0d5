"""One drive in a worker, and the coordinator's view of workers that die and of drives that others have."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from fleets import drive, make_drives, settings

from edgefirst_ros.fleet import run as coordinator
from edgefirst_ros.fleet.claims import this_process
from edgefirst_ros.fleet.engines.engine import Argument, Engine, Result, WorkerDied
from edgefirst_ros.fleet.keys import FleetDrive, discover, key_of, settings_hash
from edgefirst_ros.fleet.notes import LocalNotes, read_all
from edgefirst_ros.fleet.output import LocalOutput
from edgefirst_ros.fleet.plan import make_plan
from edgefirst_ros.fleet.run import Event, Fleet, FleetOutcome
from edgefirst_ros.fleet.task import Ended, Task, run_task
from edgefirst_ros.model.errors import ExtraNotInstalled

SETTINGS = replace(settings(), version=version("edgefirst_ros"))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (found,), _ = discover([str(make_drives(tmp_path / "drives", count=1))])
    return Task(found, key_of(found, settings_hash(SETTINGS)), SETTINGS, str(tmp_path / "sets"), "run", 1)


@pytest.fixture
def notes(tmp_path: Path) -> LocalNotes:
    return LocalNotes(tmp_path / "sets")


class TestTask:
    def test_it_leaves_datasets_and_a_note(self, task: Task, notes: LocalNotes, tmp_path: Path) -> None:
        ended = run_task(task)
        assert ended.how == "done"
        assert ended.note["report"]["samples"] == 10
        assert ended.note["recorded_s"] == pytest.approx(2, abs=0.2)
        assert read_all(notes, "_done") == {str(task.key): ended.note}
        folder = tmp_path / "sets" / "drive00"
        files = {p.relative_to(folder).as_posix(): p.stat().st_size for p in folder.rglob("*") if p.is_file()}
        assert ended.note["files"] == files
        assert "edgefirst/drive00-dataset/drive00-dataset.zip" in ended.note["files"]
        assert notes.names("_running") == []

    def test_what_is_done_is_not_done_again(self, task: Task) -> None:
        run_task(task)
        assert run_task(task).how == "earlier"
        assert run_task(replace(task, redo=True)).how == "done"

    def test_a_drive_that_others_write_is_left_to_them(self, task: Task, notes: LocalNotes) -> None:
        notes.put("_running/drive00", {"run": "theirs", **this_process()})
        assert run_task(task).how == "busy"
        assert notes.names("_done") == []

    def test_a_drive_that_has_killed_three_workers_is_not_tried_again(
        self, task: Task, notes: LocalNotes
    ) -> None:
        """The engines of clusters repeat tasks by themselves, some of them without end."""
        notes.put("_running/drive00", {"run": "run", "attempts": 2, **this_process()})
        assert run_task(task).how == "done"
        notes.remove(f"_done/{task.key}")
        notes.put("_running/drive00", {"run": "run", "attempts": 3, **this_process()})
        ended = run_task(task)
        assert ended.how == "failed"
        assert ended.note["reason"] == "3 workers died while they converted it"
        assert notes.names("_failed") == [str(task.key)]

    def test_a_worker_of_another_version_says_nothing_of_the_drive(
        self, task: Task, notes: LocalNotes
    ) -> None:
        ended = run_task(replace(task, settings=replace(SETTINGS, version="0.0.1")))
        assert ended.how == "unfit"
        assert ended.note["all"]
        assert "the coordinator has 0.0.1" in ended.note["reason"]
        assert ended.worker == socket.gethostname()
        assert notes.names("_failed") == notes.names("_running") == []

    def test_a_worker_without_an_extra_says_nothing_of_the_drive(
        self, task: Task, notes: LocalNotes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing(*_: object, **__: object) -> None:
            raise ExtraNotInstalled("obstore is not installed")

        monkeypatch.setattr("edgefirst_ros.fleet.task.open_output", missing)
        assert run_task(task).note == {"reason": "obstore is not installed", "all": True}
        monkeypatch.undo()
        monkeypatch.setattr("edgefirst_ros.fleet.task.convert", missing)
        assert run_task(task).note == {"reason": "obstore is not installed", "all": False}
        assert notes.names("_failed") == []

    def test_a_full_disk_is_not_the_fault_of_the_drive(
        self, task: Task, notes: LocalNotes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("edgefirst_ros.fleet.task.convert", full)
        ended = run_task(task)
        assert ended.how == "unfit"
        assert "No space left" in ended.note["reason"]
        assert notes.names("_failed") == []
        monkeypatch.setattr("edgefirst_ros.fleet.task.convert", lambda *_, **__: {}["missing"])
        ended = run_task(task)
        assert not ended.note["again"]
        assert ended.note["reason"] == "KeyError: 'missing'"
        assert "run_task" in ended.note["traceback"]


class Threads(Engine):
    text, workers, slots = "threads", 1, 2

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.is_stopped = False
        self.avoided: list[str] = []

    def avoid(self, worker: str) -> None:
        self.avoided.append(worker)

    def submit(self, function: Callable[[Argument], Result], argument: Argument) -> Future[Result]:
        return self.pool.submit(function, argument)

    def stop(self) -> None:
        self.is_stopped = True

    def shutdown(self) -> None:
        self.pool.shutdown()


class TestCoordinator:
    def convert(
        self,
        folder: Path,
        names: str,
        become: Callable[[Task], Ended],
        monkeypatch: pytest.MonkeyPatch,
        **more: Any,  # noqa: ANN401 - arguments of Fleet
    ) -> tuple[FleetOutcome, list[Event], Threads]:
        monkeypatch.setattr(coordinator, "run_task", become)
        monkeypatch.setattr(coordinator, "LOOK_S", 0.0)
        monkeypatch.setattr(coordinator, "_WAKE_S", 0.01)
        drives: list[FleetDrive] = [drive(name, uri=f"/{name}") for name in names]
        events: list[Event] = []
        output = LocalOutput(folder)
        with Threads() as engine:
            plan = make_plan(drives, SETTINGS, output.notes)
            fleet = Fleet(plan, SETTINGS, output, engine, on_event=events.append, **more)
            return fleet.convert(), events, engine

    def test_a_drive_whose_workers_die_fails_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def become(task: Task) -> Ended:
            if task.drive.name == "b":
                raise WorkerDied("3 workers died")
            return Ended("done", {"drive": task.drive.name})

        outcome, events, _ = self.convert(tmp_path, "abcd", become, monkeypatch)
        assert sorted(str(note["drive"]) for note in outcome.done) == ["a", "c", "d"]
        assert [note["reason"] for note in outcome.failed] == ["3 workers died"]
        assert [note["drive"] for note in read_all(LocalNotes(tmp_path), "_failed").values()] == ["b"]
        assert events[-1].bytes_done == 40

    def test_a_drive_of_another_run_is_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        notes, tried = LocalNotes(tmp_path), []

        def become(task: Task) -> Ended:
            tried.append(task.drive.name)
            if task.drive.name == "a" and tried.count("a") == 1:
                notes.put("_running/a", {"run": "theirs", "machine": "elsewhere"})
                threading.Timer(0.2, notes.remove, ["_running/a"]).start()
                return Ended("busy")
            return Ended("earlier" if task.drive.name == "a" else "done", {})

        outcome, events, _ = self.convert(tmp_path, "ab", become, monkeypatch)
        assert len(outcome.done) == 2
        assert tried.count("a") == 2
        assert [event.what for event in events if event.drive.name == "a"] == ["waiting", "earlier"]

    def test_it_stops_when_asked_and_says_what_is_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stop = threading.Event()

        def become(task: Task) -> Ended:
            stop.set()
            return Ended("done", {"drive": task.drive.name})

        outcome, _, engine = self.convert(tmp_path, "abcdef", become, monkeypatch, stop=stop)
        assert outcome.interrupted
        assert engine.is_stopped
        assert len(outcome.done) + len(outcome.left) == 6
        assert len(outcome.left) >= 4

    def test_it_stops_at_the_first_failure_if_that_is_wanted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def become(task: Task) -> Ended:
            return Ended("failed", {"drive": task.drive.name, "reason": "broken"})

        outcome, _, _ = self.convert(tmp_path, "abcdef", become, monkeypatch, fail_fast=True)
        assert not outcome.interrupted
        assert len(outcome.left) >= 3
        assert len(outcome.failed) <= 2
