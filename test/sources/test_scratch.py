"""What lies on local scratch goes with its process, or with the next one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from s3server import S3Server

from edgefirst_ros.fleet.engines import LocalEngine
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.sources import scratch
from edgefirst_ros.sources.location import Url, location_of
from edgefirst_ros.sources.recording import open_recording
from edgefirst_ros.sources.scratch import Scratch, remove_all, sweep

HOLD = """import os, sys
from edgefirst_ros.sources.scratch import Scratch
held = Scratch()
(held.path / "data").write_bytes(bytes(1000))
print(held.path, flush=True)
sys.stdin.read(1)
os._exit(9)"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_what_a_killed_process_left_is_removed(place: Path) -> None:
    own = Scratch()
    (place / "of_others").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        assert sweep() == (0, 0), "it is in use"
        assert left.is_dir()
        process.kill()
    assert sweep() == (1, 1000)
    assert set(place.iterdir()) == {own.path, place / "of_others"}
    own.remove()
    own.remove()
    assert not own.path.exists()


def test_a_new_folder_removes_what_is_left_and_goes_with_its_object(place: Path) -> None:
    (place / "edgefirst-scratch-left").mkdir()
    (place / "edgefirst-scratch-link").symlink_to(place)
    found = Scratch()
    path = found.path
    assert {p.name for p in place.iterdir()} == {path.name, "edgefirst-scratch-link"}
    del found
    assert not path.exists()
    kept = Scratch()
    remove_all()
    assert not kept.path.exists()


def test_another_users_folder_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "edgefirst-scratch-theirs").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert scratch.sweep() == (0, 0)


def leave_a_folder(_: int) -> str:
    kept.append(Scratch())
    return str(kept[0].path)


kept: list[Scratch] = []


def test_a_worker_leaves_nothing() -> None:
    with closing(LocalEngine(1, 1)) as engine:
        assert not Path(engine.submit(leave_a_folder, 0).result()).exists()


@pytest.mark.usefixtures("s3")
def test_a_bag_that_cannot_be_read_leaves_no_copy(bucket: str, place: Path) -> None:
    obstore = pytest.importorskip("obstore")
    obstore.put(obstore.store.from_url(bucket), "a.db3", b"garbage")
    with pytest.raises(RecordingError, match="is not a database") as caught:
        open_recording(location_of(f"{bucket}/a.db3"))
    # The traceback keeps the recording itself from going.
    assert [*place.iterdir()] == [], caught


def test_a_full_disk_says_what_helps(
    s3: S3Server, bucket: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstore = pytest.importorskip("obstore")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    helps = "set TMPDIR to a folder with more room, or lower --jobs"

    def refuse(*_: object) -> None:
        raise full

    obstore.put(obstore.store.from_url(bucket), "a.db3", b"garbage")
    monkeypatch.setattr(scratch, "_parts", refuse)
    with pytest.raises(RecordingError, match=helps):
        open_recording(Url(bucket, "a.db3"))
    assert [*place.iterdir()] == []
    assert s3.log.requests
