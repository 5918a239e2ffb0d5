"""Streams without key frames, refreshed bit by bit: output resumes at recovery points, and is never wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from clips import (
    HEIGHT,
    LOOKAHEAD_NS,
    STEP_NS,
    WIDTH,
    Clip,
    Played,
    decode_plainly,
    encode_shots,
    is_keyframe,
    play,
    recipe,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrite import bits_to_bytes, escape, nal_units, rejoin, ue

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.headers import can_start, gradual_start, head
from edgefirst_ros.video.stream import VideoStream

PERIOD = 12
BITS = {
    "h264-refresh": {},
    "h264-refresh-wide": {},
    "h264-refresh-b": {"bf": "2", "b_strategy": "0", "b-pyramid": "none"},
    "h264-refresh-pyramid": {"bf": "2", "b_strategy": "0"},
}
"""Streams whose first picture alone is a key frame; the wide one recovers no sooner than the next point."""
AFTER_LOSS, BEFORE_KEY = Reason.AFTER_LOSS, Reason.BEFORE_KEY


@cache
def refreshed(name: str, frames: int = 72, period: int = PERIOD) -> Clip:
    size = (20 * 16, 32) if name == "h264-refresh-wide" else (WIDTH, HEIGHT)
    encoder, options = recipe("h264-p", **{"intra-refresh": "1", "g": str(period), **BITS[name]})
    shots = encode_shots(encoder, options, frames=frames, size=size)
    return Clip(name, shots, decode_plainly(shots))


def stream(workers: int = 1) -> VideoStream:
    return VideoStream("/camera/h264", workers=workers, lookahead_ns=LOOKAHEAD_NS)


def points(clip: Clip) -> list[tuple[int, int]]:
    """Recovery points as places in decode order, and the frames they ask for."""
    found = ((place, gradual_start("h264", head(shot.packet))) for place, shot in enumerate(clip.shots))
    return [(place, point.frames) for place, point in found if point is not None]


def recovered(clip: Clip, place: int) -> int:
    """Display number from which all is right if decoding starts at the first point from a place on."""
    at, frames = next((at, frames) for at, frames in points(clip) if at >= place)
    references = [shot.number for shot in clip.shots[at:] if nal_units(shot.packet.data)[-1][0] & 0x60]
    return references[frames]


def assert_true(clip: Clip, played: Played) -> None:
    wrong = [n for n, rgb in played.pictures.items() if not np.array_equal(rgb, clip.truth[n])]
    assert not wrong, played.verdicts
    assert not played.errors


@pytest.fixture(params=BITS)
def clip(request: pytest.FixtureRequest) -> Clip:
    return refreshed(request.param)


def test_only_the_first_picture_is_a_key_frame_and_points_come_in_between(clip: Clip) -> None:
    assert [shot.number for shot in clip.shots if is_keyframe(shot.packet)] == [0]
    places = [place for place, _ in points(clip)]
    assert [clip.shots[place].number for place in places] == list(range(PERIOD, len(clip.shots), PERIOD))
    assert [place for place, shot in enumerate(clip.shots) if can_start(shot.packet)] == [0, *places]
    assert all(frames >= 3 for _, frames in points(clip))


@pytest.mark.parametrize("workers", [1, 3])
def test_without_loss_every_picture_comes_out(clip: Clip, workers: int) -> None:
    for wanted in (None, {n for n in clip.truth if n % 7 == 3}, {33}):
        played = play(stream(workers), clip.shots, wanted=wanted and wanted.__contains__)
        assert set(played.pictures) == (wanted or set(clip.truth))
        assert_true(clip, played)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_start_in_mid_stream_waits_for_a_point_and_the_pictures_it_asks_for(
    clip: Clip, workers: int
) -> None:
    for start in range(1, 2 * PERIOD, workers):
        played = play(stream(workers), clip.shots[start:])
        first = recovered(clip, start)
        assert first < len(clip.shots) - 5
        assert set(played.pictures) == {n for n in played.verdicts if n >= first}
        assert {v for v in played.verdicts.values() if v} == {BEFORE_KEY}
        assert_true(clip, played)


@pytest.mark.long(cases=2)
@pytest.mark.parametrize(
    ("name", "period", "workers"),
    [
        ("h264-refresh", 15, 1),
        ("h264-refresh-wide", PERIOD, 2),
        ("h264-refresh-b", 15, 2),
        ("h264-refresh-pyramid", PERIOD, 1),
    ],
)
def test_decoding_starts_at_any_point_whatever_the_encoder_has_counted_to(
    name: str, period: int, workers: int
) -> None:
    clip = refreshed(name, 240, period)
    for number, (at, _) in enumerate(points(clip)):
        if at > len(clip.shots) - 2 * PERIOD - 20:
            break
        first = recovered(clip, at)
        played = play(stream(workers), clip.shots[at : at + 2 * PERIOD + 20])
        assert_true(clip, played)
        assert {n for n in played.pictures if n < first + PERIOD} == set(range(first, first + PERIOD))
        if number % 4:
            continue  # each of these begins at the stream's first picture
        later = play(stream(workers), clip.shots[: at + 2 * PERIOD + 20], wanted={first}.__contains__)
        assert set(later.pictures) == {first}
        assert_true(clip, later)


@pytest.mark.long(cases=2)
def test_after_any_single_loss_output_resumes(clip: Clip) -> None:
    for lost in range(1, 2 * PERIOD + 2):
        played = play(stream(1 + lost % 2), clip.without([lost]))
        assert_true(clip, played)
        gone = clip.shots[lost].number
        resumed = {shot.number for shot in clip.shots if shot.number >= recovered(clip, lost + 1)}
        assert resumed <= set(played.pictures), (lost, played.verdicts)
        refused = {played.verdicts[n] for n in played.verdicts if played.verdicts[n]}
        assert refused <= {AFTER_LOSS}
        if nal_units(clip.shots[lost].packet.data)[-1][0] & 0x60:
            assert not {n for n in played.pictures if gone < n} - resumed


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_several_losses_with_any_demand(data: st.DataObject) -> None:
    clip = refreshed(data.draw(st.sampled_from(sorted(BITS))))
    lost = data.draw(st.sets(st.integers(0, len(clip.shots) - 1), max_size=6))
    every = data.draw(st.sampled_from([1, 5, 13]))
    left = clip.without(lost)
    played = play(stream(data.draw(st.sampled_from([1, 2, 4]))), left, wanted=lambda n: n % every == 0)
    assert_true(clip, played)
    usable = {n for n, verdict in played.verdicts.items() if verdict is None}
    assert set(played.pictures) == {n for n in usable if n % every == 0}
    last = max(lost, default=-1)
    if any(place > last for place, _ in points(clip)):
        at, frames = next(point for point in points(clip) if point[0] > last)
        references = [s.number for s in clip.shots[at:] if nal_units(s.packet.data)[-1][0] & 0x60]
        if frames < len(references):
            assert {n for n in clip.truth if n >= references[frames]} <= usable


def test_a_loss_that_only_the_stamps_show_ends_at_a_point_after_it() -> None:
    clip = refreshed("h264-refresh")
    # frame_num has 4 bits: after 16 lost pictures it goes on as if nothing had happened.
    played = play(stream(), clip.without(range(20, 36)))
    assert set(played.pictures) == {*range(20), *range(recovered(clip, 36), len(clip.shots))}
    assert_true(clip, played)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_damaged_packet_spoils_what_decoding_from_a_later_point_does_not_mend(workers: int) -> None:
    clip = refreshed("h264-refresh")
    for start, damaged in ((0, 20), (5, 14), (5, 30)):
        shots = list(clip.shots[start:])
        data = shots[damaged - start].packet.data
        shots[damaged - start] = replace(
            shots[damaged - start], packet=VideoPacket("h264", data[: len(data) // 2])
        )
        played = play(stream(workers), shots)
        mended = recovered(clip, damaged + 1)
        assert {n for n in played.pictures if n >= damaged} == set(range(mended, len(clip.shots)))
        for number, rgb in played.pictures.items():
            assert np.array_equal(rgb, clip.truth[number])


def resaid(clip: Clip, frames: int, *, exact: bool) -> Clip:
    """The same stream with other recovery points in it."""
    message = bits_to_bytes(f"{ue(frames)}{exact:d}000")
    unit = b"\x06" + escape(bytes((6, len(message))) + message + b"\x80")
    shots = []
    for shot in clip.shots:
        units = [unit if each[0] == 6 and each[1] == 6 else each for each in nal_units(shot.packet.data)]
        shots.append(replace(shot, packet=VideoPacket("h264", rejoin(units))))
    return Clip(clip.name, tuple(shots), clip.truth)


def test_a_point_that_promises_no_exact_pictures_is_none() -> None:
    clip = refreshed("h264-refresh")
    _, frames = points(clip)[0]
    again, vague = resaid(clip, frames, exact=True), resaid(clip, frames, exact=False)
    assert len(play(stream(), again.shots[5:]).pictures) == len(play(stream(), clip.shots[5:]).pictures) > 40
    assert not points(vague)
    assert set(play(stream(), vague.shots[5:]).verdicts.values()) == {BEFORE_KEY}
    assert len(play(stream(), vague.shots).pictures) == len(clip.shots)


def test_a_point_is_believed_to_the_picture() -> None:
    clip = refreshed("h264-refresh")
    later = resaid(clip, 11, exact=True)
    played = play(stream(), later.shots[5:])
    assert min(played.pictures) == PERIOD + 11
    assert_true(clip, played)


def test_key_frames_and_points_may_take_turns() -> None:
    refresh = refreshed("h264-refresh", frames=30)
    keyed = encode_shots(*recipe("h264-open"), frames=30, first=30)
    again = encode_shots(*recipe("h264-p", **{"intra-refresh": "1"}), frames=60, first=60)
    shots = (*refresh.shots, *keyed, *again)
    clip = Clip("turns", shots, refresh.truth | decode_plainly(keyed) | decode_plainly(again))
    rng = random.Random(7)
    for _ in range(12):
        lost = rng.sample(range(len(shots)), 3)
        for wanted in (None, lambda n: n % 11 == 2):
            assert_true(clip, play(stream(rng.choice([1, 3])), clip.without(lost), wanted=wanted))
    assert set(play(stream(), shots).pictures) == set(clip.truth)


def test_late_stamps_within_the_look_ahead_change_nothing() -> None:
    clip = refreshed("h264-refresh")
    rng = random.Random(3)
    cut = clip.shots[7:]
    shifted = [replace(shot, shift_ns=rng.randrange(STEP_NS * 9 // 10)) for shot in cut]
    plain = play(stream(), cut)
    assert play(stream(), shifted).verdicts == plain.verdicts
    shuffled = play(stream(), sorted(cut, key=lambda shot: shot.number + rng.uniform(0, 14)))
    assert shuffled.verdicts == plain.verdicts
    assert_true(clip, shuffled)
