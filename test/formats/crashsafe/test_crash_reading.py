"""Only regular files of plausible size are read: nothing waits for a FIFO."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from livedrive import drive
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.crashsafe.reading import read_regular


def test_a_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_regular(tmp_path / "link", 4)


def test_what_is_none_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="is a FIFO, not a regular file"):
        read_regular(tmp_path / "fifo", 1)
    with pytest.raises(OSError, match="is a device, not a regular file"):
        read_regular(Path("/dev/zero"), 1)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, 1)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 1)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="is a socket, not a regular file"):
            read_regular(tmp_path / "s", 1)


@pytest.mark.parametrize("kind", ["fifo", "device", "huge"])
def test_a_configuration_or_a_mask_that_is_no_file_does_not_hang_the_start(tmp_path: Path, kind: str) -> None:
    place = Path("/dev/zero") if kind == "device" else tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "huge":
        with place.open("wb") as file:
            file.truncate(1 << 40)
    words = {"fifo": "is a FIFO", "device": "is a device", "huge": "has more than"}[kind]
    command = ["convert", str(drive()), "-o", str(tmp_path / "out"), "--format", "ncore", "--config"]
    done = CliRunner().invoke(app, [*command, str(place)])
    assert (done.exit_code, words in done.output) == (2, True), done.output
    masks = tmp_path / "masks.yaml"
    masks.write_text(f"ncore: {{ego_masks: {{camera: {{car: {place}}}}}}}")
    done = CliRunner().invoke(app, [*command, str(masks)])
    assert (done.exit_code, words in done.output) == (2, True), done.output
    assert not (tmp_path / "out").exists()


def test_metadata_that_is_no_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "drive.mcap").symlink_to(drive())
    os.mkfifo(tmp_path / "bag" / "metadata.yaml")
    assert CliRunner().invoke(app, ["info", str(tmp_path / "bag")]).exit_code == 0
