"""Room for what comes while nobody takes it: in the middleware's history, and in the sockets."""

from __future__ import annotations

import os
import re
import signal
from importlib.util import module_from_spec, spec_from_file_location
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


def asking(graph: Graph, size: str) -> str:
    """Configuration of Cyclone DDS: the graph's own, and a size of the receive buffer."""
    wanted = (
        f"<CycloneDDS><Domain><Internal><SocketReceiveBufferSize {size}/></Internal></Domain></CycloneDDS>"
    )
    return ",".join(filter(None, (graph.environment.get("CYCLONEDDS_URI"), wanted)))


@pytest.mark.parametrize(("parameters", "kept"), [((), MESSAGES), (("depth:=50",), 50)])
def test_two_seconds_of_imu_outlast_a_stall_unless_depth_says_less(
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
def test_a_small_receive_buffer_is_told_with_what_to_do(graph: Graph, tmp_path: Path) -> None:
    graph.environment["CYCLONEDDS_URI"] = asking(graph, 'max="64kB"')
    node = graph.capture(tmp_path / "out")
    diagnostics = graph.diagnostics()
    told = "receive buffer: 0.1 MB; bursts of large messages may be lost below 8.4 MB"
    graph.wait("a warning in the log", lambda: told in node.text, alive=[node])
    entry = graph.wait("the diagnostics", lambda: diagnostics.get("capture: receive buffer"))
    assert entry.level == b"\x01"
    values = {v.key: v.value for v in entry.values}
    assert (values["granted"], values["middleware"]) == ("0.1 MB", "rmw_cyclonedds_cpp")
    graph.spin(1.2)
    assert node.text.count(told) == 1


@cyclone
def test_a_middleware_that_is_refused_its_minimum_ends_the_node_with_what_to_do(
    graph: Graph, tmp_path: Path
) -> None:
    graph.environment["CYCLONEDDS_URI"] = asking(graph, 'min="1GB"')
    node = graph.capture(tmp_path / "out")
    assert node.join() == 2, node.text
    assert "sudo sysctl -w net.core.rmem_max=" in node.text
    assert "Traceback" not in node.text


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


@needs_install
def test_the_launch_file_leaves_what_is_set_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ament_index_python.packages import get_package_share_directory  # noqa: PLC0415

    path = Path(get_package_share_directory("edgefirst_ros")) / "launch" / "capture.launch.py"
    spec = spec_from_file_location("capture_launch", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    own = tmp_path / "own file.xml"
    own.touch()
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_cyclonedds_cpp")
    monkeypatch.setenv("CYCLONEDDS_URI", "file:///mine.xml")
    assert module._cyclonedds("auto") == ({}, [])
    assert module._cyclonedds(str(own)) == ({"CYCLONEDDS_URI": own.as_uri()}, [])
    with pytest.raises(RuntimeError, match="no such file"):
        module._cyclonedds(str(tmp_path / "missing.xml"))
    monkeypatch.delenv("CYCLONEDDS_URI")
    assert module._cyclonedds("none") == ({}, [])
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    assert module._cyclonedds("auto") == ({}, [])
    monkeypatch.delenv("RMW_IMPLEMENTATION")
    # Whichever middleware is the default then: another one does not look at it.
    monkeypatch.setattr(module, "RMEM_MAX", tmp_path / "rmem_max")
    assert module._cyclonedds("auto") == ({}, [])
    module.RMEM_MAX.write_text("8388608\n")
    environment, told = module._cyclonedds("auto")
    shipped = Path(get_package_share_directory("edgefirst_ros")) / "config" / "cyclonedds.xml"
    assert (environment, told) == ({"CYCLONEDDS_URI": shipped.as_uri()}, [])
    module.RMEM_MAX.write_text("8388607\n")
    environment, told = module._cyclonedds("auto")
    assert (list(environment), told) == (["CYCLONEDDS_URI"], [])
    assert "min=" not in environment["CYCLONEDDS_URI"]
