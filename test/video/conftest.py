"""Clips of every kind, and a watch over what the decoder is fed."""

from __future__ import annotations

import av
import pytest
from clips import RECIPES, Clip, make_clip

from edgefirst_ros.video.decoder import VideoDecoder


@pytest.fixture(params=RECIPES)
def clip(request: pytest.FixtureRequest) -> Clip:
    """Every kind of stream: H.264 and H.265, without and with B-frames, closed and open groups."""
    return make_clip(request.param)


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The access units given to any decoder, in that order."""
    seen: list[bytes] = []
    feed = VideoDecoder.feed

    def watch(self: VideoDecoder, number: int, data: bytes) -> list[tuple[int, av.VideoFrame]]:
        seen.append(data)
        return feed(self, number, data)

    monkeypatch.setattr(VideoDecoder, "feed", watch)
    return seen
