"""What a conversion would make of recordings: which topic is used as what, and how many samples come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.offline.convert import Position
from edgefirst_ros.offline.outline import outline
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.window import Excerpt

UNUSED = ("refused", "skipped")
"""Columns of messages that nothing uses."""


def forecast(
    places: Sequence[str | Location],
    config: Config,
    *,
    excerpt: Excerpt | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Position], None] | None = None,
) -> dict[str, Any]:
    """What a conversion would use and make, as plain values; nothing is written, and no picture decoded.

    Samples whose picture turns out to be damaged, or that a format leaves out, are counted all the same.

    Args:
        places: recordings, or folders of them, as paths or URLs.
        config: the configuration that the conversion would have.
        excerpt: the part of every drive; None for all of it.
        stop: when set, the result is of what has been read.
        on_progress: called several times a second.

    Raises:
        RecordingNotFound: a recording does not exist.
        RecordingError: a file is not a recording, unless it is in a folder that was given.
        ConfigError: prefix or reference do not fit a recording.
    """
    report = outline(places, config, None, excerpt=excerpt, stop=stop, on_progress=on_progress)
    sequences: Sequence[Mapping[str, Any]] = report["sequences"]
    missing: dict[str, int] = {}
    for sequence in sequences:
        for topic, count in sequence["missing"].items():
            missing[topic] = missing.get(topic, 0) + count
    return {
        "recordings": [recording["file"] for recording in report["recordings"]],
        "formats": list(config.formats),
        "reference": config.reference,
        "topics": {
            topic: _topic(account, [s for s in sequences if topic in s["streams"]], topic)
            for topic, account in report["topics"].items()
        },
        "reference_frames": sum(sequence["reference_frames"] for sequence in sequences),
        "samples": report["samples"],
        "complete": report["complete"],
        "missing": missing,
        "sequences": len(sequences),
        "interrupted": report["interrupted"],
        "notes": report["notes"],
        "hints": report["hints"],
        "warnings": report["warnings"],
    }


def _topic(account: Mapping[str, Any], of: Sequence[Mapping[str, Any]], topic: str) -> dict[str, Any]:
    """One topic's use, clock, rate and what is not used of it; ``of`` are the sequences that it is in."""
    rates = [(s["streams"][topic]["messages"], s["rates_hz"][topic]) for s in of if s["rates_hz"][topic]]
    sending_s = sum(messages / rate_hz for messages, rate_hz in rates)
    clocks = [sequence["clocks"][topic]["finding"] for sequence in of if topic in sequence["clocks"]]
    return {
        "type": account["type"],
        "role": of[0]["streams"][topic]["role"] if of else None,
        "clock": clocks[0] if clocks else None,
        "rate_hz": round(sum(messages for messages, _ in rates) / sending_s, 3) if rates else None,
        "messages": account["received"],
        "ignored": dict(_ignored(account)),
    }


def _ignored(account: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Messages that nothing would use, by reason."""
    for column in UNUSED:
        yield from account["reasons"].get(column, {}).items()
