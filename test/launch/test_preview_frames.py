"""What RViz needs to show previews: every frame in one tree of tf2's, and a configuration that finds them."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from livedrive import check_sums
from rosgraph import Graph, needs_ros

pytestmark = needs_ros
RVIZ = Path(__file__).parents[2] / "config" / "edgefirst.rviz"
SHOWN = {
    "rviz_default_plugins/Image": "sensor_msgs/msg/CompressedImage",
    "rviz_default_plugins/PointCloud2": "sensor_msgs/msg/PointCloud2",
}
"""What RViz takes for a display of this class; pictures by image_transport, as the end of their name says."""
TF = "tf2_msgs/msg/TFMessage"


def listener(graph: Graph, node: str = "capture") -> Any:  # noqa: ANN401 - tf2_ros is untyped
    """A buffer as RViz has it with /tf_static remapped to a preview's."""
    from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415
    from tf2_msgs.msg import TFMessage  # noqa: PLC0415

    buffer = pytest.importorskip("tf2_ros").Buffer()

    def take(message: TFMessage) -> None:
        for each in message.transforms:
            buffer.set_transform_static(each, node)

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    buffer.own = graph.node.create_subscription(TFMessage, f"/{node}/preview/tf_static", take, latched)
    return buffer


def placed(buffer: Any, frame: str) -> np.ndarray:  # noqa: ANN401 - tf2_ros is untyped
    """A frame's place in base_link: x y z in metres, and a quaternion x y z w with w >= 0."""
    from rclpy.time import Time  # noqa: PLC0415

    found = buffer.lookup_transform("base_link", frame, Time()).transform
    where = np.array([found.translation.x, found.translation.y, found.translation.z])
    turned = np.array([found.rotation.x, found.rotation.y, found.rotation.z, found.rotation.w])
    return np.concatenate([where, turned * (1 if turned[3] >= 0 else -1)])


def mounted(recording: Path) -> dict[str, np.ndarray]:
    """The same from the drive's truth; the camera's quaternion is not of unit length there."""
    (truth,) = recording.parent.glob("*.truth.json")
    mounts = json.loads(truth.read_text())["world"]["mounts"]
    result = {}
    for mount in mounts:
        turned = np.array(mount["rotation_xyzw"]) / np.linalg.norm(mount["rotation_xyzw"])
        result[mount["child"]] = np.concatenate(
            [mount["translation_m"], turned * (1 if turned[3] >= 0 else -1)]
        )
    return result


@pytest.mark.parametrize("prefix", ["", "/maivin_7"])
def test_every_preview_is_in_a_frame_that_tf2_finds_and_rviz_is_set_up_for_it(
    graph: Graph, tmp_path: Path, recorded_drive: Path, prefix: str
) -> None:
    """The device's own tf_static is of another type, and has the same name where there is no prefix."""
    from sensor_msgs.msg import CompressedImage, PointCloud2  # noqa: PLC0415

    buffer = listener(graph)
    graph.capture(tmp_path / "out", "preview:=true")
    graph.activate()
    status = graph.status()
    kinds = {"image/compressed": CompressedImage, "lidar": PointCloud2, "radar": PointCloud2}
    previews = {name: graph.listen(kind, f"/capture/preview/{name}") for name, kind in kinds.items()}
    player = graph.player(recorded_drive, "--restamp", "--namespace", prefix)
    for name, messages in previews.items():
        graph.wait(f"a preview of {name}", lambda messages=messages: bool(messages))
    # Of whom is gone the status names no prefix.
    graph.wait("the prefix", lambda: status()["prefix"] == (prefix.strip("/") or "none"), alive=[player])
    frames = {messages[0].header.frame_id for messages in previews.values()}
    truth = mounted(recorded_drive)
    assert frames == truth.keys()
    for frame in sorted(frames):
        graph.wait(f"the transform of {frame}", lambda frame=frame: is_placed(buffer, frame))
        np.testing.assert_allclose(placed(buffer, frame), truth[frame], atol=1e-6)
    check_rviz(graph)
    assert player.join() == 0, player.text
    played = int(player.text.split()[-1])
    late = listener(graph)
    graph.wait("what is latched", lambda: is_placed(late, "lidar"))
    graph.wait("every message", lambda: int(status()["received"]) >= played)
    assert graph.change("deactivate")
    (path,) = (tmp_path / "out").glob("edgefirst/*/capture_report.json")
    report = json.loads(path.read_text())
    check_sums(report)
    # What is republished is not captured again.
    assert report["totals"]["received"] == played
    assert report["topics"]["/tf_static"]["type"] == "geometry_msgs/msg/TransformStamped"


def is_placed(buffer: Any, frame: str) -> bool:  # noqa: ANN401 - tf2_ros is untyped
    from rclpy.time import Time  # noqa: PLC0415

    return bool(buffer.can_transform("base_link", frame, Time()))


def check_rviz(graph: Graph) -> None:
    """The shipped configuration shows what is published now, in its frame."""
    manager = yaml.safe_load(RVIZ.read_text())["Visualization Manager"]
    assert manager["Global Options"]["Fixed Frame"] == "base_link"
    displays = [display for display in manager["Displays"] if display["Class"] in SHOWN]
    offered = dict(graph.node.get_topic_names_and_types())
    for display in displays:
        topic = display["Topic"]["Value"]
        assert offered[topic] == [SHOWN[display["Class"]]], topic
        (publisher,) = graph.node.get_publishers_info_by_topic(topic)
        asked = display["Topic"]["Reliability Policy"], display["Topic"]["Durability Policy"]
        offers = publisher.qos_profile.reliability.name, publisher.qos_profile.durability.name
        assert tuple(each.upper().replace(" ", "_") for each in asked) == offers
    shown = {display["Topic"]["Value"] for display in displays}
    others = {topic for topic in offered if topic.startswith("/capture/preview/")} - shown
    assert others == {"/capture/preview/tf_static"}
    assert "rviz_default_plugins/TF" in {display["Class"] for display in manager["Displays"]}


def test_two_previews_show_the_frames_of_what_each_reads(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    """Replays of devices whose frames have the same names."""
    buffers = [listener(graph, f"{name}/replay") for name in ("car", "bike")]
    replays = [
        graph.start(
            *(sys.executable, "-m", "edgefirst_ros.nodes.replay", "--ros-args", "-r", f"__ns:=/{name}"),
            *("-p", f"bag:=[{recorded_drive}]", "-p", f"output:={tmp_path / name}"),
            *("-p", "preview:=true", "-p", "rate:=0.2", "-p", "select.every:=5"),
        )
        for name in ("car", "bike")
    ]
    for buffer in buffers:
        graph.wait("its transforms", lambda buffer=buffer: is_placed(buffer, "radar"), alive=replays)
    assert not [kind for name, kind in graph.node.get_topic_names_and_types() if name == "/tf_static"]
    for replay in replays:
        replay.send(signal.SIGINT)
    assert {replay.join() for replay in replays} <= {0, 130}
