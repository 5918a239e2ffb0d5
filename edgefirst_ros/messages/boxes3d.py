"""Where the boxes of fusion/boxes3d are: the rule about their frame and axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgefirst_ros.messages.detection import Box
from edgefirst_ros.messages.transform import bare

Triple = tuple[float, float, float]
_OPTICAL = "_optical"


def is_optical(frame_id: str) -> bool:
    """Whether a frame's name says that x is to the right, y down and z forward."""
    return bare(frame_id).endswith(_OPTICAL)


@dataclass(frozen=True, slots=True)
class BoxAxes:
    """The frame that a message's boxes are in, and its axes.

    Attributes:
        frame_id: the frame's name.
        optical: its axes are x right, y down, z forward, not x forward, y left, z up.
    """

    frame_id: str
    optical: bool

    @classmethod
    def of(cls, frame_id: str, known: Iterable[str]) -> BoxAxes:
        """The frame and axes of a message.

        Centres are sent in optical axes whatever the frame: they become x = distance, y = -center_x,
        z = -center_y, except in a frame named ``*_optical``, which is optical (fusion before 1.7.2). One that
        no transform has stands for the frame without this ending.

        Args:
            frame_id: of the message.
            known: frames that transforms have.
        """
        frame = bare(frame_id)
        optical = is_optical(frame) and frame in map(bare, known)
        return cls(frame if optical else frame.removesuffix(_OPTICAL), optical)

    def centre_m(self, box: Box) -> Triple:
        """The middle of a box."""
        if self.optical:
            return box.center_x, box.center_y, box.distance_m
        return box.distance_m, -box.center_x, -box.center_y

    def extents_m(self, box: Box) -> Triple:
        """The extents of a box along the axes; it has none ahead, for which the width is taken."""
        return self.turned_extents_m((box.width, box.width, box.height))

    def turned_m(self, forward_left_up: Triple) -> Triple:
        """A position in these axes, of which is given how far forward, left and up it is."""
        x, y, z = forward_left_up
        return (-y, -z, x) if self.optical else (x, y, z)

    def turned_extents_m(self, forward_left_up: Triple) -> Triple:
        """Extents along these axes, of which those forward, to the left and up are given."""
        x, y, z = forward_left_up
        return (y, z, x) if self.optical else (x, y, z)
