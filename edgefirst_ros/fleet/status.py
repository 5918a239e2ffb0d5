"""How far a fleet's conversion is: done, running, failed and left, from the notes in its output alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from edgefirst_ros.fleet.claims import LEASE_S, describe, is_dead
from edgefirst_ros.fleet.keys import Key
from edgefirst_ros.fleet.notes import DONE, FAILED, PLAN, RUNNING, Notes, read_all


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
