"""Messages that came before: the same one again, or another that says it is of the same time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from edgefirst_ros.codecs.zlib_backend import crc32
from edgefirst_ros.pipeline.envelope import Heard
from edgefirst_ros.sample import Role
from edgefirst_ros.topics import CONTEXT_ROLES
from edgefirst_ros.video.bitstream import Content

SAME = "the same message twice"
SECOND_STAMP = "a second message with the stamp of the one before"
SECOND_RECEIVED = "a second message received at the very time of the one before"
KEPT_NS = 30_000_000_000
"""How far back in its topic's time a message is compared; what is later than that is late anyway."""
SET_BACK_NS = 1_000_000_000
"""A receiver's clock that was set back by so much may say the same time once more."""
KEPT = 16_384
"""And with how many at most."""

_SEVERAL_AT_ONCE = frozenset({Role.IMU, Role.GPS})
"""IMUs are read in bunches of one stamp; receivers send every epoch twice, which the ego track knows."""

_Key = tuple[int, Content]
_Digest = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Why a message is refused; ``number`` counts different ones of one time from 1, 0 for the same again."""

    reason: str
    number: int = 0


class Duplicates:
    """Finds what a dataset must not hold twice: a topic's second message of one acquisition time.

    The first to arrive is kept. Exempt are topics that are read for what they say about the others, and
    other messages of one time where the sensor sends several; parts of one coded picture, and its parameter
    sets, belong together. Memory is bounded by ``KEPT`` messages a topic.
    """

    def __init__(self) -> None:
        self._received: dict[str, _Recent] = {}
        self._timed: dict[str, _Recent] = {}

    def received(self, heard: Heard) -> Repeat | None:
        """Judge a message before its clock is known: it is in the recording twice, received only once."""
        raw = heard.raw
        if heard.route.rule.role in CONTEXT_ROLES:
            return None
        recent = self._received.setdefault(raw.topic, _Recent())
        if raw.receive_ns < recent.newest_ns - SET_BACK_NS:
            recent = self._received[raw.topic] = _Recent()  # a simulation that begins anew repeats itself
        seen = recent.at((raw.receive_ns, Content.PICTURE))
        digest = _digest(heard)
        if digest in seen:
            return Repeat(SAME)
        seen.append(digest)
        return None

    def timed(self, heard: Heard, content: Content, time_ns: int, *, stamped: bool) -> Repeat | None:
        """Judge a message by its acquisition time; ``stamped`` if it comes from a stamp, not from receipt."""
        role = heard.route.rule.role
        if role in CONTEXT_ROLES:
            return None
        recent = self._timed.setdefault(heard.raw.topic, _Recent())
        if content is Content.PART and not recent.at((time_ns, Content.PICTURE)):
            content = Content.PICTURE  # all there is of it, so far
        seen = recent.at((time_ns, content))
        digest = _digest(heard)
        if digest in seen:
            return Repeat(SAME)
        seen.append(digest)
        # A time of receipt says nothing about acquisition; but pictures are found by their time.
        several = role in _SEVERAL_AT_ONCE or not (stamped or role is Role.CAMERA)
        if len(seen) == 1 or content is not Content.PICTURE or several:
            return None
        return Repeat(SECOND_STAMP if stamped else SECOND_RECEIVED, len(seen) - 1)

    def copy(self) -> Duplicates:
        """The same memory, for a second one to go on with."""
        other = Duplicates()
        other._received = {topic: recent.copy() for topic, recent in self._received.items()}
        other._timed = {topic: recent.copy() for topic, recent in self._timed.items()}
        return other

    def forget(self) -> None:
        """The time base ends: what follows may have the same times."""
        self._received.clear()
        self._timed.clear()


class _Recent:
    """Digests of what was taken lately, by time and content."""

    def __init__(self) -> None:
        self._seen: dict[_Key, list[_Digest]] = {}
        self._order: deque[_Key] = deque()
        self.newest_ns = 0

    def copy(self) -> _Recent:
        """The same, to be added to by itself."""
        other = _Recent()
        other._seen = {key: list(digests) for key, digests in self._seen.items()}
        other._order, other.newest_ns = deque(self._order), self.newest_ns
        return other

    def at(self, key: _Key) -> list[_Digest]:
        """The digests of a key, to be added to."""
        self.newest_ns = max(self.newest_ns, key[0])
        if key not in self._seen:
            self._seen[key] = []
            self._order.append(key)
        while self._order and (len(self._order) > KEPT or self._order[0][0] < self.newest_ns - KEPT_NS):
            del self._seen[self._order.popleft()]
        return self._seen.get(key, [])


def _digest(heard: Heard) -> _Digest:
    return len(heard.raw.data), crc32(heard.raw.data)
