from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest
from drives import simulate
from zenoh_loopback import await_condition

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import recover
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.ncore.store.journal import FactJournal
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import DatasetNotFound
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording


def left_behind(folder: Path) -> None:
    """Two datasets of which only the journals were begun."""
    for name in ("a", "b"):
        (folder / name).mkdir()
        journal = SampleJournal(folder / name / f"{name}.journal.part")
        journal.start(EdgeFirstOptions())
        journal.close()


def test_one_that_cannot_be_finished_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    left_behind(tmp_path)
    busy = SampleJournal(tmp_path / "a" / "a.journal.part")
    first, second = recover(tmp_path)
    busy.close()
    assert first.failed
    assert "is being written; wait" in first.text
    assert not second.failed
    assert "nothing had been committed" in second.text


def test_a_sequence_that_is_being_written_is_not_taken_for_finished(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    busy = FactJournal(tmp_path / "s" / "s.journal.part")
    (done,) = recover(tmp_path)
    busy.close()
    assert done.failed
    assert "is being written; wait" in done.text


def test_what_one_finished_is_told_before_the_next_begins(tmp_path: Path) -> None:
    left_behind(tmp_path)
    next(iter(recover(tmp_path)))
    assert not (tmp_path / "a" / "a.journal.part").exists()
    assert (tmp_path / "b" / "b.journal.part").exists()


def test_only_the_sequence_that_is_named_is_meant(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.ncore4.zarr.itar").touch()
    assert FORMATS["ncore"].find(tmp_path / "a") == [tmp_path / "a"]
    assert FORMATS["ncore"].find(tmp_path / "a" / "a.ncore4.zarr.itar") == [tmp_path / "a"]
    assert FORMATS["ncore"].find(tmp_path) == [tmp_path / "a", tmp_path / "b"]


def test_a_session_that_was_only_recorded_is_told_how_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    with pytest.raises(DatasetNotFound, match=r"finished or not$"):
        list(recover(tmp_path))
    (tmp_path / "recordings" / "a.mcap").touch()
    with pytest.raises(DatasetNotFound, match=rf"edgefirst-ros convert {tmp_path}/recordings makes one$"):
        list(recover(tmp_path))


def test_a_file_that_is_of_no_dataset_means_nothing_beside_it(tmp_path: Path) -> None:
    drive = DriveOptions(seconds=0.5, fps=10, width=160, height=90, lidar_points=64, cube_hz=0, imu_hz=10)
    recording = simulate(tmp_path, drive).mcap
    convert([recording], tmp_path, build_config({"formats": ["edgefirst", "ncore"]}))
    with pytest.raises(DatasetNotFound, match="holds no dataset"):
        list(recover(recording))
    assert FORMATS["ncore"].find(recording) == FORMATS["ncore"].find(tmp_path / "nowhere") == []


def test_a_sequence_killed_before_its_first_entry_is_not_taken_for_another_format(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    FactJournal(tmp_path / "s" / "s.journal.part").close()
    (done,) = recover(tmp_path)
    assert not done.failed
    assert done.text == "s: nothing had been committed; the leftovers are removed"
    assert list(tmp_path.rglob("*.part")) == []


def test_a_report_stays_with_its_dataset_and_goes_to_no_other(tmp_path: Path) -> None:
    options = DriveOptions(seconds=1, fps=10, width=160, height=90, lidar_points=64, cube_hz=0, imu_hz=10)
    recording = simulate(tmp_path, options).mcap
    convert([recording], tmp_path / "out", build_config({}), dataset="d")
    folder = tmp_path / "out" / "edgefirst" / "d"
    killed = Job(build_config({}), tmp_path / "out", "d", overwrite=True)
    source = McapRecording(recording)
    killed.pipeline.begin_source(source.topics(), "h", "s")
    for message in source.messages():
        killed.pipeline.feed(message)
    killed.pipeline.end_source()
    await_condition("a sample", lambda: killed.pipeline.progress.samples > 0)
    killed.abort()
    assert (folder / "capture_report.json").exists()
    (done,) = recover(tmp_path / "out")
    assert done.text.endswith("; the complete d, which it was to replace, stays")
    names = ("d.arrow", "d.manifest", "d.zip", "quality.parquet")
    assert sorted(p.name for p in folder.iterdir()) == ["capture_report.json", *names]
    beside = folder.with_name("d_recovered")
    assert sorted(p.name for p in beside.iterdir()) == [re.sub("^d", "d_recovered", n) for n in names]


@pytest.fixture(scope="module")
def old_and_new(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Recordings of two drives of one name and start, of different length."""
    options = DriveOptions(seconds=1, fps=5, width=160, height=90, lidar_points=64, cube_hz=0, imu_hz=10)
    one, other = (tmp_path_factory.mktemp(name) for name in ("one", "other"))
    return simulate(one, options).mcap, simulate(other, replace(options, seconds=1.4)).mcap


class Died(Exception):
    """Stands for the death of the process."""


def contents_of(folder: Path) -> dict[str, str]:
    """A digest of every file, by its path in the folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): sha256(p.read_bytes()).hexdigest() for p in files}


def test_wherever_an_overwriting_run_dies_each_dataset_is_the_old_or_the_new_with_its_report(
    tmp_path: Path, old_and_new: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dying before the report is on disk leaves the old, dying later the new, in all formats at once."""
    formats = {"formats": ["edgefirst", "ncore", "l5kit"], "sync_s": "off"}
    before, after = build_config(formats), build_config({**formats, "edgefirst": {"container": "folder"}})
    old, new = old_and_new
    convert([old], tmp_path / "old", before, dataset="d")
    convert([new], tmp_path / "new", after, dataset="d")
    whole = {name: contents_of(tmp_path / name) for name in ("old", "new")}
    assert len({frozenset(each.items()) for each in whole.values()}) == 2
    left: Iterator[int] = count()
    is_final = False

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            if is_final and next(left, None) is None:
                raise Died
            return real(*args, **options)

        return step

    complete = FanOut.complete

    def completing(fanout: FanOut) -> list[Path]:
        nonlocal is_final
        is_final = True  # all writers' threads have ended: what follows happens in one order
        return complete(fanout)

    outcomes = []
    for steps in count(0, 4):
        out = tmp_path / str(steps)
        shutil.copytree(tmp_path / "old", out)
        with monkeypatch.context() as patch:
            left, is_final = iter(range(steps)), False
            for name in ("replace", "unlink", "mkdir"):
                patch.setattr(Path, name, counted(getattr(Path, name)))
            patch.setattr(FanOut, "complete", completing)
            with suppress(Died):
                convert([new], out, after, dataset="d", overwrite=True)
                break
        for done in recover(out):
            assert not done.failed, done.text
        found = contents_of(out)
        assert not [name for name in found if ".part" in name or ".new" in name]
        own = {name: digest for name, digest in found.items() if "_recovered" not in name}
        outcomes.append(next(name for name, files in whole.items() if own == files))
        shutil.rmtree(out)
    assert contents_of(out) == whole["new"]
    assert outcomes == sorted(outcomes, reverse=True), "old up to some step, new from there on"
    assert set(outcomes) == {"old", "new"}


@pytest.mark.parametrize("left", ["both", "old", "new"])
def test_an_l5kit_dataset_killed_between_two_names_is_found_under_its_own(
    tmp_path: Path, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its folders are when a kill hits between the renames of a replacement, or right behind them."""
    options = DriveOptions(seconds=1, fps=10, width=160, height=90, lidar_points=64, cube_hz=0, imu_hz=10)
    recording = simulate(tmp_path, options).mcap
    convert([recording], tmp_path, build_config({"formats": ["l5kit"]}), dataset="d")
    path = tmp_path / "l5kit" / "d.zarr"
    if left == "both":
        monkeypatch.setattr(GrowingDataset, "publish", GrowingDataset.close)
        convert([recording], tmp_path, build_config({"formats": ["l5kit"]}), dataset="d", overwrite=True)
        monkeypatch.undo()
    if left == "new":
        shutil.copytree(path, path.with_name("d.zarr.old.part"))
    else:
        path.rename(path.with_name("d.zarr.old.part"))
    (done,) = recover(tmp_path)
    assert done.path == path
    assert not done.failed
    assert not list(tmp_path.rglob("*.part"))
    names = {p.name for p in path.parent.iterdir() if p.suffix == ".zarr"}
    assert names == ({"d.zarr", "d_recovered.zarr"} if left == "both" else {"d.zarr"})
    assert all("already" in each.text for each in recover(tmp_path))
