"""What ``check`` calls an error of motion, ``convert`` says: on the terminal, in the report, when strict."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

from recorded import messages, record
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.sample import RawMessage

FORMATS = "edgefirst,ncore,l5kit"
_ORIENTATION = -8 * (4 + 9 + 3 + 9 + 3 + 9)
"""Where it is in a message, from its end."""


def turned(message: RawMessage) -> RawMessage:
    """Half a turn about the vertical."""
    x, y, z, w = struct.unpack_from("<4d", message.data, len(message.data) + _ORIENTATION)
    data = bytearray(message.data)
    struct.pack_into("<4d", data, len(data) + _ORIENTATION, -y, x, w, -z)
    return message._replace(data=bytes(data))


def faster(message: RawMessage) -> RawMessage:
    """Too fast, as a gyroscope's damaged byte may have it."""
    data = bytearray(message.data)
    struct.pack_into("<d", data, len(data) + _ORIENTATION + 13 * 8, 900.0)
    return message._replace(data=bytes(data))


def converted(
    folder: Path, change: Callable[[RawMessage], RawMessage], *words: str
) -> tuple[int, str, Path, list[str]]:
    content = messages(seconds=3.0)
    wrong = [n for n, each in enumerate(content) if each.topic.endswith("imu")][60:90]
    for n in wrong:
        content[n] = change(content[n])
    path = record(folder / "host_2026_05_01_09_00_00.mcap", content)
    ran = CliRunner().invoke(
        app, ["convert", str(path), "-o", str(folder / "out"), "--format", FORMATS, *words]
    )
    (report,) = (folder / "out").rglob("capture_report.json")
    return ran.exit_code, ran.output, folder / "out", json.loads(report.read_text())["warnings"]


def check(output: Path) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["check", str(output)])
    return ran.exit_code, ran.output


def test_a_turn_that_no_vehicle_makes_is_said_by_convert_as_by_check(tmp_path: Path) -> None:
    code, said, output, warnings = converted(tmp_path, turned, "--strict")
    refused, found = check(output)
    assert refused == 1
    for name in ("ncore", "l5kit"):
        (warning,) = (each for each in warnings if each.startswith(f"{name}: "))
        assert "the rig moves as no vehicle can (impossible turn" in warning
        assert f"FAIL: {name}/" in found
    assert not any(each.startswith("edgefirst: ") for each in warnings)
    assert "OK: edgefirst/" in found
    assert code == 1
    assert "the rig moves as no vehicle can" in " ".join(said.split())


def test_without_it_nothing_is_said(tmp_path: Path) -> None:
    code, said, output, warnings = converted(tmp_path, lambda message: message)
    assert (code, check(output)[0], warnings) == (0, 0, [])
    assert "no vehicle" not in " ".join(said.split())


def test_what_no_sensor_measures_is_counted_with_a_reason(tmp_path: Path) -> None:
    code, said, output, warnings = converted(tmp_path, faster, "--strict")
    assert "an angular velocity in rad/s of more than 100, which nothing measures" in " ".join(said.split())
    assert (code, check(output)[0]) == (1, 0)
    assert not any("no vehicle" in each for each in warnings)
