"""A plugin of pytest: tests that start another process are skipped, as emulated ones take long to start."""

from __future__ import annotations

import sys

import pytest

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}


def _look(event: str, _: tuple[object, ...]) -> None:
    if event in _STARTS:
        pytest.skip("starts another process")


def pytest_sessionstart() -> None:
    sys.addaudithook(_look)
