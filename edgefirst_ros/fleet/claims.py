"""Who writes a drive's dataset: a claim with a heartbeat, which others may take over once it stops."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from edgefirst_ros.fleet.keys import Key
from edgefirst_ros.fleet.notes import RUNNING, Note, Notes
from edgefirst_ros.model.errors import OutputBusy
from edgefirst_ros.model.untrusted import displayed

BEAT_S = 20.0
LEASE_S = 90.0
"""A claim that has not changed for this long is abandoned, unless its process is known to be alive."""


_RELEASED = {"run": "", "released": True}


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who asks: one run of a coordinator, for one drive.

    Attributes:
        run: identifies the coordinator's run; a task that is repeated in it may enter its own claim again.
        key: of the drive.
        abandoned: version of a claim that has not changed for LEASE_S, and may be taken over.
    """

    run: str
    key: Key
    abandoned: str = ""


class Claim:
    """The right to write one drive's dataset; a context manager that releases it.

    A thread renews the claim. ``check`` must be called before anything is made visible: it refuses if others
    may have taken the claim over, because this process was suspended or cut off from the storage.

    Args:
        notes: where claims are.
        name: of the drive's output.
        claimant: who asks.

    Attributes:
        attempts: how often a task of this run has begun with this drive, this time included, since one that
            released it.
        resumed: an earlier task for the same drive has left its claim, and perhaps files.

    Raises:
        OutputBusy: another run has it, and is not known to be dead.
        OSError: the storage does not answer.
    """

    def __init__(self, notes: Notes, name: str, claimant: Claimant) -> None:
        self._notes, self._note, self._claimant = notes, f"{RUNNING}/{name}", claimant
        self._beats = 0
        self._finished = False
        self.attempts = 1
        self.resumed = False
        self._renewed_s = time.monotonic()
        self._version = self._acquire()
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="claim", daemon=True)
        self._thread.start()

    def _acquire(self) -> str:
        while True:
            if (version := self._notes.create(self._note, self._values())) is not None:
                return version
            found = self._notes.read(self._note)
            if found is None:  # released meanwhile
                continue
            own = found.values.get("run") == self._claimant.run
            if not own and found.version != self._claimant.abandoned and not is_over(found.values):
                raise OutputBusy(f"{self._note}: {describe(found.values)} is writing it")
            # One that was released ended in an orderly way: only deaths are counted.
            is_again = own and not found.values.get("released")
            self.attempts = int(found.values.get("attempts", 1)) + 1 if is_again else 1
            self.resumed = found.values.get("drive") == self._claimant.key.drive
            if (version := self._notes.replace(self._note, self._values(), found.version)) is not None:
                return version

    def _values(self) -> dict[str, Any]:
        return {
            "run": self._claimant.run,
            "key": str(self._claimant.key),
            "drive": self._claimant.key.drive,
            "attempts": self.attempts,
            "beat": self._beats,
            "unix_s": round(time.time()),
            **this_process(),
        }

    def _keep(self) -> None:
        while not self._ended.wait(BEAT_S):
            self._beats += 1
            asked_s = time.monotonic()
            try:
                version = self._notes.replace(self._note, self._values(), self._version)
            except OSError:
                continue  # ``check`` decides when this has lasted too long
            if version is None:
                self._lost.set()
                return
            self._version, self._renewed_s = version, asked_s

    @property
    def is_lost(self) -> bool:
        """Whether others may have taken it over, or the coordinator has revoked it."""
        return self._lost.is_set() or time.monotonic() - self._renewed_s > LEASE_S - BEAT_S

    def check(self) -> None:
        """Refuse to go on if the claim is lost.

        Raises:
            OutputBusy: it is.
        """
        if self.is_lost:
            raise OutputBusy(f"{self._note}: the claim was taken over or revoked")

    def finish(self) -> None:
        """Note that another note says how it ended: releasing removes the claim."""
        self._finished = True

    def release(self) -> None:
        """Let others have it; may be repeated. A lost claim is left alone.

        One that is not finished stays as a note on whose files there are.
        """
        self._ended.set()
        self._thread.join()
        if not self.is_lost:
            with suppress(OSError):
                if self._finished:
                    self._notes.remove(self._note)
                else:
                    self._notes.replace(self._note, {**self._values(), **_RELEASED}, self._version)
            self._lost.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def revoke(notes: Notes, name: str, run: str) -> None:
    """Release a claim of this run; a task that still holds it stops at its next heartbeat.

    Raises:
        OSError: the storage does not answer.
    """
    found = notes.read(f"{RUNNING}/{name}")
    if found is not None and found.values.get("run") == run:
        notes.replace(f"{RUNNING}/{name}", {**found.values, **_RELEASED}, found.version)


class Watch:
    """Finds out when a claim of another run is released or abandoned; call ``look`` every few seconds."""

    def __init__(self, notes: Notes, name: str) -> None:
        self._notes, self._note = notes, f"{RUNNING}/{name}"
        self._seen: Note | None = None
        self._since_s = 0.0

    def look(self) -> str | None:
        """The version to take over, empty if there is no claim any more; None if it is to be respected.

        Raises:
            OSError: the storage does not answer.
        """
        found, now_s = self._notes.read(self._note), time.monotonic()
        if found is None:
            return ""
        if is_over(found.values):
            return found.version
        if self._seen is None or self._seen.version != found.version:
            self._seen, self._since_s = found, now_s
        return found.version if now_s - self._since_s > LEASE_S else None


def this_process() -> dict[str, Any]:
    """This process in a way that others on the same machine can find out whether it has ended."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "machine": _machine(), "pid": pid, "started": _started(pid)}


def is_over(claim: Mapping[str, Any]) -> bool:
    """Whether a claim may be taken over at once: it was released, or its process has ended."""
    return bool(claim.get("released")) or is_dead(claim)


def is_dead(claim: Mapping[str, Any]) -> bool:
    """Whether the process that made a claim was of this machine, and has ended."""
    if not claim.get("machine") or claim["machine"] != _machine():
        return False
    return _started(int(claim.get("pid", 0))) != claim.get("started")


def describe(claim: Mapping[str, Any]) -> str:
    """Who made a claim, for people."""
    return f"process {claim.get('pid', '?')} on {displayed(claim.get('host', 'an unknown machine'))}"


def _machine() -> str:
    """This boot of this machine and the PID namespace; empty where that cannot be known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - not a path
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty if it has ended."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]
