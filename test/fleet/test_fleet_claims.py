"""Claims: one writer for each drive, until it ends or falls silent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fleets import KEY, wait_for

from edgefirst_ros.fleet import claims
from edgefirst_ros.fleet.claims import Claim, Claimant, Watch, is_dead, revoke, this_process
from edgefirst_ros.fleet.keys import Key
from edgefirst_ros.fleet.notes import LocalNotes, Notes
from edgefirst_ros.model.errors import OutputBusy

OURS, THEIRS = Claimant("ours", KEY), Claimant("theirs", KEY)
ELSEWHERE = {"host": "other", "machine": "another boot", "pid": 1, "started": "1"}


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return LocalNotes(tmp_path)


def test_one_of_two_runs_gets_it(notes: Notes) -> None:
    with Claim(notes, "a", OURS) as claim:
        assert not claim.resumed
        with pytest.raises(OutputBusy, match=f"process {os.getpid()}"):
            Claim(notes, "a", THEIRS)
        Claim(notes, "b", THEIRS).release()
        claim.finish()
    assert notes.names("_running") == ["b"], "what is not finished stays, released"
    with Claim(notes, "a", THEIRS) as claim:
        assert claim.attempts == 1
        assert not claim.resumed


def test_an_unfinished_claim_says_whose_files_are_there(notes: Notes) -> None:
    Claim(notes, "a", THEIRS).release()
    assert Watch(notes, "a").look()
    with Claim(notes, "a", OURS) as claim:
        assert claim.resumed
        assert claim.attempts == 1


def test_a_repeated_task_enters_its_own_claim_and_is_counted(notes: Notes) -> None:
    first = Claim(notes, "a", OURS)
    with Claim(notes, "a", OURS) as second:
        assert second.attempts == 2
        assert second.resumed
    first.release()


def test_the_claim_of_a_dead_process_is_taken_over(notes: Notes) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = {**this_process(), "pid": child.pid, "started": claims._started(child.pid)}
    notes.put("_running/a", {"run": "theirs", "drive": KEY.drive, "attempts": 3, **process})
    with pytest.raises(OutputBusy):
        Claim(notes, "a", OURS)
    child.communicate(b"\n")
    with Claim(notes, "a", OURS) as claim:
        assert claim.resumed
        assert claim.attempts == 1, "attempts are those of one run"


def test_what_another_drive_left_is_not_resumed(notes: Notes) -> None:
    notes.put("_running/a", {"run": "theirs", "drive": "other", **this_process(), "started": "0"})
    with Claim(notes, "a", OURS) as claim:
        assert not claim.resumed


def test_a_silent_claim_of_elsewhere_is_taken_over_after_the_lease(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.put("_running/a", {"run": "theirs", "drive": KEY.drive, **ELSEWHERE})
    watch = Watch(notes, "a")
    assert watch.look() is None
    monkeypatch.setattr(claims, "LEASE_S", -1.0)
    version = watch.look()
    assert version
    monkeypatch.undo()
    Claim(notes, "a", Claimant("ours", KEY, version)).release()


def test_a_claim_with_a_heartbeat_is_not_abandoned(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    notes.put("_running/a", {"run": "theirs", "beat": 0, **ELSEWHERE})
    watch = Watch(notes, "a")
    watch.look()
    notes.put("_running/a", {"run": "theirs", "beat": 1, **ELSEWHERE})
    monkeypatch.setattr(claims, "LEASE_S", -1.0)
    found = notes.read("_running/a")
    assert found is not None
    abandoned = watch.look()
    monkeypatch.undo()
    # The lease begins again with the heartbeat; here it is over at once, for the new version.
    assert abandoned == found.version
    with pytest.raises(OutputBusy):
        Claim(notes, "a", Claimant("ours", KEY, "an earlier version"))


def test_a_released_claim_is_free(notes: Notes) -> None:
    notes.put("_running/a", {"run": "theirs", **ELSEWHERE})
    watch = Watch(notes, "a")
    assert watch.look() is None
    notes.remove("_running/a")
    assert watch.look() == ""


def test_the_heartbeat_renews_it(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BEAT_S", 0.01)
    with Claim(notes, "a", OURS) as claim:
        wait_for(lambda: (found := notes.read("_running/a")) is not None and found.values["beat"] > 2)
        claim.check()


def test_a_revoked_claim_is_lost_and_what_follows_is_left_alone(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BEAT_S", 0.01)
    claim = Claim(notes, "a", OURS)
    revoke(notes, "a", "theirs")
    claim.check()
    revoke(notes, "a", "ours")
    notes.create("_running/a", {"run": "theirs"})
    wait_for(lambda: claim.is_lost)
    with pytest.raises(OutputBusy, match="revoked"):
        claim.check()
    claim.release()
    assert notes.names("_running") == ["a"]


def test_a_claim_that_could_not_be_renewed_is_lost_before_others_take_it(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Claim(notes, "a", OURS) as claim:
        later_s = time.monotonic() + claims.LEASE_S - claims.BEAT_S
        monkeypatch.setattr(time, "monotonic", lambda: later_s + 0.1)
        assert claim.is_lost
        monkeypatch.undo()


def test_only_processes_of_this_machine_are_known_to_be_dead() -> None:
    assert not is_dead(this_process())
    assert is_dead({**this_process(), "started": "0"})
    assert not is_dead(ELSEWHERE)
    assert not is_dead({})


def test_keys_of_one_drive_exclude_each_other(notes: Notes) -> None:
    other = Key(KEY.drive, KEY.state, "f" * 16)
    with Claim(notes, "a", OURS), pytest.raises(OutputBusy):
        Claim(notes, "a", Claimant("theirs", other))
