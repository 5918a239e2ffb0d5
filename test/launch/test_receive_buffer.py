"""Room for what comes while nobody takes it: in the middleware's history, and in the sockets."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from rosgraph import Graph, needs_install, needs_ros

pytestmark = needs_ros
MESSAGES = 395
"""Just under two seconds of the device's IMU."""
KERNEL = Path("/proc/sys/net/core/rmem_max")
cyclone = pytest.mark.skipif(
    "cyclonedds" not in os.environ.get("RMW_IMPLEMENTATION", ""), reason="is about Cyclone DDS"
)


@pytest.mark.parametrize(
    ("parameters", "kept"), [((), MESSAGES), (("qos_overrides./imu.subscription.depth:=50",), 50)]
)
def test_two_seconds_of_imu_outlast_a_stall_unless_less_is_asked_for(
    graph: Graph, tmp_path: Path, parameters: tuple[str, ...], kept: int
) -> None:
    """The process is stopped, so that all wait in the socket, and then come faster than they are taken."""
    from sensor_msgs.msg import Imu  # noqa: PLC0415

    node = graph.capture(tmp_path / "out", "topics.imu.topic:=/imu", *parameters)
    imu = graph.node.create_publisher(Imu, "/imu", MESSAGES)
    graph.activate()
    diagnostics = graph.diagnostics()
    graph.wait("a subscription", imu.get_subscription_count)
    graph.wait("the diagnostics", lambda: "capture: /imu" in diagnostics)
    node.send(signal.SIGSTOP)
    message = Imu()
    for number in range(MESSAGES):
        message.header.stamp.sec, message.header.stamp.nanosec = (
            1_790_000_000,
            number * 5_000_000 % 1_000_000_000,
        )
        imu.publish(message)
    node.send(signal.SIGCONT)

    def received() -> int:
        values = {v.key: v.value for v in diagnostics["capture: /imu"].values}
        return int(values.get("received", 0))

    if kept == MESSAGES:
        graph.wait("every message", lambda: received() == MESSAGES, alive=[node])
        return
    graph.wait("the newest of them", lambda: received() >= kept, alive=[node])
    graph.spin(1.5)
    assert received() < MESSAGES


@cyclone
@needs_install
def test_the_launch_file_asks_for_what_the_kernel_allows(graph: Graph, tmp_path: Path) -> None:
    """A minimum that cannot be met would end the node."""
    graph.environment.pop("CYCLONEDDS_URI", None)
    launched = graph.start(
        *("ros2", "launch", "edgefirst_ros", "capture.launch.py"),
        *(f"output:={tmp_path / 'out'}", "autostart:=false"),
    )
    graph.wait("the node", lambda: "waiting to be configured" in launched.text, alive=[launched])
    (pid,) = re.findall(r"process started with pid \[(\d+)\]", launched.text)
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    (uri,) = [each.partition("=")[2] for each in environment if each.startswith("CYCLONEDDS_URI=")]
    if int(KERNEL.read_text()) >= 8 * 1024 * 1024:
        assert uri.startswith("file:///")
        assert "SocketReceiveBufferSize" in Path(uri.removeprefix("file://")).read_text()
    else:
        assert "<SocketReceiveBufferSize max='16MB'/>" in uri
        assert "sudo sysctl -w net.core.rmem_max=" in launched.text
    launched.send(signal.SIGINT)
    assert launched.join() == 0, launched.text
