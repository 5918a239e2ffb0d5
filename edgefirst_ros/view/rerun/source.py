"""What a user names to look at: a recording, or the datasets of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgefirst_ros.errors import DatasetNotFound
from edgefirst_ros.formats.datasets import find
from edgefirst_ros.naming import REPORT
from edgefirst_ros.view.page.make import Run, find_run
from edgefirst_ros.view.page.reportfile import Report, read_report
from edgefirst_ros.view.rerun.instants import Drawable

RECORDINGS = frozenset({".mcap", ".db3", ".bag"})
"""Suffixes of what is no dataset's file, so that nothing need be looked for around it."""


def run_of(place: str) -> Run | None:
    """The run of a dataset, or of a folder above one; None for everything else, which may be a recording.

    Raises:
        DatasetNotFound: there is no such path, or there are the datasets of several runs.
        DatasetError: it is a report, and damaged.
    """
    path = Path(place)
    if "://" in place or (path.exists() and not path.is_dir() and path.suffix.lower() in RECORDINGS):
        return None
    if not path.name.endswith(REPORT):
        try:
            find(path)
        except DatasetNotFound:
            if path.exists():
                return None
            raise
    return find_run(path)


def drawables_of(run: Run) -> list[Drawable]:
    """The sequences of a run's datasets, of the first of its formats that show most.

    Raises:
        DatasetNotFound: it has none that can be drawn.
        EdgeFirstError: one is damaged.
    """
    from edgefirst_ros.view.rerun.edgefirst import edgefirst_drawings
    from edgefirst_ros.view.rerun.l5kit import l5kit_drawings
    from edgefirst_ros.view.rerun.ncore import NCoreDrawing

    report = Report() if run.report is None else read_report(run.report)
    kinds: Mapping[str, Callable[[Path], Sequence[Drawable]]] = {
        "edgefirst": lambda folder: edgefirst_drawings(folder, report),
        "ncore": lambda folder: [NCoreDrawing(folder)],
        "l5kit": l5kit_drawings,
    }
    for name, kind in kinds.items():
        folders = [dataset for other, dataset in run.datasets if other == name]
        if folders:
            return [drawable for folder in folders for drawable in kind(folder)]
    others = ", ".join(sorted({name for name, _ in run.datasets})) or "none"
    raise DatasetNotFound(f"no dataset of edgefirst, ncore or l5kit is there to draw; found: {others}")
