"""The capture node as a lifecycle node: transitions, services, parameters, faults."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from livedrive import check_sums
from rosgraph import Graph, needs_ros

pytestmark = needs_ros


def reports(output: Path) -> list[dict]:
    return [json.loads(p.read_text()) for p in sorted(output.glob("edgefirst/*/capture_report.json"))]


def test_a_session_lasts_from_activation_to_deactivation(graph: Graph, tmp_path: Path) -> None:
    node = graph.capture(tmp_path / "out")
    assert graph.state() == "unconfigured"
    assert graph.change("configure")
    assert graph.state() == "inactive"
    assert not list((tmp_path / "out").iterdir())
    assert graph.change("activate")
    assert graph.state() == "active"
    assert graph.change("deactivate")
    assert graph.state() == "inactive"
    (report,) = reports(tmp_path / "out")
    assert report["ended"] == "stopped"
    assert graph.change("activate")
    assert graph.change("deactivate")
    assert graph.change("cleanup")
    assert graph.state() == "unconfigured"
    assert graph.change("configure")
    assert graph.change("inactive_shutdown")
    assert node.join() == 0
    assert len(reports(tmp_path / "out")) == 2


def test_an_impossible_transition_fails_and_the_node_goes_on(graph: Graph, tmp_path: Path) -> None:
    """A lifecycle manager configures a node that has configured itself, and two operators both stop it."""
    node = graph.capture(tmp_path / "out")
    assert not graph.change("activate")
    graph.activate()
    for transition in ("configure", "activate", "cleanup", "unconfigured_shutdown"):
        assert not graph.change(transition)
    assert (graph.state(), node.code) == ("active", None)
    assert graph.change("deactivate")
    assert not graph.change("deactivate")
    (report,) = reports(tmp_path / "out")
    assert report["ended"] == "stopped"
    assert "Traceback" not in node.text
    assert node.text.count("is impossible now") == 6


def test_services_begin_split_and_end_sessions(graph: Graph, tmp_path: Path, recorded_drive: Path) -> None:
    from diagnostic_msgs.msg import DiagnosticStatus  # noqa: PLC0415
    from std_msgs.msg import Bool  # noqa: PLC0415

    node = graph.capture(tmp_path / "out")
    for name in ("start", "stop", "split", "pause", "resume"):
        assert graph.trigger(f"/capture/{name}") == (
            False,
            "the node is unconfigured; activate it first",
        )
    graph.activate()
    status = graph.status()
    events = graph.listen(DiagnosticStatus, "/capture/events/split", latched=True)
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("samples", lambda: int(status().get("samples", 0)) >= 5, alive=[player])
    done, message = graph.trigger("/capture/split")
    assert done, message
    first = status()["session"]
    graph.wait("another session", lambda: status()["session"] != first)
    graph.wait("the event", lambda: bool(events))
    told = {value.key: value.value for value in events[0].values}
    assert (told["closed"], told["opened"], told["reason"]) == (first, status()["session"], "split")
    assert int(told["samples"]) >= 5
    paths = [Path(value.value) for value in events[0].values if value.key == "path"]
    assert len(paths) > 1
    assert all(path.exists() for path in paths)
    line = f"session {first} is complete: {told['samples']} samples"
    graph.wait("the line in the log", lambda: line in node.text)
    assert player.join() == 0
    assert graph.trigger("/capture/start")[0] is False
    done, message = graph.trigger("/capture/stop")
    assert done, message
    assert message.count("is complete") == 2
    assert node.text.count(line) == 1
    assert graph.trigger("/capture/stop") == (False, "no session is in progress")
    assert graph.state() == "active"
    done, message = graph.trigger("/capture/start")
    assert done
    assert "begins" in message
    flags = graph.listen(Bool, "/capture/is_paused", latched=True)
    for name, paused in (("pause", "yes"), ("resume", "no"), ("toggle_paused", "yes")):
        assert graph.trigger(f"/capture/{name}")[0]
        graph.wait(f"{name}d", lambda paused=paused: status()["paused"] == paused)
        graph.wait("the flag", lambda paused=paused: bool(flags) and flags[-1].data == (paused == "yes"))
    graph.change("deactivate")
    found = reports(tmp_path / "out")
    assert len(found) == 3
    for report in found:
        check_sums(report)
    split = [report for report in found if report["ended"] == "split"]
    assert len(split) == 1
    assert split[0]["samples"] >= 5


def test_a_session_that_begins_paused_and_is_never_resumed_writes_nothing(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    graph.capture(tmp_path / "out", "start_paused:=true")
    graph.activate()
    status = graph.status()
    graph.wait("the pause", lambda: status()["paused"] == "yes")
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("messages", lambda: int(status()["received"]) >= 100, alive=[player])
    assert graph.change("deactivate")
    (report,) = reports(tmp_path / "out")
    check_sums(report)
    assert report["totals"]["received"] >= 100
    assert (report["samples"], report["totals"]["written"]) == (0, 0)
    assert report["topics"]["/camera/h264"]["reasons"]["skipped"].keys() == {"paused"}


def test_every_fault_is_listed_and_can_be_mended(graph: Graph, tmp_path: Path) -> None:
    node = graph.capture(
        tmp_path / "out",
        *("pictures:=jpeg101", "select.every:=two", "topcis.imu.clock:=auto", "rate_hz:=-1.0"),
    )
    status = graph.status()
    assert not graph.change("configure")
    assert graph.state() == "unconfigured"
    for name in ("pictures", "select.every", "topcis.imu.clock", "rate_hz"):
        assert f"{name}: " in node.text
    graph.wait("an error in the status", lambda: status().get("level") == "2")
    assert "pictures" in status()["message"]
    assert graph.set("rate_hz", -2.0)[0] is False
    assert graph.set("rate_hz", 0.0) == (True, "")
    assert graph.set("select.every", 2) == (True, "")
    assert graph.set("pictures", "jpeg90") == (True, "")
    # A name that means nothing cannot be taken back, so it alone is left.
    assert not graph.change("configure")
    assert node.text.rstrip().endswith("topcis.imu.clock: no such parameter; did you mean topics.imu.clock?")


def test_an_empty_list_in_a_file_is_not_set(graph: Graph, tmp_path: Path) -> None:
    """`ros2 param dump` writes them for what is not set."""
    file = tmp_path / "dumped.yaml"
    file.write_text("/**:\n  ros__parameters: {select: {every: 2}, topics: {gps: {mount: {xyz_m: []}}}}\n")
    given = ("--ros-args", "--params-file", str(file), "-p", f"output:={tmp_path / 'out'}")
    node = graph.start(sys.executable, "-m", "edgefirst_ros.nodes.capture", *given)
    assert graph.change("configure"), node.text
    assert graph.parameters("select.every", "topics.gps.mount.xyz_m") == [2, []]


def test_what_cannot_change_live_is_refused_with_the_reason(graph: Graph, tmp_path: Path) -> None:
    graph.capture(tmp_path / "out")
    graph.activate()
    done, reason = graph.set("pictures", "jpeg50")
    assert not done
    assert reason == "pictures: cannot change while the node is active; deactivate it first"
    # No message would come until /clock does.
    assert graph.set("use_sim_time", True)[1].startswith("use_sim_time: cannot change while the node is")
    done, reason = graph.set("autostart", True)
    assert not done
    assert "read-only" in reason
    assert graph.set("stop_within_s", 1.0) == (True, "")
    assert graph.set("preview", True) == (True, "")
    graph.wait("a preview", lambda: graph.node.count_publishers("/capture/preview/lidar") == 1)
    assert graph.set("preview", False) == (True, "")
    graph.wait("no preview", lambda: graph.node.count_publishers("/capture/preview/lidar") == 0)
    assert graph.change("deactivate")
    assert graph.set("pictures", "jpeg50") == (True, "")
    done, reason = graph.set("select.every", 0)
    assert not done
    assert "select.every" in reason
    done, reason = graph.set("select.keyframes", "yes")
    assert not done
    assert graph.change("activate")


def test_writing_that_fails_is_an_error_and_the_node_can_be_used_again(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    node = graph.capture(tmp_path / "out", "name:=monday")
    graph.activate()
    status = graph.status()
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("samples", lambda: int(status().get("samples", 0)) >= 3, alive=[player])
    # The dataset's folder becomes a file: nothing can be finished in it.
    folder = tmp_path / "out" / "edgefirst" / "monday"
    folder.rename(tmp_path / "moved")
    folder.touch()
    assert not graph.change("deactivate")
    assert graph.state() == "unconfigured"
    graph.wait("an error in the status", lambda: status().get("level") == "2")
    assert "monday" in node.text
    folder.unlink()
    graph.activate()
    assert graph.change("deactivate")
