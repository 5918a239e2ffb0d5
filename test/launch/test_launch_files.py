"""`ros2 run` and `ros2 launch` as a user types them: arguments, exit codes, what is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from places import contents
from rosgraph import Graph, Process, needs_install, needs_ros

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert

pytestmark = [needs_ros, needs_install]

PROMPT = "min_free_mb: 1.0, ego: {wait_s: 0.2}, overload: {latency_s: 0.0}"
"""The drive is short, so no sample may wait for what comes after it, nor be left out on a busy machine."""


def launch(graph: Graph, name: str, *arguments: str) -> Process:
    return graph.start("ros2", "launch", "edgefirst_ros", f"{name}.launch.py", *arguments)


def test_every_argument_is_described(graph: Graph) -> None:
    for name, expected in (
        (
            "capture",
            {
                *("config", "output", "formats", "prefix", "namespace", "autostart", "respawn"),
                *("name", "session", "preview", "rviz", "cyclonedds", "log_level"),
                *("split_every", "start_paused", "record"),
            },
        ),
        (
            "replay",
            {
                *("bag", "output", "config", "formats", "prefix", "namespace", "name"),
                *("overwrite", "rate", "preview", "rviz", "log_level"),
            },
        ),
    ):
        shown = launch(graph, name, "--show-args")
        assert shown.join() == 0
        lines = shown.text.splitlines()
        arguments = [n for n, line in enumerate(lines) if line.startswith("    '")]
        assert {lines[n].strip().strip("':") for n in arguments} >= expected
        assert all(len(lines[n + 1].strip()) > 10 for n in arguments)


@pytest.mark.parametrize("name", ["capture", "replay"])
def test_the_launch_process_needs_nothing_of_what_the_nodes_need(graph: Graph, name: str) -> None:
    """`ros2` runs under the system's Python, whose pydantic is older, or that has none."""
    loading = (
        "import sys\n"
        "from ament_index_python.packages import get_package_share_directory\n"
        "from launch import launch_description_sources as sources\n"
        f"path = get_package_share_directory('edgefirst_ros') + '/launch/{name}.launch.py'\n"
        "sources.get_launch_description_from_python_launch_file(path)\n"
        "ours = sorted({'edgefirst_ros', 'pydantic', 'polars', 'av'} & sys.modules.keys())\n"
        "sys.exit(f'imported {ours}' if ours else 0)\n"
    )
    loaded = graph.start("python3", "-c", loading)
    assert loaded.join() == 0, loaded.text


def test_a_launch_under_a_python_with_an_older_pydantic_captures(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    """The node finds its own first, whatever else is on the path."""
    from ament_index_python.packages import get_package_prefix  # noqa: PLC0415

    if not (Path(get_package_prefix("edgefirst_ros")) / "opt").is_dir():
        pytest.skip("built by a Python that has everything: there is nothing of our own to find first")
    old = tmp_path / "system" / "pydantic"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text("VERSION = '1.10.14'\n")
    graph.environment["PYTHONPATH"] = f"{old.parent}:{graph.environment.get('PYTHONPATH', '')}"
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", "name:=monday")
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    status = graph.status()
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("samples", lambda: int(status()["samples"]) >= 5, alive=[player])
    launched.send(signal.SIGINT)
    assert launched.join() == 0
    checked = graph.start("ros2", "run", "edgefirst_ros", "edgefirst-ros", "check", str(tmp_path))
    assert checked.join() == 0, checked.text
    assert "monday" in checked.text


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


def test_arguments_come_before_the_file_and_what_is_not_given_leaves_it_alone(
    graph: Graph, tmp_path: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text(
        "/**:\n  ros__parameters:\n"
        "    {name: tuesday, session: s1, formats: [l5kit], preview: true, prefix: abc}\n"
    )
    more = ("session:=s2", "formats:=edgefirst, ncore", "prefix:=rt")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}", *more)
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    names = ("name", "session", "formats", "preview", "prefix")
    assert dict(zip(names, graph.parameters(*names), strict=True)) == {
        "name": "tuesday",
        "session": "s2",
        "formats": ["edgefirst", "ncore"],
        "preview": True,
        "prefix": "rt",
    }
    launched.send(signal.SIGINT)
    launched.join()
    assert (tmp_path / "out/edgefirst/tuesday/capture_report.json").exists()
    assert not (tmp_path / "out/l5kit").exists()


def test_interrupting_the_launch_finishes_the_session(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text(f"# plain, as suggest prints it\n{{{PROMPT}}}\n")
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


SLOW_DISK = """
import os, time
replace = os.replace
def slow(source, target, **more):
    if str(target).endswith("capture_report.json"):
        time.sleep({seconds})
    return replace(source, target, **more)
os.replace = slow
"""
"""Before anything else in every Python process: what ends a session takes long."""


def slow_session(graph: Graph, tmp_path: Path, drive: Path, seconds: float, *arguments: str) -> Process:
    """A launch in the middle of a session whose closing takes so long."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW_DISK.format(seconds=seconds))
    graph.environment["PYTHONPATH"] = f"{tmp_path / 'slow'}:{graph.environment.get('PYTHONPATH', '')}"
    given = tmp_path / "given.yaml"
    given.write_text(f"/**:\n  ros__parameters: {{formats: [edgefirst, ncore], {PROMPT}}}\n")
    launched = launch(
        graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}", "name:=monday", *arguments
    )
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    status = graph.status()
    player = graph.player(drive, "--restamp")
    graph.wait("samples", lambda: int(status()["samples"]) >= 5, alive=[player])
    return launched


def test_a_session_that_was_not_finished_makes_the_launch_fail(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    patience = ("sigterm_timeout:=1", "sigkill_timeout:=1")
    launched = slow_session(graph, tmp_path, recorded_drive, 600.0, *patience)
    launched.send(signal.SIGINT)
    assert launched.join(60.0) == 1, launched.text
    assert "escalating to 'SIGKILL'" in launched.text
    assert f"`edgefirst-ros recover {tmp_path / 'out'}` completes what was committed" in launched.text


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


def test_one_file_serves_both_nodes(graph: Graph, tmp_path: Path, recorded_drive: Path) -> None:
    """What is the other node's is passed over, and named; a value of it is not looked at."""
    given = tmp_path / "given.yaml"
    given.write_text(
        "/**:\n  ros__parameters: {session: drive, unlisted: false, stop_within_s: 1.0, autostart: true,\n"
        "    rate: 4.0, overwrite: true, bag: 7, select: {every: 4}}\n"
    )
    replayed = launch(graph, "replay", f"bag:={recorded_drive}", f"output:={tmp_path}", f"config:={given}")
    assert replayed.join() == 0
    assert "another node's parameters: autostart, session, stop_within_s, unlisted" in replayed.text
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}")
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    assert "another node's parameters: bag, overwrite, rate" in launched.text
    assert graph.parameters("session", "select.every", "unlisted") == ["drive", 4, False]


def test_a_replay_of_any_robot_with_the_shipped_configuration(graph: Graph, tmp_path: Path) -> None:
    from robot import record  # noqa: PLC0415 - needs ROS

    bag = record(tmp_path / "tour.mcap", pictures=20)
    more = (f"output:={tmp_path / 'out'}", "config:=generic", "formats:=edgefirst,ncore", "name:=tour")
    launched = launch(graph, "replay", f"bag:={bag}", *more)
    assert launched.join() == 0
    assert "another node's parameters: unlisted" in launched.text
    report = json.loads((tmp_path / "out/edgefirst/tour/capture_report.json").read_text())
    assert report["samples"] == report["topics"]["/points"]["written"] == 20
    assert len(list((tmp_path / "out/ncore").iterdir())) == 1


def test_a_replay_of_any_robot_makes_its_own_configuration(graph: Graph, tmp_path: Path) -> None:
    """Of the recording, whatever is in the graph."""
    from robot import record  # noqa: PLC0415 - needs ROS

    bag = record(tmp_path / "tour.mcap", pictures=20)
    launched = launch(graph, "replay", f"bag:={bag}", f"output:={tmp_path / 'out'}", "name:=tour")
    assert launched.join() == 0
    assert "topics are guessed" in launched.text
    report = json.loads((tmp_path / "out/edgefirst/tour/capture_report.json").read_text())
    assert report["samples"] == report["topics"]["/points"]["written"] == 20
    assert "/camera/image_raw/compressed" in (tmp_path / "out/tour.yaml").read_text()


def test_an_unknown_argument_is_an_error_that_names_the_near_one(graph: Graph, tmp_path: Path) -> None:
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", "formast:=ncore")
    assert launched.join() == 1
    assert "formast: no such argument; did you mean formats?" in launched.text


def test_arguments_stay_in_the_file_and_the_including_one_has_its_own(graph: Graph, tmp_path: Path) -> None:
    outer = tmp_path / "outer.launch.py"
    outer.write_text(
        "from ament_index_python.packages import get_package_share_directory\n"
        "from launch import LaunchDescription\n"
        "from launch.actions import IncludeLaunchDescription, LogInfo\n"
        "from launch.substitutions import LaunchConfiguration\n"
        "path = get_package_share_directory('edgefirst_ros') + '/launch/capture.launch.py'\n"
        "given = {'autostart': 'false', 'config': 'maivin', 'output': 'out'}.items()\n"
        "said = LaunchConfiguration('rviz', default='none')\n"
        "def generate_launch_description():\n"
        "    included = IncludeLaunchDescription(path, launch_arguments=given)\n"
        "    return LaunchDescription([included, LogInfo(msg=['rviz is ', said])])\n"
    )
    launched = graph.start("ros2", "launch", str(outer), "formast:=ncore")
    assert graph.state() == "unconfigured"
    launched.send(signal.SIGINT)
    assert launched.join() == 0, launched.text
    assert "rviz is none" in launched.text


def test_a_capture_of_any_robot_needs_no_configuration(graph: Graph, tmp_path: Path) -> None:
    robot = graph.start("python3", str(Path(__file__).with_name("robot.py")), "--pictures", "300")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", "name:=tour")
    graph.wait("an active node", lambda: "capture is active" in launched.text, 60.0, alive=[launched])
    assert "no topic of a Maivin is published, but others are" in launched.text
    status = graph.status()
    graph.wait("samples", lambda: int(status()["samples"]) >= 5, alive=[launched, robot])
    launched.send(signal.SIGINT)
    assert launched.join() == 0, launched.text


def test_auto_in_a_namespace_is_of_the_robot_in_it(graph: Graph, tmp_path: Path) -> None:
    from sensor_msgs.msg import PointCloud2  # noqa: PLC0415
    from sensor_msgs_py.point_cloud2 import create_cloud_xyz32  # noqa: PLC0415
    from std_msgs.msg import Header  # noqa: PLC0415

    robots = [graph.node.create_publisher(PointCloud2, f"/{name}/top/points", 10) for name in ("r1", "r2")]

    def publish() -> None:
        header = Header(stamp=graph.node.get_clock().now().to_msg(), frame_id="lidar")
        for each in robots:
            each.publish(create_cloud_xyz32(header, [(1.0, 2.0, 3.0)]))

    graph.node.create_timer(0.1, publish)
    launched = launch(graph, "capture", "namespace:=r2", "config:=auto", f"output:={tmp_path / 'out'}")
    graph.wait("an active node", lambda: "capture is active" in launched.text, 60.0, alive=[launched])
    (made,) = (tmp_path / "out").glob("*.yaml")
    assert str(made) in launched.text
    assert "/r2/top/points" in made.read_text()
    assert "/r1/" not in made.read_text()


@pytest.mark.parametrize("fault", ["rate_hz: -1.0", "no_such_thing: 1", "select: {every: many}"])
def test_bad_parameters_end_the_launch_with_the_reason(graph: Graph, tmp_path: Path, fault: str) -> None:
    given = tmp_path / "given.yaml"
    given.write_text(f"/**:\n  ros__parameters: {{{fault}}}\n")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}")
    assert launched.join() == 1
    assert f"{fault.rpartition(':')[0].replace(': {', '.')}: " in launched.text
    assert "capture could not be configured" in launched.text


def test_a_replay_ends_with_the_launch_and_gives_what_convert_gives(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text("/**:\n  ros__parameters: {workers: 2, select: {every: 2}}\n")
    launched = launch(
        graph, "replay", f"bag:={recorded_drive}", f"output:={tmp_path / 'ros'}", f"config:={given}"
    )
    assert launched.join() == 0
    assert "samples of" in launched.text
    convert([recorded_drive], tmp_path / "plain", build_config({"workers": 2, "select": {"every": 2}}))
    assert contents(tmp_path / "ros") == contents(tmp_path / "plain")
    again = launch(
        graph, "replay", f"bag:={recorded_drive}", f"output:={tmp_path / 'ros'}", f"config:={given}"
    )
    assert again.join() == 1
    assert "already exists" in again.text
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


def test_an_interrupted_replay_finishes_what_it_has_read(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text("/**:\n  ros__parameters: {lookahead_s: 0.5}\n")
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
    assert "interrupted: the dataset is complete up to here" in launched.text
    assert (tmp_path / "out/edgefirst/part/part.arrow").exists()
