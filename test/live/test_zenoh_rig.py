"""A rig of several devices over Zenoh: one capture takes all, and its recording gives the same bytes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml
from livedrive import dataset_files
from rigdrive import CLOCKS, messages, settings
from zenoh_loopback import PATIENT, await_condition, free_endpoint, started

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.zenohlink import Outlet, open_session


@pytest.mark.long
def test_a_rig_over_zenoh_is_what_converting_its_recording_gives(tmp_path: Path) -> None:
    endpoint, live = free_endpoint(), tmp_path / "live"
    values = settings("edgefirst", "ncore") | {"overload": {"latency_s": 0}, "min_free_mb": 0}
    (tmp_path / "rig.yaml").write_text(yaml.safe_dump(values))
    recording, sent = live / "recordings" / "s.mcap", messages()
    command = ("capture", "--zenoh", endpoint, "-o", live, "--config", tmp_path / "rig.yaml")
    with (
        started(tmp_path / "capture", *command, "--record", "--session", "s", command=PATIENT) as process,
        open_session([], [endpoint]) as session,
    ):
        outlets = {topic: Outlet(session, topic.strip("/")) for topic in {each.topic for each in sent}}
        await_condition("subscribers", lambda: all(outlet.wanted for outlet in outlets.values()))
        for message in sent:
            outlets[message.topic].put(message.schema, message.data)
        await_condition(
            "all on disk",
            lambda: recording.exists() and len(list(McapRecording(recording).messages())) == len(sent),
        )
        process.send(signal.SIGINT)
        assert process.wait() == 130, process.err
    config = build_config(values | {"ego": {"smoothing": "lag"}})
    done = convert([recording], tmp_path / "again", config)
    assert dataset_files(tmp_path / "again") == dataset_files(live)
    (sequence,) = done.report["sequences"]
    assert sequence["cameras"].keys() == CLOCKS.keys() - {"front"}
