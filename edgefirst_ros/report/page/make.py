"""Makes the page of a dataset or a recording: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.crashsafe.sync import disk_errors, sync_paths
from edgefirst_ros.formats.scene import Detail, Moment, Scene, Scenes
from edgefirst_ros.model.errors import DatasetError, EdgeFirstError, OutputExists
from edgefirst_ros.model.untrusted import REPORT, readable, refusing
from edgefirst_ros.report.drives import clock, leg_at, legs_of, since_drive_s, time_of, utc
from edgefirst_ros.report.html import Html, folded, joined, missing, section, tag, whole
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import Account, Report, end_of, parsed, read_report
from edgefirst_ros.report.page import overview
from edgefirst_ros.report.page.lanes import Stretch, time_axis
from edgefirst_ros.report.page.thumbnails import Rig, Thumbnail, chosen, of_reference, thumbnails
from edgefirst_ros.report.runs import Run, find_run

MOST_ROWS = 200
MOST_REASONS = 12
"""Reasons that are shown of one topic."""
MOST_CONFIGURATION = 200_000
"""Characters of the configuration that are shown."""
COLUMNS = ("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written", "lost_upstream")
_NAMED = {"refused": "rejected", "lost_upstream": "lost upstream"}
"""Of columns and stages, on the page."""
NO_REPORT = f"there is no {REPORT} beside the dataset"
_SCRIPTS = ("uPlot.iife.min.js", "page.js")
_STYLES = ("uPlot.min.css", "page.css")


def make_page(
    path: Path, output: Path | None = None, on_progress: Callable[[int, int], None] = lambda *_: None
) -> Path:
    """Make the page of a dataset, of a report, or of the only run below a folder; returns where it is.

    ``on_progress`` gets how many pictures were drawn, and of how many.

    Raises:
        DatasetNotFound: there is no dataset, or several runs'.
        DatasetError: the report is none.
        OutputExists: the output is there and is no HTML file.
        WriteError: it cannot be written.
    """
    run = find_run(path)
    if run.report is None:
        parts = ["streams", *(each.name for each in fields(Report))]
        report = Report(lacking=dict.fromkeys(parts, NO_REPORT))
    else:
        report = read_report(run.report)
    pictures, lacking, count = _pictures(run, report, on_progress)
    if run.report is None:
        report.samples = count
    name = report.dataset or readable(run.datasets[0][1].stem if run.datasets else path.stem)
    place = output or run.page
    write_page(place, document(report, name, pictures, lacking))
    return place


def make_recording_page(values: Any, scenes: Sequence[Scene], output: Path) -> None:  # noqa: ANN401 - JSON
    """Make the page of a recording that was only looked at.

    Args:
        values: the report that a conversion would leave.
        scenes: some of its samples, with a rig those of every camera.
        output: the page.

    Raises:
        OutputExists: the output is there and is no HTML file.
        WriteError: it cannot be written.
    """
    report = parsed(values)
    report.purpose = "recording"
    of = {scene.moment: scene for scene in scenes}
    moments = of_reference(of, report)
    count = len(moments)
    why = ["start", *["on the way"] * (count - 2), "near the end"][:count]
    seen = Rig(of, lambda moment: moment, report)
    pictures, lacking = thumbnails(zip(moments, why, strict=True), of.__getitem__, report, seen)
    if not pictures:
        lacking = lacking or "no sample could be made of the recording"
    write_page(output, document(report, report.dataset, pictures, lacking))


def document(report: Report, title: str, pictures: Sequence[Thumbnail], lacking: str = "") -> str:
    """The page of a report.

    Args:
        report: what is shown.
        title: name of the dataset or the recording.
        pictures: of some samples.
        lacking: why there are no pictures, or not all; empty if there are.
    """
    verdict = judge(report)
    axis = time_axis(report)
    data: dict[str, Any] = {
        "stretches": [[s.place_s, _since_drive_s(s, report), s.length_s] for s in axis.stretches],
        "end": axis.end_s,
    }
    pins: dict[int, int] = {}
    for each in pictures:
        if each.time_ns is not None and each.number not in pins.values():  # one of several cameras
            pins[each.time_ns] = each.number
    body = joined(
        overview.header(report, verdict, title),
        tag(
            "main",
            _gallery(pictures, lacking, report),
            overview.attention(report, verdict),
            overview.drive(report, axis, data),
            overview.samples(report),
            overview.times(report),
            overview.track(report, pins),
            overview.rig(report),
            _accounting(report),
            _configuration(report),
        ),
        tag("noscript", tag("p", "The lanes need JavaScript, which is in this file.", class_="missing")),
    )
    return whole(
        f"{title}: {verdict.grade}",
        body,
        styles=[_asset(name) for name in _STYLES],
        scripts=[_asset(name) for name in _SCRIPTS],
        data=data,
    )


def _since_drive_s(stretch: Stretch, report: Report) -> float:
    """Where a stretch begins, in seconds since the start of its drive."""
    begin_ns = report.start_ns + round(stretch.since_start_s * 1e9)
    legs = legs_of(report)
    # What is received before the first acquisition time is of the sequence that follows.
    leg = leg_at(begin_ns + 1_000_000_000, legs)
    since_s = stretch.since_start_s if leg is None else since_drive_s(begin_ns, leg)
    return round(since_s, 3)


@cache
def _asset(name: str) -> str:
    return files("edgefirst_ros.report.page").joinpath("assets", name).read_text(encoding="utf-8")


class _Several(Scenes):
    """The samples of several datasets of one format, one after another."""

    def __init__(self, several: Sequence[Scenes]) -> None:
        self._of = {moment: scenes for scenes in several for moment in scenes.moments()}

    def moments(self) -> list[Moment]:
        """All of them."""
        return list(self._of)

    def timed(self, moment: Moment) -> Moment:
        """One of them with its time."""
        return self._of[moment].timed(moment)

    def scene(self, moment: Moment, detail: Detail = Detail.PICTURE) -> Scene:
        """One of them."""
        return self._of[moment].scene(moment, detail)


def _pictures(
    run: Run, report: Report, on_progress: Callable[[int, int], None]
) -> tuple[list[Thumbnail], str, int | None]:
    """Pictures of the first format that has some, why there are none, or not all, and how many samples."""
    faults: list[str] = []
    count: int | None = None
    for each, folders in run.of_format():
        opened: list[Scenes] = []
        for folder in folders[:32]:  # enough for pictures of a run
            try:
                with refusing(folder, DatasetError):
                    opened += filter(None, [each.scenes(folder)])
            except EdgeFirstError as error:
                faults.append(str(error))
        if opened:
            several = _Several(opened)
            moments = several.moments()
            count = len(moments) if count is None else count
            seen = Rig(moments, several.timed, report)
            of = chosen(moments, report)
            pictures, lacking = thumbnails(_passed(of, on_progress), several.scene, report, seen)
            faults += [lacking] if lacking else []
            if pictures:
                return pictures, "; ".join(faults[:3]), count
    nothing = "no sample has a picture or points"
    absent = "the dataset is not there, or its format has no pictures"
    return [], "; ".join(faults[:3]) or (absent if count is None else nothing), count


def _passed(items: Sequence[Any], on_progress: Callable[[int, int], None]) -> Iterator[Any]:
    for number, each in enumerate(items):
        on_progress(number, len(items))
        yield each


def _gallery(found: Sequence[Thumbnail], why: str, report: Report) -> Html:
    """What the sensors saw at some moments."""
    figures: list[Html] = []
    legs, before = legs_of(report), 0
    for each in found:
        when = f" at {time_of(each.time_ns, legs)[0]}" if each.time_ns is not None and legs else ""
        source = Html(f"data:image/jpeg;base64,{each.base64}")
        image = tag("img", src=source, width=each.size[0], height=each.size[1], alt=f"{each.why}{when}")
        what = joined(tag("b", each.number, class_="pin-number"), f" {each.why}{when}")
        if each.sensor and each.number != before:
            figures.append(tag("h3", what))
        before = each.number
        caption = joined(tag("b", each.sensor) if each.sensor else what, tag("small", each.name))
        button = tag("button", image, type="button", class_="zoom")
        figures.append(tag("figure", button, tag("figcaption", caption)))
    words = "Boxes are the model's; dots are the lidar's, red is near and violet is far."
    return section(
        "pictures",
        "Pictures",
        missing(why) if why else None,
        tag("p", words, class_="note") if figures else None,
        tag("div", *figures, class_="figures several" if any(e.sensor for e in found) else "figures"),
        tag("dialog", tag("img", alt="", id="large"), id="viewer"),
    )


def _accounting(report: Report) -> Html:
    """What became of every message, and of every sequence."""
    if not report.topics:
        why = report.lacking.get("topics") or "nothing was received"
        return section("accounting", "Every message", missing(why))
    columns: tuple[str, ...] = ("received", "refused", "lost_upstream")
    if report.purpose == "dataset":
        is_lost = any(account.lost_upstream for account in report.topics.values())
        columns = tuple(c for c in COLUMNS if c != "lost_upstream" or is_lost)
    head = tag("tr", tag("th", "topic"), *(tag("th", _NAMED.get(c, c), class_="n") for c in columns))
    rows = []
    for topic, account in list(report.topics.items())[:MOST_ROWS]:
        reasons = _reasons(report, account)
        name = joined(tag("b", topic), tag("small", account.type), tag("ul", *reasons) if reasons else None)
        counts = (getattr(account, column) for column in columns)
        figures = (tag("td", f"{count:,}" if count else "·", class_="n") for count in counts)
        rows.append(tag("tr", tag("td", name), *figures))
    left = len(report.topics) - len(rows)
    return section(
        "accounting",
        "Every message",
        tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide"),
        tag("p", f"{left:,} more topics are in the report file.", class_="note") if left > 0 else None,
        _sequences(report),
    )


def _reasons(report: Report, account: Account) -> list[Html]:
    """Why a topic's messages are in no dataset, or not all of them."""
    skipped = account.reasons.get("skipped", {})
    texts = [
        f"{count:,} {_NAMED.get(stage, stage)}: {reason}"
        for stage, several in list(account.reasons.items())[:8]
        for reason, count in list(several.items())[:MOST_REASONS]
        if report.purpose == "dataset" or stage == "refused"
    ]
    texts += [f"{n:,} parts rejected: {r}" for r, n in list(account.refused_parts.items())[:MOST_REASONS]]
    texts += [
        f"{n:,} left out of {name}: {reason}"
        for name, several in list(account.left_out.items())[:8]
        for reason, n in list(several.items())[:MOST_REASONS]
        if reason not in skipped
    ]
    return [tag("li", text) for text in texts[:MOST_REASONS]]


def _sequences(report: Report) -> Html | None:
    if not report.sequences:
        return None
    rows = [
        tag(
            "tr",
            tag("td", tag("b", each.name), tag("small", utc(each.start_ns))),
            tag("td", clock((end_of(each) - each.start_ns) / 1e9), class_="n"),
            tag("td", f"{each.sample:,} of {each.reference_frames:,}", class_="n"),
            tag("td", each.ended),
        )
        for each in report.sequences[:MOST_ROWS]
    ]
    head = tag("tr", *(tag("th", name) for name in ("sequence", "length", "samples", "ended by")))
    return joined(tag("h3", "Sequences"), tag("div", tag("table", head, *rows), class_="wide"))


def _configuration(report: Report) -> Html:
    """Settings and versions."""
    parts: list[Html | None] = []
    if report.versions:
        shown = ", ".join(f"{name} {value}" for name, value in list(report.versions.items())[:20])
        parts.append(tag("p", f"Made with {shown}."))
    if report.configuration:
        try:
            written = json.dumps(report.configuration, indent=2, ensure_ascii=False)[:MOST_CONFIGURATION]
        except RecursionError:  # writing needs more levels than reading does
            written = "nested too deeply"
        block = joined(*(Html(joined(line, "\n")) for line in written.splitlines()))
        parts.append(folded("All settings", tag("pre", block)))
    else:
        parts.append(missing(report.lacking.get("configuration") or "no settings were noted"))
    return section("configuration", "Configuration and versions", *parts)


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
        # The last of a run: where no journal does it, what was removed before it must not claim its blocks.
        sync_paths((path, path.parent), one_by_one=0)
