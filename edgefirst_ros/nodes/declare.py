"""A node's parameters: declared from pydantic models, and validated as a whole whenever they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.errors import ConfigError
from edgefirst_ros.faults import sentences, unknown_parameter
from edgefirst_ros.nodes.options import LIVE, NAMES, OTHERS, READ_ONLY
from edgefirst_ros.nodes.parameters import Kind, ParameterSpec, Value, converted, nest, specify

_TYPES = {kind: Parameter.Type[kind.replace(" ", "_").upper()] for kind in get_args(Kind)}

Options = TypeVar("Options", bound=BaseModel)


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
        given = sorted(p for p in node.get_parameters_by_prefix("") if not p.startswith(OTHERS))
        foreign = [name for name in given if name in NAMES - self._own]
        for name in foreign:
            node.undeclare_parameter(name)
        if foreign:
            node.get_logger().info(f"ignored, another node's parameters: {', '.join(foreign)}")
        self.given = [name for name in given if name not in foreign]
        """Names of the parameters that were given at start, without another node's."""
        self._specs = [*own, *specify(Config, self.given)]
        for spec in self._specs:
            self._declare(spec)
        node.add_on_set_parameters_callback(self._on_set)

    def build(self) -> tuple[Options, Config]:
        """Validate the parameters as they are now.

        Raises:
            ConfigError: lists every fault.
        """
        faults, options, config = self._validate(self._values())
        if faults or options is None or config is None:
            raise ConfigError(faults)
        return options, config

    def _declare(self, spec: ParameterSpec) -> None:
        node = self._node
        value: Value | None = spec.default
        if node.has_parameter(spec.name):
            given = node.get_parameter(spec.name).value
            value = converted(spec, given)
            if value is None:
                # It stays as given; build() reports it with all other faults.
                node.set_descriptor(spec.name, _descriptor(spec, dynamic=True))
                return
            node.undeclare_parameter(spec.name)
        limited = spec.limits is not None and isinstance(value, (int, float))
        inside = not limited or _inside(spec, value)
        descriptor = _descriptor(spec, limits=inside)
        if value != []:
            node.declare_parameter(spec.name, value, descriptor, ignore_override=True)
            return
        # rclpy takes an empty list for a byte array, so the type is declared first.
        node.declare_parameter(spec.name, _TYPES[spec.kind], descriptor, ignore_override=True)
        node.set_parameters([Parameter(spec.name, _TYPES[spec.kind], [])])

    def _values(self) -> dict[str, Any]:
        names = {spec.name for spec in self._specs} | set(self.given)
        return {name: self._node.get_parameter_or(name, Parameter(name)).value for name in names}

    def _validate(self, values: Mapping[str, Any]) -> tuple[list[str], Options | None, Config | None]:
        options = config = None
        own = {name: value for name, value in values.items() if name in self._own}
        others = {name: value for name, value in values.items() if _head(name) in Config.model_fields}
        # Checked here, since neither model knows the other's names.
        known = [*NAMES, *Config.model_fields]
        faults = [
            unknown_parameter(name, known) for name in sorted(values.keys() - own.keys() - others.keys())
        ]
        try:
            options = self._options.model_validate(nest(own, self._specs))
        except ValidationError as error:
            faults += sentences(error, self._options)
        try:
            config = build_config(nest(others, self._specs))
        except ConfigError as error:
            faults += error.faults
        return faults, options, config

    def _on_set(self, changes: Sequence[Parameter]) -> SetParametersResult:
        ours = [p for p in changes if not p.name.startswith(OTHERS)]
        reason = self._locked()
        fixed = [p.name for p in ours if p.name not in LIVE]
        if reason and fixed:
            return SetParametersResult(successful=False, reason=f"{', '.join(fixed)}: {reason}")
        # Faults that other parameters already had are no reason to reject this change.
        before = self._values()
        known = set(self._validate(before)[0])
        faults, _, _ = self._validate({**before, **{p.name: p.value for p in ours}})
        own = tuple(f"{p.name}: " for p in ours)
        new = [fault for fault in faults if fault not in known or fault.startswith(own)]
        return SetParametersResult(successful=not new, reason="; ".join(new))


def _head(name: str) -> str:
    return name.partition(".")[0]


def _inside(spec: ParameterSpec, value: object) -> bool:
    low, high = spec.limits or (0, 0)
    return isinstance(value, (int, float)) and low <= value <= high


def _descriptor(spec: ParameterSpec, *, dynamic: bool = False, limits: bool = False) -> ParameterDescriptor:
    descriptor = ParameterDescriptor(
        description=spec.description,
        additional_constraints=spec.constraints,
        read_only=spec.name in READ_ONLY,
        dynamic_typing=dynamic,
    )
    if limits and spec.limits is not None:
        low, high = spec.limits
        if spec.kind == "integer":
            descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
        elif spec.kind == "double":
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=float(low), to_value=float(high), step=0.0)
            ]
    return descriptor
