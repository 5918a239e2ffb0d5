"""Groups of pictures decoded elsewhere: the same pictures and refusals, whatever is lost or damaged."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from clips import (
    LOOKAHEAD_NS,
    RECIPES,
    Clip,
    Played,
    Shot,
    decode_plainly,
    encode_shots,
    make_clip,
    play,
    recipe,
)

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video import batches
from edgefirst_ros.video.batches import Batch, Elsewhere, EncodedPicture, Send
from edgefirst_ros.video.stream import VideoStream

EVERYTHING = 1000
"""Pictures that a caller requests before it waits for the first of them."""


@pytest.fixture
def send() -> Iterator[Send]:
    """Decodes in another thread what was pickled on the way, as for another process."""
    with ThreadPoolExecutor(2) as pool:

        def submit(
            function: Callable[[Batch], list[batches.Encoded]], batch: Batch
        ) -> Future[list[batches.Encoded]]:
            return pool.submit(
                lambda: pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(batch)))))
            )

        yield submit


def stream(send: Send | None) -> VideoStream:
    elsewhere = None if send is None else Elsewhere(send, lambda: None, "png", 90)
    return VideoStream("/camera/video", lookahead_ns=LOOKAHEAD_NS, elsewhere=elsewhere)


def assert_same(here: Played, there: Played) -> None:
    assert there.verdicts == here.verdicts
    assert {n: str(error) for n, error in there.errors.items()} == {
        n: str(error) for n, error in here.errors.items()
    }
    assert there.pictures.keys() == here.pictures.keys()
    for number, rgb in there.pictures.items():
        assert np.array_equal(rgb, here.pictures[number]), number


def hurt(shots: list[Shot], place: int, rng: random.Random) -> list[Shot]:
    """One of the packets overwritten in its last two thirds."""
    data = shots[place].packet.data
    kept = len(data) // 3
    packet = VideoPacket(shots[place].packet.codec, data[:kept] + rng.randbytes(len(data) - kept))
    return [*shots[:place], replace(shots[place], packet=packet), *shots[place + 1 :]]


@pytest.mark.long(cases=3)
@pytest.mark.parametrize("window", [6, EVERYTHING])
def test_every_picture_is_decoded_elsewhere_and_as_it_was_meant(clip: Clip, send: Send, window: int) -> None:
    played = play(stream(send), clip.shots, window=window)
    assert played.pictures.keys() == clip.truth.keys()
    assert played.elsewhere == len(clip.truth)
    for number, rgb in played.pictures.items():
        assert np.array_equal(rgb, clip.truth[number]), number


@pytest.mark.long(cases=4)
@pytest.mark.parametrize("every", [1, 5])
def test_after_a_loss_the_same_pictures_come_as_from_a_thread(clip: Clip, send: Send, every: int) -> None:
    for lost in ([1], [9], [12], [14, 15], [0, 25]):
        shots = clip.without(lost)
        here, there = (
            play(stream(one), shots, wanted=lambda n: n % every == 0, window=EVERYTHING)
            for one in (None, send)
        )
        assert_same(here, there)
        assert there.elsewhere


@pytest.mark.long(cases=3)
def test_damage_is_told_in_the_same_words(clip: Clip, send: Send) -> None:
    rng = random.Random(7)
    for place in (2, 13, 17, 24):
        shots = hurt(list(clip.shots), place, rng)
        here, there = (play(stream(one), shots, window=6) for one in (None, send))
        assert_same(here, there)


@pytest.mark.parametrize("name", ["h264-p", "h265-p"])
def test_a_group_is_decoded_no_further_than_its_last_wanted_picture(
    name: str, send: Send, fed: list[bytes]
) -> None:
    clip = make_clip(name)
    wanted = {0, 12, 15, 24}
    played = play(stream(send), clip.shots, wanted=wanted.__contains__, window=EVERYTHING)
    assert played.pictures.keys() == wanted
    known = {shot.packet.data: shot.number for shot in clip.shots}
    assert sorted(known[data] for data in fed) == [0, 12, 13, 14, 15, 24]


def test_a_group_is_sent_as_a_whole_and_before_the_next_one_is_gathered(send: Send) -> None:
    clip = make_clip("h264-p")
    sent: list[int] = []

    def watch(
        function: Callable[[Batch], list[batches.Encoded]], batch: Batch
    ) -> Future[list[batches.Encoded]]:
        sent.append(len(batch.wanted))
        return send(function, batch)

    gathering: list[bool] = []
    video = VideoStream(
        "/camera/video",
        lookahead_ns=LOOKAHEAD_NS,
        elsewhere=Elsewhere(watch, lambda: gathering.append(video.is_gathering), "png", 90),
    )
    play(video, clip.shots, window=EVERYTHING)
    assert sent == [12, 12, 12, 8]
    assert gathering == [False, False, False]


def test_a_long_group_is_decoded_here(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_UNITS", 16)
    shots = encode_shots(*recipe("h264-p", g="600"), frames=40)
    played = play(stream(send), shots, window=EVERYTHING)
    assert played.elsewhere == 16
    truth = decode_plainly(shots)
    assert played.pictures.keys() == truth.keys()
    for number, rgb in played.pictures.items():
        assert np.array_equal(rgb, truth[number]), number


def test_what_fails_elsewhere_fails_every_picture_of_the_group() -> None:
    def refuse(_: object, __: Batch) -> Future[list[batches.Encoded]]:
        failed: Future[list[batches.Encoded]] = Future()
        failed.set_exception(DecodeError("no process"))
        return failed

    played = play(stream(refuse), make_clip("h264-p").shots, window=EVERYTHING)
    assert not played.pictures
    assert {str(error) for error in played.errors.values()} == {"no process"}
    assert len(played.errors) == 44


def test_a_picture_that_comes_encoded_has_size_and_pixels(send: Send) -> None:
    clip = make_clip(next(iter(RECIPES)))
    video = stream(send)
    for shot in clip.shots:
        video.push(shot.time_ns, shot.packet)
    asked = video.request(video.judge(clip.shots[0].time_ns))
    assert video.request(video.judge(clip.shots[0].time_ns)) is asked
    video.close()
    picture = asked.result(timeout=60)
    assert isinstance(picture, EncodedPicture)
    assert (picture.height, picture.width) == picture.rgb().shape[:2]
