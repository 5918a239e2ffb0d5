from __future__ import annotations

import io
import os
import shutil
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ncoremade import SEQUENCE, START_NS, cube, drive, lidar, pose, radar
from ncoreread import Sequence, recover_all
from places import contents

from edgefirst_ros.formats.crashsafe.journal import read_journal
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.ncore import recover as recover_module
from edgefirst_ros.formats.ncore.finish import facts
from edgefirst_ros.formats.ncore.finish import labels as boxattach
from edgefirst_ros.formats.ncore.finish import labels as earlylabels
from edgefirst_ros.formats.ncore.finish import sequence as finish
from edgefirst_ros.formats.ncore.finish.facts import Facts
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.recover import recover
from edgefirst_ros.formats.ncore.store.journal import FactJournal, read_batches, read_facts
from edgefirst_ros.formats.ncore.write import factwriter
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, EdgeFirstError
from edgefirst_ros.model.sample import EgoPose, Observation, Role

MS = 1_000_000
STORES = [
    ("itar", "separate-sensors"),
    ("itar", "single"),
    ("directory", "separate-sensors"),
    ("directory", "single"),
]


def killed(
    root: Path, steps: Iterable[Observation | EgoPose], *, close: bool = False, **options: object
) -> Path:
    """A sequence as a killed writer leaves it: everything written, nothing finished."""
    writer = NCoreWriter(root, NCoreOptions(radar_cube=True, **options))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in steps:
        if isinstance(step, EgoPose):
            writer.pose(step)
        else:
            writer.write(writer.prepare(step))
    if close:
        writer.close()
    else:
        writer.abort()
    return root / SEQUENCE.name


@pytest.mark.long(cases=2)
@pytest.mark.parametrize(("store", "profile"), STORES)
def test_a_recovered_sequence_is_the_one_that_would_have_been_closed(
    tmp_path: Path, store: str, profile: str
) -> None:
    closed = killed(tmp_path / "closed", drive(0.3), close=True, store=store, profile=profile)
    folder = killed(tmp_path / "killed", drive(0.3), store=store, profile=profile)
    (done,) = recover_all(tmp_path / "killed")
    assert contents(folder) == contents(closed)
    assert done.dropped == 0
    assert done.kept["cameras/camera_optical"] == 6
    assert done.kept["poses"] == 30
    assert "6 cameras/camera_optical" in done.text
    assert recover(folder).was_finished
    assert contents(folder) == contents(closed)


@pytest.mark.long(cases=2)
@pytest.mark.parametrize(("store", "profile"), STORES)
def test_closing_reads_its_journal_only_when_that_is_too_much_to_keep(
    tmp_path: Path, store: str, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list(drive(0.3))
    steps.insert(0, steps.pop(next(at for at, step in enumerate(steps) if _is_label(step))))
    options = {"store": store, "profile": profile}
    with monkeypatch.context() as patch:
        patch.setattr(factwriter, "_LOOK_EVERY", 1)
        patch.setattr(factwriter, "_KEPT_BYTES", 2_000)
        read = killed(tmp_path / "read", steps, close=True, **options)
    for module in (facts, boxattach, earlylabels):
        monkeypatch.setattr(module, "read_facts", _no_reading)
    kept = killed(tmp_path / "kept", steps, close=True, **options)
    assert contents(kept) == contents(read)
    monkeypatch.setattr(factwriter, "_LOOK_EVERY", 1)
    monkeypatch.setattr(factwriter, "_KEPT_BYTES", 2_000)
    with pytest.raises(AssertionError, match="is read"):
        killed(tmp_path / "again", steps, close=True, **options)


def _is_label(step: Observation | EgoPose) -> bool:
    return isinstance(step, Observation) and step.role is Role.MASK


def _no_reading(path: Path, *_: object) -> Iterable[tuple[str, object]]:
    raise AssertionError(f"{path} is read")


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return killed(tmp_path_factory.mktemp("left"), drive(0.25)).parent


@pytest.mark.long(cases=1)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.floats(0, 1) | st.just(1.0), min_size=9, max_size=9),
    holes=st.lists(st.none() | st.floats(0, 1), min_size=9, max_size=9),
)
def test_whatever_is_torn_or_zero_what_is_whole_before_it_is_kept(
    cuts: list[float], holes: list[float | None], left_behind: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("torn") / "root"
    shutil.copytree(left_behind, root)
    folder = root / SEQUENCE.name
    journal = folder / f"{SEQUENCE.name}.journal.part"
    for path, cut, hole in zip([*sorted(folder.glob("*.itar.part")), journal], cuts, holes, strict=False):
        first = _journal_head(journal) if path == journal else 0
        os.truncate(path, first + int((path.stat().st_size - first) * cut))
        if hole is not None:
            _make_hole(path, first, hole)
    expected = _committed(folder)
    recover_all(root)
    if not folder.exists():
        assert not expected
        return
    sequence = Sequence(folder)
    assert {key for key in sequence.records if _is_entry_mark(key)} == expected
    (checked,) = check(root)
    errors = [finding.what for finding in checked.findings if finding.level == "error"]
    if not sequence.instances("cameras"):  # torn off with the disk, while labels of its pictures were not
        errors = [what for what in errors if "its camera is not in the sequence" not in what]
    assert not errors, checked.text


def _make_hole(path: Path, first: int, where: float) -> None:
    """A block that the disk never got."""
    start = max(first, int(path.stat().st_size * where) // 512 * 512)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(min(4096, max(0, path.stat().st_size - start))))


def _is_entry_mark(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 5 and parts[2] in {"frames", "pcs", "labels"} and parts[4] == ".zattrs"


def _committed(folder: Path) -> set[str]:
    """Marks in batches that are whole and that no damaged one of the same store precedes."""
    found, ends, damaged = set[str](), Counter[str](), set[str]()
    for group, batch in read_batches(folder / f"{SEQUENCE.name}.journal.part"):
        path = folder / f"{SEQUENCE.name}.ncore4-{group}.zarr.itar.part"
        data = path.read_bytes()[batch.place :][: batch.size]
        if zlib.crc32(data) != batch.crc or batch.place != ends[group]:
            damaged.add(group)
        if group not in damaged:
            ends[group] += batch.size
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                found |= {name for name in archive.getnames() if _is_entry_mark(name)}
    return found


def _journal_head(path: Path) -> int:
    """Where the first record of a journal ends."""
    return next(read_journal(path, "ncore 3")).end


@pytest.mark.long(cases=3)
@pytest.mark.parametrize("store", ["itar", "directory"])
@pytest.mark.parametrize("stage", ["seal", "meta", "first rename", "meta rename", "journal"])
def test_a_kill_while_finishing_is_finished_anew(
    tmp_path: Path, stage: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = killed(tmp_path / "closed", drive(0.2), close=True, store=store)
    writer = NCoreWriter(tmp_path / "killed", NCoreOptions(radar_cube=True, store=store))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in drive(0.2):
        writer.pose(step) if isinstance(step, EgoPose) else writer.write(writer.prepare(step))
    with monkeypatch.context() as patched:
        _die_at(stage, patched)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    assert any(path.name.endswith(".part") for path in (tmp_path / "killed" / SEQUENCE.name).iterdir())
    (done,) = recover_all(tmp_path / "killed")
    assert contents(tmp_path / "killed" / SEQUENCE.name) == contents(closed)
    assert done.kept["lidars/lidar"] == 2
    assert recover_all(tmp_path / "killed") == []


def _die_at(stage: str, patched: pytest.MonkeyPatch) -> None:
    """Stop at a point of finish, as a kill would: no clean-up runs that a kill would not leave undone."""
    if stage in {"seal", "meta"}:
        name = "root_attributes" if stage == "seal" else "write_meta"
        seen = iter([*[False] * (3 if stage == "seal" else 0), True])
        plain = getattr(finish, name)

        def die(*args: object) -> object:
            if next(seen):
                raise KeyboardInterrupt
            return plain(*args)

        patched.setattr(finish, name, die)
        return
    replace, unlink = Path.replace, Path.unlink

    def dying_replace(self: Path, target: Path) -> Path:
        if stage == "first rename" and "ncore4-lidar" in self.name:
            raise KeyboardInterrupt
        if stage == "meta rename" and self.name.endswith(".json.new"):
            raise KeyboardInterrupt
        return replace(self, target)

    def dying_unlink(self: Path, missing_ok: bool = False) -> None:
        if self.name.endswith(".journal.part"):
            raise KeyboardInterrupt
        unlink(self, missing_ok)

    patched.setattr(Path, "replace", dying_replace)
    if stage == "journal":
        patched.setattr(Path, "unlink", dying_unlink)


def test_a_waiting_cube_is_kept(tmp_path: Path) -> None:
    folder = killed(tmp_path, [radar(START_NS), cube(START_NS + 40 * MS)])
    assert (folder / f"{SEQUENCE.name}.cube-1.part").exists()
    recover_all(tmp_path)
    sequence = Sequence(folder)
    meta = sequence.attributes(f"radars/radar/frames/{START_NS // 1000}/generic_data")
    assert meta["radar_cube"]["timestamp_us"] == START_NS // 1000 + 40_000
    assert not (folder / f"{SEQUENCE.name}.cube-1.part").exists()


@pytest.mark.parametrize("before", [[], [pose(START_NS)], [lidar(START_NS)]])
def test_a_waiting_cube_of_a_radar_that_has_no_store_yet_is_kept(
    tmp_path: Path, before: list[Observation | EgoPose]
) -> None:
    folder = killed(tmp_path, [*before, cube(START_NS + 40 * MS)])
    (done,) = recover_all(tmp_path)
    assert done.kept["radars/radar"] == 1
    assert len(Sequence(folder).frames("radars/radar")) == 1


def test_a_cube_that_found_its_scan_is_not_stored_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions(radar_cube=True))
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(radar(START_NS)))
    writer.write(writer.prepare(cube(START_NS + 40 * MS)))
    with monkeypatch.context() as patched:  # killed between placing the cube and forgetting it
        patched.setattr("edgefirst_ros.formats.ncore.write.stores.HeldCubes.drop", lambda *_: None)
        writer.write(writer.prepare(radar(START_NS + 50 * MS)))
    writer.abort()
    recover_all(tmp_path)
    sequence = Sequence(tmp_path / SEQUENCE.name)
    cubes = [key for key in sequence.records if key.endswith("radar_cube/.zarray")]
    assert cubes == [f"radars/radar/frames/{START_NS // 1000 + 50_000}/generic_data/radar_cube/.zarray"]
    assert len(sequence.frames("radars/radar")) == 2


@pytest.mark.parametrize("synced", [False, True])
def test_cubes_that_wait_one_after_the_other_take_the_same_file_and_are_each_kept_once(
    tmp_path: Path, synced: bool
) -> None:
    """A file that is removed could come back with another one's inode after a power cut."""
    writer = NCoreWriter(tmp_path, NCoreOptions(radar_cube=True))
    writer.begin(SEQUENCE)
    seen: set[str] = set()
    wanted: list[tuple[int, bytes]] = []
    # The stronger, the longer: a cube is written over a longer one, and over a shorter one.
    for number, strongest in enumerate((500, 2, 30_000, 20, 3, 500)):
        time_ns = START_NS + number * 100 * MS
        waiting = cube(time_ns + 40 * MS, number, strongest)
        writer.write(writer.prepare(radar(time_ns)))
        writer.write(writer.prepare(waiting))
        wanted.append((time_ns // 1000 + 40_000, waiting.measurement.datum.cube.tobytes()))
        seen |= {path.name for path in tmp_path.glob("*/*.cube-*")}
        if synced:
            with writer.syncing():
                pass
    writer.abort()
    assert {path.name for path in tmp_path.glob("*/*.cube-*")} == seen
    assert len(seen) == (2 if synced else 1)
    recover_all(tmp_path)
    sequence = Sequence(tmp_path / SEQUENCE.name)
    scans = [f"radars/radar/frames/{end_us}/generic_data" for _, end_us in sequence.frames("radars/radar")]
    assert [
        (sequence.attributes(at)["radar_cube"]["timestamp_us"], sequence.array(f"{at}/radar_cube").tobytes())
        for at in scans
    ] == wanted
    assert not list(tmp_path.glob("*/*.cube-*"))


def test_a_torn_waiting_cube_is_dropped(tmp_path: Path) -> None:
    folder = killed(tmp_path, [radar(START_NS), cube(START_NS + 40 * MS)])
    os.truncate(folder / f"{SEQUENCE.name}.cube-1.part", 100)
    recover_all(tmp_path)
    assert len(Sequence(folder).frames("radars/radar")) == 1


def test_a_sequence_in_which_nothing_was_committed_is_removed(tmp_path: Path) -> None:
    folder = killed(tmp_path, [lidar(START_NS)])
    os.truncate(folder / f"{SEQUENCE.name}.ncore4-lidar.zarr.itar.part", 3000)
    (done,) = recover_all(tmp_path)
    assert done.paths == ()
    assert "nothing had been committed" in done.text
    assert not folder.exists()


def test_poses_alone_are_kept(tmp_path: Path) -> None:
    killed(tmp_path, [pose(START_NS), pose(START_NS + 20 * MS)])
    (done,) = recover_all(tmp_path)
    assert done.kept == {"poses": 2}
    assert done.text == f"{SEQUENCE.name}: 2 poses are kept"


def test_a_journal_killed_at_birth_is_removed(tmp_path: Path) -> None:
    folder = killed(tmp_path, [])
    for size in (40, 27, 5, 0):
        os.truncate(folder / f"{SEQUENCE.name}.journal.part", size)
        shutil.copytree(folder, tmp_path / f"{size}" / SEQUENCE.name)
        (done,) = recover_all(tmp_path / f"{size}")
        assert done.paths == ()
        assert not (tmp_path / f"{size}" / SEQUENCE.name).exists()


def test_stores_without_a_usable_journal_are_left_and_said(tmp_path: Path) -> None:
    folder = killed(tmp_path, [lidar(START_NS)])
    journal = folder / f"{SEQUENCE.name}.journal.part"
    os.truncate(journal, 12)
    with pytest.raises(DatasetError, match="cannot be finished without it"):
        recover(folder)
    journal.unlink()
    with pytest.raises(DatasetError, match="holds their poses"):
        recover(folder)
    assert (folder / f"{SEQUENCE.name}.ncore4-lidar.zarr.itar.part").exists()


@pytest.mark.parametrize("which", ["folder", "journal", "store"])
def test_any_path_of_a_sequence_will_do(tmp_path: Path, which: str) -> None:
    folder = killed(tmp_path, [lidar(START_NS)])
    store = folder / f"{SEQUENCE.name}.ncore4-lidar.zarr.itar.part"
    paths = {
        "folder": folder,
        "journal": folder / f"{SEQUENCE.name}.journal.part",
        "store": store,
    }
    assert recover(paths[which]).path == folder
    assert Sequence(folder).instances("lidars") == ["lidar"]


def test_paths_without_sequences_are_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DatasetNotFound, match="no NCore sequence"):
            recover(path)


@pytest.mark.parametrize("head", [b"EFNCORE1", b"edgefirst_ros journal ncore 4\n"])
@pytest.mark.parametrize("steps", [[], [lidar(START_NS)]])
def test_a_journal_of_another_version_is_told_and_nothing_touched(
    tmp_path: Path, head: bytes, steps: list[Observation | EgoPose]
) -> None:
    folder = killed(tmp_path, steps)
    (folder / f"{SEQUENCE.name}.journal.part").write_bytes(head)
    before = contents(tmp_path)
    with pytest.raises(DatasetError, match="another version of this package"):
        recover(folder)
    assert contents(tmp_path) == before


def test_facts_are_read_by_their_kind(tmp_path: Path) -> None:
    journal = FactJournal(tmp_path / "j")
    for kind in ("x", "y", "xy"):
        journal.record(kind, [kind, 1])
    journal.close()
    assert [*read_facts(tmp_path / "j", ["x", "xy"])] == [("x", ["x", 1]), ("xy", ["xy", 1])]
    assert len([*read_facts(tmp_path / "j")]) == 3


def test_facts_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    journal = FactJournal(tmp_path / "j")
    journal.record("sequence", {"id": "a"})
    journal.record("not_known_yet", [1, 2])
    journal.record("origin", [1.0, 2.0, 3.0])
    journal.close()
    found = Facts.read(tmp_path / "j")
    assert found.origin == (1.0, 2.0, 3.0)


def test_the_module_finishes_with_the_same_code_as_close() -> None:
    assert recover_module.complete_sequence is finish.complete_sequence


def _damaged(folder: Path, data: st.DataObject) -> None:
    """Some bytes of a file are others, are gone, or are twice there."""
    path = data.draw(st.sampled_from(sorted(path for path in folder.rglob("*") if path.is_file())))
    content = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, max(0, len(content) - 1)))
    some = data.draw(st.binary(min_size=1, max_size=20))
    match data.draw(st.sampled_from(["other", "gone", "more"])):
        case "other":
            content[where : where + len(some)] = some
        case "gone":
            del content[where : where + len(some)]
        case "more":
            content[where:where] = some
    path.write_bytes(content)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A sequence killed while it was written, and one that is complete but for names, of each store."""
    found = []
    for store in ("itar", "directory"):
        writing = tmp_path_factory.mktemp("writing")
        killed(writing, drive(0.12), store=store)
        complete = tmp_path_factory.mktemp("complete")
        writer = NCoreWriter(complete, NCoreOptions(radar_cube=True, store=store))  # type: ignore[arg-type]
        writer.begin(SEQUENCE)
        for step in drive(0.05):
            writer.pose(step) if isinstance(step, EgoPose) else writer.write(writer.prepare(step))
        writer.complete()
        writer.abort()
        found += [writing, complete]
    return found


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_costs_what_is_damaged_or_is_said(
    data: st.DataObject, unfinished: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("damaged") / "root"
    shutil.copytree(data.draw(st.sampled_from(unfinished)), root)
    for _ in range(data.draw(st.integers(1, 3))):
        _damaged(root, data)
    for complete in (False, True):
        with suppress(EdgeFirstError):
            recover(root / SEQUENCE.name, complete=complete)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("sequence", {"store": 7}),
        ("sequence", 3),
        ("pose", [1]),
        ("pose", [1 << 70, *range(15)]),
        ("row", ["no such series", 1]),
        ("series", "x"),
        ("instance", {"component": []}),
        ("generic", ["radars", "radar", "x", "no dtype", [1], b""]),
        ("generic", ["radars", "radar", "x", "<f8", [1 << 60], b""]),
        ("cuboids", [None] * 6),
        ("mask", ["camera_optical", "ego", b"no PNG"]),
        ("label", []),
        ("sweep", ["lidar", "x", 1, 2, 3]),
        ("batch", 1),
        ("batch", ["lidar", {}, [], None]),
        ("batch", ["lidar", 0, 1 << 62, 0]),
        ("batch", ["lidar", ["../../../../etc/passwd", 3], 1, 0]),
    ],
)
@pytest.mark.parametrize("store", ["itar", "directory"])
def test_a_record_that_this_package_does_not_write_is_no_traceback(
    tmp_path: Path, store: str, kind: str, value: object
) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions(store=store))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in (pose(START_NS), lidar(START_NS), radar(START_NS), pose(START_NS + 20 * MS)):
        writer.pose(step) if isinstance(step, EgoPose) else writer.write(writer.prepare(step))
    writer._current.journal.record(kind, value)
    writer.abort()
    with suppress(DatasetError):
        recover(tmp_path / SEQUENCE.name)


@pytest.mark.parametrize(
    "meta",
    [
        b"",
        b"\xff",
        b"[1]",
        b'{"component_stores": 3}',
        b'{"component_stores": [{}]}',
        b'{"component_stores": [{"path": "../elsewhere"}]}',
        b'{"component_stores": [{"path": "maivin_2026_03_14_10_20_30.ncore4/../../elsewhere.zarr"}]}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_meta_file_moves_nothing(tmp_path: Path, meta: bytes) -> None:
    writer = NCoreWriter(tmp_path / "out", NCoreOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(lidar(START_NS)))
    writer.complete()
    writer.abort()
    (tmp_path / "elsewhere.part").write_bytes(b"")
    (tmp_path / "out" / SEQUENCE.name / f"{SEQUENCE.name}.json.part").write_bytes(meta)
    before = contents(tmp_path)
    with pytest.raises(DatasetError, match=r"json\.part"):
        recover(tmp_path / "out" / SEQUENCE.name)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("store", ["itar", "directory"])
@pytest.mark.parametrize("what", ["store", "journal", "cube", "note", "in a store"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, store: str, what: str) -> None:
    folder = killed(
        tmp_path / "out", [lidar(START_NS), radar(START_NS), cube(START_NS + 40 * MS)], store=store
    )
    names = {
        "store": f".ncore4-lidar.zarr{'.itar' if store == 'itar' else ''}.part",
        "journal": ".journal.part",
        "cube": ".cube-1.part",
        "note": ".aside.part",
        "in a store": ".ncore4-lidar.zarr.part/lidars",
    }
    path = folder / f"{SEQUENCE.name}{names[what]}"
    elsewhere = tmp_path / "elsewhere"
    if what == "note":
        elsewhere.write_bytes(b"precious")
    elif path.exists():
        path.rename(elsewhere)
    else:
        return
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes() if elsewhere.is_file() else contents(elsewhere)
    with suppress(EdgeFirstError):
        recover(folder)
    assert (elsewhere.read_bytes() if elsewhere.is_file() else contents(elsewhere)) == before


def test_batches_that_a_store_lost_are_said(tmp_path: Path) -> None:
    folder = killed(tmp_path, [lidar(START_NS), lidar(START_NS + 100 * MS), lidar(START_NS + 200 * MS)])
    (store,) = folder.glob("*lidar*")
    first, second, third = (batch for _, batch in read_batches(folder / f"{SEQUENCE.name}.journal.part"))
    with store.open("r+b") as file:
        file.seek(second.place + 4096)
        file.write(bytes(4096))
    (done,) = recover_all(tmp_path)
    assert (done.lost, done.dropped) == ({"entries": 2}, second.size + third.size)
    assert "2 entries were damaged and are lost" in done.text
    assert len(Sequence(folder).frames("lidars/lidar")) == 1
    assert first.place == 0
