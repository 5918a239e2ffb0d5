"""What holds for the writer of every format, our own and the one of examples/kitti, from beginning to end."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from drives import simulated
from places import REPOSITORY, contents

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.format import CrashSafe, Format, MeasurementWriter, Target, Writer, Written
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import OutputExists, WriteError
from edgefirst_ros.model.sample import EgoPose, Observation, Sample, SequenceInfo
from edgefirst_ros.offline.convert import Reading, feed_drives
from edgefirst_ros.offline.inputs import open_recordings
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.simulation import DriveOptions

sys.path.insert(0, f"{REPOSITORY / 'examples' / 'kitti'}")
from edgefirst_kitti import KittiFormat

DRIVE = DriveOptions(seconds=1, fps=5, width=160, height=96, lidar_points=64, cube_hz=0, imu_hz=50)
FORMS: dict[str, tuple[Format[Any], dict[str, Any]]] = {
    **{name: (each, {}) for name, each in FORMATS.items()},
    "edgefirst folder": (FORMATS["edgefirst"], {"container": "folder"}),
    "ncore directory": (FORMATS["ncore"], {"store": "directory"}),
    "kitti": (KittiFormat(), {}),
}
NAME = "d"
OTHERS = {
    "edgefirst": "edgefirst folder",
    "edgefirst folder": "edgefirst",
    "ncore": "ncore directory",
    "ncore directory": "ncore",
}
"""The same format in another container."""


@dataclass
class Taken:
    """What writers of one kind get of a drive; itself such a writer."""

    name = "taken"
    unit = "items"
    needs_pose = False
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sequence: SequenceInfo | None = None
    items: list[Any] = field(default_factory=list)

    def begin(self, sequence: SequenceInfo) -> None:
        self.sequence = sequence

    def prepare(self, item: object) -> object:
        return item

    def write(self, prepared: object) -> Written:
        self.items.append(prepared)
        return Written()

    def close(self) -> list[Path]:
        return []

    def abort(self) -> None: ...


class TakenWithPoses(Taken):
    """The same with the poses among the measurements."""

    def pose(self, pose: EgoPose) -> None:
        self.items.append(pose)


@pytest.fixture(scope="module")
def drive() -> dict[bool, Taken]:
    """Samples, and by True measurements, of one drive."""
    found = {False: Taken(), True: TakenWithPoses()}
    config = build_config({"formats": [*FORMATS], "ncore": {"radar_cube": False}})
    for taken in found.values():
        pipeline = Pipeline(config, [taken])  # type: ignore[list-item]
        drives = open_recordings([simulated(DRIVE).mcap], config, None).drives
        feed_drives(Reading(pipeline, drives, threading.Event()), drives)
        pipeline.complete()
        pipeline.close()
    assert all(isinstance(each, Sample) for each in found[False].items)
    assert any(isinstance(each, Observation) for each in found[True].items)
    return found


class Life:
    """Writers of one format, one after another, in one place."""

    def __init__(
        self, form: Format[Any], options: dict[str, Any], root: Path, drive: dict[bool, Taken]
    ) -> None:
        self.form, self.options, self.root = form, options, root
        self._drive = drive

    def writer(self, *, overwrite: bool = False, sequences: tuple[str, ...] = ()) -> Writer:
        target = Target(self.root, NAME, overwrite, sequences)
        return self.form.writer(self.form.options(**self.options), target)

    def begun(self, *, overwrite: bool = False) -> Writer:
        """A writer that has begun the sequence; where it is refused, nothing is left open."""
        writer = self.writer(overwrite=overwrite)
        try:
            self.begin(writer)
        except BaseException:
            writer.abort()
            raise
        return writer

    def begin(self, writer: Writer) -> None:
        writer.begin(self._taken(writer).sequence or pytest.fail("no sequence"))

    def fed(self, *, most: int = 1000, overwrite: bool = False) -> Writer:
        """One that has written the drive, or its beginning."""
        writer = self.begun(overwrite=overwrite)
        results = []
        for item in self._taken(writer).items[:most]:
            if isinstance(item, EgoPose):
                writer.pose(item)  # type: ignore[union-attr]
            else:
                results.append(writer.write(writer.prepare(item)))
        assert any(isinstance(each, Future) or each.stored for each in results)
        return writer

    def finished(self, root: Path | None = None, *, most: int = 1000) -> dict[str, bytes]:
        """The files of a whole life."""
        elsewhere = self if root is None else Life(self.form, self.options, root, self._drive)
        assert all(path.exists() for path in elsewhere.fed(most=most).close())
        return elsewhere.files()

    def files(self) -> dict[str, bytes]:
        return contents(self.root)

    def _taken(self, writer: Writer) -> Taken:
        return self._drive[isinstance(writer, MeasurementWriter)]


@pytest.fixture(params=FORMS)
def life(request: pytest.FixtureRequest, tmp_path: Path, drive: dict[bool, Taken]) -> Life:
    return Life(*FORMS[request.param], tmp_path / "root", drive)


def test_what_is_finished_is_sound_and_again_the_same(life: Life, tmp_path: Path) -> None:
    files = life.finished()
    assert not [name for name in files if ".part" in name]
    (path,) = life.form.find(life.root)
    assert (found := life.form.check(path)).ok, found.text
    assert life.finished(tmp_path / "again") == files


def test_a_finished_one_is_refused_and_stays(life: Life) -> None:
    files = life.finished()
    with pytest.raises(OutputExists, match="exists"):
        life.begun()
    assert life.files() == files


def test_an_unfinished_one_is_refused_and_stays(life: Life) -> None:
    life.fed().abort()
    files = life.files()
    assert any(".part" in name for name in files)
    with pytest.raises(OutputExists, match="unfinished"):
        life.begun()
    assert life.files() == files


@pytest.mark.long(cases=3)
def test_an_earlier_one_stays_until_the_new_one_is_complete(life: Life, tmp_path: Path) -> None:
    earlier, new = life.finished(most=40), life.finished(tmp_path / "new")
    writer = life.fed(overwrite=True)
    assert life.files().items() >= earlier.items()
    writer.close()
    assert life.files() == new


@pytest.mark.parametrize("name", OTHERS)
def test_an_earlier_one_in_another_container_goes_altogether(
    tmp_path: Path, drive: dict[bool, Taken], name: str
) -> None:
    life = Life(*FORMS[name], tmp_path / "root", drive)
    earlier = Life(*FORMS[OTHERS[name]], life.root, drive).finished(most=40)
    writer = life.fed(overwrite=True)
    assert life.files().items() >= earlier.items()
    writer.close()
    assert life.files() == life.finished(tmp_path / "new")


def test_what_a_killed_run_left_is_replaced_if_asked(life: Life, tmp_path: Path) -> None:
    life.fed(most=40).abort()
    life.fed(overwrite=True).close()
    assert life.files() == life.finished(tmp_path / "new")


def test_what_was_given_up_is_recovered(life: Life) -> None:
    life.fed().abort()
    (path,) = life.form.find(life.root)
    recovered = life.form.recover(path)
    assert recovered.kept
    assert not [name for name in life.files() if ".part" in name]
    (path,) = life.form.find(life.root)
    assert (found := life.form.check(path)).ok, found.text
    assert life.form.recover(path).was_finished


def test_where_nothing_was_written_nothing_is_left(life: Life) -> None:
    assert life.writer().close() == []
    assert life.begun().close() == []
    assert life.files() == {}


def test_where_nothing_was_written_an_earlier_one_stays(life: Life) -> None:
    files = life.finished()
    assert life.begun(overwrite=True).close() == []
    assert life.files() == files


@pytest.fixture
def safe(life: Life) -> Life:
    """Of the formats that survive a power cut."""
    if not isinstance(life.writer(), CrashSafe):
        pytest.skip("is not crash-safe")
    return life


def test_two_do_not_write_the_same(safe: Life) -> None:
    first = safe.fed()
    with pytest.raises(WriteError, match="is being written"):
        safe.begun(overwrite=True)
    assert first.close()


def test_completed_it_has_its_name_only_when_closed(safe: Life, tmp_path: Path) -> None:
    writer = safe.fed()
    assert isinstance(writer, CrashSafe)
    with writer.syncing() as paths:
        assert paths
        assert all(path.exists() for path in paths)
    named = writer.complete()
    assert not any(path.exists() for path in named)
    assert writer.complete() == named
    assert writer.close() == named
    assert safe.files() == safe.finished(tmp_path / "again")


def test_while_it_is_written_recovery_and_another_run_leave_it_alone(safe: Life) -> None:
    safe.finished(most=40)
    (path,) = safe.form.find(safe.root)
    writer = safe.fed(overwrite=True)
    files = safe.files()
    with pytest.raises(WriteError, match="is being written"):
        safe.form.recover(path)
    with pytest.raises(WriteError, match="is being written"):
        safe.begun(overwrite=True)
    assert safe.files() == files
    assert writer.close()


@pytest.mark.parametrize("end", ["close", "abort"])
def test_what_another_run_made_since_a_writer_was_there_stays(safe: Life, end: str) -> None:
    late, other = safe.writer(), safe.fed()
    getattr(other, end)()
    files = safe.files()
    with pytest.raises(OutputExists):
        safe.begin(late)
    late.abort()
    assert safe.files() == files


@pytest.mark.long(cases=2)
def test_an_unfinished_replacement_is_recovered_beside_the_complete_one(safe: Life, tmp_path: Path) -> None:
    alone = Life(safe.form, safe.options, tmp_path / "alone", safe._drive)
    alone.fed().abort()
    (path,) = alone.form.find(alone.root)
    kept = alone.form.recover(path).kept
    earlier = safe.finished(most=40)
    (path,) = safe.form.find(safe.root)
    for number, most in (("", 1000), ("_2", 40)):
        safe.fed(most=most, overwrite=True).abort()
        done = safe.form.recover(path)
        assert (done.path.stem, done.beside) == (f"{path.stem}_recovered{number}", path)
        assert number or done.kept == kept
        assert safe.files().items() >= earlier.items()
        assert safe.form.recover(path).was_finished
    found = safe.form.find(safe.root)
    assert len(found) == 3
    assert all(safe.form.check(each).ok for each in found)


def test_an_unfinished_replacement_of_nothing_leaves_the_complete_one(safe: Life) -> None:
    files = safe.finished()
    (path,) = safe.form.find(safe.root)
    safe.begun(overwrite=True).abort()
    done = safe.form.recover(path)
    assert done.was_finished or (done.path, done.paths, done.beside) == (path, (), path)
    assert safe.files() == files


def test_an_output_that_cannot_be_made_is_said(safe: Life) -> None:
    safe.root.write_text("in the way")
    with pytest.raises(WriteError, match=r"cannot be written|Not a directory"):
        safe.begun()
