"""What a fuzz target is, and how a case is made from a seed so that it can be made again."""

from __future__ import annotations

import faulthandler
import logging
import math
import os
import random
import re
import resource
import shutil
import struct
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from edgefirst_ros.model.registry import LOGGER

MOST_MEMORY_BYTES = 2 << 30
"""Over what a process holds when it begins to run cases of a target; more is a finding (MemoryError)."""
MOST_MORE_BYTES = 512 << 20
"""What an input may take at its peak, over what the process holds before it."""
LEAST_S = 0.03
"""Taking that much memory takes longer than this."""
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, -1.0, 1e-300, 1e38, 1e300, -1e300, 1e9)


class UnexpectedError(Exception):
    """An outcome that no input may have, such as accounts that do not add up."""


@dataclass(frozen=True)
class Target:
    """Something that takes bytes from outside.

    Attributes:
        name: as in ``--only``.
        corpus: makes the sound inputs that cases are mutated from, once.
        mutate: one mutation of such an input.
        run: takes an input and an empty folder of its own; says in a word what became of it, or raises.
        limit_s: a case that takes longer is a finding.
        share: of the time, relative to other targets.
        writes: into its folder.
    """

    name: str
    corpus: Callable[[], Sequence[bytes]]
    run: Callable[[bytes, Path], str]
    mutate: Callable[[random.Random, bytes], bytes]
    limit_s: float = 20.0
    share: float = 1.0
    writes: bool = True


def case(target: Target, corpus: Sequence[bytes], seed: int, number: int) -> bytes:
    """The input of a case: the same for the same target, seed and number."""
    rng = random.Random((zlib.crc32(target.name.encode()) << 96) | (seed << 64) | number)
    return target.mutate(rng, rng.choice(corpus))


def outcome(target: Target, data: bytes) -> str:
    """What became of one input; raises as ``judging`` says."""
    with judging(target) as judge:
        return judge(data)


class judging:  # noqa: N801 - a context manager
    """What runs one input after the other, and says what became of it.

    It raises a finding, whatever that is. Errors that a guard turned into refusals count as findings, too,
    because what cannot be used should be refused by what decodes it; so do warnings, and memory.

    Attributes:
        most_bytes: memory that an input took at most, over what there was before; of those that took a while.
    """

    def __init__(self, target: Target) -> None:
        self.target, self.most_bytes = target, 0
        self._base = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self._folders, self._folder = 0, self._base
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.callback(shutil.rmtree, self._base, ignore_errors=True)
        self._stack.enter_context(warnings.catch_warnings())
        self._guarded = self._stack.enter_context(_guarded())
        warnings.simplefilter("error")
        self._before = _reset()
        self._new_folder()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, data: bytes) -> str:
        self._guarded.clear()
        if self.target.writes:  # else what made the input takes next to nothing
            self._before = _reset()
        start_s = time.perf_counter()
        try:
            said = self.target.run(data, self._folder)
        finally:
            took_s = time.perf_counter() - start_s
            more = peak_bytes() - self._before if took_s > LEAST_S else 0
            self.most_bytes = max(self.most_bytes, more)
            if self.target.writes and os.listdir(self._folder):  # noqa: PTH208 - thousands of times a second
                shutil.rmtree(self._folder, ignore_errors=True)
                self._new_folder()
        if self._guarded:
            raise UnexpectedError(f"{len(self._guarded)} errors were caught by a guard: {self._guarded[0]}")
        if more > MOST_MORE_BYTES:
            raise UnexpectedError(f"took {more >> 20} MB more")
        return said

    def _new_folder(self) -> None:
        self._folders += 1
        self._folder = self._base / str(self._folders)
        self._folder.mkdir()


def _reset() -> int:
    """Begin to look for the peak of memory anew; what the process has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def peak_bytes() -> int:
    """The most memory that this process had since that was last reset."""
    return _resident("VmHWM")


def _resident(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


@contextmanager
def _guarded() -> Iterator[list[str]]:
    """The tracebacks of errors that a guard catches meanwhile."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            found.append("".join(traceback.format_exception(error)) if error else record.getMessage())

    handler, level = Kept(), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


def limit_process(*, endless: bool = False) -> None:
    """Bound this process's memory or no longer, and have it say where it was if it dies.

    What it has already does not count: an allocator of a library that another target has used may have
    reserved a gigabyte without using it.
    """
    faulthandler.enable()
    most_bytes = -1 if endless else _resident("VmData") + MOST_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, -1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to eight changes of any bytes: flips, hostile numbers, cuts, repeats, noise."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        if not changed:
            return rng.randbytes(rng.randrange(64))
        rng.choice(_CHANGES)(rng, changed, rng.randrange(len(changed)))
    return bytes(changed)


def _flip(rng: random.Random, data: bytearray, at: int) -> None:
    data[at] ^= 1 << rng.randrange(8)


def _byte(rng: random.Random, data: bytearray, at: int) -> None:
    data[at] = rng.randrange(256)


def _integer(rng: random.Random, data: bytearray, at: int) -> None:
    data[at : at + 4] = struct.pack(rng.choice("<>") + "I", rng.choice(NUMBERS))[: len(data) - at]


def _float(rng: random.Random, data: bytearray, at: int) -> None:
    value = rng.choice(FLOATS)
    packed = struct.pack("<d", value) if rng.random() < 0.5 else struct.pack("<f", single(value))
    data[at : at + len(packed)] = packed[: len(data) - at]


def _delete(rng: random.Random, data: bytearray, at: int) -> None:
    del data[at : at + rng.choice((1, 2, 4, 8, 100, 10_000))]


def _repeat(rng: random.Random, data: bytearray, at: int) -> None:
    data[at:at] = data[at : at + rng.choice((1, 4, 16, 256))] * rng.choice((1, 2, 8))


def _insert(rng: random.Random, data: bytearray, at: int) -> None:
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 64)))


def _cut(rng: random.Random, data: bytearray, at: int) -> None:
    del data[at:]


_CHANGES = (_flip, _byte, _integer, _float, _delete, _repeat, _insert, _cut)


def single(value: float) -> float:
    """A number that fits 32 bits; what does not becomes the largest that does."""
    return max(-3e38, min(3e38, value)) if math.isfinite(value) else value
