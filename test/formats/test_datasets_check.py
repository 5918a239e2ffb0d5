"""check on an output root: everything below it, whatever the format."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from drives import simulate
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check, recover
from edgefirst_ros.formats.format import Look
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import DatasetNotFound
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions

OPTIONAL = {name: {"required": "never"} for name in ("radar_cube", "radar_targets", "lidar_points", "model")}
DRIVE = "maivin-sim_2026_05_01_09_00_00"


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every format of a simulated drive, and an EdgeFirst dataset of every kind."""
    folder = tmp_path_factory.mktemp("drive")
    options = DriveOptions(
        seconds=3, fps=10, width=320, height=180, lidar_points=300, cube_shape=(1, 20, 2, 8)
    )
    recording = simulate(folder, options).mcap
    convert(
        [recording],
        folder / "out",
        build_config({"formats": list(FORMATS), "topics": OPTIONAL}),
        dataset="all",
    )
    for name, own in {
        "plain": {"container": "folder"},
        "newer": {"schema_version": "2026.10"},
    }.items():
        picture = "png" if name == "newer" else "jpeg"
        config = build_config({"topics": OPTIONAL, "edgefirst": own, "pictures": picture})
        convert([recording], folder / "out", config, dataset=name)
    return folder / "out"


@pytest.fixture
def out(driven: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(driven, tmp_path / "out"))


def test_a_drive_in_every_format_is_sound(driven: Path) -> None:
    results = {f"{r.format}/{r.name}": r for r in check(driven)}
    assert sorted(results) == [
        "edgefirst/all",
        "edgefirst/newer",
        "edgefirst/plain",
        "l5kit/all",
        f"ncore/{DRIVE}",
    ]
    for result in results.values():
        assert {f.level for f in result.findings} <= {"note"}, result.text
    assert results["edgefirst/newer"].counts["camera.png"] == 30
    assert results["edgefirst/all"].counts["lidar.jpeg"] == 30
    assert results["l5kit/all"].counts["frames"] == 30


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("edgefirst", ["all", "newer", "plain"]),
        ("edgefirst/all", ["all"]),
        ("edgefirst/all/all.zip", ["all"]),
        ("edgefirst/plain/plain.arrow", ["plain"]),
        ("l5kit", ["all"]),
        ("l5kit/all.zarr", ["all"]),
        ("ncore", [DRIVE]),
        (f"ncore/{DRIVE}/{DRIVE}.json", [DRIVE]),
    ],
)
def test_a_part_of_an_output_may_be_meant(driven: Path, where: str, found: list[str]) -> None:
    results = [*check(driven / where)]
    assert [r.name for r in results] == found
    assert all(r.ok for r in results)


def test_a_line_for_every_dataset_and_an_exit_code(out: Path) -> None:
    good = CliRunner().invoke(app, ["check", str(out)])
    assert good.exit_code == 0
    assert good.stdout.count("\nOK: ") + good.stdout.startswith("OK: ") == 5
    (out / "l5kit" / "all.zarr" / "frames" / "0").unlink()
    bad = CliRunner().invoke(app, ["check", str(out)])
    assert bad.exit_code == 1
    lines = [line.partition(",")[0] for line in bad.stdout.splitlines() if line.startswith(("OK", "FAIL"))]
    assert lines == [
        "OK: edgefirst/all",
        "OK: edgefirst/newer",
        "OK: edgefirst/plain",
        f"OK: ncore/{DRIVE}",
        "FAIL: l5kit/all",
    ]


def test_what_a_crash_left_is_found(out: Path) -> None:
    (out / "edgefirst" / "crashed").mkdir()
    (out / "edgefirst" / "crashed" / "crashed.journal.part").write_bytes(b"")
    (out / "l5kit" / "all.zarr").rename(out / "l5kit" / "all.zarr.part")
    failed = {f"{r.format}/{r.name}": r.text for r in check(out) if not r.ok}
    assert failed.keys() == {"edgefirst/crashed", "l5kit/all"}
    assert all("recover can finish" in text for text in failed.values())


def test_a_dataset_that_lost_its_table_and_archive_is_found(out: Path) -> None:
    for name in ("all.zip", "all.arrow"):
        (out / "edgefirst" / "all" / name).unlink()
    (result,) = check(out / "edgefirst" / "all")
    assert "no sensor files" in result.text
    assert "no annotation table" in result.text


def test_nothing_to_check_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="holds no dataset of a known format"):
        [*check(tmp_path)]
    with pytest.raises(DatasetNotFound, match="no such file or folder"):
        [*check(tmp_path / "x")]


@pytest.mark.parametrize(
    ("folder", "meant"),
    [
        ("a.zarr", "a.zarr"),
        ("a.zarr.part", "a.zarr"),
        ("a.zarr.old.part", "a.zarr"),
        ("a.zarr.old", "a.zarr.old"),  # a user's own copy
    ],
)
def test_an_unfinished_l5kit_dataset_goes_by_its_name_and_a_copy_by_its_own(
    tmp_path: Path, folder: str, meant: str
) -> None:
    for array in ("scenes", "frames", "agents"):
        (tmp_path / folder / array).mkdir(parents=True)
    assert FORMATS["l5kit"].find(tmp_path) == [tmp_path / meant]


def test_recovery_and_check_find_the_same_datasets(out: Path) -> None:
    """Among them a renamed table, a dataset that lost all but its report, and one that lost an array."""
    folder = out / "edgefirst"
    (folder / "newer" / "newer.arrow").rename(folder / "newer" / "renamed.arrow")
    for name in ("all.zip", "all.arrow"):
        (folder / "all" / name).unlink()
    shutil.rmtree(out / "l5kit" / "all.zarr" / "frames")
    checked = [result.name for result in check(out)]
    assert sorted(checked) == ["all", "all", DRIVE, "newer", "plain", "renamed"]
    recovered = [*recover(out)]
    assert [done.path.name.removesuffix(".zarr").removesuffix(".arrow") for done in recovered] == checked
    assert [done.path.name for done in recovered if not done.text.endswith("nothing to do")] == ["all.zarr"]


def test_datasets_are_read_by_their_format(driven: Path) -> None:
    frames = FORMATS["l5kit"].read(driven / "l5kit" / "all.zarr").frames
    table = FORMATS["edgefirst"].read(driven / "edgefirst" / "all")
    stores = FORMATS["ncore"].read(driven / "ncore" / DRIVE)
    assert len(frames) == len(table["frame"].unique()) == 30
    assert any("cameras" in key for store in stores.values() for key in store)
    for store in stores.values():
        store.close()


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_not_there_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(DatasetNotFound):
        FORMATS[name].read(tmp_path / "d")


@pytest.mark.parametrize("place", ["edgefirst/all/capture_report.json", "ncore/loose.capture_report.json"])
@pytest.mark.parametrize("ruin", [lambda path: path.write_text("{"), os.mkfifo], ids=["cut", "fifo"])
def test_a_destroyed_report_is_an_error_beside_sound_datasets(
    out: Path, place: str, ruin: Callable[[Path], None]
) -> None:
    report = out / place
    report.unlink(missing_ok=True)
    ruin(report)
    failed = [each for each in check(out, look=Look(quick=True)) if not each.ok]
    assert [each.errors for each in failed] == [1]
    assert f"{report.name}: is not a capture report" in failed[0].text
