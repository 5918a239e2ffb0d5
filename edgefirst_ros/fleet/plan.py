"""What a run has to do, and how far it is: drives that are done, running, failed, left or changed since."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from edgefirst_ros.fleet.claims import LEASE_S, describe, is_dead
from edgefirst_ros.fleet.keys import FleetDrive, Key, Settings, Shard, key_of, settings_hash, unique_names
from edgefirst_ros.fleet.notes import FAILED, PLAN, RUNNING, Notes, read_all
from edgefirst_ros.fleet.table import Done, read_done
from edgefirst_ros.model.untrusted import safe_name

ANY = "?"
"""A run of an earlier version, whose failures do not name it."""
_MOST_INPUTS = 1000


@dataclass(frozen=True, slots=True)
class Work:
    """A drive that is to be converted.

    Attributes:
        drive: its files, and the name of its output.
        key: what its datasets are to be made from.
        earlier: keys with which it was done or failed before.
        failed: the run that has failed at this key before, empty if none has; another one's later failure
            is respected.
    """

    drive: FleetDrive
    key: Key
    earlier: tuple[str, ...] = ()
    failed: str = ""

    @property
    def change(self) -> str:
        """Why it is converted again, in a few words; empty if it never was."""
        found = [key for text in self.earlier if (key := Key.parse(text)) is not None]
        return self.key.changed(found[-1]) if found else ""


@dataclass(slots=True)
class Plan:
    """The drives of a run by what has to be done; ``done`` and ``failed`` hold what is noted of them.

    ``known`` is what is noted of all complete drives of the output, by key.
    """

    work: list[Work] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    failed: list[tuple[FleetDrive, Mapping[str, Any]]] = field(default_factory=list)
    known: Mapping[str, Done] = field(default_factory=dict)

    @property
    def drives(self) -> int:
        """How many there are."""
        return len(self.work) + len(self.done) + len(self.failed)


def make_plan(
    drives: Sequence[FleetDrive],
    settings: Settings,
    notes: Notes,
    *,
    retry_failed: bool = False,
    redo: bool = False,
    shard: Shard | None = None,
) -> Plan:
    """Compare drives with the notes of an output.

    Args:
        drives: all of the run.
        settings: how they are to be converted.
        notes: of the output.
        retry_failed: drives that failed before are tried again.
        redo: all are converted, done or not.
        shard: only the drives of this part.

    Raises:
        ConfigError: the settings are invalid.
        OSError: the storage does not answer.
    """
    done, failed = read_done(notes), read_all(notes, FAILED)
    hashed = settings_hash(settings)
    plan, left = Plan(known=done), list[tuple[FleetDrive, Key]]()
    for drive in drives:
        key = key_of(drive, hashed)
        found = None if redo else done.get(str(key))
        if shard is not None and not shard.has(key):
            continue
        if found is not None:
            plan.done.append(found)
        else:
            left.append((drive, key))
    before = _Before({key.drive for _, key in left}, done, failed, notes)
    for (drive, key), name in zip(left, unique_names(left, drives, before.names, before.taken), strict=True):
        named, note = replace(drive, name=name), failed.get(str(key))
        if note is not None and not (retry_failed or redo or note.get("again")):
            plan.failed.append((named, note))
        else:
            by = "" if note is None else str(note.get("run", ANY))
            plan.work.append(Work(named, key, tuple(before.keys.get(key.drive, ())), by))
    return plan


class _Before:
    """What notes say of earlier conversions.

    Attributes:
        keys: of each drive that is left, by ``Key.drive``.
        names: that these drives have.
        taken: names that any drive has.
    """

    def __init__(
        self, left: Collection[str], done: Mapping[str, Done], failed: Mapping[str, Any], notes: Notes
    ) -> None:
        self.keys: dict[str, list[str]] = {}
        self.names: dict[str, str] = {}
        self.taken: set[str] = set()
        if not left:
            return
        known = chain(
            ((text, str(note["drive"])) for text, note in failed.items()),
            ((text, each.drive) for text, each in done.items()),
        )
        for text, name in known:
            if Key.parse(text) is None:
                continue
            self.taken.add(name)
            if (drive := text.partition("-")[0]) in left:
                self.keys.setdefault(drive, []).append(text)
                if name == safe_name(name):
                    self.names[drive] = name
        for name, values in read_all(notes, RUNNING).items():
            if name == safe_name(name) and name not in self.taken:
                self.taken.add(name)
                self.names.setdefault(str(values.get("drive")), name)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan's work takes by what complete drives took; hours are None where none is known.

    Attributes:
        bytes: of all drives to be converted.
        hours: of driving in them.
        known_hours: of these, what earlier notes on the same files say.
        core_hours: of processors.
        drives: how many complete ones say so.
    """

    bytes: int
    hours: float | None
    known_hours: float
    core_hours: float | None
    drives: int


def estimate(plan: Plan) -> Estimate:
    """What a plan's work takes if its bytes are like those of what is done, with its settings if any is."""
    work = {work.key.settings for work in plan.work}
    same = [done for text, done in plan.known.items() if text.rpartition("-")[2] in work]
    measured = same or list(plan.known.values())
    size, recorded_s, core_s = (
        sum(getattr(each, name) for each in measured) for name in ("bytes", "recorded_s", "core_s")
    )
    known_s = unknown = 0.0
    total = 0
    for each in plan.work:
        total += each.drive.size
        of_files = f"{each.key.drive}-{each.key.state}-"
        before = [
            plan.known[text] for text in each.earlier if text.startswith(of_files) and text in plan.known
        ]
        known_s += before[-1].recorded_s if before else 0.0
        unknown += 0 if before else each.drive.size
    is_measured = size > 0
    hours = (known_s + unknown * recorded_s / size) / 3600 if is_measured else None
    core_hours = total * core_s / size / 3600 if is_measured else None
    return Estimate(total, hours, known_s / 3600, core_hours, len(measured))


def put_plan(plan: Plan, inputs: Sequence[str], notes: Notes, shard: Shard | None = None) -> None:
    """Put a note on all drives of a run, from which ``info`` knows what is left.

    A later run of the same inputs, and the same part of them, replaces it.

    Raises:
        OSError: the storage does not answer.
    """
    whole = [*inputs, *([] if shard is None else [f"--shard {shard}"])]
    name = hashlib.sha256("\n".join(whole).encode(errors="surrogateescape")).hexdigest()[:16]
    drives = {work.drive.name: str(work.key) for work in plan.work}
    drives |= {done.drive: done.key for done in plan.done}
    drives |= {drive.name: str(values["key"]) for drive, values in plan.failed}
    shown = list(inputs[:_MOST_INPUTS])  # a list may name each of many thousands, which the drives say again
    notes.put(f"{PLAN}/{name}", {"unix_s": round(time.time()), "inputs": shown, "drives": drives})


def fleet_status(notes: Notes) -> dict[str, Any]:
    """What the notes say, as plain values.

    Returns:
        ``done``: names of complete drives; ``running``: drive, by whom, seconds since the last heartbeat by
        this machine's clock, and whether it is abandoned; ``failed``: drive and reason; ``left``: names of
        planned drives that nobody has begun, or that have to be done again; ``damaged``: names of notes that
        cannot be understood.

    Raises:
        OSError: the storage does not answer.
    """
    damaged: list[str] = []
    done = read_done(notes, damaged)
    failed, plans, claims = (read_all(notes, folder, damaged=damaged) for folder in (FAILED, PLAN, RUNNING))
    planned = _planned(plans.values())
    running = [
        _running(name, claim)
        for name, claim in claims.items()
        if not claim.get("released") and not (is_dead(claim) and claim.get("key") in done)
    ]
    under_way = {each["drive"] for each in running}
    return {
        "done": sorted(each.drive for each in done.values()),
        "running": running,
        "failed": [
            {"drive": note["drive"], "reason": note["reason"]}
            for note in current_failures(failed, done, planned)
            if note["drive"] not in under_way
        ],
        "left": sorted(
            name
            for name, key in planned.items()
            if key not in done and key not in failed and name not in under_way
        ),
        "damaged": damaged,
    }


def _planned(plans: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The key of each drive that a run has planned, by its name, as the latest run has it."""
    planned: dict[str, str] = {}
    for plan in sorted(plans, key=lambda plan: int(plan["unix_s"])):
        planned |= plan["drives"]
    return planned


def failures(notes: Notes, done: Iterable[str]) -> list[Mapping[str, Any]]:
    """The notes of drives that have failed, one of each drive; ``done`` are the keys of complete ones.

    Raises:
        OSError: the storage does not answer.
    """
    return current_failures(read_all(notes, FAILED), done, _planned(read_all(notes, PLAN).values()))


def current_failures(
    failed: Mapping[str, Mapping[str, Any]], done: Iterable[str], planned: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """Of each drive the note of its last failure, unless it is done, or planned with another key since."""
    newest = {text.partition("-")[0]: text for text in planned.values()}
    complete = {drive for text in done if newest.get(drive := text.partition("-")[0], text) == text}
    last: dict[str, Mapping[str, Any]] = {}
    for text, note in sorted(failed.items(), key=lambda item: (int(item[1].get("unix_s", 0)), item[0])):
        drive = text.partition("-")[0]
        if drive not in complete and newest.get(drive, text) == text:
            last[drive] = note
    return sorted(last.values(), key=lambda note: str(note["drive"]))


def _running(name: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    silent_s = max(0, round(time.time()) - int(claim.get("unix_s", 0)))
    return {
        "drive": name,
        "by": describe(claim),
        "silent_s": silent_s,
        "abandoned": is_dead(claim) or silent_s > LEASE_S,
    }
