"""The account balances whatever happens to the messages."""

from __future__ import annotations

import random
import statistics
import threading

from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.pipeline.ledger import COLUMNS, Ledger, PairingError, Stage


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from([None, *Stage]), min_size=1, max_size=4))
    )
)
def test_received_is_the_sum_of_the_columns(messages: list[tuple[str, list[Stage | None]]]) -> None:
    ledger = Ledger()
    for topic, ends in messages:
        ticket = ledger.receive(topic, "t", 1)
        for _ in ends[1:]:
            ledger.hold(ticket)
        for end in ends:
            ledger.release(ticket, end, "why" if end is not None else "")
    assert ledger.open == 0
    for account in ledger.snapshot().values():
        assert account["received"] == sum(account[c] for c in COLUMNS)
    totals = ledger.totals
    assert totals["received"] == len(messages) == sum(totals[c] for c in COLUMNS)


def test_the_furthest_end_counts_and_only_when_everybody_is_done() -> None:
    ledger = Ledger()
    ticket = ledger.receive("t", "x", 10)
    ledger.hold(ticket)
    ledger.release(ticket, Stage.WRITTEN)
    assert ledger.snapshot()["t"]["written"] == 0
    assert ledger.open == 1
    ledger.release(ticket, Stage.UNPAIRED, "no reference")
    account = ledger.snapshot()["t"]
    assert (account["written"], account["unpaired"], account["reasons"]) == (1, 0, {})


def test_reasons_belong_to_the_end_that_counts() -> None:
    ledger = Ledger()
    ticket = ledger.receive("t", "x", 10)
    ledger.note(ticket, Stage.SKIPPED, "not selected")
    ledger.note(ticket, Stage.UNPAIRED, "lacked lidar")
    ledger.note(ticket, Stage.SKIPPED, "not selected")
    ledger.release(ticket)
    assert ledger.snapshot()["t"]["reasons"] == {"unpaired": {"lacked lidar": 1}}


def test_threads_do_not_lose_counts() -> None:
    ledger = Ledger()

    def work() -> None:
        for _ in range(2000):
            ledger.release(ledger.receive("t", "x", 1), Stage.WRITTEN)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.snapshot()["t"]["written"] == 8000


def test_pairing_percentiles_are_those_of_the_list() -> None:
    rng = random.Random(3)
    errors = [rng.randrange(-50_000_000, 50_000_000) for _ in range(5000)]
    pairing = PairingError()
    for error in errors:
        pairing.add(error)
    summary = pairing.summary()
    assert summary is not None
    sizes = sorted(abs(e) / 1e6 for e in errors)
    assert abs(summary["p50"] - statistics.median(sizes)) <= 0.1
    assert abs(summary["p95"] - sizes[int(0.95 * len(sizes))]) <= 0.1
    assert abs(summary["max"] - sizes[-1]) < 0.001
    assert PairingError().summary() is None
