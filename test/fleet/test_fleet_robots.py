"""Many drives whose names are no device's: each gets its own suggestion, as alone."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import yaml
from fleets import datasets, run
from recorded import record
from robots import ROBOTS

from edgefirst_ros.config.files import load_values
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import Settings, make_plan
from edgefirst_ros.fleet.task import Task, run_task

NAMES = ("autoware", "drone")
OPTIONS = ("--format", "edgefirst")


def drives(folder: Path) -> Path:
    """On two days: what several recorders keep at one time, each its own topics, is one drive."""
    folder.mkdir()
    for day, name in enumerate(NAMES):
        late_ns = day * 86_400 * 10**9
        content = ROBOTS[name]().content
        moved = [
            m._replace(receive_ns=m.receive_ns + late_ns, publish_ns=m.publish_ns + late_ns) for m in content
        ]
        record(folder / f"{name}.mcap", moved)
    return folder


def test_each_drive_gets_its_suggestion_and_becomes_what_it_does_alone(tmp_path: Path) -> None:
    folder = drives(tmp_path / "drives")
    code, _, said = run("convert", folder, "-o", tmp_path / "fleet", *OPTIONS, "--jobs", "2")
    assert code == 0, said
    for name in NAMES:
        alone = tmp_path / "alone" / name
        assert run("convert", folder / f"{name}.mcap", "-o", alone, *OPTIONS)[0] == 0
        (line,) = (each for each in said.splitlines() if each.startswith(f"{name}: "))
        assert ", no --config, and topics are not named as a Maivin's" in line
        kept = yaml.safe_load((tmp_path / "fleet" / name / f"{name}.yaml").read_text())
        assert kept == yaml.safe_load((alone / f"{name}.yaml").read_text())
    assert datasets(tmp_path / "fleet") == datasets(tmp_path / "alone")


def test_none_refuses_suggestions(tmp_path: Path) -> None:
    place = record(tmp_path / "drone.mcap", ROBOTS["drone"]().content)
    given = {"formats": ["edgefirst"]}
    settings = Settings(load_values(Path("none")), given, version("edgefirst_ros"), page=False)
    out = tmp_path / "fleet"
    (found,) = make_plan([place], settings, open_output(str(out))).work
    ended = run_task(Task(found, settings, str(out), 1))
    assert ended.how == "failed"
    assert "edgefirst-ros suggest makes a configuration" in ended.note["reason"]
    assert not list(out.rglob("*.yaml"))
