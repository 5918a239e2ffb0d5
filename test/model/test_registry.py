from __future__ import annotations

import pytest
from valid_messages import STAMP_NS, VALUES, older_mask
from wire_encoder import encode

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.detection import Mask
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.registry import DECODERS, can_decode, decode
from edgefirst_ros.model.sample import RawMessage


def raw(schema: str, data: bytes, definition: str = "") -> RawMessage:
    return RawMessage("/topic", schema, data, 0, 0, 0, definition)


def test_both_spellings_are_known() -> None:
    for schema in DECODERS:
        assert can_decode(schema)
        assert can_decode(schema.replace("/", "/msg/"))
    assert len(DECODERS) == 26


@pytest.mark.parametrize(
    "schema",
    [
        "edgefirst_msgs/msg/DmaBuffer",
        "edgefirst_msgs/CameraFrame",
        "std_msgs/msg/Bool",
        "PointCloud2",
        "other_msgs/msg/PointCloud2",
        "",
        "/",
    ],
)
def test_other_types_are_refused(schema: str) -> None:
    assert not can_decode(schema)
    with pytest.raises(DecodeError):
        decode(raw(schema, b"\0\1\0\0"))


def test_decoding_gives_stamp_frame_and_datum() -> None:
    schema = "foxglove_msgs/CompressedVideo"
    values = VALUES[schema]
    decoded = decode(raw("foxglove_msgs/msg/CompressedVideo", encode(schema, values)))
    assert decoded == Stamped(STAMP_NS, "cam", VideoPacket("h264", values["data"]))


def test_the_recorded_definition_is_used() -> None:
    data, text = older_mask()
    assert isinstance(decode(raw("edgefirst_msgs/msg/Mask", data, text)).datum, Mask)
    with pytest.raises(DecodeError):
        decode(raw("edgefirst_msgs/msg/Mask", data))
