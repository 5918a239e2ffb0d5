"""Pictures with noise, their tiles and classes, and videos of which units are damaged or pictures frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import edgefirst_msgs
from PIL import Image, ImageDraw

from edgefirst_ros.simulation import wire
from edgefirst_ros.simulation.camera import Pixels, Tracer, View
from edgefirst_ros.simulation.schedule import CAMERA_FIRST_NS
from edgefirst_ros.simulation.video import NUMBER_BITS, EncodedPicture, Video, burn_number, number_cell_px
from faulty.options import FaultyOptions

SLICE_HEADER_BYTES = 24
LABELS = ("background", "person", "bicycle", "car", "bus", "truck")
DAMAGES = ("overwritten", "cut short", "cut out")


class Grain:
    """The noise of a camera: one pattern, shifted at random from picture to picture."""

    _REACH_PX = 64

    def __init__(self, sigma: float, width: int, height: int, seed: int) -> None:
        """Noise of this standard deviation in levels of 255, for pictures of this size."""
        shape = height + self._REACH_PX, width + self._REACH_PX, 1
        self._pattern = np.random.default_rng(seed).normal(0, sigma, shape).round().astype(np.int16)
        self._seed = seed

    def added(self, pixels: Pixels, number: int) -> Pixels:
        """The picture of this number with its noise."""
        top, left = np.random.default_rng([self._seed, number]).integers(self._REACH_PX, size=2)
        height, width = pixels.shape[:2]
        noise = self._pattern[top : top + height, left : left + width]
        return (pixels + noise).clip(0, 255).astype(np.uint8)


def damaged(unit: EncodedPicture, kind: str, rng: np.random.Generator) -> EncodedPicture:
    """The unit with damaged picture data: a part overwritten, or the end or the middle removed.

    Parameter sets and slice headers stay intact.
    """
    start = max(unit.data.rfind(b"\x00\x00\x01"), 0) + SLICE_HEADER_BYTES
    left = len(unit.data) - start
    if left < 8:
        start, left = len(unit.data) // 2, len(unit.data) - len(unit.data) // 2
    first = start + int(rng.integers(left // 4 + 1))
    last = first + max(1, left // 3)
    data = {
        "overwritten": unit.data[:first] + rng.bytes(last - first) + unit.data[last:],
        "cut short": unit.data[:last],
        "cut out": unit.data[:first] + unit.data[last:],
    }[kind]
    return EncodedPicture(data, unit.picture, unit.keyframe)


class FaultyVideo(Video):
    """The encoder of the device's own camera, which ``faults`` damage."""

    _options: FaultyOptions

    def __init__(self, options: FaultyOptions, form: str, frames: int, faults: np.random.Generator) -> None:
        super().__init__(options, form, frames)
        self._damaged = faults.random(frames) < options.damage_video
        self._faults, self._kinds = faults, dict[int, str]()

    def _numbered(self, pixels: Pixels, number: int) -> Pixels:
        """A picture with its number: a frozen one shows an old number, a black one none."""
        options = self._options
        time_s = (CAMERA_FIRST_NS + number * 1_000_000_000 // options.fps) / 1e9
        if options.is_black(time_s):
            return pixels
        return burn_number(pixels, number - round((time_s - options.shown_s("camera", time_s)) * options.fps))

    def send(self, number: int, unit: EncodedPicture) -> bytes:
        if self._damaged[number]:
            self._kinds[number] = DAMAGES[int(self._faults.integers(len(DAMAGES)))]
            unit = damaged(unit, self._kinds[number], self._faults)
        return super().send(number, unit)

    def truth(self) -> dict[str, Any]:
        truth = super().truth()
        kinds = enumerate(self._kinds.get(number, "") for number in truth["units"])
        return truth | {"damaged": [[i, kind] for i, kind in kinds if kind]}


def classes(view: View, time_s: float) -> Pixels:
    """Class of every pixel of a view's picture, as an index of LABELS, uint8 (height, width)."""
    if isinstance(view, Tracer):
        labels = [LABELS.index(box.label) for box in view.world.boxes]
        found: Pixels = np.array([*labels, 0, 0], np.uint8)[view.seen(time_s)[-1]]
        return found.reshape(view.lens.height, view.lens.width)
    image = Image.new("L", (view.lens.width, view.lens.height))
    canvas = ImageDraw.Draw(image)
    for box, _, face in view.faces(time_s):
        view.fill(canvas, face, LABELS.index(box.label))
    return np.array(image)


def sampled(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """A picture or its classes at another size, by nearest pixels."""
    (width, height), (rows, columns) = size, pixels.shape[:2]
    row = (np.arange(height) * 2 + 1) * rows // (2 * height)
    column = (np.arange(width) * 2 + 1) * columns // (2 * width)
    chosen: Pixels = pixels[row[:, None], column]
    return chosen


def quarter(picture: Callable[[int], Pixels], place: tuple[int, int], number: int) -> Pixels:
    """The tile in this row and column of the picture of this number."""
    whole, (row, column) = picture(number), place
    height, width = (n // 2 for n in whole.shape[:2])
    return whole[row * height : (row + 1) * height, column * width : (column + 1) * width]


def read_number(pixels: Pixels) -> int:
    """Read the number in a decoded picture, grey or colour."""
    cell = number_cell_px(pixels.shape[1])
    middle = slice(cell // 4, cell - cell // 4)
    cells = [pixels[middle, i * cell : (i + 1) * cell][:, middle].mean() for i in range(NUMBER_BITS)]
    return sum(int(value > 127) << bit for bit, value in enumerate(reversed(cells)))


def mask(classes: npt.NDArray[np.uint8]) -> bytes:
    """edgefirst_msgs/Mask of class indices (height, width); it has no header, so no stamp."""
    height, width = classes.shape
    return edgefirst_msgs.Mask(height, width, 1, "", classes.tobytes()).to_bytes()


def model_info(stamp_ns: int, mask_size: tuple[int, int]) -> bytes:
    """edgefirst_msgs/ModelInfo of a segmentation model."""
    width, height = mask_size
    return edgefirst_msgs.ModelInfo(
        wire.header(stamp_ns),
        [1, height, width, 3],
        output_shape=[1, height, width, 1],
        labels=list(LABELS),
        model_type="segmentation",
        model_format="simulation",
        model_name="truth",
    ).to_bytes()
