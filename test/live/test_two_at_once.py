"""Two processes and one output: one wins, the other says who that is, and nothing is damaged."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from livedrive import FORMATS, drive, output_files
from typer.testing import CliRunner
from zenoh_loopback import Process, await_condition, started

from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.crashsafe.journal import holder
from edgefirst_ros.formats.datasets import find

CONVERT = ("convert", drive(), "--name", "d", "--format", ",".join(FORMATS))


def ran(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    return done.exit_code, words(done.output)


def words(said: str) -> str:
    """What was said, in one line; what is to be done behind a semicolon."""
    return re.sub(r"\s+", " ", said.replace("\nhint: ", "; "))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one conversion writes."""
    output = tmp_path_factory.mktemp("alone")
    assert ran(*CONVERT, "-o", output)[0] == 0
    return output_files(output)


def is_held(output: Path, process: Process) -> bool:
    """Whether a process writes a dataset of every format."""
    if process.popen.poll() is not None:
        raise ChildProcessError(f"ended too early: {process.err}")
    datasets = find(output) if output.exists() and any(output.rglob("*.part")) else []
    held = {each.name for each, path in datasets if any(holder(lock) for lock in each.locks(path))}
    return held == set(FORMATS)


def beside(output: Path, owner: str, endings: str) -> None:
    """All that others may try while a process writes."""
    for command in (CONVERT, (*CONVERT, "--overwrite")):
        code, said = ran(*command, "-o", output)
        assert code == 2
        assert re.search(rf"this dataset is being written; wait until {owner}{endings}", said), said
        assert "edgefirst-ros recover" not in said
    code, said = ran("recover", output)
    assert code == 2
    assert len(re.findall(rf"being written; wait until {owner}", said)) == len(FORMATS), said
    code, said = ran("check", output)
    assert code == 1
    assert len(re.findall(rf"BUSY: \S+ is being written; wait until {owner}", said)) == len(FORMATS), said
    assert "ERROR" not in said
    assert "FAIL" not in said


@pytest.mark.long
def test_a_stopped_process_holds_its_datasets_and_is_named(tmp_path: Path, alone: dict[str, bytes]) -> None:
    output = tmp_path / "out"
    with started(tmp_path / "one", *CONVERT, "-o", output) as one:
        await_condition("datasets", lambda: is_held(output, one))
        one.send(signal.SIGSTOP)
        await_condition("stopped", lambda: "stopped" in holder(output / "edgefirst" / "d" / "d.journal.part"))
        owner = rf"process {one.popen.pid} \([^)]* convert [^)]*\) has ended"
        beside(output, owner, f"; it is stopped: kill -CONT {one.popen.pid} lets it go on")
        one.send(signal.SIGCONT)
        assert one.wait() == 0, one.err
    assert output_files(output) == alone
    assert ran("check", output)[0] == 0


@pytest.mark.long
def test_of_two_that_overwrite_one_wins(tmp_path: Path, alone: dict[str, bytes]) -> None:
    output = tmp_path / "out"
    assert ran(*CONVERT, "-o", output)[0] == 0
    command = (*CONVERT, "-o", output, "--overwrite")
    with started(tmp_path / "1", *command) as one, started(tmp_path / "2", *command) as two:
        codes = {one.wait(): words(one.err), two.wait(): words(two.err)}
    assert 0 in codes, codes
    assert codes.keys() <= {0, 2}, codes
    if 2 in codes:
        assert re.search(r"is being written; wait until|exists|is there already|unfinished", codes[2]), codes[
            2
        ]
    assert output_files(output) == alone
    assert ran("check", output)[0] == 0
