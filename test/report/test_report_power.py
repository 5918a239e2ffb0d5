"""Wherever a run dies or loses power, the page beside a dataset is its own, or missing until recovery."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import chain, count
from pathlib import Path

import pytest
from drives import simulated
from l5_disk import Disk
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.crashsafe.journal import lock_open_file
from edgefirst_ros.formats.datasets import recover
from edgefirst_ros.model.untrusted import PAGE
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline import job
from edgefirst_ros.report import make_pages
from edgefirst_ros.report.runs import without_page
from edgefirst_ros.simulation import DriveOptions

Tree = dict[str, str]
CUTS = 1
"""Power cuts at every step."""


class Died(BaseException):
    """Stands for the death of the process."""


def run(frames: int, output: Path, formats: list[str]) -> None:
    """Convert as the command does, in place of what is there."""
    options = DriveOptions(
        seconds=frames / 5, fps=5, width=160, height=96, lidar_points=64, cube_hz=0, imu_hz=10
    )
    config = build_config({"formats": formats, "sync_s": "off", "workers": 1})
    done = convert([simulated(options).mcap], output, config, dataset="d", overwrite=True)
    assert make_pages(done.paths)[1] == ""


def tree(folder: Path) -> Tree:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): sha256(p.read_bytes()).hexdigest() for p in files}


def of_page(held: Tree) -> Tree:
    return {name: digest for name, digest in held.items() if name.endswith(PAGE)}


@pytest.fixture(scope="module", params=["edgefirst", "l5kit"])
def old_and_new(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, list[str]]:
    """Outputs of two drives of one name and start, with pages beside and within the dataset."""
    folder = tmp_path_factory.mktemp("undisturbed")
    formats = [request.param]
    for name, frames in (("old", 10), ("new", 12)):
        run(frames, folder / name, formats)
    return folder / "old", folder / "new", formats


def mixed(held: Tree, old: Tree, new: Tree) -> str:
    """Which page is beside files of another dataset than it shows; empty if none is."""
    for mine, other in ((old, new), (new, old)):
        others = {name for name, digest in held.items() if other.get(name) == digest != mine.get(name)}
        others -= of_page(held).keys()
        if others and (shown := [n for n, digest in of_page(mine).items() if held.get(n) == digest]):
            return f"{shown[0]} beside {min(others)}"
    return ""


def whole_pages(held: Tree, *trees: Tree) -> bool:
    """Whether every page is one of an undisturbed run: a broken one is none."""
    return all(digest in {each.get(name) for each in trees} for name, digest in of_page(held).items())


@pytest.mark.long(cases=1)
def test_a_page_is_its_datasets_own_or_missing(
    old_and_new: tuple[Path, Path, list[str]], tmp_path: Path
) -> None:
    before, after, formats = old_and_new
    old, new = tree(before), tree(after)
    assert of_page(old) != of_page(new)
    outcomes = set()
    for steps in chain(range(3), count(3, 3)):
        out = tmp_path / f"{steps}" / "out"
        shutil.copytree(before, out)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(out.parent, patch)
            disk.sync_all()
            died = not finishes(out, formats, patch, steps)
        cuts = [out]
        for seed in range(CUTS):
            cuts.append(tmp_path / f"{steps}-{seed}" / "out")
            disk.cut(cuts[-1].parent, random.Random(f"{steps} {seed}"))
        disk.close()
        for place in cuts:
            held = tree(place)
            assert not mixed(held, old, new), (steps, place.parent.name)
            assert whole_pages(held, old, new), (steps, place.parent.name, "a page is cut")
            if not died:
                assert of_page(held) == of_page(new), "everything is on the disk when the command ends"
            assert all(not done.failed for done in recover(place))
            pages, fault = make_pages(without_page(place))
            assert not fault
            found = tree(place)
            kind = next(name for name, each in (("old", old), ("new", new)) if each.items() <= found.items())
            outcomes.add((kind, bool(pages)))
            assert not [name for name in found if name.endswith((".new", ".part"))]
            shutil.rmtree(place.parent)
        if not died:
            break
    assert outcomes >= {("old", False), ("new", True), ("new", False)}


def finishes(out: Path, formats: list[str], patch: pytest.MonkeyPatch, steps: int) -> bool:
    """Whether a run ends within so many steps after it began its report; else it dies there."""
    left: Iterator[int] = iter(range(steps))
    is_final = False

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            if is_final and next(left, None) is None:
                raise Died
            return real(*args, **options)

        return step

    def begins_report(descriptor: int, path: Path) -> None:
        nonlocal is_final
        is_final = True
        lock_open_file(descriptor, path)

    for name in ("replace", "unlink"):
        patch.setattr(Path, name, counted(getattr(Path, name)))
    for name in ("fsync", "fdatasync"):
        patch.setattr(os, name, counted(getattr(os, name)))
    patch.setattr(job, "lock_open_file", begins_report)
    with suppress(Died):
        run(12, out, formats)
        return True
    return False


def test_recover_makes_pages_that_are_missing(tmp_path: Path) -> None:
    run(10, tmp_path, ["edgefirst", "ncore"])
    page = tmp_path / "edgefirst" / "d" / PAGE
    whole = page.read_bytes()
    page.unlink()
    page.with_name(f"{PAGE}.new").write_bytes(whole[:100])
    call = CliRunner().invoke
    done = call(app, ["recover", str(tmp_path)])
    assert done.exit_code == 0
    assert f"{page}\n  the page of a report that had none" in done.output
    assert page.read_bytes() == whole
    assert [path.name for path in page.parent.glob("*.new")] == []
    assert "had none" not in call(app, ["recover", str(tmp_path)]).output


def test_only_what_is_named_gets_a_page(tmp_path: Path) -> None:
    run(10, tmp_path, ["l5kit"])
    report = tmp_path / "l5kit" / "d.capture_report.json"
    report.with_name("d.capture_report.html").unlink()
    shutil.copy(report, report.with_name("e.capture_report.json"))
    (tmp_path / "l5kit" / "f.capture_report.json").symlink_to(report)
    assert without_page(tmp_path / "l5kit" / "d.zarr") == [report]
    assert without_page(report) == [report]
    assert without_page(tmp_path) == [report, report.with_name("e.capture_report.json")]


def test_a_page_that_cannot_be_made_does_not_keep_others_from_it(tmp_path: Path) -> None:
    run(10, tmp_path, ["edgefirst"])
    report = tmp_path / "edgefirst" / "d" / "capture_report.json"
    broken = tmp_path / "a.capture_report.json"
    broken.write_text("{")
    pages, fault = make_pages([broken, report])
    assert pages == [report.with_name(PAGE)]
    assert "could not be made" in fault
