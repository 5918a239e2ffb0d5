"""What there is to see in a dataset of any format: its samples as scenes.

A format says what there is; the rooms above turn it into a page or a contact sheet.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.radar import RadarCube

Points = npt.NDArray[np.float64]

PICTURE_WIDTH = 960
"""Pixels across of a picture on a page."""


class Detail(IntEnum):
    """How much of a sample is looked at."""

    PICTURE = 1
    """What a page shows: the picture with boxes, the lidar's points, or what is seen from above."""
    SENSORS = 2
    """What a contact sheet shows: radar and cube, too."""


class Box2d(NamedTuple):
    """A box on a picture: centre and size as fractions of the picture, and a label."""

    x: float
    y: float
    width: float
    height: float
    label: str


class Agent(NamedTuple):
    """Something seen from above: centre, length and width in metres, heading, in the rig's frame."""

    x_m: float
    y_m: float
    length_m: float
    width_m: float
    yaw_rad: float


@dataclass(frozen=True, slots=True)
class Moment:
    """One sample of a dataset.

    Attributes:
        sequence: its name, empty if the format has none.
        frame: number of the reference frame; None if the format does not say.
        time_ns: nanoseconds since 1970; None if that is not known without reading the sample.
        part: of the sequence; each has a local frame of its own.
    """

    sequence: str
    frame: int | None = None
    time_ns: int | None = None
    part: int = 0


@dataclass(slots=True)
class Scene:
    """What there is to see of a sample; what was not asked for, or is not there, is None or empty.

    Attributes:
        moment: which it is.
        picture: the camera's, JPEG or PNG.
        boxes: on the picture.
        points: of the lidar (N, 3) in metres.
        agents: for a view from above.
        name: of the sample, where the dataset has one.
        is_unlabelled: the dataset says that no model looked at it.
        radar: points (N, 3) of the radar, and their speeds (N,) if they have any.
        cube: of the radar.
    """

    moment: Moment
    picture: bytes | None = None
    boxes: list[Box2d] = field(default_factory=list)
    points: Points | None = None
    agents: list[Agent] = field(default_factory=list)
    name: str = ""
    is_unlabelled: bool = False
    radar: tuple[Points, Points | None] | None = None
    cube: RadarCube | None = None


class Scenes(ABC):
    """The samples of a dataset that can be looked at."""

    @abstractmethod
    def moments(self) -> list[Moment]:
        """All samples in order; quick, and without reading any."""

    def labelled(self) -> list[Moment]:
        """Those of the samples that a model looked at, as far as the dataset says."""
        return self.moments()

    def timed(self, moment: Moment) -> Moment:
        """The sample with its time, if the dataset has it, where that takes reading.

        Raises:
            EdgeFirstError: its files are damaged.
        """
        return moment

    @abstractmethod
    def scene(self, moment: Moment, detail: Detail = Detail.PICTURE) -> Scene:
        """One of the samples.

        Raises:
            EdgeFirstError: its files are damaged.
        """


def opened(data: bytes) -> tuple[Image.Image, tuple[int, int]]:
    """A JPEG or PNG, decoded no finer than a page needs, and the size that it really has.

    Raises:
        ValueError: it has more pixels than any camera.
        OSError: it is damaged.
    """
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of damaged EXIF, which says nothing
        picture = open_picture(data)
    size = picture.size
    picture.draft("RGB", (PICTURE_WIDTH, 1))
    return picture, size


def in_colour(picture: Image.Image) -> Image.Image:
    """A picture as RGB; one of 16 bits from black, its darkest value, to white.

    Raises:
        OSError: it is damaged.
    """
    if picture.mode.startswith("I"):
        values = np.asarray(picture).astype(np.float32)
        values -= values.min()
        picture = Image.fromarray((values * (255 / max(1.0, float(values.max())))).astype(np.uint8))
    return picture.convert("RGB")
