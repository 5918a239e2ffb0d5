"""What other encoders make is all sound: streams of kvazaar and SVT-HEVC, and habits of H.264 encoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clips import Shot, decode_plainly, encode_shots, play, read_shots, recipe
from rewrite import nal_units, rejoin

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.video import h264, h264slices
from edgefirst_ros.video.bitstream import NalUnit, ParameterSets, escape, unescape
from edgefirst_ros.video.h264follower import OVERCOUNTED, REPEATED
from edgefirst_ros.video.stream import Remarks, VideoStream

STREAMS = sorted((Path(__file__).parent / "streams").glob("*.265"))
LOOKAHEAD_NS = 1_500_000_000


def assert_all_come(shots: tuple[Shot, ...], workers: int, remarks: Remarks | None = None) -> None:
    truth = decode_plainly(shots)
    video = VideoStream("/camera", workers=workers, lookahead_ns=LOOKAHEAD_NS, remarks=remarks)
    played = play(video, shots, vouched=True, lookahead_ns=LOOKAHEAD_NS)
    assert sorted(played.pictures) == sorted(truth)
    assert all(np.array_equal(rgb, truth[number]) for number, rgb in played.pictures.items())


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_all_pictures_of_deep_pyramids_come(path: Path, workers: int) -> None:
    assert_all_come(read_shots(path), workers)


def counted(shots: tuple[Shot, ...], number_of: Callable[[bool, int, int], int]) -> tuple[Shot, ...]:
    """The stream with other frame_nums.

    They are made of whether a picture is one for reference, and of how many of these and of all came since
    the last IDR picture.
    """
    sets = ParameterSets(h264.sequence_set, h264.picture_set)
    made, references, pictures = [], 0, 0
    for shot in shots:
        units = []
        for data in nal_units(shot.packet.data):
            kind = data[0] & 31
            if kind == 7:
                sets.add_sequence(data)
            elif kind == 8:
                sets.add_picture(data)
            elif kind in (1, 5):
                header = h264slices.slice_header(NalUnit(kind, data), sets)
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
        (lambda reference, references, _: references if reference else references - 1, REPEATED),
        (lambda _, __, pictures: pictures, OVERCOUNTED),
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
    played = play(VideoStream("/camera"), shots, vouched=True)
    assert shots[4].number not in played.pictures
    assert all(np.array_equal(rgb, truth[number]) for number, rgb in played.pictures.items())
