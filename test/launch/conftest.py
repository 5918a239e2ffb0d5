"""A ROS graph for each test, and the drive that is played into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from livedrive import drive
from rosgraph import Graph, ros_graph


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with ros_graph(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def recorded_drive() -> Path:
    return drive()
