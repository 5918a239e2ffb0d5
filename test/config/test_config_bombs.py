"""Numbers and files that cannot be meant: refused with a sentence, soon, and without a traceback."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from drives import simulated
from pydantic import BaseModel

from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.config.yamltext import parse_yaml
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions

NONSENSE = (1e-300, 5e-324, 1e10, 1e308, -1e308, 2**63, -(2**64), 10**400, 10**5000, math.nan, math.inf)
"""With none of these can anything be calculated."""
EXTREMES = (1e-6, 1e9, -1e9, 0.0, -0.0, 1, -1, 10**9)
SOME = int(os.environ.get("EXTREMES", "12"))
"""Fields with extreme values that a drive is converted with."""
DRIVE = DriveOptions(seconds=1, fps=5, width=160, height=96, lidar_points=64, cube_hz=2, imu_hz=20)


def numbers(model: type[BaseModel], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Places of all numbers in a model, and of how many numbers each is a list (0: it is one)."""
    for name, info in model.model_fields.items():
        kinds = (info.annotation, *getattr(info.annotation, "__args__", ()))
        inner = next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)
        if inner is not None:
            yield from numbers(inner, (*at, name, *(["camera"] if name == "topics" else [])))
        elif {int, float} & set(kinds):
            yield (*at, name), 0
        elif "float" in str(info.annotation):
            yield (*at, name), 4


FIELDS = list(numbers(Config))


def values(place: tuple[str, ...], count: int, number: object) -> dict[str, Any]:
    found: Any = [number] * count if count else number
    for name in reversed(place):
        found = {name: found}
    return dict(found)


def test_all_numbers_are_found() -> None:
    assert len(FIELDS) >= 35
    assert {("rate_hz",), ("topics", "camera", "offset_ms"), ("l5kit", "rate_hz")} < {p for p, _ in FIELDS}


@pytest.mark.parametrize(("place", "count"), FIELDS, ids=str)
def test_nonsense_is_refused_by_its_name(place: tuple[str, ...], count: int) -> None:
    for number in NONSENSE:
        if place[-1] == "offset_ms" and number == 1e10:
            continue  # from the time since a boot to that since 1970
        with pytest.raises(ConfigError) as caught:
            build_config(values(place, count, number))
        assert caught.value.faults[0].startswith(".".join(place[:2]))
        assert len(str(caught.value)) < 400


def test_a_drive_is_converted_with_extremes_or_they_are_refused(tmp_path: Path) -> None:
    several = [(place, count, number) for place, count in FIELDS for number in EXTREMES]
    drive = simulated(DRIVE).mcap
    for number, (place, count, extreme) in enumerate(random.Random(3).sample(several, SOME)):
        given = {"formats": ["edgefirst", "ncore", "l5kit"], **values(place, count, extreme)}
        try:
            config = build_config(given)
        except ConfigError:
            continue
        convert([drive], tmp_path / str(number), config)


@pytest.mark.parametrize("quaternion", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1e-3]])
def test_a_mounting_is_a_rotation(quaternion: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"imu\.mount\.xyzw: expected a quaternion of length 1"):
        build_config({"topics": {"imu": {"mount": {"xyzw": quaternion}}}})
    assert build_config({"topics": {"imu": {"mount": {"xyzw": [0, 0, 0.7071, 0.7071]}}}})


def laughs(begin: str, row: str) -> str:
    lines = [f"a{n}: &a{n} {row % ','.join(f'*a{n - 1}' for _ in range(10))}" for n in range(1, 30)]
    return "\n".join([begin, *lines, "rate_hz: *a29"])


BOMBS = {
    "laughs": laughs("a0: &a0 [1, 1]", "[%s]"),
    "merged": laughs("a0: &a0 {b: 1, c: 2}", "{<<: [%s]}"),
    "itself": "rate_hz: &a [*a]",
    "itself by name": "rate_hz: &a {b: *a}",
    "names": "".join(f"k{n}: {n}\n" for n in range(60_000)),
    "deep": "rate_hz:\n  " + "- " * 5000 + "1",
    "deeper": "rate_hz: " + "[" * 5000,
    "complex names": "? " * 5000,
    "sexagesimal": "workers: 1" + ":59" * 200_000,
    "binary": "workers: 0b1" + "0" * 900_000,
    "digits": "workers: " + "9" * 5000,
    "long": "rate_hz: " + "x" * 900_000,
    "large": "rate_hz: 1\n" + "#" * (1 << 20),
}


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_is_a_bomb_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(BOMBS[name])
    with pytest.raises(ConfigError) as caught:
        load_values(path)
    assert str(caught.value).startswith(f"{path}")
    assert len(str(caught.value)) < 500


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("name", ["names", "laughs", "deeper", "itself"])
def test_another_yaml_is_read_by_the_same_rules(name: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse_yaml(BOMBS[name])
