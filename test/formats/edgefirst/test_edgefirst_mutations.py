"""Damaged and hostile datasets: recover, check and sheet end with words, whatever is there."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from edgefirst_mutations import damage
from edgefirst_samples import SEQUENCE, full_sample
from places import contents
from typer.testing import CliRunner

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.formats import datasets
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.archive import FileRecord
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.model.errors import DatasetError

ROUNDS = int(os.environ.get("MUTATIONS", "6"))
SEED = int(os.environ.get("MUTATIONS_SEED", "12"))
REPORT = "capture_report.json"


def written(output: Path, container: str, count: int, end: Callable[[EdgeFirstWriter], object]) -> Path:
    """The folder of the dataset, over an earlier one if that is there."""
    options = EdgeFirstOptions(container=container, lidar_image_size=(4, 8))  # type: ignore[arg-type]
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


@pytest.mark.long(cases=3)
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
        before = contents(elsewhere)
        sheet = ["report", str(folder), "--picture", str(tmp_path / "sheet.png")]
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
        assert contents(elsewhere) == before, done
        shutil.rmtree(output)
        shutil.rmtree(elsewhere)


def said(*command: str | Path) -> tuple[int, str]:
    ran = CliRunner().invoke(app, [*map(str, command)])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
    return ran.exit_code, " ".join(ran.output.split())


@pytest.mark.parametrize(
    "change",
    [
        {"frame": -1}, {"frame": 1 << 32}, {"time_ns": 10**400}, {"annotations": [{"label": "\ud800"}]},
        {"pose": [1, 2]}, {"size": ["x", 1]}, {"sequence": None}, None,
    ],
)  # fmt: skip
def test_a_record_with_a_right_checksum_and_wrong_content_is_refused(
    tmp_path: Path, change: dict[str, object] | None
) -> None:
    unfinished(tmp_path, "zip")
    folder = tmp_path / "edgefirst" / "ds"
    journal = SampleJournal(folder / "ds.journal.part")
    record = json.loads(list(journal.records())[-1].payload)
    content = None if change is None else [record[0], {**record[1], **change}]
    journal.append(json.dumps(content).encode())
    journal.close()
    before = contents(folder)
    code, words = said("recover", tmp_path)
    assert code == 2
    assert "is not a record of this version" in words
    assert contents(folder) == before


@pytest.mark.parametrize("path", ["../../x", "/etc/passwd", "a/../b", "a/.b", "a"])
def test_a_record_cannot_name_a_file_elsewhere(tmp_path: Path, path: str) -> None:
    journal = SampleJournal(tmp_path / "ds.journal.part")
    journal.start(EdgeFirstOptions())
    journal.commit([FileRecord(path, 1, 1)], '{"sequence":"s","frame":1,"time_ns":1,"annotations":[]}')
    with pytest.raises(DatasetError, match="is not a record of this version"):
        list(journal)
    journal.close()


@pytest.mark.parametrize("place", ["ds.part", f"ds.part/{SEQUENCE.name}", "ds.journal.part", "ds.arrow.part"])
def test_recovery_leaves_what_a_link_leads_to(tmp_path: Path, place: str) -> None:
    unfinished(tmp_path, "folder")
    link, elsewhere = tmp_path / "edgefirst" / "ds" / place, tmp_path / "elsewhere"
    if link.exists():
        link.rename(elsewhere)
    else:
        elsewhere.write_bytes(b"untouched")
    link.symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in (elsewhere, *elsewhere.rglob("*")) if path.is_file()}
    said("recover", tmp_path / "edgefirst")
    assert {p: p.read_bytes() for p in (elsewhere, *elsewhere.rglob("*")) if p.is_file()} == before


@pytest.mark.parametrize("name", ["ds.arrow", "ds.zip", REPORT, f"{REPORT}.part", "ds.journal.part"])
def test_nothing_waits_for_a_fifo(tmp_path: Path, name: str) -> None:
    finished(tmp_path, "zip")
    folder = tmp_path / "edgefirst" / "ds"
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    for command in ("check", "recover", "check"):
        said(command, tmp_path)
    said("report", folder, "--picture", tmp_path / "sheet.png")


def test_a_column_of_which_a_part_has_no_readable_name_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    finished(tmp_path, "zip")
    folder = tmp_path / "edgefirst" / "ds"
    table = pa.table({"timing": pa.array([{"childname": 1}])})
    with pa.OSFile(str(folder / "ds.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    (folder / "ds.arrow").write_bytes((folder / "ds.arrow").read_bytes().replace(b"childname", b"\xff" * 9))
    assert said("check", tmp_path)[0] == 1
    assert said("report", folder, "--picture", tmp_path / "sheet.png")[0] == 2
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.timeout(20)
@pytest.mark.parametrize("place", ["fifo", f"{SEQUENCE.name}/{SEQUENCE.name}.aside.part"])
def test_recovery_does_not_wait_for_a_fifo_among_the_files(tmp_path: Path, place: str) -> None:
    written(tmp_path, "folder", 1, EdgeFirstWriter.abort)  # of so few each file is synced by itself
    os.mkfifo(tmp_path / "edgefirst" / "ds" / "ds.part" / place)
    said("recover", tmp_path)


def test_a_link_that_leads_round_in_a_circle_is_said(tmp_path: Path) -> None:
    complete(tmp_path, "zip")
    archive = tmp_path / "edgefirst" / "ds" / "ds.zip"
    archive.unlink()
    archive.symlink_to(archive)
    for command in ("recover", "check"):
        said(command, tmp_path)


@pytest.mark.parametrize(
    ("key", "notes", "why"),
    [(b"_PL_ENUM_VALUES2", notes, "damaged _PL_ENUM_VALUES2") for notes in (b"1;x1;x", b"zz", b"5;x")]
    + [(b"note", b"\xff", "a note that is no text"), (b"\xfe", b"", "a note that is no text")],
)
def test_a_table_on_which_polars_panics_is_refused_before(
    tmp_path: Path, key: bytes, notes: bytes, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    finished(tmp_path, "zip")
    folder = tmp_path / "edgefirst" / "ds"
    labels = pa.array(["x"]).dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.large_string()))
    field = pa.field("label", labels.type, metadata={key: notes})
    table = pa.Table.from_arrays([labels], schema=pa.schema([field]))
    with pa.OSFile(str(folder / "ds.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert f"column label: {why}" in said("check", tmp_path)[1]
    assert f"column label: {why}" in said("report", folder, "--picture", tmp_path / "sheet.png")[1]
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("container", ["zip", "folder"])
def test_what_check_calls_ok_open_opens(tmp_path: Path, container: str) -> None:
    """Whatever was done to it; what does not reach the reader, as another's report, is OK."""
    finished(tmp_path / "whole", container)
    rng = random.Random(f"{SEED} open {container}")
    sound = 0
    for number in range(5 * ROUNDS):
        output, elsewhere = tmp_path / "damaged", tmp_path / "elsewhere"
        shutil.copytree(tmp_path / "whole", output)
        elsewhere.mkdir()
        (elsewhere / "file").write_bytes(b"untouched")
        folder = output / "edgefirst" / "ds"
        done = f"round {number}: {damage(folder, elsewhere / 'file', rng)}"
        ok = [found for found in datasets.check(folder) if found.ok] if any(folder.iterdir()) else []
        for found in ok:
            opened = edgefirst_ros.open(folder)
            assert found.counts["samples"] <= len(opened), done
            for sample in opened:
                assert sample["name"], done
            sound += 1
        shutil.rmtree(output)
        shutil.rmtree(elsewhere)
    assert sound
