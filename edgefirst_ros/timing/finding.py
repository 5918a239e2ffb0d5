"""What a topic's first messages say about its clock, and the time chosen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

NEAR_NS = (-50_000_000, 2_000_000_000)
"""receive − stamp (median) of a stamp that is of the recording's own clock."""
SKEW_NS = 500_000_000
"""If even the promptest topic is later than this, the sender's clock is behind the receiver's."""
STEADY_NS = 1_000_000_000
"""Spread of receive − stamp (10th to 90th percentile) above which stamps say nothing."""
SAME_CLOCK_NS = 1_000_000_000
"""Topics whose least receive − stamp lie this close together share a clock; latencies differ by less."""

Source = Literal["stamp", "publish", "receive"]
Choice = Literal["auto", "stamp", "publish", "receive"]


@dataclass(frozen=True, slots=True)
class Times:
    """The three times of one message, nanoseconds."""

    topic: str
    stamp_ns: int
    publish_ns: int
    receive_ns: int


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about a topic's clock and which time was chosen.

    ``offset_ns`` is added to the chosen time; ``group`` numbers the clock among those found (0 is the
    recording's own), None where no stamp is used.
    """

    topic: str
    source: Source
    offset_ns: int
    group: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A topic's messages so far, and what the configuration says of it."""

    topic: str
    choice: Choice
    offset_ns: int
    times: Sequence[Times]

    @property
    def latency_ns(self) -> npt.NDArray[np.int64]:
        """Receive − stamp of every message."""
        return np.array([t.receive_ns - t.stamp_ns for t in self.times], dtype=np.int64)

    @property
    def is_frozen(self) -> bool:
        """Whether the stamp stands still."""
        return len(self.times) > 1 and len({t.stamp_ns for t in self.times}) == 1

    @property
    def is_near(self) -> bool:
        """Whether the stamps could be of the receiver's clock."""
        return not self.is_frozen and NEAR_NS[0] <= float(np.median(self.latency_ns)) <= NEAR_NS[1]

    @property
    def is_steady(self) -> bool:
        """Whether the stamps run at the receiver's pace, however far off."""
        low, high = np.percentile(self.latency_ns, (10, 90))
        return not self.is_frozen and len(self.times) > 1 and bool(high - low <= STEADY_NS)

    @property
    def publishes(self) -> bool:
        """Whether the publish times are sound."""
        near = all(NEAR_NS[0] <= t.receive_ns - t.publish_ns <= NEAR_NS[1] for t in self.times)
        return near and len({t.publish_ns for t in self.times}) == len(self.times)


def find_clocks(evidence: Sequence[Evidence], offsets_ns: list[int]) -> list[Finding]:
    """Choose a time for every topic; those of one clock share its offset.

    ``offsets_ns`` are the clocks known so far, entry 0 being the recording's own; new ones are appended. A
    clock's offset is the lower envelope of receive − stamp over all its topics.
    """
    automatic = [e for e in evidence if e.choice == "auto"]
    near = {e.topic for e in automatic if e.is_near}
    if near and min(int(e.latency_ns.min()) for e in automatic if e.topic in near) > SKEW_NS:
        near = set()
    far = sorted((int(e.latency_ns.min()), e.topic) for e in automatic if e.topic not in near and e.is_steady)
    clocks: dict[str, int] = {}
    for least_ns, topic in far:
        known = (n for n, offset in enumerate(offsets_ns) if n and abs(least_ns - offset) <= SAME_CLOCK_NS)
        clock = next(known, None)
        if clock is None:
            # In ascending order, so a clock's first topic has its least latency: the lower envelope.
            offsets_ns.append(least_ns)
            clock = len(offsets_ns) - 1
        clocks[topic] = clock
    return [_choose(e, near, clocks, offsets_ns) for e in evidence]


def _choose(found: Evidence, near: set[str], clocks: Mapping[str, int], offsets_ns: Sequence[int]) -> Finding:
    topic, own = found.topic, found.offset_ns
    about = f"receive − stamp is {seconds(int(np.median(found.latency_ns)))}"
    if found.choice != "auto":
        group = 0 if found.choice == "stamp" else None
        return Finding(topic, found.choice, own, group, f"{found.choice} time, as configured; {about}")
    if topic in near:
        return Finding(topic, "stamp", own, 0, f"stamp: the recording's own clock; {about}")
    if topic in clocks:
        offset_ns = offsets_ns[clocks[topic]]
        text = f"stamp of another clock, {seconds(offset_ns)} behind the recording's; shared offset added"
        return Finding(topic, "stamp", own + offset_ns, clocks[topic], text)
    if found.is_frozen:
        why = f"the stamp stands still ({len(found.times)} messages, {about})"
    elif len(found.times) == 1:
        why = f"a single message whose stamp is far off ({about})"
    else:
        why = f"the stamp is erratic ({about}, spread {seconds(int(np.ptp(found.latency_ns)))})"
    source: Source = "publish" if found.publishes and not found.is_frozen else "receive"
    return Finding(topic, source, own, None, f"{source} time: {why}")


def seconds(ns: int) -> str:
    """A span for people: milliseconds below 2 s, else seconds."""
    return f"{ns / 1e6:+.1f} ms" if abs(ns) < 2_000_000_000 else f"{ns / 1e9:+,.3f} s"
