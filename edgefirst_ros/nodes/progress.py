"""How far a replay is, and how it ended, as diagnostic entries: plain values, nothing of ROS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from edgefirst_ros.nodes.diagnostics import Entry, Level
from edgefirst_ros.offline.convert import Conversion, Position


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a replay ended: exit code, one sentence, and lines with more.

    Codes are those of ``edgefirst-ros convert``: 0 done, 1 nothing came of it, 2 wrong usage or input,
    130 interrupted and finished.
    """

    code: int
    message: str
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, conversion: Conversion) -> Self:
        """The outcome of a conversion that came to its end."""
        report = conversion.report
        totals = report["totals"]
        text = (
            f"{report['samples']} samples of {totals['received']} messages; {totals['refused']} refused, "
            f"{totals['dropped']} dropped"
        )
        lines = (*(f"warning: {w}" for w in report["warnings"]), *(str(path) for path in conversion.paths))
        if conversion.interrupted:
            return cls(130, f"{conversion.interruption}: {text}", lines)
        return cls(0 if report["samples"] else 1, text, lines)


def progress_entry(position: Position | None) -> Entry:
    """How far it is."""
    if position is None:
        return Entry(Level.OK, "replay", "opening")
    share = position.bytes_read / position.bytes_total if position.bytes_total else 0.0
    run = position.run
    values = (
        ("file", position.file),
        ("read", f"{position.bytes_read / 1e6:.1f} of {position.bytes_total / 1e6:.1f} MB"),
        ("recording", f"{run.recorded_s:.1f} s"),
        ("received", str(run.received)),
        ("samples", str(run.samples)),
        ("written", f"{run.bytes_written / 1e6:.1f} MB"),
        *((f"note {number}", note) for number, note in enumerate(position.notes[-5:], 1)),
    )
    return Entry(Level.OK, "replay", f"{share:.0%}: {run.samples} samples", values)


def finished_entry(outcome: Outcome, position: Position | None) -> Entry:
    """How it ended."""
    level = Level.ERROR if outcome.code else Level.OK
    return Entry(level, "replay", outcome.message, progress_entry(position).values)
