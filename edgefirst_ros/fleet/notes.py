"""Notes in the output that say which drives are done, which have failed, and which were begun.

A note is a small JSON file, ``_done/NAME.KEY.json``. Its name alone says what a plan needs, so that planning
50,000 drives takes a listing and reads no note. Whoever may write to the output may write notes: what is read
of them is checked here, and a note that is damaged says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from edgefirst_ros.fleet.output import Output
from edgefirst_ros.model.untrusted import parse_json, safe_name

DONE, FAILED, BEGUN = "_done", "_failed", "_begun"
"""Folders of the output: the datasets are complete; why they are not; a task has begun, or was killed."""
PLAN = "_plan"
"""All drives of the last run."""
SUFFIX = ".json"
_READERS = 16
_DIGITS = 12
_LONGEST_TEXT = 1 << 14
_SHAPES: Mapping[str, Mapping[str, type]] = {
    DONE: {
        "drive": str, "dataset": str, "grade": str, "page": str, "samples": int, "bytes_read": int,
        "bytes_written": int, "recorded_s": float, "seconds": float, "core_s": float, "lost": dict,
        "warnings": list, "faults": int,
    },
    FAILED: {"drive": str, "reason": str},
    PLAN: {},
}  # fmt: skip
"""What is read of the notes of each kind; they may say more."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a dataset is made from: hashes of its files' places and states, and of the settings."""

    drive: str
    state: str
    settings: str

    def __str__(self) -> str:
        return f"{self.drive}-{self.state}-{self.settings}"

    @classmethod
    def parse(cls, text: str) -> Key | None:
        """The key that ``str`` made this text of; None if it is none."""
        parts = text.split("-")
        return cls(*parts) if [len(part) for part in parts] == [_DIGITS] * 3 else None

    def changed_from(self, earlier: Key) -> str:
        """What differs from an earlier key of the same drive, in a few words."""
        found = ["its files"] if self.state != earlier.state else []
        found += ["configuration or version"] if self.settings != earlier.settings else []
        return " and ".join(found)


class Notes:
    """The notes of an output; all methods raise OSError if its storage does not answer."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def list_keys(self, kind: str) -> dict[str, list[Key]]:
        """The keys of the notes of a kind, by name of the drive."""
        found: dict[str, list[Key]] = {}
        for file in self._output.list_files(kind):
            name, _, text = file.removesuffix(SUFFIX).rpartition(".")
            if file.endswith(SUFFIX) and name == safe_name(name) and (key := Key.parse(text)) is not None:
                found.setdefault(name, []).append(key)
        return found

    def read_notes(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """What the notes of a kind say, by name of the drive; damaged ones are left out."""
        named = [(name, key) for name, keys in self.list_keys(kind).items() for key in keys]
        with ThreadPoolExecutor(_READERS) as pool:
            texts = pool.map(lambda each: self._output.read_file(_path(kind, *each)), named)
            values = [(name, _decoded(kind, text)) for (name, _), text in zip(named, texts, strict=True)]
        return {name: note for name, note in values if note and note["drive"] == name}

    def put_note(self, kind: str, name: str, key: Key, values: Mapping[str, Any]) -> None:
        """Write a note; the storage holds it when this returns."""
        self._output.put_file(_path(kind, name, key), encoded({**values, "drive": name}))

    def remove_notes(self, kind: str, name: str, keys: Iterable[Key]) -> None:
        """Remove notes, as far as they exist."""
        self._output.remove_files([_path(kind, name, key) for key in keys])

    def read_plan(self) -> Mapping[str, str]:
        """The key of each drive of the last run, by its name."""
        plan = _decoded(PLAN, self._output.read_file(PLAN + SUFFIX))
        drives = plan.get("drives")
        return {name: str(key) for name, key in drives.items()} if isinstance(drives, dict) else {}

    def put_plan(self, drives: Mapping[str, Key]) -> None:
        """Write the drives of a run."""
        self._output.put_file(
            PLAN + SUFFIX, encoded({"drives": {name: str(key) for name, key in drives.items()}})
        )


def encoded(values: Mapping[str, Any]) -> bytes:
    """The bytes of a note."""
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode()


def _path(kind: str, name: str, key: Key) -> str:
    return f"{kind}/{name}.{key}{SUFFIX}"


def _decoded(kind: str, data: bytes | None) -> Mapping[str, Any]:
    """What a note says; nothing if it is not there, damaged, or has not the shape of its kind."""
    try:
        values = parse_json(data or b"")
    except ValueError:
        return {}
    is_sound = isinstance(values, dict) and all(
        _fits(values.get(name), shape) for name, shape in _SHAPES[kind].items()
    )
    return values if is_sound else {}


def _fits(value: object, shape: type) -> bool:
    """Whether a value is of a type: numbers are counts or lengths, and lists and mappings are of such."""
    if shape in {int, float}:
        return isinstance(value, int | shape) and not isinstance(value, bool) and 0 <= value < 2**60
    if isinstance(value, str):
        return shape is str and len(value) <= _LONGEST_TEXT
    if isinstance(value, dict):
        return shape is dict and all(_fits(each, int) for each in value.values())
    return isinstance(value, list) and shape is list and all(_fits(each, str) for each in value)
