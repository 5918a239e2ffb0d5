"""How long a trajectory rests on what: measured, interpolated, dead-reckoned or assumed."""

from __future__ import annotations

from collections import Counter

from edgefirst_ros.sample import EgoPose, PoseBasis

_WORST_FIRST = tuple(reversed(PoseBasis))
_WORTH_SAYING_NS = 1_000_000_000


class PoseAccount:
    """Counts the time between poses under the worse basis of the two, for position and rotation."""

    def __init__(self) -> None:
        self._time_ns: int | None = None
        self._last: tuple[PoseBasis, PoseBasis] | None = None
        self._spans_ns: dict[str, Counter[PoseBasis]] = {"position": Counter(), "rotation": Counter()}

    def add(self, pose: EgoPose) -> None:
        """The next pose, in order of time."""
        bases = (
            PoseBasis.ASSUMED if pose.position_m is None else pose.position_basis,
            PoseBasis.ASSUMED if pose.rotation_xyzw is None else pose.rotation_basis,
        )
        if self._time_ns is not None and self._last is not None:
            span_ns = max(0, pose.time_ns - self._time_ns)
            for spans, now, before in zip(self._spans_ns.values(), bases, self._last, strict=True):
                worse = next(basis for basis in _WORST_FIRST if basis in {now, before})
                spans[worse] += span_ns
        self._time_ns, self._last = pose.time_ns, bases

    def summary(self) -> dict[str, dict[str, float]] | None:
        """Seconds by basis, of the position and of the rotation; None if there was no pose at all."""
        if self._last is None:
            return None
        return {
            part: {str(basis): round(spans[basis] / 1e9, 3) for basis in PoseBasis}
            for part, spans in self._spans_ns.items()
        }

    def warnings(self) -> list[str]:
        """What a user must know: for how long the position or rotation is unknown or dead-reckoned."""
        found = []
        for part, spans in self._spans_ns.items():
            total = f"{spans.total() / 1e9:,.1f} s"
            for basis, what in ((PoseBasis.ASSUMED, "unknown"), (PoseBasis.DEAD_RECKONED, "dead-reckoned")):
                if spans[basis] >= _WORTH_SAYING_NS:
                    found.append(f"the rig's {part} is {what} for {spans[basis] / 1e9:,.1f} s of {total}")
        return found
