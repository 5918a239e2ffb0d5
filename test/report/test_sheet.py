"""What the contact sheet makes of a radar cube."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from edgefirst_foreign import foreign
from recorded import messages, record

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.edgefirst.prepare.cube import encode_cube, read_cube
from edgefirst_ros.formats.edgefirst.scenes import EdgeFirstScenes
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.radar import Axis, RadarCube
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report.drawing import CELL, GAP, contact_sheet, cube_picture, power_db

WIRE = (Axis.SEQUENCE, Axis.RANGE, Axis.RXCHANNEL, Axis.DOPPLER)
RANGES, DOPPLERS = 200, 128


def drawn(targets: dict[tuple[int, int], int]) -> npt.NDArray[np.float64]:
    """Brightness 0..255 of the cell of a noisy cube with targets at (range bin, doppler bin), so strong."""
    values = np.random.default_rng(1).normal(0, 12, (2, RANGES, 4, 2 * DOPPLERS)).astype(np.int16)
    for (distance, doppler), strength in targets.items():
        values[:, distance, :, 2 * doppler] = strength
    data = encode_cube(RadarCube(values, WIRE, (1.0, 0.1, 1.0, 0.1), True, 0))
    return np.asarray(cube_picture(read_cube(data), CELL).convert("L"), dtype=np.float64)


def place(distance: int, doppler: int) -> tuple[int, int]:
    """Row and column of a bin's middle: range goes up, Doppler across."""
    return int((RANGES - distance - 0.5) / RANGES * CELL[1]), int((doppler + 0.5) / DOPPLERS * CELL[0])


@pytest.mark.parametrize(("cubes", "columns"), [(0.0, 3), (5.0, 4)])
def test_there_is_no_column_for_what_no_sample_has(tmp_path: Path, cubes: float, columns: int) -> None:
    path = record(tmp_path / "k_2026_05_01_09_00_00.mcap", messages(seconds=1.0, jpeg=True, cube_hz=cubes))
    convert([path], tmp_path, build_config({}), dataset="d")
    sheet = contact_sheet(tmp_path / "edgefirst" / "d", 2)
    assert sheet.width == columns * (CELL[0] + GAP) + GAP
    last = np.asarray(sheet)[50 : 50 + CELL[1], sheet.width - GAP - CELL[0] : sheet.width - GAP]
    assert len(np.unique(last.reshape(-1, 3), axis=0)) > 2, "more than an empty frame"


@pytest.mark.parametrize("strength", [150, 2000, 30_000])
def test_targets_stand_out_of_the_noise(strength: int) -> None:
    targets = {(20, 30): strength, (120, 100): strength // 2}
    cell = drawn(targets)
    for distance, doppler in targets:
        assert cell[place(distance, doppler)] > 100
    assert np.mean(cell > 60) < 0.01


def test_noise_alone_is_dark() -> None:
    assert np.percentile(drawn({}), 99) < 60


def test_a_cube_without_doppler_is_a_column_of_ranges() -> None:
    values = np.arange(12, dtype=np.int16).reshape(4, 3)
    power = power_db(RadarCube(values, (Axis.RANGE, Axis.RXCHANNEL), (1.0, 1.0), False, 0))
    assert power.shape == (4, 1)
    assert (np.diff(power[:, 0]) > 0).all()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"frame": [0]}, "ds.arrow has no column name"),
        ({"name": ["s"]}, "ds.arrow has no column frame"),
        ({"name": [[1]], "frame": [0]}, "other names and frames than the format"),
        ({"name": ["s"], "frame": [{"a": 1}]}, "other names and frames than the format"),
    ],
)
def test_a_table_without_names_or_frames_is_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], said: str
) -> None:
    dataset = foreign(tmp_path / "ds", columns, ["s/s_000.camera.jpeg"])
    for look in (contact_sheet, EdgeFirstScenes):
        with pytest.raises(DatasetError, match=said):
            look(dataset)
