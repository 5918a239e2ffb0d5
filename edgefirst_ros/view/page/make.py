"""Makes the page of a dataset: finds its report and its samples, and writes one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgefirst_ros.diagnosis.report import Report, parsed, read_report
from edgefirst_ros.errors import DatasetError, EdgeFirstError, OutputExists
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.scene import Detail, Moment, Scene, Scenes
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.naming import REPORT, readable
from edgefirst_ros.view.page.document import document
from edgefirst_ros.view.page.thumbnails import Thumbnail, chosen, thumbnails
from edgefirst_ros.view.runs import Run, find_run

MOST_FOLDERS = 32
"""Sequences of a run that are looked into."""
NO_REPORT = f"there is no {REPORT} beside the dataset"


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


class _Several(Scenes):
    """The samples of several datasets of one format, one after another."""

    def __init__(self, several: Sequence[Scenes]) -> None:
        self._of = {moment: scenes for scenes in several for moment in scenes.moments()}

    def moments(self) -> list[Moment]:
        """All of them."""
        return list(self._of)

    def scene(self, moment: Moment, detail: Detail = Detail.PICTURE) -> Scene:
        """One of them."""
        return self._of[moment].scene(moment, detail)


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
