"""Combines the values of a configuration with those that a user chose in a command or a call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.errors import ConfigError

SELECTIONS = frozenset({"rate_hz", "every_n", "keyframes"})


def make_config(
    file: Path | None,
    chosen: Mapping[str, Any],
    edgefirst: Mapping[str, Any],
    *,
    incomplete: bool,
    recorded: Mapping[str, Any] | None = None,
) -> Config:
    """Combine the values of a configuration file with those that were chosen, which win.

    Args:
        file: configuration file; None takes ``recorded`` instead.
        chosen: single settings; None means not given.
        edgefirst: the same for the options of EdgeFirst datasets.
        incomplete: no topic is required, whatever the configuration says.
        recorded: settings that were stored in the recording.

    Raises:
        ConfigError: with one sentence for every fault; faults of the file begin with its name.
    """
    values = dict(recorded or {})
    if file is not None:
        from edgefirst_ros.config.files import load_values

        values = load_values(file)
    try:
        build_config(values)
    except ConfigError as error:
        raise ConfigError([f"{file}: {fault}" for fault in error.faults]) from error
    return chosen_config(values, chosen, edgefirst, incomplete=incomplete)


def chosen_config(
    values: Mapping[str, Any], chosen: Mapping[str, Any], edgefirst: Mapping[str, Any], *, incomplete: bool
) -> Config:
    """The configuration of ``values`` with what was chosen in their place.

    Args:
        values: plain values of a file or of a recorded session.
        chosen: single settings; None means not given.
        edgefirst: the same for the options of EdgeFirst datasets.
        incomplete: no topic is required, whatever ``values`` say.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    merged = dict(values)
    given = {key: value for key, value in chosen.items() if value is not None}
    if SELECTIONS & given.keys():  # they exclude one another, so this one replaces the file's
        merged = {key: value for key, value in merged.items() if key not in SELECTIONS}
    merged |= given
    own = {key: value for key, value in edgefirst.items() if value is not None}
    merged["edgefirst"] = {**(merged.get("edgefirst") or {}), **own}
    config = build_config(merged)
    if incomplete:
        topics = {name: rule.model_copy(update={"required": "never"}) for name, rule in config.topics.items()}
        config = config.model_copy(update={"topics": topics})
    return config
