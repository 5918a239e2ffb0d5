"""`ros2 run` and `ros2 launch` as a user types them: arguments, exit codes, what is left behind."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from rosgraph import Graph, NeverCame, Process, needs_install, needs_ros

from edgefirst_ros.config import build_config
from edgefirst_ros.convert import convert

pytestmark = [needs_ros, needs_install]


def launch(graph: Graph, name: str, *arguments: str) -> Process:
    return graph.start("ros2", "launch", "edgefirst_ros", f"{name}.launch.py", *arguments)


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_every_argument_is_described(graph: Graph) -> None:
    for name, expected in (
        ("capture", {"config", "output", "namespace", "autostart", "name", "preview", "log_level"}),
        ("replay", {"bag", "output", "config", "namespace", "name", "overwrite", "rate", "preview"}),
    ):
        shown = launch(graph, name, "--show-args")
        assert shown.join() == 0
        lines = shown.text.splitlines()
        arguments = [n for n, line in enumerate(lines) if line.startswith("    '")]
        assert {lines[n].strip().strip("':") for n in arguments} >= expected
        assert all(len(lines[n + 1].strip()) > 10 for n in arguments)


def test_run_takes_a_parameter_file(graph: Graph, tmp_path: Path) -> None:
    given = tmp_path / "given.yaml"
    given.write_text(
        f"/**:\n  ros__parameters: {{output: {tmp_path / 'out'}, rate_hz: 2, min_free_mb: 1.0}}\n"
    )
    node = graph.start("ros2", "run", "edgefirst_ros", "capture", "--ros-args", "--params-file", str(given))
    graph.activate()
    assert graph.change("active_shutdown")
    assert node.join() == 0
    assert list((tmp_path / "out").glob("edgefirst/*/capture_report.json"))


@pytest.mark.parametrize("name", ["maivin", "raivin", "generic"])
def test_the_shipped_configurations_can_be_used(graph: Graph, tmp_path: Path, name: str) -> None:
    from ament_index_python.packages import get_package_share_directory  # noqa: PLC0415

    given = Path(get_package_share_directory("edgefirst_ros")) / "config" / f"{name}.yaml"
    node = graph.start(
        *("ros2", "run", "edgefirst_ros", "capture", "--ros-args", "--params-file", str(given)),
        *("-p", f"output:={tmp_path / 'out'}"),
    )
    assert graph.change("configure"), node.text


def test_without_autostart_nothing_begins(graph: Graph, tmp_path: Path) -> None:
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", "autostart:=false")
    assert graph.state() == "unconfigured"
    graph.spin(1.0)
    assert graph.state() == "unconfigured"
    launched.send(signal.SIGINT)
    launched.join()
    assert "process has finished cleanly" in launched.text
    assert not (tmp_path / "out").exists()


def test_interrupting_the_launch_finishes_the_session(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text("/**:\n  ros__parameters: {min_free_mb: 1.0}\n")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}", "name:=monday")
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    status = graph.status()
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("samples", lambda: int(status()["samples"]) >= 5, alive=[player])
    launched.send(signal.SIGINT)
    launched.join()
    assert "process has finished cleanly" in launched.text
    assert "Caught exception" not in launched.text
    assert (tmp_path / "out/edgefirst/monday/monday.arrow").exists()


def test_ctrl_c_in_a_terminal_reaches_launch_and_node_and_ends_both_cleanly(
    graph: Graph, tmp_path: Path
) -> None:
    """The terminal tells both, and the launch tells the node once more."""
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", "name:=monday")
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    os.killpg(launched.pid, signal.SIGINT)
    launched.join()
    assert "sending signal 'SIGINT'" in launched.text
    assert "process has finished cleanly" in launched.text
    assert (tmp_path / "out/edgefirst/monday/capture_report.json").exists()


def test_a_node_that_dies_ends_the_launch_with_an_error(graph: Graph, tmp_path: Path) -> None:
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}")
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    started = re.search(r"process started with pid \[(\d+)\]", launched.text)
    assert started is not None
    os.kill(int(started[1]), signal.SIGKILL)
    assert launched.join() == 1
    assert "capture ended with exit code -9" in launched.text


@pytest.mark.parametrize("name", ["capture", "replay"])
def test_a_configuration_that_is_not_there_ends_the_launch_before_it_begins(
    graph: Graph, tmp_path: Path, name: str
) -> None:
    given = (f"output:={tmp_path / 'out'}", "config:=ravin", *(["bag:=drive.mcap"] * (name == "replay")))
    launched = launch(graph, name, *given)
    assert launched.join() == 1
    assert "config ravin: no such file; give a path, or one of generic, maivin, raivin" in launched.text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("fault", ["rate_hz: -1.0", "no_such_thing: 1", "every_n: many"])
def test_bad_parameters_end_the_launch_with_the_reason(graph: Graph, tmp_path: Path, fault: str) -> None:
    given = tmp_path / "given.yaml"
    given.write_text(f"/**:\n  ros__parameters: {{{fault}}}\n")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}")
    assert launched.join() == 1
    assert f"{fault.partition(':')[0]}: " in launched.text
    assert "capture could not be configured" in launched.text


def test_a_session_that_cannot_begin_ends_the_launch(graph: Graph, tmp_path: Path) -> None:
    given = tmp_path / "given.yaml"
    given.write_text("/**:\n  ros__parameters: {min_free_mb: 1.0e9}\n")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}")
    assert launched.join() == 1
    assert "less than min_free_mb" in launched.text
    assert "capture could not be activated" in launched.text


def test_a_replay_ends_with_the_launch_and_gives_what_convert_gives(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text("/**:\n  ros__parameters: {workers: 2, every_n: 2}\n")
    launched = launch(
        graph, "replay", f"bag:={recorded_drive}", f"output:={tmp_path / 'ros'}", f"config:={given}"
    )
    assert launched.join() == 0
    assert "samples of" in launched.text
    convert([recorded_drive], tmp_path / "plain", build_config({"workers": 2, "every_n": 2}))
    assert files(tmp_path / "ros") == files(tmp_path / "plain")
    again = launch(
        graph, "replay", f"bag:={recorded_drive}", f"output:={tmp_path / 'ros'}", f"config:={given}"
    )
    assert again.join() == 1
    assert "exists: choose another name" in again.text
    assert "replay failed with exit code 2" in again.text
    over = launch(
        graph,
        "replay",
        f"bag:={recorded_drive}",
        f"output:={tmp_path / 'ros'}",
        f"config:={given}",
        "overwrite:=true",
    )
    assert over.join() == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bag:=/no/such.mcap"], "/no/such.mcap: no such recording"),
        (["bag:=/tmp", "rate:=-1.0"], "rate: "),
    ],
)
def test_a_replay_that_cannot_be_says_why(
    graph: Graph, tmp_path: Path, arguments: list[str], said: str
) -> None:
    launched = launch(graph, "replay", f"output:={tmp_path / 'out'}", *arguments)
    assert launched.join() == 1
    assert said in launched.text
    assert not (tmp_path / "out").exists()


def test_a_paced_replay_shows_what_it_saves(graph: Graph, tmp_path: Path, recorded_drive: Path) -> None:
    from sensor_msgs.msg import CompressedImage, PointCloud2  # noqa: PLC0415

    images = graph.listen(CompressedImage, "/car/replay/preview/image/compressed")
    clouds = graph.listen(PointCloud2, "/car/replay/preview/lidar")
    launched = launch(
        graph,
        "replay",
        f"bag:={recorded_drive}",
        f"output:={tmp_path / 'out'}",
        "rate:=1.0",
        "preview:=true",
        "namespace:=car",
    )
    status = graph.status("/car/replay")
    graph.wait("progress", lambda: "%" in status()["message"], alive=[launched])
    graph.wait("pictures", lambda: len(images) >= 10, alive=[launched])
    assert launched.join() == 0
    assert clouds
    assert {m.header.stamp.sec for m in images} <= set(range(1_777_626_000, 1_777_626_004))


def test_an_interrupted_replay_finishes_what_it_has_read(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text("/**:\n  ros__parameters: {clock_window_s: 0.5}\n")
    launched = launch(
        graph,
        "replay",
        f"bag:={recorded_drive}",
        f"output:={tmp_path / 'out'}",
        f"config:={given}",
        "rate:=0.5",
        "name:=part",
    )
    status = graph.status("/replay")
    graph.wait("progress", lambda: int(status().get("received", 0)) > 200, alive=[launched])
    launched.send(signal.SIGINT)
    launched.join()
    assert "interrupted, what had been read is finished" in launched.text
    assert (tmp_path / "out/edgefirst/part/part.arrow").exists()


def test_a_wait_that_comes_to_nothing_is_no_result(graph: Graph) -> None:
    with pytest.raises(NeverCame, match="what never is"):
        graph.wait("what never is", lambda: None, timeout_s=0.1)
