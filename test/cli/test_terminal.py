from __future__ import annotations

import io
from typing import Any

import pytest
from drives import simulate
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from edgefirst_ros.cli.results import print_recording, print_report
from edgefirst_ros.cli.shared import Out
from edgefirst_ros.cli.terminal import PlainConsole, TimeLeft
from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.info import inspect
from edgefirst_ros.sources.mcap import McapRecording


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Report and contents of one recording whose name is hostile."""
    folder = tmp_path_factory.mktemp("drive")
    options = DriveOptions(seconds=2, fps=10, width=160, height=90, lidar_points=64, cube_hz=5, imu_hz=20)
    recording = simulate(folder, options).mcap.rename(folder / "a[b]c.mcap")
    cut = recording.read_bytes()
    recording.write_bytes(cut[: len(cut) * 9 // 10])
    report = convert([recording], folder, build_config({})).report
    return report, inspect(McapRecording(recording), build_config({}))


def printing(console: Console) -> Out:
    """A command that prints to a console."""
    out = Out()
    out.err = console
    return out


def shown(width: int, *, report: dict[str, Any] | None = None, info: dict[str, Any] | None = None) -> str:
    console = Console(file=io.StringIO(), width=width)
    if report is not None:
        print_report(printing(console), report, detail=2)
    if info is not None:
        print_recording(console, info)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(
    wait_s=st.floats(0, 100),
    rate=st.floats(1e-4, 1.0),
    slower=st.floats(0.2, 5),
    burst=st.floats(0, 0.02),
    every_s=st.floats(0.1, 1),
)
def test_what_is_said_to_be_left_is_true_within_half_of_it(
    wait_s: float, rate: float, slower: float, burst: float, every_s: float
) -> None:
    """After a tenth that goes at another speed, and whatever comes in bursts."""
    left, begun_s, now_s = TimeLeft(), wait_s + 0.1 / (rate * slower), 0.0
    end_s = begun_s + 0.9 / rate
    every_s = max(every_s, end_s / 2000)
    while now_s < end_s:
        share = max(0.0, (now_s - wait_s) * rate * slower)
        share = share if now_s < begun_s else 0.1 + (now_s - begun_s) * rate
        share -= share % burst if burst > 0.001 else 0.0
        said = left.after(now_s, share)
        if share >= 0.2 and end_s - now_s > 3 * every_s + 3 * burst / rate:
            assert said is not None
            assert 1 / 1.5 <= said / (end_s - now_s) <= 1.5
        now_s += every_s


@pytest.mark.parametrize("width", [40, 80, 100, 140])
def test_no_number_is_cut_however_narrow_the_terminal(
    made: tuple[dict[str, Any], dict[str, Any]], width: int
) -> None:
    report, info = made
    assert "…" not in shown(width, report=report)
    if width >= 72:
        text = shown(width, info=info)
        assert "…" not in text
        rows = [line for line in text.splitlines() if line.startswith("/") and ": " not in line]
        assert rows
        assert all(len(row) <= width for row in rows)
        assert "NavSatFix" in text


def test_names_are_shown_as_they_are(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert "a[b]c.mcap" in shown(140, report=made[0])
    assert "a[b]c.mcap" in shown(140, info=made[1])


def test_no_number_of_one_topic_is_said_of_another(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    text = shown(200, info=made[1])
    assert "/camera/info, /radar/info, /tf_static: receive time: the stamp never changes\n" in text
    one = {topic: each for topic, each in made[1]["topics"].items() if topic != "/radar/info"}
    one["/tf_static"] = one["/camera/info"]
    assert "/camera/info, /tf_static: receive time: the stamp never changes (" in shown(
        200, info={**made[1], "topics": one}
    )


def test_a_sensor_of_several_drives_is_one_sensor(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    once, thrice = (
        shown(140, report={**made[0], "sequences": made[0]["sequences"] * count}).partition("done ")[2]
        for count in (1, 3)
    )
    assert once == thrice


def test_names_cannot_steer_the_terminal(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    hostile = "/x\x1b[2J\x9b\x07"
    report = {**made[0], "notes": [hostile], "topics": {hostile: made[0]["topics"]["/camera/h264"]}}
    info = {
        **made[1],
        "file": hostile,
        "topics": {hostile: made[1]["topics"]["/camera/h264"]},
        "note": hostile,
    }
    for width in (60, 200):
        console = PlainConsole(file=io.StringIO(), width=width)
        print_report(printing(console), report, detail=2)
        print_recording(console, info)
        printing(console).fail([hostile])
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
        assert not set(text) & set("\x1b\x9b\x07")
        assert text.count(r"/x\x1b[2J\x9b") >= 5
