"""Messages that repeat are parsed once, and never taken for one another."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cdr import plain
from valid_messages import STAMP_NS, VALUES
from wire_encoder import encode

from edgefirst_ros.model import cdr
from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.registry import decoder

REPEATED = ("sensor_msgs/CameraInfo", "edgefirst_msgs/RadarInfo", "edgefirst_msgs/ModelInfo")
FRAME = st.text("abcdefghijklmnopqrstuvwxyz_/", max_size=12)
NUMBER = st.floats(-1e9, 1e9) | st.sampled_from([0.0, float("nan"), float("inf")])


@pytest.fixture
def parsed() -> Iterator[list[str]]:
    """The types of the messages that are parsed."""
    types: list[str] = []

    def read(schema: str, data: bytes, text: str = "") -> cdr.Message:
        types.append(schema)
        return original(schema, data, text)

    original = cdr.read
    with patch.object(cdr, "read", read):
        yield types


def named(schema: str, frame: str, order: str = "<", **changes: object) -> bytes:
    header = {**VALUES[schema]["header"], "frame_id": frame}  # type: ignore[dict-item]
    return encode(schema, {**VALUES[schema], "header": header, **changes}, order)  # type: ignore[dict-item]


def stamped(data: bytes, stamp_ns: int, order: str = "<") -> bytes:
    return data[:4] + struct.pack(order + "iI", *divmod(stamp_ns, 10**9)) + data[12:]


@pytest.mark.parametrize("schema", REPEATED)
def test_equal_but_for_its_stamp_a_message_is_parsed_once(schema: str, parsed: list[str]) -> None:
    data = named(schema, f"once_{schema}")
    decoded = [decoder(schema)(stamped(data, ns), "") for ns in (5, -1, STAMP_NS, 2**30 * 10**9)]
    assert parsed == [schema]
    assert [each.stamp_ns for each in decoded] == [5, -1, STAMP_NS, 2**30 * 10**9]
    assert all(each.datum is decoded[0].datum and each.frame_id == decoded[0].frame_id for each in decoded)


def test_every_byte_but_the_stamps_tells_messages_apart() -> None:
    schema = "sensor_msgs/CameraInfo"
    data = named(schema, "apart")
    for at in (*range(4), *range(12, len(data))):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        decode = cdr.repeated_decoder_of(schema)(_fields)
        assert decode(data).stamp_ns == STAMP_NS
        assert outcome(decode, changed) == outcome(cdr.repeated_decoder_of(schema)(_fields), changed), at


def _fields(info: cdr.Message) -> object:
    return info.width, info.height, info.distortion_model, *map(repr, (*info.d, *info.k, *info.r, *info.p))


def outcome(decode: cdr.Decoder[object], data: bytes) -> object:
    try:
        return decode(data)
    except DecodeError as error:
        return str(error)


def test_what_is_remembered_is_bounded(parsed: list[str]) -> None:
    schema = "edgefirst_msgs/RadarInfo"
    for number in range(3 * cdr._REMEMBERED):
        decoder(schema)(named(schema, f"frame_{number}"), "")
    parsed.clear()
    decoder(schema)(named(schema, "frame_0"), "")
    assert parsed == [schema]


@settings(max_examples=25)
@given(FRAME, st.tuples(*[NUMBER] * 10), st.integers(0, 2**31 - 1))
def test_imu_of_a_known_frame_is_read_as_any_other(
    frame: str, values: tuple[float, ...], stamp_ns: int
) -> None:
    schema = "sensor_msgs/Imu"
    fields = {
        "orientation": dict(zip("xyzw", values[:4], strict=True)),
        "angular_velocity": dict(zip("xyz", values[4:7], strict=True)),
        "linear_acceleration": dict(zip("xyz", values[7:], strict=True)),
    }
    decode = decoder(schema)
    decode(named(schema, frame), "")
    data = stamped(named(schema, frame, **fields), stamp_ns)
    swapped = _numbers(lambda: decode(stamped(named(schema, frame, ">", **fields), stamp_ns, ">"), ""))
    with patch.object(cdr, "read", side_effect=AssertionError):
        quick = _numbers(lambda: decode(data, ""))
    assert quick == swapped or np.array_equal(quick, swapped, equal_nan=True)


def _numbers(decode: Callable[[], Stamped[Any]]) -> list[float] | str:
    """Stamp and numbers of a message, or why it is refused."""
    try:
        stamp_ns, _, imu = decode()
    except DecodeError as error:
        return str(error)
    rotation, *others = plain(imu)  # type: ignore[misc]
    return [stamp_ns, *(rotation or (9.0,) * 4), *(n for vector in others for n in vector)]
