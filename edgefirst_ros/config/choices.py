"""Combines the values of a configuration with those that a user chose on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgefirst_ros.config.model import Config, build_config

SELECTIONS = frozenset({"rate_hz", "every_n", "keyframes"})


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
