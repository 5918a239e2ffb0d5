"""Nothing is written or read through a symbolic link in an output or a dataset, which itself may be one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from drives import simulated
from livedrive import FORMATS
from typer.testing import CliRunner, Result

from edgefirst_ros import export_coco
from edgefirst_ros import open as open_dataset
from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.crashsafe.names import move_aside, refuse_links
from edgefirst_ros.formats.datasets import RECORDINGS
from edgefirst_ros.model.errors import DatasetError, EdgeFirstError, WriteError
from edgefirst_ros.model.untrusted import safe_name
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report.page.make import make_page
from edgefirst_ros.simulation import DriveOptions

DRIVE = DriveOptions(
    seconds=1.0, fps=5, width=160, height=96, lidar_points=64, cube_hz=0.0, imu_hz=20.0, gps_hz=5.0
)
SEQUENCE = safe_name(simulated(DRIVE).mcap.stem)
PLACES = {
    "edgefirst": ("edgefirst", "edgefirst/d", "edgefirst/d/d.zip.part", "edgefirst/d/d.arrow.part"),
    "ncore": ("ncore", f"ncore/{SEQUENCE}"),
    "l5kit": ("l5kit", "l5kit/d.zarr", "l5kit/d.zarr.part"),
}


def converted(output: Path, *more: str) -> Result:
    """How the command ended."""
    command = ["convert", str(simulated(DRIVE).mcap), "-o", str(output), "--name", "d"]
    return CliRunner().invoke(app, [*command, *more])


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("name", "place"), [(f, place) for f in FORMATS for place in PLACES[f]])
def test_a_link_below_the_output_is_refused_at_the_start(
    tmp_path: Path, name: str, place: str, overwrite: bool
) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "out" / place
    elsewhere.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    done = converted(tmp_path / "out", "--format", name, *["--overwrite"] * overwrite)
    assert done.exit_code == 2
    assert f"{link} is a symbolic link" in done.output
    assert not [*elsewhere.iterdir()]
    assert link.is_symlink()


def test_the_folder_of_recordings_is_none(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / RECORDINGS).symlink_to(tmp_path)
    command = ["capture", "--zenoh", "tcp/127.0.0.1:1", "-o", str(tmp_path / "out"), "--record"]
    done = CliRunner().invoke(app, [*command, "--duration", "0.1"])
    assert done.exit_code == 2
    assert f"{RECORDINGS} is a symbolic link" in done.output


def test_the_output_itself_may_be_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "there")
    assert converted(tmp_path / "out", "--rate", "1").exit_code == 0
    assert (tmp_path / "there" / "edgefirst" / "d" / "d.zip").is_file()


def test_every_folder_on_the_way_counts(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    refuse_links(tmp_path, tmp_path / "a" / "b" / "c")
    (tmp_path / "a" / "b").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WriteError, match="a/b is a symbolic link"):
        refuse_links(tmp_path, tmp_path / "x", tmp_path / "a" / "b" / "c")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets of all formats, of plain files."""
    out = tmp_path_factory.mktemp("made") / "out"
    config = {"formats": list(FORMATS), "ncore": {"store": "directory"}, "edgefirst": {"container": "folder"}}
    convert([simulated(DRIVE).mcap], out, build_config(config), dataset="d")
    make_page(out / "edgefirst" / "d")
    return out


def said(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    return done.exit_code, done.output


LINKED = (
    "edgefirst", "edgefirst/d/d", "edgefirst/d/d.arrow", "edgefirst/d/capture_report.json",
    "edgefirst/d/d/*/*.camera.jpeg",
    "ncore", f"ncore/{SEQUENCE}", f"ncore/{SEQUENCE}/*.json", f"ncore/{SEQUENCE}/*.zarr/.zattrs",
    "l5kit/d.zarr", "l5kit/d.zarr/frames/0",
)  # fmt: skip


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("place", LINKED)
def test_no_link_inside_is_read_through(made: Path, tmp_path: Path, place: str) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    shutil.copytree(made, out)
    link = next(out.glob(place))
    link.rename(elsewhere)
    link.symlink_to(elsewhere)
    before = [(path, path.stat().st_mtime_ns) for path in (elsewhere, *elsewhere.rglob("*"))]
    if place not in {"edgefirst", "ncore"}:  # what is in these is not found at all
        code, text = said("check", out)
        assert code == 1
        assert "is a symbolic link, and none inside a dataset is followed" in text
        code, text = said("recover", out)
        assert code == 2
        assert "is a symbolic link" in text
    kind, _, below = place.partition("/")
    (dataset,) = {out / kind / name for name in ("d", "d.zarr", SEQUENCE) if (out / kind / name).exists()}
    if below.count("/"):
        assert said("report", dataset, "-o", tmp_path / "x.html")[0] == 2
    if kind == "edgefirst" and "report" not in place:
        if below.count("/"):
            assert said("report", dataset, "--picture", tmp_path / "x.png")[0] == 2
        with pytest.raises(EdgeFirstError):
            export_coco(out, tmp_path / "coco")
    assert {path.name for path in tmp_path.iterdir()} <= {"out", "elsewhere", "coco"}
    assert not [*(tmp_path / "coco").rglob("*.jpg")]
    assert [(path, path.stat().st_mtime_ns) for path in (elsewhere, *elsewhere.rglob("*"))] == before


def test_what_the_user_names_may_be_a_link(made: Path, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(made)
    (tmp_path / "d").symlink_to(made / "edgefirst" / "d")
    (tmp_path / "w.zarr").symlink_to(made / "l5kit" / "d.zarr")
    # Not quiet, a check that takes seconds says how far it is.
    assert said("check", tmp_path / "out") == said("check", made)
    assert said("check", tmp_path / "out")[0] == 0
    assert said("recover", tmp_path / "out")[0] == 0
    assert said("check", tmp_path / "w.zarr")[0] == 0
    assert said("report", tmp_path / "out", "-o", tmp_path / "x.html")[0] == 0
    assert said("report", tmp_path / "d", "--picture", tmp_path / "x.png")[0] == 0
    assert export_coco(made / "edgefirst" / "d" / "d.arrow", tmp_path / "coco")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "d.arrow").symlink_to(made / "edgefirst" / "d" / "d.arrow")
    shutil.copytree(made / "edgefirst" / "d" / "d", tmp_path / "flat" / "d")
    assert len(open_dataset(tmp_path / "flat" / "d.arrow")) > 0
    with pytest.raises(DatasetError, match="is a symbolic link"):
        open_dataset(tmp_path / "flat")


@pytest.mark.parametrize(
    "files", [["/PLACE"], ["../../PLACE"], ["edgefirst/../../PLACE"], [7], "x", [""], {}]
)
def test_a_report_cannot_name_what_recovery_is_to_finish_elsewhere(
    tmp_path: Path, files: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs" / "edgefirst" / "t"
    theirs.mkdir(parents=True)
    (theirs / "t.journal.part").write_bytes(b"")
    here = tmp_path / "here" / "edgefirst" / "d"
    here.mkdir(parents=True)
    listed = json.dumps({"files": files}).replace("PLACE", str(theirs)[1:])
    (here / "capture_report.json.part").write_text(listed)
    said("recover", tmp_path / "here")
    assert (theirs / "t.journal.part").exists()
    monkeypatch.chdir(tmp_path)
    Path("capture_report.json.part").write_text(listed)
    said("recover", ".")
    Path("capture_report.json").write_text('{"topics": {}, "sequences": []}')
    assert said("report", "capture_report.json", "-o", "x.html")[0] == 0


@pytest.mark.parametrize(
    "name", ["../x", "other", "", "..", "d_recovered/../../x", "\udcff", "d_recovered_x"]
)
def test_a_note_cannot_name_another_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "d").mkdir()
    note = tmp_path / "d" / "d.aside.part"
    note.write_bytes(f"{name}\n".encode(errors="surrogateescape"))
    assert move_aside(note, lambda _: ()) == tmp_path / "d_recovered"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "d_recovered"]
