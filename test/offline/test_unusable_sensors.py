"""A sensor that cannot be read is named with its reason, and no drive that lacks one is called good."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record
from robots import instead_of, seconds, turtlebot

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.suggest import Look, Suggestion

CAMERA, TWIN = "/camera/image_raw", "/camera/image_raw/theora"
WHY = "it is none of JPEG"


@pytest.fixture(scope="module")
def unread() -> list[RawMessage]:
    """A robot whose pictures are of an encoding that nobody knows."""
    return [_unread(message) if message.topic == CAMERA else message for message in turtlebot(2.0).content]


def _unread(message: RawMessage) -> RawMessage:
    header = {"stamp": seconds(message.receive_ns), "frame_id": "camera"}
    values = {"header": header, "format": "x", "data": b"no picture at all"}
    return instead_of(message, CAMERA, "sensor_msgs/CompressedImage", values)


def _suggested(content: list[RawMessage]) -> Suggestion:
    look = Look()
    for message in content:
        look.feed(message)
    return look.suggestion("robot")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        app([str(each) for each in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def test_the_verdict_and_the_table_name_it_and_strict_fails(
    unread: list[RawMessage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record(tmp_path / "robot.mcap", unread)
    code, said = _run(capsys, "convert", recording, "-o", tmp_path / "out", "--strict", "--no-report")
    assert code == 1
    verdict = next(line for line in said.splitlines() if line.startswith("poor"))
    assert CAMERA.strip("/") in verdict
    assert WHY in verdict
    assert "no use for sensor_msgs/msg/CompressedImage" not in said
    assert WHY in _run(capsys, "convert", recording, "--dry-run", "-o", tmp_path / "none")[1]
    assert WHY in _run(capsys, "info", recording)[1]


def test_another_encoding_of_a_camera_that_is_read_is_no_loss(unread: list[RawMessage]) -> None:
    packets = [each._replace(topic=TWIN, schema="theora_image_transport/msg/Packet") for each in unread]
    twins = [each for each in packets if len(each.data) < 200]
    assert {*_suggested([*unread, *twins]).unusable} == {CAMERA, TWIN}
    assert not _suggested([*turtlebot(2.0).content, *twins]).unusable


def test_the_refusal_says_of_each_candidate_why_not(unread: list[RawMessage]) -> None:
    with pytest.raises(ConfigError, match=f"no camera and no lidar.*{CAMERA} .*{WHY}"):
        _suggested([each for each in unread if each.topic != "/scan"])
