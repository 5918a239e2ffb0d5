"""Runs a node from its arguments to its exit code, and reports errors in lifecycle transitions.

A node's parameters: declared from pydantic models, and validated as a whole whenever they change.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Generic, TypeVar

import rclpy
from lifecycle_msgs.srv import ChangeState
from pydantic import BaseModel, ValidationError
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

from edgefirst_ros.config.files import understood
from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.live.signals import finishing
from edgefirst_ros.model.errors import ConfigError, EdgeFirstError, option_names, sentences, unknown_parameter
from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.nodes import parameters as files
from edgefirst_ros.nodes.options import LIVE, NAMES, OTHERS, READ_ONLY, check_arguments, refuse
from edgefirst_ros.nodes.parameters import QOS_OVERRIDE, ParameterSpec, converted, nest, specify
from edgefirst_ros.pipeline.processes import keep_freed_memory

USAGE = 2
"""Exit code: arguments or configuration are invalid, so starting the node again would not help."""
WAKE_S = 0.2
"""Longest wait of an idle executor: Python handles signals only when it wakes up."""
RECEIVE_EVERY_S = 0.002
"""How often a node receives while messages arrive. Some middlewares give the time of this as receive time."""
CALLBACK_EVERY_S = 0.02
"""How often a timer or service runs meanwhile; each time the executor prepares to wait for everything."""


def run(make: Callable[[], Any], name: str, options: type[BaseModel], arguments: Sequence[str] | None) -> int:
    """Create a node, spin it until it is done or a signal asks it to finish, and return its exit code.

    Besides what rclpy's have, the node has ``done`` and ``exit_code``, ``receive``, which takes messages that
    have arrived and says whether more may come soon, else the executor waits, and ``finish``, which completes
    the work in progress, even when a callback fails.
    """
    keep_freed_memory()  # before the middleware has threads
    given = sys.argv if arguments is None else arguments
    try:
        # First, because rcl's own message about a broken file names a line of its source code.
        files.check_parameter_files(given, name)
        check_arguments(name, options, remove_ros_args(given)[1:])
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except ConfigError as error:
        sys.stderr.write("".join(f"{name}: {visible(fault)}\n" for fault in error.faults))
        return USAGE
    except RuntimeError as error:
        refuse(name, _without_source(error))
    stop = threading.Event()
    try:
        with finishing(stop, lambda text: print(text, file=sys.stderr)):  # noqa: T201 - nothing else is safe
            try:
                node = make()
            except RuntimeError as error:
                if "error creating node" not in str(error):
                    raise
                refuse(name, f"{_without_source(error)}; the middleware says above what is wrong")
            executor = SingleThreadedExecutor()
            executor.add_node(node)
            _spin(node, executor, stop)
            node.finish()
            executor.shutdown()
            node.destroy_node()
        return int(node.exit_code)
    finally:
        rclpy.try_shutdown()


def _without_source(error: RuntimeError) -> str:
    """What follows the first comma are lines of the source code of rcl."""
    return str(error).partition(", at ")[0].strip()


def _spin(node: Any, executor: Any, stop: threading.Event) -> None:  # noqa: ANN401 - rclpy's, untyped
    callbacks_due_s = 0.0
    while not stop.is_set() and not node.done:
        try:
            start_s = time.monotonic()
            is_busy = node.receive()
            if not is_busy or start_s >= callbacks_due_s:
                callbacks_due_s = start_s + CALLBACK_EVERY_S
                executor.spin_once(timeout_sec=0.0 if is_busy else WAKE_S)
            if is_busy:
                time.sleep(max(0.0, start_s + RECEIVE_EVERY_S - time.monotonic()))
        except ExternalShutdownException:
            return
        except Exception:  # noqa: BLE001 - one failing callback must not lose the session
            node.get_logger().fatal(f"a callback failed:\n{traceback.format_exc()}")
            node.exit_code = 1
            return


Transition = Callable[[Any, LifecycleState], Any]
"""Of a node that has ``report_problem``."""


def reporting_errors(transition: Transition) -> Transition:
    """Decorate a lifecycle transition to report its exceptions, which rclpy turns into errors silently."""

    @wraps(transition)
    def wrapped(node: Any, state: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's, untyped
        try:
            return transition(node, state)
        except EdgeFirstError as error:
            node.report_problem(str(error))
            return TransitionCallbackReturn.ERROR
        except Exception:
            node.get_logger().fatal(f"{transition.__name__} failed:\n{traceback.format_exc()}")
            raise

    return wrapped


def answer_impossible_transitions(node: Any) -> None:  # noqa: ANN401 - rclpy's lifecycle node, untyped
    """Make a request for a transition that the node's state does not have fail, as it does with rclcpp.

    rclpy raises an error, which would end the node and its session: a lifecycle manager needs only to
    configure a node that has configured itself.
    """

    def answering(change: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:  # noqa: ANN401
        try:
            return change(request, response)
        except rclpy_implementation.RCLError:
            wanted = request.transition.label or f"transition {request.transition.id}"
            node.get_logger().warning(
                f"{wanted} is impossible now: it was not made; see `ros2 lifecycle list`"
            )
            response.success = False
            return response

    for service in node.services:
        if service.srv_type is ChangeState:
            service.callback = partial(answering, service.callback)


Options = TypeVar("Options", bound=BaseModel)


class WithoutEmptyLists:
    """A node whose files may set lists to nothing, as ``ros2 param dump`` does: that is not set.

    An empty list of a file has no type, so that rclpy could not declare it.
    """

    def declare_parameters(self, namespace: str, parameters: Any, ignore_override: bool = False) -> Any:  # noqa: ANN401
        """As in rclpy."""
        typed = [each for each in parameters if len(each) < 2 or each[1] is not None]
        return super().declare_parameters(namespace, typed, ignore_override)  # type: ignore[misc]


class NodeParameters(Generic[Options]):
    """The configuration and a node's own options as ROS parameters.

    The node must have been created with ``automatically_declare_parameters_from_overrides``, so that unknown
    names and values of a wrong type are reported together with all other faults.

    Args:
        node: the node to declare the parameters on.
        options: model of the node's own options.
        locked: returns why only parameters in ``LIVE`` can change now; empty if all can.
    """

    def __init__(self, node: Node, options: type[Options], locked: Callable[[], str]) -> None:
        self._node = node
        self._options = options
        self._locked = locked
        own = specify(options)
        self._own = {spec.name for spec in own}
        given = sorted(node.get_parameters_by_prefix(""))
        foreign = [name for name in given if name in NAMES - self._own]
        for name in foreign:
            node.undeclare_parameter(name)
        if foreign:
            node.get_logger().info(f"ignored, another node's parameters: {', '.join(foreign)}")
        self.given = [name for name in given if name not in foreign and not name.startswith(OTHERS)]
        """Names of the parameters that were given at start, without another node's."""
        self._specs = [*own, *specify(Config, self.given)]
        for spec in self._specs:
            self._declare(spec)
        node.add_on_set_parameters_callback(self._on_set)

    def build(self, suggested: Mapping[str, Any] | None = None) -> tuple[Options, Config]:
        """Validate the parameters as they are now, with values of a configuration in place of some.

        Raises:
            ConfigError: lists every fault.
        """
        faults, options, config = self._validate(self._values(), suggested or {})
        if faults or options is None or config is None:
            raise ConfigError(faults)
        return options, config

    def _declare(self, spec: ParameterSpec) -> None:
        node, value = self._node, spec.default
        if node.has_parameter(spec.name):
            given = converted(spec, node.get_parameter(spec.name).value)
            if given is None:
                # It stays as given; build() reports it with all other faults.
                node.set_descriptor(spec.name, _descriptor(spec, dynamic_typing=True))
                return
            value = given
            node.undeclare_parameter(spec.name)
        # rclpy takes an empty list for a byte array, so the type is declared first.
        kind = Parameter.Type[spec.kind.replace(" ", "_").upper()]
        node.declare_parameter(
            spec.name, kind if value == [] else value, _descriptor(spec), ignore_override=True
        )
        if value == []:
            node.set_parameters([Parameter(spec.name, kind, [])])

    def _values(self) -> dict[str, Any]:
        names = {spec.name for spec in self._specs} | set(self.given)
        return {name: self._node.get_parameter_or(name, Parameter(name)).value for name in names}

    def _validate(
        self, values: Mapping[str, Any], suggested: Mapping[str, Any] = {}
    ) -> tuple[list[str], Options | None, Config | None]:
        options = config = None
        own = {name: value for name, value in values.items() if name in self._own}
        others = {n: value for n, value in values.items() if n.partition(".")[0] in Config.model_fields}
        # Checked here, since neither model knows the other's names.
        unknown = sorted(values.keys() - own.keys() - others.keys())
        faults = [unknown_parameter(name, [*NAMES, *option_names(Config)]) for name in unknown]
        try:
            options = self._options.model_validate(nest(own, self._specs))
        except ValidationError as error:
            faults += sentences(error, self._options)
        try:
            nested = nest(others, self._specs)
            for name, value in suggested.items():
                nested[name] = {**nested[name], **value} if isinstance(value, dict) else value
            config = build_config(understood(nested, Config, files.folder_of(sys.argv)))
        except ConfigError as error:
            faults += error.faults
        return faults, options, config

    def _on_set(self, changes: Sequence[Parameter]) -> SetParametersResult:
        ours = {p.name: p.value for p in changes if not p.name.startswith(OTHERS)}
        names = (each.name for each in changes if not each.name.startswith(QOS_OVERRIDE))
        fixed = ", ".join(name for name in names if name not in LIVE)
        if fixed and (reason := self._locked()):
            return SetParametersResult(successful=False, reason=f"{fixed}: {reason}")
        # Faults that other parameters already had are no reason to reject this change.
        known = self._validate(self._values())[0]
        faults, _, _ = self._validate({**self._values(), **ours})
        own = tuple(f"{name}: " for name in ours)
        new = [fault for fault in faults if fault not in known or fault.startswith(own)]
        return SetParametersResult(successful=not new, reason="; ".join(new))


def _descriptor(spec: ParameterSpec, **more: bool) -> ParameterDescriptor:
    return ParameterDescriptor(
        description=spec.description,
        additional_constraints=spec.constraints,
        read_only=spec.name in READ_ONLY,
        **more,
    )
