"""Several runs on one output: none repeats what another has done, has failed at, or has under way."""

from __future__ import annotations

import json
import re
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fleets import drive, make_drives, run, settings
from notes_made import SOUND

import edgefirst_ros
from edgefirst_ros.fleet import run as running
from edgefirst_ros.fleet.claims import this_process
from edgefirst_ros.fleet.engines.engine import Engine
from edgefirst_ros.fleet.notes import DONE, FAILED, RUNNING
from edgefirst_ros.fleet.output import Output, open_output
from edgefirst_ros.fleet.plan import Plan, make_plan
from edgefirst_ros.fleet.run import Fleet
from edgefirst_ros.fleet.task import Ended, Task, run_task

DRIVES = [drive(f"d{n}", f"/drives/{n}.mcap") for n in range(8)]
SETTINGS = settings()


class Recorded(Engine):
    """Runs nothing; remembers what it was asked for."""

    workers, text, slots = 1, "nobody", 1

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def submit(self, function: Any, argument: Any) -> Future[Any]:  # noqa: ANN401, ARG002
        self.tasks.append(argument)
        future: Future[Any] = Future()
        future.set_result(Ended("done", {**SOUND[DONE], "drive": argument.drive.name}))
        return future

    def avoid(self, worker: str) -> None:
        pass

    def stop(self) -> None:
        pass

    def shutdown(self) -> None:
        pass


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return open_output(str(tmp_path))


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOOK_S", 0.01)
    monkeypatch.setattr(running, "_WAKE_S", 0.01)


def converted(plan: Plan, output: Output, **more: Any) -> tuple[list[str], running.FleetOutcome]:  # noqa: ANN401
    engine = Recorded()
    outcome = Fleet(plan, SETTINGS, output, engine, **more).convert()
    return [task.drive.name for task in engine.tasks], outcome


def note_failure(plan: Plan, output: Output, number: int, **more: object) -> None:
    key = str(plan.work[number].key)
    output.notes.put(f"{FAILED}/{key}", {**SOUND[FAILED], "key": key, "drive": f"d{number}", **more})


def test_runs_begin_at_different_drives_and_go_round(output: Output) -> None:
    plan = make_plan(DRIVES, SETTINGS, output.notes)
    orders = [converted(plan, output)[0] for _ in range(20)]
    assert len({order[0] for order in orders}) > 3
    for order in orders:
        at = order.index("d0")
        assert order[at:] + order[:at] == [f"d{n}" for n in range(8)]
    assert converted(plan, output, fail_fast=True)[0] == [f"d{n}" for n in range(8)]


def test_what_others_did_since_the_plan_starts_nothing(output: Output) -> None:
    plan = make_plan(DRIVES, SETTINGS, output.notes)
    output.notes.put(f"{RUNNING}/elsewhere", {"run": "other", "released": True})
    output.notes.put(f"{DONE}/{plan.work[1].key}", {**SOUND[DONE], "drive": "d1"})
    note_failure(plan, output, 2, again=False, run="other")
    note_failure(plan, output, 3, again=True, run="other")
    order, outcome = converted(plan, output)
    assert set(order) == {"d0", "d3", "d4", "d5", "d6", "d7"}, "the storage was at fault of d3"
    assert [note["drive"] for note in outcome.failed] == ["d2"]
    assert len(outcome.done) == 7


def test_what_others_have_under_way_waits(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(DRIVES[:2], SETTINGS, output.notes)
    output.notes.put(f"{RUNNING}/d1", {"run": "other", "unix_s": 1, **this_process()})
    told: list[str] = []

    def tell(event: running.Event) -> None:
        told.append(f"{event.what} {event.drive.name}")
        if event.what == "waiting":  # it completes it meanwhile
            output.notes.put(f"{DONE}/{plan.work[1].key}", {**SOUND[DONE], "drive": "d1"})
            output.notes.remove(f"{RUNNING}/d1")

    order, outcome = converted(plan, output, on_event=tell)
    assert order == ["d0"]
    assert {"waiting d1", "earlier d1", "done d0"} == set(told)
    assert len(outcome.done) == 2


def test_who_meets_another_run_goes_elsewhere(output: Output) -> None:
    plan = make_plan(DRIVES, SETTINGS, output.notes)
    output.notes.put(f"{RUNNING}/d0", {"run": "other", "unix_s": 1, **this_process()})

    def tell(event: running.Event) -> None:
        if event.what == "waiting":
            output.notes.remove(f"{RUNNING}/d0")

    orders = [converted(plan, output, on_event=tell, fail_fast=True)[0]]
    assert orders[0][0] not in {"d0", "d1"}


class TestFailures:
    def test_another_runs_is_respected_by_the_task_itself(self, output: Output, tmp_path: Path) -> None:
        plan = make_plan(DRIVES, SETTINGS, output.notes)
        note_failure(plan, output, 0, again=False, run="other", reason="broken")
        work = plan.work[0]
        ended = run_task(Task(work.drive, work.key, SETTINGS, str(tmp_path), "mine", 1))
        assert (ended.how, ended.note["reason"]) == ("failed", "broken")

    def test_one_that_is_known_is_tried_again(self, output: Output, tmp_path: Path) -> None:
        for run_of in ({"run": "earlier"}, {}):
            plan = make_plan(DRIVES, SETTINGS, output.notes)
            note_failure(plan, output, 0, again=False, reason="broken", **run_of)
            (work,) = make_plan(DRIVES[:1], SETTINGS, output.notes, retry_failed=True).work
            ended = run_task(
                Task(work.drive, work.key, SETTINGS, str(tmp_path), "mine", 1, failed=work.failed)
            )
            assert ended.how == "failed"
            assert ended.note["reason"] != "broken", "it was tried"
            output.notes.remove(f"{FAILED}/{work.key}")


def test_parts_lists_and_what_machines_are_told(tmp_path: Path) -> None:
    """From a list, in two parts as of an array of jobs; looked at before, with metrics and a log."""
    drives = make_drives(tmp_path / "drives", count=3)
    (drives / "garbage.mcap").write_bytes(b"garbage")
    (tmp_path / "list.txt").write_text("".join(f"{path}\n" for path in sorted(drives.glob("*.mcap"))))
    command = ("convert", "--from", tmp_path / "list.txt", "-o", tmp_path / "sets", "--format", "edgefirst")
    code, out, _ = run(*command, "--jobs", "1", "--dry-run", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["drives"], found["done"], len(found["work"])) == (4, 0, 4)
    assert not (tmp_path / "sets").exists(), "nothing is written"
    told = [("--metrics", tmp_path / f"{n}.prom", "--log", tmp_path / "log.jsonl") for n in range(2)]
    codes = [run(*command, "--shard", f"{number}/2", *told[number])[0] for number in range(2)]
    assert sorted(codes) == [0, 1], "the part with the garbage, and the other one"
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    ends = sorted((each["event"], each["drive"]) for each in lines if "drive" in each)
    assert ends == [*(("done", f"drive{n:02}") for n in range(3)), ("failed", "garbage")]
    assert [each["event"] for each in lines].count("end") == 2
    # Which drives a part has depends on their paths: what is counted is the sum of both.
    samples = 0
    for number in range(2):
        metrics = (tmp_path / f"{number}.prom").read_text()
        assert re.search(r'^edgefirst_ros_fleet_drives\{state="left"\} 0$', metrics, re.M)
        samples += int(re.findall(r"^edgefirst_ros_fleet_samples_total (\d+)$", metrics, re.M)[0])
        assert re.search(r"^edgefirst_ros_fleet_run_ended 1$", metrics, re.M)
        assert all(
            re.fullmatch(r'# (HELP|TYPE) .+|\w+(\{\w+="[^"]*"\})? [\d.]+', e) for e in metrics.splitlines()
        )
    assert samples == len(edgefirst_ros.open(tmp_path / "sets")) > 0
    code, _, err = run(*command, "--jobs", "1", "--dry-run", "--rate", "1")
    assert code == 0
    assert "4 drives, 0 done, 0 failed before: 4 to convert" in err
    assert "again: configuration or version" in err
    assert re.search(r"about 0\.00 hours of driving.* core hours, as 3 complete drives took", err)
