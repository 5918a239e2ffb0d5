"""Parameter sets and slice headers, against the encoders' own words and against sets made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from clips import RECIPES, encode_shots, make_clip, recipe
from hypothesis import given
from hypothesis import strategies as st
from rewrite import bits_to_bytes, escape, nal_units, se, ue

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video import h264, h264slices, h265sets, h265slices
from edgefirst_ros.video.bitstream import BitReader, NalUnit, ParameterSets, RecoveryPoint, head
from edgefirst_ros.video.h264follower import H264Follower, KeptPictures
from edgefirst_ros.video.h264slices import FRAME, H264SliceHeader
from edgefirst_ros.video.h265sets import H265ParameterSets, parameter_sets

H264ParameterSets = ParameterSets[h264.H264SequenceSet, h264.H264PictureSet]


def h264_parameter_sets() -> H264ParameterSets:
    return ParameterSets(h264.sequence_set, h264.picture_set)


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
    clip = make_clip(name)
    sets: ParameterSets[Any, Any] = h264_parameter_sets() if name.startswith("h264") else parameter_sets()
    read: Callable[..., Any] = h264slices.slice_header if name.startswith("h264") else h265slices.slice_header
    sequence, picture = (7, 8) if name.startswith("h264") else (33, 34)
    step = 2 if name.startswith("h264") else 1
    origin = 0
    for shot in clip.shots:
        units = head(shot.packet)
        for unit in units:
            if unit.kind == sequence:
                sets.add_sequence(unit.data)
            elif unit.kind == picture:
                sets.add_picture(unit.data)
        header = read(units[-1], sets)
        if units[-1].kind in (5, 19, 20) and shot.key:
            origin = shot.number
        assert header.poc == step * (shot.number - origin) % header.poc_modulus


@pytest.mark.parametrize(("name", "reorder"), [("p", 0), ("b", 1), ("pyramid", 2)])
def test_reordering_as_h264_streams_say_it(name: str, reorder: int) -> None:
    sequence = next(unit for unit in head(make_clip(f"h264-{name}").shots[0].packet) if unit.kind == 7)
    assert h264.sequence_set(sequence.data).reorder == reorder


@pytest.mark.parametrize(("name", "reorder"), [("p", 0), ("pyramid", 2)])
def test_reordering_as_h265_streams_say_it(name: str, reorder: int) -> None:
    sequence = next(unit for unit in head(make_clip(f"h265-{name}").shots[0].packet) if unit.kind == 33)
    assert h265sets.sequence_set(sequence.data).reorder == reorder


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
    found = h264.sequence_set(next(unit.data for unit in units if unit.kind == 7))
    assert found.reorder == 1
    assert found.frames_only == ("interlaced" not in params)
    sets = h264_parameter_sets()
    for unit in units:
        if unit.kind in (7, 8):
            sets.add_sequence(unit.data) if unit.kind == 7 else sets.add_picture(unit.data)
    assert h264slices.slice_header(units[-1], sets).idr


@pytest.mark.parametrize("pix_fmt", ["yuv422p", "yuv444p"])
@pytest.mark.parametrize("name", ["h264-b", "h265-pyramid"])
def test_other_colour_formats(name: str, pix_fmt: str) -> None:
    def setup(context: object) -> None:
        context.pix_fmt = pix_fmt  # type: ignore[attr-defined]

    encoder, options = recipe(name)
    shots = encode_shots(encoder, options, frames=4, setup=setup)
    parse: Callable[[bytes], object] = h264.sequence_set if encoder == "libx264" else h265sets.sequence_set
    kind = 7 if encoder == "libx264" else 33
    found = parse(next(unit.data for unit in head(shots[0].packet) if unit.kind == kind))
    assert found.reorder in (1, 2)  # type: ignore[attr-defined]


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
    found = h264.sequence_set(h264_sequence(chroma))
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
    sets = h264_parameter_sets()
    sets.add_sequence(h264_sequence(ue(3) + "1" + ue(0) * 2 + "0" + "0", poc=poc, frames_only="0"))
    sets.add_picture(h264_picture(4))
    bits = ue(0) + ue(5) + ue(4) + "01" + f"{9:05b}" + "1" + "0"
    bits += f"{21:05b}" * (expected == 21) + se(-1) * (expected is None) + "000"
    for header_byte, reference in ((0x01, False), (0x21, True), (0x61, True)):
        header = h264slices.slice_header(NalUnit(1, bytes((header_byte,)) + bits_to_bytes(bits)), sets)
        assert (header.frame_num, header.frame_num_modulus, header.reference) == (9, 32, reference)
        raised = reference and expected == 17
        assert (header.poc, header.poc_modulus) == (18 if raised else expected, modulus)


def h265_sequence(
    sets: str, *, long_term: str = "0", scaling: str = "0", pcm: str = "0", layers: int = 0
) -> bytes:
    """An H.265 sequence parameter set with given reference picture sets, clause 7.3.2.2."""
    bits = f"0000{layers:03b}1" + "0" * 88 + "00011110"
    bits += "11" * layers + ("00" * (8 - layers) if layers else "") + ("0" * 96) * layers
    bits += ue(0) + ue(1) + ue(96) + ue(64) + "1" + ue(1) * 4 + ue(0) * 2 + ue(4)
    bits += "1" + (ue(4) + ue(2) + ue(0)) * (layers + 1)
    bits += ue(0) + ue(1) + ue(0) + ue(2) + ue(1) * 2 + scaling + "11" + pcm
    bits += sets + long_term + "0000"
    return b"\x42\x01" + escape(bits_to_bytes(bits))


def explicit(*deltas: tuple[int, bool]) -> str:
    """A reference picture set spelt out."""
    before = sorted((d for d in deltas if d[0] < 0), reverse=True)
    after = sorted(d for d in deltas if d[0] > 0)
    bits, last = ue(len(before)) + ue(len(after)), 0
    for group in (before, after):
        last = 0
        for delta, used in group:
            bits += ue(abs(delta - last) - 1) + str(int(used))
            last = delta
    return bits


def test_reference_picture_sets_spelt_out_and_predicted() -> None:
    first = explicit((-8, True), (-10, False), (8, True))
    # The second is the first seen from a picture four later in display order: all four entries are
    # kept but one, in the order of the first's entries and then the picture itself.
    second = "1" + "1" + ue(3) + "1" + "01" + "1" + "00"
    third = "0" + explicit((-1, True))
    found = h265sets.sequence_set(h265_sequence(ue(3) + first + second + third))
    assert found.reference_sets == (
        ((-8, True), (-10, False), (8, True)),
        ((-12, True), (-14, False), (4, True)),
        ((-1, True),),
    )


@pytest.mark.parametrize(
    "shape",
    [
        {"layers": 2},
        {"scaling": "11" + ("0" + ue(0)) * 20},
        {"scaling": "11" + ("1" + se(1) * 16) * 6 + ("1" + se(2) * 64) * 6 + ("1" + se(3) * 65) * 8},
        {"scaling": "10"},
        {"pcm": "1" + "01110111" + ue(0) * 2 + "1"},
    ],
)
def test_h265_sequence_sets_of_every_shape(shape: dict[str, str]) -> None:
    found = h265sets.sequence_set(h265_sequence(ue(1) + explicit((-3, True)), **shape))  # type: ignore[arg-type]
    assert found.reference_sets == (((-3, True),),)
    assert found.poc_bits == 8
    assert found.reorder == 2


def h265_picture() -> bytes:
    """An H.265 picture parameter set with every tool off, clause 7.3.2.3."""
    bits = ue(0) + ue(0) + "0" + "0" + "000" + "0" + "0" + ue(0) * 2 + se(0) + "000" + se(0) * 2
    return b"\x44\x01" + escape(bits_to_bytes(bits + "0000000" + "00" + "0" + ue(0) + "0"))


def h265_slice(bits: str, *, kind: int = 1) -> NalUnit:
    return NalUnit(kind, bytes((kind << 1, 1)) + escape(bits_to_bytes("1" + ue(0) + ue(1) + bits)))


@pytest.fixture
def sets() -> H265ParameterSets:
    """Three reference picture sets and two long-term pictures known to the sequence."""
    known = ue(3) + explicit((-4, True)) + "0" + explicit((-2, True), (2, True)) + "0" + explicit((-1, False))
    long_term = "1" + ue(2) + "00000101" + "1" + "00001001" + "0"
    found = parameter_sets()
    found.add_sequence(h265_sequence(known, long_term=long_term))
    found.add_picture(h265_picture())
    return found


def test_a_slice_names_a_set_of_the_sequence(sets: H265ParameterSets) -> None:
    header = h265slices.slice_header(h265_slice(f"{77:08b}" + "1" + "01" + ue(0) + ue(0)), sets)
    assert (header.poc, header.poc_modulus) == (77, 256)
    assert header.references == ((-2, True), (2, True))
    assert h265slices.referenced(header, 77) == ({75, 79}, {75, 79})


def test_a_slice_predicts_its_set_from_one_of_the_sequence(sets: H265ParameterSets) -> None:
    bits = "0" + "1" + ue(1) + "1" + ue(0) + "1" + "1" + "1"
    header = h265slices.slice_header(h265_slice(f"{77:08b}" + bits + ue(0) + ue(0)), sets)
    assert header.references == ((-1, True), (-3, True), (1, True))


def test_long_term_pictures_of_a_slice(sets: H265ParameterSets) -> None:
    listed = "0" + "0" + "1" + "1" + ue(2)
    own = f"{200:08b}" + "1" + "0" + f"{50:08b}" + "1" + "1" + ue(1)
    header = h265slices.slice_header(
        h265_slice(f"{77:08b}" + "1" + "00" + ue(2) + ue(2) + listed + own), sets
    )
    assert header.long_term == (
        h265slices.LongTerm(5, used=True, cycles=None),
        h265slices.LongTerm(9, used=False, cycles=2),
        h265slices.LongTerm(200, used=True, cycles=None),
        h265slices.LongTerm(50, used=True, cycles=1),
    )
    needed, kept = h265slices.referenced(header, 1024 + 77)
    assert needed == {1024 + 73, 1024 + 5, 768 + 200, 768 + 50}
    assert kept == needed | {512 + 9}


@pytest.mark.parametrize("kind", [0, 1, 6, 8, 19, 21])
def test_display_order_counts_from_pictures_that_others_build_on(sets: H265ParameterSets, kind: int) -> None:
    rest = f"{7:08b}" + "1" + "01" + ue(0) + ue(0)
    unit = h265_slice(rest, kind=kind)
    if kind >= 16:
        unit = NalUnit(kind, bytes((kind << 1, 1)) + bits_to_bytes("10" + ue(0) + ue(2) + rest))
    header = h265slices.slice_header(unit, sets)
    assert header.anchor is (kind in (1, 19, 21))
    assert header.poc == (0 if kind == 19 else 7)


def test_display_order_is_unwrapped_to_the_nearest() -> None:
    assert [h265slices.nearest(poc, 250, 256) for poc in (249, 250, 255, 0, 100)] == [249, 250, 255, 256, 356]
    assert h265slices.nearest(130, 250, 256) == 130


@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_cut_headers_are_refused_and_never_crash(codec: str) -> None:
    for name in (f"{codec}-p", f"{codec}-pyramid"):
        units = nal_units(make_clip(name).shots[0].packet.data)
        for unit in units[:3]:
            for end in range(len(unit)):
                for read in (h264.sequence_set, h265sets.sequence_set):
                    try:
                        read(unit[:end])
                    except DecodeError:
                        continue


@given(st.binary(max_size=120))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for sets, slice_header in (
        (h264_parameter_sets(), h264slices.slice_header),
        (parameter_sets(), h265slices.slice_header),
    ):
        for read in (
            sets.add_sequence,
            sets.add_picture,
            lambda d, s=sets, r=slice_header: r(NalUnit(1, d + b"\x01\x01"), s),
        ):
            try:
                read(data)
            except DecodeError:
                continue


def test_a_slice_that_starts_amid_a_picture_or_names_nothing_known(sets: H265ParameterSets) -> None:
    with pytest.raises(DecodeError, match="first slice"):
        h265slices.slice_header(NalUnit(1, b"\x02\x01\x00\xff"), sets)
    with pytest.raises(DecodeError, match="parameter sets"):
        h265slices.slice_header(h265_slice("0" * 30), parameter_sets())
    with pytest.raises(DecodeError, match="unknown reference picture set"):
        h265slices.slice_header(h265_slice(f"{7:08b}" + "111"), sets)
    known = h264_parameter_sets()
    known.add_sequence(h264_sequence(ue(1) + ue(0) * 2 + "0" + "0"))
    known.add_picture(h264_picture(0))
    amid = NalUnit(1, b"\x61" + bits_to_bytes(ue(3) + ue(5) + ue(0) + "0" * 5 + "0" * 6 + "000"))
    with pytest.raises(DecodeError, match="first slice"):
        h264slices.fields([h264slices.slice_header(amid, known)])
    with pytest.raises(DecodeError, match="parameter sets"):
        h264slices.slice_header(NalUnit(1, b"\x61" + bits_to_bytes(ue(0) * 5)), h264_parameter_sets())


P_SLICE = H264SliceHeader(
    picture=(5,), idr=False, reference=True, field=FRAME, frame_num=5, frame_num_modulus=16, poc=10,
    poc_modulus=256, size=(96, 64), frame_num_left=0, first_mb=0, sets=0, idr_ident=None, kind=0,
    lists=(1, 0), changes=((), ()), marking=None, long_term=False, kept=4, gaps=False,
)  # fmt: skip


def test_all_slices_of_a_picture_are_told() -> None:
    second = P_SLICE._replace(first_mb=12)
    assert h264slices.fields([P_SLICE, second]) == [[P_SLICE, second]]


@pytest.mark.parametrize(("change", "named"), [((0, 0), 4), ((0, 2), 2), ((1, 12), 2), ((0, 3), 1)])
def test_a_slice_refers_to_the_picture_that_it_names(change: tuple[int, int], named: int) -> None:
    changed = P_SLICE._replace(changes=((change,), ()))
    for lost in range(1, 5):
        kept = KeptPictures()
        for frame_num in range(1, 5):
            header = P_SLICE._replace(frame_num=frame_num)
            kept.decoded(header, 2 * frame_num, sound=frame_num != lost, second=False)
        assert kept.suffice([changed], 10) is (lost != named)
        assert kept.suffice([P_SLICE], 10) is (lost != 4)
        assert kept.suffice([P_SLICE, changed], 10) is (lost not in {4, named})


@pytest.mark.parametrize("spoilt", [5, 6])
def test_a_point_that_a_picture_leads_to_whose_reference_is_missing_is_never_complete(spoilt: int) -> None:
    """Where frame_num may have gaps: decoding goes on from the key frame for what refers to nothing lost."""
    follower = H264Follower()
    follower.sets.add_sequence(h264_sequence(ue(1) + ue(0) * 2 + "00", poc=ue(2), gaps="1"))
    follower.sets.add_picture(h264_picture(0))

    def starts_ns(frame_num: int, names: int = 0, *, point: int | None = None) -> int | None:
        """Where decoding must start for a picture that refers to the one before, or so many before that."""
        change = "1" + ue(0) + ue(names) + ue(3) if names else "0"
        slices = [NalUnit(1, b"\x61" + bits_to_bytes(ue(0) * 3 + f"{frame_num:05b}" + "0" + change + "0"))]
        gradual = None if point is None else RecoveryPoint(point, exact=True)
        found = follower.assess(slices, frame_num, key=False, gradual=gradual)
        return found.start_ns if found.reason is None else None

    key = NalUnit(5, b"\x65" + bits_to_bytes(ue(0) + ue(2) + ue(0) + "00000" + ue(0) + "00"))
    assert follower.assess([key], 0, key=True, gradual=None).start_ns == 0
    assert [starts_ns(1), starts_ns(2, point=4), starts_ns(3)] == [0, 0, 0]
    if spoilt == 6:
        assert starts_ns(5, 1) == 0
        assert starts_ns(6, 1) is None
    else:
        assert [starts_ns(5), starts_ns(6, 2)] == [None, 0]
    assert [starts_ns(7, 3), starts_ns(8)] == [0, 0]
