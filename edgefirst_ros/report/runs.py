"""Runs: a report and the datasets that it is of, found by any of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from edgefirst_ros.formats.datasets import find, output_of, refuse_linked
from edgefirst_ros.formats.format import Format, Target
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import REPORT, page_path
from edgefirst_ros.report.models import read_report

MOST_REPORTS = 64
"""Reports beside a dataset that are looked at for its name."""
MOST_FILES = 256
"""Of a run, by whose names its datasets are found."""


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
    for file in read_report(report).files[:MOST_FILES]:
        parts = PurePosixPath(file).parts
        if len(parts) < 2 or ".." in parts or parts[0] not in FORMATS or PurePosixPath(file).is_absolute():
            continue
        dataset = output / parts[0] / parts[1]
        if dataset.is_dir():
            refuse_linked(output, dataset)
            found[dataset] = parts[0]
    named = ((name, dataset) for dataset, name in found.items())
    return sorted(named, key=lambda each: ([*FORMATS].index(each[0]), each[1]))


def _report_of(name: str, dataset: Path) -> Path | None:
    """The report of the run that wrote a dataset."""
    loose = dataset.with_name(f"{dataset.name.removesuffix('.zarr')}.{REPORT}")
    for report in (dataset / REPORT, loose):
        if report.is_file() and not report.is_symlink():
            return report
    if dataset.parent.name != name:
        return None  # no report of a run says that it lies here; one of another drive may say so by chance
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
