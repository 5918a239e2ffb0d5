from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
import zstandard
from valid_messages import BOX, MASK, VALUES
from wire_encoder import FieldValue, encode

from edgefirst_ros.model.detection import (
    Box,
    Mask,
    ModelInfo,
    decode_detect,
    decode_mask,
    decode_model,
    decode_model_info,
)
from edgefirst_ros.model.errors import DecodeError

PERSON = Box(0.5, 0.25, 0.125, 0.0625, "person", 0.75, 12.0, -1.5, "a1", 3, 17_000_000_005)


def mask(**changes: FieldValue) -> Mask:
    return decode_mask(encode("edgefirst_msgs/Mask", {**MASK, **changes})).datum


def test_boxes_and_masks_of_a_model() -> None:
    schema = "edgefirst_msgs/Model"
    made = decode_model(encode(schema, VALUES[schema])).datum
    untracked = Box(0.5, 0.25, 0.125, 0.0625, "car", 0.75, 12.0, -1.5, "", 0, 0)
    assert made.boxes == (PERSON, untracked)
    assert [one.boxed for one in made.masks] == [True, False]
    for one in made.masks:
        assert one.mask.shape == (2, 3, 2)
        assert one.mask.ravel().tolist() == list(range(12))


def test_boxes_of_a_detect() -> None:
    schema = "edgefirst_msgs/Detect"
    made = decode_detect(encode(schema, VALUES[schema])).datum
    assert (made.boxes, made.masks) == ((PERSON,), ())


@pytest.mark.parametrize("name", ["center_x", "center_y", "width", "height", "score"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_boxes_that_are_nowhere_are_refused(name: str, bad: float) -> None:
    with pytest.raises(DecodeError, match="box is not finite"):
        decode_detect(encode("edgefirst_msgs/Detect", {"boxes": [BOX, {**BOX, name: bad}]}))


def test_distance_and_speed_that_are_not_known_are_zero() -> None:
    boxes = [{**BOX, "distance": math.nan, "speed": math.inf}]
    (made,) = decode_detect(encode("edgefirst_msgs/Detect", {"boxes": boxes})).datum.boxes
    assert (made.distance_m, made.speed_m_s) == (0, 0)


def test_a_mask_is_a_read_only_view() -> None:
    made = mask()
    assert made.boxed
    assert made.mask.dtype == np.uint8
    assert not made.mask.flags.writeable


@pytest.mark.parametrize(
    "compressor",
    [zstandard.ZstdCompressor(), zstandard.ZstdCompressor(write_content_size=False)],
    ids=["sized", "unsized"],
)
@pytest.mark.parametrize("length", [0, 1, 2])
def test_zstd_masks(compressor: zstandard.ZstdCompressor, length: int) -> None:
    packed = compressor.compress(MASK["mask"])
    assert mask(encoding="zstd", mask=packed, length=length).mask.tolist() == mask().mask.tolist()
    assert not mask(encoding="zstd", mask=packed, length=length).mask.flags.writeable


@pytest.mark.parametrize("length", [0, 1])
def test_early_devices_leave_the_number_of_classes_to_the_data(length: int) -> None:
    assert mask(length=length).mask.shape == (2, 3, 2)
    assert mask(length=length, mask=bytes(6)).mask.shape == (2, 3, 1)


def test_a_device_without_a_model_sends_empty_masks() -> None:
    assert mask(height=0, width=0, length=1, mask=b"").mask.shape == (0, 0, 1)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("size of its shape", {"mask": bytes(11)}),
        ("size of its shape", {"mask": bytes(13)}),
        ("size of its shape", {"mask": b""}),
        ("size of its shape", {"length": 1, "mask": bytes(7)}),
        ("size of its shape", {"height": 2**32 - 1, "width": 2**32 - 1, "length": 2**32 - 1}),
        ("size of its shape", {"height": 0, "width": 0, "length": 1}),
        ("size of its shape", {"encoding": "zstd", "mask": zstandard.compress(bytes(13))}),
        ("size of its shape", {"encoding": "zstd", "mask": zstandard.compress(bytes(11))}),
        ("not zstd data", {"encoding": "zstd"}),
        ("not zstd data", {"encoding": "zstd", "mask": b""}),
        ('mask encoding "rle"', {"encoding": "rle"}),
    ],
)
def test_masks_that_cannot_be_are_refused(reason: str, changes: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match=reason):
        mask(**changes)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 26))
    with pytest.raises(DecodeError, match="size of its shape"):
        mask(encoding="zstd", mask=bomb)


def test_memory_is_taken_for_what_a_mask_holds_not_for_what_its_shape_allows() -> None:
    few = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="size of its shape"):
            mask(encoding="zstd", mask=few, height=1 << 14, width=1 << 14, length=1)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 100 << 20


def test_model_info() -> None:
    schema = "edgefirst_msgs/ModelInfo"
    data = encode(schema, VALUES[schema])
    expected = ModelInfo("coco", ("person", "car"))
    assert decode_model_info(data).datum == expected
    older = data[:-2]
    assert decode_model_info(older).datum == expected
