"""Schema name to decoder: every message type that some sensor in ``SENSORS`` may come as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import Stamped
from edgefirst_ros.messages.definitions import short_name
from edgefirst_ros.messages.measurement import Datum, RawMessage
from edgefirst_ros.messages.sensors import SENSORS

Decoder = Callable[[bytes, str], Stamped[Any]]

DECODERS: Mapping[str, str] = MappingProxyType(
    {short_name(schema): place for sensor in SENSORS.values() for schema, place in sensor.decoders.items()}
)
"""Module and function that decode it, by ``pkg/Type``."""

_USELESS = frozenset({"edgefirst_msgs/DmaBuffer", "edgefirst_msgs/CameraFrame"})


def can_decode(schema: str) -> bool:
    """Whether messages of this type (``pkg/msg/Type`` or ``pkg/Type``) are read at all."""
    return short_name(schema) in DECODERS


@cache
def decoder(schema: str) -> Decoder:
    """What decodes messages of a type.

    Raises:
        DecodeError: none does.
    """
    name = short_name(schema)
    if name in _USELESS:
        raise DecodeError("DMA buffer handles are of no use off the device")
    if name not in DECODERS:
        raise DecodeError("no decoder for this type")
    module, _, function = DECODERS[name].partition(":")
    found: Decoder = getattr(import_module(f"edgefirst_ros.messages.{module}"), function)
    return found


def decode(message: RawMessage) -> Stamped[Datum]:
    """Turn one message into its datum; arrays are read-only and, where possible, views of its bytes.

    Raises:
        DecodeError: the reason is the same for all messages with that fault, so that it can be counted.
    """
    return decoder(message.schema)(message.data, message.definition)
