"""Recording over Zenoh, as processes over loopback: own bytes again, also after a wrong configuration."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml
from livedrive import FORMATS, HOST, SEQUENCE, drive, messages, output_files
from typer.testing import CliRunner
from zenoh_loopback import PATIENT, Process, await_condition, free_endpoint, started

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import MAIVIN_TOPICS, build_config
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.player import Names, keys_of
from edgefirst_ros.sources.session import is_usable
from edgefirst_ros.sources.zenoh import UnusedTopics, wide_keys
from edgefirst_ros.sources.zenohlink import Outlet, open_session


def again(recording: Path, output: Path, *options: str) -> dict[str, bytes]:
    done = CliRunner().invoke(app, ["convert", str(recording), "-o", str(output), *options])
    assert done.exit_code == 0, done.output
    return output_files(output)


def played(process: Process, endpoint: str, what: list[RawMessage], recording: Path) -> None:
    """Be the device until all that it sent is on disk, then end the capture."""
    with open_session([], [endpoint]) as session:
        keys = keys_of(McapRecording(drive()).topics(), Names.HOST, HOST)
        outlets = {topic: Outlet(session, key) for topic, key in keys.items()}
        await_condition("subscribers", lambda: all(outlet.wanted for outlet in outlets.values()))
        for message in what:
            outlets[message.topic].put(message.schema, message.data)
        await_condition(
            "all on disk",
            lambda: recording.exists() and len(list(McapRecording(recording).messages())) == len(what),
        )
        process.send(signal.SIGINT)
        assert process.wait() == 130, process.err


def test_a_recording_converts_into_the_sessions_own_bytes(tmp_path: Path) -> None:
    """In every format, with names from this computer's clock; a busy machine sheds nothing."""
    endpoint, live = free_endpoint(), tmp_path / "live"
    (tmp_path / "config.yaml").write_text("overload: {latency_s: 0}\n")
    options = (
        "--config",
        tmp_path / "config.yaml",
        "--format",
        ",".join(FORMATS),
        "--record",
        "--session",
        "s",
    )
    command = ("capture", "--zenoh", endpoint, "-o", live, *options)
    with started(tmp_path / "capture", *command, command=PATIENT) as process:
        played(process, endpoint, list(messages()), live / "recordings" / "s.mcap")
    assert str(live / "recordings" / "s.mcap") in process.out.splitlines()
    made = {n: data for n, data in output_files(live).items() if not n.startswith("recordings/")}
    assert again(live / "recordings" / "s.mcap", tmp_path / "again") == made


@pytest.mark.long
def test_a_wrong_configuration_costs_nothing_but_a_conversion(tmp_path: Path) -> None:
    """The camera's topic misspelt, the radar's turned off: the right one gives all of the drive."""
    clocks = {name: {"clock": "stamp"} for name in MAIVIN_TOPICS}
    right = {"formats": list(FORMATS), "topics": clocks, "ego": {"smoothing": "lag"}, "min_free_mb": 0}
    mistakes = {"camera": {"topic": "camera/h246"}, "radar_targets": {"topic": ""}}
    (tmp_path / "right.yaml").write_text(yaml.safe_dump(right))
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({**right, "topics": {**clocks, **mistakes}}))
    endpoint, live = free_endpoint(), tmp_path / "live"
    options = ("--config", tmp_path / "wrong.yaml", "--record", "--session", SEQUENCE, "--host", HOST)
    recording = live / "recordings" / f"{SEQUENCE}.mcap"
    command = ("capture", "--zenoh", endpoint, "-o", live, *options)
    with started(tmp_path / "capture", *command, command=PATIENT) as process:
        played(process, endpoint, list(messages()), recording)
    convert([drive()], tmp_path / "offline", build_config(right), dataset="d")
    found = again(recording, tmp_path / "again", "--config", str(tmp_path / "right.yaml"), "--name", "d")
    assert found == output_files(tmp_path / "offline")


@pytest.mark.parametrize(
    ("namespace", "key", "expected"),
    [
        ("", "rt/camera/h264", "/camera/h264"),
        ("", "camera/h264", "/camera/h264"),
        ("", "maivin/camera/h264", "/camera/h264"),
        ("", "other/camera/h264", None),
        ("", "maivin/foo/bar", "/foo/bar"),
        ("", "maivin/imu", None),
        ("", "maivin/camera/info", "/camera/info"),
        ("maivin", "maivin/camera/h264", "/camera/h264"),
        ("maivin", "maivin/imu", None),
        ("rt", "rt/camera/h264", "/camera/h264"),
        ("rt", "camera/h264", "/camera/h264"),
        ("rt", "rt/imu", None),
        ("rt", "imu", None),
        ("rt", "maivin/camera/h264", None),
        ("", "exact/name", None),
    ],
)
def test_names_of_what_nothing_uses(namespace: str, key: str, expected: str | None) -> None:
    unused = UnusedTopics(
        ["imu", "/exact/name"], namespace, lambda *_: True, lambda prefix: prefix != "other"
    )
    found = unused.topic(key, "application/cdr;foo_msgs/Foo", "maivin")
    assert found == (None if expected is None else (expected, "foo_msgs/msg/Foo"))
    assert unused.topic(key, "text/plain", "maivin") is None
    assert wide_keys(namespace) == (("maivin/**",) if namespace == "maivin" else ("**",))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sensor_msgs/msg/PointCloud2", True),
        ("sensor_msgs/PointCloud2", True),
        ("sensor_msgs/msg/Image", False),
        ("rcl_interfaces/msg/Log", False),
    ],
)
def test_what_is_recorded_besides(kind: str, expected: bool) -> None:
    assert is_usable("/front/any", kind) is expected
