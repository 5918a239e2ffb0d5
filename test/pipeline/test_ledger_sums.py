"""The account balances whatever happens to the messages."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.config.topics import MAX_UNUSED, OTHER_TOPICS
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.pipeline.ledger import (
    COLUMNS,
    MAX_REASONS,
    Ledger,
    Stage,
    TopicAccount,
    count_reason,
    frequent,
)


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
    ledger.note(ticket, Stage.SKIPPED, Reason.NOT_SELECTED)
    ledger.note(ticket, Stage.UNPAIRED, "lacked lidar")
    ledger.note(ticket, Stage.SKIPPED, Reason.NOT_SELECTED)
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


def test_very_many_reasons_take_no_memory() -> None:
    reasons: Counter[str] = Counter()
    for number in range(5_000):
        count_reason(reasons, f"reason {number}")
    assert len(reasons) <= 1_001
    assert reasons.total() == 5_000
    assert frequent(reasons)[Reason.OTHERS] == 5_000 - MAX_REASONS


def test_topics_without_a_use_are_counted_together_beyond_many() -> None:
    ledger = Ledger()
    names = [f"/t{number}" for number in range(MAX_UNUSED + 3)]
    assert [ledger.unused(name) for name in names] == [*names[:-3], *[OTHER_TOPICS] * 3]
    assert ledger.unused(names[0]) == names[0]


def test_a_topic_gets_one_account_however_many_messages_come(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def account(schema: str) -> TopicAccount:
        made.append(schema)
        return TopicAccount(schema)

    monkeypatch.setattr("edgefirst_ros.pipeline.ledger.TopicAccount", account)
    ledger = Ledger()
    tickets = [ledger.receive(topic, topic, 1) for topic in "aabab"]
    assert made == ["a", "b"]
    assert len(tickets) == ledger.totals["received"] == 5
