"""Which moments of a drive are worth a sample: none that shows what the one before shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgefirst_ros.model.reasons import Reason

STOPS_M_S, STARTS_M_S = 0.2, 0.6
"""Slower than the first the rig stands, until it is faster than the second. Estimates of a rig that stands
are within 0.1 m/s; a queue that creeps is faster than both."""


class Moving:
    """Chooses moments of one sequence, in order of time.

    Of a stop the first moment is taken, and no other. Where no motion is known, every moment is taken.

    Args:
        every_m: distance in a straight line between two that are taken; 0 for any.
        skip_standstill: take one of each stop; so it is with a distance, whatever positions drift.

    Attributes:
        was_unknown: whether the last moment was taken because nothing is known of it.
    """

    def __init__(self, every_m: float = 0.0, *, skip_standstill: bool = False) -> None:
        self._every_m = every_m
        self._skips = skip_standstill or every_m > 0
        self._stands = False
        self._last_m: tuple[float, ...] | None = None
        self.was_unknown = False

    @property
    def chooses(self) -> bool:
        """Whether any moment can be left out."""
        return self._skips

    def refusal(
        self, position_m: Sequence[float] | None, speed_m_s: float | None, *, can_be: bool = True
    ) -> Reason | None:
        """Why a moment is not taken, None if it is, or would be.

        Args:
            position_m: east and north, or x and y, in a frame that stays; None if it is not known.
            speed_m_s: of the rig; None if it is not known.
            can_be: whether it is taken if nothing speaks against it; of a stop the next one is taken then.
        """
        if not self._skips:
            return None
        place = None if position_m is None else tuple(position_m[:2])
        stood, stands = self._stands, self._stands_now(speed_m_s)
        self._stands = stands and (can_be or stood)
        self.was_unknown = place is None and speed_m_s is None
        if self.was_unknown:
            return None
        if stood and stands:
            return Reason.STANDING
        # A rig that has just stopped is where it was a moment before.
        is_apart = place is None or self._last_m is None or math.dist(place, self._last_m) >= self._every_m
        if self._every_m and not is_apart:
            return Reason.TOO_NEAR
        if can_be:
            self._last_m = place or self._last_m
        return None

    def restart(self) -> None:
        """Positions are in another frame from here on."""
        self._last_m = None

    def anew(self) -> Moving:
        """Another one, for the next sequence."""
        return Moving(self._every_m, skip_standstill=self._skips)

    def _stands_now(self, speed_m_s: float | None) -> bool:
        if speed_m_s is None:
            return False
        return speed_m_s < (STARTS_M_S if self._stands else STOPS_M_S)
