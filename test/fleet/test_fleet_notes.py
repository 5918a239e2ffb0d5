"""Notes: whole, conditional, and the same in folders and object stores."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from s3server import Disturbance, S3Server

from edgefirst_ros.fleet.notes import LocalNotes, Notes, read_all
from edgefirst_ros.fleet.output import open_output


@pytest.fixture(params=["folder", "store"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Notes:
    if request.param == "folder":
        return LocalNotes(tmp_path / "sets")
    return open_output(f"{request.getfixturevalue('bucket')}/sets").notes


def test_there_are_none_at_first(notes: Notes) -> None:
    assert notes.names("_done") == []
    assert notes.read("_done/a") is None
    notes.remove("_done/a")


def test_only_the_first_creates(notes: Notes) -> None:
    version = notes.create("_done/a", {"by": 1})
    assert version
    assert notes.create("_done/a", {"by": 2}) is None
    found = notes.read("_done/a")
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
        notes.put(f"_failed/{name}", {"reason": name})
        notes.put(f"_failed/{name}", {"reason": name * 2})
    notes.put("_done/c", {})
    assert notes.names("_failed") == ["a", "b"]
    assert read_all(notes, "_failed") == {"a": {"reason": "aa"}, "b": {"reason": "bb"}}
    notes.remove("_failed/a")
    assert notes.names("_failed") == ["b"]


def test_a_damaged_note_is_none(tmp_path: Path) -> None:
    (tmp_path / "_done").mkdir()
    (tmp_path / "_done" / "a.json").write_text('{"drive": ')
    (tmp_path / "_done" / "b.json").write_text("[]")
    notes = LocalNotes(tmp_path)
    assert read_all(notes, "_done") == {}
    assert notes.names("_done") == ["a", "b"]


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    notes = LocalNotes(tmp_path)
    for _ in range(2):
        notes.create("_done/a", {})
    assert [p.name for p in (tmp_path / "_done").iterdir()] == ["a.json"]


def test_a_repeated_request_is_no_other_writer(bucket: str, s3: S3Server) -> None:
    """The answer to the first request is lost; the client's second one finds what the first one wrote."""
    notes = open_output(f"{bucket}/sets").notes
    times = iter(["cut"])

    def cut_once(method: str, *_: str) -> Disturbance:
        return next(times, None) if method == "PUT" else None  # type: ignore[return-value]

    s3.log.disturb = cut_once
    assert notes.create("_done/a", {"by": 1})
    assert read_all(notes, "_done") == {"a": {"by": 1}}
