"""What a conversion would make of recordings, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edgefirst_ros.cli.terminal import print_line, several

NOTHING = "·"


def print_forecast(console: Console, found: Mapping[str, Any]) -> None:
    """Print what each topic would be used as, what is ignored and why, and how many samples would come."""
    frames = several(found["reference_frames"], "reference frames")
    print_line(
        console,
        f"{escape(', '.join(found['recordings']))} would become {several(found['samples'], 'samples')} of "
        f"{frames}, {found['complete']:,} of them complete",
    )
    for topic, count in sorted(found["missing"].items(), key=lambda item: (-item[1], item[0])):
        print_line(console, f"  {count:,} would lack {escape(topic)}")
    used = Table(box=None, pad_edge=False)
    for name in ("topic", "used as", "Hz", "clock"):
        used.add_column(name, overflow="fold", justify="right" if name == "Hz" else "left")
    for topic, each in found["topics"].items():
        if each["role"] is not None:
            rate = NOTHING if not each["rate_hz"] else f"{each['rate_hz']:.1f}"
            used.add_row(escape(topic), each["role"], rate, escape(each["clock"] or NOTHING))
    console.print(used)
    for topic, each in found["topics"].items():
        for reason, count in each["ignored"].items():
            what = several(count, "messages")
            print_line(console, f"ignored: {escape(topic)}: {what}: {escape(reason)}")
    for note in found["notes"]:
        print_line(console, f"note: {escape(note)}")
    for warning in found["warnings"]:
        print_line(console, f"[bold yellow]warning[/]: {escape(warning)}")
    for hint in found["hints"]:
        print_line(console, f"[yellow]hint[/]: {escape(hint)}")
