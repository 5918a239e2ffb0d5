"""How much is decoded, kept and waited for to give what is asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import cache

import av
import numpy as np
import pytest
from clips import (
    LOOKAHEAD_NS,
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

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video import worker
from edgefirst_ros.video.decoder import DecoderKind, VideoDecoder
from edgefirst_ros.video.gops import AccessUnit, StartKind
from edgefirst_ros.video.pictures import Picture
from edgefirst_ros.video.stream import VideoStream

WORKERS = pytest.mark.parametrize("workers", [1, 2, 4])
DEEPEST_REORDER = 3


def stream(workers: int = 1) -> VideoStream:
    return VideoStream("/camera/h264", workers=workers, lookahead_ns=LOOKAHEAD_NS)


def numbers(fed: Iterable[bytes], shots: Iterable[Shot]) -> list[int]:
    known = {shot.packet.data: shot.number for shot in shots}
    return [known[data] for data in fed]


@cache
def one_long_group() -> Clip:
    shots = encode_shots(*recipe("h264-p", g="600"), frames=120)
    return Clip("long", shots, decode_plainly(shots))


def push_all(video: VideoStream, shots: Iterable[Shot]) -> None:
    for shot in shots:
        video.push(shot.time_ns, shot.packet)


@WORKERS
def test_where_key_frames_are_asked_for_nothing_else_is_decoded(
    clip: Clip, workers: int, fed: list[bytes]
) -> None:
    keys = {shot.number for shot in clip.shots if shot.key}
    played = play(stream(workers), clip.shots, wanted=keys.__contains__)
    assert numbers(fed, clip.shots) == sorted(keys)
    assert all(np.array_equal(played.pictures[number], clip.truth[number]) for number in keys)


def test_where_nothing_is_asked_for_nothing_is_decoded(clip: Clip, fed: list[bytes]) -> None:
    played = play(stream(), clip.shots, wanted=lambda _: False)
    assert len(played.verdicts) == len(clip.shots)
    assert not fed


@WORKERS
def test_one_picture_a_group_costs_the_group_up_to_it(clip: Clip, workers: int, fed: list[bytes]) -> None:
    # The picture shown one after the key frame builds on no other group, and on few of its own.
    wanted = {1, 13, 25, 37}
    played = play(stream(workers), clip.shots, wanted=wanted.__contains__)
    expected: list[int] = []
    for number in sorted(wanted):
        place = next(place for place, shot in enumerate(clip.shots) if shot.number == number)
        key = max(before for before, shot in enumerate(clip.shots[: place + 1]) if shot.key)
        expected += [shot.number for shot in clip.shots[key : place + 1]]
    assert numbers(fed, clip.shots) == expected
    assert {number: burnt_in(rgb) for number, rgb in played.pictures.items()} == {n: n for n in wanted}


@WORKERS
def test_one_frame_in_five_decodes_no_further_than_the_last_of_them(
    clip: Clip, workers: int, fed: list[bytes]
) -> None:
    wanted = {0, 5, 10, 12, 17}
    played = play(stream(workers), clip.shots, wanted=wanted.__contains__)
    last = max(place for place, shot in enumerate(clip.shots) if shot.number in wanted)
    order = [shot.number for shot in clip.shots]
    furthest = max(order.index(number) for number in numbers(fed, clip.shots))
    assert last <= furthest <= last + workers - 1 + 2 * DEEPEST_REORDER
    assert all(np.array_equal(played.pictures[number], clip.truth[number]) for number in wanted)


def test_a_group_between_wanted_ones_is_skipped(clip: Clip, fed: list[bytes]) -> None:
    play(stream(), clip.shots, wanted={0, 1, 40, 41}.__contains__)
    assert not set(range(12, 24)) & set(numbers(fed, clip.shots))


def test_leading_pictures_alone_cost_the_group_before_theirs(fed: list[bytes]) -> None:
    clip = make_clip("h264-open")
    order = [shot.number for shot in clip.shots]
    assert order.index(24) < order.index(23)
    played = play(stream(), clip.shots, wanted={23}.__contains__)
    assert numbers(fed, clip.shots) == order[order.index(12) : order.index(23) + 1]
    assert np.array_equal(played.pictures[23], clip.truth[23])


@WORKERS
def test_every_picture_is_decoded_once_after_the_first_group(
    clip: Clip, workers: int, fed: list[bytes]
) -> None:
    play(stream(workers), clip.shots, window=0)
    fed_after = [number for number in numbers(fed, clip.shots) if number >= 12]
    assert sorted(fed_after) == sorted(set(fed_after))


@pytest.mark.parametrize("name", ["h264-b", "h264-pyramid"])
def test_once_two_pictures_of_a_group_are_asked_for_decoding_goes_on(name: str, fed: list[bytes]) -> None:
    """The first picture alone is decoded twice: until then it might have been the only one."""
    shots = encode_shots(*recipe(name, g="600"), frames=24)
    play(stream(), shots, window=0)
    order = [shot.number for shot in shots]
    assert numbers(fed, shots) == [order[0], *order]


@WORKERS
@pytest.mark.parametrize("window", [0, 1, 20])
def test_the_pictures_are_the_same_however_they_are_waited_for(clip: Clip, workers: int, window: int) -> None:
    for wanted in (None, lambda number: number % 3 == 0):
        played = play(stream(workers), clip.shots, wanted=wanted, window=window)
        assert not played.errors
        assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())
        assert len(played.pictures) == len(clip.shots) // (3 if wanted else 1) + (wanted is not None)


@WORKERS
def test_a_caller_that_waits_where_few_packets_follow_is_served(clip: Clip, workers: int) -> None:
    # Within the look-ahead there are fewer packets than the decoder holds back.
    slow = [replace(shot, step_ns=LOOKAHEAD_NS // 5) for shot in clip.shots]
    played = play(stream(workers), slow, window=0)
    assert not played.errors
    assert set(played.pictures) == set(clip.truth)
    assert all(np.array_equal(rgb, clip.truth[number]) for number, rgb in played.pictures.items())


@WORKERS
def test_close_serves_all_that_was_asked_for(clip: Clip, workers: int) -> None:
    video = stream(workers)
    push_all(video, clip.shots)
    futures = {
        shot.number: video.request(video.judge(shot.time_ns))
        for shot in sorted(clip.shots, key=lambda s: s.number)
    }
    video.close()
    assert all(future.done() for future in futures.values())
    assert all(np.array_equal(future.result().rgb(), clip.truth[n]) for n, future in futures.items())
    assert not any(thread.name == "video /camera/h264" for thread in threading.enumerate())


def test_close_twice_and_without_any_packet() -> None:
    with stream() as video:
        video.close()
    assert video.judge(5).reason == "no packet of that time"


def test_after_close_requests_are_refused() -> None:
    clip = make_clip("h264-p")
    video = stream()
    push_all(video, clip.shots)
    video.close()
    with pytest.raises(DecodeError, match="closed"):
        video.request(video.judge(clip.shots[3].time_ns)).result(timeout=10)


def test_what_is_not_usable_is_refused_with_the_reason() -> None:
    clip = make_clip("h264-p")
    with stream() as video:
        push_all(video, clip.shots[3:])
        with pytest.raises(DecodeError, match=Reason.BEFORE_KEY):
            video.request(video.judge(clip.shots[4].time_ns)).result(timeout=10)
        with pytest.raises(DecodeError, match="no packet of that time"):
            video.request(video.judge(clip.shots[4].time_ns + 1)).result(timeout=10)


def test_the_same_time_twice_is_the_same_picture(fed: list[bytes]) -> None:
    clip = make_clip("h264-p")
    with stream() as video:
        push_all(video, clip.shots)
        first = video.request(video.judge(clip.shots[12].time_ns))
        assert video.request(video.judge(clip.shots[12].time_ns)) is first
    assert numbers(fed, clip.shots) == [12]


def test_what_is_cancelled_is_not_decoded(fed: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    clip = make_clip("h264-p")
    gate = threading.Event()
    watched = VideoDecoder.feed

    def slow(self: VideoDecoder, unit: AccessUnit) -> list[tuple[int, av.VideoFrame]]:
        gate.wait(60)
        return watched(self, unit)

    monkeypatch.setattr(VideoDecoder, "feed", slow)
    video = stream()
    push_all(video, clip.shots)
    futures = [video.request(video.judge(clip.shots[place].time_ns)) for place in (0, 12, 24)]
    assert futures[1].cancel()
    gate.set()
    video.close()
    assert numbers(fed, clip.shots) == [0, 24]
    assert burnt_in(futures[2].result().rgb()) == 24


def test_a_failure_in_the_thread_reaches_every_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: VideoDecoder, unit: AccessUnit) -> list[tuple[int, av.VideoFrame]]:
        raise MemoryError("no more")

    monkeypatch.setattr(VideoDecoder, "feed", broken)
    clip = make_clip("h264-p")
    video = stream()
    push_all(video, clip.shots)
    futures: list[Future[Picture]] = [video.request(video.judge(shot.time_ns)) for shot in clip.shots[:5]]
    for future in futures:
        with pytest.raises(MemoryError):
            future.result(timeout=10)
    with pytest.raises(MemoryError):
        video.request(video.judge(clip.shots[6].time_ns)).result(timeout=10)
    video.close()


@WORKERS
def test_a_picture_that_the_decoder_never_gives_is_refused(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = make_clip("h264-pyramid")
    silent = next(shot.packet.data for shot in clip.shots if shot.number == 17)
    feed = VideoDecoder.feed

    def withhold(self: VideoDecoder, unit: AccessUnit) -> list[tuple[int, av.VideoFrame]]:
        return [] if unit.data == silent else feed(self, unit)

    monkeypatch.setattr(VideoDecoder, "feed", withhold)
    played = play(stream(workers), clip.shots, window=0)
    assert str(played.errors[17]) == "the decoder returned no picture"
    assert set(played.errors) <= set(range(12, 24))
    assert all(
        np.array_equal(rgb, clip.truth[n]) for n, rgb in played.pictures.items() if n not in range(12, 24)
    )


def test_a_picture_that_never_comes_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch, fed: list[bytes]
) -> None:
    clip = one_long_group()
    silent = clip.shots[30].packet.data
    feed = VideoDecoder.feed

    def withhold(self: VideoDecoder, unit: AccessUnit) -> list[tuple[int, av.VideoFrame]]:
        frames = feed(self, unit)
        return [] if unit.data == silent else frames

    monkeypatch.setattr(VideoDecoder, "feed", withhold)
    with stream() as video:
        push_all(video, clip.shots)
        for place in (0, 1):
            video.request(video.judge(clip.shots[place].time_ns)).result(timeout=60)
        assert video.judge(clip.shots[110].time_ns).reason is None
        with pytest.raises(DecodeError, match="no picture"):
            video.request(video.judge(clip.shots[30].time_ns)).result(timeout=60)
        assert len(set(fed)) == 30 + 1 + 17 + 1


def test_released_packets_are_let_go() -> None:
    clip = make_clip("h264-p")
    video = stream()
    kept = []
    for shot in clip.shots:
        video.push(shot.time_ns, shot.packet)
        video.judge(shot.time_ns - LOOKAHEAD_NS)
        video.release(shot.time_ns - LOOKAHEAD_NS)
        kept.append(video._worker.gops.kept_bytes)
    # Released up to 23, known up to 28: the second group is still needed, the first no longer.
    assert kept[-1] == sum(len(shot.packet.data) for shot in clip.shots[12:29])
    assert len(video._frames) <= 22
    video.close()


@WORKERS
def test_a_group_too_long_to_keep_is_decoded_ahead(
    workers: int, monkeypatch: pytest.MonkeyPatch, fed: list[bytes]
) -> None:
    clip = one_long_group()
    limit = 4_000
    monkeypatch.setattr(worker, "KEPT_BYTES", limit)
    video = stream(workers)
    futures = {}
    kept = []
    for place, shot in enumerate(clip.shots):
        video.push(shot.time_ns, shot.packet)
        behind_ns = shot.time_ns - LOOKAHEAD_NS
        video.judge(behind_ns)
        if place in (100, 110):
            futures[place - 20] = video.request(video.judge(behind_ns))
        video.release(behind_ns)
        kept.append(video._worker.gops.kept_bytes)
    video.close()
    window = max(sum(len(s.packet.data) for s in clip.shots[at : at + 21]) for at in range(100))
    assert sum(len(shot.packet.data) for shot in clip.shots) > 2 * (limit + window)
    assert max(kept) <= limit + window
    assert {number: burnt_in(future.result().rgb()) for number, future in futures.items()} == {80: 80, 90: 90}
    assert numbers(fed, clip.shots) == list(range(len(set(fed))))


def test_a_group_whose_start_was_let_go_cannot_be_entered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = one_long_group()
    monkeypatch.setattr(worker, "KEPT_BYTES", 2_000)
    video = stream(4)
    push_all(video, clip.shots[:60])
    for shot in clip.shots[:59]:
        video.judge(shot.time_ns)
        video.release(shot.time_ns)
    push_all(video, clip.shots[60:61])
    # Nothing follows that would push the picture out, so the decoder is drained for it.
    assert burnt_in(video.request(video.judge(clip.shots[60].time_ns)).result(timeout=60).rgb()) == 60
    push_all(video, clip.shots[61:])
    with pytest.raises(DecodeError, match="its key frame is no longer kept"):
        video.request(video.judge(clip.shots[70].time_ns)).result(timeout=60)
    for shot in clip.shots[71:]:
        video.judge(shot.time_ns, shot.time_ns + 1)
        video._worker.make_room()
    assert video._worker.gops.kept_bytes <= 2_000
    video.close()


def test_within_the_limit_a_long_group_is_not_decoded_before_it_is_wanted(fed: list[bytes]) -> None:
    clip = one_long_group()
    play(stream(), clip.shots, wanted=lambda _: False)
    assert not fed


def test_slow_video_is_decoded_by_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    create = VideoDecoder.__init__

    def watch(
        self: VideoDecoder,
        codec: str,
        threads: int,
        *,
        hidden_reorder: bool,
        start_kind: StartKind,
        kind: DecoderKind,
    ) -> None:
        used.append(threads)
        create(self, "h264", threads, hidden_reorder=hidden_reorder, start_kind=start_kind, kind=kind)

    monkeypatch.setattr(VideoDecoder, "__init__", watch)
    clip = make_clip("h264-p")
    for step_ns in (STEP_NS, 2 * STEP_NS, 30 * STEP_NS):
        video = stream(workers=8)
        push_all(video, [replace(shot, step_ns=step_ns) for shot in clip.shots])
        video.request(video.judge(clip.shots[0].time_ns)).result(timeout=60)
        video.close()
    assert used == [5, 2, 1]


def test_packets_that_nobody_requests_wake_no_thread(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    video, woken = stream(), []
    monkeypatch.setattr(video._worker.changed, "notify_all", lambda: woken.append(1))
    for shot in clip.shots:
        video.push(STEP_NS * shot.number, shot.packet)
        video.judge(STEP_NS * shot.number - LOOKAHEAD_NS)
        video.release(STEP_NS * shot.number - 2 * LOOKAHEAD_NS)
    assert not woken
