"""Notes are whole, the same in folders and buckets, and harmless whatever they say."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleets import notes_of, run
from notes_made import KEY
from notes_made import SOUND as KINDS

from edgefirst_ros.fleet.notes import DONE, FAILED, Notes, encoded
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.page import fleet_report, page_of, put_report

SOUND = KINDS[DONE]
MARKUP = "<script>alert(1)</script>"


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        str(tmp_path / "sets") if request.param == "folder" else f"{request.getfixturevalue('bucket')}/sets"
    )


def test_they_are_put_listed_read_and_removed(place: str) -> None:
    notes, other = notes_of(place), KEY.__class__(*("0" * 12,) * 3)
    assert notes.list_keys(DONE) == notes.read_notes(DONE) == {}
    for name in ("b", "a.b"):
        notes.put_note(DONE, name, KEY, {**SOUND, "samples": 1})
        notes.put_note(DONE, name, KEY, {**SOUND, "samples": 2})
    notes.put_note(DONE, "b", other, SOUND)
    found = notes.list_keys(DONE)
    assert {name: {*keys} for name, keys in found.items()} == {"a.b": {KEY}, "b": {KEY, other}}
    notes.remove_notes(DONE, "b", [other, KEY, KEY])
    assert notes.read_notes(DONE) == {"a.b": {**SOUND, "drive": "a.b", "samples": 2}}
    notes.put_plan({"a.b": KEY})
    assert notes.read_plan() == {"a.b": str(KEY)}


def changed(value: Any, odd: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    """The value with another one in each place, and without each."""
    yield odd
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        for other in changed(part, odd):
            new = copy.copy(value)
            new[key] = other
            yield new
    if isinstance(value, dict):
        for key in value:
            yield {name: part for name, part in value.items() if name != key}


def test_whatever_they_say_they_are_damaged_or_harmless(tmp_path: Path) -> None:
    odd_ones = [None, True, -1, 1e-300, 1e308, 10**400, MARKUP, "\ud800\x1b[2J", "x" * 100_000, [], [1], {}]
    several = [value for odd in odd_ones for value in changed(dict(SOUND), odd)]
    path = tmp_path / DONE / f"a.{KEY}.json"
    path.parent.mkdir()
    sound = 0
    for values in random.Random(7).sample(several, int(os.environ.get("NOTES", "120"))):
        path.write_bytes(json.dumps(values).encode())
        report = fleet_report(notes_of(tmp_path).read_notes(DONE).values(), [])
        sound += len(report["drives"])
        json.loads(json.dumps(report), parse_constant=pytest.fail)
        page_of(report).encode()
        assert MARKUP not in page_of(report)
    assert 0 < sound < 120


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "garbage"])
def test_what_is_no_note_says_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / FAILED / f"a.{KEY}.json"
    path.parent.mkdir()
    (tmp_path / FAILED / "notes.json").write_text("{}")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(encoded({"drive": "a", "reason": "no"}))
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_bytes(b"{")
    if kind == "link":
        with pytest.raises(OSError, match="symbolic link"):
            notes_of(tmp_path).read_notes(FAILED)
    else:
        assert notes_of(tmp_path).read_notes(FAILED) == {}
        assert run("info", tmp_path)[0] == 0


def test_the_page_names_drives_and_leads_to_theirs_alone(tmp_path: Path) -> None:
    output = open_output(str(tmp_path / "sets"))
    notes = Notes(output)
    notes.put_note(DONE, "a", KEY, SOUND)
    notes.put_note(DONE, "b", KEY, {**SOUND, "page": "javascript:/../../../x", "lost": {MARKUP: 1}})
    notes.put_note(FAILED, "c", KEY, {"reason": MARKUP})
    warnings: list[str] = []
    report, places = put_report(output, warnings.append)
    assert report["totals"]["samples"] == 20
    assert report["totals"]["lost"] == {"refused": 1, MARKUP: 1}
    page = (tmp_path / "sets" / "fleet_report.html").read_text()
    assert 'href="./a/edgefirst/a/capture_report.html"' in page
    assert 'href="./b/javascript%3A/x"' in page
    assert "<script" not in page
    assert json.loads((tmp_path / "sets" / "fleet_report.json").read_text()) == report
    assert [Path(place).name for place in places] == ["fleet_report.json", "fleet_report.html"]
    assert warnings == [], "there is no dataset for a catalogue"
