"""Finds each topic's clock from its first messages, and chooses which of its times to use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgefirst_ros.timing.offset import RECORDINGS_OWN, Arrivals, Clock, estimate
from edgefirst_ros.timing.pace import percentile

NEAR_NS = (-50_000_000, 2_000_000_000)
"""Range of the median of receive − stamp for stamps of the recording's own clock."""
SKEW_NS = 500_000_000
"""If even the promptest topic is later than this, the sender's clock is behind the receiver's."""
STEADY_NS = 1_000_000_000
"""Spread of receive − stamp (10th to 90th percentile) above which stamps are useless."""
LEAST_SHARE = 4
"""No message comes in less than this part of its topic's usual least latency, on any device."""
NEVER_NS = -(1 << 62)
OTHER = "stamp of another clock, "
STEPPED = "; the clock was stepped: "
SAME_CLOCK_NS = 1_000_000_000
"""Topics share a clock if their least receive − stamp differ by less; latencies differ by less than this."""

Source = Literal["stamp", "publish", "receive"]
Choice = Literal["auto", "stamp", "publish", "receive"]


@dataclass(slots=True, eq=False)
class MessageTimes:
    """The three times of a message in nanoseconds, and the acquisition time that a ``ClockFinder`` sets.

    ``time_ns`` is the acquisition time on the recording's clock; ``refusal`` says why there is none.
    """

    topic: str
    stamp_ns: int
    publish_ns: int
    receive_ns: int
    time_ns: int = field(init=False, default=0)
    held_bytes: int = field(init=False, default=0)
    """Memory that the message takes while it waits."""
    refusal: str | None = field(init=False, default=None)


@dataclass(frozen=True, slots=True)
class Finding:
    """A topic's clock, and which of its times is used.

    ``offset_ns`` is added to the chosen time, as far as the clock does not drift; ``group`` numbers the clock
    among those found (0 is the recording's own), None where no stamp is used. ``uncertainty_ns`` is that of
    the times found, for as long as the finding holds, None if unknown; ``latency_ns`` is the least receive −
    time of the messages that the clock was found from. ``apart_ns`` is by how much more than it may the
    topic's own latency contradicts the clock's offset; ``drift_ppm`` is by how much the clock is slow, if
    that is corrected.
    """

    topic: str
    source: Source
    offset_ns: int
    group: int | None
    text: str
    uncertainty_ns: int | None = None
    latency_ns: int | None = None
    apart_ns: int = 0
    drift_ppm: float | None = None

    def judged(self, clock: Clock, error_ns: int, drift_ppm: float | None) -> Finding:
        """The finding once a clock's times were found to be off by up to ``error_ns``, by drift above all."""
        known_ns, ppm = clock.uncertainty_ns, None if drift_ppm is None else round(drift_ppm, 1)
        sure_ns = None if known_ns is None else round(hypot(max(known_ns, self.apart_ns), error_ns))
        if (sure_ns, ppm) == (self.uncertainty_ns, self.drift_ppm):
            return self
        text, stepped, by = self.text.partition(STEPPED)
        if text.startswith(OTHER):
            text = _other(replace(clock, uncertainty_ns=sure_ns), ppm)
        return replace(self, uncertainty_ns=sure_ns, drift_ppm=ppm, text=f"{text}{stepped}{by}")


@dataclass(frozen=True, slots=True)
class Rule:
    """The configuration of a topic's times.

    ``offset_ns`` is the user's correction; ``latency_ns`` is the usual least time from acquisition to
    receipt, None if not known.
    """

    choice: Choice = "auto"
    offset_ns: int = 0
    latency_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The messages and the configuration that a topic's clock is found from."""

    topic: str
    rule: Rule
    times: Sequence[MessageTimes]

    @property
    def late_ns(self) -> npt.NDArray[np.int64]:
        """Receive − stamp of every message."""
        return np.array([t.receive_ns - t.stamp_ns for t in self.times], dtype=np.int64)

    @property
    def plausible_ns(self) -> npt.NDArray[np.int64]:
        """Receive − stamp without stamps far ahead of the others, since a single one would set the offset."""
        late_ns = self.late_ns
        return late_ns[late_ns >= percentile(late_ns, 10) - STEADY_NS]

    def arrivals(self, own: Clock) -> Arrivals:
        """Receive − stamp with times of receipt on the recording's own clock, and the usual latency."""
        return Arrivals(self.plausible_ns - own.offset_ns, self.rule.latency_ns)

    @property
    def is_frozen(self) -> bool:
        """Whether all messages have the same stamp."""
        return len(self.times) > 1 and len({t.stamp_ns for t in self.times}) == 1

    def is_near(self, own: Clock) -> bool:
        """Whether the stamps can be of the recording's own clock."""
        late_ns = float(np.median(self.late_ns)) - own.offset_ns
        return not self.is_frozen and NEAR_NS[0] <= late_ns <= NEAR_NS[1]

    @property
    def is_steady(self) -> bool:
        """Whether the stamps keep a constant distance from the times of receipt, however large."""
        spread_ns = percentile(self.late_ns, 90) - percentile(self.late_ns, 10)
        return not self.is_frozen and len(self.times) > 1 and spread_ns <= STEADY_NS

    @property
    def publishes(self) -> bool:
        """Whether the publish times can be used: plausible, and all different."""
        near = all(NEAR_NS[0] <= t.receive_ns - t.publish_ns <= NEAR_NS[1] for t in self.times)
        return near and len({t.publish_ns for t in self.times}) == len(self.times)


def find_clocks(evidence: Sequence[Evidence], clocks: list[Clock]) -> list[Finding]:
    """Choose a time for every topic; those of one clock share its offset.

    ``clocks`` are those known so far, entry 0 being the recording's own; new ones are appended.
    """
    automatic = [e for e in evidence if e.rule.choice == "auto"]
    near = {e.topic for e in automatic if e.is_near(clocks[0])}
    if near and min(e.arrivals(clocks[0]).least_ns for e in automatic if e.topic in near) > SKEW_NS:
        near = set()
    steady = [e for e in automatic if e.topic not in near and e.is_steady]
    groups: dict[str, int] = {}
    added: list[tuple[int, list[Evidence]]] = []
    for least_ns, each in sorted(
        ((int(e.plausible_ns.min()), e) for e in steady), key=lambda p: (p[0], p[1].topic)
    ):
        known = (n for n, c in enumerate(clocks) if n and abs(least_ns - c.offset_ns) <= SAME_CLOCK_NS)
        group = min(known, key=lambda n: abs(least_ns - clocks[n].offset_ns), default=None)
        if group is None:
            if not added or least_ns - added[-1][0] > SAME_CLOCK_NS:
                added.append((least_ns, []))
            added[-1][1].append(each)
            group = len(clocks) + len(added) - 1
        groups[each.topic] = group
    own = [e.arrivals(clocks[0]) for e in automatic if e.topic in near]
    clocks.extend(estimate([e.arrivals(RECORDINGS_OWN) for e in members], own) for _, members in added)
    return [_choose(e, near, groups, clocks) for e in evidence]


def _choose(found: Evidence, near: set[str], groups: Mapping[str, int], clocks: Sequence[Clock]) -> Finding:
    topic, rule = found.topic, found.rule
    about = f"receive − stamp is {seconds(int(np.median(found.late_ns)))}"
    source: Source = "stamp"
    group: int | None = None
    clock, apart_ns = Clock(0, None), 0
    if rule.choice != "auto":
        source = rule.choice
        group = 0 if source == "stamp" else None
        text = f"{source} time, as configured; {about}"
    elif topic in near:
        group, clock = 0, clocks[0]
        text = f"stamp: the recording's own clock; {about}"
    elif topic in groups:
        group = groups[topic]
        clock = clocks[group]
        apart_ns = found.arrivals(RECORDINGS_OWN).apart_ns(clock)
        if clock.uncertainty_ns is not None:
            clock = replace(clock, uncertainty_ns=max(clock.uncertainty_ns, apart_ns))
        text = _other(clock, None)
    else:
        source = "publish" if found.publishes and not found.is_frozen else "receive"
        latency_ns = rule.latency_ns or 0 if source == "receive" else 0
        clock = Clock(-latency_ns, None)
        less = f" less the usual latency of {latency_ns / 1e6:g} ms" if latency_ns else ""
        text = f"{source} time{less}: {_useless(found, about)}"
    offset_ns = clock.offset_ns + rule.offset_ns
    late_ns: int = min(t.receive_ns - getattr(t, f"{source}_ns") for t in found.times) - offset_ns
    return Finding(topic, source, offset_ns, group, text, clock.uncertainty_ns, late_ns, apart_ns)


def plausible_latency_ns(rule: Rule, finding: Finding) -> int:
    """The least latency that a topic's messages can have by a clock as well known as this."""
    sure_ns = finding.uncertainty_ns
    return NEVER_NS if sure_ns is None else (rule.latency_ns or 0) // LEAST_SHARE - sure_ns


def _useless(found: Evidence, about: str) -> str:
    """Why a topic's stamps cannot be used."""
    if not any(t.stamp_ns for t in found.times):
        return "it has no stamp"
    if found.is_frozen:
        return f"the stamp stands still ({len(found.times)} messages, {about})"
    if len(found.times) == 1:
        return f"a single message whose stamp is far off ({about})"
    return f"the stamp is erratic ({about}, spread {seconds(int(np.ptp(found.late_ns)))})"


def _other(clock: Clock, ppm: float | None) -> str:
    drift = "" if ppm is None else f"; it is {abs(ppm):.0f} ppm {'slow' if ppm > 0 else 'fast'}: corrected"
    return f"{OTHER}{_offset(clock)} behind the recording's; shared offset added{drift}"


def _offset(clock: Clock) -> str:
    """A clock's offset and its uncertainty, as text."""
    if clock.uncertainty_ns is None:
        return f"{seconds(clock.offset_ns)} (or less: no latency_ms of its topics is known)"
    return f"{seconds(clock.offset_ns)} ± {clock.uncertainty_ns / 1e6:.1f} ms"


def seconds(ns: int) -> str:
    """A signed duration as text: milliseconds below 2 s, else seconds."""
    return f"{ns / 1e6:+.1f} ms" if abs(ns) < 2_000_000_000 else f"{ns / 1e9:+,.3f} s"
