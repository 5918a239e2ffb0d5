"""The bytes of every format are the same for any number and kind of workers, whatever is lost or damaged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from drives import simulated
from faulty import FaultyOptions

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import Conversion, convert
from edgefirst_ros.pipeline import processes
from edgefirst_ros.pipeline.processes import WorkerLost

SMALL: Mapping[str, Any] = {
    "seconds": 1.6,
    "fps": 15,
    "width": 320,
    "height": 192,
    "lidar_points": 640,
    "cube_shape": (1, 100, 2, 64),
    "cube_hz": 10.0,
    "model_hz": 15.0,
}
DRIVES: Mapping[str, Mapping[str, Any]] = {
    "h264": {},
    "h264, B-frames, lost and damaged": {
        "bframes": 2,
        "drop_video": 0.06,
        "damage_video": 0.06,
        "grain": 4.0,
    },
    "h265, lost and damaged": {
        "codec": "h265",
        "drop_video": 0.05,
        "damage_video": 0.3,
        "grain": 4.0,
        "seconds": 2.0,
    },
    "tiles": {"tiles": True, "drop_video": 0.05},
    "jpeg": {"jpeg": True},
}
CELLS = [
    *((drive, 2, True) for drive in DRIVES if drive != "h264"),
    *(("h265, lost and damaged", *kind) for kind in [(1, True), (3, False)]),
    ("jpeg", 3, False),
]
"""Every drive in other processes; the worst, and one whose pictures are not decoded, in other ways, too."""


def converted(drive: str, out: Path, workers: int, *, in_processes: bool, **more: Any) -> Conversion:  # noqa: ANN401
    recording = simulated(FaultyOptions(**{**SMALL, **DRIVES[drive]})).mcap
    config = build_config({"formats": ["edgefirst", "ncore", "l5kit"], "workers": workers, **more})
    return convert([recording], out, config, processes=in_processes)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@cache
def by_one_thread(drive: str, folder: Path) -> dict[str, str]:
    done = converted(drive, folder, 1, in_processes=False)
    assert done.report["samples"] > 10
    return digests(folder)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("one")


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(("drive", "workers", "in_processes"), CELLS)
def test_every_file_is_the_same_for_any_workers(
    tmp_path: Path, kept: Path, drive: str, workers: int, in_processes: bool
) -> None:
    expected = by_one_thread(drive, kept / drive)
    converted(drive, tmp_path, workers, in_processes=in_processes)
    found = digests(tmp_path)
    assert len(found) > 6
    assert found == expected


@pytest.mark.long
def test_pictures_are_decoded_in_other_processes_where_there_are_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("submit", "call"):
        made = getattr(processes.ProcessPool, name)

        def watch(self: Any, function: Any, *given: Any, made: Any = made) -> Any:  # noqa: ANN401
            calls.append(function.__name__)
            return made(self, function, *given)

        monkeypatch.setattr(processes.ProcessPool, name, watch)
    recording = simulated(FaultyOptions(**SMALL)).mcap
    convert([recording], tmp_path / "one", build_config({"workers": 1}))
    assert not calls
    convert([recording], tmp_path / "small", build_config({"workers": 2}))
    assert not calls
    monkeypatch.setattr(processes, "WORTH_BYTES", recording.stat().st_size)
    convert([recording], tmp_path / "two", build_config({"workers": 2}))
    assert set(calls) == {"decode_batch", "encode_cube", "range_files"}
    assert calls.count("decode_batch") <= 5
    assert calls.count("encode_cube") <= 40


@pytest.mark.long
def test_a_group_longer_than_what_may_be_under_way_is_no_deadlock(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgefirst_ros.pipeline.processes.GROUP_ITEMS", 2)
    converted("h264", tmp_path, 2, in_processes=True)
    assert digests(tmp_path) == by_one_thread("h264", kept / "h264")


def test_workers_that_die_end_the_conversion_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "COMMAND", ("/bin/sh", "-c", "kill -9 $$"))
    with pytest.raises(WorkerLost, match="ended by signal 9"):
        converted("h264", tmp_path, 2, in_processes=True)
    assert not list(tmp_path.rglob("*.zip"))
