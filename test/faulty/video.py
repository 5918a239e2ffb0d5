"""Pictures with noise, and videos of which units are damaged, pictures frozen or black."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgefirst_ros.simulation.camera import EncodedPicture, Pixels, Video, burn_number
from edgefirst_ros.simulation.schedule import CAMERA_FIRST_NS
from faulty.options import FaultyOptions

SLICE_HEADER_BYTES = 24
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

    def __init__(
        self, options: FaultyOptions, form: str, frames: int, parts: int, faults: np.random.Generator
    ) -> None:
        super().__init__(options, form, frames, parts)
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
