"""Nothing is written through a symbolic link below the output folder, which itself may be one."""

from __future__ import annotations

from pathlib import Path

import pytest
from livedrive import FORMATS, drive
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.errors import WriteError
from edgefirst_ros.formats.crashsafe.links import refuse_links
from edgefirst_ros.formats.crashsafe.names import move_aside
from edgefirst_ros.live.recorder import FOLDER
from edgefirst_ros.naming import safe_name

SEQUENCE = safe_name(drive().stem)
PLACES = {
    "edgefirst": ("edgefirst", "edgefirst/d", "edgefirst/d/d.zip.part", "edgefirst/d/d.arrow.part"),
    "ncore": ("ncore", f"ncore/{SEQUENCE}"),
    "l5kit": ("l5kit", "l5kit/d.zarr", "l5kit/d.zarr.part"),
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("name", "place"), [(f, place) for f in FORMATS for place in PLACES[f]])
def test_a_link_below_the_output_is_refused_at_the_start(
    tmp_path: Path, name: str, place: str, overwrite: bool
) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "out" / place
    elsewhere.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    command = ["convert", str(drive()), "-o", str(tmp_path / "out"), "--name", "d", "--format", name]
    done = CliRunner().invoke(app, [*command, *["--overwrite"] * overwrite])
    assert done.exit_code == 2
    assert f"{link} is a symbolic link" in done.output
    assert not [*elsewhere.iterdir()]
    assert link.is_symlink()


def test_the_folder_of_recordings_is_none(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / FOLDER).symlink_to(tmp_path)
    command = ["capture", "--zenoh", "tcp/127.0.0.1:1", "-o", str(tmp_path / "out"), "--record"]
    done = CliRunner().invoke(app, [*command, "--duration", "0.1"])
    assert done.exit_code == 2
    assert f"{FOLDER} is a symbolic link" in done.output


def test_the_output_itself_may_be_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "there")
    command = ["convert", str(drive()), "-o", str(tmp_path / "out"), "--name", "d", "--rate", "1"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "there" / "edgefirst" / "d" / "d.zip").is_file()


def test_every_folder_on_the_way_counts(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    refuse_links(tmp_path, tmp_path / "a" / "b" / "c")
    (tmp_path / "a" / "b").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WriteError, match="a/b is a symbolic link"):
        refuse_links(tmp_path, tmp_path / "x", tmp_path / "a" / "b" / "c")


@pytest.mark.parametrize(
    "name", ["../x", "other", "", "..", "d_recovered/../../x", "\udcff", "d_recovered_x"]
)
def test_a_note_cannot_name_another_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "d").mkdir()
    note = tmp_path / "d" / "d.aside.part"
    note.write_bytes(f"{name}\n".encode(errors="surrogateescape"))
    assert move_aside(note, lambda _: ()) == tmp_path / "d_recovered"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "d_recovered"]
