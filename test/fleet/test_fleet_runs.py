"""Many drives into a folder: the same command resumes, whatever was killed, full, broken or interrupted."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from fleets import (
    CUT,
    GARBAGE,
    OPTIONS,
    assert_a_dead_worker_costs_nothing,
    datasets,
    done_in,
    locally,
    make_drives,
    notes_of,
    run,
    settings,
    start,
    wait_for,
)

from edgefirst_ros.fleet import run as running
from edgefirst_ros.fleet import task as tasks
from edgefirst_ros.fleet.engines import WorkerDied
from edgefirst_ros.fleet.notes import BEGUN, DONE, FAILED
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import make_plan
from edgefirst_ros.fleet.run import Event, Outcome, Run
from edgefirst_ros.fleet.task import Ended, Task, run_task

SETTINGS = replace(settings(formats=["edgefirst"]), version=version("edgefirst_ros"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four drives, converted: one in a folder, and one is garbage."""
    root = tmp_path_factory.mktemp("runs")
    drives = make_drives(root / "drives", count=3)
    (drives / "monday").mkdir()
    (drives / "drive02.mcap").rename(drives / "monday" / "drive01.mcap")
    (drives / "garbage.mcap").write_bytes(b"garbage")
    code, _, err = run("convert", drives, "-o", root / "sets", "--jobs", "2", *OPTIONS)
    assert code == 1, err
    return root


class Fleet:
    """A folder of drives and what was made of them, which a test may change."""

    def __init__(self, made: Path) -> None:
        self.drives, self.sets = made / "drives", made / "sets"

    def convert(self, *more: str, options: tuple[str, ...] = OPTIONS) -> tuple[int, str, str]:
        return run("convert", self.drives, "-o", self.sets, *options, "--jobs", "1", *more)

    def times(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.sets.glob("*/*/*/*")}


@pytest.fixture
def own(made: Path) -> Iterator[Fleet]:
    kept = made.with_name(f"{made.name}-kept")
    shutil.copytree(made, kept, copy_function=shutil.copy2)
    yield Fleet(made)
    shutil.rmtree(made)
    kept.rename(made)


class TestTheSameCommandAgain:
    def test_each_drive_is_what_it_is_alone(self, made: Path) -> None:
        found = datasets(made / "sets")
        assert {name.split("/")[0] for name in found} == {"drive00", "drive01", "monday-drive01"}
        assert {n: data for n, data in found.items() if not n.startswith("monday")} == locally(
            made / "drives"
        )

    def test_does_nothing_twice(self, own: Fleet) -> None:
        before = own.times()
        code, _, err = own.convert()
        assert code == 1
        assert "4 drives, 3 done before, 1 failed before: 0 to convert" in err
        assert "failed: garbage: " in err
        assert "--retry-failed tries those again" in err
        assert own.times() == before

    def test_tries_failures_again_when_asked_or_changed(self, own: Fleet) -> None:
        assert "1 to convert" in own.convert("--retry-failed")[2]
        shutil.copy2(own.drives / "drive00.mcap", own.drives / "garbage.mcap")
        code, _, err = own.convert()
        assert code == 0, err
        assert "garbage: 10 samples, nothing lost" in err
        assert "again, since its files changed" in err
        assert notes_of(own.sets).list_keys(FAILED) == {}

    @pytest.mark.long
    def test_leaves_nothing_of_another_configuration(self, own: Fleet) -> None:
        code, _, err = own.convert(options=())
        assert code == 1
        assert err.count("again, since configuration or version changed") == 3
        assert {path.name for path in own.sets.glob("*/*")} >= {"edgefirst"}
        assert not [*own.sets.rglob("l5kit")]
        assert [len(keys) for keys in notes_of(own.sets).list_keys(DONE).values()] == [1, 1, 1]

    def test_touches_nothing_that_no_note_knows(self, own: Fleet) -> None:
        before = datasets(own.sets)
        shutil.rmtree(own.sets / "_done")
        code, _, err = own.convert()
        assert code == 1
        assert "drive00: is there already, and no note says what it is of; --overwrite replaces it" in err
        assert datasets(own.sets) == before

    def test_looks_before_it_begins(self, own: Fleet) -> None:
        code, out, err = own.convert("--dry-run", "--json", "--retry-failed")
        assert code == 0
        assert json.loads(out) == {"drives": 4, "work": [{"drive": "garbage", "bytes": 7, "again": ""}]}
        _, _, err = own.convert("--dry-run", options=())
        assert "drive00: " in err
        assert "again, since configuration or version changed" in err

    def test_says_what_all_hold(self, own: Fleet) -> None:
        report = json.loads((own.sets / "fleet_report.json").read_text())
        assert (report["totals"]["drives"], report["totals"]["failed"]) == (3, 1)
        assert report["totals"]["samples"] == 30
        assert report["failed"][0]["drive"] == "garbage"
        assert ">monday-drive01</a>" in (own.sets / "fleet_report.html").read_text()
        code, out, _ = own.convert("--json")
        assert code == 1
        assert json.loads(out)["report"] == report
        code, out, _ = run("info", own.sets)
        assert (code, out.splitlines()[0]) == (1, "3 done, 0 begun, 1 failed, 0 left")


class TestKills:
    @pytest.mark.long
    def test_a_dead_worker_costs_nothing(self, tmp_path: Path) -> None:
        assert_a_dead_worker_costs_nothing(tmp_path, "--jobs", "2")

    @pytest.mark.long(cases=1)
    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
    def test_the_next_run_does_the_rest(self, tmp_path: Path, how: signal.Signals) -> None:
        drives, sets = make_drives(tmp_path / "drives", count=3), tmp_path / "sets"
        command = ("convert", drives, "-o", sets, "--jobs", "2", *OPTIONS)
        process = start(*command)
        wait_for(lambda: done_in(sets))
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
        if how == signal.SIGINT:
            assert process.returncode == 130, err
            assert "stopping, what is complete stays" in err
            assert "drives are left, run the same command again to resume" in err
        before = Fleet(tmp_path).times()
        done = done_in(sets)
        assert 0 < len(done) < 3
        code, _, err = run(*command)
        assert code == 0, err
        assert f"{len(done)} done before" in err
        assert datasets(sets) == locally(drives)
        assert {p: t for p, t in Fleet(tmp_path).times().items() if p.parts[-4] in done} == {
            p: t for p, t in before.items() if p.parts[-4] in done
        }
        assert not (sets / ".converting").exists()

    def test_a_second_run_is_refused(self, tmp_path: Path) -> None:
        drives, sets = make_drives(tmp_path / "drives", count=1), tmp_path / "sets"
        process = start("convert", drives, "-o", sets, "--jobs", "1", *OPTIONS)
        wait_for(lambda: [*sets.glob("_begun/*")])
        code, _, err = run("convert", drives, "-o", sets, "--jobs", "1", *OPTIONS)
        assert code == 2
        assert f"process {process.pid} on " in err
        assert process.communicate(timeout=120)[1].count(" samples, ") == 1


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (("--jobs", "1", "--name", "a"), "--name is for one dataset"),
        (("--jobs", "1", "--address", "auto"), "--address is for --engine ray"),
        (("--jobs", "1", "--rate", "-1"), "--rate: expected at least 0"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path, more: tuple[str, ...], fault: str) -> None:
    code, _, err = run("convert", make_drives(tmp_path / "drives", 1), "-o", tmp_path / "sets", *more)
    assert (code, fault in err) == (2, True), err


@pytest.mark.long
def test_the_first_failure_may_end_it(tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives")
    for number in range(5):
        (drives / f"drive{number:02}.mcap").unlink()
    code, _, err = run("convert", drives, "-o", tmp_path / "sets", "--fail-fast", *OPTIONS)
    assert code == 1
    assert f"failed: {GARBAGE}" in err
    assert "1 of 2 drives are left" in err
    assert datasets(tmp_path / "sets") == {}


class Threads:
    """An engine in this process, where tests can make tasks what they like."""

    text, workers, slots = "threads", 1, 2

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2)

    def submit(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:  # noqa: ANN401
        return self._pool.submit(function, argument)

    def close(self) -> None:
        self._pool.shutdown()


class TestFaults:
    """Of the storage or the machine, which say nothing of a drive; and those of a drive."""

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(running, "FIRST_PAUSE_S", 0.01)
        monkeypatch.setattr(running, "LONGEST_PAUSE_S", 0.01)
        monkeypatch.setattr(running, "_LOOK_S", 0.01)

    def convert(self, tmp_path: Path, count: int = 3) -> tuple[Outcome, list[Event]]:
        drives = make_drives(tmp_path / "drives", count)
        output = open_output(str(tmp_path / "sets"))
        plan = make_plan([drives], SETTINGS, output)
        events: list[Event] = []
        run = Run(plan, SETTINGS, output, Threads(), False, threading.Event(), events.append)  # type: ignore[arg-type]
        return run.convert(), events

    def test_a_full_disk_is_waited_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        convert, full = tasks.convert, 4

        def filling(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            nonlocal full
            full -= 1
            if full >= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return convert(*arguments, **named)

        monkeypatch.setattr(tasks, "convert", filling)
        outcome, events = self.convert(tmp_path)
        assert outcome == Outcome()
        assert [event.what for event in events].count("later") == 4
        assert "No space left" in events[0].note["reason"]
        assert done_in(tmp_path / "sets") == {"drive00", "drive01", "drive02"}

    def test_one_that_stays_full_ends_the_run_and_blames_no_drive(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(tasks, "convert", full)
        outcome, _ = self.convert(tmp_path)
        assert outcome.failed == {}
        assert outcome.left.keys() == {"drive00", "drive01", "drive02"}
        assert any("No space left" in reason for reason in outcome.left.values())
        assert notes_of(tmp_path / "sets").list_keys(FAILED) == {}
        assert datasets(tmp_path / "sets") == {}

    def test_one_drive_that_cannot_be_had_does_not_hold_the_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = self.noted(tmp_path)

        def away(task: Task) -> Ended:
            if task.drive.name == "drive01":
                return Ended("later", {"reason": "away"})
            return done(task)

        monkeypatch.setattr(running, "run_task", away)
        outcome, _ = self.convert(tmp_path)
        assert outcome.left == {"drive01": "away"}
        assert done_in(tmp_path / "sets") == {"drive00", "drive02"}

    def noted(self, tmp_path: Path) -> Callable[[Task], Ended]:
        def done(task: Task) -> Ended:
            notes_of(tmp_path / "sets").put_note(DONE, task.drive.name, task.drive.key, {})
            return Ended("done", {})

        return done

    def test_a_drive_whose_workers_die_fails_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = self.noted(tmp_path)

        def deadly(task: Task) -> Ended:
            if task.drive.name == "drive01":
                raise WorkerDied("3 workers died")
            return done(task)

        monkeypatch.setattr(running, "run_task", deadly)
        outcome, events = self.convert(tmp_path)
        assert outcome.failed == {"drive01": "3 workers died"}
        assert events[-1].bytes_done == sum(p.stat().st_size for p in (tmp_path / "drives").iterdir())
        notes = notes_of(tmp_path / "sets")
        assert [note["reason"] for note in notes.read_notes(FAILED).values()] == ["3 workers died"]

    def test_a_worker_of_another_version_says_nothing_of_the_drive(self, tmp_path: Path) -> None:
        drives = make_drives(tmp_path / "drives", count=1)
        output = open_output(str(tmp_path / "sets"))
        (drive,) = make_plan([drives], SETTINGS, output).work
        ended = run_task(Task(drive, replace(SETTINGS, version="0.0.1"), output.shown, 1))
        assert ended.how == "later"
        assert "the coordinator has 0.0.1" in ended.note["reason"]

    def test_what_nobody_foresaw_fails_the_drive_and_says_where(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tasks, "convert", lambda *_, **__: {}["missing"])
        outcome, _ = self.convert(tmp_path, count=1)
        assert outcome.failed == {"drive00": "KeyError: 'missing'"}
        (note,) = notes_of(tmp_path / "sets").read_notes(FAILED).values()
        assert "_convert" in note["traceback"]
        assert notes_of(tmp_path / "sets").list_keys(BEGUN) == {}


@pytest.mark.long
def test_what_is_left_to_do_is_said_while_it_runs(tmp_path: Path) -> None:
    drives = make_drives(tmp_path / "drives", count=4)
    begin_s = time.monotonic()
    code, _, err = run("convert", drives, "-o", tmp_path / "sets", "--jobs", "2", "--format", "edgefirst")
    assert code == 0, err
    lines = [line for line in err.splitlines() if " samples, " in line]
    assert len(lines) == 4
    assert [", 25%, " in lines[0], lines[1].endswith("left)"), "100%)" in lines[3]] == [True] * 3
    minutes, seconds = lines[1].rpartition(", ")[2].removesuffix(" left)").split(":")
    assert int(minutes) * 60 + int(seconds) <= time.monotonic() - begin_s
    assert CUT not in err
