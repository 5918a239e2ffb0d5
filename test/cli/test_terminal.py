from __future__ import annotations

import copy
import io
from typing import Any

import pytest
from drives import simulate
from rich.console import Console

from edgefirst_ros.cli.shared import print_error
from edgefirst_ros.cli.terminal import PlainConsole, make_console, print_info, print_report
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


def shown(width: int, *, report: dict[str, Any] | None = None, info: dict[str, Any] | None = None) -> str:
    console = Console(file=io.StringIO(), width=width)
    if report is not None:
        print_report(console, report)
    if info is not None:
        print_info(console, info)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 100, 140])
def test_no_number_is_cut_however_narrow_the_terminal(
    made: tuple[dict[str, Any], dict[str, Any]], width: int
) -> None:
    report, info = made
    assert "…" not in shown(width, report=report)
    if width >= 72:
        text = shown(width, info=info)
        assert "…" not in text
        assert all(len(line) <= width for line in text.splitlines() if line.startswith("/"))
        assert "NavSatFix" in text


def test_every_topic_has_its_line_where_no_table_fits(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    account = made[0]["topics"]["/camera/h264"]
    text = shown(80, report=made[0])
    assert f"/camera/h264: {account['received']} received: " in text
    assert "┃" not in text


def test_names_are_shown_as_they_are(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert "a[b]c.mcap" in shown(140, report=made[0])
    assert "a[b]c.mcap" in shown(140, info=made[1])


def test_damage_of_one_kind_is_one_line(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    faults = [{"what": "a chunk", "bytes": 10, "offset": 100 * n} for n in range(1, 1001)]
    text = shown(140, report={**made[0], "recordings": [{"file": "x.mcap", "faults": faults}]})
    assert "x.mcap: a chunk, 1,000 times (10,000 bytes, the first at 100)" in text


def test_of_one_it_speaks_in_the_singular(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    formats = {
        "edgefirst": {"samples": 1, "messages": 1, "left_out": {"no picture": 1}},
        "l5kit": {"frames": 0, "messages": 2, "left_out": {"no ego pose": 2}},
    }
    counts = {"sample": 1, "reference_frames": 2, "complete": 0, "missing": {"radar/cube": 1}}
    sequence = {"name": "a_sequence", **counts, "clocks": {}}
    text = shown(140, report={**made[0], "formats": formats, "sequences": [sequence]})
    assert "edgefirst: 1 sample, of 1 message; 1 sample left out: no picture\n" in text
    assert "l5kit: 0 frames, of 2 messages; 2 samples left out: no ego pose\n" in text
    assert "a_sequence: 1 sample of 2 reference frames, 0 complete (1 without radar/cube); clocks:" in text


def test_who_selects_is_told_how_to_select_what_has_labels(
    made: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    report = copy.deepcopy(made[0])
    report["samples"], report["labelled"], advice = 40, 12, "--complete model"
    for skipped, is_told in ((0, False), (100, True)):
        report["sequences"][0]["skipped"] = skipped
        assert (advice in shown(140, report=report)) is is_told
    report["labelled"] = 40
    assert advice not in shown(140, report=report)


def test_an_empty_recording_has_no_date(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    text = shown(140, info={**made[1], "messages": 0, "topics": {}, "start_ns": 0})
    assert "0 messages" in text
    assert "1970" not in text


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
        print_report(console, report)
        print_info(console, info)
        print_error(console, hostile)
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
        assert not set(text) & set("\x1b\x9b\x07")
        assert text.count(r"/x\x1b[2J\x9b") >= 5


def test_colours_still_reach_a_terminal() -> None:
    console = PlainConsole(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)
    print_error(console, "x\x1b[2J")
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "\x1b[1;31merror" in text
    assert r"x\x1b[2J" in text


def test_a_lost_summary_is_one_line() -> None:
    empty = {"topics": {}, "clock_breaks": [], "faults": [], "ambiguous": None}
    info = {"file": "a.mcap", "bytes": 0, "messages": 0, **empty}
    assert "note: the summary" in shown(100, info={**info, "note": "the summary is lost"})
    assert "note" not in shown(100, info={**info, "note": None})


def test_a_name_between_colons_is_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    make_console(stderr=False).print("/work:car:/drive.mcap")
    assert capsys.readouterr().out == "/work:car:/drive.mcap\n"
