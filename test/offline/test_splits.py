"""Recordings that are the files of one drive, and those that are not."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.offline.convert import Position, convert
from edgefirst_ros.offline.drives import find_drives, find_files
from edgefirst_ros.simulation import DriveOptions, Recording, Truth
from edgefirst_ros.sources.mcap import McapRecording

DRIVE = {
    "seconds": 6, "fps": 10, "width": 160, "height": 90, "lidar_points": 64, "radar_hz": 5, "cube_hz": 0,
    "imu_hz": 20, "model_hz": 5,
}  # fmt: skip
EVERY_FORMAT = build_config({"formats": ["edgefirst", "ncore", "l5kit"]})
PLAIN = build_config({"topics": {"model": {"required": "never"}, "radar_targets": {"required": "never"}}})


def drive(folder: Path, **more: Any) -> Recording:  # noqa: ANN401
    return simulate(folder, DriveOptions(**{**DRIVE, **more}))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return drive(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return drive(tmp_path_factory.mktemp("bag"), splits=12)


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return drive(tmp_path_factory.mktemp("named"), splits=3, split_names="device")


def files(root: Path) -> dict[str, str]:
    """Digests of every file of the datasets, the report apart, which names the recordings."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.stem != "capture_report"
    }


def grouped(*paths: Path) -> list[list[str]]:
    found = find_drives([McapRecording(file.path) for file in find_files(paths).files])
    return [[part.path.name for part in each.parts] for each in found]


def copied(recording: Recording, folder: Path, *, metadata: bool = True) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    made = [Path(shutil.copy(path, folder)) for path in recording.files]
    if metadata:
        shutil.copy(recording.mcap.parent / "metadata.yaml", folder)
    return made


def test_a_split_drive_gives_the_bytes_of_an_unsplit_one(
    whole: Recording, named: Recording, bag: Recording, tmp_path: Path
) -> None:
    one = convert([whole.mcap], tmp_path / "whole", EVERY_FORMAT)
    split = convert([named.mcap.parent], tmp_path / "named", EVERY_FORMAT)
    assert files(tmp_path / "whole") == files(tmp_path / "named") != {}
    assert split.report["totals"] == one.report["totals"]
    assert split.report["sequences"] == one.report["sequences"]
    numbered = convert([bag.mcap.parent], tmp_path / "bag", PLAIN)
    assert len(numbered.report["sequences"]) == 1
    assert numbered.report["samples"] == len(Truth.read(whole.truth).true_ns("/camera/h264"))
    assert [r["file"] for r in numbered.report["recordings"]] == [path.name for path in bag.files]
    assert {r["drive"] for r in numbered.report["recordings"]} == {bag.mcap.name}
    assert any("12 files of one drive" in note for note in numbered.report["notes"])
    assert numbered.paths[0].name.startswith(bag.mcap.stem)


def test_files_are_in_the_order_of_their_numbers_however_given(bag: Recording, tmp_path: Path) -> None:
    expected = [[path.name for path in bag.files]]
    assert grouped(bag.mcap.parent) == expected
    lexical = sorted(bag.files)
    assert [path.name for path in lexical] != expected[0]
    assert grouped(*lexical) == grouped(*reversed(bag.files)) == expected
    bare = copied(bag, tmp_path / "bare", metadata=False)
    assert grouped(tmp_path / "bare") == grouped(*sorted(bare)) == expected


def test_metadata_has_the_last_word(bag: Recording, tmp_path: Path) -> None:
    made = copied(bag, tmp_path)
    for path in made:  # names without numbers
        path.rename(tmp_path / f"{'abcdefghijkl'[::-1][int(path.stem.rpartition('_')[2])]}.mcap")
    text = (tmp_path / "metadata.yaml").read_text()
    names = []
    for number, path in reversed(list(enumerate(made))):
        names.append(f"{'abcdefghijkl'[::-1][number]}.mcap")
        text = text.replace(path.name, names[-1])
    (tmp_path / "metadata.yaml").write_text(text)
    assert grouped(tmp_path) == [names[::-1]]
    (tmp_path / "metadata.yaml").write_text("rosbag2_bagfile_information: [1, 2]")
    assert len(grouped(tmp_path)) == 12
    (tmp_path / "metadata.yaml").write_bytes(b"\xff: {")
    assert len(grouped(tmp_path)) == 12


def test_drives_of_one_folder_stay_apart(named: Recording, tmp_path: Path) -> None:
    """Two hosts at the same time, a later drive of the first, and a file of another name."""
    copied(named, tmp_path, metadata=False)
    other = drive(tmp_path, seconds=4, host="raivin-2", splits=2, split_names="device")
    later_ns = DriveOptions().start_ns + 60_000_000_000
    later = drive(tmp_path, start_ns=later_ns, seconds=1)
    odd = Path(shutil.copy(named.mcap, tmp_path / "copy of a drive.mcap"))
    assert grouped(tmp_path) == [
        [odd.name],
        [path.name for path in named.files],
        [later.mcap.name],
        [path.name for path in other.files],
    ]


def test_numbers_alone_do_not_make_a_drive(tmp_path: Path) -> None:
    """monday_1 and monday_2 may be two drives; they do not adjoin."""
    for number, start_s in ((1, 0), (2, 600)):
        made = drive(tmp_path / "made", seconds=1, start_ns=DriveOptions().start_ns + start_s * 1_000_000_000)
        shutil.move(made.mcap, tmp_path / f"monday_{number}.mcap")
    assert grouped(tmp_path) == [["monday_1.mcap"], ["monday_2.mcap"]]


@pytest.mark.parametrize("metadata", [True, False])
def test_a_missing_file_is_said_and_leaves_a_gap(bag: Recording, tmp_path: Path, metadata: bool) -> None:
    lost = copied(bag, tmp_path / "bag", metadata=metadata)[5]
    lost.unlink()
    done = convert([tmp_path / "bag"], tmp_path / "out", PLAIN)
    assert len(done.report["sequences"]) == 1
    said = " ".join(done.report["notes"])
    expected = f"lists {lost.name}, which is not there" if metadata else "file 5 is missing, a gap of 0.5 s"
    assert expected in said
    truth = Truth.read(bag.truth)
    topic = "/camera/h264"
    logs = [log for _, _, log in truth.data["messages"][topic]]
    start_ns = truth.data["start_ns"]
    # The file held half a second from 2.5 s on; pictures go on at the next key frame.
    kept = sum(not 2.5 <= (log - start_ns) / 1e9 < 3.1 for log in logs)
    assert kept - 1 <= done.report["samples"] <= kept + 1


def test_a_damaged_file_of_a_drive_is_left_out_and_the_rest_is_one(bag: Recording, tmp_path: Path) -> None:
    made = copied(bag, tmp_path / "bag")
    made[-1].write_bytes(b"")
    done = convert([tmp_path / "bag"], tmp_path / "out", PLAIN)
    assert [left["file"] for left in done.report["left_out"]] == [made[-1].name]
    assert len(done.report["sequences"]) == 1
    with pytest.raises(RecordingError, match="is empty"):
        convert(made, tmp_path / "other", PLAIN)


def test_a_split_cut_by_power_loss_is_still_the_last_of_its_drive(bag: Recording, tmp_path: Path) -> None:
    last = copied(bag, tmp_path, metadata=False)[-1]
    data = last.read_bytes()
    last.write_bytes(data[: len(data) * 2 // 3])
    assert grouped(tmp_path) == [[path.name for path in bag.files]]


def test_a_drive_whose_camera_begins_in_a_later_file_is_whole(tmp_path: Path) -> None:
    made = drive(tmp_path / "made", seconds=4, splits=4, silent={"camera": ((0.0, 2.0),)})
    done = convert([made.mcap.parent], tmp_path / "out", PLAIN)
    assert done.report["left_out"] == []
    assert done.report["samples"] == 20


def test_progress_goes_through_the_files(
    bag: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgefirst_ros.offline.convert.PROGRESS_EVERY_S", 0.0)
    seen: list[Position] = []
    convert([bag.mcap.parent], tmp_path / "out", PLAIN, on_progress=seen.append)
    assert list(dict.fromkeys(position.file for position in seen)) == [path.name for path in bag.files]
    # Twice: for the rig's motion, and for the datasets.
    total = 2 * sum(path.stat().st_size for path in bag.files)
    assert {position.bytes_total for position in seen} == {total}
    assert all(a.bytes_read <= b.bytes_read for a, b in pairwise(seen))
    assert total * 0.9 < seen[-1].bytes_read <= total


def test_info_says_which_files_are_one_drive(bag: Recording) -> None:
    said = CliRunner().invoke(app, ["info", str(bag.mcap.parent), "--json"])
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    names = [path.name for path in bag.files]
    assert [line["file"] for line in lines] == names
    assert all(line["drive"] == names for line in lines)
    assert "_0.mcap to" in (text := CliRunner().invoke(app, ["info", *map(str, bag.files[:2])]).stdout)
    assert "2 files of one drive" in text


def test_info_says_what_it_can_before_it_fails_at_a_file(bag: Recording, tmp_path: Path) -> None:
    copied(bag, tmp_path)[2].write_bytes(b"")
    said = CliRunner().invoke(app, ["info", str(tmp_path), "--json"])
    assert said.exit_code == 2
    assert len(said.stdout.splitlines()) == 12
    assert "_2.mcap: is empty" in json.loads(said.stdout.splitlines()[-1])["error"]


@pytest.mark.long
def test_a_recording_ordered_by_topic_gives_what_one_by_time_does(whole: Recording, tmp_path: Path) -> None:
    ordered = drive(tmp_path / "ordered", order="topic")
    convert([whole.mcap], tmp_path / "whole", EVERY_FORMAT)
    done = convert([ordered.mcap], tmp_path / "out", EVERY_FORMAT)
    assert files(tmp_path / "whole") == files(tmp_path / "out") != {}
    assert any("read in order of receipt" in note for note in done.report["notes"])
    (recording,) = done.report["recordings"]
    assert recording["sorted"]
    assert recording["displaced"]["/lidar/points"]["messages"] == pytest.approx(60, abs=3)
    assert not any("stored after" in text for text in done.report["warnings"])


def test_what_cannot_be_put_in_order_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = drive(tmp_path / "ordered", order="topic")
    monkeypatch.setattr("edgefirst_ros.sources.mcap.MAX_OPEN_BYTES", 10_000)
    arguments = ["convert", str(ordered.mcap), "-o", str(tmp_path / "out"), "--strict", "--json"]
    done = CliRunner().invoke(app, arguments)
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    warning = next(text for text in report["warnings"] if "are stored after later ones" in text)
    assert re.search(r"of /lidar/points by up to [56]\.\d s", warning)
    assert not report["recordings"][0]["sorted"]
