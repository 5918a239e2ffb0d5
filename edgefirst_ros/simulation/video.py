"""One encoder of a drive: its units, the faults they are given, and what is true about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from edgefirst_ros.simulation.camera import Pixels, burn_number, number_cell_px
from edgefirst_ros.simulation.encode import DAMAGES, AccessUnit, access_units, damaged, jpegs
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.schedule import Channel


class Video:
    """The units of one topic; ``channel`` sends them.

    Args:
        faults: decides which units are damaged, and how.
        parts: so many times smaller than the camera's picture the encoder's is.
    """

    channel: Channel

    def __init__(self, options: DriveOptions, frames: int, faults: np.random.Generator, parts: int) -> None:
        self._options = options
        self._frames = frames
        self._size = options.width // parts, options.height // parts
        self._damaged = faults.random(frames) < options.damage_video
        self._faults = faults
        self._sent: list[tuple[int, AccessUnit, str]] = []

    def units(self, picture: Callable[[int], Pixels]) -> Iterator[tuple[int, AccessUnit]]:
        """Every unit with its number in the encoder's order."""
        options, (width, height) = self._options, self._size
        numbered = (burn_number(picture(number), number) for number in range(self._frames))
        if options.jpeg:
            yield from enumerate(jpegs(numbered))
            return
        yield from enumerate(
            access_units(
                numbered,
                options.codec,
                width=width,
                height=height,
                fps=options.fps,
                bframes=options.bframes,
            )
        )

    def send(self, number: int, unit: AccessUnit) -> AccessUnit:
        """Take note of a unit that is sent; as it is sent, damaged perhaps."""
        kind = ""
        if self._damaged[number]:
            kind = DAMAGES[int(self._faults.integers(len(DAMAGES)))]
            unit = damaged(unit, kind, self._faults)
        self._sent.append((number, AccessUnit(b"", unit.picture, unit.keyframe), kind))
        return unit

    def truth(self) -> dict[str, Any]:
        """What is true about the messages of the topic, by their index in the recording."""
        options, (width, height) = self._options, self._size
        messages = [self._sent[i] for i in self.channel.made]
        stamps, true = self.channel.stamp_ns, self.channel.true_ns
        return {
            "format": "jpeg" if options.jpeg else options.codec,
            "width": width,
            "height": height,
            "fps": options.fps,
            "frames": self._frames,
            "keyframes": [i for i, (_, unit, _) in enumerate(messages) if unit.keyframe],
            "presentation": [unit.picture for _, unit, _ in messages],
            "units": [number for number, _, _ in messages],
            "dropped": sorted(set(range(self._frames)) - {number for number, _, _ in messages}),
            "damaged": [[i, kind] for i, (_, _, kind) in enumerate(messages) if kind],
            "same_stamp": np.flatnonzero(stamps != true).tolist(),
            "number_cell_px": number_cell_px(width),
        }
