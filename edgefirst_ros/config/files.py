"""Configuration files: YAML, plain or as ROS 2 parameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgefirst_ros.config.model import NODE_PARAMETERS, Config, build_config
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.untrusted import read_regular

_MOST_NESTED = 100
_MOST_VALUES = 50_000
"""Names and values of a file, and as many again where aliases stand for others: some seconds of reading."""
_LONGEST_NUMBER = 100
SHARE = Path("share", "edgefirst_ros", "config")
_ELSEWHERE = {
    "rate": "rate_hz and --rate set the samples per second",
    "name": "--name sets it",
    "session": "--session of capture sets it",
    "output": "--output sets it",
    "overwrite": "--overwrite sets it",
    "bag": "recordings are arguments of the command",
    "start_paused": "--start-paused of capture sets it",
}
"""Parameters of the ROS nodes for which a user of the command may hope, and what to use instead."""


class _SafeLoader(yaml.SafeLoader):
    """YAML whose every fault is a YAMLError that says where it is; not more than a person writes."""

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self._depth = self._values = 0
        self._sizes: dict[int, int] = {}
        """Of each complete node the values in it, those behind aliases each time that they are named."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 - PyYAML's
        """One value with all that is in it; an alias is the same node again."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        node = self.anchors.get(event.anchor) if isinstance(event, yaml.AliasEvent) else None
        is_inside = node is not None and id(node) not in self._sizes
        self._depth += 1
        self._values += 1
        for is_wrong, why in (
            (is_inside, "an alias for what it is in"),
            (self._depth > _MOST_NESTED, "nested too deeply"),
            (self._values > _MOST_VALUES, f"more than {_MOST_VALUES:,} values"),
        ):
            if is_wrong:
                raise yaml.composer.ComposerError(None, None, why, event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        inside = chain(*parts) if isinstance(node, yaml.MappingNode) else parts
        size = self._sizes[id(node)] = 1 + sum(self._sizes[id(part)] for part in inside)
        if size > 2 * _MOST_VALUES:
            raise yaml.composer.ComposerError(None, None, "aliases that stand for too much", event.start_mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401 - any value
        kind = node.tag.rpartition(":")[2]
        if kind in {"int", "float"} and len(node.value) > _LONGEST_NUMBER:
            raise yaml.constructor.ConstructorError(
                None, None, "a number of too many digits", node.start_mark
            )
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
            # PyYAML takes the text of a date, a number or a truth value for one without looking.
            raise yaml.constructor.ConstructorError(
                None, None, f"this is not a valid {kind}", node.start_mark
            ) from error


class _Loader(_SafeLoader):
    """YAML that does not take the last of two values without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _list(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return loader.construct_sequence(node)


# How launch writes lists.
_Loader.add_constructor("tag:yaml.org,2002:python/tuple", _list)


def parse_yaml(text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    """What a YAML text holds.

    Raises:
        yaml.YAMLError: it is not YAML, or nested too deeply.
    """
    try:
        return yaml.load(text, _SafeLoader)
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error


NO_FILE = Path("none")
"""In place of a file: the defaults, and no suggestion."""
MOST_CONFIG_BYTES = 1 << 20
"""A larger configuration file is not read."""


def read_named(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        ConfigError: it is missing, no regular file, too large or not UTF-8.
    """
    try:
        return read_regular(path, MOST_CONFIG_BYTES).decode()
    except FileNotFoundError as error:
        raise ConfigError([f"{path}: no such configuration file"]) from error
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: is not UTF-8"]) from error


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as it is; an empty one holds nothing.

    Raises:
        ConfigError: if the file is missing, not YAML or not a mapping.
    """
    return yaml_mapping(str(path), read_named(path))


def yaml_mapping(name: str, text: str | bytes) -> dict[str, Any]:
    """What the text of a YAML file of this name holds.

    Raises:
        ConfigError: if it is not YAML or not a mapping.
    """
    try:
        data = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError([f"{name}{line}: cannot be read as YAML: {error.problem}"]) from error
    except (RecursionError, yaml.YAMLError) as error:
        raise ConfigError([f"{name}: cannot be read as YAML: {error}"]) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError([f"{name}: holds a {type(data).__name__}, expected parameters by name"])
    return data


def shipped() -> Mapping[str, Path]:
    """The configuration files that come with the package, by name: ``raivin`` for ``raivin.yaml``.

    pip and colcon install them below the prefix that the package is in; in a checkout they are beside it.
    """
    package = Path(__file__).resolve().parents[1]
    places = [package.parent / "config", *(above / SHARE for above in package.parents)]
    found = next((place for place in places if (place / "maivin.yaml").is_file()), None)
    return {} if found is None else {path.stem: path for path in sorted(found.glob("*.yaml"))}


def _meant(given: Path) -> Path:
    """The file of this path, or else the shipped one of this name.

    Raises:
        ConfigError: there is neither.
    """
    if given.is_file():
        return given
    named = shipped()
    if len(given.parts) == 1 and (found := named.get(given.name.removesuffix(".yaml"))):
        return found
    if given.exists():
        return given
    raise ConfigError([f"{given}: no such configuration file; give a path, or one of {', '.join(named)}"])


def load_values(path: Path, notes: list[str] | None = None) -> dict[str, Any]:
    """Values of a YAML file: a ROS 2 parameter file (any node's ``ros__parameters``) or a plain mapping.

    Of a parameter file, what concerns only the ROS nodes is left out.

    Args:
        path: the file, or the name of a shipped one.
        notes: gets a sentence for everything left out that a user may have meant for the command.

    Raises:
        ConfigError: the file is missing, not YAML, not a mapping, speaks of several nodes, or has values that
            the configuration refuses; every fault begins with its name.
    """
    values = _own_values(path, notes)
    _from_folder(values, path.parent, Config.model_fields)
    try:
        build_config(values)
    except ConfigError as error:
        raise ConfigError([f"{path}: {fault}" for fault in error.faults]) from error
    return values


def _from_folder(values: dict[str, Any], folder: Path, fields: Mapping[str, FieldInfo]) -> None:
    """Name from anywhere the files that options of a model name from the configuration's folder."""
    for name in values.keys() & fields.keys():
        values[name] = _placed(values[name], fields[name].annotation, folder)


def _placed(value: Any, kind: Any, folder: Path) -> Any:  # noqa: ANN401 - whatever a file holds, and a type
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, dict):
        _from_folder(value, folder, kind.model_fields)
    elif isinstance(value, dict) and get_origin(kind) is dict:
        return {name: _placed(each, get_args(kind)[1], folder) for name, each in value.items()}
    elif value and isinstance(value, str) and Path in (kind, *get_args(kind)):
        return str(folder / value)
    return value


def _own_values(path: Path, notes: list[str] | None) -> dict[str, Any]:
    """The file's values for the configuration, without those for the ROS nodes."""
    if path == NO_FILE:
        return {}
    data = read_yaml(_meant(path))
    blocks = [v["ros__parameters"] for v in data.values() if isinstance(v, dict) and "ros__parameters" in v]
    if not blocks:
        return data
    if len(blocks) > 1:
        raise ConfigError([f"{path}: holds parameters of {len(blocks)} nodes, expected one"])
    if not isinstance(blocks[0], dict):
        raise ConfigError([f"{path}: ros__parameters is not a mapping"])
    if notes is not None:
        notes += [
            f"{path}: {name} is a parameter of the ROS nodes and is not used here; {_ELSEWHERE[name]}"
            for name in blocks[0]
            if name in _ELSEWHERE
        ]
    return {name: value for name, value in blocks[0].items() if name not in NODE_PARAMETERS}
