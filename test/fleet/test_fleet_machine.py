"""Each job's share of the machine, by its cores, its memory, and its control group."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefirst_ros.fleet.engines import engine as machine
from edgefirst_ros.model.errors import ConfigError

GB = 10**9


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(machine, "available_memory", lambda: 10 * GB)


@pytest.mark.usefixtures("small")
class TestShares:
    def test_cores_are_divided(self) -> None:
        assert machine.share(4, GB) == machine.Share(4, 2)
        assert machine.share(3, GB).workers == 2
        assert machine.share(10, GB).workers == 1

    def test_given_threads_stay(self) -> None:
        assert machine.share(4, GB, 7) == machine.Share(4, 7)

    def test_jobs_are_as_many_as_memory_allows(self) -> None:
        found = machine.share(8, 3 * GB)
        assert (found.jobs, found.workers) == (3, 2)
        assert "3 jobs instead of 8: each may need 3.0 GB, and 10.0 GB are available" in found.note

    def test_too_little_for_one_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"needs 11\.0 GB of memory, 10\.0 GB are available"):
            machine.share(1, 11 * GB)


def test_unknown_memory_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: None)
    assert machine.share(50, 10**15).jobs == 50


def test_a_control_group_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_GROUP", tmp_path)
    free, cores = machine.available_memory(), machine.cores()
    assert free is not None
    (tmp_path / "memory.max").write_text("300000000\n")
    (tmp_path / "memory.current").write_text("100000000\n")
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert machine.available_memory() == 200_000_000
    assert machine.cores() == 1
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert machine.available_memory() is not None
    assert machine.cores() == cores
