"""What a run has to do, and how far it is: drives that are done, running, failed, left or changed since."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgefirst_ros.fleet.claims import LEASE_S, describe, is_dead
from edgefirst_ros.fleet.keys import FleetDrive, Key, Settings, key_of, settings_hash, unique_names
from edgefirst_ros.fleet.notes import DONE, FAILED, PLAN, RUNNING, Notes, read_all
from edgefirst_ros.model.untrusted import safe_name


@dataclass(frozen=True, slots=True)
class Work:
    """A drive that is to be converted; ``earlier`` are the keys with which it was done or failed before."""

    drive: FleetDrive
    key: Key
    earlier: tuple[str, ...] = ()

    @property
    def change(self) -> str:
        """Why it is converted again, in a few words; empty if it never was."""
        found = [key for text in self.earlier if (key := Key.parse(text)) is not None]
        return self.key.changed(found[-1]) if found else ""


@dataclass(slots=True)
class Plan:
    """The drives of a run by what has to be done; ``done`` and ``failed`` hold their notes."""

    work: list[Work] = field(default_factory=list)
    done: list[tuple[FleetDrive, Mapping[str, Any]]] = field(default_factory=list)
    failed: list[tuple[FleetDrive, Mapping[str, Any]]] = field(default_factory=list)

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
) -> Plan:
    """Compare drives with the notes of an output.

    Args:
        drives: all of the run.
        settings: how they are to be converted.
        notes: of the output.
        retry_failed: drives that failed before are tried again.
        redo: all are converted, done or not.

    Raises:
        ConfigError: the settings are invalid.
        OSError: the storage does not answer.
    """
    done, failed = read_all(notes, DONE), read_all(notes, FAILED)
    names: dict[str, str] = {}
    earlier: dict[str, list[str]] = {}
    for text, values in (*failed.items(), *done.items()):
        if (key := Key.parse(text)) is not None:
            name = str(values.get("drive"))
            if name == safe_name(name):
                names[name] = key.drive
            earlier.setdefault(key.drive, []).append(text)
    for name, values in read_all(notes, RUNNING).items():
        if name == safe_name(name):
            names.setdefault(name, str(values.get("drive")))
    hashed = settings_hash(settings)
    keys = [key_of(drive, hashed) for drive in drives]
    plan = Plan()
    for drive, key, name in zip(drives, keys, unique_names(drives, keys, names), strict=True):
        named, text = replace(drive, name=name), str(key)
        before = failed.get(text)
        if text in done and not redo:
            plan.done.append((named, done[text]))
        elif before is not None and not (retry_failed or redo or before.get("again")):
            plan.failed.append((named, before))
        else:
            plan.work.append(Work(named, key, tuple(earlier.get(key.drive, ()))))
    return plan


def put_plan(plan: Plan, inputs: Sequence[str], notes: Notes) -> None:
    """Put a note on all drives of a run, from which ``status`` knows what is left.

    A later run of the same inputs replaces it.

    Raises:
        OSError: the storage does not answer.
    """
    name = hashlib.sha256("\n".join(inputs).encode(errors="surrogateescape")).hexdigest()[:16]
    drives = {work.drive.name: str(work.key) for work in plan.work}
    drives |= {drive.name: str(values["key"]) for drive, values in (*plan.done, *plan.failed)}
    notes.put(f"{PLAN}/{name}", {"unix_s": round(time.time()), "inputs": list(inputs), "drives": drives})


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
    done, failed, plans, claims = (
        read_all(notes, folder, damaged=damaged) for folder in (DONE, FAILED, PLAN, RUNNING)
    )
    planned: dict[str, str] = {}
    for plan in sorted(plans.values(), key=lambda plan: plan["unix_s"]):
        planned |= plan["drives"]
    running = [
        _running(name, claim)
        for name, claim in claims.items()
        if not claim.get("released") and not (is_dead(claim) and claim.get("key") in done)
    ]
    under_way = {each["drive"] for each in running}
    return {
        "done": sorted(str(note["drive"]) for note in done.values()),
        "running": running,
        "failed": [
            {"drive": note["drive"], "reason": note["reason"]}
            for key, note in sorted(failed.items(), key=lambda item: str(item[1]["drive"]))
            if not _is_outdated(key, done, planned) and note["drive"] not in under_way
        ],
        "left": sorted(
            name
            for name, key in planned.items()
            if key not in done and key not in failed and name not in under_way
        ),
        "damaged": damaged,
    }


def _is_outdated(text: str, done: Mapping[str, Any], planned: Mapping[str, str]) -> bool:
    """Whether the drive of a failure's key has been done since, or is planned with another key."""
    key = Key.parse(text)
    drive = key.drive if key is not None else ""
    newest = {k.drive: t for t in planned.values() if (k := Key.parse(t)) is not None}
    return any(t.startswith(f"{drive}-") for t in done) or newest.get(drive, text) != text


def _running(name: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    silent_s = max(0, round(time.time()) - int(claim.get("unix_s", 0)))
    return {
        "drive": name,
        "by": describe(claim),
        "silent_s": silent_s,
        "abandoned": is_dead(claim) or silent_s > LEASE_S,
    }
