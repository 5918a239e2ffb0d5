"""The command line: one module a command group."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_COLLECT_AFTER = 20_000
"""More objects that may be garbage than this are looked through; Python's default is 700."""


@contextmanager
def importing() -> Iterator[None]:
    """Import without looking for garbage, which takes a third of the time: what is imported stays.

    From then on it is looked for less often: there is little but what reference counting frees.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        gc.enable()
