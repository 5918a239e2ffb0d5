"""What a recording's summary and its first seconds say, without reading the rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.sources.info import summarise
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import Recording
from edgefirst_ros.topics import full_type

BEGINNING_BYTES = 8 << 20
"""Read of the beginning: some seconds, from which clocks are found as ``convert`` finds them."""
UNKNOWN = ("bytes", "undecodable", "gaps", "longest_gap_s")


def glance(recording: Recording, config: Config) -> dict[str, Any] | None:
    """What ``info.inspect`` says, as far as it is known from there.

    Sizes, damage and gaps of topics are None. The result is None without a summary that counts messages.

    Raises:
        RecordingError: the file cannot be read.
    """
    if not isinstance(recording, McapRecording) or not recording.summary.counts or not recording.spans:
        return None
    first_ns, last_ns = min(s[0] for s in recording.spans), max(s[1] for s in recording.spans)
    found = summarise(recording, config, recording.beginning(BEGINNING_BYTES))
    counts: Counter[tuple[str, str]] = Counter()
    for channel, (topic, schema, _) in recording.summary.channels.items():
        counts[topic, full_type(schema)] += recording.summary.counts.get(channel, 0)
    span_s = (last_ns - first_ns) / 1e9
    topics: dict[str, Any] = {}
    for (topic, schema), count in sorted(counts.items()):
        early = found["topics"].get(topic, {"use": "", "clock": None})
        topics[topic] = {
            "type": schema,
            "use": early["use"],
            "messages": count,
            "rate_hz": round((count - 1) / span_s, 2) if span_s and count else 0.0,
            **dict.fromkeys(UNKNOWN),
            "clock": early["clock"],
        }
    seconds = found["duration_s"]
    return {
        **found,
        "start_ns": first_ns,
        "duration_s": round(span_s, 3),
        "messages": sum(recording.summary.counts.values()),
        "topics": topics,
        "note": f"from the summary, and the first {seconds:g} s for clocks; --whole reads all of it",
    }
