"""A Zenoh configuration file (TLS, user, password, ...), whose faults are reported without its secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from edgefirst_ros.config.files import parse_yaml, read_named
from edgefirst_ros.errors import ConfigError, extra

with extra("zenoh"):
    import zenoh

_TOKEN = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(//[^\n]*|/\*.*?\*/|\t)|(:)""", re.S)
"""Strings, comments and colons of JSON5."""
_MOST_NESTED = 2000
"""Some ten thousand brackets in one another crash Zenoh, and this process."""
_PLACE = re.compile(r"--> (\d+):(\d+)")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


def load_zenoh_config(path: Path) -> zenoh.Config:
    """The configuration in a file, JSON5 or, by its ending, YAML, as Zenoh itself takes it.

    Raises:
        ConfigError: the file cannot be read, or Zenoh does not take a value, whose key is named; no value is
            shown, as it may be a secret.
    """
    text = read_named(path)
    if path.suffix.lower() not in {".yaml", ".yml"}:
        return _parsed(path, text, text)
    try:
        json5 = json.dumps(parse_yaml(text), default=str)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError([f"{path}{line}: cannot be read as YAML"]) from None
    return _parsed(path, json5, text)


def _parsed(path: Path, json5: str, text: str) -> zenoh.Config:
    # Wherever they close: what is a comment or a string to Zenoh is not known before it reads the text.
    if json5.count("[") + json5.count("{") > _MOST_NESTED:
        raise ConfigError([f"{path}: has more than {_MOST_NESTED:,} opening brackets"])
    try:
        return zenoh.Config.from_json5(json5)
    except zenoh.ZError as error:
        said = str(error)
    # Not chained: what Zenoh says shows the line, or the value.
    if place := _PLACE.search(said):
        raise ConfigError([f"{path}, line {place[1]}, column {place[2]}: cannot be read as JSON5"])
    data = _mapping(text)
    if not isinstance(data, Mapping):
        raise ConfigError([f"{path}: holds no values by name"])
    faults = [f"{path}: {key}: {what}" for key, what in _faults(data, ())]
    if not faults and (unknown := _UNKNOWN.search(said)):
        faults = [f"{path}: {unknown[1]}: Zenoh knows no such key"]
    raise ConfigError(
        faults
        or [f"{path}: Zenoh rejects it; a password needs a user, and a user needs a password or a dictionary"]
    )


def _mapping(text: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """The file's content as far as YAML can read it, into which JSON5 is turned; else None."""
    spaced = _TOKEN.sub(lambda found: found[1] or (" " if found[2] else ": "), text)
    for each in (spaced, text):
        try:
            return parse_yaml(each)
        except yaml.YAMLError:
            continue
    return None


def _faults(data: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - see above
    """Each key that Zenoh does not take, and why."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _faults(value, (*path, str(name)))
        return
    key = "/".join(path)
    try:
        zenoh.Config().insert_json5(key, json.dumps(data, default=str))
    except zenoh.ZError as error:
        unknown = "unknown key" in str(error)
        yield key, "Zenoh knows no such key" if unknown else "Zenoh rejects this value"
