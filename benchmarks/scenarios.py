"""What the scenarios of ``truth.py`` share: how they register, say their figures, and make their drives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import FaultyOptions, Truth, simulate

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import Conversion, convert
from edgefirst_ros.simulation import Recording

SMALL: dict[str, Any] = {
    "fps": 15,
    "width": 640,
    "height": 360,
    "lidar_points": 3200,
    "cube_shape": (1, 100, 2, 64),
    "cube_hz": 0.0,
}
"""A drive that converts in a few seconds; a scenario names only what it is about."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value and what is demanded of it."""

    name: str
    value: float | str
    unit: str
    bound: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Scenario:
    """A way a recording can be, what is demanded of the dataset, and the function that measures it."""

    name: str
    demand: str
    run: Callable[[Path], Iterable[Figure]]


SCENARIOS: list[Scenario] = []
seconds_scale = 1.0


def scenario(
    name: str, demand: str
) -> Callable[[Callable[[Path], Iterable[Figure]]], Callable[[Path], Iterable[Figure]]]:
    """Register a function that works in an empty folder and gives figures."""

    def register(run: Callable[[Path], Iterable[Figure]]) -> Callable[[Path], Iterable[Figure]]:
        if any(name == known.name for known in SCENARIOS):
            raise ValueError(f"two scenarios are named {name}")
        SCENARIOS.append(Scenario(name, demand, run))
        return run

    return register


def at_most(name: str, value: float, bound: float, unit: str = "") -> Figure:
    """A figure that must not be above the bound; NaN is above every bound."""
    return Figure(name, float(value), unit, f"<= {bound:g}", bool(value <= bound))


def at_least(name: str, value: float, bound: float, unit: str = "") -> Figure:
    """A figure that must not be below the bound; NaN is below every bound."""
    return Figure(name, float(value), unit, f">= {bound:g}", bool(value >= bound))


def exactly(name: str, value: float | str, expected: float | str, unit: str = "") -> Figure:
    """A figure, count or word that must be the expected one."""
    return Figure(name, value, unit, f"= {expected}", value == expected)


def told(name: str, value: float | str, unit: str = "") -> Figure:
    """A figure that is only told: nothing is demanded of it."""
    return Figure(name, value, unit, "", ok=True)


def seconds(length_s: float) -> float:
    """A drive's length as the command line scales it."""
    return length_s * seconds_scale


def simulated(folder: Path, **options: Any) -> Recording:  # noqa: ANN401 - any option of FaultyOptions
    """A small drive with these options, in a folder of its own."""
    return simulate(folder, FaultyOptions(**(SMALL | options)))


def converted(
    recordings: Path | Sequence[Path],
    output: Path,
    dataset: str = "",
    **config: Any,  # noqa: ANN401 - any key of the configuration
) -> Conversion:
    """The recordings as datasets below ``output``."""
    paths = [recordings] if isinstance(recordings, Path) else list(recordings)
    return convert(paths, output, build_config({"formats": ["edgefirst"], **config}), dataset=dataset)


def driven(
    folder: Path,
    formats: Sequence[str] = ("edgefirst",),
    config: dict[str, Any] | None = None,
    **options: Any,  # noqa: ANN401 - any option of FaultyOptions
) -> tuple[Conversion, Truth]:
    """A small drive, converted into ``folder / "out"``, and its truth."""
    made = simulated(folder / "drive", **options)
    done = converted(made.files, folder / "out", formats=list(formats), **(config or {}))
    return done, Truth.read(made.truth)
