"""Keys: what has to be converted again, and under which name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fleets import drive, settings

from edgefirst_ros.fleet.keys import Key, key_of, settings_hash, unique_names
from edgefirst_ros.sources.recording import excerpt_of

PLAIN = settings_hash(settings())
BASE = key_of(drive("a"), PLAIN)


def test_the_same_is_the_same() -> None:
    assert key_of(drive("another name"), settings_hash(settings(workers=3))) == BASE
    assert Key.parse(str(BASE)) == BASE


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (drive("a", size=11), "its files"),
        (drive("a", tag="2"), "its files"),
    ],
)
def test_a_changed_file_changes_the_state(changed: object, what: str) -> None:
    key = key_of(changed, PLAIN)
    assert (key.drive, key.settings) == (BASE.drive, BASE.settings)
    assert key.changed(BASE) == what


def test_another_file_is_another_drive() -> None:
    assert key_of(drive("a", uri="/drives/b.mcap"), PLAIN).drive != BASE.drive


@pytest.mark.parametrize(
    "other",
    [
        settings(rate_hz=2.0),
        settings(complete=True),
        replace(settings(), version="0.2.0"),
        replace(settings(), values={}),
        replace(settings(), excerpt=excerpt_of("10", None)),
        settings(edgefirst={"container": "folder"}),
    ],
)
def test_what_decides_the_bytes_is_in_the_settings(other: object) -> None:
    key = key_of(drive("a"), settings_hash(other))
    assert key.changed(BASE) == "configuration or version"


def test_both_may_change() -> None:
    key = key_of(drive("a", size=1), settings_hash(settings(rate_hz=2.0)))
    assert key.changed(BASE) == "its files and configuration or version"


@pytest.mark.parametrize("text", ["", "a-b-c", "x" * 48, f"{BASE}-1", "notes"])
def test_other_texts_are_no_keys(text: str) -> None:
    assert Key.parse(text) is None


class TestNames:
    def named(self, *drives: tuple[str, str], known: dict[str, str] | None = None) -> list[str]:
        all_drives = [drive(name, uri) for name, uri in drives]
        keys = [key_of(each, PLAIN) for each in all_drives]
        pairs = list(zip(all_drives, keys, strict=True))
        has = {drive: name for name, drive in (known or {}).items()}
        return list(unique_names(pairs, all_drives, has, known or {}))

    def test_paths_become_one_name(self) -> None:
        assert self.named(("monday/a b", "1")) == ["monday-a-b"]

    def test_equal_names_get_their_key(self) -> None:
        first, second, third = self.named(("a/b", "1"), ("a-b", "2"), ("c", "3"))
        assert first != second
        assert first.startswith("a-b-")
        assert second.startswith("a-b-")
        assert third == "c"

    def test_a_name_of_another_drive_is_not_taken(self) -> None:
        (name,) = self.named(("a", "1"), known={"a": "another drive"})
        assert name.startswith("a-")

    def test_a_drive_keeps_its_name(self) -> None:
        own = key_of(drive("a", "1"), PLAIN).drive
        assert self.named(("a", "1"), known={"old": own}) == ["old"]
