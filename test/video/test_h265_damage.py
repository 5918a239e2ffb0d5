"""H.265 damaged in place: found in what is damaged, never in what is sound."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from clips import RECIPES, Clip, Shot, decode_plainly, encode_shots, make_clip, play
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.video.bitstream import nal_units
from edgefirst_ros.video.stream import VideoStream

pytest.importorskip("numba", reason="numba is not installed here; pip install -e '.[test]' brings it")
from edgefirst_ros.video.integrity import H265Syntax

COMMON = "log-level=none:info=0:frame-threads=1:keyint=6:min-keyint=6:scenecut=0"
VISIBLE_DB = 40.0
SETTINGS = [
    ("ultrafast", "bframes=0:pools=none"),
    ("fast", "bframes=3:pools=none"),
    ("medium", "bframes=2:pools=2"),
    ("medium", "slices=3:pools=2"),
    ("medium", "ctu=16:pools=none"),
    ("medium", "ctu=32:min-cu-size=16:pools=none"),
    ("medium", "rect=1:amp=1:ref=4:pools=none"),
    ("medium", "tskip=1:qp=20:pools=none"),
    ("medium", "lossless=1:bframes=0:pools=none"),
    ("medium", "cu-lossless=1:crf=10:pools=none"),
    ("medium", "no-sao=1:no-signhide=1:weightb=1:pools=none"),
    ("medium", "qg-size=16:aq-mode=3:tu-intra-depth=3:tu-inter-depth=3:pools=none"),
    ("medium", "max-tu-size=8:pools=none"),
    ("medium", "intra-refresh=1:bframes=0:pools=none"),
    ("medium", "open-gop=1:pools=none"),
    ("medium", "scaling-list=default:crf=40:pools=none"),
]


def shots(
    preset: str, parameters: str, pix_fmt: str = "yuv420p", size: tuple[int, int] = (144, 104)
) -> tuple[Shot, ...]:
    def setup(context: av.VideoCodecContext) -> None:
        context.pix_fmt = pix_fmt

    options = {"preset": preset, "x265-params": f"{COMMON}:{parameters}"}
    return encode_shots("libx265", options, frames=8, size=size, setup=setup)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bits turned, bytes overwritten or zeroed, or an end cut off, within one slice and behind its header."""
    slices = [unit.data for unit in nal_units("h265", data) if unit.kind < 32 and len(unit.data) > 24]
    body = rng.choice(slices)
    start = data.index(body)
    place = start + rng.randrange(16, len(body))
    size = min(rng.randrange(4, 33), start + len(body) - place)
    changed = bytearray(data)
    match rng.randrange(4):
        case 0:
            changed[place] ^= 1 << rng.randrange(8)
        case 1:
            changed[place : place + size] = rng.randbytes(size)
        case 2:
            changed[place : place + size] = bytes(size)
        case _:
            del changed[place : start + len(body)]
    return bytes(changed)


def psnr(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> float:
    return float(10 * np.log10(255**2 / max(1e-9, ((one.astype(float) - other) ** 2).mean())))


@pytest.mark.parametrize(("preset", "parameters"), SETTINGS)
def test_what_an_encoder_made_is_sound(preset: str, parameters: str) -> None:
    syntax = H265Syntax()
    assert [syntax.is_sound(shot.packet.data) for shot in shots(preset, parameters)] == [True] * 8


def test_ten_bits_are_sound_and_damage_in_them_is_found() -> None:
    made = shots("medium", "pools=none", "yuv420p10le")
    syntax = H265Syntax()
    assert all(syntax.is_sound(shot.packet.data) for shot in made)
    assert not syntax.is_sound(made[0].packet.data[:-9])


@pytest.mark.parametrize("size", [(16, 16), (64, 64), (72, 136), (200, 24)])
def test_pictures_of_one_block_and_of_parts_of_blocks_are_sound(size: tuple[int, int]) -> None:
    syntax = H265Syntax()
    assert all(syntax.is_sound(shot.packet.data) for shot in shots("medium", "pools=none", size=size))


def test_what_cannot_be_judged_counts_as_sound() -> None:
    syntax = H265Syntax()
    assert all(syntax.is_sound(s.packet.data[:-3]) for s in shots("ultrafast", "pools=none", "yuv444p"))


def test_visible_damage_is_found() -> None:
    """At least nine of ten; decoders find none of it."""
    rng = random.Random(5)
    visible = found = 0
    for preset, parameters in SETTINGS[:8]:
        sound = shots(preset, parameters)
        truth = decode_plainly(sound)
        for _ in range(8):
            place = rng.randrange(len(sound))
            data = damaged(sound[place].packet.data, rng)
            hurt = [
                *sound[:place],
                replace(sound[place], packet=VideoPacket("h265", data)),
                *sound[place + 1 :],
            ]
            made = decode_plainly(hurt)
            if len(made) == len(truth) and min(psnr(made[n], truth[n]) for n in truth) > VISIBLE_DB:
                continue
            visible += 1
            syntax = H265Syntax()
            verdicts = [syntax.is_sound(shot.packet.data) for shot in hurt]
            assert all(verdict for at, verdict in enumerate(verdicts) if at != place)
            found += not verdicts[place]
    assert visible > 40
    assert found >= 0.9 * visible


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("h265")])
@pytest.mark.parametrize("workers", [1, 3])
def test_no_ruined_picture_leaves_a_stream(name: str, workers: int) -> None:
    """What a damaged picture took along is held back up to the next key frame, and nothing else is."""
    clip: Clip = make_clip(name)
    rng = random.Random(workers)
    for place in (3, 14, 20):
        hurt = list(clip.shots)
        packet = VideoPacket("h265", damaged(hurt[place].packet.data, rng))
        hurt[place] = replace(hurt[place], packet=packet)
        played = play(VideoStream("/camera/h265", workers=workers, lookahead_ns=666_666_660), hurt)
        for number, rgb in played.pictures.items():
            assert np.array_equal(rgb, clip.truth[number]), number
        assert hurt[place].number not in played.pictures
        keys = [shot.number for shot in clip.shots if shot.key]
        safe = {n for n in clip.truth if n < min(s.number for s in clip.shots[place:])}
        later = [key for key in keys if key > max(s.number for s in clip.shots[: place + 1])]
        safe |= {n for n in clip.truth if n >= later[0]}
        assert safe <= set(played.pictures)


FUZZ = """
import random, sys
sys.path[:0] = sys.argv[1:2]
import clips
from edgefirst_ros.video.integrity import H265Syntax
rng = random.Random(11)
for name in ("h265-p", "h265-pyramid"):
    made = clips.make_clip(name).shots[:5]
    for _ in range(14):
        syntax = H265Syntax()
        for shot in made[: rng.randrange(1, 4)]:
            data = bytearray(shot.packet.data)
            for _ in range(rng.randrange(4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            syntax.is_sound(bytes(data))
"""


def test_nothing_is_read_or_written_out_of_its_place() -> None:
    """Compiled code would do it without a word; interpreted, an index beyond an array is an error."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run(
        [sys.executable, "-c", FUZZ, str(Path(__file__).parent)], env=environment, check=True, timeout=200
    )


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 63))
def test_any_bytes_are_judged(data: bytes, kind: int) -> None:
    syntax = H265Syntax()
    syntax.is_sound(make_clip("h265-p").shots[0].packet.data)
    syntax.is_sound(b"\0\0\1" + bytes([kind << 1, 1]) + data)
