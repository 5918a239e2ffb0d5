"""A message that several samples have is encoded once, and forgotten when its samples are past."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from edgefirst_ros.formats.edgefirst.prepare import sample as once
from edgefirst_ros.formats.edgefirst.prepare.sample import EncodedOnce
from edgefirst_ros.model.errors import DecodeError


def test_a_message_is_encoded_once_by_each_function() -> None:
    encoded, calls, datum = EncodedOnce(), [], ["cube"]

    def encode(given: list[str], mark: str) -> str:
        calls.append(mark)
        return given[0] + mark

    def other(given: list[str]) -> str:
        return given[0].upper()

    assert [encoded.of(datum, 1, encode, "!") for _ in range(3)] == ["cube!"] * 3
    assert encoded.of(datum, 1, other) == "CUBE"
    assert encoded.of(["cube"], 1, encode, "?") == "cube?"
    assert calls == ["!", "?"]


def test_samples_that_are_prepared_at_the_same_time_wait_for_one_encoding() -> None:
    encoded, datum, begun, go_on = EncodedOnce(), object(), [], threading.Event()

    def encode(_: object) -> bytes:
        begun.append(threading.get_ident())
        go_on.wait(60)
        return b"png"

    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(encoded.of, datum, 1, encode) for _ in range(4)]
        go_on.set()
        made = {id(result.result(60)) for result in results}
    assert len(begun) == len(made) == 1


def test_a_refusal_is_for_every_sample() -> None:
    encoded, datum, calls = EncodedOnce(), object(), []

    def refuse(_: object) -> bytes:
        calls.append(1)
        raise DecodeError("cube without values")

    for _ in range(2):
        with pytest.raises(DecodeError, match="cube without values"):
            encoded.of(datum, 1, refuse)
    assert len(calls) == 1


def test_only_costly_calls_are_made_elsewhere() -> None:
    elsewhere: list[Callable[..., Any]] = []

    def call(function: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401 - of any function
        elsewhere.append(function)
        return function(*given)

    encoded = EncodedOnce(call)
    assert encoded.of("abc", 1, len, costly=True) == 3
    assert encoded.of("abc", 1, str.upper) == "ABC"
    assert elsewhere == [len]


def test_what_is_kept_is_limited_by_the_bytes_of_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "MOST_BYTES", 100)
    encoded, calls = EncodedOnce(), []
    data = [[number] for number in range(4)]

    def encode(given: list[int]) -> int:
        calls.append(given[0])
        return given[0]

    for given in (*data, *data[1:], data[0]):
        encoded.of(given, 30, encode)
    assert calls == [0, 1, 2, 3, 0]
    encoded.of([9], 1000, encode)
    assert len(encoded._kept) == 1


def test_what_was_used_last_is_kept_of_many_small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow topic's message is needed again while those of quicker ones come and go."""
    monkeypatch.setattr(once, "MOST_MESSAGES", 3)
    encoded, calls = EncodedOnce(), []
    slow, quick = [0], [[number] for number in range(1, 10)]

    def encode(given: list[int]) -> int:
        calls.append(given[0])
        return given[0]

    for given in quick:
        encoded.of(slow, 1, encode)
        encoded.of(given, 1, encode)
    assert calls == list(range(10))
    assert len(encoded._kept) == 3
