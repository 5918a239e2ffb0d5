"""Finds the datasets below a path, of every format, and has their formats finish or verify them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path, PurePosixPath
from shutil import which
from typing import Any

from edgefirst_ros.formats.crashsafe.journal import Lock, being_written, holder, refuse_busy
from edgefirst_ros.formats.crashsafe.names import (
    NOT_FOLLOWED,
    PART,
    finished_path,
    forget,
    old_path,
    part_path,
    refuse_links_in,
    remove,
    take_name,
)
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.format import (
    EVERYTHING,
    Check,
    Findings,
    Format,
    Look,
    Target,
    concluded,
    reading,
)
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound, EdgeFirstError, WriteError
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, REPORT, page_path, read_object

RECORDINGS = "recordings"
"""Where in an output folder the recordings of live sessions lie."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """One output: finished now with what was kept of it, or why it could not be (then it is as it was)."""

    path: Path
    text: str
    failed: bool = False


def find(path: Path, *more: Path) -> list[tuple[Format[Any], Path]]:
    """Every dataset at or below a path, finished or not, with its format.

    Args:
        path: a dataset, one of its files, or a folder above it.
        more: further such paths, there or not.

    Raises:
        DatasetNotFound: no such path, or no dataset there.
    """
    if not (path.exists() or part_path(path).exists() or old_path(path).exists()):
        raise DatasetNotFound(f"{path}: no such file or folder")
    found = [(each, dataset) for each in FORMATS.values() for dataset in each.find(path)]
    there = {_real(dataset) for _, dataset in found}
    for each in FORMATS.values():
        further = {dataset for top in more for dataset in each.find(top)}
        found += [(each, dataset) for dataset in sorted(further) if _real(dataset) not in there]
    if not found:
        known = ", ".join(FORMATS)
        # A capture that is killed in its first seconds may have recorded what no format had written yet.
        recordings = path / RECORDINGS
        advice = f"; edgefirst-ros convert {recordings} makes one" if any(recordings.glob("*.mcap")) else ""
        raise DatasetNotFound(
            f"{path}: holds no dataset of a known format ({known}), finished or not{advice}"
        )
    return found


def refuse_linked(path: Path, dataset: Path) -> None:
    """Refuse a dataset that holds a symbolic link, or to which one leads.

    Args:
        path: what the user named, which may be a link itself.
        dataset: that ``find`` found there.

    Raises:
        DatasetError: naming the link.
    """
    way = [dataset, *dataset.parents]
    between = way[: way.index(path)] if path in way else []
    # A table of others has its files beside it, an unfinished dataset grows beside the finished one.
    beside = [dataset.with_suffix(suffix) for suffix in (".arrow", ".zip", "")] if dataset.is_file() else []
    beside += [part_path(dataset), old_path(dataset)]
    refuse_links_in(dataset, *reversed(between), *(each for each in beside if each != path))


def _links(path: Path) -> list[tuple[str, Path]]:
    """Links in the place of a format's folder, or of a dataset in one, with the format's name."""
    found = []
    for top, *several in os.walk(path):
        for name in chain(*several):
            kind = name if name in FORMATS else Path(top).name
            if kind in FORMATS and (link := Path(top, name)).is_symlink():
                found.append((kind, link))
    return sorted(found)


def _found(path: Path, *more: Path) -> tuple[list[tuple[Format[Any], Path]], list[tuple[str, Path]]]:
    """What ``find`` finds, and the links that hide more from it."""
    links = _links(path)
    try:
        return find(path, *more), links
    except DatasetNotFound:
        if not links:
            raise
        return [], links


@dataclass(frozen=True, slots=True)
class CompleteRun:
    """A run that was killed when only the final names of its datasets were missing.

    Attributes:
        report: the final name of its report, whose ``.part`` is the last file that such a run writes.
        files: what it wrote, under final names.
    """

    report: Path
    files: tuple[Path, ...]

    def wrote(self, dataset: Path) -> bool:
        """Whether a dataset is of this run."""
        resolved = _real(dataset)
        return any(resolved in (file, *file.parents) for file in self.files)


def complete_runs(path: Path) -> tuple[list[CompleteRun], list[Path]]:
    """Such runs at or below a path, and of the output folder that the path is in.

    Returns:
        The runs, and the final names of reports that a kill or a power cut left incomplete.
    """
    reports = set(path.rglob(f"*{REPORT}{PART}"))
    for output, child in pairwise(reversed((path, *path.parents))):
        if child.name in FORMATS:
            reports |= {*child.glob(f"*{REPORT}{PART}"), *output.glob(f"*/*/{REPORT}{PART}")}
    runs, torn = [], []
    for report in sorted(map(finished_path, reports)):
        output = output_of(report)
        try:
            files = read_object(part_path(report), MOST_REPORT_BYTES, DatasetError, follow=False)["files"]
            names = [_below(output, report, file) for file in files]
        except (OSError, ValueError, LookupError, TypeError):
            torn.append(report)
        else:
            runs.append(CompleteRun(report, tuple(_real(output / name) for name in names)))
    return runs, torn


def _real(path: Path) -> Path:
    """Without symbolic links, but with those that lead round in a circle, on which ``Path.resolve`` fails."""
    return Path(os.path.realpath(path))


def output_of(report: Path) -> Path:
    """The folder of the formats' folders, in one of which a report is: in a dataset, or beside it."""
    folder = report.absolute().parent.parent
    return folder.parent if report.name == REPORT else folder


def _below(output: Path, report: Path, file: object) -> PurePosixPath:
    """A file that a report lists, which is a file of a format's folder of its own output.

    Raises:
        ValueError: it is anywhere else.
    """
    listed, own = PurePosixPath(str(file)), report.absolute().relative_to(output)
    if ".." in listed.parts or not {listed.parts[0], own.parts[0]} <= FORMATS.keys():
        raise ValueError(f"{listed} is no file of {output}")
    return listed


def recover(path: Path) -> Iterator[Recovered]:
    """Finish every unfinished dataset at or below a path, one after another; safe to repeat.

    If only the final names were missing when a run ended, all of its datasets get them and replace what had
    them before, also where ``path`` is just one of the datasets. A dataset that cannot be finished, because
    it is being written or damaged or the disk is full, does not prevent the others from being finished.

    Raises:
        DatasetNotFound: no such path, or no dataset there.
    """
    runs, torn = complete_runs(path)
    failed = set[Path]()
    datasets, links = _found(path, *(file for run in runs for file in run.files))
    for _, link in links:
        yield Recovered(link, f"{link} {NOT_FOLLOWED}", failed=True)
    for each, dataset in datasets:
        mine = [run for run in runs if run.wrote(dataset)]
        try:
            refuse_linked(path, dataset)
            for run in mine:
                refuse_busy(part_path(run.report))
                _remove_page(run.report)
            done = Recovered(dataset, each.recover(dataset, complete=bool(mine)).text)
        except EdgeFirstError as error:
            done = Recovered(dataset, str(error), failed=True)
            failed |= {run.report for run in mine}
        yield done
    for run in runs:
        if run.report not in failed and part_path(run.report).exists():
            yield _settle_report(run.report, "the report of a run that was complete", take_name)
    for report in torn:
        text = "the run was killed while it wrote its report, which is removed"
        yield _settle_report(report, text, lambda report: remove(part_path(report)))


def _remove_page(report: Path) -> None:
    """Before datasets get their names: the page shows those that they replace."""
    page = page_path(report)
    with disk_errors(page, "cannot be removed"):
        if os.path.lexists(page):
            forget(page)


def _settle_report(report: Path, text: str, settle: Callable[[Path], None]) -> Recovered:
    try:
        with disk_errors(report, "cannot be recovered"), Lock(part_path(report)):
            settle(report)
    except WriteError as error:
        return Recovered(report, str(error), failed=True)
    return Recovered(report, text)


def check(path: Path, *, official_python: Path | None = None, look: Look = EVERYTHING) -> Iterator[Check]:
    """Check every dataset at or below a path, one after another.

    Args:
        path: a dataset, one of its files, or a folder above it.
        official_python: interpreter with a format's official reader, which then looks, too.
        look: how thoroughly, and whom to tell how far it is.

    Raises:
        ConfigError: there is no such interpreter.
        DatasetNotFound: no such path, or no dataset there.
    """
    if official_python is not None and which(official_python) is None:
        raise ConfigError([f"--official {official_python}: is no program"])
    datasets, links = _found(path)
    for kind, link in links:
        yield _linked(kind, link, f"{link} {NOT_FOLLOWED}")
    for each, dataset in datasets:
        try:
            refuse_linked(path, dataset)
        except DatasetError as error:
            yield _linked(each.name, finished_path(dataset), str(error))
            continue
        if not (owner := _owner(each, dataset)):
            checked, findings = None, Findings()
            with reading(findings, dataset.name, "dataset"):
                checked = each.check(dataset, official_python=official_python, look=look)
            if stopped_at := _stopped_at(each, finished_path(dataset)):
                what = f"the conversion was stopped at {stopped_at}, run it again"
                findings.warning(dataset.name, what)
                checked = checked and replace(
                    checked,
                    findings=(*checked.findings, *findings.kept),
                    warnings=checked.warnings + 1,
                )
            checked = checked or concluded(each.name, finished_path(dataset).name, findings, {})
            # What looks damaged may have begun to grow, or got its names meanwhile.
            if checked.ok or not (owner := _owner(each, dataset)):
                yield checked
                continue
        yield Check(each.name, finished_path(dataset).name, (), 0, 0, {}, being_written(owner))
    yield from _destroyed(path, datasets)


def _stopped_at(each: Format[Any], dataset: Path) -> object:
    """Where somebody stopped the conversion that made a dataset; false if nobody did."""
    place = Target(dataset.parent, dataset.name)
    report = each.report(place) or dataset.with_name(f"{dataset.stem}.{REPORT}")
    try:
        return read_object(report, MOST_REPORT_BYTES, DatasetError, follow=False).get("interrupted")
    except (OSError, DatasetError):
        return False


def _destroyed(path: Path, datasets: Iterable[tuple[Format[Any], Path]]) -> Iterator[Check]:
    """Reports beside datasets, below the path, that are none any more; those within are of their datasets."""
    folders = {finished_path(dataset).parent: each.name for each, dataset in datasets}
    for folder, kind in sorted(folders.items()):
        for report in sorted(folder.glob(f"*.{REPORT}")) if folder.is_relative_to(path) else ():
            try:
                parsed = read_object(report, MOST_REPORT_BYTES, DatasetError, follow=False)
                fault = "" if "samples" in parsed else "it has no samples"
            except DatasetError as error:
                fault = str(error).removeprefix(f"{report}: ")
            if fault:
                yield _linked(kind, report, f"is not a capture report: {fault}")


def _linked(kind: str, dataset: Path, text: str) -> Check:
    findings = Findings()
    findings.error(dataset.name, text)
    return concluded(kind, dataset.name, findings, {})


def _owner(each: Format[Any], dataset: Path) -> str:
    """The process that writes or recovers a dataset, for ``being_written``; empty if none does."""
    return next(filter(None, map(holder, each.locks(dataset))), "")
