"""Where decoding can start, and from which start on each picture is right."""

from __future__ import annotations

from dataclasses import dataclass

_KEPT = 4
"""Complete starts remembered: pictures shown before the newest may need the one before it."""


@dataclass(slots=True)
class _Start:
    time_ns: int
    key: bool
    due: int | None
    """frame_num of the reference picture that completes it, None once it is complete."""
    since_ns: int = 0
    """Pictures shown from then on are right, once it is complete."""


class Starts:
    """The starts since the last loss, in decode order, one a group of pictures.

    A key frame is complete at once. A recovery point is when its last picture, known by its frame_num, has
    been decoded; until then, and for what is shown before that picture, decoding must start earlier.

    Source: ITU-T H.264, clause D.2.8.
    """

    def __init__(self) -> None:
        self._starts: list[_Start] = []

    @property
    def any(self) -> bool:
        """Whether decoding can have started at all."""
        return bool(self._starts)

    def lose(self) -> None:
        """A picture was lost: nothing that started before is right any more."""
        self._starts.clear()

    def key(self, time_ns: int) -> None:
        """A key frame."""
        self._starts.append(_Start(time_ns, key=True, due=None, since_ns=time_ns))
        self._prune()

    def gradual(self, time_ns: int, due: int) -> None:
        """A recovery point that the reference picture of frame_num ``due`` completes."""
        self._starts.append(_Start(time_ns, key=False, due=due))

    def decoded(self, time_ns: int, frame_num: int) -> None:
        """A reference picture follows, or is that of the start itself."""
        for start in self._starts:
            if start.due == frame_num:
                start.due, start.since_ns = None, time_ns
        self._prune()

    def reach(self, time_ns: int) -> tuple[int, int] | None:
        """The start that makes a picture right, as groups back from its own, and its time, if any does."""
        for back, start in enumerate(reversed(self._starts)):
            if start.due is None and time_ns >= start.since_ns:
                return back, start.time_ns
        return None

    def is_leading(self, time_ns: int) -> bool:
        """Whether a picture is shown before the key frame that began its group."""
        return bool(self._starts) and self._starts[-1].key and time_ns < self._starts[-1].time_ns

    def _prune(self) -> None:
        complete = [place for place, start in enumerate(self._starts) if start.due is None]
        if len(complete) > _KEPT:
            del self._starts[: complete[-_KEPT]]
