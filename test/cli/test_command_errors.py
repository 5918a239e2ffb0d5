"""How the commands fail: a sentence and an exit code, JSON where it was asked for, never a traceback."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from drives import simulate
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import Recovered
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DriveOptions(seconds=1, fps=10, width=160, height=90, lidar_points=64, cube_hz=0, imu_hz=20)
    return simulate(tmp_path_factory.mktemp("drive"), options).mcap


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["info", "convert -o OUT", "report", "play --wait 0"])
def test_json_that_was_asked_for_comes_in_failure_too(tmp_path: Path, command: str) -> None:
    arguments = [str(tmp_path / "out") if a == "OUT" else a for a in command.split()]
    code, out, said = run(*arguments, tmp_path / "none.mcap", "--json")
    assert code == 2
    assert json.loads(out)["error"].endswith("none.mcap: no such recording")
    assert "no such recording" in said


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["convert", "x.mcap", "--fps", "2"], "no such option: --fps"),
        (["convert", "x.mcap", "-o", "o", "--rate", "abc"], "--rate: expected a number, found 'abc'"),
        (["convert", "x.mcap", "-o", "o", "--fromat", "l5kit"], "no such option: --fromat"),
        (["check"], "missing argument PATH"),
        (["info", "a", "--json=1"], "option '--json' does not take a value"),
        (["capture", "-o", "o", "--duration", "-1"], "--duration: "),
        (["capture", "-o", "o", "--schema", "1"], "--schema: '1' is not one of '2025.01', '2026.10'"),
        (["simulate", "-o", "o", "--seconds", "nan"], "--seconds: expected at most 1e+10, found nan"),
        (["export", "voc", "out", "-o", "o"], "coco|yolo|hf: 'voc' is not one of 'coco', 'yolo', 'hf'"),
        (["inof"], "no such command 'inof'"),
        (["--verson"], "no such option: --verson"),
    ],
)
def test_wrong_usage_is_a_sentence_and_json_where_it_was_asked_for(arguments: list[str], fault: str) -> None:
    code, out, said = run(*arguments, "--json")
    assert code == 2
    (found,) = json.loads(out)["faults"]
    assert found.startswith(fault)
    assert said.startswith(f"error: {found}\nhint: ")
    assert len(said.splitlines()) == 2
    code, out, plain = run(*arguments)
    assert (code, out, plain) == (2, "", said)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("--fps", "--rate"), ("--hz", "--rate"), ("--over", "--overwrite"), ("--fromat", "--format")],
)
def test_a_wrong_guess_is_answered(given: str, meant: str) -> None:
    assert run("convert", "x.mcap", given, "2")[2].endswith(f"\nhint: did you mean {meant}?\n")


def test_a_sheet_replaces_a_sheet_and_nothing_else(drive: Path, tmp_path: Path) -> None:
    convert([drive], tmp_path, build_config({}), dataset="d")
    dataset, sheet = tmp_path / "edgefirst" / "d", tmp_path / "s.png"
    assert run("report", dataset, "--picture", sheet)[0] == 0
    assert run("report", dataset / "d.zip", "--picture", sheet, "--rows", "1")[0] == 0
    assert Image.open(sheet).format == "PNG"
    before = drive.read_bytes()
    for other, why in (
        ("r.png", "exists and is no contact sheet"),
        ("r.mcap", "end its name in .png"),
    ):
        (tmp_path / other).write_bytes(before)
        code, _, said = run("report", dataset, "--picture", tmp_path / other)
        assert code == 2
        assert why in said
        assert (tmp_path / other).read_bytes() == before
    Image.new("RGB", (8, 8)).save(tmp_path / "holiday.jpg")
    assert run("report", dataset, "--picture", tmp_path / "holiday.jpg")[0] == 2
    (tmp_path / "holiday.jpg").unlink()
    assert run("report", dataset, "--picture", tmp_path / "holiday.jpg")[0] == 0
    with Image.open(tmp_path / "holiday.jpg") as picture:
        assert (picture.format, picture.width > 1000) == ("JPEG", True)
    assert run("report", dataset, "--picture", tmp_path / "holiday.jpg")[0] == 0
    assert "is no file" in run("report", dataset, "--picture", make(tmp_path / "folder.png"))[2]


def test_info_tells_versions_and_what_datasets_are(
    drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"edgefirst_ros", "python", "numpy", "av", "system"} <= json.loads(run("info", "--json")[1])[
        "versions"
    ].keys()
    convert([drive], tmp_path, build_config({"formats": ["edgefirst", "l5kit"]}), dataset="d")
    monkeypatch.chdir(tmp_path)
    code, said, _ = run("info", ".")
    found = [line.split()[:2] for line in said.splitlines() if line[0] != " "]
    assert (code, found) == (0, [["edgefirst/d", "edgefirst"], ["l5kit/d.zarr", "l5kit"]])
    assert "10 samples   " in said
    code, _, refused = run("select", drive, "-o", "new")
    assert (code, "is no catalogue of this version, nor a folder of datasets" in refused) == (2, True)
    assert "5 of 10 samples, of 1 dataset\n" in run("select", ".", "-o", "new", "--where", "frame % 2 = 0")[1]


def test_what_is_named_in_the_wrong_place_is_called_what_it_is(
    drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert([drive], tmp_path / "out", build_config({}), dataset="d")
    monkeypatch.chdir(tmp_path)
    for command, said in (
        (f"check {drive}", "is a recording\nhint: edgefirst-ros info says what is in it"),
        ("check out --for nurec", "no dataset that NuRec takes\nhint: convert --format ncore makes one"),
        ("check out --official /nope/python", "error: --official /nope/python: is no program"),
        ("export yolo out -o .", "is not empty, or a file\nhint: choose a new folder"),
        (f"convert {drive} --config {drive}", f"{drive.name}: is no configuration file"),
        (f"convert {drive} --config out", "error: out: is a folder\nhint: name a configuration file in it"),
        (f"convert {drive} --for nobody", "error: --for: 'nobody' is not known"),
        (f"simulate -o {drive}", "is a file, not a folder\n"),
        ("simulate -o new --size 0x0", "error: height is 0, must be"),
        ("simulate -o new --set foo=1", "no such option of a drive\nhint: docs/simulator.md lists them"),
    ):
        code, _, err = run(*shlex.split(command))
        assert code == 2, command
        assert said in err, f"{command}\n{err}"


def test_what_is_named_twice_is_exported_once(drive: Path, tmp_path: Path) -> None:
    convert([drive], tmp_path / "out", build_config({}), dataset="d")
    _, _, once = run("export", "yolo", tmp_path / "out", "-o", tmp_path / "once")
    _, _, twice = run(
        "export", "yolo", tmp_path / "out", tmp_path / "out/edgefirst", "-o", tmp_path / "twice"
    )
    assert "pictures" in once
    assert twice == once


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_what_is_no_dataset_has_no_sheet(drive: Path, tmp_path: Path) -> None:
    for given, why in (
        (drive, "is a recording"),
        (tmp_path / "none", "no such file or folder"),
    ):
        code, _, said = run("report", given, "--picture", tmp_path / "s.png")
        assert code == 2
        assert f"{given}: {why}" in said


@pytest.mark.parametrize("words", [["info", "DRIVE"], ["--version"]])
def test_standard_output_that_is_full_is_said(drive: Path, words: list[str]) -> None:
    arguments = [str(drive) if word == "DRIVE" else word for word in words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "edgefirst_ros", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: No space left on device (")
    assert "Traceback" not in done.stderr


def test_what_keeps_a_recovery_from_its_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for why, hint in (
        ("No space left on device", f"free space on the disk of {tmp_path}"),
        ("?", "remove the cause"),
    ):
        failed = [Recovered(Path("out/d"), f"out/d: cannot be recovered: {why}", failed=True)]
        monkeypatch.setattr("edgefirst_ros.formats.datasets.recover", lambda _, failed=failed: failed)
        code, _, said = run("recover", tmp_path)
        assert (code, said.endswith(f"hint: {hint}, then run recover again\n")) == (2, True)


@pytest.mark.long
def test_an_output_folder_with_an_odd_name_is_printed_escaped_and_is_exact_in_json(
    drive: Path, tmp_path: Path
) -> None:
    """Also where the output is no terminal: a log is looked at on one."""
    odd = bytes(tmp_path) + "/o\x1b[2J\u202e\u200b".encode() + b"\xff"
    for more, number in (([], b"1"), ([b"--json"], b"2")):
        program = [sys.executable, "-m", "edgefirst_ros", "convert", bytes(drive), b"-o", odd + number]
        done = subprocess.run(
            [*program, b"--no-report", *more],
            capture_output=True,
            check=False,
            timeout=60,
            env={"PYTHONUTF8": "1", "PYTHONPATH": ":".join(sys.path)},
        )
        assert done.returncode == 0, done.stderr
        if more:
            assert os.fsencode(json.loads(done.stdout)["paths"][0]).startswith(odd + number)
            assert done.stdout.isascii()
        else:
            assert done.stdout.startswith(b"dataset    " + bytes(tmp_path) + rb"/o\x1b[2J\u202e\u200b\udcff1")


@pytest.mark.parametrize("name", ["edgefirst", "ncore", "l5kit"])
def test_an_output_that_cannot_be_made_is_said_before_anything_is_read(
    drive: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    code, _, said = run("convert", drive, "-o", tmp_path / "file" / "out", "--format", name)
    assert code == 2
    assert "choose another output folder" in said
    assert "recover" not in said


def test_formats_are_repeated_or_listed(drive: Path, tmp_path: Path) -> None:
    code, _, said = run("convert", drive, "-o", tmp_path, "--format", "edgefirst,l5kit", "--format", "ncore")
    assert code == 0, said
    assert {path.name for path in tmp_path.iterdir()} == {"edgefirst", "ncore", "l5kit"}


def test_a_drive_can_be_told_what_it_sends_and_how_it_is_written(tmp_path: Path) -> None:
    small = ("--seconds", "1", "--size", "160x90", "--fps", "5", "--set", "lidar_points=64")
    code, said, _ = run("simulate", "-o", tmp_path, *small, "--set", "gps_hz=5", "--set", "boxes3d=on")
    assert code == 0
    recording, truth = map(Path, said.split())
    counts = json.loads(truth.read_text())["counts"]
    assert recording.suffix == ".mcap"
    assert (counts["/gps"], counts["/fusion/boxes3d"]) == (10, 5)


def test_a_damaged_dataset_has_no_sheet(drive: Path, tmp_path: Path) -> None:
    convert([drive], tmp_path, build_config({}), dataset="d")
    dataset = tmp_path / "edgefirst" / "d"
    assert run("report", tmp_path, "--picture", tmp_path / "s.png")[0] == 0
    convert([drive], tmp_path, build_config({}), dataset="e")
    code, _, said = run("report", tmp_path, "--picture", tmp_path / "s.png")
    assert code == 2
    assert "holds 2 datasets\nhint: name one of them" in said
    table = (dataset / "d.arrow").read_bytes()
    (dataset / "d.arrow").write_bytes(b"no table")
    assert "is not a complete Arrow file" in run("report", dataset, "--picture", tmp_path / "s.png")[2]
    (dataset / "d.arrow").write_bytes(table)
    archive = (dataset / "d.zip").read_bytes()
    flipped = archive.index(b"DATA binary\n") + 100
    (dataset / "d.zip").write_bytes(archive[:flipped] + b"!" + archive[flipped + 1 :])
    assert (
        "is damaged: its length or CRC-32 is wrong"
        in run("report", dataset, "--picture", tmp_path / "s.png")[2]
    )
    (dataset / "d.zip").write_bytes(archive[: len(archive) // 2])
    code, _, said = run("report", dataset, "--picture", tmp_path / "s.png")
    assert code == 2
    assert "is not a complete ZIP file" in said


@pytest.mark.parametrize(
    "command",
    [
        "convert",
        "info",
        "simulate",
        "recover",
        "check",
        "capture",
        "play",
    ],
)
def test_every_command_teaches_by_an_example_that_it_understands(command: str) -> None:
    text = run(*command.split(), "--help")[1]
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith("edgefirst-ros ")]
    assert examples
    for example in examples:
        _, *arguments = shlex.split(example)
        chosen = get_command(app)
        while hasattr(chosen, "commands"):
            chosen = chosen.get_command(None, arguments.pop(0))
        chosen.make_context("example", arguments)


def test_what_nurec_asks_is_checked_of_ncore_alone(drive: Path, tmp_path: Path) -> None:
    convert([drive], tmp_path, build_config({"formats": ["edgefirst", "ncore"]}), dataset="d")
    code, told, _ = run("check", tmp_path, "--for", "nurec", "--quick")
    assert code == 1
    assert "\nNO      ego_masks: camera_optical none (give ncore.ego_masks" in told
    assert re.search(r"^NuRec: not ready, \d+ of \d+$", told, re.MULTILINE)
    made = json.loads(run("check", tmp_path, "--for", "nurec", "--json")[1])
    (found,) = (each for each in made if each["points"])
    assert (found["ok"], found["errors"], found["points"][0]["verdict"]) == (False, 0, "not fulfilled")
    code, told, said = run("check", tmp_path)
    assert code == 0
    assert (told.count("nvidia-ncore"), said.count("nvidia-ncore")) == (0, 1)
    assert run("check", tmp_path / "edgefirst", "--strict")[0] == 0
    code, _, said = run("check", tmp_path / "edgefirst", "--for", "nurec")
    assert code == 2
    assert "holds no dataset that NuRec takes" in said
    code, _, said = run("check", tmp_path, "--for", "kitti")
    assert code == 2
    assert "'kitti' is not known\nhint: there are nurec" in said
