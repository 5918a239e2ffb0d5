"""A simulator that runs slower than real time, recorded by the wall clock with its /clock."""

from __future__ import annotations

from pathlib import Path

import pytest
import recorded
from drives import simulate
from resized import recorded as write

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.drives import RecordedDrive
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording

SMALL = DriveOptions(seconds=3.0, fps=10, width=160, height=96, lidar_points=100, cube_hz=0, clock="realtime")


def slowed(messages: list[RawMessage], slower: float, first_ns: int) -> list[RawMessage]:
    """As received while the simulator took so much longer, with its clock at 50 Hz from ``first_ns`` on."""
    begin_ns, end_ns = messages[0].receive_ns, messages[-1].receive_ns
    clock = [
        RawMessage("/clock", "rosgraph_msgs/msg/Clock", b"\0\1\0\0" + second + nanosecond, at_ns, at_ns, 0)
        for at_ns in range(begin_ns, end_ns + 20_000_000, 20_000_000)
        for shown_ns in [at_ns - begin_ns + first_ns]
        for second in [(shown_ns // 10**9).to_bytes(4, "little")]
        for nanosecond in [(shown_ns % 10**9).to_bytes(4, "little")]
    ]
    every = sorted([*messages, *clock], key=lambda m: m.receive_ns)
    times = [begin_ns + round((m.receive_ns - begin_ns) * slower) for m in every]
    return [m._replace(receive_ns=t, publish_ns=t) for m, t in zip(every, times, strict=True)]


@pytest.mark.parametrize(("slower", "is_followed"), [(2.0, True), (0.25, True), (1.01, False)])
def test_its_clock_is_the_time(tmp_path: Path, slower: float, *, is_followed: bool) -> None:
    before = list(McapRecording(simulate(tmp_path / "drive", SMALL).mcap).messages())
    made = slowed(before, slower, before[0].receive_ns)
    drive = RecordedDrive([McapRecording(write(tmp_path / "slow.mcap", made))])
    drive.follow_clock()
    after = [m.receive_ns for m in drive.messages() if m.topic != "/clock"]
    expected = [m.receive_ns for m in (before if is_followed else made) if m.topic != "/clock"]
    assert (drive.clock is not None) is is_followed
    assert after == pytest.approx(expected, abs=25_000_000)


def test_stamps_of_other_sensors_are_not_bent(tmp_path: Path) -> None:
    """A simulator beside a real robot: its sensors stamp by the wall clock."""
    before = recorded.messages(seconds=3.0, clock="realtime")
    made = slowed(before, 1.0, 12_000_000_000)
    late = [
        m._replace(receive_ns=2 * m.receive_ns - made[0].receive_ns) if m.topic == "/clock" else m
        for m in made
    ]
    path = write(tmp_path / "both.mcap", sorted(late, key=lambda m: m.receive_ns))
    drive = RecordedDrive([McapRecording(path)])
    drive.follow_clock()
    assert drive.clock is None
