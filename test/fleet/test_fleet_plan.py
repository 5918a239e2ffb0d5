"""What is to be converted, under which name, and what of it was done before."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from drives import simulate
from fleets import SMALL, make_drives, settings
from notes_made import KEY

from edgefirst_ros.fleet.notes import BEGUN, DONE, FAILED, Key, Notes
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import Drive, Plan, Settings, fleet_status, make_plan
from edgefirst_ros.sources.recording import excerpt_of

PLAIN = settings()


def plan_of(*inputs: Path | str, sets: Path = Path("/nowhere"), how: Settings = PLAIN, **more: bool) -> Plan:
    return make_plan([str(each) for each in inputs], how, open_output(str(sets)), **more)


def only(*inputs: Path, how: Settings = PLAIN) -> Drive:
    (drive,) = plan_of(*inputs, how=how).work
    return drive


def note(sets: Path, kind: str, drive: Drive) -> Notes:
    notes = Notes(open_output(str(sets)))
    notes.put_note(kind, drive.name, drive.key, {"reason": "broken"})
    return notes


class TestNames:
    def test_they_are_places_below_the_input(self, tmp_path: Path) -> None:
        make_drives(tmp_path / "week" / "monday a", count=2)
        assert [each.name for each in plan_of(tmp_path / "week").work] == [
            "monday-a-drive00",
            "monday-a-drive01",
        ]
        assert len(plan_of(tmp_path / "week" / "monday a", tmp_path / "week").work) == 2
        assert only(tmp_path / "week" / "monday a" / "drive01.mcap").name == "drive01"

    def test_a_split_drive_is_one_and_named_by_what_its_files_share(self, tmp_path: Path) -> None:
        made = simulate(tmp_path / "week" / "bag", replace(SMALL, seconds=4, splits=3))
        drive = only(tmp_path / "week")
        assert [Path(place) for place in drive.places] == list(made.files)
        assert drive.size == sum(path.stat().st_size for path in made.files)
        assert drive.name == f"bag-{made.files[0].parent.name}", "the folder's name is not said twice"

    def test_equal_ones_get_their_hash(self, tmp_path: Path) -> None:
        for folder in ("a b", "a-b"):
            make_drives(tmp_path / folder, count=1)
        names = [each.name for each in plan_of(tmp_path).work]
        assert len({*names}) == 2
        assert all(name.startswith("a-b-drive00-") for name in names)

    def test_a_drive_keeps_its_own_and_takes_none_of_another_one(self, tmp_path: Path) -> None:
        drives, sets = make_drives(tmp_path / "drives", count=1), tmp_path / "sets"
        drive = only(drives)
        note(sets, DONE, replace(drive, name="before"))
        assert [each.name for each in plan_of(drives, sets=sets).done] == ["before"]
        note(sets, DONE, replace(drive, key=KEY))
        other = make_drives(tmp_path / "other", count=1)
        assert plan_of(other, sets=sets).work[0].name.startswith("drive00-")


class TestKeys:
    def test_relative_and_absolute_paths_are_one_drive(self, tmp_path: Path, monkeypatch: object) -> None:
        make_drives(tmp_path / "drives", count=1)
        monkeypatch.chdir(tmp_path)  # type: ignore[attr-defined]
        assert only(Path("drives")) == only(tmp_path / "drives")

    def test_what_decides_the_bytes_is_in_them(self, tmp_path: Path) -> None:
        drives = make_drives(tmp_path / "drives", count=1)
        key = only(drives).key
        assert only(drives, how=settings(workers=3)).key == key
        for other in (
            settings(rate_hz=2.0),
            settings(edgefirst={"container": "folder"}),
            replace(PLAIN, version="0.2.0"),
            replace(PLAIN, values={}),
            replace(PLAIN, excerpt=excerpt_of("10", None)),
        ):
            assert only(drives, how=other).key.changed_from(key) == "configuration or version"
        os.utime(drives / "drive00.mcap", ns=(1, 1))
        assert only(drives).key.changed_from(key) == "its files"

    @pytest.mark.parametrize("text", ["", "a-b-c", "x" * 38, f"{KEY}-1", "notes"])
    def test_other_texts_are_none(self, text: str) -> None:
        assert Key.parse(str(KEY)) == KEY
        assert Key.parse(text) is None


class TestWhatIsLeft:
    def test_notes_decide(self, tmp_path: Path) -> None:
        drives, sets = make_drives(tmp_path / "drives", count=4), tmp_path / "sets"
        for kind, drive in zip((DONE, FAILED, BEGUN), plan_of(drives).work, strict=False):
            note(sets, kind, drive)
        plan = plan_of(drives, sets=sets)
        assert [each.name for each in plan.done] == ["drive00"]
        assert [each.name for each in plan.failed] == ["drive01"]
        assert [each.name for each in plan.work] == ["drive02", "drive03"]
        assert len(plan_of(drives, sets=sets, retry_failed=True).work) == 3
        assert len(plan_of(drives, sets=sets, redo=True).work) == 4

    def test_what_has_changed_is_done_and_tried_again(self, tmp_path: Path) -> None:
        drives, sets = make_drives(tmp_path / "drives", count=2), tmp_path / "sets"
        done, failed = plan_of(drives).work
        note(sets, DONE, done)
        note(sets, FAILED, failed)
        work = plan_of(drives, sets=sets, how=settings(rate_hz=1.0)).work
        assert [each.change for each in work] == ["configuration or version"] * 2
        assert [each.earlier for each in work] == [(done.key,), (failed.key,)]

    def test_what_no_note_knows_is_refused(self, tmp_path: Path) -> None:
        drives, sets = make_drives(tmp_path / "drives", count=1), tmp_path / "sets"
        (sets / "drive00").mkdir(parents=True)
        assert len(plan_of(drives, sets=sets).work) == 1, "an empty folder holds nothing"
        (sets / "drive00" / "precious").touch()
        assert [each.name for each in plan_of(drives, sets=sets).refused] == ["drive00"]
        assert len(plan_of(drives, sets=sets, redo=True).work) == 1

    def test_what_is_no_recording_is_counted(self, tmp_path: Path) -> None:
        (make_drives(tmp_path / "drives", count=1) / "drive01.mcap.part").touch()
        assert "1 unfinished (.part)" in plan_of(tmp_path / "drives").notes[0]


def test_the_status_is_by_the_last_plan(tmp_path: Path) -> None:
    drives, sets = make_drives(tmp_path / "drives", count=4), tmp_path / "sets"
    output = open_output(str(sets))
    assert not any(fleet_status(output).values())
    work = plan_of(drives).work
    for kind, drive in zip((DONE, FAILED, BEGUN), work, strict=False):
        notes = note(sets, kind, drive)
    notes.put_plan({drive.name: drive.key for drive in work})
    assert fleet_status(output) == {
        "done": ["drive00"],
        "begun": ["drive02"],
        "failed": [{"drive": "drive01", "reason": "broken"}],
        "left": ["drive03"],
    }
    changed = {drive.name: replace(drive.key, settings="0" * 12) for drive in work}
    notes.put_plan(changed)
    assert fleet_status(output)["done"] == []
