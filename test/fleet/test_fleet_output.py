"""Folders and buckets: one run at a time, and what a reader finds is whole."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from pathlib import Path

import pytest
from places import contents
from s3server import S3Server

from edgefirst_ros.fleet import output as outputs
from edgefirst_ros.fleet.output import Bucket, open_output, upload_step
from edgefirst_ros.model.errors import ConfigError, OutputBusy, WriteError


@pytest.mark.parametrize(
    ("file", "step"),
    [
        ("edgefirst/d/d.zip", 0),
        ("edgefirst/d/d.manifest", 0),
        ("edgefirst/d/d.arrow", 1),
        ("edgefirst/d/capture_report.json", 2),
        ("edgefirst/d/capture_report.html", 2),
        ("ncore/s/s.ncore4-lidar.zarr.itar", 0),
        ("ncore/s/s.json", 1),
        ("ncore/d.capture_report.json", 2),
        ("l5kit/d.zarr/frames/0", 0),
        ("l5kit/d.zarr/.zgroup", 1),
        ("another/d/d.json", 0),
    ],
)
def test_readers_find_data_before_they_find_the_dataset(file: str, step: int) -> None:
    assert upload_step(file) == step


def test_urls_that_cannot_be_written_to_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown kind of URL"):
        open_output("ftp://host/sets")
    with pytest.raises(ConfigError, match="cannot be written to"):
        open_output("https://host/sets")


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


class TestFolder:
    def test_what_is_published_replaces_all(self, tmp_path: Path) -> None:
        output = open_output(str(tmp_path / "sets"))
        for names in (("edgefirst/d/d.zip", "l5kit/d.zarr/0"), ("edgefirst/d/d.zip", "ncore/s.json")):
            with output.hold(pytest.fail), output.work_folder() as folder:
                output.publish("a", made(folder, *names))
            assert contents(tmp_path / "sets" / "a").keys() == {*names}
        assert output.list_drives() == {"a"}
        assert sorted(path.name for path in (tmp_path / "sets").iterdir()) == ["_lock", "a"]

    def test_nothing_is_written_through_links(self, tmp_path: Path) -> None:
        precious = made(tmp_path / "precious", "file")
        output = open_output(str(tmp_path / "sets"))
        (tmp_path / "sets").mkdir()
        for name in ("a", "_done", ".converting"):
            (tmp_path / "sets" / name).symlink_to(precious)
        with pytest.raises(WriteError, match="a is a symbolic link"):
            output.publish("a", made(tmp_path / "new", "file"))
        with pytest.raises(WriteError, match="_done is a symbolic link"):
            output.put_file("_done/a.json", b"{}")
        with pytest.raises(WriteError, match="converting is a symbolic link"), output.work_folder():
            pass
        assert contents(precious) == {"file": b"file"}

    def test_two_runs_at_once_are_refused(self, tmp_path: Path) -> None:
        with open_output(str(tmp_path)).hold(pytest.fail):
            refused = pytest.raises(OutputBusy, match=r"process \d+ on .* is converting drives to it")
            with refused, open_output(str(tmp_path)).hold(pytest.fail):
                pass
        with open_output(str(tmp_path)).hold(pytest.fail):
            pass

    def test_a_killed_run_holds_nothing_and_leaves_nothing(self, tmp_path: Path) -> None:
        process = multiprocessing.get_context("spawn").Process(target=hold_forever, args=[str(tmp_path)])
        process.start()
        while not [*tmp_path.rglob("half")]:
            time.sleep(0.02)
        process.kill()
        process.join()
        with open_output(str(tmp_path)).hold(pytest.fail):
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["_lock"]


def hold_forever(place: str) -> None:
    output = open_output(place)
    with output.hold(lambda: None), output.work_folder() as folder:
        made(folder, "half")
        time.sleep(600)


class TestBucket:
    @pytest.fixture
    def output(self, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
        monkeypatch.setattr(outputs, "RENEW_S", 0.2)
        found = open_output(f"{bucket}/sets")
        assert isinstance(found, Bucket)
        return found

    def test_what_is_published_replaces_all_and_what_is_visible_comes_last(
        self, output: Bucket, s3: S3Server, tmp_path: Path
    ) -> None:
        output.publish("a", made(tmp_path / "old", "edgefirst/d/d.arrow", "l5kit/d.zarr/.zgroup"))
        output.publish("ab", made(tmp_path / "other", "edgefirst/d/d.zip"))
        s3.log.clear()
        new = ("edgefirst/d/d.arrow", "edgefirst/d/d.zip", "edgefirst/d/capture_report.json")
        output.publish("a", made(tmp_path / "new", *new))
        assert {*output.list_files("a")} == {*new}
        assert output.list_drives() == {"a", "ab"}
        changes = [r for r in s3.log.requests if r.method in {"PUT", "POST"}]
        assert "delete" in changes[0].path, "the old dataset vanishes before the new one comes"
        order = [r.path.partition("/a/")[2].partition("?")[0] for r in changes if r.method == "PUT"]
        assert [upload_step(name) for name in order] == [0, 1, 2]

    def test_large_files_go_in_parts(
        self, output: Bucket, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outputs, "PART_BYTES", 5 << 20)
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "large").write_bytes(bytes(11 << 20))
        output.publish("a", tmp_path / "new")
        assert len([r for r in s3.log.of("PUT") if "partNumber" in r.path]) == 3

    def test_two_runs_at_once_are_refused(self, output: Bucket) -> None:
        with output.hold(pytest.fail):
            begin_s = time.monotonic()
            with (
                pytest.raises(OutputBusy, match=r"process \d+ on .* is converting"),
                output.hold(pytest.fail),
            ):
                pass
            assert time.monotonic() - begin_s < 2
        assert output.read_file("_lock") is None

    def test_the_lock_of_a_killed_run_is_taken_over(self, output: Bucket) -> None:
        output.put_file("_lock", b"process 1 on elsewhere\n")
        with output.hold(pytest.fail):
            assert output.read_file("_lock") != b"process 1 on elsewhere\n"

    def test_a_run_whose_lock_was_taken_over_hears_of_it(self, output: Bucket) -> None:
        lost = threading.Event()
        with output.hold(lost.set):
            output.put_file("_lock", json.dumps("another").encode())
            assert lost.wait(10)
        assert output.read_file("_lock") == b'"another"', "and leaves the other one's alone"
