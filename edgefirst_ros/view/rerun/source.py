"""The datasets of a run as what can be drawn of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgefirst_ros.diagnosis.report import Report, read_report
from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.view.page.make import Run
from edgefirst_ros.view.rerun.instants import Drawable


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
            with refusing(folders[0], DatasetError):
                return [drawable for folder in folders for drawable in kind(folder)]
    others = ", ".join(sorted({name for name, _ in run.datasets})) or "none"
    raise DatasetNotFound(f"no dataset of edgefirst, ncore or l5kit is there to draw; found: {others}")
