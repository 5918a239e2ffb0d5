"""The thin layer over libavcodec."""

from __future__ import annotations

import pytest
from clips import Clip, access_unit, make_clip

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.video.decoder import VideoDecoder


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_pictures_come_by_number_and_the_decoder_starts_anew_after_draining(clip: Clip, threads: int) -> None:
    decoder = VideoDecoder(clip.shots[0].packet.codec, threads, hidden_reorder=False)
    for first in (0, 100):
        frames = []
        for place, shot in enumerate(clip.shots):
            frames += decoder.feed(access_unit(first + place, shot.packet))
        frames += decoder.drain()
        shown = [clip.shots[number - first].number for number, _ in frames]
        assert shown == sorted(clip.truth)
        assert decoder.drain() == []


def test_what_cannot_be_decoded_gives_nothing() -> None:
    clip = make_clip("h264-p")
    decoder = VideoDecoder("h264", 2, hidden_reorder=False)
    assert decoder.drain() == []
    for number, data in enumerate((b"\x00\x00\x01\x65\x88\x80", b"\x00\x00\x01")):
        assert decoder.feed(access_unit(number, VideoPacket("h264", data))) == []
    assert decoder.drain() == []
    assert decoder.feed(access_unit(2, clip.shots[0].packet)) == []
    assert [number for number, _ in decoder.drain()] == [2]


def test_a_decoder_fits_only_what_it_was_made_for() -> None:
    decoder = VideoDecoder("h264", 1, hidden_reorder=True)
    assert decoder.fits("h264", hidden_reorder=True)
    assert not decoder.fits("h264", hidden_reorder=False)
    assert not decoder.fits("h265", hidden_reorder=True)
