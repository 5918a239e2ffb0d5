"""Makes the page of a dataset: finds its report and its samples, and writes one HTML file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from edgefirst_ros.diagnosis.report import Report, parsed, read_report
from edgefirst_ros.errors import DatasetError, DatasetNotFound, EdgeFirstError, OutputExists
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.datasets import find, output_of, refuse_linked
from edgefirst_ros.formats.format import Format, Target
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.formats.scene import Moment, Scene, Scenes
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.naming import REPORT, page_path, readable
from edgefirst_ros.view.page.document import document
from edgefirst_ros.view.page.thumbnails import Thumbnail, chosen, thumbnails

MOST_FOLDERS = 32
"""Sequences of a run that are looked into."""
MOST_REPORTS = 64
"""Reports beside a dataset that are looked at for its name."""
NO_REPORT = f"there is no {REPORT} beside the dataset"


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its report, None if there is none, and its datasets with the names of their formats."""

    report: Path | None
    datasets: Sequence[tuple[str, Path]]

    @property
    def page(self) -> Path:
        """Where the page goes unless another place is given."""
        if self.report is not None:
            return page_path(self.report)
        name, dataset = self.datasets[0]
        report = FORMATS[name].report(Target(dataset.parent, dataset.name))
        return page_path(report or dataset.with_name(f"{dataset.stem}.{REPORT}"))

    def of_format(self) -> Iterator[tuple[Format[Any], list[Path]]]:
        """The formats of which there is a dataset, in the order of ``FORMATS``: the first show most."""
        for name, each in FORMATS.items():
            if folders := [dataset for other, dataset in self.datasets if other == name]:
                yield each, folders


def make_page(path: Path, output: Path | None = None) -> Path:
    """Make the page of a dataset, of a report, or of the only run below a folder; returns where it is.

    Raises:
        DatasetNotFound: there is no dataset, or several runs'.
        DatasetError: the report is none.
        OutputExists: the output is there and is no HTML file.
        WriteError: it cannot be written.
    """
    run = find_run(path)
    if run.report is None:
        report = Report(lacking=dict.fromkeys(_ALL_PARTS, NO_REPORT))
        report.samples = _count(run)
    else:
        report = read_report(run.report)
    name = report.dataset or readable(run.datasets[0][1].stem if run.datasets else path.stem)
    pictures, lacking = _pictures(run, report)
    place = output or run.page
    write_page(place, document(report, name, pictures, lacking))
    return place


def make_pages(paths: Iterable[Path]) -> tuple[list[Path], str]:
    """Make the page of every report among the paths that a run wrote.

    Returns: where they are, and why some could not be made; that is a warning, as the datasets are complete.
    """
    pages, faults = [], []
    for report in (path for path in paths if path.name.endswith(REPORT)):
        try:
            pages.append(make_page(report))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has succeeded
            faults.append(f"the report page could not be made: {error or type(error).__name__}")
    return pages, "; ".join(faults)


def without_page(path: Path) -> list[Path]:
    """The reports at or below a path, or of the dataset that it is, that have no page; no links."""
    whole = path.absolute()  # "." has no name
    own = whole.parent / f"{whole.name.removesuffix('.zarr')}.{REPORT}"
    reports = {own, *path.rglob(f"*{REPORT}")} if path.is_dir() else {path, own, whole.parent / REPORT}
    found = (
        report
        for report in sorted(reports)
        if report.name.endswith(REPORT) and report.is_file() and not report.is_symlink()
    )
    return [report for report in found if not os.path.lexists(page_path(report))]


def make_recording_page(values: Any, scenes: Sequence[Scene], output: Path) -> None:  # noqa: ANN401 - JSON
    """Make the page of a recording that was only looked at.

    Args:
        values: the report that a conversion would leave.
        scenes: some of its samples.
        output: the page.

    Raises:
        OutputExists: the output is there and is no HTML file.
        WriteError: it cannot be written.
    """
    report = parsed(values)
    report.purpose = "recording"
    count = len(scenes)
    why = ["start", *["on the way"] * (count - 2), "near the end"][:count]
    of = {scene.moment: scene for scene in scenes}
    pictures, lacking = thumbnails(zip(of, why, strict=True), of.__getitem__, report)
    if not pictures:
        lacking = lacking or "no sample could be made of the recording"
    write_page(output, document(report, report.dataset, pictures, lacking))


_ALL_PARTS = (
    "samples",
    "topics",
    "sequences",
    "combinations",
    "pairing",
    "timeline",
    "streams",
    "configuration",
)


def find_run(path: Path) -> Run:
    """The run that a path is of: a report, a dataset, one of its files, or a folder above.

    Raises:
        DatasetNotFound: there is none, or there are several.
        DatasetError: a symbolic link is in it, or leads to it.
    """
    if path.name.endswith(REPORT) and path.is_file():
        return Run(path, _of_report(path))
    found = [(each.name, dataset) for each, dataset in find(path)]
    runs: dict[Path | None, list[tuple[str, Path]]] = {}
    for name, dataset in found:
        refuse_linked(path, dataset)
        runs.setdefault(_report_of(name, dataset), []).append((name, dataset))
    if len(runs) > 1:
        some = ", ".join(str(dataset) for datasets in islice(runs.values(), 3) for _, dataset in datasets[:1])
        raise DatasetNotFound(
            f"{path}: holds the datasets of {len(runs)} runs; name one of them, such as {some}"
        )
    report, datasets = next(iter(runs.items()))
    return Run(report, datasets)


def _of_report(report: Path) -> list[tuple[str, Path]]:
    """The datasets that a report says it is of, as far as they are there and below the output folder."""
    output = output_of(report)
    found: dict[Path, str] = {}
    for file in read_report(report).files[: 8 * MOST_FOLDERS]:
        parts = PurePosixPath(file).parts
        if len(parts) < 2 or ".." in parts or parts[0] not in FORMATS or PurePosixPath(file).is_absolute():
            continue
        dataset = output / parts[0] / parts[1]
        if dataset.is_dir():
            refuse_linked(output, dataset)
            found[dataset] = parts[0]
    return sorted(((name, dataset) for dataset, name in found.items()), key=_rank)


def _rank(each: tuple[str, Path]) -> tuple[int, Path]:
    return list(FORMATS).index(each[0]), each[1]


def _report_of(name: str, dataset: Path) -> Path | None:
    """The report of the run that wrote a dataset."""
    loose = dataset.with_name(f"{dataset.name.removesuffix('.zarr')}.{REPORT}")
    for report in (dataset / REPORT, loose):
        if report.is_file() and not report.is_symlink():
            return report
    output = dataset.parent.parent
    patterns = (f"*/*/{REPORT}", f"*/*.{REPORT}")
    others = (each for pattern in patterns for each in output.glob(pattern) if not each.is_symlink())
    for report in sorted(islice(others, MOST_REPORTS)):
        try:
            files = read_report(report).files
        except DatasetError:
            continue
        if any(PurePosixPath(file).parts[:2] == (name, dataset.name) for file in files):
            return report
    return None


class _Several:
    """The samples of several datasets of one format, one after another."""

    def __init__(self, several: Sequence[Scenes]) -> None:
        self._of = {moment: scenes for scenes in several for moment in scenes.moments()}

    def moments(self) -> list[Moment]:
        """All of them."""
        return list(self._of)

    def scene(self, moment: Moment) -> Scene:
        """One of them."""
        return self._of[moment].scene(moment)


def _count(run: Run) -> int | None:
    """How many samples the datasets hold, by the first format that can be read; None if none can."""
    for each, folders in run.of_format():
        try:
            with refusing(each.name, DatasetError):
                found = [each.scenes(folder) for folder in folders]
                return sum(len(scenes.moments()) for scenes in found if scenes is not None)
        except EdgeFirstError:
            continue
    return None


def _pictures(run: Run, report: Report) -> tuple[list[Thumbnail], str]:
    """Pictures from the first format that has some; why there are none, or not all."""
    faults: list[str] = []
    can_be_seen = False
    for each, folders in run.of_format():
        opened: list[Scenes] = []
        for folder in folders[:MOST_FOLDERS]:
            try:
                with refusing(folder, DatasetError):
                    opened += filter(None, [each.scenes(folder)])
            except EdgeFirstError as error:
                faults.append(str(error))
        if opened:
            can_be_seen = True
            several = _Several(opened)
            pictures, lacking = thumbnails(chosen(several.moments(), report), several.scene, report)
            if lacking:
                faults.append(lacking)
            if pictures:
                return pictures, "; ".join(faults[:3])
    if faults:
        return [], "; ".join(faults[:3])
    if can_be_seen:
        return [], "no sample has a picture or points"
    return [], "the dataset is not there, or its format has no pictures"


def refuse_output(path: Path) -> None:
    """Refuse to write a page under a name that no page has, or in place of something else.

    Raises:
        OutputExists: the name does not end in .html, or is not a file's.
    """
    if path.suffix.lower() not in {".html", ".htm"}:
        raise OutputExists(f"{path}: a page is an .html file; give -o a name that ends in .html")
    if path.exists() and not path.is_file():
        raise OutputExists(f"{path}: is no file; nothing was written")


def write_page(path: Path, page: str) -> None:
    """Write a page, in place of an earlier one, so that a power cut leaves all of it, or what was there.

    Raises:
        OutputExists: something else is there.
        WriteError: it cannot be written.
    """
    refuse_output(path)
    with disk_errors(path):
        replace_file(path, page.encode("utf-8", "replace"))
