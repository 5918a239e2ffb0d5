"""Combines the values of a configuration with those that a user chose on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.formats.registry import FORMATS

SELECTIONS = frozenset({"rate_hz", "every_n", "keyframes"})


def chosen_config(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> Config:
    """The configuration of ``values`` with what was chosen in their place.

    Args:
        values: plain values of a file or of a recorded session.
        chosen: single settings, also in the blocks of formats; None means not given.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    merged = dict(values)
    given = _given(chosen)
    if SELECTIONS & given.keys():  # they exclude one another, so this one replaces the file's
        merged = {key: value for key, value in merged.items() if key not in SELECTIONS}
    for name in FORMATS.keys() & given.keys():
        if isinstance(own := given[name], Mapping) and isinstance(before := merged.get(name, {}), Mapping):
            given[name] = {**before, **_given(own)}
    return build_config(merged | given)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
