"""Decoders by message type, for all types in ``SENSORS``.

Whatever is wrong with one message costs that message: unforeseen errors become refusals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.definitions import short_name
from edgefirst_ros.model.errors import DecodeError, EdgeFirstError
from edgefirst_ros.model.sample import Datum, RawMessage
from edgefirst_ros.model.sensors import SENSORS

LOGGER = logging.getLogger(__name__)
"""Gets the traceback of every error that becomes a refusal."""

Given = TypeVar("Given")
Made = TypeVar("Made")


def guarded(what: str, make: Callable[[Given], Made], given: Given) -> Made:
    """What ``make`` makes of the given.

    Raises:
        DecodeError: see ``refusal_of``.
    """
    try:
        return make(given)
    except Exception as error:
        refusal = refusal_of(what, error)
        if refusal is error:
            raise
        raise refusal from error


def refusal_of(what: str, error: BaseException, *, log: bool = True) -> BaseException:
    """The refusal that an error of ``what`` becomes.

    Errors of this package stay what they are, and so do those of the disk. The reason names the type of the
    error only, so that it can be counted.
    """
    # Pillow raises OSError for damaged pictures, without a number.
    if isinstance(error, EdgeFirstError) or (isinstance(error, OSError) and error.errno is not None):
        return error
    if log:
        LOGGER.debug("%s failed", what, exc_info=error)
    return DecodeError(f"{what} failed: {type(error).__name__}")


Decoder = Callable[[bytes, str], Stamped[Any]]

DECODERS: Mapping[str, str] = MappingProxyType(
    {short_name(schema): place for sensor in SENSORS.values() for schema, place in sensor.decoders.items()}
)
"""``pkg/Type`` to ``module:function`` of this package."""

_DMA_HANDLES = frozenset({"edgefirst_msgs/DmaBuffer", "edgefirst_msgs/CameraFrame"})


def can_decode(schema: str) -> bool:
    """Whether messages of this type (``pkg/msg/Type`` or ``pkg/Type``) can be decoded."""
    return short_name(schema) in DECODERS


@cache
def decoder(schema: str) -> Decoder:
    """The function that decodes messages of a type (``pkg/msg/Type`` or ``pkg/Type``).

    Raises:
        DecodeError: there is none for this type.
    """
    name = short_name(schema)
    if name in _DMA_HANDLES:
        raise DecodeError("DMA buffer handles are useless outside the device")
    if name not in DECODERS:
        raise DecodeError("no decoder for this type")
    module, _, function = DECODERS[name].partition(":")
    found: Decoder = getattr(import_module(f"edgefirst_ros.model.{module}"), function)

    def decode_guarded(data: bytes, definition: str) -> Stamped[Any]:
        try:
            return found(data, definition)
        except Exception as error:
            refusal = refusal_of("decoding it", error)
            if refusal is error:
                raise
            raise refusal from error

    return decode_guarded


def decode(message: RawMessage) -> Stamped[Datum]:
    """Decode a message. Arrays are read-only and, where possible, views of the message's bytes.

    Raises:
        DecodeError: it cannot be decoded. Messages with the same fault give the same text, to be counted by.
    """
    return decoder(message.schema)(message.data, message.definition)
