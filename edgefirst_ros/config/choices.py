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
    recorded: Mapping[str, Any] | None = None,
    notes: list[str] | None = None,
) -> Config:
    """Combine the values of a configuration file with those that were chosen, which win.

    Args:
        file: configuration file; None takes ``recorded`` instead.
        chosen: single settings; None means not given.
        edgefirst: the same for the options of EdgeFirst datasets.
        recorded: settings that were stored in the recording.
        notes: gets a sentence for everything in the file that is not used, although it may look so.

    Raises:
        ConfigError: with one sentence for every fault; faults of the file begin with its name.
    """
    values = dict(recorded or {})
    if file is not None:
        from edgefirst_ros.config.files import load_values

        values = load_values(file, notes)
    try:
        build_config(values)
    except ConfigError as error:
        raise ConfigError([f"{file}: {fault}" for fault in error.faults]) from error
    return chosen_config(values, chosen, edgefirst)


def chosen_config(
    values: Mapping[str, Any], chosen: Mapping[str, Any], edgefirst: Mapping[str, Any]
) -> Config:
    """The configuration of ``values`` with what was chosen in their place.

    Args:
        values: plain values of a file or of a recorded session.
        chosen: single settings; None means not given.
        edgefirst: the same for the options of EdgeFirst datasets.

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
    return build_config(merged)
