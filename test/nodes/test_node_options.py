"""The nodes' --help, the rejection of unknown arguments, and of output folders that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefirst_ros.nodes.options import CaptureOptions, ReplayOptions, check_arguments, output_faults


@pytest.mark.parametrize("options", [CaptureOptions, ReplayOptions])
def test_help_describes_every_parameter(
    options: type[CaptureOptions | ReplayOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        check_arguments("node", options, ["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for name, field in options.model_fields.items():
        assert f"\n  {name} (" in said
        assert " ".join((field.description or "?").split()) in " ".join(said.split())
    about = " ".join((options.__doc__ or "?").split())
    assert all(sentence in " ".join(said.split()) for sentence in about.split(". "))
    assert max(map(len, said.splitlines())) <= 110


@pytest.mark.parametrize("words", [["output:=/tmp"], ["-p", "output:=/tmp"], ["--rate", "2"]])
def test_what_is_not_for_ros_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        check_arguments("capture", CaptureOptions, words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert " ".join(words) in said
    assert "--ros-args -p NAME:=VALUE" in said


def test_an_output_that_cannot_be_written_is_found_before(tmp_path: Path) -> None:
    assert output_faults(str(tmp_path / "a" / "b")) == []
    assert list((tmp_path / "a" / "b").iterdir()) == []
    file = tmp_path / "file"
    file.touch()
    assert "output: " in output_faults(str(file))[0]
    assert "cannot be written" in output_faults(str(file / "below"))[0]
