"""The state of a capture or replay as diagnostics: plain values, without ROS messages.

The nodes' log: lines of varying severity, and which changes in the diagnostics deserve one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

from edgefirst_ros.config.model import MAIVIN_TOPICS, Config
from edgefirst_ros.config.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.reasons import Code, Severity
from edgefirst_ros.model.sample import Role
from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.nodes.discovery import SubscriptionPlan, TopicMatch
from edgefirst_ros.offline.convert import Conversion, Position
from edgefirst_ros.report.finding import Expected, flow_findings


class Level(IntEnum):
    """diagnostic_msgs/DiagnosticStatus: OK, WARN, ERROR, STALE."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One diagnostic_msgs/DiagnosticStatus."""

    level: Level
    name: str
    message: str
    values: tuple[tuple[str, str], ...] = ()


UNKNOWN = -1
"""Free space of a disk that has not been looked at."""


@dataclass(frozen=True, slots=True)
class CaptureView:
    """Everything that a capture's diagnostics are made from.

    Attributes:
        state: lifecycle state of the node.
        status: the capture's status now.
        previous: its status a second ago.
        plan: the subscriptions.
        config: the capture's configuration.
        explicit: entries of the configuration's topics that were given as parameters.
        rated: those that were given an expected rate.
        problem: what went wrong outside of the capture; empty if nothing did.
    """

    state: str
    status: LiveStatus
    previous: LiveStatus
    plan: SubscriptionPlan
    config: Config
    explicit: frozenset[str] = frozenset()
    rated: frozenset[str] = frozenset()
    problem: str = ""


def diagnose(view: CaptureView) -> list[Diagnostic]:
    """Diagnostics of the session, every configured topic, every writer, and the disk."""
    return [summarise(view), *_topics(view), *_writers(view.status), _disk(view)]


def summarise(view: CaptureView) -> Diagnostic:
    """The summary of the session, the worst problem first."""
    status = view.status
    level, message = Level.OK, _headline(view)
    problem = view.problem or status.failure or "; ".join(status.problems) or view.plan.problem
    if problem:
        level, message = Level.ERROR, f"{problem}; {message}"
    elif status.ended and status.ended != "stopped":
        level, message = Level.ERROR, f"ended: {status.ended}"
    elif (found := next(status.findings_since(view.previous), None)) is not None:
        hints = status.hints if found.code is Code.NO_REFERENCE else ()
        meant = [each.text for each in hints if each.severity is Severity.ERROR]
        level, message = Level(found.severity), "; ".join((found.text, *meant[:1], message))
    values = [
        ("state", view.state),
        ("session", status.session or "none"),
        ("paused", "yes" if status.paused else "no"),
        ("samples", str(status.samples)),
        ("durable samples", str(status.durable)),
        ("at risk at most", "unknown" if status.at_risk_s is None else f"{status.at_risk_s:.1f} s"),
        ("received", str(status.received)),
        ("dropped", str(status.dropped)),
        ("shed", f"{status.shed_text} samples" if status.shed else "0"),
        ("what would help", status.help.removeprefix("what would help: ") or "nothing needed"),
        ("lost upstream", str(status.lost_upstream)),
        ("queue", f"{status.queue_fill:.1%}, {status.lag_s:.1f} s behind"),
        ("written", f"{status.bytes_written / 1e6:.1f} MB"),
        ("rate of writing", f"{status.bytes_per_s / 1e6:.2f} MB/s"),
        ("disk", _disk(view).message),
        ("latency to disk", _ms(status.commit_latency_ms)),
        ("prefix", view.plan.prefix or "none"),
        ("not there", ", ".join(f.topic for f in _missing(view)) or "none"),
    ]
    values += [(f"hint {number}", hint.text) for number, hint in enumerate(status.hints, 1)]
    values += [(f"note {number}", note) for number, note in enumerate(status.warnings[-5:], 1)]
    return Diagnostic(level, "session", message, tuple(values))


def _headline(view: CaptureView) -> str:
    status = view.status
    if not status.session:
        return "no session" if view.state == "active" else view.state
    # Short: `ros2 topic echo` cuts texts at 128 characters.
    return (
        f"{'paused; ' if status.paused else ''}{status.session}: {status.samples} samples, "
        f"{status.bytes_written / 1e6:.1f} MB, {status.dropped} dropped, {status.lost_upstream} lost, "
        f"queue {status.queue_fill:.0%} ({status.lag_s:.0f} s)"
    )


def _missing(view: CaptureView) -> Iterator[TopicMatch]:
    """Topics that are configured explicitly and have no publisher."""
    return (f for f in view.plan.matches if not f.announced and f.entry in view.explicit)


def _topics(view: CaptureView) -> Iterator[Diagnostic]:
    for found in view.plan.matches:
        canonical = found.canonical or f"/{view.config.topics[found.entry].topic.strip('/')}"
        now = view.status.topics.get(canonical, {})
        then = view.previous.topics.get(canonical, {}) if view.previous.session == view.status.session else {}
        expected = _expected(view, found, is_flowing=bool(now))
        lately = [view.status.findings[canonical]] if canonical in view.status.findings else []
        findings = flow_findings(
            canonical, now, then, expected, elapsed_s=view.status.elapsed_s, lately=lately
        )
        level = Level(max((each.severity for each in findings), default=Severity.NOTE))
        said = [each.text for each in findings]
        if now:
            head = [f"{now['rate_hz']:.1f} Hz", *said]
            text = "; ".join(said) if level else ", ".join(head)
            yield Diagnostic(level, canonical, text, _values(found, now, expected))
        elif findings:
            yield Diagnostic(level, canonical, "; ".join(said), (("topic", found.topic),))


def _has_another(view: CaptureView, role: Role) -> bool:
    """Whether another published topic serves the same purpose: of the same role, or for the rig's poses."""
    roles = EGO_ROLES if role in EGO_ROLES else {role}
    return any(f.announced and view.config.topics[f.entry].role in roles for f in view.plan.matches)


def _promised_hz(view: CaptureView, entry: str) -> tuple[float, float]:
    """The rate that was configured for a topic, and the one that the device documents; 0 if there is none."""
    rule, default = view.config.topics[entry], MAIVIN_TOPICS.get(entry)
    if default is None or rule.expected_hz != default.expected_hz or entry in view.rated:
        return rule.expected_hz, 0.0
    return 0.0, rule.expected_hz if rule.topic == default.topic else 0.0


def _expected(view: CaptureView, found: TopicMatch, *, is_flowing: bool) -> Expected:
    rule = view.config.topics[found.entry]
    promised_hz, documented_hz = _promised_hz(view, found.entry)
    may_be_late = found.latched and is_flowing
    return Expected(
        promised_hz,
        documented_hz,
        is_sent_once=not rule.expected_hz and (may_be_late or rule.role in CONTEXT_ROLES),
        required=rule.required,
        is_named=found.entry in view.explicit,
        has_another=_has_another(view, rule.role),
        announced=found.announced,
        problem=found.problem,
    )


def _values(found: TopicMatch, now: Mapping[str, Any], expected: Expected) -> tuple[tuple[str, str], ...]:
    expected_hz, age_s = expected.hz or now["usual_hz"], now["age_s"]
    return (
        ("topic", found.topic),
        ("type", str(now.get("type", ""))),
        ("rate", f"{now['rate_hz']:.1f} Hz"),
        ("expected", "unknown" if not expected_hz else f"{expected_hz:.1f} Hz"),
        ("latency", _ms(now["latency_ms"])),
        ("age", "unknown" if age_s is None else f"{age_s:.2f} s"),
        ("queue", f"{now['waiting_bytes'] / 1e6:.2f} MB"),
        *((name, str(now.get(name, 0))) for name in _COUNTS),
        ("shed", str(now.get("shed", 0))),
        ("lost upstream", str(now.get("lost_upstream", 0))),
    )


_COUNTS = ("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written")


def _writers(status: LiveStatus) -> Iterator[Diagnostic]:
    for name, output in status.outputs.items():
        values = (
            ("items", str(output.items)),
            ("bytes", str(output.bytes)),
            ("rate", f"{output.bytes_per_s / 1e6:.2f} MB/s"),
            ("shed", "{:,} of {:,}".format(*status.shed.get(name, (0, 0)))),
        )
        text = f"{output.items} items, {output.bytes / 1e6:.1f} MB, {output.bytes_per_s / 1e6:.2f} MB/s"
        level = Level.OK
        if name in status.shedding:
            level, text = Level.WARN, f"shedding, {status.shedding[name]:.0%} is written; {text}"
        yield Diagnostic(level, f"writer {name}", text, values)


def _disk(view: CaptureView) -> Diagnostic:
    status, left = view.status, view.status.minutes_left
    if status.free_bytes == UNKNOWN:
        return Diagnostic(Level.OK, "disk", "unknown until the node is active")
    values = (
        ("free", f"{status.free_bytes / 1e6:.0f} MB"),
        ("usable", f"{max(0, status.spare_bytes) / 1e6:.0f} MB"),
        ("kept free", f"{view.config.min_free_mb:g} MB"),
        ("left at this rate", "unknown" if left is None else f"{left:.0f} min"),
    )
    for found in status.disk_findings:
        return Diagnostic(Level(found.severity), "disk", found.text, values)
    return Diagnostic(Level.OK, "disk", f"{status.spare_bytes / 1e9:.1f} GB left", values)


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} ms"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How a replay ended: exit code, a one-line summary, and further lines for the log.

    Exit codes are those of ``edgefirst-ros convert``: 0 done, 1 no samples, 2 wrong usage or input,
    130 interrupted, with what had been read completed.
    """

    code: int
    message: str
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, conversion: Conversion) -> Self:
        """The result of a conversion that ran to its end or was interrupted."""
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


def progress_diagnostic(position: Position | None) -> Diagnostic:
    """How far a replay has come; ``position`` is None before it has read anything."""
    if position is None:
        return Diagnostic(Level.OK, "replay", "opening")
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
    return Diagnostic(Level.OK, "replay", f"{share:.0%}: {run.samples} samples", values)


def result_diagnostic(result: ReplayResult, position: Position | None) -> Diagnostic:
    """How a replay ended."""
    level = Level.ERROR if result.code else Level.OK
    return Diagnostic(level, "replay", result.message, progress_diagnostic(position).values)


PERSISTENT = 3
"""A changed level is logged when seen this many times in a row: most problems pass in a second."""
HEARTBEAT = 60
"""The summary is logged after this many calls without any other line."""


def log(logger: Any, level: Level, text: str) -> None:  # noqa: ANN401 - rclpy's logger, untyped
    """Log a line with the severity of a diagnostic level, and control characters in it escaped.

    rclpy refuses a call site that changes its severity, so each severity has a call of its own.
    """
    text = visible(text)
    if level == Level.ERROR:
        logger.error(text)
    elif level == Level.OK:
        logger.info(text)
    else:
        logger.warning(text)


class LogThrottle:
    """Turns the diagnostics of every second into a few log lines: changes of level that persist."""

    def __init__(self) -> None:
        self._logged: dict[str, Level] = {}
        self._streaks: dict[str, tuple[Level, int]] = {}
        self._quiet = 0

    def lines(self, diagnostics: Sequence[Diagnostic], *, working: bool) -> Iterator[tuple[Level, str]]:
        """Log lines, with their levels, for the diagnostics that are published now.

        Args:
            diagnostics: the summary first.
            working: also repeat the summary from time to time.
        """
        changed = False
        for each in diagnostics:
            before = self._logged.get(each.name, Level.OK)
            level, times = self._streaks.get(each.name, (before, 0))
            times = times + 1 if each.level == level else 1
            self._streaks[each.name] = (each.level, times)
            if each.level != before and times >= PERSISTENT:
                self._logged[each.name] = each.level
                changed = True
                recovered = "recovered: " if each.level == Level.OK else ""
                yield each.level, f"{each.name}: {recovered}{each.message}"
        self._quiet = 0 if changed or not working else self._quiet + 1
        if self._quiet >= HEARTBEAT:
            self._quiet = 0
            yield diagnostics[0].level, diagnostics[0].message
