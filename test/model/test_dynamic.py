"""Messages by their definitions: as another reader sees them, and whatever the text or the bytes declare."""

from __future__ import annotations

import re
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mcap_ros2._dynamic import generate_dynamic
from valid_messages import VALUES
from wire_encoder import encode

from edgefirst_ros.model import dynamic
from edgefirst_ros.model.cdr import read
from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.dynamic import MAX_DEPTH, MAX_TEXT, Field, parse_definition, read_dynamic
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.registry import DECODERS

LITTLE = b"\0\1\0\0"


def plain(value: Any) -> Any:  # noqa: ANN401 - messages of either reader
    """Comparable form: objects as dicts, whatever sequences as lists."""
    if isinstance(value, SimpleNamespace):
        return {name: plain(getattr(value, name)) for name in getattr(value, "__slots__", vars(value))}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [*map(plain, value)] if isinstance(value, (list, tuple, bytes)) else value


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("schema", sorted(DECODERS))
def test_it_reads_what_another_reader_does(schema: str, order: str) -> None:
    data, text = encode(schema, VALUES[schema], order), definition(schema)
    message, end = read_dynamic(schema, parse_definition(schema, text), data)
    assert plain(message) == plain(generate_dynamic(schema, text)[schema](data))
    assert end == len(data)


def test_only_fields_are_taken_from_a_definition() -> None:
    text = """\
    # a comment [[[[
    uint8 KIND=1
    uint8 OTHER = 2  # with a comment
    string<=10 NAME = "x # y"
    string<=10 name "default = # text"
    Part[<=3] parts
    other_msgs/msg/Part[2] more   # and one more
    char c 65

    ================
    MSG: my_msgs/msg/Part
    float32 x
    """
    assert parse_definition("my_msgs/Whole", text)["my_msgs/Whole"] == (
        Field("name", "string", None),
        Field("parts", "my_msgs/Part", -1),
        Field("more", "other_msgs/Part", 2),
        Field("c", "char", None),
    )


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "uint8" + "[" * 100_000 + " x",
        "string" + "<=" * 50_000 + " x",
        "uint8 " + "A" * 100_000 + "_ =1\nuint8 !",
        "uint8[9" + "9" * 100_000 + "] x",
        "uint8 x\n" * MAX_TEXT,
        "uint8[-1] x",
        "a/b/c/d x",
        "x",
    ],
    ids=lambda text: text[:12],
)
def test_text_that_is_no_definition_is_refused(text: str) -> None:
    """In time that grows with its length only: a regular expression would not end with some of these."""
    with pytest.raises(ValueError, match=r"definition|line|array"):
        parse_definition("a/B", text)


@pytest.mark.long(cases=3)
@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("float64[4294967295] x\n", bytes(100)),
        ("float64[] x\n", b"\xff" * 4),
        ("string[] x\n", b"\xff" * 4 + bytes(1000)),
        ("string x\n", b"\xff" * 4),
        ("C[] x\n===\nMSG: a/C\n", struct.pack("<I", 1 << 20) + bytes(1 << 20)),
        ("C[4000000000] x\n===\nMSG: a/C\nuint8[0] nothing\n", b""),
        ("C x\n===\nMSG: a/C\nB y\n", bytes(100)),
        ("wstring x\n", bytes(100)),
    ],
)
def test_whatever_is_declared_costs_no_more_than_the_message(text: str, data: bytes) -> None:
    with pytest.raises(DecodeError, match="truncated or damaged a/B"):
        read("a/B", LITTLE + data, text)


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic, "MAX_VALUES", 40)
    layouts = parse_definition("a/B", "C[] parts\n===\nMSG: a/C\nuint8 one\nuint8 two\n")
    message, _ = read_dynamic("a/B", layouts, LITTLE + struct.pack("<I", 13) + bytes(26))
    assert len(message.parts) == 13
    with pytest.raises(ValueError, match="too many"):
        read_dynamic("a/B", layouts, LITTLE + struct.pack("<I", 14) + bytes(28))


def test_the_depth_is_bounded() -> None:
    parts = [f"MSG: a/C{n}\nC{n + 1} inner\n" for n in range(MAX_DEPTH)] + [f"MSG: a/C{MAX_DEPTH}\nuint8 x\n"]
    text = re.sub(r"^MSG: a/C0\n", "", "===\n".join(parts))
    with pytest.raises(ValueError, match="without end"):
        read_dynamic("a/C0", parse_definition("a/C0", text), LITTLE + b"\1")
    assert read_dynamic("a/C1", parse_definition("a/C0", text), LITTLE + b"\1")[1] == 5
