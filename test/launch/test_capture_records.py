"""What a capture node records: the session's own bytes, and what nothing uses with its definition."""

from __future__ import annotations

import re
from pathlib import Path

from livedrive import SEQUENCE
from mcap.reader import make_reader
from places import contents
from rosgraph import Graph, needs_ros
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.sources.mcap import McapRecording

pytestmark = needs_ros

FORMATS = ("edgefirst", "ncore", "l5kit")


def files(root: Path) -> dict[str, bytes]:
    return contents(root, ".mcap", "capture_report.json")


def test_a_recording_converts_into_the_sessions_own_bytes(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    """The default configuration but for formats; the radar's points are turned off, and recorded."""
    from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415
    from rclpy.serialization import deserialize_message  # noqa: PLC0415
    from sensor_msgs.msg import NavSatFix  # noqa: PLC0415

    live = tmp_path / "live"
    node = graph.capture(
        live,
        *("record:=true", f"formats:=[{', '.join(FORMATS)}]"),
        *("topics.radar_targets.topic:=''", f"session:={SEQUENCE}"),
    )
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    odd = graph.node.create_publisher(NavSatFix, "/odd", latched)
    odd.publish(NavSatFix(altitude=12.5))
    graph.activate()
    recording = live / "recordings" / f"{SEQUENCE}.mcap"
    graph.wait("the odd one, heard", lambda: odd.get_subscription_count() > 0, alive=[node])
    player = graph.player(recorded_drive, "--settle", "3")
    assert player.join(60.0) == 0, player.text
    played = int(player.text.split()[-1])
    graph.wait(
        "every message on disk",
        lambda: recording.exists() and len(list(McapRecording(recording).messages())) == played + 1,
        alive=[node],
    )
    assert graph.change("deactivate")
    done = CliRunner().invoke(app, ["convert", str(recording), "-o", str(tmp_path / "again"), "--no-report"])
    assert done.exit_code == 0, done.output
    made, again = files(live), files(tmp_path / "again")
    assert {name.partition("/")[0] for name in made} == set(FORMATS)
    assert again.keys() == made.keys()
    assert [name for name, data in again.items() if data != made[name]] == []

    with recording.open("rb") as stream:
        found = list(make_reader(stream).iter_messages())
    ((schema, channel, message),) = [each for each in found if each[1].topic == "/odd"]
    assert schema is not None
    assert re.search(rb"^MSG: sensor_msgs/NavSatStatus\n(.*\n)*int8 status", schema.data, re.MULTILINE)
    assert deserialize_message(message.data, NavSatFix).altitude == 12.5
    assert "durability: 1" in channel.metadata["offered_qos_profiles"]
    assert sum(each[1].topic == "/radar/targets" for each in found) > 10
