"""What a sync promises: it is on the disk, whatever else the disk has, and nothing waits for it."""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import count, cycle
from pathlib import Path

import pytest
from ncoredisk import Disk
from ncorekill import collect
from ncoremade import SEQUENCE, START_NS, camera, cube, drive, lidar, pose, radar
from ncoreread import Sequence, recover_all
from places import contents

from edgefirst_ros.formats.crashsafe import sync as sync_module
from edgefirst_ros.formats.crashsafe.sync import sync_together
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import CrashSafe
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write import writer as writer_module
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.errors import WriteError
from edgefirst_ros.model.sample import EgoPose, Observation, SequenceInfo

MS = 1_000_000
FOLDER = SEQUENCE.name
Said = list[tuple[str, int]]


def take(writer: NCoreWriter, step: Observation | EgoPose) -> Said:
    """Write a step; its role and time, if it was taken."""
    if isinstance(step, EgoPose):
        writer.pose(step)
        return [("pose", step.time_ns // 1000)]
    written = writer.write(writer.prepare(step))
    return [(step.role.value, step.measurement.time_ns // 1000)] if written.topics else []


def held_by(root: Path) -> dict[str, set[int]]:
    """Times by role of what is in the finished sequences of a folder."""
    held: dict[str, set[int]] = defaultdict(set)
    for folder in sorted(root.iterdir()):
        if (folder / f"{folder.name}.json").exists():
            collect(Sequence(folder), held)
    return held


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    (tmp_path / "out").mkdir()
    disk = Disk(tmp_path / "out", monkeypatch)
    yield disk
    disk.close()


@pytest.fixture
def lost(tmp_path: Path, disk: Disk) -> Callable[[Said, bool], Said]:
    """Cuts the power, recovers what is left, and says what of something is not there."""
    numbers = count()

    def after_a_cut(promised: Said, late: bool) -> Said:
        target = tmp_path / f"cut{next(numbers)}"
        disk.cut(target, late=late)
        recover_all(target)
        if [*target.rglob("*.json")]:
            assert [found.text for found in check(target) if not found.ok] == []
        held = held_by(target)
        return [said for said in promised if said[1] not in held[said[0]]]

    return after_a_cut


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    "options",
    [
        NCoreOptions(store="itar", profile="separate-sensors", radar_cube=True),
        NCoreOptions(store="directory", profile="single", radar_cube=True),
    ],
)
def test_what_was_written_before_a_sync_survives_a_power_cut(
    tmp_path: Path,
    lost: Callable[[Said, bool], Said],
    options: NCoreOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "_LATE_US", 50_000)
    late = cycle((False, True))
    writer = NCoreWriter(tmp_path / "out", options, split_us=50_000)
    assert isinstance(writer, CrashSafe)
    writer.begin(SEQUENCE)
    said, promised = Said(), Said()
    for number, step in enumerate(drive(0.8)):
        said += take(writer, step)
        if number % 43 == 42:
            sync_together([writer])
            promised = list(said)
        if number % 134 == 66:
            for _, done in writer._finished:
                done.result()
            assert lost(promised, next(late)) == []
    assert len(promised) > 100
    for end in (writer.complete, writer.close):
        end()
        assert [lost(said, each) for each in (False, True)] == [[], []]


@pytest.mark.parametrize("late", [False, True])
def test_a_synced_cube_is_kept_until_the_disk_has_the_scan_that_it_went_to(
    tmp_path: Path, lost: Callable[[Said, bool], Said], late: bool
) -> None:
    writer = NCoreWriter(tmp_path / "out", NCoreOptions(radar_cube=True))
    writer.begin(SEQUENCE)
    said = [*take(writer, radar(START_NS)), *take(writer, cube(START_NS + 40 * MS))]
    sync_together([writer])
    assert lost(said, late) == []
    take(writer, radar(START_NS + 50 * MS))  # the cube goes there
    assert lost(said, late) == []
    (held,) = (tmp_path / "out" / FOLDER).glob("*.cube-*.part")
    sync_together([writer])
    assert lost(said, late) == []
    take(writer, cube(START_NS + 90 * MS))  # over the one before, which the disk has where it belongs
    take(writer, radar(START_NS + 100 * MS))
    assert [*(tmp_path / "out" / FOLDER).glob("*.cube-*.part")] == [held]
    assert lost(said, late) == []
    writer.complete()
    writer.close()
    assert not held.exists()


def test_a_sync_is_of_what_has_changed(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions(radar_cube=True))
    writer.begin(SEQUENCE)
    for step in (radar(START_NS), cube(START_NS + 40 * MS), lidar(START_NS + 41 * MS), pose(START_NS)):
        take(writer, step)
    stores = [".ncore4-radar.zarr.itar.part", ".ncore4-lidar.zarr.itar.part"]
    for cubes in ([".cube-1.part"], []):
        with writer.syncing() as paths:
            names = [str(path).rpartition(FOLDER)[2] for path in paths]
        assert names == [*cubes, *stores, "", ".journal.part"]
    writer.abort()


@pytest.mark.parametrize("store", ["itar", "directory"])
def test_writing_goes_on_while_a_sync_waits_for_the_disk(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_LATE_US", 10_000)
    reached, go_on = threading.Event(), threading.Event()
    real = sync_module.sync_paths

    def slow(paths: Iterable[Path], **options: int) -> None:
        if threading.current_thread().name == "sync":
            reached.set()
            assert go_on.wait(60)
        real(paths, **options)

    monkeypatch.setattr(sync_module, "sync_paths", slow)
    options = NCoreOptions(store=store)  # type: ignore[arg-type]
    writer = NCoreWriter(tmp_path / "out", options, split_us=50_000)
    writer.begin(SEQUENCE)
    take(writer, camera(START_NS))
    failures: list[BaseException] = []

    def sync() -> None:
        try:
            sync_together([writer])
        except BaseException as failure:  # noqa: BLE001 - for the test to judge
            failures.append(failure)

    thread = threading.Thread(target=sync, name="sync")
    thread.start()
    assert reached.wait(60)
    for ms in range(1, 200, 10):  # three splits; the sequence that is being synced gets its name
        take(writer, camera(START_NS + ms * MS))
    for _, done in writer._finished:
        done.result()
    writer.begin(SequenceInfo("second", "host", 0))
    take(writer, camera(START_NS))
    assert (tmp_path / "out" / FOLDER / f"{FOLDER}.json").exists()
    assert thread.is_alive()
    go_on.set()
    thread.join(60)
    assert failures == []
    writer.close()
    assert all(found.ok for found in check(tmp_path / "out"))
    assert len(held_by(tmp_path / "out")["camera"]) == 21


@pytest.mark.parametrize("store", ["itar", "directory"])
def test_syncing_changes_no_byte(tmp_path: Path, store: str) -> None:
    for name in ("synced", "not"):
        writer = NCoreWriter(tmp_path / name, NCoreOptions(store=store, radar_cube=True))  # type: ignore[arg-type]
        writer.begin(SEQUENCE)
        for step in drive(0.2):
            take(writer, step)
            if name == "synced":
                sync_together([writer])
        writer.close()
    assert contents(tmp_path / "synced") == contents(tmp_path / "not")


@pytest.mark.parametrize("close", [False, True])
def test_a_disk_that_refuses_is_said(tmp_path: Path, close: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    said = take(writer, lidar(START_NS))

    def refuse(_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        patch.setattr(sync_module, "sync_file_system", refuse)
        patch.setattr(sync_module, "flushes_disk", lambda _: True)
        with pytest.raises(WriteError, match="Input/output error; edgefirst-ros recover keeps"):
            writer.close() if close else sync_together([writer])
    writer.abort()
    recover_all(tmp_path)
    assert {time_us for _, time_us in said} == held_by(tmp_path)["lidar_points"]


def test_nothing_follows_what_the_journal_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    said = take(writer, lidar(START_NS))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(writer._current.journal, "append", full)
        with pytest.raises(WriteError, match="No space left"):
            take(writer, lidar(START_NS + 100 * MS))
    with pytest.raises(WriteError):
        take(writer, lidar(START_NS + 200 * MS))
    writer.abort()
    recover_all(tmp_path)
    assert {time_us for _, time_us in said} == held_by(tmp_path)["lidar_points"]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("store", ["itar", "directory"])
def test_a_power_cut_before_the_first_sync_leaves_nothing_that_recovery_refuses(
    tmp_path: Path, lost: Callable[[Said, bool], Said], store: str, late: bool
) -> None:
    writer = NCoreWriter(tmp_path / "out", NCoreOptions(store=store))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in drive(0.8):
        take(writer, step)
    writer.abort()
    assert lost([], late) == []
    assert not [*(tmp_path / "cut0").rglob("*.part")]


@pytest.mark.parametrize("late", [False, True])
def test_a_sequence_that_waits_for_latecomers_is_synced_too(
    tmp_path: Path, lost: Callable[[Said, bool], Said], late: bool
) -> None:
    writer = NCoreWriter(tmp_path / "out", NCoreOptions(), split_us=100_000)
    writer.begin(SEQUENCE)
    said = [*take(writer, camera(START_NS)), *take(writer, camera(START_NS + 110 * MS))]
    sync_together([writer])
    assert lost(said, late) == []
    assert len([*(tmp_path / "cut0").iterdir()]) == 2
    writer.abort()


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("late", [False, True])
def test_after_a_power_cut_a_complete_sequence_that_has_no_name_is_whole_beside_the_earlier_one(
    tmp_path: Path, lost: Callable[[Said, bool], Said], late: bool
) -> None:
    for complete in (False, True):
        options = NCoreOptions(store="itar" if complete else "directory", radar_cube=True)
        writer = NCoreWriter(tmp_path / "out", options, overwrite=True)
        writer.begin(SEQUENCE)
        said = [pair for step in drive(0.4) for pair in take(writer, step)]
        writer.complete() if complete else writer.close()
        writer.abort()
    assert lost(said, late) == []
    target = tmp_path / "cut0"
    assert {path.name for path in target.iterdir()} == {FOLDER, f"{FOLDER}_recovered"}
    recovered, earlier = (Sequence(target / name).records for name in (f"{FOLDER}_recovered", FOLDER))
    assert recovered.keys() == earlier.keys()
    assert {key for key in earlier if recovered[key] != earlier[key]} <= {".zattrs", ".zmetadata.cbor.xz"}
