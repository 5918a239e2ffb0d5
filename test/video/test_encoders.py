"""Other encoders: all pictures come, and none that is wrong where packets or slices were lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from clips import Shot, decode_plainly, encode_shots, play, read_shots, recipe
from rewrite import nal_units, rejoin

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.video.headers import NalUnit, escape, is_slice, unescape
from edgefirst_ros.video.loss import MISCOUNTED
from edgefirst_ros.video.parameters import ParameterSets, h264_fields
from edgefirst_ros.video.stream import Remarks, VideoStream

STREAMS = sorted((Path(__file__).parent / "streams").glob("*.265"))
LOOKAHEAD_NS = 1_500_000_000


def assert_all_come(shots: tuple[Shot, ...], workers: int, remarks: Remarks | None = None) -> None:
    truth = decode_plainly(shots)
    video = VideoStream("/camera", workers=workers, lookahead_ns=LOOKAHEAD_NS, remarks=remarks)
    played = play(video, shots, lookahead_ns=LOOKAHEAD_NS)
    assert sorted(played.pictures) == sorted(truth)
    assert all(np.array_equal(rgb, truth[number]) for number, rgb in played.pictures.items())


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_all_pictures_of_deep_pyramids_come(path: Path, workers: int) -> None:
    assert_all_come(read_shots(path), workers)


def assert_right(shots: Sequence[Shot], truth: dict[int, npt.NDArray[np.uint8]]) -> set[int]:
    """None of the pictures that come of a part of a stream is wrong; the numbers of these."""
    video = VideoStream("/camera", lookahead_ns=LOOKAHEAD_NS)
    played = play(video, shots, lookahead_ns=LOOKAHEAD_NS)
    assert [n for n, rgb in played.pictures.items() if not np.array_equal(rgb, truth[n])] == []
    return set(played.pictures)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_no_wrong_picture_follows_a_lost_packet(path: Path) -> None:
    shots = read_shots(path)
    truth = decode_plainly(shots)
    for lost in range(0, len(shots), 4):
        left = [shot for place, shot in enumerate(shots) if place != lost]
        assert shots[lost].number not in assert_right(left, truth)


def sliced() -> list[tuple[Shot, ...]]:
    """Streams whose pictures have several slices each, by three encoders."""
    kvazaar = next(path for path in STREAMS if path.stem == "kvz-wppslices")
    x264 = recipe("h264-p", g="10", **{"x264-params": "slices=3:scenecut=0"})
    x265 = recipe("h265-p", **{"x265-params": "slices=3:ctu=16:keyint=10:log-level=none:bframes=0"})
    made = [encode_shots(*each, frames=24, size=(128, 96)) for each in (x264, x265)]
    return [read_shots(kvazaar), *made]


@pytest.mark.parametrize("number", range(3), ids=["kvazaar", "x264", "x265"])
def test_a_lost_slice_takes_its_picture_and_what_follows_it(number: int) -> None:
    shots = sliced()[number]
    truth = decode_plainly(shots)
    for place in (12, 15, 19):
        codec, units = shots[place].packet.codec, nal_units(shots[place].packet.data)
        slices = [
            unit for unit in units if is_slice(codec, unit[0] & 31 if codec == "h264" else unit[0] >> 1)
        ]
        for lost in slices[1:]:
            data = rejoin([unit for unit in units if unit is not lost])
            cut = replace(shots[place], packet=replace(shots[place].packet, data=data))
            came = assert_right([*shots[:place], cut, *shots[place + 1 :]], truth)
            assert shots[place].number not in came


def counted(shots: tuple[Shot, ...], number_of: Callable[[bool, int, int], int]) -> tuple[Shot, ...]:
    """The stream with other frame_nums.

    They are made of whether a picture is one for reference, and of how many of these and of all came since
    the last IDR picture.
    """
    sets = ParameterSets("h264")
    made, references, pictures = [], 0, 0
    for shot in shots:
        units = []
        for data in nal_units(shot.packet.data):
            kind = data[0] & 31
            sets.add_all([NalUnit(kind, data)])
            if kind in (1, 5):
                header = h264_fields([NalUnit(kind, data)], sets)[0][0]
                if header.idr:
                    references = pictures = 0
                payload = unescape(data[1:])
                change = number_of(header.reference, references, pictures) % header.frame_num_modulus
                bits = int.from_bytes(payload, "big") + (change - header.frame_num << header.frame_num_left)
                data = data[:1] + escape(bits.to_bytes(len(payload), "big"))  # noqa: PLW2901
                references += header.reference
                pictures += 1
            units.append(data)
        made.append(replace(shot, packet=VideoPacket("h264", rejoin(units))))
    return tuple(made)


@pytest.mark.parametrize(
    ("number_of", "breach"),
    [
        (lambda _, references, __: references, ""),
        (lambda reference, references, _: references if reference else references - 1, MISCOUNTED),
        (lambda _, __, pictures: pictures, MISCOUNTED),
    ],
    ids=["as it should be", "repeated", "all counted"],
)
@pytest.mark.parametrize(
    "structure",
    [{"bf": "2"}, {"bf": "1"}, {"bf": "3", "b-pyramid": "normal"}],
    ids=["two", "one", "pyramid"],
)
def test_counts_that_break_the_standard_without_harm_are_noted(
    structure: dict[str, str], number_of: Callable[[bool, int, int], int], breach: str
) -> None:
    shots = encode_shots(*recipe("h264-b", **{"x264-params": "ref=1", **structure}), frames=30)
    remarks = Remarks()
    assert_all_come(counted(shots, number_of), 1, remarks)
    assert [breach in note for note in remarks.notes] == [True] * bool(breach)


@pytest.mark.parametrize("encoder", ["h264-p", "h265-p"])
def test_a_slice_of_another_picture_is_found(encoder: str) -> None:
    params = "slices=2" if encoder == "h264-p" else "slices=2:ctu=16:log-level=none:keyint=12"
    key = "x264-params" if encoder == "h264-p" else "x265-params"
    shots = list(encode_shots(*recipe(encoder, **{key: params}), frames=8, size=(128, 96)))
    truth = decode_plainly(shots)
    one, other = nal_units(shots[4].packet.data), nal_units(shots[5].packet.data)
    shots[4] = replace(shots[4], packet=replace(shots[4].packet, data=rejoin([*one[:-1], other[-1]])))
    played = play(VideoStream("/camera"), shots)
    assert shots[4].number not in played.pictures
    assert all(np.array_equal(rgb, truth[number]) for number, rgb in played.pictures.items())
