"""MD5 of a store that grows, computed beside its writing."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor

_BATCH = 1 << 20


class StreamDigest:
    """MD5 of bytes that come piece by piece; it costs as much time as compressing what is hashed.

    Pieces are hashed in a thread of the digest's own, a megabyte at a time. At most two megabytes wait, or
    two pieces if these are larger.
    """

    def __init__(self) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ncore-md5")
        self._hashed: Future[None] | None = None
        self._pending: list[bytes] = []
        self._size = 0

    def update(self, *pieces: bytes) -> None:
        """Take the next pieces."""
        self._pending += pieces
        self._size += sum(map(len, pieces))
        if self._size >= _BATCH:
            self._wait()
            self._hashed = self._pool.submit(self._hash, self._pending)
            self._pending, self._size = [], 0

    def hexdigest(self) -> str:
        """Of everything so far."""
        self._wait()
        self._hash(self._pending)
        self._pending, self._size = [], 0
        return self._md5.hexdigest()

    def close(self) -> None:
        """End the thread once it has hashed what it was given; only ``hexdigest`` may be called then."""
        self._pool.shutdown(wait=False)

    def _wait(self) -> None:
        if self._hashed is not None:
            self._hashed.result()

    def _hash(self, pieces: list[bytes]) -> None:
        self._md5.update(b"".join(pieces))  # at once: for every small piece it would wait for the interpreter
