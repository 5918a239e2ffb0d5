"""One small drive that most tests look into, and a maker of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faulty import FaultyOptions, simulate
from played import Played, play, small


@pytest.fixture(scope="session")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Played:
    options = FaultyOptions(
        seconds=4.0,
        fps=15,
        width=640,
        height=360,
        lidar_points=6000,
        cube_shape=(2, 200, 4, 128),
        model_hz=7.5,
        boxes3d=True,
    )
    return play(simulate(tmp_path_factory.mktemp("drive"), options))


@pytest.fixture
def make(tmp_path: Path) -> Any:  # noqa: ANN401 - a function
    """Make a small drive with some options changed, and read it back."""

    def made(**changes: Any) -> Played:  # noqa: ANN401 - any option
        return play(simulate(tmp_path, small(**changes), overwrite=True))

    return made
