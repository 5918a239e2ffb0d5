"""Which files of a dataset appear last, and what is removed of the one that it replaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleets import settings
from s3server import S3Server

from edgefirst_ros.fleet.keys import FleetDrive, InputFile, key_of, settings_hash
from edgefirst_ros.fleet.notes import LocalNotes
from edgefirst_ros.fleet.output import Bucket, LocalOutput, open_output, upload_step
from edgefirst_ros.fleet.plan import make_plan
from edgefirst_ros.model.errors import ConfigError, EdgeFirstError, OutputBusy, WriteError
from edgefirst_ros.sources.location import location_of
from edgefirst_ros.sources.remote import read_version


@pytest.mark.parametrize(
    ("file", "step"),
    [
        ("edgefirst/d/d.zip", 0),
        ("edgefirst/d/d/1.jpeg", 0),
        ("edgefirst/d/d.manifest", 0),
        ("edgefirst/d/d.arrow", 1),
        ("edgefirst/d/capture_report.json", 2),
        ("edgefirst/d/capture_report.html", 2),
        ("ncore/s/s.ncore4-lidar.zarr.itar", 0),
        ("ncore/s/s.json", 1),
        ("ncore/d.capture_report.json", 2),
        ("l5kit/d.zarr/frames/0", 0),
        ("l5kit/d.zarr/.zattrs", 0),
        ("l5kit/d.zarr/.manifest", 0),
        ("l5kit/d.zarr/.zgroup", 1),
        ("another/d/d.json", 0),
    ],
)
def test_readers_find_data_before_they_find_the_dataset(file: str, step: int) -> None:
    assert upload_step(file) == step


class TestFolder:
    def make(self, folder: Path, *names: str) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"12")

    def test_what_is_left_of_the_old_dataset_goes(self, tmp_path: Path) -> None:
        folder = tmp_path / "sets" / "a"
        new = ("edgefirst/d/d.zip", "edgefirst/d/d.arrow", "ncore/d.capture_report.json", "ncore/s/s.json")
        old = ("edgefirst/d/d.zip", "l5kit/d.zarr/frames/0", "ncore/t/t.json")
        self.make(folder, *new, *old, "ncore/of_the_user.txt")
        self.make(tmp_path, "precious")
        wrote = [folder / name for name in new[1:]]
        notes = dict.fromkeys((*old, "../../precious", str(tmp_path / "precious")), 2)
        files = LocalOutput(tmp_path / "sets").publish("a", folder, wrote, lambda: None, notes)
        assert files == dict.fromkeys(new, 2)
        left = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        assert left == {*new, "ncore/of_the_user.txt"}
        assert not (folder / "l5kit").exists()
        assert (tmp_path / "precious").exists()

    @pytest.mark.parametrize("target", ["precious", "empty", "nowhere"])
    def test_nothing_is_removed_through_a_link(self, tmp_path: Path, target: str) -> None:
        folder = tmp_path / "sets" / "two"
        self.make(folder, "edgefirst/d/d.arrow")
        self.make(tmp_path, "precious/file1")
        (tmp_path / "empty").mkdir()
        (folder / "lnk").symlink_to(tmp_path / target)
        output = LocalOutput(tmp_path / "sets")
        with pytest.raises(WriteError, match="lnk is a symbolic link"):
            output.publish("two", folder, [folder / "edgefirst/d/d.arrow"], lambda: None, {"lnk/file1": 2})
        with pytest.raises(WriteError, match="lnk is a symbolic link"), output.place("two"):
            pass
        assert (tmp_path / "precious/file1").exists()
        assert (tmp_path / "empty").exists()
        (tmp_path / "sets" / "three").symlink_to(folder)
        with pytest.raises(WriteError, match="three is a symbolic link"), output.place("three"):
            pass

    def test_no_name_in_a_note_is_a_path(self, tmp_path: Path) -> None:
        folder = tmp_path / "sets" / "a"
        self.make(folder, "edgefirst/d/d.arrow", "edgefirst/d/d.zip")
        names = ["", ".", "edgefirst", "edgefirst/d", "\0", "\ud800", "x" * 5000, "edgefirst//d/d.zip", "/"]
        wrote = [folder / "edgefirst/d/d.arrow"]
        files = LocalOutput(tmp_path / "sets").publish(
            "a", folder, wrote, lambda: None, dict.fromkeys(names, 2)
        )
        assert sorted(files) == ["edgefirst/d/d.arrow", "edgefirst/d/d.zip"]

    def test_nothing_is_done_with_a_lost_claim(self, tmp_path: Path) -> None:
        def lost() -> None:
            raise OutputBusy("lost")

        self.make(tmp_path / "a", "edgefirst/d/d.zip")
        with pytest.raises(OutputBusy):
            LocalOutput(tmp_path).publish("a", tmp_path / "a", [], lost, {"edgefirst/d/d.zip": 2})
        assert (tmp_path / "a" / "edgefirst/d/d.zip").exists()


def test_notes_cannot_lead_elsewhere(tmp_path: Path) -> None:
    drive = FleetDrive("a", (InputFile("/a.mcap", 1, "1"),))
    key = key_of(drive, settings_hash(settings()))
    LocalNotes(tmp_path).put(f"_failed/{key}", {"drive": "../../elsewhere", "again": True})
    plan = make_plan([drive], settings(), LocalNotes(tmp_path))
    assert [work.drive.name for work in plan.work] == ["a"]


def test_urls_that_cannot_be_written_to_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown kind of URL"):
        open_output("ftp://host/sets")
    with pytest.raises(ConfigError, match="cannot be written to"):
        open_output("https://host/sets")


def test_parts_are_as_large_as_the_environment_says(
    s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEFIRST_ROS_PART_MIB", "5")
    (tmp_path / "large").write_bytes(bytes(11 << 20))
    Bucket(location_of(bucket)).upload("large", tmp_path / "large")  # type: ignore[arg-type]
    assert len([r for r in s3.log.of("PUT") if "partNumber" in r.path]) == 3


def test_requests_are_repeated_as_often_as_the_environment_says(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEFIRST_ROS_RETRIES", "1")
    s3.log.clear()
    s3.log.disturb = lambda *_: 503
    with pytest.raises(EdgeFirstError):
        read_version(location_of(f"{bucket}/a"))  # type: ignore[arg-type]
    assert len(s3.log.requests) == 2
    monkeypatch.setenv("EDGEFIRST_ROS_RETRIES", "none")
    with pytest.raises(
        ConfigError, match="EDGEFIRST_ROS_RETRIES=none: expected a whole number from 1 to 100"
    ):
        open_output(f"{bucket}/sets")
