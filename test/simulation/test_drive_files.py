"""A drive in several files, and in the order of its topics."""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pytest
import yaml
from faulty import FaultyOptions, faulty_options, simulate
from mcap.reader import make_reader
from played import Played, play, small

from edgefirst_ros.model.errors import ConfigError, OutputExists, WriteError
from edgefirst_ros.simulation import DriveOptions, drive
from edgefirst_ros.simulation.options import drive_options

Make = Callable[..., Played]


def records(played: Played, topic: str) -> list[tuple[int, int, bytes]]:
    return [(e.record.sequence, e.record.log_time, e.record.data) for e in played.topics[topic]]


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("names", ["rosbag2", "device"])
def test_files_of_a_split_drive_hold_what_one_file_holds(tmp_path: Path, names: str) -> None:
    whole = play(simulate(tmp_path / "whole", small(seconds=6.0)))
    made = simulate(tmp_path / "split", small(seconds=6.0, splits=3, split_names=names))
    split = play(made)
    assert split.order == whole.order
    assert all(records(split, topic) == records(whole, topic) for topic in whole.topics)
    stem = "maivin-sim_2026_05_01_09_00_00"
    if names == "device":
        assert [path.name for path in made.files] == [
            f"maivin-sim_2026_05_01_09_00_0{n}.mcap" for n in (0, 2, 4)
        ]
    else:
        assert [path.name for path in made.files] == [f"{stem}_{n}.mcap" for n in range(3)]
        bag = yaml.safe_load((made.mcap.parent / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
        assert bag["relative_file_paths"] == [path.name for path in made.files]
        assert bag["message_count"] == sum(f["message_count"] for f in bag["files"]) == len(whole.order)
    spans = []
    for path in made.files:
        with path.open("rb") as stream:
            summary = make_reader(stream).get_summary()
        spans.append((summary.statistics.message_start_time, summary.statistics.message_end_time))
    assert all(0 <= later[0] - earlier[1] < 1e9 for earlier, later in pairwise(spans))
    with pytest.raises(OutputExists):
        simulate(tmp_path / "split", small(seconds=6.0, splits=3, split_names=names))


def test_a_full_disk_is_said_with_the_file_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(stream: BinaryIO, *_: object) -> None:
        stream.write(b"begun")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(drive, "_write", fill)
    with pytest.raises(WriteError, match=r"maivin\S+\.mcap: cannot be written: No space left on device"):
        drive.simulate(tmp_path, DriveOptions(seconds=1))
    assert not list(tmp_path.iterdir())


def test_a_drive_ordered_by_topic_has_a_topic_a_chunk(tmp_path: Path) -> None:
    whole = play(simulate(tmp_path / "whole", small()))
    made = simulate(tmp_path / "ordered", small(order="topic"))
    ordered = play(made)
    assert all(records(ordered, topic) == records(whole, topic) for topic in whole.topics)
    changes = sum(a != b for a, b in pairwise(ordered.order))
    assert changes == len(whole.topics) - 1
    with made.mcap.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert {len(chunk.message_index_offsets) for chunk in summary.chunk_indexes} == {1}


def test_options_are_read_from_plain_values() -> None:
    read = faulty_options({"gps": {"sigma_m": [1, 2]}, "silent": {"radar": [[1, 2.5]]}, "stops": [[3, 4]]})
    assert isinstance(read, FaultyOptions)
    assert (read.gps.sigma_m, read.silent, read.stops) == (
        (1.0, 2.0),
        {"radar": ((1.0, 2.5),)},
        ((3.0, 4.0),),
    )
    with pytest.raises(ConfigError, match="secondz: no such option of a drive; did you mean seconds"):
        drive_options({"secondz": 3})
    with pytest.raises(ConfigError, match=r"gps\.sigma: no such option"):
        faulty_options({"gps": {"sigma": 3}})
    with pytest.raises(ConfigError, match="seed is -1, must be"):
        drive_options({"seed": -1})
