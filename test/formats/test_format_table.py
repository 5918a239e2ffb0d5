"""The table of formats: ours, and those that other packages bring."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.formats import registry
from edgefirst_ros.formats.format import Check, Format, Recovery, Target, Writer, below
from edgefirst_ros.formats.registry import FORMATS, GROUP, FormatTable
from edgefirst_ros.model.untrusted import REPORT
from edgefirst_ros.pipeline.job import report_path


class NoOptions(BaseModel):
    """Nothing to choose."""


class Foreign(Format[Any]):
    """A format that does nothing."""

    name = "foreign"
    options = NoOptions

    def writer(self, options: BaseModel, target: Target) -> Writer:
        raise NotImplementedError

    def find(self, path: Path) -> list[Path]:
        return [path]

    def recover(self, path: Path) -> Recovery:
        raise NotImplementedError

    def check(self, path: Path, *, official_python: Path | None = None) -> Check:
        raise NotImplementedError

    def read(self, path: Path) -> object:
        raise NotImplementedError


class Ours(Foreign):
    """The one that is built in."""

    name = "ours"


class Misnamed(Foreign):
    """Calls itself otherwise than its entry point."""

    name = "other"


class Bare(Foreign):
    """Has options that no configuration can hold."""

    options = dict  # type: ignore[assignment]


made = Foreign()
not_a_format = object()


def table_with(monkeypatch: pytest.MonkeyPatch, **values: str) -> FormatTable:
    points = [EntryPoint(name, value, GROUP) for name, value in values.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == GROUP else [])
    return FormatTable({"ours": f"{__name__}:Ours"})


@pytest.mark.parametrize("value", ["Foreign", "made"], ids=["class", "object"])
def test_another_package_adds_a_format(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    table = table_with(monkeypatch, foreign=f"{__name__}:{value}")
    assert list(table) == ["ours", "foreign"]
    assert isinstance(table["foreign"], Foreign)
    assert table.faults == ()
    assert table.names == ("ours", "foreign")


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("gone", "no_such_module_xyz:Format", "ModuleNotFoundError: No module named 'no_such_module_xyz'"),
        ("ours", f"{__name__}:Foreign", "a built-in format has this name"),
        ("foreign", f"{__name__}:Misnamed", "it calls itself 'other'"),
        ("foreign", f"{__name__}:not_a_format", "is not an edgefirst_ros.formats.format.Format"),
        ("foreign", f"{__name__}:Bare", "is not a pydantic model"),
        ("two words", f"{__name__}:Foreign", "small letters, digits"),
    ],
)
def test_one_that_cannot_be_used_is_named_and_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, fault: str
) -> None:
    table = table_with(monkeypatch, **{name: value, "zz": f"{__name__}:Last"})
    assert list(table) == ["ours", "zz"]
    (said,) = table.faults
    assert said.startswith(f"format {name} of the package ")
    assert fault in said
    with pytest.raises(
        ValueError, match="'x' is not a format; available: ours, zz; installed packages .*" + name
    ):
        table.check_names(["ours", "x"])


class Last(Foreign):
    """A sound format behind a broken one."""

    name = "zz"


def test_a_name_that_a_configuration_uses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_with(monkeypatch, foreign=f"{__name__}:Foreign")
    table.reserve(["foreign", "ours"])
    assert list(table) == ["ours"]
    assert "uses its name for something else" in table.faults[0]


def test_every_format_has_its_options_in_the_configuration() -> None:
    config = build_config({name: {} for name in FORMATS})
    for name, each in FORMATS.items():
        assert isinstance(config.options(each), each.options)
        assert Config.model_fields[name].annotation is each.options


@pytest.mark.parametrize(
    ("formats", "place"),
    [("ncore,edgefirst", f"edgefirst/d/{REPORT}"), ("l5kit,ncore", f"l5kit/d.{REPORT}")],
)
def test_a_report_is_in_the_dataset_that_has_a_place_for_it(formats: str, place: str) -> None:
    assert report_path(build_config({"formats": formats}), Path("out"), "d") == Path("out") / place


def test_a_file_of_a_dataset_means_its_folder(tmp_path: Path) -> None:
    for name in ("d/d.zip", "d/d.arrow", "other.arrow", "d/d/x.arrow"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(below(tmp_path, "*.zip", "*.arrow")) == sorted(
        tmp_path / name for name in ("d/d.zip", "d/d.arrow", "other.arrow", "d/d/x.arrow")
    )
    assert below(tmp_path / "d" / "d.zip", "*.arrow") == [tmp_path / "d" / "d.arrow"]
    assert below(tmp_path / "other.arrow", "*.arrow") == [tmp_path / "other.arrow"]
    assert below(tmp_path / "other.arrow", "*.zip") == below(tmp_path / "none", "*") == []


def test_the_table_and_the_configuration_import_nothing_heavy() -> None:
    heavy = "{'polars', 'pyarrow', 'scipy', 'PIL', 'edgefirst_ros.formats.l5kit.read.samples'}"
    code = f"import sys, edgefirst_ros.config.model; print(*({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
