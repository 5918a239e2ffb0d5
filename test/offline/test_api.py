"""Conversion as a function: what the command does, with paths, settings and progress."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drives import simulated

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, RecordingNotFound
from edgefirst_ros.offline.convert import Position
from edgefirst_ros.simulation import DriveOptions

OPTIONS = DriveOptions(
    seconds=2, fps=5, width=160, height=96, imu_hz=20.0, lidar_hz=0.0, radar_hz=0.0, cube_hz=0.0, model_hz=0.0
)
NAME = "drive"


@pytest.fixture(scope="module")
def recording() -> Path:
    return simulated(OPTIONS).mcap


def test_it_returns_what_the_report_says_and_where_everything_is(tmp_path: Path, recording: Path) -> None:
    seen: list[Position] = []
    done = edgefirst_ros.convert(str(recording), str(tmp_path), name=NAME, on_progress=seen.append)
    folder = tmp_path / "edgefirst" / NAME
    names = {f"{NAME}.arrow", f"{NAME}.zip", "capture_report.json", "capture_report.html"}
    assert set(done.paths) == {folder / name for name in names}
    assert all(path.exists() for path in done.paths)
    written = json.loads((folder / "capture_report.json").read_text())
    assert done.report == written
    assert done.report["samples"] == len(edgefirst_ros.open(tmp_path)) == 10
    assert not done.interrupted
    assert seen
    assert all(position.bytes_read <= position.bytes_total for position in seen)


def test_drives_of_one_time_are_expected_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgefirst_ros.offline.convert.PROGRESS_EVERY_S", 0.0)
    drives, seen = [simulated(replace(OPTIONS, seed=seed)).mcap for seed in (1, 2, 3)], list[Position]()
    done = edgefirst_ros.convert(drives, tmp_path / "out", name=NAME, workers=1, on_progress=seen.append)
    expected = [each.expected for each in seen if each.run.samples > 10 and each.expected]
    assert done.report["samples"] == 30
    assert expected
    assert max(expected) <= 36


CONFIGS: dict[str, Any] = {
    "keywords": None,
    "values": {"select": {"every": 5}},
    "configuration": build_config({"select": {"every": 5}}),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_settings_are_taken_from_everywhere_and_keywords_win(
    tmp_path: Path,
    recording: Path,
    config: Any,  # noqa: ANN401 - a configuration of any kind
) -> None:
    done = edgefirst_ros.convert(
        [recording],
        tmp_path,
        config,
        page=False,
        every=2,
        edgefirst={"container": "folder", "schema_version": "2026.10"},
    )
    assert done.report["samples"] == 5
    opened = edgefirst_ros.open(tmp_path)
    assert opened.schema_version == "2026.10"
    assert (opened.path / opened.path.name).is_dir()


def test_a_file_of_settings_and_a_part_of_the_drive(tmp_path: Path, recording: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("select: {every: 1}\nformats: [edgefirst]\n")
    done = edgefirst_ros.convert(recording, tmp_path / "out", file, start=0.5, end="1.5", page=False)
    assert 3 <= done.report["samples"] <= 6
    assert done.report["recordings"][0]["outside"]["messages"] > 0


def test_faults_are_errors(tmp_path: Path, recording: Path) -> None:
    with pytest.raises(ConfigError, match="rate_hertz"):
        edgefirst_ros.convert(recording, tmp_path, rate_hertz=2)
    file = tmp_path / "wrong.yaml"
    file.write_text("rate_hz: -2\n")
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(file))}: rate_hz"):
        edgefirst_ros.convert(recording, tmp_path, file)
    file.unlink()
    with pytest.raises(ConfigError, match=r"^end 2: is not after start 3"):
        edgefirst_ros.convert(recording, tmp_path, start=3, end=2)
    for nothing in ([], None):
        with pytest.raises(ConfigError, match="recordings: none was given"):
            edgefirst_ros.convert(nothing, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(DatasetNotFound, match="no dataset was named"):
        edgefirst_ros.open(None)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"expected a path or URL, found \['a', 'b'\]"):
        edgefirst_ros.info(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(RecordingNotFound):
        edgefirst_ros.convert(tmp_path / "none.mcap", tmp_path)
    assert not list(tmp_path.iterdir())


def test_another_thread_can_stop_it(tmp_path: Path, recording: Path) -> None:
    stop = threading.Event()
    stop.set()
    done = edgefirst_ros.convert(recording, tmp_path, stop=stop, page=False)
    assert done.interrupted
