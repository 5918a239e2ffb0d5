"""The shipped launch file under launch_testing: two devices in two namespaces, started by themselves."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import unittest
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from livedrive import check_sums, drive
from rosgraph import MISSING, Graph, needs_install, needs_ros

DEVICES = ("maivin_a", "maivin_b")
FOLDER = Path(tempfile.gettempdir()) / f"edgefirst-launch-{os.getpid()}"
HELD = ExitStack()
"""The domain, from the launch to the last test after its shutdown."""


def launch_test(description: Callable[[], Any]) -> Callable[[], Any]:
    """The mark of launch_testing's plugin, which is unknown without it."""
    return description if MISSING else pytest.mark.launch_test(description)


def after_shutdown(case: type[unittest.TestCase]) -> type[unittest.TestCase]:
    """Tests that launch_testing runs when everything has ended."""
    if MISSING:
        return case
    import launch_testing  # noqa: PLC0415

    decorated: type[unittest.TestCase] = launch_testing.post_shutdown_test()(case)
    return decorated


@needs_ros
@needs_install
@launch_test
def generate_test_description() -> Any:  # noqa: ANN401 - launch's description, untyped
    import domain_coordinator  # noqa: PLC0415
    import launch_testing  # noqa: PLC0415
    import launch_testing.markers  # noqa: PLC0415
    from ament_index_python.packages import get_package_share_directory  # noqa: PLC0415
    from launch import LaunchDescription  # noqa: PLC0415
    from launch.actions import IncludeLaunchDescription, SetEnvironmentVariable  # noqa: PLC0415
    from launch.launch_description_sources import PythonLaunchDescriptionSource  # noqa: PLC0415

    domain = HELD.enter_context(domain_coordinator.domain_id())
    before = os.environ.get("ROS_DOMAIN_ID")
    HELD.callback(_restore, before)
    FOLDER.mkdir(parents=True, exist_ok=True)
    atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
    source = Path(get_package_share_directory("edgefirst_ros")) / "launch" / "capture.launch.py"
    # A machine that is busy with other tests may not leave samples out.
    given = "{min_free_mb: 1.0, workers: 2, ego: {wait_s: 0.2}, overload: {latency_s: 0.0}}"
    (FOLDER / "config.yaml").write_text(f"/**:\n  ros__parameters: {given}\n")
    devices = [
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(source)),
            launch_arguments={
                "config": str(FOLDER / "config.yaml"),
                "output": str(FOLDER / device),
                "namespace": device,
            }.items(),
        )
        for device in DEVICES
    ]
    description = [
        SetEnvironmentVariable("ROS_DOMAIN_ID", str(domain)),
        *devices,
        launch_testing.actions.ReadyToTest(),
    ]
    return LaunchDescription(description)


def _restore(before: str | None) -> None:
    os.environ.pop("ROS_DOMAIN_ID", None)
    if before is not None:
        os.environ["ROS_DOMAIN_ID"] = before


@needs_ros
@needs_install
class TestTwoDevices(unittest.TestCase):
    """While both run."""

    def setUp(self) -> None:
        self.graph = Graph(int(os.environ["ROS_DOMAIN_ID"]), FOLDER)

    def tearDown(self) -> None:
        self.graph.close()

    def test_both_are_active_and_each_hears_its_own_device(self) -> None:
        nodes = [f"/{device}/capture" for device in DEVICES]
        for node in nodes:
            self.graph.wait(f"{node} active", lambda node=node: self.graph.state(node) == "active")
        statuses = [self.graph.status(node) for node in nodes]
        for device, status in zip(DEVICES, statuses, strict=True):
            # The device's name, as far as the namespace tells it.
            assert status()["session"].startswith(device), status()
        player = self.graph.player(drive(), "--restamp", "--namespace", f"/{DEVICES[0]}")
        first, second = statuses
        self.graph.wait("samples", lambda: int(first()["samples"]) >= 10, alive=[player])
        assert player.join() == 0
        assert second()["received"] == "0", second()


@needs_ros
@needs_install
@after_shutdown
class TestAfterwards(unittest.TestCase):
    """When the launch has ended."""

    def test_both_ended_cleanly_and_complete(self, proc_info: Any) -> None:  # noqa: ANN401 - untyped
        import launch_testing.asserts  # noqa: PLC0415

        HELD.close()
        launch_testing.asserts.assertExitCodes(proc_info)
        for device in DEVICES:
            (path,) = (FOLDER / device).glob("edgefirst/*/capture_report.json")
            report = json.loads(path.read_text())
            check_sums(report)
            assert report["ended"] == "stopped"
            assert (report["samples"] >= 10) is (device == DEVICES[0])
