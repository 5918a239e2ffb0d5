"""Paths and recordings that tests of several modules share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from places import SHARED


@pytest.fixture(scope="session")
def recording() -> Path:
    found = sorted((SHARED / "data").glob("*.mcap"))
    if not found:
        pytest.skip(f"no acceptance recording in {SHARED / 'data'} (set EDGEFIRST_SHARED)")
    return found[0]


@pytest.fixture(scope="session")
def truth(recording: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(recording.with_name(recording.stem + ".truth.json").read_text())
    return loaded
