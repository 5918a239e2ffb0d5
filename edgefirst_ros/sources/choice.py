"""Which topics are recorded besides those that are used."""

from __future__ import annotations

import re
from collections.abc import Callable

from edgefirst_ros.topics import TYPES, full_type

RAW = "sensor_msgs/msg/Image"
"""Raw pictures: hundreds of megabytes a second, so they are recorded only if somebody says so."""
_USABLE = frozenset(kind for kinds in TYPES.values() for kind in kinds) - {RAW}


def choice(pattern: str) -> Callable[[str, str], bool]:
    """Whether a topic of a type is recorded though it is not used, as ``record_topics`` has it.

    Without a pattern those are that another configuration could use, so that a wrong one loses nothing.
    """
    if not pattern:
        return lambda _, kind: full_type(kind) in _USABLE
    expression = re.compile(pattern)
    return lambda topic, _: expression.search(topic) is not None
