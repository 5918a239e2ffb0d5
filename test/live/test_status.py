"""Rates over the last seconds, also of what began or ended within them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edgefirst_ros.live import status as livestatus
from edgefirst_ros.live.queue import Flow
from edgefirst_ros.live.status import WINDOW_S, Meter
from edgefirst_ros.model.reasons import Code, Reason, Severity
from edgefirst_ros.pipeline.fanout import Output

HZ = 20.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The steady clock, to be set."""
    clock = SimpleNamespace(s=1000.0)
    monkeypatch.setattr(livestatus, "time", SimpleNamespace(monotonic=lambda: clock.s))
    return clock


def flows(now_s: float, begin_s: float, end_s: float = 1e9) -> dict[str, Flow]:
    """A topic of HZ that began and ended then."""
    last_s = min(now_s, end_s)
    return {"/imu": Flow(round((last_s - begin_s) * HZ), last_s, begin_s)} if now_s > begin_s else {}


@pytest.mark.parametrize("late_s", [0.0, 2.0, 30.0])
def test_a_topic_has_its_rate_as_soon_as_it_is_there(now: SimpleNamespace, late_s: float) -> None:
    meter = Meter(lambda: now.s)
    begin_s = now.s + late_s
    while now.s < begin_s + 12.0:
        now.s += 1.0
        rates, _ = meter.rates(flows(now.s, begin_s), {})
        if now.s > begin_s:
            assert rates["/imu"] == pytest.approx(HZ)


def test_a_topic_that_falls_silent_has_none_after_the_window(now: SimpleNamespace) -> None:
    meter = Meter(lambda: now.s)
    begin_s, seen = now.s, []
    for _ in range(20):
        now.s += 1.0
        seen.append(meter.rates(flows(now.s, begin_s, begin_s + 10.0), {})[0]["/imu"])
    assert seen[9] == pytest.approx(HZ)
    assert seen[9:15] == sorted(seen[9:15], reverse=True)
    assert seen[9 + int(WINDOW_S) :] == [0.0] * (11 - int(WINDOW_S))


def test_rates_are_by_the_clock_of_a_simulation_through_pauses_and_resets(now: SimpleNamespace) -> None:
    """As usual rates are, which are of stamps."""
    simulated, count = SimpleNamespace(s=100.0), 0
    meter, written = Meter(lambda: simulated.s), {"ncore": Output("samples", 0, 0)}
    seen = []
    for second in range(40):
        now.s += 1.0
        passes_s = 0.0 if 15 <= second < 20 else 0.6
        simulated.s = 0.0 if second == 30 else simulated.s + passes_s
        count += round(passes_s * HZ)
        rates, bytes_per_s = meter.rates({"/imu": Flow(count, simulated.s, 0.0)}, written)
        seen.append(rates["/imu"])
        written = {"ncore": Output("samples", 0, (second + 1) * 500)}
    assert seen[10:30] == pytest.approx([HZ] * 20, rel=0.1)
    assert seen[35:] == pytest.approx([HZ] * 5, rel=0.25)
    assert bytes_per_s["ncore"] == pytest.approx(500)


def judged(refused: int, others: int, waiting: int = 0) -> dict[str, dict[str, Any]]:
    """A topic's account."""
    reasons = {"skipped": {Reason.SAME_EPOCH: 1, Reason.NO_FIX: refused}}
    received = refused + others + waiting
    return {"/gps": {"received": received, "refused": 0, "written": others, "reasons": reasons}}


@pytest.mark.parametrize("good_before", [0, 100])
def test_a_topic_of_which_everything_is_refused_is_told(now: SimpleNamespace, good_before: int) -> None:
    """As of a receiver that has lost its satellites, also after an hour of good fixes."""
    meter = Meter(lambda: now.s)
    for _ in range(good_before):
        now.s += 1.0
        assert meter.refusing(judged(0, good_before)) == {}
    said = []
    for second in range(1, 9):
        now.s += 1.0
        said.append(meter.refusing(judged(10 * second, good_before)))
    assert bool(said[3]) == bool(good_before)  # a session's first seconds prove nothing
    assert said[7]["/gps"].code is Code.REFUSED
    assert Reason.NO_FIX in said[7]["/gps"].text
    assert said[7]["/gps"].severity is Severity.ERROR


def test_no_more_are_said_to_be_refused_than_came(now: SimpleNamespace) -> None:
    """What was received before may be refused only now."""
    meter = Meter(lambda: now.s)
    for refused, waiting in ((0, 20), (0, 20), (33, 14)):
        now.s += WINDOW_S / 2
        said = meter.refusing(judged(refused, 0, waiting))
    assert said["/gps"].text.startswith("33 of the last 33 messages were refused")
