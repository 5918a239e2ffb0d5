"""Topics with several publishers: what is said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgefirst_ros.diagnosis.finding import Code, Finding
from edgefirst_ros.diagnosis.report import Publishers, Report
from edgefirst_ros.messages.reasons import Reason

LEAST_SHARE = 0.101
"""However few messages are of another publisher, nobody wants them in a dataset, so that it is not good."""
_SIGNS: Mapping[str, str] = {
    "frames": "frame ids {} alternate; only {first} is used",
    "layouts": "{} alternate; only {first} is used",
    "clocks": "stamps of several clocks alternate, {} before receipt; only the first is used",
    "stamps": "stamps go back again and again, by {}; both are used",
    "announced": "{}; all that comes is used",
}
"""How it is said, by the sign that tells it."""


def publisher_findings(report: Report) -> Iterator[Finding]:
    """What is to be said of topics with several publishers."""
    for topic, found in report.publishers.items():
        account = report.topics.get(topic)
        others = 0
        if account is not None:
            reasons = account.reasons.get("refused", {})
            others = reasons.get(Reason.OTHER_PUBLISHER, 0)
        share = others / account.received if account is not None and account.received else 0.0
        yield publisher_finding(topic, found, share)


def publisher_finding(topic: str, found: Publishers, share: float = 0.0) -> Finding:
    """What is said of one; ``share`` of its messages is of others than the one that is used."""
    values, name = found.values, topic.strip("/")
    listed = " and ".join(filter(None, (", ".join(values[:-1]), *values[-1:])))
    say = _SIGNS.get(found.sign, "{}").format(listed, first=values[0] if values else "one")
    number = "two" if len(values) < 3 else str(len(values))
    text = f"{number} publishers send {name}: {say}; give each a topic of its own"
    return Finding(Code.PUBLISHERS, text, (topic,), min(1.0, max(share, LEAST_SHARE)))
