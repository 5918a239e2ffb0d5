"""Clips of every kind, and a watch over what the decoder is fed."""

from __future__ import annotations

import av
import pytest
from clips import RECIPES, Clip, make_clip

from edgefirst_ros.video.decoder import VideoDecoder
from edgefirst_ros.video.gops import AccessUnit


@pytest.fixture(params=RECIPES)
def clip(request: pytest.FixtureRequest) -> Clip:
    """Every kind of stream: H.264 and H.265, without and with B-frames, closed and open groups."""
    return make_clip(request.param)


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The access units given to any decoder, in that order."""
    seen: list[bytes] = []
    feed = VideoDecoder.feed

    def watch(self: VideoDecoder, unit: AccessUnit) -> list[tuple[int, av.VideoFrame]]:
        seen.append(unit.data)
        return feed(self, unit)

    monkeypatch.setattr(VideoDecoder, "feed", watch)
    return seen
