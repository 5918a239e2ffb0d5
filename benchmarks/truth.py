"""Every figure that is promised of the datasets, measured on simulated drives whose truth is known.

    python benchmarks/truth.py [--only NAME...] [--json FILE] [--seconds-scale X] [--list]

Scenarios are the functions registered in ``truth_*.py`` beside this file. Prints one table and ends with 1 if
a figure misses its bound or a scenario fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

import scenarios
from rich import box
from rich.console import Console
from rich.table import Table
from scenarios import SCENARIOS, Figure, Scenario

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen scenarios; the process's exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these alone; * and ? as in file names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--seconds-scale", type=float, default=1.0, help="longer or shorter drives")
    parser.add_argument("--list", action="store_true", help="say which scenarios there are, and end")
    chosen = parser.parse_args(arguments)
    scenarios.seconds_scale = chosen.seconds_scale
    for path in sorted(HERE.glob("truth_*.py")):
        importlib.import_module(path.stem)
    wanted = [s for s in SCENARIOS if not chosen.only or any(fnmatch(s.name, o) for o in chosen.only)]
    if not wanted:
        parser.error(
            f"no scenario {' or '.join(chosen.only)}; there are {', '.join(s.name for s in SCENARIOS)}"
        )
    if chosen.list:
        for each in wanted:
            print(f"{each.name}: {each.demand}")
        return 0
    rows = []
    for each in wanted:
        start_s = time.monotonic()
        print(f"{each.name} ...", file=sys.stderr, flush=True)
        figures = list(measured(each))
        rows += [(each, figure) for figure in figures]
        print(f"{each.name}: {time.monotonic() - start_s:.0f} s", file=sys.stderr, flush=True)
    show(rows)
    if chosen.json:
        data = [{"scenario": each.name, "demand": each.demand, **asdict(figure)} for each, figure in rows]
        chosen.json.write_text(json.dumps(data, indent=1) + "\n")
    return int(not all(figure.ok for _, figure in rows))


def measured(each: Scenario) -> Iterator[Figure]:
    """The figures of a scenario; one that says what failed if it did, after those that it gave before."""
    with tempfile.TemporaryDirectory(prefix="truth-") as folder:
        try:
            yield from each.run(Path(folder))
        except Exception as error:  # noqa: BLE001 - one that fails must not hide the others
            traceback.print_exc()
            yield Figure("runs", f"{type(error).__name__}: {error}", "", "without error", ok=False)


def show(rows: Sequence[tuple[Scenario, Figure]]) -> None:
    """One table of all figures."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("scenario", "figure", "value", "bound", ""):
        table.add_column(name, overflow="fold")
    before = ""
    for each, figure in rows:
        value = figure.value if isinstance(figure.value, str) else f"{figure.value:.5g}"
        verdict = "" if not figure.bound else "ok" if figure.ok else "MISSED"
        name = each.name if each.name != before else ""
        before = each.name
        table.add_row(name, figure.name, f"{value} {figure.unit}".strip(), figure.bound, verdict)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    missed = sum(not figure.ok for _, figure in rows)
    print(f"{len(rows)} figures, {missed} missed")


if __name__ == "__main__":
    sys.exit(main())
