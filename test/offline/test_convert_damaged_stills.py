"""Pictures that come damaged: in what is kept of them the check of what was written finds no fault."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from recorded import messages, record

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert

CAMERA = "/camera/jpeg"
COUNT = 120


def damaged(rng: random.Random, message: RawMessage) -> RawMessage:
    """A flipped bit, a part that is missing, zeros or noise, anywhere; half of them in the coded pixels."""
    data = bytearray(message.data)
    begin = data.index(b"\xff\xda" if rng.random() < 0.5 else b"\xff\xd8")
    # Without the last bytes it would be cut short, of which the header tells.
    at = rng.randrange(begin, len(data) - 8)
    size = min(rng.choice((1, 2, 40, 400)), len(data) - 2 - at)
    match rng.randrange(4):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at : at + size] = bytes(size)
        case 2:
            data[at : at + size] = rng.randbytes(size)
        case _:  # the message keeps its length, as the field before says it
            data[at:-2] = data[at + size : -2] + bytes(size)
    return message._replace(data=bytes(data))


@pytest.mark.long
def test_what_is_kept_of_damaged_pictures_passes_the_check(tmp_path: Path) -> None:
    rng = random.Random(7)
    content = messages(seconds=COUNT / 30, fps=30, jpeg=True, lidar_points=64)
    pictures = [n for n, message in enumerate(content) if message.topic == CAMERA]
    # The first stays sound: those with its header are not decoded again.
    for n in pictures[1:]:
        content[n] = damaged(rng, content[n])
    recording = record(tmp_path / "a.mcap", content)
    values = {"formats": ["edgefirst", "ncore"], "topics": {"radar_targets": {"required": "never"}}}
    report = convert([recording], tmp_path / "out", build_config(values), dataset="d").report
    account = report["topics"][CAMERA]
    assert account["dropped"] > 0
    assert account["written"] > COUNT // 2
    checked = list(check(tmp_path / "out"))
    assert [(each.format, each.errors) for each in checked] == [("edgefirst", 0), ("ncore", 0)]
    assert checked[0].warnings > 0
    opened = list(edgefirst_ros.open(tmp_path / "out"))
    assert len(opened) == account["written"]
    assert all(sample["image"].ndim == 3 for sample in opened)
