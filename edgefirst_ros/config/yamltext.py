"""YAML as persons write it: bounded, without values given twice, and every fault says where it is."""

from __future__ import annotations

import errno
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.untrusted import read_regular

_MOST_NESTED = 100
_MOST_VALUES = 50_000
"""Names and values of a file, and as many again where aliases stand for others: some seconds of reading."""
_LONGEST_NUMBER = 100
MOST_CONFIG_BYTES = 1 << 20
"""A larger configuration file is not read."""


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
        # What is refused here, and by no system, has no number.
        fault = "is no configuration file" if error.errno in {None, errno.EFBIG} else "cannot be read"
        if isinstance(error, IsADirectoryError):
            raise ConfigError([f"{path}: is a folder; name a configuration file in it"]) from error
        raise ConfigError([f"{path}: {fault}: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: is no configuration file: it is not UTF-8"]) from error


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
