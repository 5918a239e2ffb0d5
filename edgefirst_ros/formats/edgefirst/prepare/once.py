"""What messages are encoded to, once for all samples that have them: a lidar is slower than a camera."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from edgefirst_ros.formats.base import Call, call_here

Made = TypeVar("Made")
MOST_BYTES, MOST_MESSAGES = 32 << 20, 128
"""Of messages whose results are kept for further samples, those used last: what a second of samples has. The
newest is kept whatever its size."""


class EncodedOnce:
    """Encodes every message once, though several samples that have it are prepared at the same time.

    Safe to use from several threads.

    Attributes:
        call: makes the costly calls.
    """

    def __init__(self, call: Call = call_here) -> None:
        self.call = call
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, Callable[..., Any]], tuple[object, int, Future[Any]]] = {}
        """By the datum's identity, which is its own as long as it is kept here."""
        self._bytes = 0

    def of(
        self,
        datum: object,
        size: int,
        encode: Callable[..., Made],
        *more: Any,  # noqa: ANN401 - of any function
        costly: bool = False,
    ) -> Made:
        """What a pure function makes of a message.

        Args:
            datum: the message.
            size: how many bytes it has.
            encode: takes the datum.
            *more: taken by it, too; the same in all calls.
            costly: whether to make the call through ``call``.

        Raises:
            Exception: whatever the function raises.
        """
        key = id(datum), encode
        with self._lock:
            kept = self._kept.pop(key, None)
            made: Future[Made] = Future() if kept is None else kept[2]
            self._kept[key] = kept or (datum, size, made)
            if kept is None:
                self._bytes += size
                self._forget()
        if kept is None:
            try:
                made.set_result((self.call if costly else call_here)(encode, datum, *more))
            except BaseException as error:  # noqa: BLE001 - raised to whoever asks for the result
                made.set_exception(error)
        return made.result()

    def _forget(self) -> None:
        while len(self._kept) > 1 and (self._bytes > MOST_BYTES or len(self._kept) > MOST_MESSAGES):
            _, oldest_size, _ = self._kept.pop(next(iter(self._kept)))
            self._bytes -= oldest_size
