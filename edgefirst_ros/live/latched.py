"""What came once and holds from then on: a file that begins later has to say it again."""

from __future__ import annotations

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.messages.transform import Transforms
from edgefirst_ros.sample import Role
from edgefirst_ros.topics import CONTEXT_ROLES, TF, TYPES, full_type

MAX_KEPT = 256
"""Messages, at most: as many topics and frames say something lasting on any rig."""
_LASTING = frozenset(kind for role in CONTEXT_ROLES for kind in TYPES[role]) - {TF}
_Key = tuple[str, str, tuple[str, ...]]


class Latched:
    """The last message of every topic that says something lasting; of transforms, of every set of frames."""

    def __init__(self, config: Config) -> None:
        rules = config.topics.values()
        static = [name for rule in rules if rule.role is Role.TF for name in rule.plain_names]
        self._static = {f"/{name.strip('/')}" for name in static}
        self._kept: dict[_Key, RawMessage] = {}

    def see(self, message: RawMessage) -> None:
        """Take any message in."""
        kind = full_type(message.schema)
        if message.fault or not self._lasts(message.topic, kind):
            return
        key = message.topic, kind, _frames(message)
        if key not in self._kept and len(self._kept) >= MAX_KEPT:
            return
        # The newest last, as they came.
        self._kept.pop(key, None)
        self._kept[key] = message

    def messages(self) -> list[RawMessage]:
        """Those that hold now, in the order in which they came."""
        return list(self._kept.values())

    def _lasts(self, topic: str, kind: str) -> bool:
        if kind == TF:  # of the same type as what moves
            return topic.endswith("tf_static") or topic in self._static
        return kind in _LASTING


def _frames(message: RawMessage) -> tuple[str, ...]:
    try:
        datum = decode(message).datum
    except DecodeError:
        return ()
    return tuple(each.child for each in datum.transforms) if isinstance(datum, Transforms) else ()
