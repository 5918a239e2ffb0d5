"""What documents show works: commands are parsed, and run where they can be; configurations are valid."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from drives import simulated
from oracle import NCORE_PYTHON
from places import REPOSITORY
from snippets import DOCUMENTS, SHELL, Block, Command, blocks, commands, is_output, lines, parse, programs
from typer.testing import CliRunner, Result

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.nodes.options import CaptureOptions, ReplayOptions
from edgefirst_ros.simulation import DriveOptions

COMMANDS = [command for document in DOCUMENTS for command in commands(document)]
BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
LONG: dict[str, Any] = {
    "seconds": 66.0,
    "start_ns": 1_773_483_620_000_000_000,  # 2026-03-14 10:20:20
    "fps": 1,
    "width": 160,
    "height": 96,
    "lidar_points": 64,
    "lidar_hz": 1.0,
    "radar_hz": 1.0,
    "cube_hz": 0.0,
    "imu_hz": 5.0,
    "gps_hz": 1.0,
    "gps_no_fix": 0,
    "model_hz": 1.0,
}
"""Little in every second, and long enough for the times that documents name."""
NOT_HERE = {
    "capture": "a device, or a player of a recording: test/cli/test_live_commands.py",
    "play": "somebody who listens: test/cli/test_live_commands.py",
}
ELSEWHERE = (
    *("://", "--engine", "--official", "/mnt/", "OUTPUT/recordings", "out/recordings"),
    # Processes of their own, see test/fleet; and what the recipe for CI does.
    *("--jobs", "--name nightly", "--zenoh"),
)
"""Stores, clusters, other Pythons, cards, and recordings of live sessions: their own tests have them."""
OTHER_PROGRAMS = {
    *("aws", "cmp", "colcon", "dask", "docker", "echo", "export", "git", "jq", "ray", "rosdep", "rviz2"),
    *("ln", "source", "sudo", "tee", "touch", "zenoh-bridge-ros2dds", ">"),
}
RUN = {"README.md", "cheatsheet.md", "corpus.md", "l5kit.md"}
"""Documents whose Python runs here, on a dataset ``monday``."""
READ = {
    "tutorial.md": "test_tutorial.py",
    "ncore.md": "NVIDIA's reader, below",
    "training.md": "test/formats/edgefirst/read/test_torch.py",
    "adding-a-sensor.md": "test/model/test_adding_a_sensor.py runs it in a copy of the package",
}


def can_run(command: Command) -> bool:
    text = shlex.join(command.words)
    return command.words[0] not in NOT_HERE and not any(part in text for part in ELSEWHERE)


MONDAY = ("convert", "monday/", "-o", "out", "--name", "monday", "--format", "edgefirst,ncore,l5kit")
ALL = ("convert", "drive.mcap", "-o", "all", "--rate", "2", "--format", "edgefirst,ncore,l5kit")
"""The commands whose datasets others look into, also those of other documents."""


@dataclass
class Desk:
    """A folder with what documents name, and what was run in it: each command once."""

    folder: Path
    done: dict[tuple[str, ...], Result] = field(default_factory=dict)

    def run(self, words: tuple[str, ...]) -> Result:
        if words not in self.done:
            more: tuple[str, ...] = ()
            if words[0] in {"convert", "simulate"}:
                more = ("--overwrite",)  # another document has the same output
            if words[0] == "convert":
                more += ("--workers", "1")  # starts no processes, and gives the same bytes
            if words[0] == "simulate":
                more += ("--seconds", "3", "--fps", "2", "--size", "160x96")  # the last ones count
            self.done[words] = CliRunner().invoke(app, [*words, *more])
        return self.done[words]


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder, drive = tmp_path_factory.mktemp("desk"), simulated(DriveOptions(**LONG)).mcap
    places = ("drive.mcap", "monday/one.mcap", "drives/a/one.mcap", "drives/monday/drive1.mcap")
    for place in (*places, "recordings/one.mcap", "maivin_2026_03_14_10_20_30.mcap"):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).symlink_to(drive)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        robot = CliRunner().invoke(app, ["suggest", "drive.mcap"])
    (folder / "robot.yaml").write_text(robot.stdout)
    (folder / "right.yaml").write_text("rate_hz: 1.0\n")
    for name, place in {
        "OUT": "out",
    }.items():
        (folder / name).symlink_to(place)
    return Desk(folder)


@pytest.fixture
def desk(laid: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The folder is the current one, and has two datasets of each format."""
    monkeypatch.chdir(laid.folder)
    assert laid.run(MONDAY).exit_code == laid.run(ALL).exit_code == 0
    return laid


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_every_command_is_one_that_the_program_takes(command: Command) -> None:
    parse(command.words)


@pytest.mark.long(cases=4)
@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if each.name != "tutorial.md"], ids=lambda path: path.name
)
def test_commands_that_need_nothing_else_do_it(document: Path, desk: Desk) -> None:
    for command in filter(can_run, commands(document)):
        done = desk.run(command.words)
        # A drive of seconds is not ready for NuRec.
        expected = 1 if "nurec" in command.words else 0
        assert done.exit_code == expected, f"{command}\n{done.output[-2000:]}"


def test_most_commands_run() -> None:
    assert sum(map(can_run, COMMANDS)) >= 20


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_is_of_a_kind_that_is_looked_at(block: Block) -> None:
    name = block.document.name
    if block.language in SHELL:
        for line in [] if is_output(block) else lines(block.text):
            look_at(line)
    elif block.language == "yaml":
        look_at_yaml(yaml.safe_load(block.text))
    elif block.language == "python":
        assert name in RUN or name in READ, "say what runs it"
        if name in RUN:
            ast.parse(block.text)
    else:
        # test_messages.py looks at texts of the program, test_docs.py at the picture of the rooms.
        assert block.language in {"mermaid", "text"}
        assert block.language == "mermaid" or name in {
            "troubleshooting.md",
            "datasets.md",
            "ncore.md",
            "l5kit.md",
            "cli.md",
        }


def look_at(line: str) -> None:
    """See that what a line of a shell names is there: programs, targets, extras, launch arguments."""
    assert subprocess.run(["bash", "-n"], input=line, text=True, check=False).returncode == 0, line
    for words in programs(line):
        program = words[0]
        if program == "make":
            targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.M)
            assert set(words[1:2]) <= {*targets}, line
        elif program == "pip":
            extras = re.findall(r"\[([a-z,]+)\]", line)
            known = (REPOSITORY / "setup.py").read_text()
            assert all(f'"{extra}": ' in known for each in extras for extra in each.split(",")), line
        elif program == "ros2" and words[1] == "launch":
            look_at_launch(line, words)
        elif Path(program).name == "python":
            script = (REPOSITORY / words[1]).read_text()
            assert all(word in script for word in words if word.startswith("--")), line
        else:
            assert program in OTHER_PROGRAMS | {"edgefirst-ros", "ros2"}, line


def look_at_launch(line: str, words: list[str]) -> None:
    assert (REPOSITORY / "launch" / words[3]).is_file(), line
    text = "".join(path.read_text() for path in (REPOSITORY / "launch").glob("*.py"))
    for argument in re.findall(r"(\w+):=", line):
        assert f'"{argument}"' in text, line


def look_at_yaml(data: Any) -> None:  # noqa: ANN401 - any YAML
    if isinstance(data, list):
        assert all(set(step) == {"run"} for step in data)
        for step in data:
            look_at(step["run"])
    elif "apiVersion" in data:
        assert data["kind"] == "Job"
    else:
        nodes = {*CaptureOptions.model_fields, *ReplayOptions.model_fields, "qos_overrides"}
        build_config({name: value for name, value in data.items() if name not in nodes})


PYTHON = [block for block in BLOCKS if block.language == "python" and block.document.name in RUN]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_runs_on_the_dataset_that_it_names(block: Block, desk: Desk) -> None:
    if "torch" in block.text:
        pytest.importorskip("torch", reason="torch is not installed (make test-torch)")
    if "catalog.parquet" in block.text:
        edgefirst_ros.catalog("out", "catalog.parquet")
    exec(compile(block.text, str(block), "exec"), {})


def test_the_boxes_of_ncore_are_read_as_the_page_says(desk: Desk, tmp_path: Path) -> None:
    if not NCORE_PYTHON.exists():
        pytest.skip("no NVIDIA reader: make oracles")
    (block,) = [b for b in BLOCKS if b.document.name == "ncore.md" and b.language == "python"]
    script = tmp_path / "boxes.py"
    script.write_text(f"{block.text}        print(boxes.shape[1])\n")
    done = subprocess.run([NCORE_PYTHON, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"4"}


def test_the_recipe_for_ci_passes_on_the_demo(desk: Desk) -> None:
    """As the page has it, but for the installation."""
    if shutil.which("jq") is None:
        pytest.skip("no jq")
    (block,) = [b for b in BLOCKS if b.document.name == "ci.md" and b.language == "yaml"]
    steps = [step["run"] for step in yaml.safe_load(block.text)]
    assert [step for step in steps if "install" in step] == steps[:1]
    for step in steps[1:]:
        done = subprocess.run(
            ["bash", "-ec", step],
            env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = Path("report.json")
        why = json.loads(said.read_text() or "{}").get("warnings") if said.exists() else None
        assert done.returncode == 0, f"{step}\n{done.stderr}\n{why}"


def test_the_job_for_kubernetes_runs_a_command_of_the_program() -> None:
    text = (REPOSITORY / "examples" / "kubernetes.yaml").read_text(encoding="utf-8")
    (job,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    parse(tuple(container["args"]))


def test_the_job_for_slurm_runs_a_command_of_the_program() -> None:
    text = (REPOSITORY / "examples" / "slurm.sh").read_text(encoding="utf-8").replace("\\\n", "")
    line = next(line for line in text.splitlines() if line.startswith("exec "))
    words = shlex.split(line.replace("$(hostname)", "node1"))
    assert words[:3] == ["exec", "edgefirst-ros", "convert"]
    assert words[-1] == "tcp://node1:8786"
    parse(tuple(words[2:]))
