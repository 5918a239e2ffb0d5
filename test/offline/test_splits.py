"""Recordings that are the files of one drive, and those that are not."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from faulty import FaultyOptions, Truth
from resized import recorded

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import RecordingError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.offline.drives import find_drives, find_files
from edgefirst_ros.offline.inputs import find_drive_files
from edgefirst_ros.simulation import Recording
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import excerpt_of

DRIVE = {
    "seconds": 6, "fps": 10, "width": 160, "height": 90, "lidar_points": 64, "radar_hz": 5, "cube_hz": 0,
    "imu_hz": 20, "model_hz": 5,
}  # fmt: skip
EVERY_FORMAT = build_config({"formats": ["edgefirst", "ncore", "l5kit"]})
PLAIN = build_config({"topics": {"model": {"required": "never"}, "radar_targets": {"required": "never"}}})


def drive(folder: Path, **more: Any) -> Recording:  # noqa: ANN401
    return simulate(folder, FaultyOptions(**{**DRIVE, **more}))


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


def by_sensor(recording: Path, folder: Path, name: str = "{}/{}_0.mcap") -> list[Path]:
    """A bag for each first part of a topic's name, each with the transforms."""
    found: dict[str, list[RawMessage]] = {}
    messages = [*McapRecording(recording).messages()]
    for message in messages:
        found.setdefault(message.topic.split("/")[1], []).append(message)
    common = found.pop("tf_static")
    made = []
    for sensor, own in found.items():
        made.append(folder / name.format(sensor, sensor))
        made[-1].parent.mkdir(parents=True, exist_ok=True)
        recorded(made[-1], sorted([*own, *common], key=lambda message: message.receive_ns))
    return made


def test_a_bag_for_each_sensor_gives_the_bytes_of_one_for_all(whole: Recording, tmp_path: Path) -> None:
    one = tmp_path / "camera_0.mcap"  # whose host and sequence are called as the first bag's
    shutil.copy(whole.mcap, one)
    convert([one], tmp_path / "whole", EVERY_FORMAT, dataset="d")
    bags = by_sensor(whole.mcap, tmp_path / "bags")
    assert len(bags) > 4
    assert [sorted(each) for each in grouped(tmp_path / "bags")] == [sorted(path.name for path in bags)]
    done = convert([tmp_path / "bags"], tmp_path / "out", EVERY_FORMAT, dataset="d")
    assert files(tmp_path / "whole") == files(tmp_path / "out") != {}
    assert any(f"{len(bags)} files of one drive" in note for note in done.report["notes"])
    excerpt = excerpt_of("2", "4")
    for place, name in ((one, "whole"), (tmp_path / "bags", "bags")):
        convert([place], tmp_path / "part" / name, EVERY_FORMAT, dataset="d", excerpt=excerpt)
    assert files(tmp_path / "part" / "whole") == files(tmp_path / "part" / "bags") != {}


def test_bags_of_two_robots_or_times_stay_apart(whole: Recording, tmp_path: Path) -> None:
    bags = by_sensor(whole.mcap, tmp_path / "one", "{}.mcap")
    assert len(find_drive_files([tmp_path / "one"]).drives) == 1
    by_sensor(whole.mcap, tmp_path / "two", "{}.mcap")
    assert [len(each) for each in grouped(tmp_path)] == [len(bags), len(bags)]
    both = tmp_path / "both"
    both.mkdir()
    for number, path in enumerate((*bags, *bags)):
        shutil.copy(path, both / f"{'ab'[number // len(bags)]}-{path.name}")
    assert [len(each) for each in grouped(both)] == [1] * 2 * len(bags)
    later = [m._replace(receive_ns=m.receive_ns + 3600 * 10**9) for m in McapRecording(bags[0]).messages()]
    assert grouped(recorded(tmp_path / "later.mcap", later), *bags[1:])[0] == ["later.mcap"]
