"""Sessions as the node speaks of them, over the real capture."""

from __future__ import annotations

from pathlib import Path

import pytest
from livedrive import HOST, SEQUENCE, messages

from edgefirst_ros.config.model import build_config
from edgefirst_ros.errors import EdgeFirstError, OutputExists
from edgefirst_ros.nodes.options import CaptureOptions
from edgefirst_ros.nodes.sessions import Sessions, Told, check_output, split_values, tell
from edgefirst_ros.sample import Sample

HUGE_MB = 1e12


def make(
    output: Path, *, session: str = "", seen: list[Sample] | None = None, min_free_mb: float = 1.0
) -> Sessions:
    options = CaptureOptions(output=str(output), name=session, session=SEQUENCE)
    config = build_config({"min_free_mb": min_free_mb, "workers": 2})
    return Sessions(config, options, HOST, (seen if seen is not None else []).append)


def test_a_session_is_written_and_told(tmp_path: Path) -> None:
    seen: list[Sample] = []
    sessions = make(tmp_path, session="monday", seen=seen)
    assert "session monday begins" in sessions.begin()
    assert sessions.running
    for message in messages():
        sessions.put(message)
    told = sessions.finish(60.0)
    assert not sessions.running
    assert sessions.broken == ""
    written = [sample for sample in seen if sample.image is not None]
    text = f"session monday is complete: {len(seen)} samples, {len(messages())} messages, 0 dropped"
    assert told == [Told(text, poor=False)]
    assert len(seen) > 20
    assert written == seen
    assert [s.frame for s in seen] == sorted(s.frame for s in seen)
    assert (tmp_path / "edgefirst/monday/monday.arrow").exists()


def test_the_prefix_is_for_ros_and_not_for_the_pipeline(tmp_path: Path) -> None:
    options = CaptureOptions(output=str(tmp_path), name="a")
    config = build_config({"prefix": "rt", "min_free_mb": 1.0})
    sessions = Sessions(config, options, HOST, lambda _: None)
    sessions.begin()
    for message in messages()[:200]:
        sessions.put(message)
    told = sessions.finish(60.0)
    assert not told[0].text.startswith("session a is complete: 0 samples")


def test_a_name_is_used_once(tmp_path: Path) -> None:
    sessions = make(tmp_path, session="monday")
    sessions.begin()
    with pytest.raises(EdgeFirstError, match="under way"):
        sessions.begin()
    for message in messages()[:200]:
        sessions.put(message)
    sessions.finish(60.0)
    with pytest.raises(OutputExists):
        sessions.begin()
    assert not sessions.running


def test_a_split_makes_two_sessions(tmp_path: Path) -> None:
    sessions = make(tmp_path)
    sessions.begin()
    assert "another one begun" in sessions.split()
    told = sessions.finish(5.0)
    assert len([line for line in told if "is complete" in line.text]) == 2
    assert all(line.poor for line in told), "nothing came"
    assert sessions.broken == ""
    with pytest.raises(EdgeFirstError, match="no session"):
        sessions.split()


def test_a_split_is_told_once_when_it_is_complete(tmp_path: Path) -> None:
    sessions = make(tmp_path, session="monday")
    sessions.begin()
    for number, message in enumerate(messages()):
        sessions.put(message)
        if number == len(messages()) // 2:
            sessions.split()
    assert sessions.finish(60.0)[0].text.startswith("session monday is complete")
    (split,) = sessions.splits()
    assert sessions.splits() == []
    values = split_values(split)
    assert dict(values) | {"path": ""} == {
        "closed": "monday",
        "opened": "monday_2",
        "reason": "split",
        "samples": str(split.closed.report["samples"]),
        "messages": str(split.closed.report["totals"]["received"]),
        "dropped": "0",
        "path": "",
    }
    paths = [Path(value) for key, value in values if key == "path"]
    assert {"monday.zip", "monday.arrow", "capture_report.json"} <= {path.name for path in paths}
    assert all(path.exists() for path in paths)
    assert tell(split.closed)[0].text == split.closed.summary


def test_sessions_are_paused_and_resumed(tmp_path: Path) -> None:
    sessions = make(tmp_path)
    with pytest.raises(EdgeFirstError, match="no session"):
        sessions.pause()
    sessions.begin()
    assert "paused" in sessions.pause()
    assert sessions.status().paused
    assert "resumed" in sessions.toggle()
    assert not sessions.status().paused
    sessions.toggle()
    assert sessions.status().paused
    sessions.finish(5.0)


def test_a_full_disk_lets_nothing_begin(tmp_path: Path) -> None:
    with pytest.raises(EdgeFirstError, match="min_free_mb"):
        make(tmp_path, min_free_mb=HUGE_MB).begin()


def test_an_output_that_cannot_be_written_is_found_before(tmp_path: Path) -> None:
    assert check_output(str(tmp_path / "a" / "b")) == []
    assert list((tmp_path / "a" / "b").iterdir()) == []
    file = tmp_path / "file"
    file.touch()
    assert "output: " in check_output(str(file))[0]
    assert "cannot be written" in check_output(str(file / "below"))[0]
