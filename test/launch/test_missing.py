"""A workspace that lacks something skips the tests of nodes, with the reason."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from rosgraph import RADAR_INFO, missing_of


@pytest.mark.parametrize("built", [True, False])
def test_messages_as_published_lack_radar_info(monkeypatch: pytest.MonkeyPatch, built: bool) -> None:
    package, messages = ModuleType("edgefirst_msgs"), ModuleType("edgefirst_msgs.msg")
    package.msg = messages  # type: ignore[attr-defined]
    messages.RadarCube = object  # type: ignore[attr-defined]
    if built:
        messages.RadarInfo = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "edgefirst_msgs", package)
    monkeypatch.setitem(sys.modules, "edgefirst_msgs.msg", messages)
    assert missing_of(()) == ([] if built else [RADAR_INFO])


def test_a_package_that_is_not_there_is_named() -> None:
    assert missing_of(("sys", "no_such_package")) == ["no_such_package"]
