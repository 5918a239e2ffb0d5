"""Bags of other recorders, written by the library rosbags from the messages of a simulated drive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edgefirst_ros.model.sample import RawMessage

rosbag1 = pytest.importorskip("rosbags.rosbag1", reason="no library for bags: pip install rosbags")
rosbag2 = pytest.importorskip("rosbags.rosbag2")
typesys = pytest.importorskip("rosbags.typesys")


def typestore(messages: Sequence[RawMessage]) -> Any:  # noqa: ANN401
    """The types of messages; a ROS 1 bag declares them with sequence numbers in their headers."""
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    types: dict[str, Any] = {}
    for schema, text in {message.schema: message.definition for message in messages}.items():
        if schema not in store.fielddefs:
            types.update(typesys.get_types_from_msg(text.replace("\r", ""), schema))
    store.register({name: each for name, each in types.items() if name not in store.fielddefs})
    return store


def write_db3(folder: Path, messages: Sequence[RawMessage]) -> Path:
    """A rosbag2 folder; returns its only file of messages."""
    store = typestore(messages)
    with rosbag2.Writer(folder, version=9, storage_plugin=rosbag2.StoragePlugin.SQLITE3) as writer:
        connections: dict[str, Any] = {}
        for message in messages:
            if message.topic not in connections:
                connections[message.topic] = writer.add_connection(
                    message.topic, message.schema, typestore=store
                )
            writer.write(connections[message.topic], message.receive_ns, message.data)
    return next(folder.glob("*.db3"))


def write_bag(path: Path, messages: Sequence[RawMessage]) -> Path:
    """A ROS 1 bag."""
    store = typestore(messages)
    with rosbag1.Writer(path) as writer:
        connections: dict[str, Any] = {}
        for message in messages:
            if message.topic not in connections:
                connections[message.topic] = writer.add_connection(
                    message.topic, message.schema, typestore=store
                )
            data = store.cdr_to_ros1(message.data, message.schema)
            writer.write(connections[message.topic], message.receive_ns, data)
    return path
