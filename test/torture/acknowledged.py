"""What a writer says is in the output: a line for each unit, as ``contents`` names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgefirst_ros.formats.format import Format, Target, Written
from edgefirst_ros.formats.ncore.prepare.parts import ComponentEntry, Cube, FlatBoxes, SeriesValue
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.sample import Sample

_SERIES = {"odometry": "odom", "navsat": "gps"}
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sample of a live capture: its sequence, number and time."""

    sequence: str
    frame: int
    time_ns: int


def survives_a_kill(tell: Tell) -> None:
    """From now on note in this process what ``write`` of any format has returned as written.

    Args:
        tell: takes a line for each unit.
    """
    for each in FORMATS.values():
        _watch(each, tell)


def survives_a_power_cut(tell: Tell) -> None:
    """From now on note in this process each sample that a live capture commits, and how many are durable.

    Samples become durable in the order in which they were committed; the status says how many are.
    """
    from edgefirst_ros.live.capture import LiveCapture  # noqa: PLC0415
    from edgefirst_ros.live.status import LiveStatus  # noqa: PLC0415

    begin, status = LiveCapture.__init__, LiveCapture.status

    def begun(self: LiveCapture, *args: Any, **options: Any) -> None:  # noqa: ANN401
        begin(self, *args, **{**options, "committed": partial(_committed, tell)})

    def asked(self: LiveCapture) -> LiveStatus:
        found = status(self)
        tell(json.dumps(getattr(found, "durable", found.samples)))
        return found

    LiveCapture.__init__ = begun  # type: ignore[method-assign]
    LiveCapture.status = asked  # type: ignore[method-assign]


def committed(lines: tuple[str, ...]) -> list[Sampled]:
    """Samples that were said to be written."""
    return [Sampled(*json.loads(line)) for line in lines if line.endswith("]")]


def durable(lines: tuple[str, ...]) -> list[Sampled]:
    """Samples that were said to be durable."""
    return committed(lines)[: max((int(line) for line in lines if line.isdecimal()), default=0)]


def parsed(lines: tuple[str, ...]) -> dict[str, list[str]]:
    """Names of units by format."""
    found: dict[str, list[str]] = {}
    for kind, key in (json.loads(line) for line in lines if line.endswith("]")):
        found.setdefault(kind, []).append(key)
    return found


def _watch(each: Format[Any], tell: Tell) -> None:
    make, frames = each.writer, [0]

    def made(options: Any, target: Target) -> Any:  # noqa: ANN401
        writer = make(options, target)
        write = writer.write

        def told(prepared: Any) -> Any:  # noqa: ANN401
            written = write(prepared)
            if isinstance(written, Future):
                written.add_done_callback(partial(_later, tell, each, prepared, frames))
            else:
                _now(tell, each, prepared, written, frames)
            return written

        writer.write = told  # type: ignore[method-assign]
        return writer

    each.writer = made  # type: ignore[method-assign]


def _committed(tell: Tell, sample: Sample) -> None:
    tell(json.dumps([sample.sequence.name, sample.frame, sample.time_ns]))


def _later(tell: Tell, each: Format[Any], prepared: Any, frames: list[int], done: Future[Written]) -> None:  # noqa: ANN401
    if not done.cancelled() and done.exception() is None:
        _now(tell, each, prepared, done.result(), frames)


def _now(tell: Tell, each: Format[Any], prepared: Any, written: Written, frames: list[int]) -> None:  # noqa: ANN401
    if written.left_out is not None or not written.items or (each.name == "ncore" and written.refused):
        return
    match each.name:
        case "edgefirst":
            names = [f"{prepared.sequence}/{prepared.frame}"]
        case "l5kit":
            names = [f"frame {frames[0] + number}" for number in range(written.items)]
            frames[0] += written.items
        case _:
            names = [*_measured(prepared.parts)]
    for name in names:
        tell(json.dumps([each.name, name]))


def _measured(parts: tuple[Any, ...]) -> Iterator[str]:
    for part in parts:
        match part:
            case ComponentEntry(component=("cameras" | "lidars" | "radars") as component):
                yield f"{component}/{part.end_us}"
            case Cube():
                yield f"cube/{part.time_us}"
            case FlatBoxes():
                yield f"boxes2d/{part.time_us}"
            case SeriesValue():
                yield f"{_SERIES.get(part.kind, part.kind)}/{part.time_us}"
