"""`ros2 run` and `ros2 launch` as a user types them: arguments, exit codes, what is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from places import contents
from rosgraph import Graph, NeverCame, Process, needs_install, needs_ros

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
                *("split_every_s", "split_every_mb", "split_every_m", "start_paused", "record"),
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


def test_rviz_is_started_on_the_previews_of_this_node(graph: Graph, tmp_path: Path) -> None:
    """A stand-in says what it was started with."""
    said = tmp_path / "said.txt"
    program = tmp_path / "lib" / "rviz2" / "rviz2"
    index = tmp_path / "share" / "ament_index" / "resource_index" / "packages" / "rviz2"
    for path, text in (
        (program, f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}.new && mv {said}.new {said}\n'),
        (index, ""),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    program.chmod(0o755)
    graph.environment["AMENT_PREFIX_PATH"] = f"{tmp_path}:{graph.environment['AMENT_PREFIX_PATH']}"
    more = ("autostart:=false", "namespace:=/car/", "rviz:=true")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", *more)
    graph.wait("its arguments", said.exists, alive=[launched])
    arguments = said.read_text().splitlines()
    assert arguments[0] == "-d"
    assert Path(arguments[1]).name == "edgefirst.rviz"
    assert Path(arguments[1]).is_file()
    remapped = [each.split(":=") for each in arguments if ":=/" in each]
    assert ["/capture/preview/lidar", "/car/capture/preview/lidar"] in remapped
    assert len(remapped) == 3
    assert graph.parameters("preview", node="/car/capture") == [True]
    launched.send(signal.SIGINT)
    assert launched.join() == 0, launched.text


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


def test_a_node_that_died_is_started_again_on_request(graph: Graph, tmp_path: Path) -> None:
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", "respawn:=true")

    def started() -> list[str]:
        return re.findall(r"process started with pid \[(\d+)\]", launched.text)

    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    os.kill(int(started()[0]), signal.SIGKILL)
    graph.wait("another one", lambda: launched.text.count("capture is active") == 2, alive=[launched])
    assert "capture ended with exit code -9; restarting it" in launched.text
    launched.send(signal.SIGINT)
    assert launched.join() == 0
    assert len(started()) == 2
    assert len(list((tmp_path / "out").glob("edgefirst/*/capture_report.json"))) == 1


def test_a_node_that_cannot_begin_is_not_started_again(graph: Graph, tmp_path: Path) -> None:
    given = tmp_path / "given.yaml"
    given.write_text("/**:\n  ros__parameters: {rate_hz: -1.0}\n")
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}", "respawn:=true")
    assert launched.join() == 1
    assert launched.text.count("process started with pid") == 1
    assert "capture could not be configured" in launched.text


def test_interrupting_the_launch_finishes_the_session(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text(f"/**:\n  ros__parameters: {{{PROMPT}}}\n")
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


def test_interrupting_a_launch_that_has_only_begun_is_quiet(graph: Graph, tmp_path: Path) -> None:
    """The node takes a second to import what it needs, and nobody needs to know where it was then."""
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}")
    graph.wait("the process", lambda: "process started with pid" in launched.text, alive=[launched])
    launched.send(signal.SIGINT)
    assert launched.join() == 0
    assert "Traceback" not in launched.text
    assert "Caught exception" not in launched.text


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


def test_closing_that_takes_longer_than_a_launch_has_patience_for_is_waited_for(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    launched = slow_session(graph, tmp_path, recorded_drive, 8.0)
    launched.send(signal.SIGINT)
    assert launched.join(60.0) == 0, launched.text
    assert "escalating to 'SIGTERM'" in launched.text
    assert "process has finished cleanly" in launched.text
    assert (tmp_path / "out/edgefirst/monday/monday.arrow").exists()
    (sequence,) = (tmp_path / "out" / "ncore").iterdir()
    assert (sequence / f"{sequence.name}.json").exists()
    assert not list((tmp_path / "out").rglob("*.part"))


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


@pytest.mark.parametrize("name", ["capture", "replay"])
def test_a_configuration_that_is_not_there_ends_the_launch_before_it_begins(
    graph: Graph, tmp_path: Path, name: str
) -> None:
    given = (f"output:={tmp_path / 'out'}", "config:=ravin", *(["bag:=drive.mcap"] * (name == "replay")))
    launched = launch(graph, name, *given)
    assert launched.join() == 1
    assert "config ravin: no such file; give a path, or one of generic, maivin, raivin" in launched.text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "capture",
            "/capture: {ros__parameters: {every_n: 2}}",
            "holds /capture, nothing for /front/capture",
        ),
        ("replay", "every_n: 2", "holds every_n, nothing for /front/replay; begin it with /**:"),
    ],
)
def test_a_file_that_is_not_for_the_node_ends_the_launch_with_the_reason(
    graph: Graph, tmp_path: Path, name: str, text: str, said: str
) -> None:
    given = tmp_path / "given.yaml"
    given.write_text(text + "\n")
    more = [f"output:={tmp_path / 'out'}", f"config:={given}", "namespace:=front"]
    launched = launch(graph, name, *more, *(["bag:=drive.mcap"] * (name == "replay")))
    assert launched.join() == 1
    assert f"{name}: {given}: {said}" in launched.text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["capture", "replay"])
def test_every_misspelt_parameter_is_told_with_the_one_that_is_meant(
    graph: Graph, tmp_path: Path, name: str
) -> None:
    """Its own, the other node's and the configuration's."""
    given = tmp_path / "given.yaml"
    given.write_text("/**: {ros__parameters: {outptu: /x, unlistd: true, overwrit: true, frmats: [ncore]}}\n")
    more = [f"output:={tmp_path / 'out'}", f"config:={given}"]
    launched = launch(graph, name, *more, *(["bag:=drive.mcap"] * (name == "replay")))
    assert launched.join() == 1
    for wrong, right in (
        ("outptu", "output"),
        ("unlistd", "unlisted"),
        ("overwrit", "overwrite"),
        ("frmats", "formats"),
    ):
        assert f"{wrong}: no such parameter; did you mean {right}?" in launched.text
    assert not list(tmp_path.glob("out/*"))


def test_one_file_serves_both_nodes(graph: Graph, tmp_path: Path, recorded_drive: Path) -> None:
    """What is the other node's is passed over, and named; a value of it is not looked at."""
    given = tmp_path / "given.yaml"
    given.write_text(
        "/**:\n  ros__parameters: {depth: 20, unlisted: false, stop_within_s: 1.0, autostart: true,\n"
        "    rate: 4.0, overwrite: true, bag: 7, every_n: 4}\n"
    )
    replayed = launch(graph, "replay", f"bag:={recorded_drive}", f"output:={tmp_path}", f"config:={given}")
    assert replayed.join() == 0
    assert "another node's parameters: autostart, depth, stop_within_s, unlisted" in replayed.text
    launched = launch(graph, "capture", f"output:={tmp_path / 'out'}", f"config:={given}")
    graph.wait("an active node", lambda: "capture is active" in launched.text, alive=[launched])
    assert "another node's parameters: bag, overwrite, rate" in launched.text
    assert graph.parameters("depth", "every_n", "unlisted") == [20, 4, False]


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
    assert contents(tmp_path / "ros") == contents(tmp_path / "plain")
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


def test_a_wait_that_comes_to_nothing_is_no_result(graph: Graph) -> None:
    with pytest.raises(NeverCame, match="what never is"):
        graph.wait("what never is", lambda: None, timeout_s=0.1)
