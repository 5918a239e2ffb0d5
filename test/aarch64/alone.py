"""A plugin of pytest: tests that start another process are skipped, properties tried with few examples.

Emulated, everything takes ten times as long, and a process as long as a test.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import settings

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}


def _look(event: str, _: tuple[object, ...]) -> None:
    if event in _STARTS:
        pytest.skip("starts another process")


def pytest_sessionstart() -> None:
    """From here on: pytest itself asks the system for its terminal."""
    sys.addaudithook(_look)


settings.register_profile("emulated", max_examples=5, derandomize=True, deadline=None)
