"""Where a live capture stands: rates, ages, losses, disk; for diagnostics and for people."""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.hints import FIRST_S, Hint
from edgefirst_ros.live.overloadadvice import advice, shed_counts
from edgefirst_ros.live.queue import Flow, LiveQueue
from edgefirst_ros.pipeline.fanout import Output
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.pipeline.overload import SHED
from edgefirst_ros.pipeline.report import accounts
from edgefirst_ros.timing.streamstats import StreamStats
from edgefirst_ros.topics import TopicMap

WINDOW_S = 5.0
"""Rates are means over so long."""
MOMENT_S = 0.5
"""And never over less than this."""


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """What one writer has written in this session."""

    items: int
    """Samples, or measurements where the format takes those."""
    bytes: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """Where a capture stands; ``topics`` is the account so far.

    Each topic has, besides its account (see ``report.accounts``): ``rate_hz`` over the last seconds,
    ``usual_hz`` as learnt from its times (None if it has no steady rate), ``age_s`` since its newest message
    came, ``latency_ms`` from that one's acquisition to its receipt (None while its clock is not known),
    ``waiting_bytes`` in the queue, and ``shed``, messages of ``dropped`` for which no format had time.
    """

    session: str
    """Name of the session under way, empty between sessions."""
    samples: int
    received: int
    dropped: int
    """Messages that were lost; those of samples that were shed do not count."""
    bytes_written: int
    queue_fill: float
    free_bytes: int
    topics: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]
    failure: str
    ended: str = ""
    """Why the last session ended, empty while one is under way."""
    silent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Roles of which nothing has come yet, with the topics that would be taken for them."""
    hints: tuple[Hint, ...] = ()
    """What may be meant by what is configured and has not come; not in the first seconds."""
    elapsed_s: float = 0.0
    bytes_per_s: float = 0.0
    spare_bytes: int = 0
    """Free space above ``min_free_mb``."""
    outputs: Mapping[str, OutputStatus] = field(default_factory=dict)
    """What each writer has written so far, by its name; of the messages, if they are recorded, too."""
    paused: bool = False
    """Whether nothing of what comes is written, because somebody said so."""
    commit_latency_ms: float | None = None
    """From a sample's acquisition to its place in every output, of the newest one; None before the first."""

    shed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By format of which samples were shed in this session: how many, of how many."""
    shedding: Mapping[str, float] = field(default_factory=dict)
    """By format of which samples are being shed now: the share that is written."""
    help: str = ""
    """What would help against it; empty while nothing is shed."""

    @property
    def minutes_left(self) -> float | None:
        """How long the disk lasts at the present rate, None while nothing is written."""
        return max(0, self.spare_bytes) / self.bytes_per_s / 60 if self.bytes_per_s > 0 else None

    @property
    def shed_text(self) -> str:
        """Samples shed in this session, by format; empty if there are none."""
        return shed_counts(self.shed)


@dataclass(frozen=True, slots=True)
class _Counts:
    time_s: float
    messages: dict[str, int]
    bytes: dict[str, int]


class Meter:
    """Rates from counts: keeps what the counts were over the last seconds; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.restart({})

    def restart(self, flows: Mapping[str, Flow]) -> None:
        """A session begins; so much had come in before."""
        counts = {topic: flow.messages for topic, flow in flows.items()}
        with self._lock:
            self.start_s = time.monotonic()
            self._past: deque[_Counts] = deque([_Counts(self.start_s, counts, {})])

    def rates(
        self, flows: Mapping[str, Flow], outputs: Mapping[str, Output]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Messages a second by topic, and bytes a second by writer."""
        messages = {topic: flow.messages for topic, flow in flows.items()}
        now = _Counts(time.monotonic(), messages, {name: output.bytes for name, output in outputs.items()})
        with self._lock:
            while len(self._past) > 1 and now.time_s - self._past[1].time_s >= WINDOW_S:
                self._past.popleft()
            then = self._past[0]
            self._past.append(now)

        def span_s(first_s: float) -> float:
            """A topic that began meanwhile has had less time."""
            return max(now.time_s - max(then.time_s, first_s), MOMENT_S)

        return (
            {
                topic: (flow.messages - then.messages.get(topic, 0)) / span_s(flow.first_s)
                for topic, flow in flows.items()
            },
            {name: (count - then.bytes.get(name, 0)) / span_s(0.0) for name, count in now.bytes.items()},
        )


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that a capture writes to."""

    output: Path
    config: Config

    def free_bytes(self) -> int:
        """Free space where the output is, or will be; none on a disk that does not answer any more."""
        path = self.output
        try:
            while not path.exists() and path != path.parent:
                path = path.parent
            return shutil.disk_usage(path).free
        except OSError:
            return 0

    def spare_bytes(self, free_bytes: int) -> int:
        """What may still be written."""
        return free_bytes - round(self.config.min_free_mb * 1e6)

    def full(self) -> str:
        """Why nothing more may be written, empty while it may."""
        free_bytes = self.free_bytes()
        if self.spare_bytes(free_bytes) >= 0:
            return ""
        limit_mb = self.config.min_free_mb
        return f"the disk has {free_bytes / 1e6:,.0f} MB left, less than min_free_mb {limit_mb:,.0f}"


def build_status(
    job: Job | None,
    queue: LiveQueue,
    meter: Meter,
    disk: Disk,
    *,
    failure: str,
    ended: str,
    commit_latency_ms: float | None = None,
    paused: bool = False,
    recording: Mapping[str, Output] | None = None,
) -> LiveStatus:
    """Where a capture stands now; without a session under way, why the last one ended."""
    free = disk.free_bytes()
    spare = disk.spare_bytes(free)
    if job is None:
        return LiveStatus("", 0, 0, 0, 0, queue.fill, free, {}, (), failure, ended, spare_bytes=spare)
    pipeline, flows, waiting = job.pipeline, queue.flows(), queue.drops_waiting()
    progress, totals, streams = pipeline.progress, pipeline.ledger.totals, pipeline.streams
    outputs = {**pipeline.outputs, **(recording or {})}
    found = accounts(pipeline.ledger, streams)
    for row in found.values():
        row["shed"] = row["reasons"].get("dropped", {}).get(SHED, 0)
    overload = job.overload
    shedding = {} if overload is None else {n: share for n, share in overload.shares.items() if share < 1}
    rates, bytes_per_s = meter.rates(flows, outputs)
    elapsed_s = time.monotonic() - meter.start_s
    return LiveStatus(
        job.dataset,
        progress.samples,
        progress.received + waiting,
        totals["dropped"] - sum(row["shed"] for row in found.values()) + waiting,
        progress.bytes_written,
        queue.fill,
        free,
        _rows(found, streams, flows, rates),
        tuple(pipeline.notes),
        failure,
        silent=silent_roles(disk.config, flows.keys()),
        elapsed_s=elapsed_s,
        hints=tuple(pipeline.hints(found)) if elapsed_s >= FIRST_S else (),
        bytes_per_s=sum(bytes_per_s.values()),
        spare_bytes=spare,
        outputs={name: OutputStatus(o.items, o.bytes, bytes_per_s[name]) for name, o in outputs.items()},
        commit_latency_ms=commit_latency_ms,
        paused=paused,
        shed={} if overload is None else overload.shed,
        shedding=shedding,
        help=advice(overload, disk.config) if overload is not None and shedding else "",
    )


def _rows(
    accounts: dict[str, dict[str, Any]],
    streams: Collection[StreamStats],
    flows: Mapping[str, Flow],
    rates: Mapping[str, float],
) -> dict[str, dict[str, Any]]:
    """The accounts with how each topic goes by right now; also topics whose messages all wait."""
    now_s = time.monotonic()
    by_topic = {stats.topic: stats for stats in streams}
    rows: dict[str, dict[str, Any]] = {}
    for topic in sorted(accounts.keys() | flows.keys()):
        stats, flow = by_topic.get(topic), flows.get(topic)
        usual_ns = None if stats is None else stats.gaps.usual_ns
        rows[topic] = {
            **accounts.get(topic, {}),
            "rate_hz": round(rates.get(topic, 0.0), 2),
            "usual_hz": None if usual_ns is None else round(1e9 / usual_ns, 2),
            "age_s": None if flow is None else round(now_s - flow.newest_s, 3),
            "latency_ms": None if stats is None else round(stats.latency_ns / 1e6, 1),
            "waiting_bytes": 0 if flow is None else flow.waiting_bytes,
        }
    return rows


def silent_roles(config: Config, seen: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Roles of which no topic was seen, in the configuration's order, with their topics."""
    routes = TopicMap(config, config.prefix or "")
    heard = {found.rule.role for topic in seen if (found := routes.route(topic)) is not None}
    silent: dict[str, tuple[str, ...]] = {}
    for rule in config.topics.values():
        if rule.names and rule.role not in heard:
            silent[rule.role.value] = (*silent.get(rule.role.value, ()), *rule.names)
    return silent
