"""A ROS graph of a test's own: a domain held for its life, real processes, waits that say what happened."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

PLAYER = Path(__file__).with_name("player.py")
_NEEDED = (
    "rclpy",
    "launch_testing",
    "domain_coordinator",
    "foxglove_msgs",
    "edgefirst_msgs",
    "sensor_msgs_py",
)
RADAR_INFO = "edgefirst_msgs/msg/RadarInfo (add msg/RadarInfo.msg to its CMakeLists.txt: docs/vehicle.md)"


def missing_of(packages: Sequence[str]) -> list[str]:
    """What a workspace lacks of packages and messages; edgefirst_msgs as published lacks RadarInfo."""
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    if lacking:
        return lacking
    from edgefirst_msgs import msg  # noqa: PLC0415 - of the sourced workspace

    return [] if hasattr(msg, "RadarInfo") else [RADAR_INFO]


MISSING = missing_of(_NEEDED)
needs_ros = pytest.mark.skipif(
    bool(MISSING), reason=f"no sourced ROS 2 with all that is needed; missing: {', '.join(MISSING)}"
)

Value = TypeVar("Value")
AFTER_S = 10.0


class NeverCame(AssertionError):
    """What was waited for did not happen in time; not the same as a wrong value."""


class Died(AssertionError):
    """A process ended while something was expected of it."""


def installed(package: str = "edgefirst_ros") -> bool:
    """Whether `ros2 run` and `ros2 launch` find the package, as they do after colcon build."""
    if MISSING:
        return False
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix  # noqa: PLC0415

    try:
        return (Path(get_package_prefix(package)) / "lib" / package / "capture").exists()
    except PackageNotFoundError:
        return False


needs_install = pytest.mark.skipif(
    not installed(), reason="edgefirst_ros is not in a sourced ROS workspace (colcon build)"
)


class Process:
    """A child process with its output in a file."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("w") as out:
            self._child = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        self.pid = self._child.pid

    @property
    def code(self) -> int | None:
        """Exit code, None while it runs."""
        return self._child.poll()

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._child.send_signal(number)

    def join(self, timeout_s: float = 30.0) -> int:
        """Wait for its end; its exit code."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise NeverCame(f"the process did not end within {timeout_s:g} s:\n{self.text}") from error

    def kill(self) -> None:
        """End it and its children, whatever they do."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait(10.0)


class Graph:
    """A node of the test in a domain of its own, and the processes that it starts there."""

    def __init__(self, domain: int, folder: Path) -> None:
        import rclpy  # noqa: PLC0415
        from rclpy.executors import SingleThreadedExecutor  # noqa: PLC0415

        self.domain = domain
        self.folder = folder
        # A launch leaves temporary files of parameters behind.
        places = {"ROS_LOG_DIR": str(folder / "ros_log"), "TMPDIR": str(folder)}
        self.environment = os.environ | {"ROS_DOMAIN_ID": str(domain), **places}
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context, domain_id=domain)
        self.node = rclpy.create_node("test", context=self._context, use_global_arguments=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.processes: list[Process] = []

    # ------------------------------------------------------------------ processes
    def start(self, *command: str) -> Process:
        """Run a command in this graph's domain."""
        log = self.folder / f"process{len(self.processes)}.log"
        process = Process(command, log, self.environment)
        self.processes.append(process)
        return process

    def capture(self, output: Path, *parameters: str, namespace: str = "", name: str = "") -> Process:
        """Start a capture node as `ros2 run` does."""
        # The drive is short: samples that wait for what comes after them would come when it is over.
        given = ["-p", f"output:={output}", "-p", "min_free_mb:=1.0", "-p", "ego.wait_s:=0.2"]
        # Nor may a machine that is busy with other tests leave samples out.
        given += ["-p", "overload.latency_s:=0.0"]
        for each in parameters:
            given += ["-p", each]
        if namespace:
            given += ["-r", f"__ns:={namespace}"]
        if name:
            given += ["-r", f"__node:={name}"]
        return self.start(sys.executable, "-m", "edgefirst_ros.nodes.capture", "--ros-args", *given)

    def player(self, recording: Path, *options: str) -> Process:
        """Start playing a recording."""
        return self.start(sys.executable, str(PLAYER), str(recording), *options)

    @contextmanager
    def another(self, name: str) -> Iterator[Any]:
        """A further node of the test."""
        import rclpy  # noqa: PLC0415

        node = rclpy.create_node(name, context=self._context, use_global_arguments=False)
        try:
            yield node
        finally:
            node.destroy_node()

    # ------------------------------------------------------------------ waiting
    def spin(self, seconds: float) -> None:
        """Let callbacks run for a while."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self._executor.spin_once(timeout_sec=0.05)

    def wait(
        self,
        what: str,
        check: Callable[[], Value | None],
        timeout_s: float = 30.0,
        alive: Sequence[Process] = (),
    ) -> Value:
        """What ``check`` says as soon as it is something.

        A player that is through leaves messages on their way: its end is no failure until ``AFTER_S`` later.

        Raises:
            NeverCame: it was nothing all the time.
            Died: one of the processes it depends on ended before.
        """
        end_s = time.monotonic() + timeout_s
        ended: dict[int, float] = {}
        while True:
            found = check()
            if found is not None and found is not False:
                return found
            for process in alive:
                if process.code is None:
                    continue
                since_s = ended.setdefault(process.pid, time.monotonic())
                if process.code != 0 or time.monotonic() > since_s + AFTER_S:
                    raise Died(f"exit code {process.code} while waiting for {what}:\n{process.text}")
            if time.monotonic() > end_s:
                logs = "\n".join(process.text for process in self.processes)
                raise NeverCame(f"{what}: not within {timeout_s:g} s\n{logs}")
            self._executor.spin_once(timeout_sec=0.05)

    def listen(self, kind: Any, topic: str, *, latched: bool = False) -> list[Any]:  # noqa: ANN401 - untyped
        """Messages of a topic, in a list that grows."""
        from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415

        durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
        messages: list[Any] = []
        self.node.create_subscription(
            kind, topic, messages.append, QoSProfile(depth=50, durability=durability)
        )
        return messages

    # ------------------------------------------------------------------ services
    def call(self, kind: Any, name: str, request: Any, timeout_s: float = 30.0) -> Any:  # noqa: ANN401 - untyped
        """Call a service."""
        client = self.node.create_client(kind, name)
        try:
            self.wait(f"service {name}", client.service_is_ready, timeout_s)
            future = client.call_async(request)
            self.wait(f"answer of {name}", future.done, timeout_s)
            return future.result()
        finally:
            self.node.destroy_client(client)

    def trigger(self, name: str) -> tuple[bool, str]:
        """Call a std_srvs/Trigger."""
        from std_srvs.srv import Trigger  # noqa: PLC0415

        answer = self.call(Trigger, name, Trigger.Request())
        return answer.success, answer.message

    def change(self, transition: str, node: str = "/capture") -> bool:
        """Make a lifecycle transition; whether it succeeded."""
        from lifecycle_msgs.msg import Transition  # noqa: PLC0415
        from lifecycle_msgs.srv import ChangeState  # noqa: PLC0415

        number = getattr(Transition, f"TRANSITION_{transition.upper()}")
        request = ChangeState.Request(transition=Transition(id=number))
        return bool(self.call(ChangeState, f"{node}/change_state", request).success)

    def state(self, node: str = "/capture") -> str:
        """Lifecycle state of a node."""
        from lifecycle_msgs.srv import GetState  # noqa: PLC0415

        return str(self.call(GetState, f"{node}/get_state", GetState.Request()).current_state.label)

    def activate(self, node: str = "/capture") -> None:
        """From unconfigured to active."""
        for transition in ("configure", "activate"):
            if not self.change(transition, node):
                raise AssertionError(f"{node} did not {transition}:\n{self.processes[0].text}")

    def set(self, name: str, value: Any, node: str = "/capture") -> tuple[bool, str]:  # noqa: ANN401 - any type
        """Set a parameter; whether it was taken, else why not."""
        from rcl_interfaces.srv import SetParameters  # noqa: PLC0415
        from rclpy.parameter import Parameter  # noqa: PLC0415

        message = Parameter(name, value=value).to_parameter_msg()
        answer = self.call(
            SetParameters, f"{node}/set_parameters", SetParameters.Request(parameters=[message])
        )
        return answer.results[0].successful, answer.results[0].reason

    def parameters(self, *names: str, node: str = "/capture") -> list[Any]:
        """Values of a node's parameters."""
        from rcl_interfaces.srv import GetParameters  # noqa: PLC0415
        from rclpy.parameter import parameter_value_to_python  # noqa: PLC0415

        answer = self.call(GetParameters, f"{node}/get_parameters", GetParameters.Request(names=list(names)))
        return [parameter_value_to_python(value) for value in answer.values]

    # ------------------------------------------------------------------ what a capture says
    def status(self, node: str = "/capture") -> Callable[[], dict[str, str]]:
        """The newest ``~/status`` of a node: its values, and its message and level among them."""
        from diagnostic_msgs.msg import DiagnosticStatus  # noqa: PLC0415

        messages = self.listen(DiagnosticStatus, f"{node}/status", latched=True)

        def newest() -> dict[str, str]:
            if not messages:
                raise NeverCame(f"no {node}/status yet")
            values = {value.key: value.value for value in messages[-1].values}
            return {"message": messages[-1].message, "level": str(messages[-1].level[0]), **values}

        self.wait(f"{node}/status", lambda: bool(messages))
        return newest

    def diagnostics(self) -> dict[str, Any]:
        """The newest entry of every name on ``/diagnostics``, in a mapping that keeps up."""
        from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415

        newest: dict[str, Any] = {}

        def keep(message: Any) -> None:  # noqa: ANN401 - a generated message
            newest.update({status.name: status for status in message.status})

        self.node.create_subscription(DiagnosticArray, "/diagnostics", keep, 10)
        return newest

    def close(self) -> None:
        """End every process and the node."""
        for process in self.processes:
            process.kill()
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()


_DOMAINS = count()


@contextmanager
def ros_graph(folder: Path) -> Iterator[Graph]:
    """A graph in a domain that nobody else gets while it lasts.

    Nor does this process take a domain twice in a row: it would still know the killed node of the test
    before, and send the only request to that one.
    """
    import domain_coordinator  # noqa: PLC0415

    with domain_coordinator.domain_id(lambda: next(_DOMAINS) % 100 + 1) as domain:
        graph = Graph(domain, folder)
        try:
            yield graph
        finally:
            graph.close()
