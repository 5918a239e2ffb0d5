"""Streams that change, that say little about themselves, and the one of the acceptance recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from clips import (
    LOOKAHEAD_NS,
    RECIPES,
    START_NS,
    STEP_NS,
    Clip,
    Shot,
    burnt_in,
    decode_plainly,
    encode_shots,
    make_clip,
    play,
    recipe,
)
from mcap.reader import make_reader
from rewrite import nal_units, rejoin, without_vui

from edgefirst_ros.model.camera import Codec, VideoPacket, decode_video
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.decoder import VideoDecoder
from edgefirst_ros.video.stream import Remarks, VideoStream

WORKERS = pytest.mark.parametrize("workers", [1, 3])
PARAMETER_KINDS = {"h264": {7, 8}, "h265": {32, 33, 34}}


def stream(workers: int = 1) -> VideoStream:
    return VideoStream("/camera/h264", workers=workers, lookahead_ns=LOOKAHEAD_NS)


def assert_all_true(shots: list[Shot], truth: dict[int, Any], workers: int = 1) -> None:
    some, keys = {n for n in truth if n % 7 == 3}, {shot.number for shot in shots if shot.key}
    for wanted in (None, some.__contains__, keys.__contains__):
        played = play(stream(workers), shots, wanted=wanted)
        assert not played.errors
        assert set(played.pictures) == {n for n in truth if wanted is None or wanted(n)}
        assert all(np.array_equal(rgb, truth[number]) for number, rgb in played.pictures.items())


@WORKERS
@pytest.mark.parametrize("name", ["h264-pyramid", "h264-open", "h265-open"])
def test_the_size_may_change_at_a_key_frame(name: str, workers: int) -> None:
    small, large = make_clip(name), encode_shots(*recipe(name), frames=30, first=44, size=(160, 96))
    truth = small.truth | decode_plainly(large)
    assert truth[0].shape == (64, 96, 3)
    assert truth[60].shape == (96, 160, 3)
    assert_all_true([*small.shots, *large], truth, workers)


@WORKERS
def test_the_codec_may_change_at_a_key_frame(workers: int) -> None:
    first = make_clip("h264-b")
    second = encode_shots(*recipe("h265-pyramid"), frames=30, first=44)
    third = encode_shots(*recipe("h264-p"), frames=20, first=74)
    truth = first.truth | decode_plainly(second) | decode_plainly(third)
    assert_all_true([*first.shots, *second, *third], truth, workers)


def test_after_a_change_of_codec_a_key_frame_is_waited_for() -> None:
    first = make_clip("h264-p")
    second = encode_shots(*recipe("h265-p"), frames=30, first=44)
    played = play(stream(), [*first.shots, *second[1:]])
    assert {played.verdicts[number] for number in range(45, 56)} == {Reason.AFTER_LOSS}
    assert played.verdicts[56] is None


def apart(shot: Shot, *, shift_ns: int = 0) -> tuple[Shot, Shot]:
    """The parameter sets of a key frame as a packet of their own, and the rest."""
    codec = shot.packet.codec
    units = nal_units(shot.packet.data)
    kinds = [unit[0] & 0x1F if codec == "h264" else unit[0] >> 1 & 0x3F for unit in units]
    chosen = [unit for unit, kind in zip(units, kinds, strict=True) if kind in PARAMETER_KINDS[codec]]
    rest = [unit for unit, kind in zip(units, kinds, strict=True) if kind not in PARAMETER_KINDS[codec]]
    sets = replace(shot, packet=VideoPacket(codec, rejoin(chosen)), key=False, shift_ns=shift_ns)
    return sets, replace(shot, packet=VideoPacket(codec, rejoin(rest)))


@WORKERS
@pytest.mark.parametrize("shift_ns", [0, -1_000_000])
def test_parameter_sets_may_come_in_packets_of_their_own(clip: Clip, workers: int, shift_ns: int) -> None:
    shots = [part for s in clip.shots for part in (apart(s, shift_ns=shift_ns) if s.key else (s,))]
    video = stream(workers)
    for shot in shots:
        video.push(shot.time_ns, shot.packet)
        video.push(shot.time_ns, shot.packet)
    if shift_ns:
        assert video.judge(shots[0].time_ns).reason == Reason.NO_PICTURE
    futures = {
        number: video.request(video.judge(START_NS + STEP_NS * number)) for number in sorted(clip.truth)
    }
    video.close()
    assert all(np.array_equal(futures[number].result().rgb(), rgb) for number, rgb in clip.truth.items())


@WORKERS
def test_parameter_sets_may_come_once_only(clip: Clip, workers: int) -> None:
    shots = [clip.shots[0], *(apart(shot)[1] if shot.key else shot for shot in clip.shots[1:])]
    assert_all_true(shots, clip.truth, workers)
    late_comer = play(stream(workers), shots, wanted={30}.__contains__)
    assert np.array_equal(late_comer.pictures[30], clip.truth[30])


def test_without_parameter_sets_nothing_is_usable(clip: Clip) -> None:
    played = play(stream(), [apart(shot)[1] if shot.key else shot for shot in clip.shots])
    assert set(played.verdicts.values()) == {Reason.NO_SETS}


def test_what_is_called_by_the_name_of_another_codec_says_so(clip: Clip) -> None:
    other: Codec = "h264" if clip.name.startswith("h265") else "h265"
    shots = [replace(shot, packet=VideoPacket(other, shot.packet.data)) for shot in clip.shots]
    assert set(play(stream(), shots).verdicts.values()) == {Reason.OTHER_CODEC}


def test_several_pictures_in_a_message_are_said(clip: Clip) -> None:
    pairs = zip(clip.shots[::2], clip.shots[1::2], strict=True)
    joined = [
        replace(one, packet=VideoPacket(one.packet.codec, one.packet.data + two.packet.data))
        for one, two in pairs
    ]
    assert set(play(stream(), joined).verdicts.values()) == {Reason.MIXED}


@WORKERS
@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("h264")])
def test_a_stream_that_does_not_say_that_it_reorders(name: str, workers: int) -> None:
    clip = make_clip(name)
    silent = [replace(s, packet=VideoPacket("h264", without_vui(s.packet.data))) for s in clip.shots]
    assert len(silent[0].packet.data) < len(clip.shots[0].packet.data)
    assert_all_true(silent, clip.truth, workers)


@WORKERS
def test_reordering_may_begin_without_a_word(workers: int) -> None:
    first = make_clip("h264-p")
    second = encode_shots(*recipe("h264-pyramid"), frames=40, first=44)
    truth = first.truth | decode_plainly(second)
    shots = [
        replace(s, packet=VideoPacket("h264", without_vui(s.packet.data))) for s in (*first.shots, *second)
    ]
    assert_all_true(shots, truth, workers)


def test_sets_that_change_and_pictures_of_a_stream_that_says_nothing_may_tell_of_another_order() -> None:
    shots, others = make_clip("h264-p").shots, make_clip("h264-b").shots
    video, silent = stream(), stream()
    assert video.learns_from(shots[0].packet)
    video.push(shots[0].time_ns, shots[0].packet)
    assert not any(video.learns_from(shot.packet) for shot in shots)
    assert video.learns_from(others[0].packet)
    silent.push(others[0].time_ns, VideoPacket("h264", without_vui(others[0].packet.data)))
    assert silent.learns_from(others[1].packet)
    video.close()
    silent.close()


def test_a_picture_whose_parts_still_come_is_not_decoded_yet() -> None:
    shots = encode_shots(*recipe("h264-b", **{"x264-params": "slices=2"}), frames=24)
    truth, video = decode_plainly(shots), stream()
    for place, shot in enumerate(shots):
        *first, last = nal_units(shot.packet.data)
        video.push(shot.time_ns, VideoPacket("h264", rejoin(first)))
        if place == 12:
            assert video.judge(shots[0].time_ns).reason is None
        assert video.join(shot.time_ns, VideoPacket("h264", rejoin([last])))
    futures = {number: video.request(video.judge(START_NS + STEP_NS * number)) for number in sorted(truth)}
    video.close()
    assert all(np.array_equal(futures[number].result().rgb(), rgb) for number, rgb in truth.items())


def test_late_parameter_sets_do_not_spoil_the_picture_of_their_time() -> None:
    clip = make_clip("h264-p")
    video = stream()
    for shot in clip.shots:
        video.push(shot.time_ns, shot.packet)
    assert video.judge(clip.shots[20].time_ns).reason is None
    sets, _ = apart(clip.shots[0])
    for place in (23, 20, 30):
        video.push(clip.shots[place].time_ns, sets.packet)
    assert [video.judge(clip.shots[place].time_ns).reason for place in (23, 30)] == [None, None]
    video.close()


@WORKERS
def test_an_encoder_may_not_throw_earlier_pictures_away(workers: int) -> None:
    clip = make_clip("h265-pyramid")
    shots = []
    for shot in clip.shots:
        units = nal_units(shot.packet.data)
        if shot.key:
            # no_output_of_prior_pics_flag, the second bit of the slice header
            units[-1] = units[-1][:2] + bytes((units[-1][2] | 0x40,)) + units[-1][3:]
        shots.append(replace(shot, packet=VideoPacket("h265", rejoin(units))))
    assert shots[12].packet.data != clip.shots[12].packet.data
    assert_all_true(shots, clip.truth, workers)


@pytest.mark.parametrize("kind", [16, 17, 18])
def test_broken_links_lose_the_pictures_that_lead_up_to_them(kind: int) -> None:
    """A splice of H.265 streams: pictures before the link are gone, whatever came in their place."""
    clip = make_clip("h265-open")
    link = next(place for place, shot in enumerate(clip.shots) if shot.number == 24)
    units = nal_units(clip.shots[link].packet.data)
    assert units[-1][0] >> 1 == 21
    units[-1] = bytes((kind << 1,)) + units[-1][1:]
    shots = list(clip.shots)
    shots[link] = replace(shots[link], packet=VideoPacket("h265", rejoin(units)))
    leading = {shot.number for shot in shots[link + 1 :] if shot.number < 24}
    assert len(leading) == 3
    played = play(stream(), shots)
    assert set(played.pictures) == set(clip.truth) - leading
    assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())


@WORKERS
def test_key_frames_alone(workers: int) -> None:
    shots = encode_shots(*recipe("h264-p", g="1"), frames=20)
    assert all(shot.key for shot in shots)
    truth = decode_plainly(shots)
    assert_all_true(list(shots), truth, workers)
    with mock.patch.object(VideoDecoder, "drain", autospec=True, side_effect=VideoDecoder.drain) as drains:
        assert len(play(stream(workers), shots, window=0).pictures) == 20
    assert drains.call_count <= 4
    played = play(stream(workers), [shot for shot in shots if shot.number not in (4, 9)])
    assert set(played.pictures) == set(truth) - {4, 9}


@WORKERS
def test_what_a_device_recorded(workers: int, recording: Path, truth: dict[str, Any]) -> None:
    every, topic = 15, "/camera/h264"
    stamps = [stamp for _, stamp, _ in truth["messages"][topic]]
    video = VideoStream(topic, workers=workers)
    futures = {}
    with recording.open("rb") as file:
        for place, (_, _, message) in enumerate(make_reader(file).iter_messages(topics=[topic])):
            packet = decode_video(message.data).datum
            assert video.push(stamps[place], packet) == (place in truth["video"][topic]["keyframes"])
    for place, stamp in enumerate(stamps):
        assert video.judge(stamp).reason is None
        if place % every == 7:
            futures[place] = video.request(video.judge(stamp))
            video.release(stamp)
    video.close()
    numbers = {place: burnt_in(future.result().rgb(), bits=24, cell=16) for place, future in futures.items()}
    assert numbers == {place: truth["video"][topic]["presentation"][place] for place in futures}
    assert len(numbers) == len(stamps) // every


@pytest.mark.parametrize("lost", [40, 89, 90, 91])
def test_what_a_device_recorded_after_a_loss(lost: int, recording: Path, truth: dict[str, Any]) -> None:
    topic = "/camera/h264"
    stamps = [stamp for _, stamp, _ in truth["messages"][topic]]
    keys = truth["video"][topic]["keyframes"]
    video = VideoStream(topic)
    with recording.open("rb") as file:
        for place, (_, _, message) in enumerate(make_reader(file).iter_messages(topics=[topic])):
            if place != lost:
                video.push(stamps[place], decode_video(message.data).datum)
    verdicts = {place: video.judge(stamp).reason for place, stamp in enumerate(stamps) if place != lost}
    video.close()
    next_key = min(key for key in keys if key > lost)
    assert {place for place, verdict in verdicts.items() if verdict} == set(range(lost + 1, next_key))


@WORKERS
@pytest.mark.parametrize("silent", [False, True])
def test_stamps_in_order_of_decoding_are_sorted(clip: Clip, workers: int, silent: bool) -> None:
    shots = clip.shots
    if silent and shots[0].packet.codec == "h264":
        shots = tuple(replace(s, packet=VideoPacket("h264", without_vui(s.packet.data))) for s in shots)
    late = [replace(shot, number=place) for place, shot in enumerate(shots)]
    moved, remarks = sum(shot.number != place for place, shot in enumerate(shots)), Remarks()
    video = VideoStream("/camera", workers=workers, lookahead_ns=LOOKAHEAD_NS, remarks=remarks)
    played = play(video, late)
    assert len(played.pictures) == len(late)
    assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())
    assert [note.split(" pictures")[0] for note in remarks.notes] == [f"/camera: {moved}"] * bool(moved)


def test_a_lost_key_frame_moves_no_times(clip: Clip) -> None:
    for lost, gone in enumerate(clip.shots):
        if gone.key:
            remarks = Remarks()
            left = clip.without([lost])
            played = play(VideoStream("/camera", lookahead_ns=LOOKAHEAD_NS, remarks=remarks), left)
            assert not remarks.notes
            assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())
