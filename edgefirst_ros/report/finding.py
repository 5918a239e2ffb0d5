"""What the diagnosis says: findings with a code that stays, whatever their words; also of live topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.model.sensors import ALIVE_S

SLOW = 0.8
"""A topic below this share of its usual rate is slow."""
MANY = 64
"""A topic without a steady rate after this many messages is taken to be irregular."""
MISSED = 3.0
"""A slow topic counts as silent after this many of its usual intervals."""

MINUTES_WARN = 10.0
"""A disk that lasts no longer is warned of: enough to end the drive where one wants."""

REFUSED, LEAST_REFUSED = 0.9, 3
"""A topic is refused as a whole if this share was of what came in some seconds, and at least so many:
of receivers that send every epoch twice half are refused, and a slow one sends a fix a second."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of a topic.

    Attributes:
        hz: rate that was configured, 0 if none was.
        documented_hz: rate that the device documents, 0 if none is known.
        is_sent_once: whether it may be sent only now and then.
        required: as it was configured; there are no samples without what is always required.
        is_named: whether somebody asked for it.
        has_another: whether another topic that has a publisher serves the same purpose.
        announced: whether it has a publisher, as far as that is known.
        problem: what else is known to be wrong with it.
    """

    hz: float = 0.0
    documented_hz: float = 0.0
    is_sent_once: bool = False
    required: str = ""
    is_named: bool = False
    has_another: bool = False
    announced: bool = True
    problem: str = ""


def flow_findings(
    topic: str,
    now: Mapping[str, Any],
    then: Mapping[str, Any],
    expected: Expected,
    *,
    elapsed_s: float,
    lately: Iterable[Finding] = (),
) -> list[Finding]:
    """Everything that is wrong with a topic.

    Args:
        topic: its name.
        now: its account, see ``live.status.LiveStatus.topics``; empty if nothing came.
        then: the one of a second before; empty if there is none.
        expected: of it.
        elapsed_s: since the session began.
        lately: what else the last seconds have shown, see ``live.status.LiveStatus.findings``.
    """
    found = [Finding(Code.UNUSABLE, expected.problem, (topic,))] if expected.problem else []
    if not now:
        return found or [*_nothing_came(topic, expected, elapsed_s)]
    silent_s = silent_for_s(now, expected, elapsed_s)
    usual_hz = None if expected.is_sent_once else now["usual_hz"]
    expected_hz, rate_hz = expected.hz or usual_hz, now["rate_hz"]
    if silent_s:
        text = f"silent for {silent_s:.0f} s" + ("" if expected.announced else ", no publisher")
        severity = Severity.ERROR if expected.required == "always" else Severity.WARNING
        found.append(Finding(Code.SILENT, text, (topic,), severity=severity))
    elif expected_hz and elapsed_s > ALIVE_S and rate_hz < SLOW * expected_hz:
        text = f"slow: {rate_hz:.1f} Hz, expected {expected_hz:.1f}"
        found.append(Finding(Code.SLOW, text, (topic,)))
    elif elapsed_s > ALIVE_S and rate_hz < SLOW * expected.documented_hz:
        text = f"documented {expected.documented_hz:g}"
        found.append(Finding(Code.SLOW, text, (topic,), severity=Severity.NOTE))
    return [*found, *_lost(topic, now, then), *lately]


def _nothing_came(topic: str, expected: Expected, elapsed_s: float) -> Iterator[Finding]:
    """What is to be said of a topic of which no session, or not this one, has received anything yet."""
    is_always, is_late = expected.required == "always", elapsed_s > ALIVE_S
    severity = Severity.NOTE
    if expected.announced:
        if is_late and not expected.is_sent_once:
            severity = Severity.WARNING
        text = "published, but nothing received yet" if elapsed_s else "published"
        yield Finding(Code.NOTHING_YET, text, (topic,), severity=severity)
    elif expected.is_named or is_always:
        if is_late and expected.required != "never" and (is_always or not expected.has_another):
            severity = Severity.ERROR if is_always else Severity.WARNING
        yield Finding(Code.NO_PUBLISHER, "no publisher", (topic,), severity=severity)


def silent_for_s(now: Mapping[str, Any], expected: Expected, elapsed_s: float) -> float:
    """How long a periodic topic has been silent in this session; 0 if it is not, or is not periodic."""
    usual_hz, age_s = now["usual_hz"], now["age_s"]
    irregular = not usual_hz and now.get("received", 0) > MANY
    if age_s is None or (not expected.hz and (expected.is_sent_once or irregular)):
        return 0.0
    limit_s = max(ALIVE_S, MISSED / usual_hz if usual_hz else 0.0)
    silent_s = min(float(age_s), elapsed_s)
    return silent_s if silent_s > limit_s else 0.0


def _lost(topic: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[Finding]:
    """What was lost since a second before."""
    before = _losses(then)
    for (code, text), count in _losses(now).items():
        if then and count > before[code, text]:
            yield Finding(code, text, (topic,))


def _losses(row: Mapping[str, Any]) -> dict[tuple[Code, str], int]:
    shed = row.get("shed", 0)
    return {
        (Code.DROPPING, "dropping"): row.get("dropped", 0) - shed,
        (Code.SHEDDING, "shedding"): shed,
        (Code.LOSING, "losing messages upstream"): row.get("lost_upstream", 0),
    }


def refused_whole(topic: str, refused: int, received: int, reasons: Mapping[str, int]) -> Iterator[Finding]:
    """Whether nearly everything of a topic was refused lately, so that nothing comes of it."""
    if refused >= max(LEAST_REFUSED, REFUSED * received):
        why = max(reasons, key=reasons.__getitem__, default="")
        text = f"{refused} of the last {received} messages were refused: {why}"
        yield Finding(Code.REFUSED, text, (topic,), refused / max(1, received), Severity.ERROR)


LEAST_SPARE_BYTES = 64_000_000
"""Less lasts for no minute of most captures, so that it is no recovery that a full one has ended."""


def disk_findings(spare_bytes: int, minutes_left: float | None) -> Iterator[Finding]:
    """Whether the disk is full, or soon will be."""
    if spare_bytes <= 0:
        text = "full: less than min_free_mb is left" if spare_bytes else "full"
        yield Finding(Code.DISK_FULL, text, severity=Severity.ERROR)
    elif minutes_left is not None and minutes_left < MINUTES_WARN:
        yield Finding(Code.DISK_FILLS, f"full in {minutes_left:.0f} min at this rate")
    elif spare_bytes < LEAST_SPARE_BYTES:
        yield Finding(Code.DISK_FILLS, f"nearly full: {spare_bytes / 1e6:.0f} MB left")


def sync_findings(at_risk_s: float | None, sync_s: float) -> Iterator[Finding]:
    """Whether the disk is too slow for ``sync_s``."""
    # Beyond, the disk is the bottleneck; a shorter sync_s than half a second asks for what the disk can do.
    if at_risk_s is not None and at_risk_s > 2 * max(sync_s, 0.5):
        text = (
            f"the disk is slow: a power cut could have lost the last {at_risk_s:.1f} s at worst, with sync_s"
        )
        yield Finding(Code.DISK_SLOW, f"{text} {sync_s:g}")


def publishers_finding(topic: str, nodes: Sequence[str]) -> Finding:
    """That the ROS graph has several publishers of a topic: their messages mix."""
    number = "two" if len(nodes) == 2 else str(len(nodes))
    listed = f"{', '.join(nodes[:-1])} and {nodes[-1]}"
    text = f"{number} publishers send {topic.strip('/')}: {listed}; give each a topic of its own"
    return Finding(Code.PUBLISHERS, text, (topic,))
