"""capture and play as commands: what they refuse, and how they end without a signal."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from livedrive import drive, messages
from places import REPOSITORY
from zenoh_loopback import await_condition, free_endpoint

from edgefirst_ros.cli.app import app
from edgefirst_ros.cli.liveview import LiveView
from edgefirst_ros.cli.play import ENDPOINT
from edgefirst_ros.live import capture as live
from edgefirst_ros.model.untrusted import safe_name
from edgefirst_ros.pipeline.disk import Disk
from edgefirst_ros.sources.zenoh import ZenohSource
from edgefirst_ros.sources.zenohlink import open_session


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error without breaks."""
    # Not by the runner that typer has for tests: before click 8.2 it mixes the two.
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        app([str(a) for a in arguments], prog_name="edgefirst-ros")
    return ended.value.code or 0, out.getvalue(), re.sub(r"\s+", " ", err.getvalue())


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures have a connection, over which nothing comes."""
    monkeypatch.setattr(ZenohSource, "connections", 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["capture", "-o", "OUT"], "--zenoh"),
        (["capture", "-o", "OUT", "--zenoh", "tcp://1.2.3.4:7447"], "expected PROTOCOL/ADDRESS"),
        (["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--rate", "2", "--every-n", "3"], "exclude"),
        (["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--reference", "sonar"], "'sonar'"),
        (["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--duration", "-1"], "--duration"),
        (
            ["capture", "-o", "OUT", "--zenoh", "ENDPOINT", "--duration", "0.1"],
            "never connected (tcp/127.0.0.1:",
        ),
        (["play", "DRIVE", "--zenoh-listen", "ENDPOINT", "--speed", "0"], "--speed 0: expected more than 0"),
        (["play", "DRIVE", "--zenoh-listen", "ENDPOINT", "--start", "99"], "nothing in it is between"),
        (["play", "OUT/none.mcap", "--zenoh-listen", "ENDPOINT"], "no such recording"),
        (
            ["play", "DRIVE", "--zenoh-listen", "ENDPOINT", "--wait", "0.05"],
            "nobody subscribed within 0.05 s",
        ),
    ],
)
def test_wrong_usage_is_said_with_exit_2_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    output = tmp_path / "out"
    given = {"OUT": str(output), "ENDPOINT": free_endpoint(), "DRIVE": str(drive())}
    code, _, said = run(*(given.get(a, a.replace("OUT", str(output))) for a in arguments))
    assert code == 2, said
    assert words in said
    assert not output.exists()


def test_a_folder_is_played_if_it_holds_one_recording(tmp_path: Path) -> None:
    shutil.copy(drive(), tmp_path / "a.mcap")
    waiting = ("play", tmp_path, "--zenoh-listen", free_endpoint(), "--wait", "0.05")
    assert "nobody subscribed within" in run(*waiting)[2]
    shutil.copy(drive(), tmp_path / "b.mcap")
    code, _, said = run(*waiting)
    assert code == 2
    assert "holds 2 recordings; name the one to play" in said


def test_the_files_of_one_drive_are_played_one_after_another_and_nobody_listens(tmp_path: Path) -> None:
    for number in range(2):
        shutil.copy(drive(), tmp_path / f"bag_{number}.mcap")
    listed = {"rosbag2_bagfile_information": {"relative_file_paths": ["bag_0.mcap", "bag_1.mcap"]}}
    (tmp_path / "metadata.yaml").write_text(json.dumps(listed))
    playing = ("play", tmp_path, "--zenoh-listen", free_endpoint(), "--wait", "0")
    code, _, said = run(*playing, "--speed", "1000")
    assert code == 1
    assert f"{2 * len(messages()):,} messages" in said
    assert "bag_0.mcap to bag_1.mcap: 2 files of one drive" in said
    assert "error: nobody listened: no topic had a subscriber" in said
    code, _, said = run(*playing, "--speed", "1000", "--quiet", "--end", "0.1")
    assert code == 1
    assert said.startswith("error: nobody listened")


def test_without_an_endpoint_it_is_played_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of the README find each other: what one listens on, the other connects to."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f"\nedgefirst-ros capture --zenoh {ENDPOINT} -o out" in readme
    assert "\nedgefirst-ros play drive.mcap  " in readme
    endpoint = free_endpoint()
    monkeypatch.setattr("edgefirst_ros.cli.play.ENDPOINT", endpoint)
    asked: list[bool] = []

    def listening(*_: object) -> bool:
        with open_session([endpoint], []) as link:
            await_condition("the player", lambda: bool(link.info.peers_zid()))
        return not asked.append(True)

    monkeypatch.setattr("edgefirst_ros.sources.player.Player.wait_for_subscriber", listening)
    code, _, said = run("play", drive(), "--speed", "1000")
    assert asked
    assert f"edgefirst-ros capture --zenoh {endpoint} -o OUT" in said
    assert code == 1


def test_a_name_that_zenoh_does_not_take_is_said_without_its_sources(tmp_path: Path) -> None:
    given = ("-o", tmp_path / "out", "--zenoh-listen", free_endpoint())
    code, _, said = run("capture", *given, "--namespace", "a//b")
    assert code == 2
    assert "error: 'a//b/" in said
    assert "empty chunks are forbidden, as well as leading and trailing slashes" in said
    assert ".rs" not in said
    assert not (tmp_path / "out").exists()


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    with open_session([], [endpoint]):
        code, _, said = run("capture", "-o", tmp_path / "out", "--zenoh-listen", endpoint)
    assert code == 2
    assert endpoint in said
    assert ".rs" not in said
    assert not (tmp_path / "out").exists()


def test_a_dataset_of_that_name_is_refused(tmp_path: Path) -> None:
    dataset = tmp_path / "edgefirst" / "mine"
    dataset.mkdir(parents=True)
    (dataset / "mine.zip").touch()
    code, _, said = run("capture", "-o", tmp_path, "--zenoh", free_endpoint(), "--name", "mine")
    assert code == 2
    assert "mine.zip exists" in said
    assert "--overwrite" not in said


@pytest.mark.parametrize("there", [[], ["live"], ["live/ncore", "live/old"]])
def test_a_capture_that_never_connected_leaves_nothing(tmp_path: Path, there: list[str]) -> None:
    for folder in there:
        (tmp_path / folder).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    formats = ("--format", "edgefirst,ncore,l5kit", "--record")
    endpoint = free_endpoint()
    code, out, said = run(
        *("capture", "-o", tmp_path / "live", "--zenoh", endpoint, "--duration", "0.1"), *formats, "--json"
    )
    assert code == 2
    assert f"never connected ({endpoint}): is the endpoint right, and the device on?" in said
    assert "never connected" in json.loads(out)["error"]
    assert sorted(tmp_path.rglob("*")) == before


def test_an_interrupted_capture_that_never_connected_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveView, "update", lambda *_: signal.raise_signal(signal.SIGINT))
    code, out, said = run("capture", "-o", tmp_path / "live", "--zenoh", free_endpoint(), "--json")
    assert code == 130
    assert "interrupted: nothing was connected or written" in said
    assert "interrupted" in json.loads(out)["error"]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("connected")
def test_a_time_in_which_nothing_came_ends_with_exit_1_and_says_what_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("min_free_mb: 0\nprefix: maivin-9\n")
    code, out, said = run(
        *("capture", "-o", tmp_path / "out", "--zenoh", free_endpoint(), "--duration", "0.1"),
        *("--config", config, "--json"),
    )
    assert code == 1, said
    report = json.loads(out)
    assert report["samples"] == report["totals"]["received"] == 0
    assert report["ended"] == live.STOPPED
    assert report["silent"]["camera"][:2] == ["camera/h264", "camera/h265"]
    assert report["warnings"] == ["the dataset is empty: no reference frame arrived, or none was selected"]
    assert re.fullmatch(r"maivin-9_\d{4}(_\d\d){5}-dataset", report["dataset"])
    assert [Path(path).name for path in report["paths"] if Path(path).exists()] == [
        "capture_report.json",
        "capture_report.html",
    ]


def test_a_disk_that_fills_ends_with_exit_1_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([2_000_000_000])
    monkeypatch.setattr(Disk, "free_bytes", lambda _: next(free, 5_000_000))
    code, out, said = run("capture", "-o", tmp_path / "out", "--zenoh", free_endpoint(), "--host", "car")
    assert code == 1, said
    assert "ended because the disk has 5 MB left, less than min_free_mb 1,024" in said
    assert "nothing was received: is the endpoint right" in said
    assert "nothing was received for camera (camera/h264" in said
    assert Path(out.split()[0]).parent.name.startswith("car")


def test_a_full_disk_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "free_bytes", lambda _: 5_000_000)
    code, _, said = run("capture", "-o", tmp_path / "out", "--zenoh", free_endpoint())
    assert code == 2
    assert "the disk has 5 MB left, less than min_free_mb 1,024" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("tcp/maivin-7.local:7447", "maivin-7"),
        ("tcp/192.168.1.5:7447", "192.168.1.5"),
        ("tls/[fe80::1%eth0]:7447#iface=x", "fe80::1%eth0"),
    ],
)
def test_a_session_without_a_namespace_is_called_after_the_endpoint(
    tmp_path: Path, endpoint: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "edgefirst_ros.sources.zenohlink.open_session", lambda *_: open_session([], [free_endpoint()])
    )
    _, out, said = run("capture", "-o", tmp_path, "--zenoh", endpoint, "--duration", "0", "--quiet", "--json")
    assert re.fullmatch(
        rf"{re.escape(safe_name(host))}_\d{{4}}(_\d\d){{5}}-dataset", json.loads(out)["dataset"]
    ), said


def test_help_teaches() -> None:
    for command, words in (
        ("capture", ("--zenoh", "--namespace", "--duration", "recover", "tcp/192.168.1.5:7447")),
        ("play", ("--speed", "--names", "--wait", "--zenoh-listen")),
    ):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert all(word in out for word in words)
