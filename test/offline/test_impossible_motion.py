"""Motion that no vehicle makes, ``convert`` says: on the terminal, in the report, when strict."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path

import polars as pl
from recorded import messages, record
from typer.testing import CliRunner
from wire_encoder import encode

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.sample import RawMessage

FORMATS = "edgefirst,ncore,l5kit"
_ORIENTATION = -8 * (4 + 9 + 3 + 9 + 3 + 9)
"""Where it is in a message, from its end."""


def faster(message: RawMessage) -> RawMessage:
    """Too fast, as a gyroscope's damaged byte may have it."""
    data = bytearray(message.data)
    struct.pack_into("<d", data, len(data) + _ORIENTATION + 13 * 8, 900.0)
    return message._replace(data=bytes(data))


def odometry(imu: RawMessage, x_m: float) -> RawMessage:
    """Straight ahead, at the time of an IMU message."""
    seconds, rest = struct.unpack_from("<iI", imu.data, 4)
    values = {
        "header": {"stamp": {"sec": seconds, "nanosec": rest}, "frame_id": "odom"},
        "child_frame_id": "base_link",
        "pose": {"pose": {"position": {"x": x_m}, "orientation": {"w": 1}}, "covariance": [0.01] * 36},
    }
    schema = "nav_msgs/Odometry"
    data = encode(schema, values)
    kind = {"topic": "/odom", "schema": "nav_msgs/msg/Odometry", "definition": definition(schema)}
    return imu._replace(data=data, **kind)


def converted(folder: Path, content: list[RawMessage], *words: str) -> tuple[int, str, Path, list[str]]:
    path = record(folder / "host_2026_05_01_09_00_00.mcap", content)
    settings = folder / "settings.yaml"
    settings.write_text("topics: {odometry: {role: odometry, topic: odom}}")
    arguments = ["convert", str(path), "-o", str(folder / "out"), "--config", str(settings)]
    ran = CliRunner().invoke(app, [*arguments, "--format", FORMATS, *words])
    (report,) = (folder / "out").rglob("capture_report.json")
    return ran.exit_code, ran.output, folder / "out", json.loads(report.read_text())["warnings"]


def driven(jump_m: float = 0.0) -> list[RawMessage]:
    """A drive by odometry, at 4 m/s; from its middle on it is elsewhere."""
    content = []
    for each in messages(seconds=3.0, gps_hz=0.0):
        content.append(each)
        if each.topic.endswith("imu"):
            number = len([m for m in content if m.topic == "/odom"])
            content.append(odometry(each, 0.08 * number + jump_m * (number > 75)))
    return content


def check(output: Path) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["check", str(output)])
    return ran.exit_code, ran.output


def test_a_speed_that_no_vehicle_has_is_said(tmp_path: Path) -> None:
    code, said, output, warnings = converted(tmp_path, driven(240.0), "--strict")
    assert check(output)[0] == 0, "the datasets hold what the recording does"
    for name in ("ncore", "l5kit"):
        (warning,) = (each for each in warnings if each.startswith(f"{name}: ") and "no vehicle" in each)
        assert "the rig moves as no vehicle can (impossible speed once" in warning
    assert code == 1
    assert "the rig moves as no vehicle can" in " ".join(said.split())


def test_without_it_nothing_is_said(tmp_path: Path) -> None:
    code, said, output, warnings = converted(tmp_path, driven())
    assert (code, check(output)[0]) == (0, 0)
    assert not any("no vehicle" in each for each in warnings)
    assert "no vehicle" not in " ".join(said.split())


def test_what_no_sensor_measures_is_counted_with_a_reason(tmp_path: Path) -> None:
    content = messages(seconds=3.0)
    wrong = [n for n, each in enumerate(content) if each.topic.endswith("imu")][60:90]
    for n in wrong:
        content[n] = faster(content[n])
    code, said, output, warnings = converted(tmp_path, content, "--strict", "--verbose")
    assert "an angular velocity in rad/s of more than 100, which nothing measures" in " ".join(said.split())
    assert (code, check(output)[0]) == (1, 0)
    assert not any("no vehicle" in each for each in warnings)


def test_two_publishers_of_one_topic_are_said(tmp_path: Path) -> None:
    content = messages(seconds=3.0)
    for n, each in [(n, each) for n, each in enumerate(content) if each.topic.endswith("lidar/points")][::2]:
        content[n] = each._replace(data=each.data.replace(b"lidar\0", b"other\0", 1))
    _, said, output, warnings = converted(tmp_path, content)
    assert "lidar/points comes in the frames other and lidar: two publishers" in " ".join(said.split())
    assert any("lidar/points comes in the frames" in each for each in warnings)
    assert check(output)[0] == 0


def test_two_odometers_on_one_topic_leave_no_good_drive(tmp_path: Path) -> None:
    content = driven()
    at = [n for n, each in enumerate(content) if each.topic == "/odom"]
    for number, n in enumerate(at[1::2]):
        content[n] = odometry(content[n], 0.08 * number + 110.0)
    _, said, output, _ = converted(tmp_path, content)
    assert re.search(r"fair +the odometry leaps by \d+ m from one message to the next", said)
    assert check(output)[0] == 0


def test_fixes_without_any_altitude_have_a_place(tmp_path: Path) -> None:
    content = messages(seconds=6.0, gps_hz=5.0)
    for n, each in enumerate(content):
        if each.topic.endswith("gps"):
            data = bytearray(each.data)
            struct.pack_into("<d", data, len(data) - 81, math.nan)
            content[n] = each._replace(data=bytes(data))
    _, said, output, _ = converted(tmp_path, content, "--verbose")
    assert "no fix has an altitude: the rig is taken to be at 0 m" in " ".join(said.split())
    (table,) = output.rglob("*.arrow")
    places = pl.read_ipc(table.read_bytes())["location"].drop_nulls().to_list()
    assert len(places) > 10
