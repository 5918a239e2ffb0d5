"""Parameter sets and slice headers, against the encoders' own words and against sets made by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from clips import RECIPES, encode_shots, make_clip, recipe
from hypothesis import given
from hypothesis import strategies as st
from rewrite import bits_to_bytes, escape, nal_units, se, ue

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.headers import BitReader, NalUnit, head, slice_heads
from edgefirst_ros.video.parameters import (
    FRAME,
    ParameterSets,
    SliceHeader,
    h264_fields,
    h265_slices,
    picture_set,
    sequence_set,
)


def codec_of(name: str) -> Codec:
    return "h264" if name.startswith("h264") else "h265"


def filled(codec: Codec, units: Iterable[NalUnit]) -> ParameterSets:
    """The parameter sets among NAL units."""
    sets = ParameterSets(codec)
    sets.add_all(units)
    return sets


def first_slice(codec: Codec, unit: NalUnit, sets: ParameterSets) -> SliceHeader:
    return h264_fields([unit], sets)[0][0] if codec == "h264" else h265_slices([unit], sets)[0]


@given(st.lists(st.integers(0, 2**31), max_size=12))
def test_exp_golomb_codes_are_read_back(numbers: list[int]) -> None:
    bits = BitReader(bits_to_bytes("".join(ue(n) + se(n) + se(-n) for n in numbers)))
    assert [(bits.ue(), bits.se(), bits.se()) for _ in numbers] == [(n, n, -n) for n in numbers]
    assert bits.flag()


def test_reading_past_the_end_is_an_error() -> None:
    for read in (lambda bits: bits.u(9), lambda bits: bits.ue(), lambda bits: bits.se()):
        with pytest.raises(DecodeError):
            read(BitReader(b"\x00"))
    with pytest.raises(DecodeError):
        BitReader(bytes(9)).ue()


@pytest.mark.parametrize("name", RECIPES)
def test_display_order_is_what_the_encoder_gave(name: str) -> None:
    clip, codec = make_clip(name), codec_of(name)
    sets, origin = ParameterSets(codec), 0
    for shot in clip.shots:
        units = head(shot.packet)
        sets.add_all(units)
        header = first_slice(codec, units[-1], sets)
        if header.idr:
            origin = shot.number
        step = 2 if codec == "h264" else 1
        assert header.poc == step * (shot.number - origin) % header.poc_modulus


@pytest.mark.parametrize(("name", "reorder"), [("p", 0), ("b", 1), ("pyramid", 2)])
def test_reordering_as_h264_streams_say_it(name: str, reorder: int) -> None:
    sequence = next(unit for unit in head(make_clip(f"h264-{name}").shots[0].packet) if unit.kind == 7)
    assert sequence_set("h264", sequence.data).reorder == reorder


@pytest.mark.parametrize(("name", "reorder"), [("p", 0), ("pyramid", 2)])
def test_reordering_as_h265_streams_say_it(name: str, reorder: int) -> None:
    sequence = next(unit for unit in head(make_clip(f"h265-{name}").shots[0].packet) if unit.kind == 33)
    assert sequence_set("h265", sequence.data).reorder == reorder


@pytest.mark.parametrize(
    "params",
    [
        "nal-hrd=vbr:vbv-maxrate=900:vbv-bufsize=900",
        "sar=7/5:overscan=show:videoformat=pal:colorprim=bt709:chromaloc=1",
        "cqm=jvt",
        "interlaced=1",
        "keyint=300",
    ],
)
def test_h264_sequence_sets_of_every_shape(params: str) -> None:
    shots = encode_shots(*recipe("h264-b", **{"x264-params": params}), frames=6)
    units = head(shots[0].packet)
    found = sequence_set("h264", next(unit.data for unit in units if unit.kind == 7))
    assert found.reorder == 1
    assert found.frames_only == ("interlaced" not in params)
    assert h264_fields([units[-1]], filled("h264", units))[0][0].idr


@pytest.mark.parametrize("pix_fmt", ["yuv422p", "yuv444p"])
@pytest.mark.parametrize("name", ["h264-b", "h265-pyramid"])
def test_other_colour_formats(name: str, pix_fmt: str) -> None:
    def setup(context: object) -> None:
        context.pix_fmt = pix_fmt  # type: ignore[attr-defined]

    encoder, options = recipe(name)
    shots = encode_shots(encoder, options, frames=4, setup=setup)
    kind = 7 if encoder == "libx264" else 33
    data = next(unit.data for unit in head(shots[0].packet) if unit.kind == kind)
    assert sequence_set(codec_of(name), data).reorder in (1, 2)


def h264_sequence(
    chroma: str, *, profile: int = 244, poc: str = ue(0) + ue(2), gaps: str = "0", frames_only: str = "1"
) -> bytes:
    """An H.264 sequence parameter set without VUI, clause 7.3.2.1.1."""
    bits = f"{profile:08b}" + "0" * 8 + "00011110" + ue(0) + chroma + ue(1) + poc
    bits += ue(4) + gaps + ue(5) + ue(3) + frames_only + ("" if frames_only == "1" else "0") + "1" + "0" + "0"
    return b"\x67" + escape(bits_to_bytes(bits))


def h264_picture(ident: int) -> bytes:
    """An H.264 picture parameter set of the sequence parameter set 0, clause 7.3.2.2."""
    return b"\x68" + bits_to_bytes(ue(ident) + ue(0) + "00" + ue(0) * 3 + "000" + se(0) * 3 + "000")


def flat(size: int) -> str:
    """A scaling list spelt out."""
    return "1" + se(0) * size


@pytest.mark.parametrize(
    ("chroma", "separate"),
    [
        (ue(1) + ue(0) * 2 + "0" + "0", False),
        (ue(1) + ue(2) * 2 + "0" + "1" + flat(16) * 6 + "1" + se(-8) + "0", False),
        (ue(3) + "1" + ue(0) * 2 + "0" + "1" + flat(16) * 6 + flat(64) * 6, True),
        (ue(3) + "0" + ue(0) * 2 + "0" + "1" + "0" * 12, False),
    ],
)
def test_h264_scaling_lists_are_passed_over(chroma: str, separate: bool) -> None:
    found = sequence_set("h264", h264_sequence(chroma))
    assert (found.separate_planes, found.frame_num_bits, found.poc_type, found.poc_bits) == (
        separate,
        5,
        0,
        6,
    )
    assert found.frames_only
    assert found.reorder is None


@pytest.mark.parametrize(
    ("poc", "expected", "modulus"),
    [
        (ue(0) + ue(1), 21, 32),
        (ue(1) + "0" + se(-1) + se(2) + ue(2) + se(2) * 2, None, 1),
        (ue(2), 2 * 9 - 1, 64),
    ],
)
def test_h264_display_order_of_every_type(poc: str, expected: int | None, modulus: int) -> None:
    sequence = h264_sequence(ue(3) + "1" + ue(0) * 2 + "0" + "0", poc=poc, frames_only="0")
    sets = filled("h264", [NalUnit(7, sequence), NalUnit(8, h264_picture(4))])
    bits = ue(0) + ue(5) + ue(4) + "01" + f"{9:05b}" + "1" + "0"
    bits += f"{21:05b}" * (expected == 21) + se(-1) * (expected is None) + "000"
    for header_byte, reference in ((0x01, False), (0x21, True), (0x61, True)):
        header = first_slice("h264", NalUnit(1, bytes((header_byte,)) + bits_to_bytes(bits)), sets)
        assert (header.frame_num, header.frame_num_modulus, header.reference) == (9, 32, reference)
        raised = reference and expected == 17
        assert (header.poc, header.poc_modulus) == (18 if raised else expected, modulus)


def h265_sequence(*, layers: int = 0) -> bytes:
    """An H.265 sequence parameter set up to the size of its blocks, clause 7.3.2.2."""
    bits = f"0000{layers:03b}1" + "0" * 88 + "00011110"
    bits += "11" * layers + ("00" * (8 - layers) if layers else "") + ("0" * 96) * layers
    bits += ue(0) + ue(1) + ue(96) + ue(64) + "1" + ue(1) * 4 + ue(0) * 2 + ue(4)
    bits += "1" + (ue(4) + ue(2) + ue(0)) * (layers + 1)
    return b"\x42\x01" + escape(bits_to_bytes(bits + ue(0) + ue(1)))


@pytest.mark.parametrize("layers", [0, 2])
def test_h265_sequence_sets_of_every_shape(layers: int) -> None:
    found = sequence_set("h265", h265_sequence(layers=layers))
    assert (found.size, found.poc_bits, found.reorder, found.address_bits) == ((92, 60), 8, 2, 5)


def h265_picture() -> bytes:
    """An H.265 picture parameter set up to its first flags: slices may depend on others, clause 7.3.2.3."""
    return b"\x44\x01" + escape(bits_to_bytes(ue(0) + ue(0) + "1" + "0" + "000"))


def h265_slice(bits: str, *, kind: int = 1) -> NalUnit:
    return NalUnit(kind, bytes((kind << 1, 1)) + escape(bits_to_bytes(bits)))


@pytest.fixture
def sets() -> ParameterSets:
    return filled("h265", [NalUnit(33, h265_sequence()), NalUnit(34, h265_picture())])


@pytest.mark.parametrize("kind", [0, 1, 6, 8, 19, 21])
def test_display_order_counts_from_pictures_that_others_build_on(sets: ParameterSets, kind: int) -> None:
    rest = ue(0) + ue(1) + f"{7:08b}"
    (header,) = h265_slices([h265_slice("1" + "0" * (kind >= 16) + rest, kind=kind)], sets)
    assert header.anchor is (kind in (1, 19, 21))
    assert (header.poc, header.poc_modulus) == (0 if kind == 19 else 7, 256)


def test_slices_that_depend_on_others_and_such_as_do_not(sets: ParameterSets) -> None:
    first = h265_slice("1" + ue(0) + ue(1) + f"{7:08b}")
    dependent = h265_slice("0" + ue(0) + "1" + f"{5:05b}")
    own = h265_slice("0" + ue(0) + "0" + f"{9:05b}" + ue(1) + f"{7:08b}")
    assert [header.address for header in h265_slices([first, dependent, own], sets)] == [0, 5, 9]
    with pytest.raises(DecodeError, match="several pictures"):
        h265_slices([first, dependent, dependent], sets)
    with pytest.raises(DecodeError, match="several pictures"):
        h265_slices([first, h265_slice("0" + ue(0) + "0" + f"{9:05b}" + ue(1) + f"{8:08b}")], sets)


@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_cut_headers_are_refused_and_never_crash(codec: str) -> None:
    for name in (f"{codec}-p", f"{codec}-pyramid"):
        units = nal_units(make_clip(name).shots[0].packet.data)
        for unit in units[:3]:
            for end in range(len(unit)):
                for read in (sequence_set, picture_set):
                    try:
                        read(codec_of(codec), unit[:end])
                    except DecodeError:
                        continue


@given(st.binary(max_size=120))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for codec, sequence, picture in (("h264", 7, 8), ("h265", 33, 34)):
        sets = filled(codec, [NalUnit(sequence, data), NalUnit(picture, data)])
        try:
            first_slice(codec, NalUnit(1, data + b"\x01\x01"), sets)
        except DecodeError:
            continue


def test_a_slice_that_starts_amid_a_picture_or_names_nothing_known(sets: ParameterSets) -> None:
    with pytest.raises(DecodeError, match="first slice"):
        h265_slices([NalUnit(1, b"\x02\x01\x00\xff")], sets)
    with pytest.raises(DecodeError, match="parameter sets"):
        h265_slices([h265_slice("1" + ue(0) + "0" * 30)], ParameterSets("h265"))
    known = filled(
        "h264", [NalUnit(7, h264_sequence(ue(1) + ue(0) * 2 + "0" + "0")), NalUnit(8, h264_picture(0))]
    )
    amid = NalUnit(1, b"\x61" + bits_to_bytes(ue(3) + ue(5) + ue(0) + "0" * 5 + "0" * 6 + "000"))
    with pytest.raises(DecodeError, match="first slice"):
        h264_fields([amid], known)
    with pytest.raises(DecodeError, match="parameter sets"):
        h264_fields([NalUnit(1, b"\x61" + bits_to_bytes(ue(0) * 5))], ParameterSets("h264"))


def test_all_slices_of_a_frame_are_one_group() -> None:
    shots = encode_shots(*recipe("h264-p", **{"x264-params": "slices=3"}), frames=2)
    units = slice_heads(shots[1].packet)
    (frame,) = h264_fields(units, filled("h264", head(shots[0].packet)))
    assert [header.field for header in frame] == [FRAME] * 3
    assert [header.address for header in frame] == sorted({header.address for header in frame})
