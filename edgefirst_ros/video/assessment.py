"""What is told about an access unit, and by what: a module for each codec follows its headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from edgefirst_ros.video.bitstream import NalUnit, ParameterSets, RecoveryPoint

EPOCH_BITS = 40
"""More than any display order has within a stretch that counts it from one picture."""


class Assessment(NamedTuple):
    """What the headers tell about one access unit.

    Attributes:
        reason: why its picture cannot be trusted, None if it can.
        picture: it contains a picture.
        decodable: a decoder that was fed the last start and everything decodable since may be fed this.
        key: decoding can start here, and its picture is correct at once.
        starts: decoding can start here, if only gradually: a group of pictures begins.
        linked: where a group begins, that a decoder fed the group before may simply go on.
        leading: shown before its own group's key frame, and refers to pictures before that.
        reference: later pictures refer to it.
        back: decoding must start this many groups before its own for its picture to be correct; None if no
            start makes it so.
        start_ns: time of the access unit where decoding must start, None for that of the last key frame.
        poc: display order modulo ``poc_modulus``, None if the stream does not number it simply.
        poc_modulus: where ``poc`` wraps.
        order: its place in display order, None if ``poc`` is.
        fewer_slices: its slices begin where some of another picture's do, so that the rest may be lost.
        judgeable: the profile of H.265 is one that ``H265Syntax`` parses.
        size: width and height of the picture in pixels, None if there is none.
        prefix: parameter sets that the decoder must be given before it.
        primer: what a decoder that starts here must be fed first to have pictures to refer to, if anything.
    """

    reason: str | None
    picture: bool = True
    decodable: bool = False
    key: bool = False
    starts: bool = False
    linked: bool = False
    leading: bool = False
    reference: bool = True
    back: int | None = 0
    start_ns: int | None = None
    poc: int | None = None
    poc_modulus: int = 1
    order: int | None = None
    fewer_slices: bool = False
    judgeable: bool = True
    size: tuple[int, int] | None = None
    prefix: bytes = b""
    primer: bytes = b""


class Follower(Protocol):
    """Follows one codec's slice headers in decode order."""

    reason: str | None
    """Why pictures cannot be trusted until decoding has started again, None while they can."""
    breach: str
    """How the stream breaks its standard without harm, empty if it does not."""

    @property
    def sets(self) -> ParameterSets[Any, Any]:
        """The parameter sets in force."""

    def assess(
        self, slices: Sequence[NalUnit], time_ns: int, *, key: bool, gradual: RecoveryPoint | None
    ) -> Assessment:
        """Assess the next picture by its slices; ``gradual`` is its recovery point if it has one."""

    def lose(self, reason: str) -> None:
        """Note that an access unit is missing or unreadable."""
