"""The bond that nav2_lifecycle_manager expects, against bond_core's own implementation."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rosgraph import Graph, needs_ros

pytestmark = [
    needs_ros,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("bond", "bondpy")),
        reason="bond and bondpy are not installed (ros/bond_core)",
    ),
]


@contextmanager
def sister(graph: Graph) -> Iterator[tuple[Any, list[str]]]:
    """The manager's side of a bond, and what it has been told."""
    from bondpy.bondpy import Bond  # noqa: PLC0415

    told: list[str] = []
    other = Bond(graph.node, "bond", "capture", lambda: told.append("broken"), lambda: told.append("formed"))
    other.start()
    try:
        yield other, told
    finally:
        other.is_shutdown = True
        other.thread.join(10.0)


def test_a_manager_hears_of_the_node_for_as_long_as_it_is_active(graph: Graph, tmp_path: Path) -> None:
    from bond.msg import Status  # noqa: PLC0415

    beats = graph.listen(Status, "/bond")
    node = graph.capture(tmp_path / "out", "unlisted:=false")
    graph.activate()
    graph.wait("heartbeats", lambda: len(beats) > 5, alive=[node])
    assert {(b.id, b.active, round(b.heartbeat_period, 3), b.heartbeat_timeout) for b in beats} == {
        ("capture", True, 0.1, 4.0)
    }
    with sister(graph) as (_, told):
        graph.wait("the bond", lambda: told == ["formed"], alive=[node])
        assert graph.change("deactivate")
        graph.wait("the end of the bond", lambda: told == ["formed", "broken"], alive=[node])
    assert graph.change("activate")
    with sister(graph) as (other, told):
        graph.wait("the next bond", lambda: told == ["formed"], alive=[node])
        other.break_bond()
        graph.wait("its answer", lambda: told == ["formed", "broken"], alive=[node])
    assert graph.state() == "active"
    assert len({b.instance_id for b in beats if b.active}) == 4  # two of the node, one of each manager
