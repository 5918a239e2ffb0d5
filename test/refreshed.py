"""Video that is refreshed bit by bit: it has one key frame, then recovery points."""

from __future__ import annotations

import av
import numpy as np
from resized import SMALL

from edgefirst_ros.simulation.video import burn_number

PERIOD = 10
"""Frames from one recovery point to the next."""


def refreshed_packets(count: int) -> list[bytes]:
    """A noisy picture that moves, with its number burnt in; key frame first, a recovery point every tenth."""
    context = av.CodecContext.create("libx264", "w")
    assert isinstance(context, av.VideoCodecContext)
    context.width, context.height = SMALL
    context.pix_fmt, context.framerate = "yuv420p", 30
    context.options = {"intra-refresh": "1", "g": str(PERIOD), "threads": "1", "tune": "zerolatency"}
    noise = np.random.default_rng(5).integers(0, 255, (*reversed(SMALL), 3), np.uint8)
    packets = []
    for number in range(count):
        frame = av.VideoFrame.from_ndarray(burn_number(np.roll(noise, 5 * number, 1), number))
        frame.pts = number
        packets += [bytes(packet) for packet in context.encode(frame.reformat(format="yuv420p"))]
    return packets + [bytes(packet) for packet in context.encode(None)]
