"""Damaged and hostile datasets: recover, check and sheet end with words, whatever is there."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from edgefirst_mutations import damage
from edgefirst_samples import SEQUENCE, full_sample
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.write.writer import EdgeFirstWriter

ROUNDS = int(os.environ.get("MUTATIONS", "40"))
SEED = int(os.environ.get("MUTATIONS_SEED", "12"))
REPORT = "capture_report.json"


def written(output: Path, container: str, count: int, end: Callable[[EdgeFirstWriter], object]) -> Path:
    """The folder of the dataset, over an earlier one if that is there."""
    options = EdgeFirstOptions(container=container, lidar_rows=4, lidar_columns=8)  # type: ignore[arg-type]
    writer = EdgeFirstWriter(output / "edgefirst", "ds", options, overwrite=True)
    writer.begin(SEQUENCE)
    for frame in range(count):
        writer.write(writer.prepare(full_sample(frame)))
    end(writer)
    writer.abort()
    return writer.paths.folder


def report(folder: Path, ending: str = "") -> None:
    name = next(p for p in (folder / "ds.zip", folder / "ds", folder / "ds.zip.part") if p.exists())
    content = {
        "samples": 3,
        "sequences": [{"name": SEQUENCE.name, "sample": 3}],
        "formats": {"edgefirst": {"samples": 3}},
        "files": ["edgefirst/ds/ds.arrow", f"edgefirst/ds/{name.name.removesuffix('.part')}"],
    }
    (folder / f"{REPORT}{ending}").write_text(json.dumps(content))


def finished(output: Path, container: str) -> None:
    report(written(output, container, 3, EdgeFirstWriter.close))


def unfinished(output: Path, container: str) -> None:
    written(output, container, 3, EdgeFirstWriter.abort)


def replacing(output: Path, container: str) -> None:
    finished(output, container)
    unfinished(output, "zip")


def complete(output: Path, container: str) -> None:
    """All but the names, over an earlier dataset."""
    finished(output, container)
    report(written(output, "zip", 2, EdgeFirstWriter.complete), ".part")


@pytest.mark.parametrize("container", ["zip", "folder"])
@pytest.mark.parametrize("state", [finished, unfinished, replacing, complete])
def test_no_damage_ends_in_a_traceback_or_changes_what_is_elsewhere(
    tmp_path: Path, container: str, state: Callable[[Path, str], None]
) -> None:
    state(tmp_path / "whole", container)
    rng = random.Random(f"{SEED} {state.__name__} {container}")
    for number in range(ROUNDS):
        output, elsewhere = tmp_path / "damaged", tmp_path / "elsewhere"
        shutil.copytree(tmp_path / "whole", output)
        elsewhere.mkdir()
        (elsewhere / "file").write_bytes(b"untouched")
        folder = output / "edgefirst" / "ds"
        done = [damage(folder, elsewhere / "file", rng) for _ in range(rng.choice((1, 1, 2)))
                if any(path.is_file() and path.parent == folder for path in folder.rglob("*"))]  # fmt: skip
        before = {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()}
        sheet = ["sheet", str(folder), "-o", str(tmp_path / "sheet.png")]
        for command in (
            ["check", str(output)],
            sheet,
            ["recover", str(output)],
            ["check", str(folder)],
            sheet,
        ):
            ran = CliRunner().invoke(app, command)
            where = f"round {number}: {', '.join(done)}: {command[0]}"
            if ran.exception is not None and not isinstance(ran.exception, SystemExit):
                pytest.fail(f"{where}: {ran.exception!r}")
            assert ran.exit_code in {0, 1, 2}, where
            assert "\x1b" not in ran.output, where
        assert {p: p.read_bytes() for p in elsewhere.rglob("*") if p.is_file()} == before, done
        shutil.rmtree(output)
        shutil.rmtree(elsewhere)
