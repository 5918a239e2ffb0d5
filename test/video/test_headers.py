"""Key frames and NAL units from headers alone."""

from __future__ import annotations

import pytest
from clips import Clip, encode_shots, is_keyframe, make_clip, recipe
from hypothesis import given
from hypothesis import strategies as st
from rewrite import escape, nal_units, rejoin

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.video.headers import head, unescape

SEI_AT_ONCE = bytes((6, 6, 1, 0b11000000, 0x80))
SEI_AFTER_ONE = bytes((6, 6, 1, 0b01011000, 0x80))
SEI_OTHER = bytes((6, 5, 2, 0x80, 0x80, 0x80))
SEI_LONG = bytes((6, 0xFF, 5, 0xFF, 3)) + bytes(range(1, 255)) + b"\x80" * 4
INTRA_SLICE, INTER_SLICE = bytes((0x61, 0b10001000, 0x80)), bytes((0x61, 0b11100000, 0x80))


def test_key_frames_are_those_the_encoder_marked(clip: Clip) -> None:
    found = [is_keyframe(shot.packet) for shot in clip.shots]
    assert found == [shot.key for shot in clip.shots]
    assert sum(found) == 4


def test_a_stream_that_is_refreshed_bit_by_bit_has_one_key_frame() -> None:
    shots = encode_shots(*recipe("h264-p", **{"x264-params": "intra-refresh=1:keyint=10"}), frames=30)
    assert [shot.number for shot in shots if is_keyframe(shot.packet)] == [0]


@pytest.mark.parametrize(
    ("units", "key"),
    [
        ([SEI_AT_ONCE, INTRA_SLICE], True),
        ([SEI_OTHER + SEI_AT_ONCE[1:], INTRA_SLICE], False),
        ([SEI_OTHER[:-1] + SEI_AT_ONCE[1:], INTRA_SLICE], True),
        ([SEI_LONG + SEI_AT_ONCE[1:], INTRA_SLICE], True),
        ([SEI_AT_ONCE, b"\x61\x00"], False),
        ([SEI_AFTER_ONE, INTRA_SLICE], False),
        ([SEI_AT_ONCE, INTER_SLICE], False),
        ([SEI_OTHER, INTRA_SLICE], False),
        ([INTRA_SLICE], False),
        ([INTRA_SLICE, SEI_AT_ONCE], False),
        ([b"\x65\x88\x80"], True),
        ([b"\xe5\x88\x80"], False),
        ([b"\x09\xf0", b"\x65\x88\x80"], True),
        ([SEI_AT_ONCE], False),
        ([], False),
    ],
)
def test_recovery_points_of_h264(units: list[bytes], key: bool) -> None:
    assert is_keyframe(VideoPacket("h264", rejoin(units))) is key


@pytest.mark.parametrize("kind", range(48))
def test_random_access_points_of_h265(kind: int) -> None:
    assert is_keyframe(VideoPacket("h265", rejoin([bytes((kind << 1, 1, 0x80))]))) is (16 <= kind <= 23)


def test_enhancement_layers_of_h265_are_passed_over() -> None:
    layer_1, layer_32 = bytes((19 << 1, 1 | 1 << 3, 0x80)), bytes((19 << 1 | 1, 1, 0x80))
    base = bytes((1 << 1, 1, 0x80))
    assert not is_keyframe(VideoPacket("h265", rejoin([layer_1, layer_32, base])))
    assert [unit.kind for unit in head(VideoPacket("h265", rejoin([layer_1, layer_32, base])))] == [1]


def test_start_codes_of_three_and_four_bytes(clip: Clip) -> None:
    for shot in clip.shots:
        short = b"".join(b"\x00\x00\x01" + unit for unit in nal_units(shot.packet.data))
        long = rejoin(nal_units(shot.packet.data))
        packets = [VideoPacket(shot.packet.codec, data) for data in (short, long, b"\x00\x00" + long)]
        kinds = [[(unit.kind, unit.data[:40]) for unit in head(packet)] for packet in packets]
        assert kinds[0] == kinds[1] == kinds[2]
        assert [is_keyframe(packet) for packet in packets] == [shot.key] * 3


def test_head_ends_with_the_first_slice() -> None:
    data = make_clip("h264-p").shots[0].packet.data
    units = head(VideoPacket("h264", data + data))
    assert [unit.kind for unit in units] == [7, 8, 6, 5]
    assert units[0].data == nal_units(data)[0]


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x07", b"\x00")))
def test_unescape_undoes_emulation_prevention(payload: bytes) -> None:
    assert unescape(escape(payload)) == payload


@given(st.sampled_from(["h264", "h265"]), st.binary(max_size=200))
def test_rubbish_is_no_key_frame_and_no_crash(codec: Codec, data: bytes) -> None:
    packet = VideoPacket(codec, data.replace(b"\x00\x00\x01", b""))
    assert head(packet) == []
    assert is_keyframe(packet) is False


@given(st.sampled_from(["h264", "h265"]), st.lists(st.binary(max_size=30), max_size=5))
def test_any_units_are_read_without_a_crash(codec: Codec, units: list[bytes]) -> None:
    assert is_keyframe(VideoPacket(codec, rejoin(units))) in (True, False)
