"""Bags of other recorders, written by the library rosbags from the messages of a simulated drive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgefirst_ros.messages.measurement import RawMessage

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore


def typestore(messages: Sequence[RawMessage]) -> Typestore:
    """The types of messages; a ROS 1 bag declares them with sequence numbers in their headers."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    types: dict[str, Any] = {}
    for schema, text in {message.schema: message.definition for message in messages}.items():
        if schema not in store.fielddefs:
            types.update(get_types_from_msg(text.replace("\r", ""), schema))
    store.register({name: each for name, each in types.items() if name not in store.fielddefs})
    return store


def write_db3(folder: Path, messages: Sequence[RawMessage]) -> Path:
    """A rosbag2 folder; returns its only file of messages."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    store = typestore(messages)
    with Writer(folder, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
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
    from rosbags.rosbag1 import Writer

    store = typestore(messages)
    with Writer(path) as writer:
        connections: dict[str, Any] = {}
        for message in messages:
            if message.topic not in connections:
                connections[message.topic] = writer.add_connection(
                    message.topic, message.schema, typestore=store
                )
            data = store.cdr_to_ros1(message.data, message.schema)
            writer.write(connections[message.topic], message.receive_ns, data)
    return path
