"""How sensors of devices do from day to day: what begins to fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_DAY_NS = 86_400 * 10**9
RECENT_DAYS = 3
"""Days with drives that are compared with those before: one bad day may be the weather's."""
WORSE_SHARE, WORSE_TIMES = 0.01, 3.0
"""A loss of one message in a hundred is worth a look if it is three times as much as before."""
MISSING_SHARE = 0.5
"""A sensor that was in nine drives of ten, and now is in fewer than half of them."""
MOST_ROWS = 200
"""Sensors of which the days are listed: of more the worst ones."""


@dataclass(slots=True)
class _Day:
    drives: int = 0
    messages: int = 0
    lost: int = 0
    pairing_ms: float = 0.0
    """The largest of the drives' 95th percentiles."""

    @property
    def share(self) -> float:
        return self.lost / self.messages if self.messages else 0.0


@dataclass(slots=True)
class Trends:
    """Gathers drives; ``rows`` says what became of them."""

    _sensors: dict[tuple[str, str], dict[int, _Day]] = field(default_factory=lambda: defaultdict(dict))
    _drives: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, report: Mapping[str, Any]) -> None:
        """Take what a note says of a drive, if it says of which device and when."""
        device, start_ns = report.get("device"), report.get("start_ns")
        if not device or not start_ns:
            return
        day = start_ns // _DAY_NS
        days = self._drives[device]
        days[day] = days.get(day, 0) + 1
        for topic, account in report["topics"].items():
            found = self._sensors[device, topic].setdefault(day, _Day())
            found.drives += 1
            found.messages += account["received"] + account["lost_upstream"]
            found.lost += account["refused"] + account["dropped"] + account["lost_upstream"]
            if account["pairing_error_ms"]:
                found.pairing_ms = max(found.pairing_ms, account["pairing_error_ms"]["p95"])

    def rows(self) -> list[dict[str, Any]]:
        """By device and sensor, the days; first what has become worse, then what is worst.

        Returns:
            ``device``, ``sensor``, ``change`` (a sentence, empty if there is none), and lists of the same
            length: ``days`` since 1970, ``drives``, ``lost_ppm`` of its messages, ``pairing_ms``.
        """
        rows = [self._row(*name, days) for name, days in self._sensors.items()]
        rows.sort(key=lambda row: (not row["change"], -max(row["lost_ppm"]), row["device"], row["sensor"]))
        return rows[:MOST_ROWS]

    def _row(self, device: str, sensor: str, days: Mapping[int, _Day]) -> dict[str, Any]:
        known = sorted(days)
        return {
            "device": device,
            "sensor": sensor,
            "change": self._change(device, days),
            "days": known,
            "drives": [days[day].drives for day in known],
            "lost_ppm": [round(1e6 * days[day].share) for day in known],
            "pairing_ms": [round(days[day].pairing_ms, 1) for day in known],
        }

    def _change(self, device: str, days: Mapping[int, _Day]) -> str:
        driven = sorted(self._drives[device])
        early, late = driven[:-RECENT_DAYS], driven[-RECENT_DAYS:]
        if not early:
            return ""
        had, has = (sum(days[d].drives for d in part if d in days) for part in (early, late))
        all_had, all_have = (sum(self._drives[device][d] for d in part) for part in (early, late))
        if had >= 0.9 * all_had and has < MISSING_SHARE * all_have:
            return f"in {has:,} of the last {all_have:,} drives, before in {had:,} of {all_had:,}"
        before, now = _share(days, early), _share(days, late)
        if now >= WORSE_SHARE and now > WORSE_TIMES * before:
            return f"{now:.1%} lost in the last {len(late)} days with drives, before {before:.1%}"
        return ""


def _share(days: Mapping[int, _Day], wanted: Iterable[int]) -> float:
    some = [days[day] for day in wanted if day in days]
    messages = sum(each.messages for each in some)
    return sum(each.lost for each in some) / messages if messages else 0.0
