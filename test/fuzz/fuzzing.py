"""What a fuzz target is, and how a case is made from a seed so that it can be made again."""

from __future__ import annotations

import faulthandler
import logging
import math
import random
import resource
import shutil
import struct
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.messages.guard import LOGGER

MOST_MEMORY_BYTES = 2 << 30
"""Of a process that runs cases; more is a finding (MemoryError)."""
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
    """

    name: str
    corpus: Callable[[], Sequence[bytes]]
    run: Callable[[bytes, Path], str]
    mutate: Callable[[random.Random, bytes], bytes]
    limit_s: float = 30.0
    share: float = 1.0


def case(target: Target, corpus: Sequence[bytes], seed: int, number: int) -> bytes:
    """The input of a case: the same for the same target, seed and number."""
    rng = random.Random(f"{target.name} {seed} {number}")
    return target.mutate(rng, rng.choice(corpus))


def outcome(target: Target, data: bytes) -> str:
    """Run one input; what became of it.

    Raises:
        Exception: a finding. Errors that a guard turned into refusals count as findings, too, because what
            cannot be used should be refused by what decodes it.
    """
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        with warnings.catch_warnings(), _guarded() as guarded:
            warnings.simplefilter("error")
            said = target.run(data, folder)
        if guarded:
            raise UnexpectedError(f"{len(guarded)} errors were caught by a guard, the first:\n{guarded[0]}")
        return said
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def limit_process() -> None:
    """Bound this process's memory, and have it say where it was if it dies."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
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
