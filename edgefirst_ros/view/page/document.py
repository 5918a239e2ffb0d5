"""A whole page: one HTML file that needs nothing else, neither files nor a network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from edgefirst_ros.diagnosis.drives import leg_at, legs_of, since_drive_s
from edgefirst_ros.diagnosis.judge import judge
from edgefirst_ros.diagnosis.report import Report
from edgefirst_ros.view.html import joined, tag, whole
from edgefirst_ros.view.page import accounting, measured, overview
from edgefirst_ros.view.page.lanes import time_axis
from edgefirst_ros.view.page.thumbnails import Thumbnail
from edgefirst_ros.view.page.timeaxis import Stretch

_SCRIPTS = ("uPlot.iife.min.js", "page.js")
_STYLES = ("uPlot.min.css", "page.css")


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
    body = joined(
        overview.header(report, verdict, title),
        tag(
            "main",
            overview.attention(report, verdict),
            overview.drive(report, axis, data),
            measured.content(report, axis, data),
            overview.samples(report),
            measured.pairing(report, data),
            measured.latency(report, data),
            measured.track(report, axis, pictures, data),
            measured.pictures(pictures, lacking, report),
            accounting.accounting(report),
            accounting.configuration(report),
        ),
        tag("noscript", tag("p", "The plots need JavaScript, which is in this file.", class_="missing")),
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
    return files("edgefirst_ros.view.page").joinpath("assets", name).read_text(encoding="utf-8")
