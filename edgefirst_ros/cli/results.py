"""What came of a run, what would come, and what is in recordings and datasets, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli.shared import Out
from edgefirst_ros.cli.terminal import (
    NOTHING,
    clock,
    count_text,
    make_table,
    print_line,
    print_row,
    rate_text,
    say,
    several,
)

SHORT_NAMES = {"lidar_points": "lidar", "radar_targets": "radar", "radar_cube": "cube", "model": "boxes"}
"""Of roles, in the order in which they are shown; others are called what they are."""
STAGES = {"refused": "rejected", "skipped": "ignored"}
"""What stages of the report are called; others are called what they are."""
MANY_HZ = 8.0
"""Pictures that follow one another faster are nearly the same."""
NARROW = 100
"""Columns of a terminal in which types stand below their topics."""
_OWN_CLOCK = "stamp: the recording's own clock"
"""What is found of a clock that nothing need be said of."""


def print_report(
    out: Out, report: Mapping[str, Any], *, detail: int = 1, cost: str = "", paths: Sequence[Path] = ()
) -> None:
    """Print what came of a run: what is in it, the verdict, and at most one note; or all as JSON.

    Args:
        out: where to.
        report: of the run.
        detail: 0 for what is wrong only, 2 for what became of every message, clocks, and all notes, too.
        cost: how large it is, and how long it took.
        paths: what was written.
    """
    from edgefirst_ros.model.reasons import Code
    from edgefirst_ros.report.judge import judge
    from edgefirst_ros.report.models import parsed

    out.result({**report, "paths": [f"{path}" for path in paths]})
    if out.as_json:
        return
    console, verdict = out.err, judge(parsed(report))
    for text in _details(report) if detail > 1 else ():
        print_line(console, text)
    if detail:
        labelled = report.get("labelled")
        labels = "" if labelled is None else f", {labelled:,} with labels"
        print_row(console, "done", f"{several(report['samples'], 'samples')}{labels}{cost}")
        if held := "   ".join(_held(report)):
            print_row(console, "", held)
    stopped = next((e.text for e in verdict.findings if e.code is Code.INTERRUPTED), "")
    if detail or verdict.grade != "good":
        text = ", ".join((*verdict.short, *_aligned(report["sequences"])))
        label, text = ("stopped", text.removeprefix("stopped ")) if stopped else (verdict.grade, text)
        print_row(console, label, text)
    if detail:
        _print_places(paths)
    warnings = [text for text in report["warnings"] if detail > 1 or text not in verdict.details]
    for text in warnings:
        print_row(console, "warning", text)
    notes = [*report["notes"], *report.get("hints", ()), *_advice(report)]
    for text in notes if detail > 1 else notes[: detail and not warnings]:
        print_row(console, "note", text)


def _print_places(paths: Sequence[Path]) -> None:
    """Print on standard output where each dataset is, its page, and what else was written."""
    from edgefirst_ros.formats.registry import FORMATS
    from edgefirst_ros.model.untrusted import REPORT

    kinds = {".html": "report", ".mcap": "recording", ".yaml": "settings"}
    has_page, places = any(path.suffix == ".html" for path in paths), dict[Path, str]()
    for path in paths:
        if path.name.endswith(REPORT):
            places |= {} if has_page else {path: "report"}
        else:
            is_whole = path.suffix in kinds or path.parent.name in FORMATS
            places.setdefault(path if is_whole else path.parent, kinds.get(path.suffix, "dataset"))
    for path, kind in places.items():
        say(f"{kind:<10} {path}")


def _held(report: Mapping[str, Any]) -> Iterator[str]:
    """In how many samples there is something of each kind of sensor; its rate, if these are few."""
    counts: dict[str, dict[str, tuple[int, float]]] = {}
    for sequence in report["sequences"]:
        for topic, stream in sequence["streams"].items():
            if (count := report["companions"].get(topic)) is not None:
                role = SHORT_NAMES.get(stream["role"], stream["role"].replace("_", " "))
                counts.setdefault(role, {}).setdefault(topic, (count, sequence["rates_hz"].get(topic, 0.0)))
        for topic, each in sequence["cameras"].items():
            beside = counts.setdefault("further camera", {})
            beside[topic] = beside.get(topic, (0, 0.0))[0] + each["sample"], 0.0
    order = [*SHORT_NAMES.values()]
    for role, by_topic in sorted(counts.items(), key=lambda e: order.index(e[0]) if e[0] in order else 99):
        found = [*by_topic.values()]
        least, most, rate_hz = min(found)[0], max(found)[0], found[0][1]
        which = role if len(found) == 1 else f"{len(found)} {role.removesuffix('s')}s"
        rate = f" ({rate_hz:.3g} Hz)" if most < 0.9 * report["samples"] and rate_hz else ""
        yield f"{which} {least:,}{f'–{most:,}' if most > least else ''}{rate}"


def _aligned(sequences: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How well the clocks of devices are known, if there is one beside the recording's."""
    every = (found for sequence in sequences for found in sequence["clocks"].values())
    if off_ns := [each["uncertainty_ns"] for each in every if each["clock"] and each["uncertainty_ns"]]:
        yield f"clocks aligned to ± {max(off_ns) / 1e6:.0f} ms"


def _advice(report: Mapping[str, Any]) -> Iterator[str]:
    """What a detector is trained with: fewer samples than a camera sends."""
    for sequence in report["sequences"]:
        rates = [sequence["rates_hz"].get(topic, 0.0) for topic in sequence["references"]]
        if report.get("labelled") and rates and rates[0] > MANY_HZ and not sequence["skipped"]:
            yield f"every frame of {rates[0]:.0f} Hz is a sample: --rate 2 for a detector"
            return


def _details(report: Mapping[str, Any]) -> Iterator[str]:
    """What became of every message, how many samples are complete, clocks, and what each format holds."""
    yield "What became of every message"
    for topic, account in report["topics"].items():
        yield from (f"  {topic}: {text}" for text in _account(account))
    for sequence in report["sequences"]:
        for each in (sequence, *sequence.get("cameras", {}).values()):
            frames = several(each["reference_frames"], "camera frames")
            missing = sorted(each["missing"].items(), key=lambda item: (-item[1], item[0]))
            lacked = ", ".join(f"{count:,} without {topic}" for topic, count in missing)
            complete = f"{each['complete']:,} complete ({lacked})" if missing else "all complete"
            yield f"{each['name']}: {several(each['sample'], 'samples')} of {frames}, {complete}"
        for text, topics in _together((topic, _clock(each)) for topic, each in sequence["clocks"].items()):
            yield f"  {topics}: {text}"
    for name, held in report["formats"].items():
        count, unit = next((held[key], key) for key in held if key not in {"messages", "left_out"})
        yield f"{name}: {several(count, unit)}, of {several(held['messages'], 'messages')}"


def _account(account: Mapping[str, Any]) -> Iterator[str]:
    """What became of a topic's messages, how far off samples they are, and why some are not used."""
    from edgefirst_ros.pipeline.ledger import COLUMNS

    ends = [f"{account[c]:,} {STAGES.get(c, c)}" for c in COLUMNS if account[c]]
    ends += [f"{account['lost_upstream']:,} lost upstream"] if account["lost_upstream"] else []
    if off := account["pairing_error_ms"]:
        ends.append(f"{off['p50']:.1f} ms off (p95 {off['p95']:.1f}, at most {off['max']:.1f})")
    yield f"{account['received']:,} received, {', '.join(ends)}"
    for column, reasons in account["reasons"].items():
        yield from (f"{count:,} {STAGES.get(column, column)}: {why}" for why, count in reasons.items())
    yield from (f"{several(n, 'parts')} rejected: {why}" for why, n in account["refused_parts"].items())
    for name, reasons in account.get("left_out", {}).items():
        for why, count in reasons.items():
            if why not in account["reasons"].get("skipped", {}):  # another format has them
                yield f"{count:,} left out of {name}: {why}"


def _clock(found: Mapping[str, Any]) -> str:
    """Where the times of a topic are from."""
    if found["source"] != "stamp":
        return "no usable time stamp: the time of arrival is used"
    off_ns = found["uncertainty_ns"]
    aligned = "" if off_ns is None else f", aligned to ± {off_ns / 1e6:.0f} ms"
    return f"device clock{aligned}" if found["clock"] else "the recording's own clock"


def _together(said: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each text with all topics that it is said of, without what is in brackets where that differs."""
    texts: dict[str, dict[str, str]] = {}
    for topic, text in said:
        texts.setdefault(re.sub(r" \(.*?\)", "", text), {})[topic] = text
    for short, of in texts.items():
        yield (short if len({*of.values()}) > 1 else next(iter(of.values()))), ", ".join(of)


def print_forecast(console: Console, found: Mapping[str, Any]) -> None:
    """Print what each topic would be used as, what is ignored and why, and how many samples would come."""
    what, of = several(found["samples"], "samples"), several(found["reference_frames"], "frames")
    names = ", ".join(found["recordings"])
    print_line(console, f"{names} would become {what} of {of}, {found['complete']:,} of them complete")
    for topic, count in sorted(found["missing"].items(), key=lambda item: (-item[1], item[0])):
        print_line(console, f"  {count:,} would lack {topic}")
    rows = [
        (escape(topic), each["role"], rate_text(each["rate_hz"]), escape(each["clock"] or NOTHING))
        for topic, each in found["topics"].items()
        if each["role"] is not None
    ]
    console.print(make_table("topic|used as| Hz|clock", rows))
    for topic, each in found["topics"].items():
        for reason, count in each["ignored"].items():
            print_line(console, f"{topic}: {several(count, 'messages')}: {reason}", "ignored")
    _print_said(console, note=found["notes"], warning=found["warnings"], hint=found["hints"])


def _print_said(console: Console, **said: Iterable[str]) -> None:
    for label, texts in said.items():
        for text in texts:
            print_line(console, text, label)


def print_dataset(out: Console, found: Mapping[str, Any]) -> None:
    """Print what a dataset is, as ``infos`` says it."""
    groups = "".join(f"   {name} {count:,}" for name, count in found.get("groups", {}).items())
    samples = several(found["samples"], "samples")
    print_line(out, f"{found['path']}   {found['format']}   {samples}{groups}")
    for each in found.get("sequences", ()):
        print_line(out, f"  {each['name']}: {several(each['samples'], 'samples')}")
    if found.get("labels"):
        print_line(out, f"  labels: {', '.join(found['labels'])}")


def print_recording(out: Console, found: Mapping[str, Any]) -> None:
    """Print what is in a recording, as ``infos`` says it."""
    from edgefirst_ros.report.judge import damage_of
    from edgefirst_ros.report.models import Recording

    head = [found["file"], several(found["messages"], "messages"), f"{found['bytes'] / 1e6:,.1f} MB"]
    if found["messages"]:
        start = datetime.fromtimestamp(found["start_ns"] / 1e9, UTC)
        head[1:1] = [clock(found["duration_s"]), f"{start:%Y-%m-%d %H:%M:%S} UTC"]
        head += [f"topics of {found['prefix']}"] if found["prefix"] else []
    print_line(out, "   ".join(head))
    if topics := found["topics"]:
        columns, is_narrow = "topic|type|used as| messages| Hz| MB| bad| gaps| longest s", out.width < NARROW
        columns = columns.replace("|type", "") if is_narrow else columns
        out.print(make_table(columns, _contents(topics, "\n  " if is_narrow else "")))
    clocks = [(topic, t["clock"]) for topic, t in topics.items() if t["clock"]]
    said = ((topic, text) for topic, text in clocks if not text.startswith(_OWN_CLOCK))
    for text, names in _together(said):
        print_line(out, f"{names}: {text}")
    damage = damage_of(Recording.model_validate({"file": "damage", "faults": found["faults"]}))
    late = [
        f"{name}: {several(each['messages'], 'messages')} stored up to {each['worst_s']:,.1f} s too late"
        for name, each in found["displaced"].items()
    ]
    bad = [f"{name}: bad: {each['fault']}" for name, each in topics.items() if each.get("fault")]
    notes = found["note"], found["ambiguous"], *found["choices"], *bad, *found.get("notes", ())
    warnings = [*found["clock_breaks"], *(each.text for each in damage), *late]
    _print_said(out, warning=warnings, note=filter(None, notes), hint=found["hints"])
    if "conversion" in found:
        print_forecast(out, found["conversion"])


def _contents(topics: Mapping[str, Mapping[str, Any]], joint: str) -> Iterator[Sequence[str]]:
    """A row for each topic; with a ``joint`` name and type are one cell."""
    for topic, t in topics.items():
        names = escape(topic), escape(t["type"].rpartition("/")[2])
        yield (
            *((joint.join(names),) if joint else names),
            t["use"] or NOTHING,
            f"{t['messages']:,}",
            f"{t['rate_hz']:.1f}",
            "?" if t["bytes"] is None else f"{t['bytes'] / 1e6:,.1f}",
            count_text(t["undecodable"]),
            count_text(t["gaps"]),
            f"{t['longest_gap_s']:.2f}" if t["gaps"] else NOTHING,
        )
