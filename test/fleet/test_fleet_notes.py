"""Notes: whole, conditional, and the same in folders and object stores."""

from __future__ import annotations

import copy
import json
import os
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fleets import KEY, drive, settings
from notes_made import SOUND
from s3server import Disturbance, S3Server

from edgefirst_ros.cli.fleet import print_fleet
from edgefirst_ros.cli.terminal import make_console
from edgefirst_ros.fleet.claims import Claim, Claimant, Watch
from edgefirst_ros.fleet.notes import DONE, FAILED, PLAN, RUNNING, LocalNotes, Notes, read_all
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import fleet_status, make_plan, put_plan
from edgefirst_ros.fleet.report import put_report
from edgefirst_ros.model.errors import OutputBusy, WriteError
from edgefirst_ros.model.untrusted import safe_name

SHAPES = int(os.environ.get("NOTES", "60"))
"""Other shapes of each kind of note that are tried; there are some hundred."""


@pytest.fixture(params=["folder", "store"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Notes:
    if request.param == "folder":
        return LocalNotes(tmp_path / "sets")
    return open_output(f"{request.getfixturevalue('bucket')}/sets").notes


@pytest.mark.long
def test_there_are_none_at_first(notes: Notes) -> None:
    assert notes.names("_running") == []
    assert notes.read("_running/a") is None
    notes.remove("_running/a")


def test_only_the_first_creates(notes: Notes) -> None:
    version = notes.create("_running/a", {"by": 1})
    assert version
    assert notes.create("_running/a", {"by": 2}) is None
    found = notes.read("_running/a")
    assert found is not None
    assert (dict(found.values), found.version) == ({"by": 1}, version)


def test_of_many_one_creates(notes: Notes) -> None:
    barrier, made = threading.Barrier(8), []

    def create(number: int) -> None:
        barrier.wait()
        if notes.create("_running/a", {"by": number}) is not None:
            made.append(number)

    threads = [threading.Thread(target=create, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = notes.read("_running/a")
    assert found is not None
    assert made == [found.values["by"]]


def test_only_the_known_version_is_replaced(notes: Notes) -> None:
    first = notes.create("_running/a", {"beat": 0})
    assert first
    second = notes.replace("_running/a", {"beat": 1}, first)
    assert second
    assert second != first
    assert notes.replace("_running/a", {"beat": 9}, first) is None
    assert notes.replace("_running/b", {"beat": 9}, first) is None
    assert read_all(notes, "_running") == {"a": {"beat": 1}}


def test_notes_are_put_listed_and_removed(notes: Notes) -> None:
    for name in ("b", "a"):
        notes.put(f"_running/{name}", {"host": name})
        notes.put(f"_running/{name}", {"host": name * 2})
    notes.put("_plan/c", {})
    assert notes.names("_running") == ["a", "b"]
    assert read_all(notes, "_running") == {"a": {"host": "aa"}, "b": {"host": "bb"}}
    notes.remove("_running/a")
    assert notes.names("_running") == ["b"]


class TestOtherShapes:
    """Whoever may write to the output may write notes."""

    ODD: ClassVar[list[Any]] = [
        None, True, -1, 0, 1.5, 1e-300, 1e308, 10**400, "x", "\ud800\x1b[2J", "x" * 100_000, [], [1], {},
        {"a": 1},
    ]  # fmt: skip

    def put(self, folder: Path, kind: str, data: bytes | str) -> None:
        """A note of KIND."""
        path = folder / kind / f"{KEY if kind in {DONE, FAILED} else 'name'}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)

    @classmethod
    def changed(cls, value: Any, odd: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
        """The value with another one in each place."""
        yield odd
        pairs = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, part in pairs:
            for other in cls.changed(part, odd):
                new = copy.copy(value)
                new[key] = other
                yield new
        if isinstance(value, dict):
            for key in value:
                yield {name: part for name, part in value.items() if name != key}

    def everything(self, folder: Path) -> list[str]:
        """Whatever reads notes; the names of those that are damaged."""
        output = open_output(str(folder))
        found = fleet_status(output.notes)
        json.dumps(found)
        report, places = put_report(output)
        json.loads(Path(places[0]).read_bytes(), parse_constant=pytest.fail)
        Path(places[1]).read_bytes().decode()
        print_fleet(make_console(stderr=False), report)
        plan = make_plan([drive("a")], settings(), output.notes)
        put_plan(plan, ["x"], output.notes)
        assert all(safe_name(work.drive.name) == work.drive.name for work in plan.work)
        with suppress(OutputBusy), Claim(output.notes, "name", Claimant("other", KEY)):
            pass
        Watch(output.notes, "name").look()
        return list(found["damaged"])

    @pytest.mark.parametrize("kind", [DONE, FAILED, RUNNING, PLAN])
    def test_they_are_damaged_or_harmless(self, tmp_path: Path, kind: str) -> None:
        several = [v for odd in self.ODD for v in self.changed(SOUND[kind], odd)]
        damaged = 0
        for number, values in enumerate(
            random.Random(7).sample(several, min(len(several), int(os.environ.get("NOTES", "60"))))
        ):
            self.put(tmp_path / str(number), kind, json.dumps(values))
            damaged += bool(self.everything(tmp_path / str(number)))
        assert damaged > 10

    @pytest.mark.parametrize("kind", [DONE, FAILED, RUNNING, PLAN])
    def test_sound_ones_are_not_damaged(self, tmp_path: Path, kind: str) -> None:
        self.put(tmp_path, kind, json.dumps(SOUND[kind]))
        assert self.everything(tmp_path) == []

    @pytest.mark.parametrize(
        "data", [b"", b'{"drive": ', b"[]", b"[" * 100_000, b"\0" * 100, b"\xff\xfe", b"NaN", b"9" * 5000]
    )
    def test_what_is_no_json_is_damaged(self, tmp_path: Path, data: bytes) -> None:
        for kind in (DONE, FAILED, RUNNING, PLAN):
            self.put(tmp_path, kind, data)
        assert len(self.everything(tmp_path)) == 4

    @pytest.mark.parametrize("odd", ["fifo", "folder", "zero", "loop", "link"])
    def test_what_is_no_file_is_damaged(self, tmp_path: Path, odd: str) -> None:
        (tmp_path / "elsewhere").write_text(json.dumps(SOUND[DONE]))
        path = tmp_path / "sets" / DONE / f"{KEY}.json"
        path.parent.mkdir(parents=True)
        targets = {"zero": "/dev/zero", "loop": path.name, "link": "../../elsewhere"}
        if odd == "fifo":
            os.mkfifo(path)
        elif odd == "folder":
            path.mkdir()
        else:
            path.symlink_to(targets[odd])
        assert self.everything(tmp_path / "sets") == [f"{DONE}/{KEY}.json"]

    def test_of_a_large_one_no_more_is_taken_than_a_note_has(
        self, notes: Notes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        notes.put("_running/a", {"run": "x" * 2000})
        assert read_all(notes, RUNNING)
        for module in ("notes", "output"):
            monkeypatch.setattr(f"edgefirst_ros.fleet.{module}.MOST_NOTE_BYTES", 1000)
        found: list[str] = []
        assert read_all(notes, RUNNING, damaged=found) == {}
        assert found == ["_running/a.json"]

    def test_a_damaged_claim_is_of_nobody_known_until_it_is_abandoned(self, tmp_path: Path) -> None:
        notes = LocalNotes(tmp_path)
        self.put(tmp_path, RUNNING, b"[" * 100)
        with pytest.raises(OutputBusy, match="an unknown machine"):
            Claim(notes, "name", Claimant("mine", KEY))
        found = notes.read("_running/name")
        assert found is not None
        with Claim(notes, "name", Claimant("mine", KEY, abandoned=found.version)) as claim:
            claim.check()

    def test_none_is_written_or_read_through_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "sets").mkdir()
        (tmp_path / "sets" / RUNNING).symlink_to("../elsewhere")
        notes = LocalNotes(tmp_path / "sets")
        for write in (notes.create, notes.put):
            with pytest.raises(WriteError, match="is a symbolic link"):
                write("_running/a", {})
        with pytest.raises(WriteError, match="is a symbolic link"):
            notes.names(RUNNING)
        assert [*(tmp_path / "elsewhere").iterdir()] == []
        (tmp_path / "link").symlink_to("sets")
        LocalNotes(tmp_path / "link").put("_plan/a", {})


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    notes = LocalNotes(tmp_path)
    for _ in range(2):
        notes.create("_running/a", {})
    assert [p.name for p in (tmp_path / "_running").iterdir()] == ["a.json"]


def test_a_repeated_request_is_no_other_writer(bucket: str, s3: S3Server) -> None:
    """The answer to the first request is lost; the client's second one finds what the first one wrote."""
    notes = open_output(f"{bucket}/sets").notes
    times = iter(["cut"])

    def cut_once(method: str, *_: str) -> Disturbance:
        return next(times, None) if method == "PUT" else None  # type: ignore[return-value]

    s3.log.disturb = cut_once
    assert notes.create("_running/a", {"by": 1})
    assert read_all(notes, "_running") == {"a": {"by": 1}}
