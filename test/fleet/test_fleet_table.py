"""Notes compacted in tables: the notes decide, whoever wrote the tables, and whenever."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fleets import drive, settings
from notes_made import SOUND
from s3server import S3Server

from edgefirst_ros.fleet import table
from edgefirst_ros.fleet.keys import Shard, key_of, settings_hash
from edgefirst_ros.fleet.notes import DONE, FAILED, PLAN, LocalNotes, Notes
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import estimate, failures, fleet_status, make_plan, put_plan
from edgefirst_ros.fleet.report import put_report
from edgefirst_ros.model.errors import ConfigError

DRIVES = [drive(f"d{n}", f"/drives/{n}.mcap", size=1000) for n in range(6)]
KEYS = [key_of(each, settings_hash(settings())) for each in DRIVES]


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "folder" else f"{request.getfixturevalue('bucket')}/sets"


def noted(number: int, **more: object) -> dict[str, object]:
    values = copy.deepcopy(SOUND[DONE])
    return {**values, "drive": f"d{number}", "key": str(KEYS[number]), "core_s": 1800.0, **more}


@pytest.fixture
def done(place: str) -> str:
    """An output with four complete drives, compacted."""
    output = open_output(place)
    for number in range(4):
        output.notes.put(f"{DONE}/{KEYS[number]}", noted(number))
    put_report(output)
    return place


class Reads:
    """Notes that count which are read."""

    def __init__(self, notes: Notes) -> None:
        self._notes, self.read_names = notes, list[str]()

    def read(self, name: str) -> object:
        self.read_names.append(name)
        return self._notes.read(name)

    def __getattr__(self, name: str) -> object:
        return getattr(self._notes, name)


def planned(place: str) -> tuple[set[str], int]:
    """The drives that a plan finds done, and how many notes it reads for that."""
    notes = Reads(open_output(place).notes)
    plan = make_plan(DRIVES, settings(), notes)  # type: ignore[arg-type]
    return {each.drive for each in plan.done}, len(notes.read_names)


def test_no_note_is_read_that_is_in_the_table(done: str) -> None:
    assert planned(done) == ({"d0", "d1", "d2", "d3"}, 0)


def test_a_newer_note_is_read(done: str) -> None:
    output = open_output(done)
    output.notes.put(f"{DONE}/{KEYS[4]}", noted(4))
    output.notes.put(f"{DONE}/{KEYS[0]}", noted(0, drive="other"))
    assert planned(done) == ({"other", "d1", "d2", "d3", "d4"}, 2)
    report, _ = put_report(output)
    assert [each["drive"] for each in report["drives"]] == ["d1", "d2", "d3", "d4", "other"]
    assert planned(done) == ({"other", "d1", "d2", "d3", "d4"}, 0)


def test_a_removed_note_does_not_come_back(done: str) -> None:
    output = open_output(done)
    output.notes.remove(f"{DONE}/{KEYS[0]}")
    assert planned(done) == ({"d1", "d2", "d3"}, 0)
    assert [each["drive"] for each in put_report(output)[0]["drives"]] == ["d1", "d2", "d3"]
    assert planned(done) == ({"d1", "d2", "d3"}, 0)
    assert len(fleet_status(output.notes)["done"]) == 3


def test_runs_that_end_at_once_lose_nothing(place: str) -> None:
    """Whichever of them wrote the tables last."""

    def end(number: int) -> None:
        output = open_output(place)
        output.notes.put(f"{DONE}/{KEYS[number]}", noted(number))
        put_report(output)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(end, range(6)))
    assert planned(place)[0] == {f"d{n}" for n in range(6)}


def test_killed_between_the_tables(done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = open_output(done)
    output.notes.put(f"{DONE}/{KEYS[4]}", noted(4))
    stored = type(output.notes).store

    def killed(self: Notes, file: str, data: bytes) -> None:
        if file == table.WHOLE:
            raise KeyboardInterrupt
        stored(self, file, data)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(output.notes), "store", killed)
        with pytest.raises(KeyboardInterrupt):
            put_report(output)
    assert planned(done)[0] == {f"d{n}" for n in range(5)}


@pytest.mark.parametrize("kind", ["garbage", "cut", "empty", "other"])
def test_a_damaged_table_costs_time_only(tmp_path: Path, kind: str) -> None:
    output = open_output(str(tmp_path))
    for number in range(4):
        output.notes.put(f"{DONE}/{KEYS[number]}", noted(number))
    put_report(output)
    for name, other in ((table.PLANNED, table.WHOLE), (table.WHOLE, table.PLANNED)):
        path, data = tmp_path / name, (tmp_path / name).read_bytes()
        bad = {"garbage": b"PAR1" * 100, "cut": data[: len(data) // 2], "empty": b""}
        path.write_bytes(bad.get(kind) if kind in bad else (tmp_path / other).read_bytes())  # type: ignore[arg-type]
        assert planned(str(tmp_path))[0] == {"d0", "d1", "d2", "d3"}
        assert len(put_report(output)[0]["drives"]) == 4
        path.write_bytes(data)


def test_a_plan_of_a_store_takes_few_requests(s3: S3Server, bucket: str) -> None:
    pytest.importorskip("obstore")
    output = open_output(f"{bucket}/sets")
    for number in range(6):
        output.notes.put(f"{DONE}/{KEYS[number]}", noted(number))
    put_report(output)
    s3.log.clear()
    make_plan(DRIVES, settings(), open_output(f"{bucket}/sets").notes)
    assert len(s3.log.requests) <= 3, [r.path for r in s3.log.requests]


class TestParts:
    def test_each_drive_is_in_one_part(self) -> None:
        for first in (0, 1):
            parts = [Shard.parse(f"{n + first}/3") for n in range(3)]
            assert all(sum(part.has(key) for part in parts) == 1 for key in KEYS)

    @pytest.mark.parametrize("text", ["", "3", "4/3", "1/0", "-1/3", "a/b", "1/2/3"])
    def test_what_is_no_part_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match="expected I/N"):
            Shard.parse(text)

    def test_plans_of_parts_are_one_fleet(self, tmp_path: Path) -> None:
        """Names do not depend on the part, and status knows the drives of all."""
        twins = [drive("same", f"/{n}/same.mcap") for n in range(8)]
        notes, names = LocalNotes(tmp_path), set[str]()
        for n in range(3):
            plan = make_plan(twins, settings(), notes, shard=Shard(n, 3))
            put_plan(plan, ["in"], notes, Shard(n, 3))
            names |= {work.drive.name for work in plan.work}
        assert names == {work.drive.name for work in make_plan(twins, settings(), notes).work}
        assert len(notes.names(PLAN)) == 3
        assert len(fleet_status(notes)["left"]) == 8


class TestLookingAhead:
    @pytest.fixture
    def notes(self, tmp_path: Path) -> Notes:
        notes = LocalNotes(tmp_path)
        for number in range(2):
            notes.put(f"{DONE}/{KEYS[number]}", noted(number))
        return notes

    def test_work_takes_what_complete_drives_took(self, notes: Notes) -> None:
        plan = make_plan(DRIVES, settings(), notes)
        found = estimate(plan)
        assert (found.bytes, found.drives) == (4000, 2)
        assert (found.hours, found.core_hours, found.known_hours) == (4.0, 2.0, 0.0)

    def test_drives_that_are_done_again_are_known(self, notes: Notes) -> None:
        plan = make_plan(DRIVES, settings(rate_hz=2.0), notes)
        found = estimate(plan)
        assert (found.hours, found.known_hours) == (6.0, 2.0)
        assert [work.change for work in plan.work][:3] == ["configuration or version"] * 2 + [""]

    def test_nothing_is_known_without_any(self, tmp_path: Path) -> None:
        found = estimate(make_plan(DRIVES, settings(), LocalNotes(tmp_path / "none")))
        assert (found.bytes, found.hours, found.core_hours) == (6000, None, None)


def test_a_drive_that_failed_under_two_keys_is_one_failure(tmp_path: Path) -> None:
    output = open_output(str(tmp_path))
    changed = key_of(DRIVES[0], settings_hash(settings(rate_hz=2.0)))
    for key, reason, unix_s in ((KEYS[0], "old", 5), (changed, "new", 9)):
        note = {**SOUND[FAILED], "drive": "d0", "key": str(key), "reason": reason, "unix_s": unix_s}
        output.notes.put(f"{FAILED}/{key}", note)
    report, _ = put_report(output)
    assert report["totals"]["failed"] == 1
    assert [each["reason"] for each in report["failed"]] == ["new"]
    assert [each["reason"] for each in fleet_status(output.notes)["failed"]] == ["new"]
    output.notes.put(f"{DONE}/{changed}", noted(0, key=str(changed)))
    assert failures(output.notes, [str(changed)]) == []
    assert put_report(output)[0]["failed"] == []
