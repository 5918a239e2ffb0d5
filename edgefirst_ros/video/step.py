"""What following the headers tells of one access unit."""

from __future__ import annotations

from dataclasses import dataclass

BEFORE_KEY = "before the first key frame"
AFTER_LOSS = "after a lost frame"
NO_PICTURE = "no picture in the packet"


@dataclass(frozen=True, slots=True)
class Step:
    """What the next access unit in decode order turned out to be.

    Attributes:
        reason: why its picture cannot be trusted, None if it can.
        picture: it holds one at all.
        decodable: a decoder that was fed the last start and everything decodable since may be fed this.
        key: decoding can start here, and its picture is right at once.
        starts: decoding can start here, if only gradually: a group of pictures begins.
        linked: where a group begins, that a decoder fed the group before may simply go on.
        leading: shown before its own group's key frame, and builds on pictures before that.
        reference: later pictures build on it.
        back: so many groups before its own decoding must start for its picture to be right, None if no
            start makes it so.
        start_ns: time of the access unit where decoding must start, None for that of the last key frame.
        poc: display order modulo ``poc_modulus``, None if the stream does not number it simply.
        poc_modulus: where ``poc`` wraps.
        size: width and height of the picture in pixels, None if there is none.
        prefix: parameter sets that the decoder must be given before it.
        primer: what a decoder that starts here must be given first to have pictures to refer to, if anything.
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
    size: tuple[int, int] | None = None
    prefix: bytes = b""
    primer: bytes = b""
