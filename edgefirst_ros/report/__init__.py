"""The one judge of a drive, and what renders it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgefirst_ros.model.errors import extra
from edgefirst_ros.model.untrusted import REPORT


def make_pages(paths: Iterable[Path]) -> tuple[list[Path], str]:
    """Make the page of every report among the paths that a run wrote.

    Returns: where they are, and why some could not be made; that is a warning, as the datasets are complete.
    """
    pages, faults = [], []
    for report in (path for path in paths if path.name.endswith(REPORT)):
        try:
            with extra():
                from edgefirst_ros.report.page.make import make_page  # noqa: PLC0415 - nobody else needs pages
            pages.append(make_page(report))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has succeeded
            faults.append(f"the report page could not be made: {error or type(error).__name__}")
    return pages, "; ".join(faults)
