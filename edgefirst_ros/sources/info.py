"""Summary of a recording without converting it: topics, rates, gaps, clocks, damage.

What a recording's summary and its first seconds say, without reading the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgefirst_ros.config.hints import absences
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import TopicMap, find_prefix, full_type, is_any_text
from edgefirst_ros.model.errors import ConfigError, DecodeError
from edgefirst_ros.model.registry import can_decode, decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.untrusted import readable
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import Excerpt, Recording
from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes
from edgefirst_ros.timing.gaps import Pauses, StreamStats

MOST_UNUSED = 256
"""Topics without a use that are listed; the rest is one entry."""


@dataclass(slots=True)
class TopicStats:
    """One topic of a recording."""

    schema: str
    use: str
    count: int = 0
    bytes: int = 0
    undecodable: int = 0
    fault: str = ""
    """Why the first of those could not be decoded."""
    first_ns: int = 0
    last_ns: int = 0
    stream: StreamStats | None = None
    """What is known of its times of receipt, from the second message on: a hostile file has many topics."""

    def add(self, message: RawMessage) -> None:
        """Count one message; call in order of receipt."""
        if self.last_ns:
            if self.stream is None:
                self.stream = StreamStats(message.topic)
                self.stream.add(self.last_ns, self.last_ns, counts_gaps=True)
            self.last_ns = max(self.last_ns, message.receive_ns)
            self.stream.add(self.last_ns, self.last_ns, counts_gaps=True)
        else:
            self.first_ns = self.last_ns = message.receive_ns
        self.count += 1
        self.bytes += len(message.data)

    @property
    def rate_hz(self) -> float:
        """Mean rate between first and last message."""
        span_ns = self.last_ns - self.first_ns
        return (self.count - 1) * 1e9 / span_ns if span_ns > 0 else 0.0

    def gaps(self) -> tuple[int, float]:
        """Number of gaps, which are pauses as reports have them, and the longest in seconds."""
        pauses = Pauses() if self.stream is None else self.stream.pauses
        longest_ns = max((end_ns - begin_ns for begin_ns, end_ns in pauses.longest), default=0)
        return pauses.count, round(longest_ns / 1e9, 3)


def inspect(recording: Recording, config: Config, excerpt: Excerpt | None = None) -> dict[str, Any]:
    """Read a recording, whole or a part of it, and summarise it as plain values.

    Raises:
        RecordingError: the file cannot be read.
    """
    window = None if excerpt is None else excerpt.window(recording.spans)
    return summarise(recording, config, recording.messages(window=window))


def summarise(recording: Recording, config: Config, messages: Iterable[RawMessage]) -> dict[str, Any]:
    """Summarise messages of a recording, and what was found in reading them, as plain values."""
    known = recording.topics()
    names = [t.topic for t in known]
    try:
        prefix, ambiguity = find_prefix(names, config), None
    except ConfigError as error:
        prefix, ambiguity = "", str(error)
    routes = TopicMap(config, prefix, known)
    topics: dict[str, TopicStats] = {}
    finder: ClockFinder[MessageTimes] = ClockFinder()
    boundaries: list[str] = []
    first_ns = last_ns = 0

    def take(events: Iterable[MessageTimes | Boundary]) -> None:
        boundaries.extend(e.reason for e in events if isinstance(e, Boundary))

    for message in messages:
        first_ns = first_ns or message.receive_ns
        last_ns = max(last_ns, message.receive_ns)
        schema = full_type(message.schema)
        stats = topics.get(message.topic)
        if stats is None:
            route = routes.route(message.topic, schema)
            if route is not None:
                finder.rule(message.topic, route.rule.times)
            use = "" if route is None or route.replaced_by else route.rule.role.value
            stats = topics[message.topic] = TopicStats(schema, use)
        stats.add(message)
        if message.fault or not can_decode(schema) or is_any_text(message.topic, schema):
            stats.undecodable += bool(message.fault)
            stats.fault = stats.fault or message.fault
            continue
        try:
            stamp_ns = decode(message).stamp_ns
        except DecodeError as error:
            stats.undecodable += 1
            stats.fault = stats.fault or str(error)
            continue
        times = MessageTimes(message.topic, stamp_ns, message.publish_ns, message.receive_ns)
        take(finder.feed(times))
    take(finder.flush())
    clocks = {f.topic: f.text for f in finder.findings}
    return {
        "file": readable(recording.path.name),
        "bytes": recording.size,
        "start_ns": first_ns,
        "duration_s": round((last_ns - first_ns) / 1e9, 3),
        "prefix": prefix,
        "ambiguous": ambiguity,
        "choices": routes.notes,
        "hints": [
            each.text
            for each in absences(config, routes, {n: _account(t) for n, t in topics.items()})
            if each.topics[1:]
        ],
        "messages": sum(t.count for t in topics.values()),
        "topics": {name: _topic(t, clocks.get(name)) for name, t in _listed(topics)},
        "clock_breaks": boundaries,
        "note": recording.note or None,
        "displaced": {
            readable(topic): {"messages": d.messages, "worst_s": round(d.worst_ns / 1e9, 3)}
            for topic, d in recording.displaced.items()
        },
        "faults": [{"offset": f.offset, "bytes": f.bytes, "what": f.text} for f in recording.faults],
    }


def _listed(topics: Mapping[str, TopicStats]) -> Iterator[tuple[str, TopicStats]]:
    """Topics by name, those of no use up to ``MOST_UNUSED``; the rest as one."""
    unlisted: list[TopicStats] = []
    unused = 0
    for name, stats in sorted(topics.items()):
        unused += not stats.use
        if stats.use or unused <= MOST_UNUSED:
            yield name, stats
        else:
            unlisted.append(stats)
    if unlisted:
        counts = sum(s.count for s in unlisted), sum(s.bytes for s in unlisted)
        yield f"{len(unlisted):,} more without a use", TopicStats("", "", *counts)


def _account(stats: TopicStats) -> dict[str, Any]:
    return {"type": stats.schema, "received": stats.count, "refused": stats.undecodable}


def _topic(stats: TopicStats, clock: str | None) -> dict[str, Any]:
    gaps, longest_s = stats.gaps()
    return {
        "type": stats.schema,
        "use": stats.use,
        "messages": stats.count,
        "rate_hz": round(stats.rate_hz, 2),
        "bytes": stats.bytes,
        "undecodable": stats.undecodable,
        "fault": stats.fault or None,
        "gaps": gaps,
        "longest_gap_s": longest_s,
        "clock": clock,
    }


BEGINNING_BYTES = 8 << 20
"""Read of the beginning: some seconds, from which clocks are found as ``convert`` finds them."""
UNKNOWN = ("bytes", "undecodable", "fault", "gaps", "longest_gap_s")


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
