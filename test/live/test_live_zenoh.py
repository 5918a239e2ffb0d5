"""Live without ROS, as processes over loopback: live equals replay, and whatever ends a capture."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from livedrive import FORMATS, HOST, SEQUENCE, check_sums, drive, messages, output_files
from written import Written
from zenoh_loopback import COMMAND, LIMIT_S, PATIENT, Process, await_condition, free_endpoint, started

from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import MAIVIN_TOPICS, build_config
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.player import Names, keys_of
from edgefirst_ros.sources.zenohlink import Outlet, open_session

NAME = "same"
STAMPS = {
    "min_free_mb": 0,
    "formats": list(FORMATS),
    "topics": {name: {"clock": "stamp"} for name in MAIVIN_TOPICS},
    "ego": {"smoothing": "lag"},
    "overload": {"latency_s": 0},
}
"""Times are the stamps, so that it does not matter when messages come, poses do not look far ahead, and a
busy machine leaves no samples out."""
PROMPT = {"lookahead_s": 0.2, "ego": {"wait_s": 0.1, "smoothing": "lag"}}
"""Samples are committed soon after they were taken."""


def write_config(folder: Path, **more: object) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**STAMPS, **more}))
    return path


def offline(folder: Path, config: Path) -> dict[str, bytes]:
    values = load_values(config)
    convert([drive()], folder / "offline", build_config(values), dataset=NAME)
    return output_files(folder / "offline", values["formats"])


def capturing(folder: Path, endpoint: str, config: Path, *more: str) -> tuple[str | Path, ...]:
    names = ("--name", NAME, "--session", SEQUENCE, "--host", HOST)
    return ("capture", "--zenoh", endpoint, "-o", folder / "live", "--config", config, *names, *more)


def publish(
    endpoint: str,
    finished: Callable[[], bool],
    what: Sequence[RawMessage] | None = None,
    pause_s: float = 0.0,
) -> None:
    """Be the device: send everything as soon as somebody listens, and stay until it is finished.

    Halfway it pauses; clocks are found by the time that passes between messages.
    """
    recording, sending = McapRecording(drive()), messages() if what is None else what
    with open_session([], [endpoint]) as session:
        keys = keys_of(recording.topics(), Names.RT, HOST)
        outlets = {topic: Outlet(session, key) for topic, key in keys.items()}
        await_condition("subscribers", lambda: all(outlet.wanted for outlet in outlets.values()))
        for number, message in enumerate(sending):
            if pause_s and number == len(sending) // 2:
                time.sleep(pause_s)
            outlets[message.topic].put(message.schema, message.data)
        await_condition("the end", finished)


@pytest.mark.long
def test_live_equals_replay(tmp_path: Path) -> None:
    """A recording played at its own pace by one process, captured by another, and converted: the same.

    All formats are compared, byte by byte.
    """
    endpoint, config = free_endpoint(), write_config(tmp_path)
    with (
        started(tmp_path / "capture", *capturing(tmp_path, endpoint, config), command=PATIENT) as capture,
        started(tmp_path / "play", "play", drive(), "--zenoh-listen", endpoint, "--wait", "60") as play,
    ):
        assert play.wait() == 0, play.err
        count = f"{len(messages()):,} messages received"
        await_condition("all messages", lambda: _said(capture, count, "not connected"))
        capture.send(signal.SIGINT)
        assert capture.wait() == 130, capture.err
    assert f"{len(messages()):,} messages" in play.err
    folder = tmp_path / "live" / "edgefirst" / NAME
    report = Written(folder).report
    assert report["totals"]["dropped"] == 0
    assert {t: a["received"] for t, a in report["topics"].items()} == {
        topic: sum(m.topic == topic for m in messages()) for topic in {m.topic for m in messages()}
    }
    assert output_files(tmp_path / "live") == offline(tmp_path, config)
    assert report["samples"] > 25
    assert report["silent"]["depth"] == ["camera/depth"]
    assert "waiting for" in capture.err
    assert "nothing was received for" in capture.err
    rows = [line.split(maxsplit=1) for line in capture.out.splitlines()]
    assert {Path(path).parent.name for what, path in rows if what == "dataset"} == {*FORMATS}
    assert all(Path(path).exists() for what, path in rows if what in {"dataset", "report"})


def _said(process: Process, *words: str) -> bool:
    return any(all(word in line for word in words) for line in process.err.splitlines())


def test_a_signal_finishes_what_was_received(tmp_path: Path) -> None:
    endpoint, config = free_endpoint(), write_config(tmp_path, formats=["edgefirst"])
    count, arguments = f"{len(messages()):,} messages received", capturing(tmp_path, endpoint, config)
    with started(tmp_path / "capture", *arguments, command=PATIENT) as capture:
        publish(endpoint, lambda: _all_came(capture, count, signal.SIGTERM))
        assert capture.wait() == 130, capture.err
    folder = tmp_path / "live" / "edgefirst" / NAME
    report = Written(folder).report
    check_sums(report)
    assert "stopping, what was received is written" in capture.err
    assert report["totals"]["received"] > 0
    assert not list(folder.glob("*.part"))
    # Everything was sent before the signal, so everything is in it.
    assert output_files(tmp_path / "live", ["edgefirst"]) == offline(tmp_path, config)


def _all_came(capture: Process, count: str, number: signal.Signals) -> bool:
    """Whether the capture said that it has all; then it gets the signal."""
    if _said(capture, count):
        capture.send(number)
        return True
    return False


@pytest.mark.long
def test_a_killed_capture_keeps_what_was_committed(tmp_path: Path) -> None:
    endpoint, config = free_endpoint(), write_config(tmp_path, **PROMPT)
    folder = tmp_path / "live" / "edgefirst" / NAME
    growing, journal = folder / f"{NAME}.zip.part", folder / f"{NAME}.journal.part"
    with started(tmp_path / "capture", *capturing(tmp_path, endpoint, config)) as capture:
        publish(endpoint, lambda: journal.exists() and b"camera.jpeg" in journal.read_bytes(), pause_s=3.2)
        capture.popen.kill()
        capture.wait()
    assert growing.exists()
    recovering = [*COMMAND, "recover", str(folder)]
    done = subprocess.run(recovering, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    recovered = Written(folder)
    assert len(recovered.of_kind("camera.jpeg")) >= 1
    offline(tmp_path, config)
    assert recovered.files().items() <= Written(tmp_path / "offline" / "edgefirst" / NAME).files().items()
