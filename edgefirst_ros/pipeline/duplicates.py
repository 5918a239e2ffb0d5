"""Finds messages that came before: the same one again, or another one of the same acquisition time."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from edgefirst_ros.config.topics import CONTEXT_ROLES, Route
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Role
from edgefirst_ros.pipeline.envelope import Digest, Envelope
from edgefirst_ros.video.headers import Content

KEPT = 16_384
"""A message is compared with so many of its topic at most."""

_SEVERAL_AT_ONCE = frozenset({Role.IMU, Role.GPS})
"""IMUs are read in bunches of one stamp; GPS receivers send every epoch twice, which the ego track knows."""

_CONTENTS = tuple(Content)
_KINDS = len(_CONTENTS)
_PICTURE = Content.PICTURE


@dataclass(frozen=True, slots=True)
class Repeat:
    """Why a message is refused; ``number`` counts different ones of one time from 1, 0 for the same again."""

    reason: str
    number: int = 0


class Duplicates:
    """Finds a topic's second message of one acquisition time, which a dataset must not hold twice.

    The first to arrive is kept. Exempt are calibration topics, and sensors that send several messages of one
    time; parts of one coded picture and its parameter sets belong together. Memory is bounded by ``KEPT``
    messages a topic.
    """

    def __init__(self) -> None:
        self._received: defaultdict[str, _Recent] = defaultdict(_Recent)
        self._timed: defaultdict[str, _Recent] = defaultdict(_Recent)

    def received(self, route: Route, receive_ns: int, digest: Digest) -> Repeat | None:
        """Judge a message before its clock is known: it may be in the recording twice, received only once."""
        if route.rule.role in CONTEXT_ROLES:
            return None
        recent = self._received[route.topic]
        # After a receiver's clock was set back by more than this, its times may repeat.
        if receive_ns < recent.newest_ns - 1_000_000_000:
            recent = self._received[route.topic] = _Recent()  # a simulation that begins anew repeats itself
        return (
            Repeat(Reason.SAME_MESSAGE) if recent.add(receive_ns, Content.PICTURE, digest) is None else None
        )

    def timed(self, envelope: Envelope, *, stamped: bool) -> Repeat | None:
        """Judge a message by its acquisition time; ``stamped`` if that comes from a stamp."""
        role, content = envelope.route.rule.role, envelope.content
        if role in CONTEXT_ROLES:
            return None
        recent = self._timed[envelope.topic]
        if content is Content.PART and not recent.has(envelope.time_ns, Content.PICTURE):
            content = Content.PICTURE  # all there is of it, so far
        number = recent.add(envelope.time_ns, content, envelope.digest)
        if not number:
            return Repeat(Reason.SAME_MESSAGE) if number is None else None
        # A time of receipt says nothing about acquisition; but pictures are found by their time.
        several = role in _SEVERAL_AT_ONCE or not (stamped or role is Role.CAMERA)
        if content is not Content.PICTURE or several:
            return None
        return Repeat(Reason.SAME_STAMP if stamped else Reason.SAME_RECEIPT, number)

    def forget(self) -> None:
        """The time base ends: later messages may have the same times."""
        self._received.clear()
        self._timed.clear()


class _Recent:
    """Digests of recent messages, by time and content."""

    def __init__(self) -> None:
        self._seen: dict[int, Digest | list[Digest]] = {}
        """By key, see ``_key``; a list where there are several."""
        self._order: deque[int] = deque()
        """The keys in order of arrival."""
        self.newest_ns = 0

    def has(self, time_ns: int, content: Content) -> bool:
        """Whether a message of that time and content is known."""
        return _key(time_ns, content) in self._seen

    def add(self, time_ns: int, content: Content, digest: Digest) -> int | None:
        """Add a message: how many others of that time and content came before it, None if this one did."""
        self.newest_ns = max(self.newest_ns, time_ns)
        key, seen, order = _key(time_ns, content), self._seen, self._order
        known = seen.get(key)
        number: int | None = 0
        if known is None:
            seen[key] = digest
            order.append(key)
        elif digest == known or (isinstance(known, list) and digest in known):
            number = None
        else:
            several = seen[key] = known if isinstance(known, list) else [known]
            number = len(several)
            several.append(digest)
        # A message is compared with those of its topic up to so long before; later ones are too late
        # anyway.
        oldest_key = (self.newest_ns - 30_000_000_000) * _KINDS
        while order and (len(order) > KEPT or order[0] < oldest_key):
            forgotten = order.popleft()
            del seen[forgotten]
            if forgotten == key:
                return 0
        return number


def _key(time_ns: int, content: Content) -> int:
    """Time and content as one number, in order of time."""
    return time_ns * _KINDS if content is _PICTURE else time_ns * _KINDS + _CONTENTS.index(content)
