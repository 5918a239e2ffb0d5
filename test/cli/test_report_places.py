"""What ``report`` takes: datasets, and every recording that ``convert`` takes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import recorded
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert

NO_CUBE = {"seconds": 2, "boxes3d": True}


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded.record(tmp_path_factory.mktemp("drive") / "drive.mcap", recorded.messages(**NO_CUBE))


@pytest.fixture(scope="module")
def dataset(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("datasets")
    convert([drive], out, build_config({}), dataset="d")
    return out / "edgefirst" / "d"


def test_a_configuration_is_refused_for_a_dataset(dataset: Path, tmp_path: Path) -> None:
    code, out, said = run("report", dataset, "--config", "nosuch.yaml", "-o", tmp_path / "p.html")
    assert (code, out) == (2, "")
    assert said == f"error: --config: only for recordings, but {dataset} is a dataset"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [".db3", ".bag", "folder"])
def test_a_bag_has_a_page_beside_it(tmp_path: Path, kind: str) -> None:
    made = pytest.importorskip("rosbags_made")
    messages = recorded.messages(**NO_CUBE)
    if kind == ".bag":
        place, page = made.write_bag(tmp_path / "monday.bag", messages), tmp_path / "monday.html"
    else:
        file = made.write_db3(tmp_path / "monday", messages)
        place, page = (
            (file, file.with_suffix(".html")) if kind == ".db3" else (file.parent, tmp_path / "monday.html")
        )
    code, out, said = run("report", place, "-q")
    assert (code, out) == (0, f"{page}\n"), said
    assert "20 samples" in page.read_text()


@pytest.mark.long
def test_a_recording_in_a_store_has_a_page_here(
    bucket: str, drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstore = pytest.importorskip("obstore")
    obstore.put(obstore.store.from_url(bucket), "week/drive.mcap", drive)
    monkeypatch.chdir(tmp_path)
    for url, page in ((f"{bucket}/week/drive.mcap", "drive.html"), (f"{bucket}/week/", "week.html")):
        code, out, said = run("report", url, "-q")
        assert (code, out) == (0, f"{page}\n"), said
    code, _, said = run("report", f"{bucket}/week/none.mcap")
    assert code == 2
    assert f"{bucket}/week/none.mcap" in said


def test_a_folder_of_recordings_is_named_after_itself(
    drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "week"
    folder.mkdir()
    shutil.copy(drive, folder)
    monkeypatch.chdir(folder)
    assert run("report", os.curdir, "-q")[:2] == (0, f"{tmp_path / 'week.html'}\n")


def test_what_is_neither_is_said_to_be_neither(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no recording")
    code, _, said = run("report", tmp_path, "-o", tmp_path / "p.html")
    assert code == 2
    assert f"{tmp_path}: holds no dataset of a known format" in said
    code, _, said = run("report", tmp_path / "none.mcap", "-o", tmp_path / "p.html")
    assert code == 2
    assert f"{tmp_path / 'none.mcap'}: no such recording" in said
