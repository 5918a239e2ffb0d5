"""Overwriting: until the new sequence is complete the old one is, whenever the writer and recovery die."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

import pytest
from ncoremade import SEQUENCE, START_NS, camera, cube, lidar, pose, radar
from ncoreread import Sequence, recover_all
from oracle import run_forked
from places import contents

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.recover import recover
from edgefirst_ros.formats.ncore.write import writer as writer_module
from edgefirst_ros.formats.ncore.write.writer import SPLIT_US, NCoreWriter
from edgefirst_ros.model.errors import WriteError
from edgefirst_ros.model.sample import EgoPose, Observation

NAME = SEQUENCE.name
BESIDE = f"{NAME}_recovered"
MS = 1_000_000
KINDS = ("itar", "directory")
OLD = [camera(START_NS), lidar(START_NS), pose(START_NS), pose(START_NS + MS)]
NEW = [
    radar(START_NS),
    cube(START_NS + 40 * MS),
    lidar(START_NS + 50 * MS),
    pose(START_NS),
    pose(START_NS + MS),
]
Steps = Iterable[Observation | EgoPose]


class Died(Exception):
    """Stands for the death of the process."""


def run(root: Path, steps: Steps, store: str, *, close: bool = True) -> None:
    """Overwrite; nothing is tidied up if something raises."""
    writer = NCoreWriter(root, NCoreOptions(store=store, radar_cube=True), overwrite=True)  # type: ignore[arg-type]
    try:
        writer.begin(SEQUENCE)
        for step in steps:
            writer.pose(step) if isinstance(step, EgoPose) else writer.write(writer.prepare(step))
        if close:
            writer.close()
    finally:
        writer.abort()


def dies(limit: int, act: Callable[[], object]) -> bool:
    """Whether something dies after so many changes of names on disk; a tree is half removed then."""
    done = 0

    def counted(real: Callable[..., object], half: Callable[..., object] | None) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            nonlocal done
            done += 1
            if done > limit:
                if half is not None:
                    half(*args, **options)
                raise Died
            return real(*args, **options)

        return step

    unlink = Path.unlink

    def remove_one(folder: Path, **_: object) -> None:
        for path in sorted(path for path in folder.rglob("*") if path.is_file())[:1]:
            unlink(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", counted(shutil.rmtree, remove_one))
        for name in ("replace", "unlink", "rmdir", "write_text"):
            patch.setattr(Path, name, counted(getattr(Path, name), None))
        try:
            act()
        except Died:
            return True
    return False


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, bytes]]:
    """The complete sequences by content and kind of store."""
    found = {}
    for store in KINDS:
        for what, steps in (("old", OLD), ("new", NEW)):
            root = tmp_path_factory.mktemp(what)
            run(root, steps, store)
            found[what, store] = contents(root / NAME)
    return found


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("itar", "itar", True),
        ("itar", "directory", False),
        ("directory", "itar", True),
    ],
)
def test_whenever_overwriting_and_recovery_die_a_complete_sequence_is_there(
    tmp_path: Path, trees: dict[tuple[str, str], dict[str, bytes]], old: str, new: str, again: bool
) -> None:
    run(tmp_path / "old", OLD, old)
    wanted = trees["old", old], trees["new", new]
    for limit in count(0):
        root, left = tmp_path / str(limit), tmp_path / "left"
        shutil.copytree(tmp_path / "old", root)
        if not dies(limit, lambda root=root: run(root, NEW, new)):
            break
        if (root / NAME / f"{NAME}.json").exists():  # for a reader it must be all of one sequence
            there = contents(root / NAME)
            assert any({name: there.get(name) for name in whole} == whole for whole in wanted), limit
        second = limit * 4 % 9
        shutil.copytree(root, left)
        if again:  # the next run begins on what was left
            dies(second, lambda left=left: run(left, NEW[:1], new, close=False))
        dies(second, lambda left=left: recover_all(left))
        recover_all(left)
        assert contents(left / NAME) in wanted, (limit, second)
        taken = not again and contents(left / NAME) == wanted[1]
        assert not (taken and (left / BESIDE).exists()), (limit, second)
        assert not [*left.rglob("*.part")], (limit, second)
        assert [found.text for found in check(left) if not found.ok] == []
        assert recover_all(left) == []
        shutil.rmtree(left)
    assert limit > 8
    assert contents(root / NAME) == trees["new", new]


@pytest.mark.parametrize("store", KINDS)
def test_an_unfinished_replacement_is_finished_beside_the_complete_one(
    tmp_path: Path, trees: dict[tuple[str, str], dict[str, bytes]], store: str
) -> None:
    run(tmp_path, OLD, store)
    run(tmp_path, NEW, store, close=False)
    (done,) = recover_all(tmp_path)
    assert (done.path.name, done.beside) == (BESIDE, tmp_path / NAME)
    assert done.paths == (tmp_path / BESIDE / f"{BESIDE}.json",)
    assert f"the complete {NAME}, which it was to replace, stays" in done.text
    assert contents(tmp_path / NAME) == trees["old", store]
    recovered = Sequence(tmp_path / BESIDE)
    assert recovered.meta["sequence_id"] == BESIDE
    assert recovered.instances("lidars") == ["lidar"]
    assert recovered.attributes(f"radars/radar/frames/{START_NS // 1000}/generic_data")["radar_cube"]
    run(tmp_path, NEW, store, close=False)
    assert recover(tmp_path / NAME).path.name == f"{BESIDE}_2"
    assert recover_all(tmp_path) == []
    assert len([*tmp_path.iterdir()]) == 3
    assert all(found.ok for found in check(tmp_path))


def test_a_journal_that_says_nothing_moves_no_store(tmp_path: Path) -> None:
    run(tmp_path, OLD, "itar")
    run(tmp_path, NEW, "itar", close=False)
    os.truncate(tmp_path / NAME / f"{NAME}.journal.part", 5)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="cannot be finished without it"):
        recover(tmp_path / NAME)
    assert contents(tmp_path) == before


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ncoremade import SEQUENCE, drive
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write import writer as writer_module
from edgefirst_ros.formats.ncore.write.writer import SPLIT_US, NCoreWriter
from edgefirst_ros.model.sample import EgoPose

root, store, entries, renames = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
writer = NCoreWriter(root, NCoreOptions(store=store), overwrite=True)
writer.begin(SEQUENCE)
for number, step in enumerate(drive(1.0)):
    if number == entries:
        os.kill(os.getpid(), signal.SIGKILL)
    writer.pose(step) if isinstance(step, EgoPose) else writer.write(writer.prepare(step))
replace, done = Path.replace, [0]

def counted(self, target):
    if done[0] == renames:
        os.kill(os.getpid(), signal.SIGKILL)
    done[0] += 1
    return replace(self, target)

Path.replace = counted
writer.close()
"""


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = tmp_path_factory.mktemp("child") / "child.py"
    script.write_text(CHILD)
    return script


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("store", "last"),
    [
        *(("itar", last) for last in [(0, 0), (60, 0), (-1, 1)]),
        *(("directory", last) for last in [(1, 0), (-1, 0), (-1, 3), (-1, 6)]),
    ],
)
def test_sigkill_costs_neither_the_old_sequence_nor_what_was_written(
    tmp_path: Path,
    trees: dict[tuple[str, str], dict[str, bytes]],
    child: Path,
    store: str,
    last: tuple[int, int],
) -> None:
    entries, renames = last
    replaced = renames > 0  # the first of them says that the new one is complete
    run(tmp_path, OLD, store)
    here = str(Path(__file__).parents[1])
    died = run_forked(child, here, tmp_path, store, str(entries), str(renames))
    assert died.returncode == -signal.SIGKILL, died.stderr
    if not replaced:
        left = contents(tmp_path / NAME)
        assert {name: left[name] for name in trees["old", store]} == trees["old", store]
    (done,) = recover_all(tmp_path)
    assert [found.text for found in check(tmp_path) if not found.ok] == []
    assert recover_all(tmp_path) == []
    if not replaced:
        assert contents(tmp_path / NAME) == trees["old", store]
    if entries:
        kept = Sequence(tmp_path / (NAME if replaced else BESIDE))
        assert len(kept.instances("cameras")) == (entries != 1)
        if entries < 0:
            assert len(kept.frames("lidars/lidar")) == 10
    else:
        assert done.paths == ()


def begun(root: Path, steps: Steps, split_us: int = SPLIT_US, **options: object) -> NCoreWriter:
    """A writer that overwrites, with some steps written."""
    chosen = NCoreOptions(radar_cube=True, **options)  # type: ignore[arg-type]
    writer = NCoreWriter(root, chosen, overwrite=True, split_us=split_us)
    writer.begin(SEQUENCE)
    for step in steps:
        writer.pose(step) if isinstance(step, EgoPose) else writer.write(writer.prepare(step))
    return writer


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(("old", "new"), [("directory", "itar"), ("itar", "directory"), (None, "itar")])
def test_whenever_giving_the_names_dies_recovery_knows_which_sequence_has_them(
    tmp_path: Path, trees: dict[tuple[str, str], dict[str, bytes]], old: str | None, new: str
) -> None:
    """``complete`` is what the report of the run says, which is written between the two steps."""
    for limit in count(0):
        root = tmp_path / str(limit)
        if old:
            run(root, OLD, old)
        writer = begun(root, NEW, store=new)
        assert writer.complete() == [root / NAME / f"{NAME}.json"]
        there = contents(root / NAME)
        assert not old or {name: there[name] for name in trees["old", old]} == trees["old", old]
        with pytest.raises(WriteError, match="is being written; wait"):
            recover(root / NAME, complete=True)
        died = dies(limit, writer.close)
        writer.abort()
        # Behind the first step the report does not matter any more.
        for complete in (False, True) if limit < 2 else (bool(limit % 2),):
            left = tmp_path / f"{limit}{complete}"
            shutil.copytree(root, left)
            recover(left / NAME, complete=complete)
            replaced = complete or limit > 0 or not old
            assert contents(left / NAME) == trees["new" if replaced else "old", new if replaced else old]
            assert (left / BESIDE).exists() == (not replaced)
            assert all(found.ok for found in check(left))
            assert recover_all(left) == []
        if not died:
            break
    assert limit > 5
    assert contents(root / NAME) == trees["new", new]


@pytest.mark.parametrize("store", KINDS)
def test_a_part_that_replaces_one_waits_for_the_end_of_the_run_and_others_do_not(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_LATE_US", 10_000)
    begun(tmp_path, [camera(START_NS), camera(START_NS + 110 * MS)], split_us=100_000, store=store).close()
    first, second, third = (tmp_path / name for name in (NAME, f"{NAME}-001", f"{NAME}-002"))
    before = [contents(folder) for folder in (first, second)]
    steps = [camera(START_NS + ms * MS, ms) for ms in range(0, 400, 55)]
    writer = begun(tmp_path, steps, split_us=100_000, store=store)
    for _, done in writer._finished:
        assert done.result()
    assert len(writer._finished) == 3
    assert {name: (first / name).read_bytes() for name in before[0]} == before[0]
    assert {name: (second / name).read_bytes() for name in before[1]} == before[1]
    assert (first / f"{NAME}.json.part").exists()
    assert not [*third.glob("*.part")], "it replaces nothing, so it has its name"
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path, killed, ignore=shutil.ignore_patterns("killed"))
    recover_all(killed)
    assert [contents(killed / folder.name) for folder in (first, second)] == before
    assert len(Sequence(killed / BESIDE).frames("cameras/camera_optical")) == 2
    assert [path.parent for path in writer.complete()][:3] == [first, second, third]
    assert {name: (second / name).read_bytes() for name in before[1]} == before[1]
    writer.close()
    assert not [*tmp_path.glob("*/*.part")]
    assert contents(first) != before[0]
    shutil.rmtree(killed)
    assert [found.text for found in check(tmp_path) if not found.ok] == []


def test_a_run_begins_on_what_another_left_complete(
    tmp_path: Path, trees: dict[tuple[str, str], dict[str, bytes]]
) -> None:
    writer = begun(tmp_path, NEW)
    writer.complete()
    writer.abort()
    begun(tmp_path, []).abort()
    assert Sequence(tmp_path / NAME).instances("radars") == ["radar"], (
        "nothing was there before: it has the name"
    )
    writer = begun(tmp_path, OLD)
    writer.complete()
    writer.abort()
    begun(tmp_path, []).abort()
    recover_all(tmp_path)
    assert contents(tmp_path / NAME) == trees["new", "itar"], "the one that it was to replace stays"
