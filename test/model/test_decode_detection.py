from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import zstandard
from valid_messages import MASK, VALUES
from wire_encoder import FieldValue, encode

from edgefirst_ros.model.detection import (
    Box,
    Mask,
    ModelInfo,
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
