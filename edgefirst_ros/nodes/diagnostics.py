"""The state of a capture or replay as diagnostics: plain values, without ROS messages.

The nodes' log: lines of varying severity, and which changes in the diagnostics deserve one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from edgefirst_ros.config.model import MAIVIN_TOPICS, Config, TopicRule
from edgefirst_ros.config.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.reasons import Code, Severity
from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.nodes.discovery import SubscriptionPlan, TopicMatch
from edgefirst_ros.offline.convert import Conversion, Position
from edgefirst_ros.report.finding import Expected, flow_findings


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One diagnostic_msgs/DiagnosticStatus, whose levels are the same numbers as severities."""

    level: Severity
    name: str
    message: str
    values: Mapping[str, object] | Sequence[tuple[str, object]] = ()


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
        given: names of the parameters that were given.
        problem: what went wrong outside of the capture; empty if nothing did.
    """

    state: str
    status: LiveStatus
    previous: LiveStatus
    plan: SubscriptionPlan
    config: Config
    given: Collection[str] = ()
    problem: str = ""

    def is_given(self, entry: str, option: str = "") -> bool:
        """Whether somebody gave an option, or any one, of an entry of the configuration's topics.

        Nobody gave most of an entry as it is by default: ``ros2 param dump`` writes all that is set.
        """
        given = [name for name in self.given if name.startswith(f"topics.{entry}.")]
        is_default = self.config.topics[entry] == MAIVIN_TOPICS.get(entry)
        is_dumped = is_default and 2 * len(given) > len(TopicRule.model_fields)
        return not is_dumped and any(name.startswith(f"topics.{entry}.{option}") for name in given)


def diagnose(view: CaptureView) -> list[Diagnostic]:
    """Diagnostics of the session, every configured topic, every writer, and the disk."""
    return [summarise(view), *_topics(view), *_writers(view.status), _disk(view)]


def summarise(view: CaptureView) -> Diagnostic:
    """The summary of the session, the worst problem first."""
    status = view.status
    level, message = Severity.NOTE, _headline(view)
    problem = view.problem or status.failure or "; ".join(status.problems) or view.plan.problem
    if problem:
        level, message = Severity.ERROR, f"{problem}; {message}"
    elif status.ended and status.ended != "stopped":
        level, message = Severity.ERROR, f"ended: {status.ended}"
    elif (found := next(status.findings_since(view.previous), None)) is not None:
        hints = status.hints if found.code is Code.NO_REFERENCE else ()
        meant = [each.text for each in hints if each.severity is Severity.ERROR]
        level, message = found.severity, "; ".join((found.text, *meant[:1], message))
    missing = (f.topic for f in view.plan.matches if not f.announced and view.is_given(f.entry))
    values = {
        "state": view.state,
        "session": status.session or "none",
        "paused": "yes" if status.paused else "no",
        "samples": status.samples,
        "durable samples": status.durable,
        "at risk at most": "unknown" if status.at_risk_s is None else f"{status.at_risk_s:.1f} s",
        "received": status.received,
        "dropped": status.dropped,
        "shed": f"{status.shed_text} samples" if status.shed else "0",
        "what would help": status.help.removeprefix("what would help: ") or "nothing needed",
        "lost upstream": status.lost_upstream,
        "queue": f"{status.queue_fill:.1%}, {status.lag_s:.1f} s behind",
        "written": f"{status.bytes_written / 1e6:.1f} MB, {status.bytes_per_s / 1e6:.2f} MB/s",
        "latency to disk": _ms(status.commit_latency_ms),
        "prefix": view.plan.prefix or "none",
        "not there": ", ".join(missing) or "none",
        **{f"hint {number}": hint.text for number, hint in enumerate(status.hints, 1)},
        **{f"note {number}": note for number, note in enumerate(status.warnings[-5:], 1)},
    }
    return Diagnostic(level, "session", message, values)


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


def _topics(view: CaptureView) -> Iterator[Diagnostic]:
    status, before = view.status, view.previous
    for found in view.plan.matches:
        topic = found.canonical or f"/{view.config.topics[found.entry].topic.strip('/')}"
        now = status.topics.get(topic, {})
        then = before.topics.get(topic, {}) if before.session == status.session else {}
        expected = _expected(view, found, is_flowing=bool(now))
        lately = [status.findings[topic]] if topic in status.findings else []
        findings = flow_findings(topic, now, then, expected, elapsed_s=status.elapsed_s, lately=lately)
        level = max((each.severity for each in findings), default=Severity.NOTE)
        said = "; ".join(each.text for each in findings)
        if now:
            text = said if level else ", ".join(filter(None, (f"{now['rate_hz']:.1f} Hz", said)))
            yield Diagnostic(level, topic, text, _values(found, now, expected))
        elif findings:
            yield Diagnostic(level, topic, said, {"topic": found.topic})


def _expected(view: CaptureView, found: TopicMatch, *, is_flowing: bool) -> Expected:
    rule, default = view.config.topics[found.entry], MAIVIN_TOPICS.get(found.entry)
    # The device documents a rate; another topic of the entry's, or one with a rate of its own, has another.
    is_default = default is not None and rule.expected_hz == default.expected_hz
    is_documented = is_default and not view.is_given(found.entry, "expected_hz")
    is_own = default is not None and rule.topic == default.topic
    # Another topic serves the same purpose that is of the same role, or also for the rig's poses.
    roles = EGO_ROLES if rule.role in EGO_ROLES else {rule.role}
    may_be_late = found.latched and is_flowing
    return Expected(
        0.0 if is_documented else rule.expected_hz,
        rule.expected_hz if is_documented and is_own else 0.0,
        is_sent_once=not rule.expected_hz and (may_be_late or rule.role in CONTEXT_ROLES),
        required=rule.required,
        is_named=view.is_given(found.entry),
        has_another=any(f.announced and view.config.topics[f.entry].role in roles for f in view.plan.matches),
        announced=found.announced,
        problem=found.problem,
    )


def _values(found: TopicMatch, now: Mapping[str, Any], expected: Expected) -> dict[str, object]:
    expected_hz, age_s = expected.hz or now["usual_hz"], now["age_s"]
    counts = ("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written", "shed")
    return {
        "topic": found.topic,
        "type": now.get("type", ""),
        "rate": f"{now['rate_hz']:.1f} Hz",
        "expected": "unknown" if not expected_hz else f"{expected_hz:.1f} Hz",
        "latency": _ms(now["latency_ms"]),
        "age": "unknown" if age_s is None else f"{age_s:.2f} s",
        "queue": f"{now['waiting_bytes'] / 1e6:.2f} MB",
        **{name: now.get(name, 0) for name in counts},
        "lost upstream": now.get("lost_upstream", 0),
    }


def _writers(status: LiveStatus) -> Iterator[Diagnostic]:
    for name, output in status.outputs.items():
        rate, shed = f"{output.bytes_per_s / 1e6:.2f} MB/s", status.shed.get(name, (0, 0))
        values = {
            "items": output.items,
            "bytes": output.bytes,
            "rate": rate,
            "shed": "{:,} of {:,}".format(*shed),
        }
        text = f"{output.items} items, {output.bytes / 1e6:.1f} MB, {rate}"
        level = Severity.WARNING if name in status.shedding else Severity.NOTE
        if level:
            text = f"shedding, {status.shedding[name]:.0%} is written; {text}"
        yield Diagnostic(level, f"writer {name}", text, values)


def _disk(view: CaptureView) -> Diagnostic:
    status, left = view.status, view.status.minutes_left
    if status.free_bytes == UNKNOWN:
        return Diagnostic(Severity.NOTE, "disk", "unknown until the node is active")
    values = {
        "free": f"{status.free_bytes / 1e6:.0f} MB",
        "usable": f"{max(0, status.spare_bytes) / 1e6:.0f} MB",
        "kept free": f"{view.config.min_free_mb:g} MB",
        "left at this rate": "unknown" if left is None else f"{left:.0f} min",
    }
    found = next(iter(status.disk_findings), None)
    level, text = (Severity.NOTE, f"{status.spare_bytes / 1e9:.1f} GB left")
    if found is not None:
        level, text = found.severity, found.text
    return Diagnostic(level, "disk", text, values)


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
        return Diagnostic(Severity.NOTE, "replay", "opening")
    run, read, total = position.run, position.bytes_read, position.bytes_total
    values = {
        "file": position.file,
        "read": f"{read / 1e6:.1f} of {total / 1e6:.1f} MB",
        "recording": f"{run.recorded_s:.1f} s",
        "received": run.received,
        "samples": run.samples,
        "written": f"{run.bytes_written / 1e6:.1f} MB",
        **{f"note {number}": note for number, note in enumerate(position.notes[-5:], 1)},
    }
    text = f"{read / total if total else 0.0:.0%}: {run.samples} samples"
    return Diagnostic(Severity.NOTE, "replay", text, values)


def result_diagnostic(result: ReplayResult, position: Position | None) -> Diagnostic:
    """How a replay ended."""
    level = Severity.ERROR if result.code else Severity.NOTE
    return Diagnostic(level, "replay", result.message, progress_diagnostic(position).values)


PERSISTENT = 3
"""A changed level is logged when seen this many times in a row: most problems pass in a second."""
HEARTBEAT = 60
"""The summary is logged after this many calls without any other line."""


def log(node: Any, level: Severity, text: str) -> None:  # noqa: ANN401 - rclpy's node, untyped
    """Log a line with a severity, and control characters in it escaped.

    rclpy refuses a call site that changes its severity, so each severity has a call of its own.
    """
    text, logger = visible(text), node.get_logger()
    if level == Severity.ERROR:
        logger.error(text)
    elif level == Severity.NOTE:
        logger.info(text)
    else:
        logger.warning(text)


class LogThrottle:
    """Turns the diagnostics of every second into a few log lines: changes of level that persist."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Severity, Severity, int]] = {}
        """By name the level that was logged, the newest one, and how often in a row that was seen."""
        self._quiet = 0

    def lines(self, diagnostics: Sequence[Diagnostic], *, working: bool) -> Iterator[tuple[Severity, str]]:
        """Log lines, with their levels, for the diagnostics that are published now.

        Args:
            diagnostics: the summary first.
            working: also repeat the summary from time to time.
        """
        changed = False
        for each in diagnostics:
            logged, level, times = self._seen.get(each.name, (Severity.NOTE, Severity.NOTE, 0))
            times = times + 1 if each.level == level else 1
            if each.level != logged and times >= PERSISTENT:
                logged, changed = each.level, True
                recovered = "recovered: " if each.level == Severity.NOTE else ""
                yield each.level, f"{each.name}: {recovered}{each.message}"
            self._seen[each.name] = logged, each.level, times
        self._quiet = 0 if changed or not working else self._quiet + 1
        if self._quiet >= HEARTBEAT:
            self._quiet = 0
            yield diagnostics[0].level, diagnostics[0].message
