"""What is written to is removed, renamed or unmounted while a capture runs: noticed, said, the rest saved."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from livedrive import FORMATS, HOST, NOON_NS, check_sums, messages
from test_live_zenoh import PROMPT

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.errors import WriteError
from edgefirst_ros.model.sample import RawMessage

pytestmark = pytest.mark.usefixtures("prompt_clocks")

LOST = "is no longer there: removed, renamed or unmounted while it was written"
Removing = Callable[[Path], None]


def rename(folder: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}-elsewhere"))


def remove_all(folder: Path) -> None:
    """With what is still written into it while it goes: the writers notice only when something is gone."""
    for _ in range(1000):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    shutil.rmtree(folder)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(params=[rename, unmount], ids=["renamed", "unmounted"])
def remove(request: pytest.FixtureRequest) -> Iterator[tuple[Callable[[Path], None], Removing]]:
    """How a folder is made, if that matters, and how it goes."""
    if request.param is not unmount:
        yield (lambda _: None), request.param
        return
    if os.geteuid():
        pytest.skip("mounting takes root")
    with ExitStack() as undo:

        def mount(folder: Path) -> None:
            folder.mkdir(parents=True)
            command = ["mount", "-t", "tmpfs", "-o", "size=100m", "none", folder]
            if subprocess.run(command, check=False).returncode:
                pytest.skip("nothing can be mounted here")
            undo.callback(subprocess.run, ["umount", "--lazy", folder], check=False, stderr=-3)

        yield mount, unmount


def capture(output: Path, **config: Any) -> LiveCapture:  # noqa: ANN401 - any value of the configuration
    usual = {
        "min_free_mb": 0,
        "overload": {"latency_s": 0},
        "formats": FORMATS,
        "topics": {name: {"clock": "stamp"} for name in Config().topics},
        **PROMPT,
    }
    return LiveCapture(build_config(usual | config), output, HOST, now_ns=lambda: NOON_NS)


def settled(condition: Callable[[], bool], what: str) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail(f"never came about: {what}")


def begin(one: LiveCapture) -> list[RawMessage]:
    """Capture half of the drive; the other half."""
    one.start("d", sequence="s")
    half = len(messages()) // 2
    for message in messages()[:half]:
        one.put(message)
    settled(lambda: one.status().samples >= 5 and not one._queue.bytes, "samples")
    return list(messages()[half:])


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("name", FORMATS)
def test_a_format_whose_folder_goes_costs_that_format(tmp_path: Path, name: str) -> None:
    one = capture(tmp_path)
    begin(one)
    remove_all(tmp_path / name)
    settled(lambda: bool(one.ended), "the end")
    others = [each for each in FORMATS if each != name]
    assert str(tmp_path / name) in one.lost
    assert one.lost.endswith(f"{LOST}; the session ends, and is saved in {' and '.join(others)}")
    assert one.status().problems == (one.lost,)
    (done,) = one.stop()
    assert done.report["ended"] == one.broken
    assert done.report["ended"].startswith(f"{name}/")
    assert str(tmp_path) not in f"{done.report}", "no path of this machine"
    assert f"{name}: lost: its folder {LOST}" in done.report["warnings"]
    assert done.report["formats"].keys() == {*others}
    assert done.report["samples"] >= 5
    check_sums(done.report)
    assert {path.relative_to(tmp_path).parts[0] for path in done.paths} == {*others}
    assert all(path.exists() for path in done.paths)
    for each in others:
        assert all(result.ok for result in check(tmp_path / each))
    assert not [path for path in (tmp_path / name).rglob("*") if path.is_file()], "made where it was"


def test_an_output_that_goes_is_said_to_be_lost(
    tmp_path: Path, remove: tuple[Callable[[Path], None], Removing]
) -> None:
    make, take_away = remove
    output = tmp_path / "out"
    make(output)
    one = capture(output, record=True)
    begin(one)
    take_away(output)
    settled(lambda: bool(one.ended), "the end")
    assert one.ended.startswith(f"failed: {output / 'edgefirst' / 'd'} {LOST}; ")
    with pytest.raises(WriteError, match="no dataset of session d is saved"):
        one.stop()
    assert not [path for path in output.rglob("*") if path.is_file()], "nothing is made where it was"


@pytest.mark.long(cases=1)
def test_a_recording_that_goes_is_said_and_the_datasets_go_on(
    tmp_path: Path, remove: tuple[Callable[[Path], None], Removing]
) -> None:
    make, take_away = remove
    folder = tmp_path / "recordings"
    make(folder)
    one = capture(tmp_path, record=True)
    rest = begin(one)
    take_away(folder)
    settled(lambda: bool(one.status().problems), "that it is said")
    said = f"{folder / 's.mcap'} {LOST}; the datasets go on"
    assert one.status().problems == (said,)
    for message in rest:
        one.put(message)
    (done,) = one.stop(60)
    assert done.report["samples"] > 25
    assert done.report["ended"] == "stopped"
    recorded = done.report["recording"]
    assert recorded["failure"] == said
    # The recording's thread writes behind the capture: what waited for it when the folder went is lost, too.
    lost = sum(recorded["not_recorded"].values())
    assert lost >= len(rest)
    assert recorded["messages"] + lost == len(messages()) == done.report["totals"]["received"]
    assert all(result.ok for result in check(tmp_path))
