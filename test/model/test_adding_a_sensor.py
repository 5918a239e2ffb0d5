"""A sensor is a module and a line, and one to store it: examples/adding-a-sensor.md, done to a copy."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from mcap_ros2._dynamic import serialize_dynamic
from places import REPOSITORY, tool
from recorded import record
from test_architecture import MAY_IMPORT

from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.registry import DECODERS, decoder
from edgefirst_ros.model.sensors import SENSORS, Role
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording

TEXT = (REPOSITORY / "examples" / "adding-a-sensor.md").read_text(encoding="utf-8")
MODULE, LINE, STORED = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SCHEMA = "nav_msgs/msg/Path"
SMALL: dict[str, Any] = {"fps": 5, "width": 160, "height": 96, "lidar_points": 64, "cube_hz": 0}


@pytest.fixture
def extended(tmp_path: Path) -> Path:
    """The folder of a copy of the package that has the module and the lines."""
    package = tmp_path / "extended" / "edgefirst_ros"
    shutil.copytree(REPOSITORY / "edgefirst_ros", package)
    (package / "model" / "path.py").write_text(MODULE, encoding="utf-8")
    for place, last, line in (
        ("model/sensors.py", '    FUSION_LIDAR = "fusion_lidar", COMPANION, _CLOUD\n', LINE),
        ("formats/edgefirst/store/journal.py", '"depth", "depth.png", RawImage),\n', STORED),
    ):
        text = (package / place).read_text()
        assert text.count(last) == line.count("\n") == 1
        (package / place).write_text(text.replace(last, last + line))
    return package.parent


def run(folder: Path, code: str, *words: str) -> str:
    """What the code prints with the folder's package in place of this one."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def definition_text() -> str:
    """As a recorder writes it."""
    parts = [
        "std_msgs/Header header\ngeometry_msgs/PoseStamped[] poses\n",
        "MSG: geometry_msgs/PoseStamped\nstd_msgs/Header header\ngeometry_msgs/Pose pose\n",
        f"MSG: std_msgs/Header\n{definition('std_msgs/Header')}",
        f"MSG: geometry_msgs/Pose\n{definition('geometry_msgs/Pose')}",
    ]
    return ("=" * 80 + "\n").join(parts)


def recording(folder: Path) -> Path:
    """A drive with a path of three places at every picture."""
    drive = simulate(folder / "drive", DriveOptions(seconds=1.0, clock="realtime", **SMALL))
    content = list(McapRecording(drive.mcap).messages())
    text = definition_text()
    encode = serialize_dynamic(SCHEMA, text)[SCHEMA]
    for picture in [m for m in content if m.topic == "/camera/h264"]:
        stamp = {"sec": picture.receive_ns // 10**9, "nanosec": picture.receive_ns % 10**9}
        header, place = {"stamp": stamp, "frame_id": "map"}, dict.fromkeys("xyz", 1.0)
        pose = {"header": header, "pose": {"position": place, "orientation": {**place, "w": 1.0}}}
        data = bytes(encode({"header": header, "poses": [pose] * 3}))
        content.append(picture._replace(topic="/plan", schema=SCHEMA, definition=text, data=data))
    content.sort(key=lambda m: m.receive_ns)
    return record(folder / "maivin-1_2026_05_01_09_00_00.mcap", content)


def test_a_module_and_two_lines_add_a_sensor(tmp_path: Path, extended: Path) -> None:
    mcap, config, out = recording(tmp_path), tmp_path / "config.yaml", tmp_path / "out"
    config.write_text(json.dumps({"topics": {"path": {"topic": "/plan"}}}))
    main = "from edgefirst_ros.__main__ import main; main()"
    options = ["-o", f"{out}", "--format", ",".join(FORMATS), "--config", f"{config}", "--json"]
    account = json.loads(run(extended, main, "convert", f"{mcap}", *options))["topics"]["/plan"]
    assert account["received"] == account["written"] == 5, account["reasons"]
    assert account["written_to"].keys() == {"edgefirst"}
    assert "ERROR" not in run(extended, main, "check", f"{out}")
    read = "import edgefirst_ros; print([len(s['path']) for s in edgefirst_ros.open(sys.argv[1])])"
    assert run(extended, read, f"{out / 'edgefirst'}") == "[3, 3, 3, 3, 3]\n"


def test_it_breaks_no_ceiling(extended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = tool("size")
    monkeypatch.setattr(size, "PACKAGE", extended / "edgefirst_ros")
    assert {room: lines for room, lines in size.code().items() if lines > size.CEILINGS[room]} == {}
    arrows = {room: line.split() for room, line in MAY_IMPORT.items()}
    assert {each: most for each, most in size.measured(arrows).items() if most > size.MOST[each]} == {}


@pytest.mark.parametrize("role", Role)
def test_every_sensor_has_decoders_and_definitions(role: Role) -> None:
    for schema in SENSORS[role].decoders:
        assert callable(decoder(schema))
        assert definition(schema)


def test_a_type_is_decoded_alike_whatever_its_role() -> None:
    for sensor in SENSORS.values():
        for schema, place in sensor.decoders.items():
            assert DECODERS[schema.replace("/msg/", "/")] == place
