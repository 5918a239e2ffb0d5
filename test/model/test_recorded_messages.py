from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader

from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import RadarCube
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import Datum, RawMessage


@pytest.fixture(scope="module")
def recorded(recording: Path) -> dict[str, list[Stamped[Datum]]]:
    found: dict[str, list[Stamped[Datum]]] = defaultdict(list)
    with recording.open("rb") as stream:
        for schema, channel, message in make_reader(stream).iter_messages(log_time_order=False):
            assert schema is not None
            raw = RawMessage(
                channel.topic,
                schema.name,
                message.data,
                message.log_time,
                message.publish_time,
                0,
                schema.data.decode(),
            )
            found[channel.topic].append(decode(raw))
    return found


def test_every_message_of_the_recording_decodes(
    recorded: dict[str, list[Stamped[Datum]]], truth: dict[str, Any]
) -> None:
    assert {topic: len(messages) for topic, messages in recorded.items()} == truth["counts"]


def test_stamps_are_those_that_were_sent(
    recorded: dict[str, list[Stamped[Datum]]], truth: dict[str, Any]
) -> None:
    for topic, messages in recorded.items():
        assert [one.stamp_ns for one in messages] == [stamp for _, stamp, _ in truth["messages"][topic]]


def test_cubes_and_clouds_are_bit_exact(
    recorded: dict[str, list[Stamped[Datum]]], truth: dict[str, Any]
) -> None:
    for topic, hashes in truth["sha256"].items():
        found = []
        for message in recorded[topic]:
            assert isinstance(message.datum, RadarCube | PointCloud)
            bulk = message.datum.cube if isinstance(message.datum, RadarCube) else message.datum.xyz()
            found.append(hashlib.sha256(bulk.astype(bulk.dtype.newbyteorder("<")).tobytes()).hexdigest())
        assert found == hashes


def test_video_is_what_the_recording_says(
    recorded: dict[str, list[Stamped[Datum]]], truth: dict[str, Any]
) -> None:
    for topic, video in truth["video"].items():
        assert {one.datum.codec for one in recorded[topic]} == {video["format"]}  # type: ignore[union-attr]
