"""Interlaced H.264 whose fields come in packets of their own: each pair is one picture."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from clips import LOOKAHEAD_NS, STEP_NS, Clip, Shot, play

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.stream import VideoStream

STREAM = Path(__file__).parent / "streams" / "jm-fields.264"
"""12 pictures of JM, two B pictures between others."""


@cache
def fields() -> Clip:
    """A packet for each field, numbered twice as fast as the pictures."""
    parser = av.CodecContext.create("h264", "r")
    packets = [bytes(part) for data in (STREAM.read_bytes(), b"") for part in parser.parse(data)]
    decoder = av.CodecContext.create("h264", "r")
    assert isinstance(decoder, av.VideoCodecContext)
    decoder.thread_count = 1
    frames = []
    for place, data in enumerate(packets):
        packet = av.Packet(data)
        packet.pts = place
        frames += decoder.decode(packet)
    frames += decoder.decode(None)
    assert 2 * len(frames) == len(packets)
    number_of = {frame.pts // 2: number for number, frame in enumerate(frames) if frame.pts is not None}
    shots = [
        Shot(2 * number_of[place // 2] + place % 2, VideoPacket("h264", data), False, STEP_NS // 2)
        for place, data in enumerate(packets)
    ]
    truth = {2 * number: frame.to_ndarray(format="rgb24") for number, frame in enumerate(frames)}
    return Clip("fields", tuple(shots), truth)


def stream(workers: int = 1) -> VideoStream:
    return VideoStream("/camera/h264", workers=workers, lookahead_ns=LOOKAHEAD_NS)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_pair_is_one_picture(workers: int) -> None:
    clip = fields()
    played = play(stream(workers), clip.shots)
    assert sorted(played.pictures) == sorted(clip.truth)
    assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())
    assert {played.verdicts[number + 1] for number in clip.truth} == {Reason.SECOND_FIELD}


def test_pictures_joined_before_are_the_same() -> None:
    clip = fields()
    pairs = zip(clip.shots[::2], clip.shots[1::2], strict=True)
    joined = [
        replace(one, packet=VideoPacket("h264", one.packet.data + other.packet.data)) for one, other in pairs
    ]
    assert play(stream(), joined).pictures.keys() == clip.truth.keys()


def test_a_lost_field_takes_its_picture_and_no_damaged_one_comes_out() -> None:
    clip = fields()
    for lost in range(len(clip.shots)):
        played = play(stream(), clip.without([lost]))
        assert clip.shots[lost].number // 2 * 2 not in played.pictures
        assert set(played.pictures) <= set(clip.truth)
        assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())
