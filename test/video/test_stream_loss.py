"""What a lost packet takes along: every picture that comes out is the one the camera meant."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from clips import (
    LOOKAHEAD_NS,
    RECIPES,
    STEP_NS,
    Clip,
    Played,
    Shot,
    decode_plainly,
    encode_shots,
    make_clip,
    play,
    recipe,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from rewrite import nal_units

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.stream import VideoStream


def stream(workers: int = 1) -> VideoStream:
    return VideoStream("/camera/h264", workers=workers, lookahead_ns=LOOKAHEAD_NS)


def assert_true(clip: Clip, played: Played) -> None:
    damaged = [
        number for number, rgb in played.pictures.items() if not np.array_equal(rgb, clip.truth[number])
    ]
    assert not damaged, played.verdicts
    # In H.265 it is libavcodec that finds missing references.
    assert not played.errors or clip.shots[0].packet.codec == "h265"


def after_next_key(clip: Clip, lost: int) -> set[int]:
    """The frames from the next key frame on, as they are shown."""
    keys = [shot.number for shot in clip.shots[lost + 1 :] if shot.key]
    return {shot.number for shot in clip.shots if keys and shot.number >= keys[0]}


def test_without_loss_every_picture_comes_out_as_it_was_meant(clip: Clip) -> None:
    played = play(stream(), clip.shots)
    assert set(played.pictures) == set(clip.truth) == set(range(len(clip.shots)))
    assert_true(clip, played)


@pytest.mark.long(cases=3)
def test_after_any_single_loss_no_damaged_picture_comes_out(clip: Clip) -> None:
    for lost in range(len(clip.shots)):
        played = play(stream(1 + lost % 3), clip.without([lost]))
        assert_true(clip, played)
        assert after_next_key(clip, lost) <= set(played.pictures), (lost, played.verdicts)


def test_after_any_single_loss_nothing_follows_until_the_next_key_frame(clip: Clip) -> None:
    for lost, gone in enumerate(clip.shots[:-1]):
        played = play(stream(), clip.without([lost]), wanted=lambda _: False)
        next_key = min(
            (shot.number for shot in clip.shots if shot.key and shot.number > gone.number), default=99
        )
        held = {number for number in played.verdicts if gone.number < number < next_key}
        expected = {Reason.BEFORE_KEY} if lost == 0 else {Reason.AFTER_LOSS}
        assert {played.verdicts[number] for number in held} <= expected


def test_a_loss_spares_what_was_decoded_before_it() -> None:
    clip = make_clip("h264-pyramid")
    lost = next(place for place, shot in enumerate(clip.shots) if shot.number == 20)
    played = play(stream(), clip.without([lost]))
    assert {shot.number for shot in clip.shots[:lost]} == {n for n in played.pictures if n < 24}


def test_a_lost_reference_also_takes_pictures_shown_before_it() -> None:
    clip = make_clip("h264-b")
    lost = next(place for place, shot in enumerate(clip.shots) if shot.number == 3)
    played = play(stream(), clip.without([lost]))
    assert clip.shots[lost + 1].number == 1
    assert played.verdicts[1] == played.verdicts[2] == Reason.AFTER_LOSS


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_several_losses(data: st.DataObject) -> None:
    clip = make_clip(data.draw(st.sampled_from(sorted(RECIPES))))
    lost = data.draw(st.sets(st.integers(0, len(clip.shots) - 1), max_size=8))
    played = play(stream(data.draw(st.sampled_from([1, 2]))), clip.without(lost))
    assert_true(clip, played)
    intact = after_next_key(clip, max(lost, default=-1)) - {clip.shots[place].number for place in lost}
    assert intact <= set(played.pictures)


def test_a_recording_that_starts_amid_a_group_waits_for_its_first_key_frame(clip: Clip) -> None:
    first_key = next(place for place, shot in enumerate(clip.shots) if place and shot.key)
    for start in range(1, first_key + 1):
        played = play(stream(), clip.shots[start:])
        assert_true(clip, played)
        assert set(played.pictures) == {n for n in played.verdicts if n >= clip.shots[first_key].number}
        refused = {verdict for verdict in played.verdicts.values() if verdict is not None}
        assert refused <= {Reason.BEFORE_KEY}


def test_open_groups_after_a_loss_lose_their_leading_pictures() -> None:
    for name in ("h264-open", "h265-open"):
        clip = make_clip(name)
        key = next(place for place, shot in enumerate(clip.shots) if shot.number == 24)
        leading = {shot.number for shot in clip.shots[key + 1 :] if shot.number < 24}
        assert leading
        whole = play(stream(), clip.shots)
        cut = play(stream(), clip.without(range(key - 6, key)))
        assert leading <= set(whole.pictures)
        assert not leading & set(cut.pictures)


def test_a_loss_of_as_many_frames_as_the_counters_hold_is_seen_in_the_stamps() -> None:
    options = recipe("h264-p", g="60")
    shots = encode_shots(*options, frames=46)
    clip = Clip("long", shots, decode_plainly(shots))
    # frame_num has 4 bits: after 16 lost pictures it goes on as if nothing had happened.
    played = play(stream(), clip.without(range(20, 36)))
    assert set(played.pictures) == set(range(20))
    assert_true(clip, played)


@pytest.mark.parametrize("name", ["h264-p", "h264-pyramid", "h265-pyramid"])
def test_late_stamps_and_frames_never_encoded_are_no_loss(name: str) -> None:
    clip = make_clip(name)
    rng = random.Random(4)
    order = [replace(shot, shift_ns=rng.randrange(STEP_NS * 9 // 10)) for shot in clip.shots]
    gaps = [replace(shot, shift_ns=shot.number // 7 * STEP_NS) for shot in clip.shots]
    for shots in (order, gaps):
        spacing = np.diff(sorted(shot.time_ns for shot in shots))
        assert spacing.max() > 1.5 * np.median(spacing)
        played = play(stream(), shots)
        assert set(played.pictures) == set(clip.truth)
        assert_true(clip, played)


@pytest.mark.parametrize("name", ["h264-p", "h265-p"])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_disorder_within_the_look_ahead_changes_nothing(name: str, seed: int) -> None:
    clip = make_clip(name)
    rng = random.Random(seed)
    shuffled = sorted(clip.shots, key=lambda shot: shot.number + rng.uniform(0, 14))
    played = play(stream(), shuffled)
    assert set(played.pictures) == set(clip.truth)
    assert_true(clip, played)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_disorder_where_pictures_are_reordered_shows_nothing_wrong(data: st.DataObject) -> None:
    clip = make_clip(data.draw(st.sampled_from(["h264-b", "h264-open", "h265-pyramid", "h265-open"])))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    order = {shot.number: place + rng.uniform(0, 2) for place, shot in enumerate(clip.shots)}
    played = play(stream(), sorted(clip.shots, key=lambda shot: order[shot.number]))
    assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())
    assert played.verdicts[0] is None


@pytest.mark.parametrize("name", ["h264-b", "h264-pyramid", "h264-open"])
def test_a_leaf_that_a_reference_picture_overtakes_is_left_out_alone(name: str) -> None:
    clip = make_clip(name)
    leaves = [
        place
        for place, (shot, then) in enumerate(pairwise(clip.shots))
        if not then.key
        and not nal_units(shot.packet.data)[-1][0] & 0x60
        and nal_units(then.packet.data)[-1][0] & 0x60
    ]
    for place in leaves[1:5]:
        shots = [*clip.shots]
        shots[place], shots[place + 1] = shots[place + 1], shots[place]
        played = play(stream(), shots)
        assert_true(clip, played)
        assert played.verdicts[clip.shots[place].number] == Reason.AFTER_LOSS
        assert set(clip.truth) - set(played.pictures) == {clip.shots[place].number}


@pytest.mark.parametrize("until", [22, 32])
def test_what_comes_too_late_for_its_place_is_lost(until: int) -> None:
    clip = make_clip("h264-p")
    shots = [shot for shot in clip.shots if shot.number != 5]
    late = [*shots[:until], clip.shots[5], *shots[until:]]
    played = play(stream(), late)
    assert played.verdicts[5] == "arrived too late"
    assert set(played.pictures) == set(range(5)) | set(range(12, 44))
    assert_true(clip, played)


@pytest.mark.parametrize("name", ["h264-pyramid", "h265-open"])
def test_what_comes_too_late_where_pictures_are_reordered_does_no_further_harm(name: str) -> None:
    clip = make_clip(name)
    place = next(place for place, shot in enumerate(clip.shots) if shot.number == 5)
    without = clip.without([place])
    played = play(stream(), [*without[:33], clip.shots[place], *without[33:]])
    assert played.verdicts.pop(5) == "arrived too late"
    assert played.verdicts == play(stream(), without).verdicts
    assert set(played.pictures) == set(range(5)) | set(range(12, 44))
    assert_true(clip, played)


def test_a_repeated_packet_is_left_out(clip: Clip) -> None:
    played = play(stream(), [shot for shot in clip.shots for _ in range(2)])
    assert set(played.pictures) == set(clip.truth)
    assert_true(clip, played)


def test_unreadable_packets_count_as_lost(clip: Clip) -> None:
    rubbish = (b"", b"\x00" * 50, b"\x00\x00\x01", b"no video at all", bytes(range(256)) * 4)
    for place, data in zip((3, 9, 14, 20, 27), rubbish, strict=True):
        shots = list(clip.shots)
        shots[place] = replace(shots[place], packet=replace(shots[place].packet, data=data))
        played = play(stream(2), shots)
        assert_true(clip, played)
        assert played.verdicts[shots[place].number] is not None
        assert after_next_key(clip, place) <= set(played.pictures)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_within_packets_never_hangs_and_ends_at_the_next_key_frame(data: st.DataObject) -> None:
    clip = make_clip(data.draw(st.sampled_from(sorted(RECIPES))))
    place = data.draw(st.integers(0, len(clip.shots) - 1))
    packet = bytearray(clip.shots[place].packet.data)
    start = data.draw(st.integers(0, len(packet) - 1))
    match data.draw(st.sampled_from(["cut", "noise", "zeros"])):
        case "cut":
            del packet[start:]
        case "noise":
            packet[start:] = data.draw(st.randoms(use_true_random=False)).randbytes(len(packet) - start)
        case _:
            packet[start:] = bytes(len(packet) - start)
    shots = list(clip.shots)
    shots[place] = replace(shots[place], packet=VideoPacket(shots[place].packet.codec, bytes(packet)))
    played = play(stream(data.draw(st.sampled_from([1, 2, 4]))), shots)
    for number in after_next_key(clip, place):
        assert np.array_equal(played.pictures[number], clip.truth[number])


def test_a_packet_cut_short_takes_what_follows_it_along() -> None:
    clip = make_clip("h264-p")
    shots: list[Shot] = list(clip.shots)
    data = shots[15].packet.data
    shots[15] = replace(shots[15], packet=VideoPacket("h264", data[: len(data) // 2]))
    for workers in (1, 2, 4):
        played = play(stream(workers), shots)
        assert set(played.pictures) == set(clip.truth) - set(range(15, 24))
        assert {str(error) for error in played.errors.values()} == {"damaged in its packet or an earlier one"}
