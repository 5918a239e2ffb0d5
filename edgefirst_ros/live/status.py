"""The status of a live capture: rates, ages, losses, disk, and what would help against an overload."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import TopicMap
from edgefirst_ros.live.queue import Flow, LiveQueue
from edgefirst_ros.model.reasons import Code, Finding, Kind, Reason, code_of, kind_of
from edgefirst_ros.model.sensors import ALIVE_S
from edgefirst_ros.pipeline.disk import Disk
from edgefirst_ros.pipeline.executor import worker_count
from edgefirst_ros.pipeline.fanout import Output
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.report import accounts
from edgefirst_ros.report.content import content_now
from edgefirst_ros.report.finding import disk_findings, publishers_finding, refused_whole
from edgefirst_ros.timing.gaps import StreamStats

WINDOW_S = 5.0
"""Rates are means over this time."""
SHORTEST_S = 0.5
"""And over no less than this."""
BUSY = 0.8
"""Load per core above which the CPU counts as fully used."""


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """What one writer has written in this session."""

    items: int
    """Samples, or measurements where the format takes those."""
    bytes: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """The status of a capture.

    ``topics`` holds the accounts by topic (see ``report.accounts``), each with further values: ``rate_hz``
    over the last seconds, ``usual_hz`` as learnt from its times (None without a steady rate), ``age_s`` of
    the newest message, ``latency_ms`` from its acquisition to its receipt (None while the topic's clock is
    unknown), ``waiting_bytes`` in the queue, and ``shed``, the part of ``dropped`` that was shed by all
    formats.
    """

    session: str
    """Dataset of the session in progress, empty between sessions."""
    samples: int
    received: int
    dropped: int
    """Messages that were lost, without those that were shed."""
    bytes_written: int
    queue_fill: float
    free_bytes: int
    topics: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]
    failure: str
    ended: str = ""
    """Why the last session ended, empty while one is in progress."""
    silent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Roles of which nothing has been received yet, with their configured topics."""
    absent: tuple[Finding, ...] = ()
    """What is configured and has not come, see ``hints.absences``; nothing in the first seconds."""
    elapsed_s: float = 0.0
    lag_s: float = 0.0
    """How long the oldest message has waited in the queue."""
    bytes_per_s: float = 0.0
    spare_bytes: int = 0
    """Free space beyond ``min_free_mb``."""
    outputs: Mapping[str, OutputStatus] = field(default_factory=dict)
    """What each writer has written so far, by name; the recording counts as one."""
    paused: bool = False
    """Whether the session is paused."""
    commit_latency_ms: float | None = None
    """Time from the acquisition of the newest durable sample until it was durable; None before the first.

    With ``sync_s: off``, until it was written.
    """
    durable: int = 0
    """Samples that the disk holds in every format, so that they survive a power cut."""
    at_risk_s: float | None = None
    """Seconds of writing that a power cut could have taken, at most; None with ``sync_s: off``."""
    slow_disk: tuple[Finding, ...] = ()
    """Whether the disk does not keep up with ``sync_s``."""
    shed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Samples shed in this session and samples in total, by format."""
    problems: tuple[str, ...] = ()
    """What is wrong with outputs that are written no more, a sentence each, to be said at once."""
    shedding: Mapping[str, float] = field(default_factory=dict)
    """Share of samples that is written, by format that sheds now."""
    help: str = ""
    """What would help against the overload; empty while nothing is shed."""
    findings: Mapping[str, Finding] = field(default_factory=dict)
    """By topic what is wrong with its messages: all are refused, of several publishers, or show nothing."""

    @property
    def minutes_left(self) -> float | None:
        """Time until the disk is full at the present rate, None while nothing is written."""
        return max(0, self.spare_bytes) / self.bytes_per_s / 60 if self.bytes_per_s > 0 else None

    @property
    def disk_findings(self) -> tuple[Finding, ...]:
        """Whether the disk is full, or soon will be, by more than the first seconds' rate."""
        minutes_left = self.minutes_left if self.elapsed_s > WINDOW_S else None
        return tuple(disk_findings(self.spare_bytes, minutes_left))

    @property
    def hints(self) -> tuple[Finding, ...]:
        """What may be meant by configured topics that have not come."""
        return tuple(each for each in self.absent if each.topics[1:])

    def findings_since(self, before: LiveStatus) -> Iterator[Finding]:
        """What is wrong with the session, but for its disk's space, the most important first."""
        yield from (each for each in self.absent if each.code is Code.NO_REFERENCE)
        if self.dropped > before.dropped and self.session == before.session:
            yield Finding(Code.DROPPING, "dropping messages")
        if self.shedding:
            shares = ", ".join(f"{name} ({share:.0%} written)" for name, share in self.shedding.items())
            yield Finding(Code.SHEDDING, f"shedding {shares}")
        yield from self.slow_disk

    @property
    def lost_upstream(self) -> int:
        """Messages of all topics that never arrived."""
        return sum(row.get("lost_upstream", 0) for row in self.topics.values())

    @property
    def shed_text(self) -> str:
        """Samples shed in this session by format, as text; empty if there are none."""
        return shed_counts(self.shed)


_Past = deque[tuple[float, tuple[dict[str, int], ...]]]


class Meter:
    """Rates from counts: remembers the counts of the last seconds. Thread-safe.

    Args:
        clock_s: by which rates are: the steady one, or a simulation's.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.clock_s = clock_s
        self._lock = threading.Lock()
        self.restart({})

    def restart(self, flows: Mapping[str, Flow]) -> None:
        """Begin a session with the counts that the queue has already."""
        counts = {topic: flow.messages for topic, flow in flows.items()}
        with self._lock:
            self.start_s = time.monotonic()
            self._came: _Past = deque([(self.clock_s(), (counts,))])
            self._written: _Past = deque([(self.start_s, ({},))])
            self._refused: _Past = deque([(self.start_s, ({}, {}))])

    def _since(
        self, past: _Past, now_s: float, *counts: dict[str, int]
    ) -> tuple[float, tuple[dict[str, int], ...]]:
        """Time and counts of a window before now, whose counts are remembered."""
        with self._lock:
            while past and past[-1][0] >= now_s:  # a simulation pauses, or was reset
                past.pop()
            past.append((now_s, counts))
            while len(past) > 2 and now_s - past[1][0] >= WINDOW_S:
                past.popleft()
            return past[0]

    def rates(
        self, flows: Mapping[str, Flow], outputs: Mapping[str, Output]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Messages per second by topic, and bytes per second by writer."""
        written, wall_s = {name: output.bytes for name, output in outputs.items()}, time.monotonic()
        came, now_s = {topic: flow.messages for topic, flow in flows.items()}, self.clock_s()
        since_s, (then,) = self._since(self._written, wall_s, written)
        then_s, (before,) = self._since(self._came, now_s, came)
        # A topic that began meanwhile is measured from its first message on.
        spans_s = {t: max(now_s - max(then_s, flow.first_s), SHORTEST_S) for t, flow in flows.items()}
        return (
            {topic: (count - before.get(topic, 0)) / spans_s[topic] for topic, count in came.items()},
            {n: (count - then.get(n, 0)) / max(wall_s - since_s, SHORTEST_S) for n, count in written.items()},
        )

    def refusing(self, accounts: Mapping[str, Mapping[str, Any]]) -> dict[str, Finding]:
        """Topics of which nearly everything was refused in the last seconds; none in the first ones.

        What came meanwhile counts, as messages that are good may wait until that is known.
        """
        early = {topic: _without_position(row) for topic, row in accounts.items()}
        refused = {topic: row["refused"] + sum(early[topic].values()) for topic, row in accounts.items()}
        received = {topic: row["received"] for topic, row in accounts.items()}
        now_s = time.monotonic()
        then_s, before = self._since(self._refused, now_s, refused, received)
        found: dict[str, Finding] = {}
        for topic in refused if now_s - then_s >= WINDOW_S else ():
            pairs = zip((refused, received), before, strict=True)
            lately, came = (now[topic] - then.get(topic, 0) for now, then in pairs)
            reasons = {**early[topic], **accounts[topic]["reasons"].get("refused", {})}
            # What is refused now may have been received before.
            for each in refused_whole(topic, lately, max(lately, came), reasons):
                found[topic] = each
        return found


def _without_position(row: Mapping[str, Any]) -> dict[str, int]:
    """Why fixes before the first position were ignored: a receiver that finds none is of no use."""
    ignored = row["reasons"].get("skipped", {}).items()
    return {why: count for why, count in ignored if kind_of(code_of(why)) is Kind.NO_POSITION}


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
    problems: tuple[str, ...] = (),
) -> LiveStatus:
    """The status now; between sessions mainly why the last one ended."""
    free = disk.free_bytes()
    spare = disk.spare_bytes(free)
    if job is None:
        return LiveStatus(
            "", 0, 0, 0, 0, queue.fill, free, {}, (), failure, ended, spare_bytes=spare, problems=problems
        )
    pipeline, flows, waiting = job.pipeline, queue.flows(), queue.drops_waiting()
    progress, totals, streams = pipeline.progress, pipeline.ledger.totals, pipeline.streams
    outputs = {**pipeline.outputs, **(recording or {})}
    found = accounts(pipeline.ledger, streams)
    for row in found.values():
        row["shed"] = row["reasons"].get("dropped", {}).get(Reason.SHED, 0)
    waiting_only = {t: {"type": "", "received": flow.messages, "refused": 0} for t, flow in flows.items()}
    overload, commits = job.overload, pipeline.fanout.commits
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
        _rows(found, streams, flows, rates, meter.clock_s()),
        tuple(pipeline.notes),
        failure,
        silent=silent_roles(disk.config, flows.keys()),
        elapsed_s=elapsed_s,
        lag_s=queue.waited_s,
        absent=tuple(pipeline.absences(waiting_only | found)) if elapsed_s > ALIVE_S else (),
        bytes_per_s=sum(bytes_per_s.values()),
        spare_bytes=spare,
        outputs={name: OutputStatus(o.items, o.bytes, bytes_per_s[name]) for name, o in outputs.items()},
        commit_latency_ms=commit_latency_ms,
        durable=progress.durable,
        at_risk_s=commits.at_risk_s,
        slow_disk=commits.findings,
        paused=paused,
        problems=problems,
        shed={} if overload is None else overload.shed,
        shedding=shedding,
        help=advice(overload, disk.config) if overload is not None and shedding else "",
        findings={
            **content_now({topic: each.current() for topic, each in pipeline.contents.items()}),
            **{topic: publishers_finding(topic, nodes) for topic, nodes in sorted(job.publishers.items())},
            **meter.refusing(found),
        },
    )


def _rows(
    accounts: dict[str, dict[str, Any]],
    streams: Collection[StreamStats],
    flows: Mapping[str, Flow],
    rates: Mapping[str, float],
    now_s: float,
) -> dict[str, dict[str, Any]]:
    """The accounts with the present rates and ages; includes topics whose messages all wait."""
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
    """Roles of which no topic was received, in the configuration's order, with their topics."""
    routes = TopicMap(config, config.prefix or "")
    heard = {found.rule.role for topic in seen if (found := routes.route(topic)) is not None}
    silent: dict[str, tuple[str, ...]] = {}
    for rule in config.topics.values():
        if rule.names and rule.role not in heard:
            silent[rule.role.value] = (*silent.get(rule.role.value, ()), *rule.names)
    return silent


def shed_counts(shed: Mapping[str, tuple[int, int]]) -> str:
    """A text such as "ncore 300 of 900, edgefirst 12 of 900"."""
    return ", ".join(f"{name} {count:,} of {of:,}" for name, (count, of) in shed.items())


def shed_warnings(overload: Overload, config: Config) -> list[str]:
    """A warning that says which formats lack samples, and what would help; none if nothing was shed."""
    if not overload.shed:
        return []
    keys = " (at times only key frames were decoded)" if overload.had_keyframes_only else ""
    if overload.was_outrun:
        keys = " (at times only key frames were decoded, and what had waited too long was dropped unread)"
    text = (
        f"writing fell behind: samples were shed evenly to stay within overload.latency_s "
        f"{config.overload.latency_s:g}: {shed_counts(overload.shed)}{keys}; {advice(overload, config)}"
    )
    return [text]


def advice(overload: Overload, config: Config) -> str:
    """What would help against an overload, the most promising first."""
    costs = {name: cost_s for name, cost_s in overload.costs_s.items() if cost_s > 0}
    cores = os.cpu_count() or 1
    workers = worker_count(config.workers)
    found = []
    if config.workers and config.workers < cores:
        found.append(f"workers: 0 (now {config.workers} of {cores} cores)")
    if cores > 0 and os.getloadavg()[0] > BUSY * cores:
        found.append(f"a larger share of the CPU (the load is {os.getloadavg()[0]:.1f} on {cores} cores)")
    if len(config.formats) > 1 and costs:
        slowest = max(costs, key=costs.__getitem__)
        listed = ", ".join(f"{name} {cost_s * 1e3:.0f} ms" for name, cost_s in sorted(costs.items()))
        found.append(
            f"fewer formats (a sample takes {listed}; {slowest} can be converted later from a recording)"
        )
    found.append(_fewer(overload.through, config))
    if not config.workers:
        found.append(f"more cores (there are {workers})")
    return "what would help: " + "; ".join(found)


def _fewer(through: float, config: Config) -> str:
    """How many fewer samples would have gone through, by what did."""
    if through >= 1:
        return "fewer samples (select.every, rate_hz or select.keyframes)"
    rate_hz = "" if not config.rate_hz else f", or rate_hz: {config.rate_hz * through:.2g}"
    every = math.ceil(config.select.every / through - 0.05)
    return (
        f"fewer samples (while some were shed, {through:.0%} of the work went through: select.every: {every}"
        f"{rate_hz}, or select.keyframes)"
    )
