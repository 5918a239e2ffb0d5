"""The judges of test/oracles find what is wrong: datasets are sound until something in them is changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drives import simulated
from numcodecs import Blosc
from oracle import assert_sound

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.l5kit.store.schema import AGENT
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions

OPTIONS = DriveOptions(seconds=2.0, fps=10, width=192, height=108, lidar_points=200, gps_no_fix=0)
VALUES = {
    "formats": ["edgefirst", "ncore", "l5kit"],
    "edgefirst": {"container": "folder"},
    "ncore": {"store": "directory"},
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    convert([simulated(OPTIONS).mcap], folder, build_config(VALUES), dataset="d")
    return folder


def judged(folder: Path, kind: str) -> None:
    pattern = {"edgefirst": "d", "ncore": "*/*.json", "l5kit": "d.zarr"}[kind]
    assert_sound(kind, *(folder / kind).glob(pattern))


def first(folder: Path, pattern: str) -> Path:
    return min(folder.rglob(pattern))


def column(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Other values in EdgeFirst's table."""
    path = first(folder, "d.arrow")
    with pa.ipc.open_file(path.read_bytes()) as opened:
        rows = opened.read_all()
    field = rows.schema.field(name)
    values = pa.array([value and change(value) for value in rows[name].to_pylist()], field.type)
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows.set_column(rows.schema.get_field_index(name), field, values))


def agents(folder: Path, name: str, value: float) -> None:
    """Other agents in L5Kit's array."""
    path, codec = folder / "l5kit/d.zarr/agents/0", Blosc("lz4", 5, Blosc.SHUFFLE)
    rows = np.frombuffer(codec.decode(path.read_bytes()), AGENT).copy()
    rows[name] = value
    path.write_bytes(codec.encode(rows))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def ncore_picture(folder: Path) -> Path:
    """A chunk like others, but a JPEG."""
    return next(p for p in sorted(folder.rglob("*")) if p.is_file() and p.read_bytes()[:3] == b"\xff\xd8\xff")


DAMAGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a picture is missing": ("edgefirst", lambda folder: first(folder, "*.camera.jpeg").unlink()),
    "a cloud is cut": ("edgefirst", lambda f: cut(first(f, "*.lidar.pcd"))),
    "latitude is first": ("edgefirst", lambda f: column(f, "location", lambda place: place[::-1])),
    "boxes in pixels": ("edgefirst", lambda f: column(f, "box2d", lambda box: [100 * each for each in box])),
    "a picture is cut": ("ncore", lambda f: cut(ncore_picture(f))),
    "a store is missing": ("ncore", lambda f: shutil.rmtree(first(f, "*lidar*.zarr"))),
    "agents without a size": ("l5kit", lambda f: agents(f, "extent", 0.0)),
    "agents of one track": ("l5kit", lambda f: agents(f, "track_id", 1)),
    "a chunk is missing": ("l5kit", lambda f: (f / "l5kit/d.zarr/frames/0").unlink()),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES["formats"])
def test_what_is_sound_is_called_so(sound: Path, kind: str) -> None:
    judged(sound, kind)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_is_found(sound: Path, tmp_path: Path, damage: str) -> None:
    kind, do = DAMAGES[damage]
    shutil.copytree(sound / kind, tmp_path / kind)
    do(tmp_path)
    with pytest.raises(AssertionError):
        judged(tmp_path, kind)
