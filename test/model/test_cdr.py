from __future__ import annotations

import contextlib
import copy
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valid_messages import VALUES, older_mask
from wire_encoder import Encoder, encode

from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.registry import DECODERS, decoder

SCHEMAS = sorted(DECODERS)
GOOD = {(schema, order): encode(schema, VALUES[schema], order) for schema in SCHEMAS for order in "<>"}


def plain(value: object) -> object:
    """Comparable form of a datum: its arrays become their types and bytes."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes(), value.flags.writeable)
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if dataclasses.is_dataclass(value):
        return tuple(plain(getattr(value, field.name)) for field in dataclasses.fields(value))
    return value


@pytest.mark.parametrize("schema", SCHEMAS)
def test_big_endian_messages_say_the_same(schema: str) -> None:
    assert plain(decoder(schema)(GOOD[schema, ">"], "")) == plain(decoder(schema)(GOOD[schema, "<"], ""))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_no_part_of_a_message_passes_for_it(schema: str, order: str) -> None:
    data = GOOD[schema, order]
    for length in range(len(data)):
        if (schema, order, len(data) - length) == ("edgefirst_msgs/ModelInfo", "<", 2):
            continue  # that is the message of devices before the last two fields were added
        for text in ("", definition(schema)):
            with pytest.raises(DecodeError):
                decoder(schema)(data[:length], text)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_padding_is_taken_and_garbage_is_not(schema: str, order: str) -> None:
    data = GOOD[schema, order]
    for padding in (1, 2, 3):
        assert plain(decoder(schema)(data + bytes(padding), "")) == plain(decoder(schema)(data, ""))
    if (schema, order) != ("edgefirst_msgs/ModelInfo", "<"):
        for garbage in (bytes(4), b"garbage!" * 100):
            with pytest.raises(DecodeError, match="bytes after the end"):
                decoder(schema)(data + garbage, "")


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_only_refusals_escape_from_damage(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(SCHEMAS))
    damaged = bytearray(GOOD[schema, data.draw(st.sampled_from("<<>"))])
    positions = st.integers(4 if data.draw(st.booleans()) else 0, len(damaged) - 1)
    for position, value in data.draw(st.lists(st.tuples(positions, st.integers(0, 255)), max_size=6)):
        damaged[position] = value
    if data.draw(st.booleans()):
        del damaged[data.draw(positions) :]
    text = definition(schema) if data.draw(st.booleans()) else ""
    try:
        decoded = decoder(schema)(bytes(damaged), text)
    except DecodeError as error:
        # The longest lists the encodings of pictures that are taken.
        assert 0 < len(str(error)) < 300  # noqa: PT017 - a refusal is one of two good ends
    else:
        assert isinstance(decoded, Stamped)


@given(st.binary(max_size=300), st.sampled_from(SCHEMAS))
def test_noise_is_refused_or_read(noise: bytes, schema: str) -> None:
    for data in (noise, b"\0\1\0\0" + noise, b"\0\0\0\0" + noise):
        try:
            decoder(schema)(data, "")
        except DecodeError:
            continue


@pytest.mark.parametrize("schema", SCHEMAS)
def test_huge_declared_lengths_are_refused(schema: str) -> None:
    for order in "<>":
        data = bytearray(GOOD[schema, order])
        for position in range(12, len(data) - 3, 4):
            kept = data[position : position + 4]
            data[position : position + 4] = b"\xff\xff\xff\x7f" if order == "<" else b"\x7f\xff\xff\xff"
            with contextlib.suppress(DecodeError):
                decoder(schema)(bytes(data), "")
            data[position : position + 4] = kept


def test_foreign_encapsulations_are_refused() -> None:
    body = GOOD["sensor_msgs/Imu", "<"][4:]
    for header in (b"\0\2", b"\0\3", b"\0\7", b"\1\1"):
        with pytest.raises(DecodeError, match="unknown CDR encapsulation"):
            decoder("sensor_msgs/Imu")(header + b"\0\0" + body, "")
    for short in (b"", b"\0\1\0"):
        with pytest.raises(DecodeError, match="shorter than a CDR header"):
            decoder("sensor_msgs/Imu")(short, "")


@pytest.mark.parametrize("schema", ["sensor_msgs/Imu", "foxglove_msgs/CompressedVideo", "tf2_msgs/TFMessage"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_stamps_before_1970(schema: str, order: str) -> None:
    values = copy.deepcopy(VALUES[schema])
    inner = values["transforms"][0] if "transforms" in values else values
    stamp = inner["timestamp"] if "timestamp" in inner else inner["header"]["stamp"]
    stamp["sec"] = -2
    assert decoder(schema)(encode(schema, values, order), "").stamp_ns == -2_000_000_000 + stamp["nanosec"]


def test_messages_of_another_generation_are_read_by_their_own_definition() -> None:
    data, text = older_mask()
    mask = decoder("edgefirst_msgs/Mask")(data, text).datum
    assert not mask.boxed  # type: ignore[union-attr]
    assert mask.mask.ravel().tolist() == list(range(6))  # type: ignore[union-attr]
    with pytest.raises(DecodeError, match="truncated or damaged edgefirst_msgs/Mask"):
        decoder("edgefirst_msgs/Mask")(data, "")


def test_messages_with_appended_fields_are_read_by_their_own_definition() -> None:
    values = VALUES["edgefirst_msgs/RadarInfo"]
    encoder = Encoder()
    encoder.body += encode("edgefirst_msgs/RadarInfo", values)[4:]
    encoder.put("d", 76.5, 77.5)
    newer = definition("edgefirst_msgs/RadarInfo").replace(
        "bool cube\n", "bool cube\nfloat64 low\nfloat64 high\n"
    )
    assert decoder("edgefirst_msgs/RadarInfo")(encoder.data(), newer).datum.cube  # type: ignore[union-attr]
    with pytest.raises(DecodeError, match="bytes after the end"):
        decoder("edgefirst_msgs/RadarInfo")(encoder.data(), "")


@pytest.mark.parametrize(
    "text",
    [
        "std_msgs/Header header\n",
        "string orientation\n",
        "uint8[4294967295] orientation\n",
        "float64[4294967295] orientation\n",
        "wstring orientation\n",
        "sensor_msgs/Imu orientation\n",
        "Missing orientation\n",
    ],
)
def test_a_definition_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decoder("sensor_msgs/Imu")(GOOD["sensor_msgs/Imu", ">"], text)


def test_an_unreadable_definition_gives_way_to_our_own() -> None:
    data = GOOD["sensor_msgs/Imu", ">"]
    assert decoder("sensor_msgs/Imu")(data, "%% no ROS %%") == decoder("sensor_msgs/Imu")(data, "")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("geometry_msgs/Quaternion orientation\n", "geometry_msgs/Quaternion attitude\n"),
        ("float64 w 1\n", "uint8[8] w\n"),
    ],
)
def test_fields_of_other_names_or_types_are_refused(ours: str, theirs: str) -> None:
    text = definition("sensor_msgs/Imu").replace(ours, theirs)
    with pytest.raises(DecodeError, match=r"^sensor_msgs/Imu with other fields than expected$"):
        decoder("sensor_msgs/Imu")(GOOD["sensor_msgs/Imu", ">"], text)
