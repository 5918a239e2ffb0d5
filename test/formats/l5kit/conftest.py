"""What all tests of the L5Kit format have in common."""

from __future__ import annotations

import os

import pytest

from edgefirst_ros.formats.crashsafe import sync


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    monkeypatch.setattr(sync, "sync_file_system", lambda _: None)
