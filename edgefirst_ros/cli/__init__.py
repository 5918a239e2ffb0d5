"""The command line: one module a command group."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import without looking for garbage, which takes a third of the time: what is imported stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
