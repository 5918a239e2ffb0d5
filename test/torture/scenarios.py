"""The conversions that are tortured: what is converted, into what, and what was there before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from drives import simulated
from forked import Ended, command, import_all_of, run, value_of
from trials import Options

from edgefirst_ros.simulation import DriveOptions

NAME = "d"
NO_PAGE = ("--no-report",)
"""Of live captures, whose writing is what is tried."""
FORMATS = ("edgefirst", "ncore", "l5kit")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversion.

    Attributes:
        name: as in ``--only``.
        formats: of the output.
        options: of the configuration.
        before: options of an earlier conversion into the same output; None: there was none.
        way: what happens to that.
        frames: pictures of the recording; the earlier one had one less.
    """

    name: str
    formats: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] | None = None
    way: Literal["", "overwrite"] = ""
    frames: int = 5


def _scenarios() -> list[Scenario]:
    edgefirst, ncore, l5kit = (("edgefirst",), ("ncore",), ("l5kit",))
    archive, folder = {"edgefirst": {"container": "zip"}}, {"edgefirst": {"container": "folder"}}
    itar = {"ncore": {"store": "itar", "radar_cube": True}}
    directory, single = (
        {"ncore": {"store": "directory", "profile": "single"}},
        {"ncore": {"profile": "single"}},
    )
    found = [
        Scenario("edgefirst-zip", edgefirst, archive),
        Scenario(
            "edgefirst-folder", edgefirst, {"edgefirst": {"container": "folder", "schema_version": "2026.10"}}
        ),
        Scenario("ncore-itar", ncore, itar),
        Scenario("ncore-directory", ncore, directory, frames=3),
        Scenario("ncore-single", ncore, single),
        Scenario("l5kit", l5kit),
        Scenario("l5kit-overwrite", l5kit, {}, {}, "overwrite"),
    ]
    for kinds, formats in (
        ({"zip": archive, "folder": folder}, edgefirst),
        ({"itar": single, "directory": directory}, ncore),
    ):
        found += [
            Scenario(
                f"{formats[0]}-{new}-overwrites-{old}",
                formats,
                kinds[new],
                kinds[old],
                "overwrite",
                frames=3 if "directory" in {new, old} else 5,
            )
            for new in kinds
            for old in kinds
        ]
    return [*found, Scenario("all", FORMATS), Scenario("all-overwrite", FORMATS, {}, {}, "overwrite")]


SCENARIOS = {each.name: each for each in _scenarios()}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A scenario with everything it takes, and what it comes to when nobody disturbs it.

    Attributes:
        scenario: itself.
        folder: with its configuration, and what was there before.
        recording: that is converted.
        old: contents of the output before, see ``contents``; new: after it.
    """

    scenario: Scenario
    folder: Path
    recording: Path
    old: dict[str, Any]
    new: dict[str, Any]

    def begin(self, output: Path) -> None:
        """Set up the output folder as it is before the conversion."""
        shutil.rmtree(output, ignore_errors=True)
        if self.scenario.before is not None:
            shutil.copytree(self.folder / "old", output)

    def arguments(self, output: Path) -> list[str | Path]:
        """Of the command."""
        way = ["--overwrite"] if self.scenario.way == "overwrite" else []
        config = self.folder / "new.yaml"
        return [
            "convert",
            self.recording,
            "-o",
            output,
            "--name",
            NAME,
            "--config",
            config,
            *way,
        ]


def wanted(part: str, options: Options, ends: tuple[str, ...] = ()) -> Iterator[Prepared]:
    """Scenarios of the formats that were asked for, one after another; ``ends`` are of the trials' names."""
    for scenario in SCENARIOS.values():
        if options.scenarios and scenario.name not in options.scenarios:
            continue
        names = [f"{part}/{scenario.name}-{end}" for end in ends] or [f"{part}/{scenario.name}"]
        if {*scenario.formats} <= {*options.formats} and any(map(options.wants_of, names)):
            prepared = prepare(scenario, options.work)
            yield prepared
            shutil.rmtree(prepared.folder)


def prepare(scenario: Scenario, work: Path) -> Prepared:
    """Convert undisturbed.

    Raises:
        RuntimeError: that fails.
    """
    folder = work / "scenarios" / scenario.name
    folder.mkdir(parents=True)
    old: dict[str, Any] = {}
    if scenario.before is not None:
        _convert(folder, "old", recording(scenario.frames - 1), scenario.formats, scenario.before)
        old = _contents(folder / "old")
    long = recording(scenario.frames)
    _convert(folder, "new", long, scenario.formats, scenario.options)
    return Prepared(scenario, folder, long, old, _contents(folder / "new"))


def recording(frames: int, host: str = "sim") -> Path:
    """A small drive of all sensors; those of a host begin at the same time, so NCore names them the same."""
    options = DriveOptions(
        seconds=frames / 10,
        fps=10,
        width=160,
        height=96,
        lidar_points=64,
        cube_shape=(1, 16, 1, 8),
        cube_hz=10.0,
        model_hz=10.0,
        imu_hz=20.0,
        clock="realtime",
        host=host,
    )
    return simulated(options).mcap


def import_everything(work: Path) -> None:
    """Import what any command of a scenario imports, so that forks begin at once."""

    def act() -> None:
        output = work / "imports"
        config = _write_config(work / "imports.yaml", FORMATS, {})
        _ended(command("convert", recording(4), "-o", output, "--name", NAME, "--config", config))
        _ended(command("recover", output))
        _ended(command("check", output))
        _read_contents(output)

    for each in SCENARIOS.values():
        recording(each.frames - 1), recording(each.frames)
    import_all_of(act)


def _ended(act: Any) -> None:  # noqa: ANN401
    try:
        act()
    except SystemExit:
        return


def _convert(folder: Path, name: str, of: Path, formats: tuple[str, ...], options: Mapping[str, Any]) -> None:
    config = _write_config(folder / f"{name}.yaml", formats, options)
    where: list[str | Path] = ["-o", folder / name, "--name", NAME]
    done: Ended = run(command("convert", of, *where, "--config", config))
    if done.code:
        raise RuntimeError(f"{folder.name}: the undisturbed conversion ended with {done.code}: {done.err}")


def _write_config(path: Path, formats: tuple[str, ...], options: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump({"formats": list(formats), **options}))
    return path


def _read_contents(output: Path) -> dict[str, Any]:
    from contents import read  # noqa: PLC0415 - its readers are for forks only

    return read(output).to_json()


def _contents(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = value_of(lambda: _read_contents(output))
    if found["faults"] or found["left"]:
        raise RuntimeError(f"{output}: an undisturbed conversion left {found['left']} {found['faults']}")
    return found
