"""Clocks that are stepped during a live session: what was recorded converts into the session's own bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from livedrive import FORMATS, HOST, NOON_NS, dataset_files, two_clocks
from resized import recorded
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.sample import RawMessage

MS = 1_000_000
AT_S = 4.0


@dataclass(frozen=True)
class Case:
    """Which clocks are stepped, by how much, and what is said of it."""

    name: str
    by_ms: int
    own: bool = False
    foreign: bool = False
    receiver: bool = False
    said: str = "new sequence: the clock of"


CASES = (
    Case("all stamps back", -700, own=True, foreign=True),
    Case("one clock forward", 700, foreign=True),
    Case("wall clock back", -300, own=True, receiver=True, said="new sequence: the wall clock was stepped"),
    Case("receiver back", -300, receiver=True, said="the receiver's clock was stepped by -"),
)


@pytest.fixture(scope="module")
def drive() -> Sequence[RawMessage]:
    """Messages of two clocks by receipt."""
    return two_clocks(7.0)


def stepped(messages: Sequence[RawMessage], case: Case) -> list[RawMessage]:
    """The messages in the same order, with another clock's times from the step on."""
    at_ns = messages[0].receive_ns + round(AT_S * 1e9)
    found = []
    for message in messages:
        after = message.receive_ns >= at_ns
        seconds, nanoseconds = struct.unpack_from("<iI", message.data, 4)
        stamp_ns = seconds * 1_000_000_000 + nanoseconds
        is_own = abs(stamp_ns - message.receive_ns) < 60_000_000_000
        data, by_ns = message.data, case.by_ms * MS
        if after and (case.own if is_own else case.foreign):
            stamp = struct.pack("<iI", *divmod(stamp_ns + by_ns, 1_000_000_000))
            data = data[:4] + stamp + data[12:]
        late_ns = by_ns if after and case.receiver else 0
        receive_ns = message.receive_ns + late_ns
        found.append(message._replace(data=data, receive_ns=receive_ns, publish_ns=receive_ns))
    return found


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_step_is_converted_as_it_was_captured(
    tmp_path: Path, drive: Sequence[RawMessage], case: Case
) -> None:
    """From the session's own recording, and from another recorder's of the same messages."""
    messages = stepped(drive, case)
    config = build_config({"min_free_mb": 0, "record": True, "formats": FORMATS})
    live = LiveCapture(config, tmp_path / "live", HOST, now_ns=lambda: NOON_NS)
    live.start()
    for message in messages:
        live.put(message)
    (session,) = live.stop(300.0)
    notes = [note for note in session.report["notes"] if case.said in note]
    assert len(notes) == 1, session.report["notes"]
    assert len(session.report["sequences"]) == 1 + notes[0].startswith("new sequence"), session.report[
        "notes"
    ]
    made = dataset_files(tmp_path / "live")
    assert {name.partition("/")[0] for name in made} == set(FORMATS)
    (own,) = (path for path in session.paths if path.suffix == ".mcap")
    (tmp_path / "formats.yaml").write_text(f"formats: [{', '.join(FORMATS)}]\nego: {{smoothing: lag}}\n")
    told = ["--config", str(tmp_path / "formats.yaml"), "--name", session.name]
    other = recorded(tmp_path / "other" / f"{own.stem}.mcap", messages)
    for recording, options in ((own, []), (other, told)):
        again = tmp_path / f"from {recording.parent.name}"
        done = CliRunner().invoke(app, ["convert", str(recording), "-o", str(again), "--json", *options])
        assert done.exit_code == 0, done.output
        found = dataset_files(again)
        assert found.keys() == made.keys()
        assert [name for name, data in found.items() if data != made[name]] == [], recording
