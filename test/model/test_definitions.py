from __future__ import annotations

import pytest
from valid_messages import VALUES, vendor_bytes
from wire_encoder import encode

from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.registry import DECODERS

VENDOR = vendor_bytes()


@pytest.mark.parametrize("schema", sorted(VENDOR))
def test_definitions_say_what_the_vendors_library_writes(schema: str) -> None:
    assert encode(schema, VALUES[schema]) == VENDOR[schema]


def test_there_is_a_definition_of_every_type_that_is_read() -> None:
    for schema in DECODERS:
        assert definition(schema) == definition(schema.replace("/", "/msg/"))


def test_dependencies_follow_once_each() -> None:
    text = definition("tf2_msgs/msg/TFMessage")
    assert [line for line in text.splitlines() if line.startswith("MSG:")] == [
        "MSG: geometry_msgs/TransformStamped",
        "MSG: std_msgs/Header",
        "MSG: builtin_interfaces/Time",
        "MSG: geometry_msgs/Transform",
        "MSG: geometry_msgs/Vector3",
        "MSG: geometry_msgs/Quaternion",
    ]
    assert text.count("=" * 80 + "\nMSG:") == 6
