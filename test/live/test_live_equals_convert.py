"""What a live session records converts into the session's own bytes, with nothing said but where they go."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from livedrive import FORMATS, HOST, NOON_NS, dataset_files, two_clocks
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.live import split as livesplit
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.queue import starts_gop
from edgefirst_ros.live.session import Finished
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.session import RESUMED

SECONDS = 9.0
VIDEO = "/camera/h264"


@pytest.fixture(scope="module")
def received() -> Sequence[RawMessage]:
    """Messages as a middleware hands them over: two clocks, jitter, tf_static once, topics out of turn.

    Each topic has its receive times from a queue of its own, so that between topics they run backwards.
    """
    draw, clocks = Random(7), dict.fromkeys(("/imu", "/gps", "/radar/targets", "/lidar/points"), 0)
    found: list[RawMessage] = []
    for message in two_clocks(SECONDS):
        if message.topic == "/tf_static" and sum(m.topic == "/tf_static" for m in found) >= 3:
            continue
        late_ns = draw.randrange(0, 40_000_000) if message.topic in clocks else 0
        receive_ns = max(clocks.get(message.topic, 0), message.receive_ns - late_ns)
        clocks[message.topic] = receive_ns
        found.append(message._replace(receive_ns=receive_ns, publish_ns=receive_ns, definition=""))
    return found


def capture(output: Path, **config: Any) -> LiveCapture:  # noqa: ANN401 - any value of the configuration
    values = {"min_free_mb": 0, "record": True, "overload": {"latency_s": 0}} | config
    return LiveCapture(build_config(values), output, HOST, now_ns=lambda: NOON_NS)


def run(live: LiveCapture, what: Iterable[RawMessage]) -> list[Finished]:
    for message in what:
        live.put(message)
    return live.stop(300.0)


def files_of(output: Path, session: Finished) -> dict[str, bytes]:
    """All files of one session's datasets, by path."""
    names = {session.name, f"{session.name}.zarr", recording_of(session).stem}
    found = dataset_files(output)
    return {name: data for name, data in found.items() if name.split("/")[1] in names}


def convert(recording: Path | str, output: Path, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["convert", str(recording), "-o", str(output), "--json", *options])
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def recording_of(session: Finished) -> Path:
    (path,) = [path for path in session.paths if path.suffix == ".mcap"]
    return path


Captured = tuple[Path, list[Finished]]


@pytest.fixture(scope="module")
def run_of_three(received: Sequence[RawMessage], tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """All formats, otherwise the default configuration: clocks are found, poses smoothed, and so on.

    Sessions take clocks and motion over from the one before, and late messages from the one that follows.
    """
    assert any(b.receive_ns < a.receive_ns for a, b in pairwise(received))
    output = tmp_path_factory.mktemp("live")
    live = capture(output, formats=FORMATS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(livesplit, "WAIT_S", 300.0)  # by the clock, and a busy machine is late
        live.start("d", sequence="s")
        for number, message in enumerate(received, 1):
            live.put(message)
            if number in {len(received) // 3, 2 * len(received) // 3}:
                live.split()
        sessions = live.stop(300.0)
    assert len(sessions) == 3
    return output, sessions


def test_each_session_of_a_run_converts_into_its_own_bytes(
    tmp_path: Path, received: Sequence[RawMessage], run_of_three: Captured
) -> None:
    output, sessions = run_of_three
    kept = [[m for m in McapRecording(recording_of(s)).messages() if not m.repeated] for s in sessions]
    assert [(m.topic, m.data, m.receive_ns, m.publish_ns) for each in kept for m in each] == [
        (m.topic, m.data, m.receive_ns, m.publish_ns) for m in received
    ]
    assert all(each[0].topic == VIDEO and starts_gop(each[0]) for each in kept[1:])
    assert McapRecording(recording_of(sessions[1])).session.seam is not None  # type: ignore[union-attr]
    for number, session in enumerate(sessions):
        again = tmp_path / f"again{number}"
        report = convert(recording_of(session), again)
        assert report["totals"] == session.report["totals"]
        for key in ("timeline", "pairing"):
            assert report[key] == session.report[key], key
        for mine, theirs in zip(report["sequences"], session.report["sequences"], strict=True):
            assert mine["streams"] == theirs["streams"]
            assert mine["calibration"] == theirs["calibration"]
            assert mine["track"] == theirs["track"]
        assert f"settings from {recording_of(session).name}" in " ".join(report["notes"])
        made, found = files_of(output, session), files_of(again, session)
        assert {name.partition("/")[0] for name in made} == set(FORMATS)
        assert found.keys() == made.keys()
        assert [name for name, data in found.items() if data != made[name]] == []
        assert session.report["samples"] > 5


@pytest.mark.long
def test_a_session_with_a_pause_converts_into_its_own_bytes(
    tmp_path: Path, received: Sequence[RawMessage]
) -> None:
    """Nothing is recorded of the pause, but what is told then, once, holds afterwards."""
    third = len(received) // 3
    static = [m for m in received if m.topic == "/tf_static"]
    moving = [m for m in received if m.topic != "/tf_static"]
    live = capture(tmp_path / "live", formats=FORMATS)
    live.start()
    for message in moving[:third]:
        live.put(message)
    live.pause()
    for message in (*static, *moving[third : 2 * third]):
        live.put(message)
    live.record(moving[third])
    live.resume()
    (session,) = run(live, moving[2 * third :])
    kept = list(McapRecording(recording_of(session)).messages())
    assert [m.data for m in kept if not m.repeated and m.topic != RESUMED] == [
        m.data for m in (*moving[:third], *moving[2 * third :])
    ]
    assert [m.data for m in kept if m.repeated and m.topic == "/tf_static"] == [m.data for m in static]
    assert session.report["recording"]["not_recorded"] == {}
    report = convert(recording_of(session), tmp_path / "again")
    assert len(report["sequences"]) == 2
    made, found = (dataset_files(folder) for folder in (tmp_path / "live", tmp_path / "again"))
    assert {name.partition("/")[0] for name in made} == set(FORMATS)
    assert found.keys() == made.keys()
    assert [name for name, data in found.items() if data != made[name]] == []
    # Whole smoothing looks at each stretch for itself.
    config = tmp_path / "whole.yaml"
    config.write_text("ego: {smoothing: whole}\n")
    whole = convert(recording_of(session), tmp_path / "whole", "--config", str(config))
    assert [s["name"] for s in whole["sequences"]] == [s["name"] for s in report["sequences"]]


def test_recordings_of_different_settings_are_not_mixed(
    tmp_path: Path, received: Sequence[RawMessage]
) -> None:
    for number, rate_hz in enumerate((1.0, 2.0)):
        live = capture(tmp_path / "live", rate_hz=rate_hz)
        live.start(f"d{number}", sequence=f"s{number}")
        run(live, received[:20])
    folder = tmp_path / "live" / "recordings"
    done = CliRunner().invoke(app, ["convert", str(folder), "-o", str(tmp_path / "x"), "--json"])
    assert done.exit_code == 2
    assert "s0.mcap and s1.mcap were captured with different settings: give --config" in done.stdout
