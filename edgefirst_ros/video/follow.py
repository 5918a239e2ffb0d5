"""Follows slice headers in decode order, and finds which pictures a lost one took along."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from edgefirst_ros.video import h264, h265
from edgefirst_ros.video.annexb import NalUnit, RecoveryPoint
from edgefirst_ros.video.starts import Starts
from edgefirst_ros.video.step import AFTER_LOSS, BEFORE_KEY, Step

_NO_LEAP = 2
"""An empty decoder expects frame_num 0 or 1. At any other, or after another, it fills in what it takes for
lost; at those it would have nothing to refer to, and refuse the picture."""


class Follower(Protocol):
    """Follows one codec's slice headers in decode order."""

    reason: str | None
    """Why pictures cannot be trusted until decoding has started again, None while they can."""

    def add_sequence(self, data: bytes) -> int:
        """Take a sequence parameter set; its identifier."""

    def add_picture(self, data: bytes) -> int:
        """Take a picture parameter set; its identifier."""

    def step(self, unit: NalUnit, time_ns: int, *, key: bool, gradual: RecoveryPoint | None) -> Step:
        """Follow the next picture by its first slice; ``gradual`` is its recovery point if it has one."""

    def lose(self, reason: str) -> None:
        """Something could not be followed."""


class H264Follower(h264.ParameterSets):
    """Counts frame_num: every reference picture raises it by one, so a lost one leaves a gap (clause 7.4.3).

    A picture that resets the count by a memory management operation looks like a gap, which costs the
    pictures up to the next start, and never shows a damaged one.

    Decoding starts at key frames and, in a stream without them, at recovery points: what follows one is
    fed to the decoder, and not trusted until the last of the pictures has come that the point asks for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reason: str | None = BEFORE_KEY
        self._expected = -1
        self._starts = Starts()
        self._earlier_reason: str | None = None
        """Why pictures cannot be trusted that are shown before the start, None if they can."""

    def lose(self, reason: str) -> None:
        """Something could not be followed."""
        self.reason = self.reason or reason
        self._starts.lose()

    def step(self, unit: NalUnit, time_ns: int, *, key: bool, gradual: RecoveryPoint | None) -> Step:
        """Follow the next picture."""
        header = self.slice_header(unit)
        follows = header.idr or header.frame_num == self._expected
        self._expected = (header.frame_num + header.reference) % header.frame_num_modulus
        step = Step(
            None,
            decodable=True,
            key=key,
            starts=key or gradual is not None,
            reference=header.reference,
            poc=header.poc,
            poc_modulus=header.poc_modulus,
            size=header.size,
        )
        if key:
            return self._key(step, time_ns, whole=follows and self.reason is None)
        if not follows:
            self.lose(AFTER_LOSS)
        linked = self._starts.any
        if gradual is not None:
            self._starts.gradual(time_ns, (header.frame_num + gradual.frames) % header.frame_num_modulus)
            if header.frame_num < _NO_LEAP:
                step = replace(step, primer=h264.renumbered(unit, header))
        if not self._starts.any:
            return replace(step, reason=self.reason, decodable=False)
        if header.reference:
            self._starts.decoded(time_ns, header.frame_num)
        reach = self._starts.reach(time_ns)
        leading = self._starts.is_leading(time_ns)
        if reach is None:
            reason = self.reason or self._earlier_reason or AFTER_LOSS
            return replace(step, reason=reason, linked=linked, leading=leading, back=None)
        if self.reason is not None:
            self.reason, self._earlier_reason = None, self.reason
        back, start_ns = reach
        return replace(step, linked=linked, leading=leading, back=back, start_ns=start_ns)

    def _key(self, step: Step, time_ns: int, *, whole: bool) -> Step:
        if not whole:
            self._earlier_reason = self.reason or AFTER_LOSS
            self._starts.lose()
        else:
            self._earlier_reason = None
        self.reason = None
        self._starts.key(time_ns)
        return replace(step, linked=whole, start_ns=time_ns)


class H265Follower(h265.ParameterSets):
    """Keeps the reference pictures as a decoder would: every slice names those it needs (clause 8.3.2)."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: str | None = BEFORE_KEY
        self._leading_reason: str | None = None
        self._anchor = 0
        self._present: set[int] = set()

    def lose(self, reason: str) -> None:
        """Something could not be followed."""
        self.reason = self.reason or reason

    def step(self, unit: NalUnit, time_ns: int, *, key: bool, gradual: RecoveryPoint | None) -> Step:
        """Follow the next picture."""
        del time_ns, gradual
        header = self.slice_header(unit)
        fresh = key and (header.kind != h265.CRA_KIND or self.reason is not None)
        poc = header.poc if fresh else h265.nearest(header.poc, self._anchor, header.poc_modulus)
        needed, kept = h265.references(header, poc)
        linked = key and self.reason is None and not header.discards
        leading = header.kind in h265.RASL_KINDS
        if key:
            self._leading_reason = None if linked else self.reason or AFTER_LOSS
            self.reason = None
        elif not needed <= self._present:
            if leading:
                self._leading_reason = self._leading_reason or AFTER_LOSS
            else:
                self.reason = self.reason or AFTER_LOSS
        reason = self.reason or (self._leading_reason if leading else None)
        self._present = set() if fresh else self._present & kept
        if reason is None:
            self._present.add(poc)
        if header.anchor:
            self._anchor = poc
        return Step(
            reason,
            decodable=reason is None,
            key=key,
            starts=key,
            linked=linked,
            leading=leading,
            back=1 if leading else 0,
            poc=header.poc,
            poc_modulus=header.poc_modulus,
            size=header.size,
        )
