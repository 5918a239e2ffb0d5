"""One frame of N in formats of samples and of measurements, and the bytes that each topic sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from livedrive import SEQUENCE, drive, messages
from ncoreread import Sequence
from recorded import record
from written import Written, exif_time_ns

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.offline.convert import convert

EVERY = 3


def test_one_of_n_pictures_is_in_every_format_and_everything_else_in_ncore(tmp_path: Path) -> None:
    recording = record(tmp_path / f"{SEQUENCE}.mcap", messages())
    values = {"formats": ["edgefirst", "ncore"], "ego": {"smoothing": "lag"}}
    taken = {}
    for every in (1, EVERY):
        out = tmp_path / str(every)
        report = convert(
            [recording], out, build_config({**values, "select": {"every": every}}), dataset="d"
        ).report
        sequence = Sequence(out / "ncore" / SEQUENCE)
        pictures = Written(out / "edgefirst" / "d").of_kind("camera.jpeg")
        taken[every] = [start for start, _ in sequence.frames("cameras/camera_optical")]
        assert taken[every] == sorted(exif_time_ns(data) // 1000 for data in pictures.values())
        assert report["samples"] == len(taken[every])
        # What was not selected is counted, and is not lost.
        camera = report["topics"]["/camera/h264"]
        skipped = camera["reasons"].get("skipped", {})
        assert skipped == ({Reason.NOT_SELECTED: camera["received"] - len(taken[every])} if every > 1 else {})
        lidar = report["topics"]["/lidar/points"]
        assert len(sequence.frames("lidars/lidar")) == lidar["received"] == lidar["written"]
    assert taken[EVERY] == taken[1][::EVERY]
    assert len(taken[EVERY]) > 10


@pytest.mark.parametrize("every", [1, EVERY])
def test_bytes_are_those_that_each_topic_sent(tmp_path: Path, every: int) -> None:
    sent: Counter[str] = Counter()
    for message in messages():
        sent[message.topic] += len(message.data)
    report = convert(
        [drive()], tmp_path, build_config({"select": {"every": every}, "formats": ["edgefirst"]})
    ).report
    assert {topic: account["bytes"] for topic, account in report["topics"].items()} == sent
