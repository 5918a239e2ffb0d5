"""Live without ROS, as processes over loopback: live equals replay, and whatever ends a capture."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
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
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.player import Names, keys_of
from edgefirst_ros.sources.zenoh import ZenohSource
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
    paths = [Path(path) for path in capture.out.splitlines()]
    assert {f"{NAME}.arrow", f"{NAME}.zip", f"{NAME}.zarr"} < {path.name for path in paths}
    assert all(path.exists() for path in paths)


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
    assert "finishing what was received" in capture.err
    assert "interrupted: the dataset is complete up to here" in capture.err
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
def test_each_session_is_printed_as_it_ends(tmp_path: Path) -> None:
    endpoint, config = free_endpoint(), write_config(tmp_path, **PROMPT)
    arguments = (*capturing(tmp_path, endpoint, config), "--split-every-s", "1", "--json")
    with started(tmp_path / "capture", *arguments) as capture:
        publish(endpoint, lambda: "\n" in capture.out, pause_s=1.2)
        capture.send(signal.SIGINT)
        assert capture.wait() == 130, capture.err
    reports = [json.loads(line) for line in capture.out.splitlines()]
    assert [report["dataset"] for report in reports] == [NAME, f"{NAME}_2"]
    assert [report["ended"] for report in reports] == ["split after 1 s (split_every_s)", "stopped"]
    assert sum(report["totals"]["received"] for report in reports) == len(messages())
    for report in reports:
        check_sums(report)
        assert all(Path(path).exists() for path in report["paths"])


def test_a_capture_that_starts_paused_writes_nothing(tmp_path: Path) -> None:
    endpoint, config = free_endpoint(), write_config(tmp_path, **PROMPT)
    arguments = (*capturing(tmp_path, endpoint, config), "--start-paused", "--json")
    counting = (
        "import edgefirst_ros.cli.app as cli\n"
        "from edgefirst_ros.live.capture import LiveCapture\n"
        "put, came = LiveCapture.put, []\n"
        "def count(self, message):\n"
        "    put(self, message)\n"
        "    came.append(message.topic)\n"
        f"    if len(came) == {len(messages())}: open({str(tmp_path / 'all')!r}, 'w').close()\n"
        "LiveCapture.put = count\n"
        "cli.main()\n"
    )
    with started(tmp_path / "capture", *arguments, command=[sys.executable, "-c", counting]) as capture:
        publish(endpoint, (tmp_path / "all").exists)
        capture.send(signal.SIGINT)
        assert capture.wait() == 130, capture.err
    report = json.loads(capture.out)
    check_sums(report)
    assert report["totals"]["received"] == len(messages())
    assert (report["samples"], report["totals"]["written"]) == (0, 0)
    assert report["topics"]["/camera/h264"]["reasons"]["skipped"].keys() == {Reason.PAUSED}


def test_a_killed_capture_keeps_what_was_committed(tmp_path: Path) -> None:
    endpoint, config = free_endpoint(), write_config(tmp_path, **PROMPT)
    folder = tmp_path / "live" / "edgefirst" / NAME
    growing, journal = folder / f"{NAME}.zip.part", folder / f"{NAME}.journal.part"
    with started(tmp_path / "capture", *capturing(tmp_path, endpoint, config)) as capture:
        publish(endpoint, lambda: journal.exists() and b"camera.jpeg" in journal.read_bytes(), pause_s=0.7)
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


def test_a_second_signal_ends_at_once_whatever_hangs(tmp_path: Path) -> None:
    """A disk that hangs would keep a capture from finishing for ever."""
    endpoint, config = free_endpoint(), write_config(tmp_path, **PROMPT)
    arguments = capturing(tmp_path, endpoint, config)
    hanging = (
        "import threading, edgefirst_ros.cli.app as cli\n"
        "from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter\n"
        "EdgeFirstWriter.write = lambda *_: (print('hangs', flush=True), threading.Event().wait())\n"
        "cli.main()\n"
    )
    with started(tmp_path / "capture", *arguments, command=[sys.executable, "-c", hanging]) as capture:
        publish(endpoint, lambda: "hangs" in capture.out, pause_s=0.7)
        capture.send(signal.SIGINT)
        await_condition("the first signal", lambda: "finishing" in capture.err)
        capture.send(signal.SIGINT)
        assert capture.wait() == 130, capture.err
    assert re.search(
        r"interrupted at once; edgefirst-ros recover \S+ finishes what was committed", capture.err
    )


@pytest.mark.long
def test_a_device_that_dies_and_returns_is_captured_on(tmp_path: Path) -> None:
    """The device is killed in the middle; what it did not send is lost upstream, the rest is captured."""
    endpoint, config = free_endpoint(), build_config(STAMPS)
    imu = [m for m in messages() if m.topic == "/imu"]
    back = [m for m in messages() if m.receive_ns > messages()[0].receive_ns + 2_700_000_000]
    taking = LiveCapture(config, tmp_path, HOST)
    taking.start(NAME, sequence=SEQUENCE)

    def came() -> int:
        return int(taking.status().topics.get("/imu", {}).get("received", 0))

    with ZenohSource(open_session([endpoint], []), config, taking.put) as source:
        playing = ("play", drive(), "--zenoh-listen", endpoint, "--wait", "60")
        with started(tmp_path / "play", *playing) as device:
            await_condition("a third of the drive", lambda: came() >= 60)
            device.popen.kill()
            device.wait()
        await_condition("the end of the connection", lambda: source.connections == 0)
        threading.Event().wait(0.3)  # what came is taken together with what may follow
        all_came = came() + sum(m.topic == "/imu" for m in back)
        publish(endpoint, lambda: came() == all_came, back)
    (done,) = taking.stop(LIMIT_S)
    check_sums(done.report)
    account = done.report["topics"]["/imu"]
    # The picture that got lost took along those that build on it; nothing else was dropped.
    assert [t for t, a in done.report["topics"].items() if a["dropped"]] in ([], ["/camera/h264"])
    assert account["received"] == all_came < len(imu)
    assert account["lost_upstream"] == len(imu) - all_came
    frames = sorted(Written(tmp_path / "edgefirst" / NAME).of_kind("camera.jpeg"))
    assert len(frames) == done.report["samples"] > 8
