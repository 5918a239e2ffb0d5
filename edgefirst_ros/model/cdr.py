"""CDR bytes to message objects; every failure is a DecodeError."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import edgefirst.schemas
import numpy as np
import numpy.typing as npt
from edgefirst.schemas import BorrowedBuf, builtin_interfaces

from edgefirst_ros.model.definitions import definition as own_definition
from edgefirst_ros.model.dynamic import MAX_TEXT, Layouts, parse_definition, read_dynamic
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.untrusted import displayed

_LITTLE_ENDIAN = b"\x00\x01"
_BIG_ENDIAN = b"\x00\x00"
_MAX_PADDING = 3
_STAMP = struct.Struct("<iI")
_LEAST_HEADER = 16
_REMEMBERED, _REMEMBERED_BYTES = 64, 1 << 14
"""Messages of one type that are remembered for their repetitions, and the largest one that is."""
_GROWING = frozenset({"edgefirst_msgs/ModelInfo"})
"""Types that got more fields over time; edgefirst-schemas reads messages with and without these."""

Bulk: TypeAlias = BorrowedBuf | bytes | npt.NDArray[Any]
"""A sequence in a message object: BorrowedBuf of edgefirst-schemas, else bytes or an array."""

Datum_co = TypeVar("Datum_co", covariant=True)
Scalar = TypeVar("Scalar", bound=np.generic)
_Parser = Callable[[Any], Any]
Message: TypeAlias = Any
"""A message object of either library: fields by their names in the message definition."""


class Stamped(NamedTuple, Generic[Datum_co]):
    """A datum with stamp and frame of its message's header; 0 and empty if it has no header."""

    stamp_ns: int
    frame_id: str
    datum: Datum_co


def decode_as(
    schema: str,
    data: bytes,
    definition: str,
    convert: Callable[[Any], Datum_co],
    stamped_part: Callable[[Any], Message] = lambda message: message,
) -> Stamped[Datum_co]:
    """Decode a message to a datum with stamp and frame.

    Args:
        schema: ``pkg/Type``.
        data: CDR with its encapsulation header.
        definition: the message definition that came with it, or empty.
        convert: makes the datum of the message object; raises DecodeError if its values are invalid.
        stamped_part: takes the part that has the header from the message object.

    Raises:
        DecodeError: no valid message of this type.
    """
    return _stamped(schema, read(schema, data, definition), convert, stamped_part)


def _stamped(
    schema: str, message: Message, convert: Callable[[Any], Datum_co], stamped_part: Callable[[Any], Message]
) -> Stamped[Datum_co]:
    try:
        datum = convert(message)
        stamp_ns, frame_id = header_of(stamped_part(message))
    except DecodeError:
        raise
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise DecodeError(f"{schema} with other fields than expected") from error
    return Stamped(stamp_ns, frame_id, datum)


class Decoder(Protocol[Datum_co]):
    """Decodes CDR bytes; ``definition`` is the definition text that came with them, or empty."""

    def __call__(self, data: bytes, definition: str = "") -> Stamped[Datum_co]:
        """Raises DecodeError as ``decode_as`` does."""


def decoder_of(
    schema: str, stamped_part: Callable[[Any], Message] = lambda message: message
) -> Callable[[Callable[[Any], Datum_co]], Decoder[Datum_co]]:
    """Make the decorated function, which converts a message object, the decoder of that type's CDR bytes."""

    def decoder(convert: Callable[[Any], Datum_co]) -> Decoder[Datum_co]:
        return lambda data, definition="": decode_as(schema, data, definition, convert, stamped_part)

    return decoder


def repeated_decoder_of(
    schema: str, restamp: Callable[[Any, int], Any] = lambda datum, _: datum
) -> Callable[[Callable[[Any], Datum_co]], Decoder[Datum_co]]:
    """As ``decoder_of``, for a type whose messages repeat and whose first field is a std_msgs/Header.

    A message that equals an earlier one in everything but its stamp is not parsed again.

    Args:
        schema: ``pkg/Type``.
        restamp: makes its datum of the earlier one's and its own stamp; by default they share the datum.
    """

    def decoder(convert: Callable[[Any], Datum_co]) -> Decoder[Datum_co]:
        known: dict[tuple[bytes, bytes, str], Stamped[Datum_co]] = {}

        def decode(data: bytes, definition: str = "") -> Stamped[Datum_co]:
            key = data[:4], data[12:], definition
            before = known.get(key)
            if before is not None:
                stamp_ns = _stamp_ns(data)
                return Stamped(stamp_ns, before.frame_id, restamp(before.datum, stamp_ns))
            message = read(schema, data, definition)
            decoded = _stamped(schema, message, convert, lambda whole: whole)
            # Where a definition said how to read it, its stamp may be anywhere.
            if not isinstance(message, SimpleNamespace) and len(data) <= _REMEMBERED_BYTES:
                if len(known) >= _REMEMBERED:
                    known.clear()
                known[key] = decoded
            return decoded

        return decode

    return decoder


def _stamp_ns(data: bytes) -> int:
    """The stamp of a little-endian message that begins with a header."""
    sec, nanosec = _STAMP.unpack_from(data, 4)
    return int(sec) * 1_000_000_000 + int(nanosec)


def leading_stamp_ns(data: bytes) -> int | None:
    """The stamp of a message that begins with a std_msgs/Header; None if it is not little-endian."""
    return _stamp_ns(data) if len(data) >= _LEAST_HEADER and data[:2] == _LITTLE_ENDIAN else None


def numbers_decoder_of(
    schema: str, numbers: struct.Struct, convert_numbers: Callable[..., Datum_co]
) -> Callable[[Callable[[Any], Datum_co]], Decoder[Datum_co]]:
    """As ``decoder_of``, for a type of which a std_msgs/Header and numbers are all there is.

    Of a frame that is known, messages are read without a message object.

    Args:
        schema: ``pkg/Type``.
        numbers: what follows the header, aligned to 8 bytes.
        convert_numbers: makes the datum of these numbers; it must be what the decorated function makes.
    """

    def decoder(convert: Callable[[Any], Datum_co]) -> Decoder[Datum_co]:
        known: dict[bytes, str] = {}

        def decode(data: bytes, definition: str = "") -> Stamped[Datum_co]:
            # A frame's name and its padding; numbers are aligned to 8 bytes, counted from byte 4.
            end = len(data) - numbers.size
            frame = data[:4] + data[12:end] if end >= _LEAST_HEADER else b""
            frame_id = known.get(frame)
            if frame_id is not None:
                return Stamped(_stamp_ns(data), frame_id, convert_numbers(*numbers.unpack_from(data, end)))
            message = read(schema, data, definition)
            decoded = _stamped(schema, message, convert, lambda whole: whole)
            is_plain = not isinstance(message, SimpleNamespace)
            if is_plain and end % 8 == 4 and 0 < len(frame) <= _REMEMBERED_BYTES:
                if len(known) >= _REMEMBERED:
                    known.clear()
                known[frame] = decoded.frame_id
            return decoded

        return decode

    return decoder


def read(schema: str, data: bytes, definition: str = "") -> Message:
    """The message object of CDR bytes; its fields have the names of the message definition.

    Little-endian messages of types that edgefirst-schemas knows become views of ``data``, with ``stamp`` and
    ``frame_id`` in place of a header. All others are read field by field, with a nested header: other
    types, big-endian messages, and messages of older or newer definitions, which must come with them. Up to
    3 bytes of padding may follow a message, as DDS adds.

    Raises:
        DecodeError: not CDR, truncated, or followed by more than padding.
    """
    if len(data) < 4:
        raise DecodeError("shorter than a CDR header")
    encapsulation = bytes(data[:2])
    if encapsulation not in {_LITTLE_ENDIAN, _BIG_ENDIAN}:
        raise DecodeError("unknown CDR encapsulation")
    compiled = _compiled(schema) if encapsulation == _LITTLE_ENDIAN else None
    refusal: DecodeError | None = None
    if compiled is not None:
        # DDS implementations count their padding in the option bytes, which edgefirst-schemas wants zero
        plain = data if data[2:4] == b"\x00\x00" else encapsulation + b"\x00\x00" + data[4:]
        try:
            return _exactly(compiled, plain, schema, growing=schema in _GROWING)
        except DecodeError as error:
            refusal = error
    layouts = _layouts(schema, definition[: MAX_TEXT + 1]) if definition or compiled is None else None
    if layouts is not None:
        try:
            return _by_definition(schema, layouts, data)
        except DecodeError as error:
            refusal = refusal or error
    raise refusal or DecodeError(f"no readable definition of {schema}")


def header_of(message: Message) -> tuple[int, str]:
    """Stamp in nanoseconds and frame of a message object of either library; (0, "") if it has none."""
    header: Message = getattr(message, "header", message)
    time = getattr(header, "stamp", None) or getattr(header, "timestamp", None)
    if time is None or isinstance(time, int):
        return 0, ""
    return time_ns(time), displayed(str(header.frame_id))


def time_ns(time: builtin_interfaces.Time) -> int:
    """Nanoseconds of a builtin_interfaces/Time or Duration, which may be negative."""
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


def array(bulk: Bulk, dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """A message's sequence as a read-only array (n,) of native ``dtype``, a view of its bytes if possible."""
    if isinstance(bulk, np.ndarray):
        values: npt.NDArray[Scalar] = bulk.astype(dtype)
        values.flags.writeable = False
        return values
    view: npt.NDArray[Scalar] = np.frombuffer(_buffer(bulk), np.dtype(dtype).newbyteorder("<"))
    return view.astype(dtype, copy=False)


def octets(bulk: Bulk) -> bytes:
    """A copy of a message's uint8 sequence."""
    return bytes(_buffer(bulk))


def _buffer(bulk: Bulk) -> memoryview:
    return bulk.view() if isinstance(bulk, BorrowedBuf) else memoryview(bytes(bulk))


@cache
def _compiled(schema: str) -> _Parser | None:
    package, _, name = schema.partition("/")
    found = getattr(getattr(edgefirst.schemas, package, None), name, None)
    parse: _Parser | None = getattr(found, "from_cdr", None)
    return parse


@lru_cache(maxsize=64)
def _layouts(schema: str, definition: str) -> Layouts | None:
    try:
        texts = [definition, own_definition(schema)]
    except KeyError:
        texts = [definition]
    for text in filter(None, texts):
        try:
            return parse_definition(schema, text)
        except ValueError:
            continue  # a foreign text: ours is tried next
    return None


def _exactly(parse: _Parser, data: bytes, schema: str, *, growing: bool) -> Message:
    try:
        message = parse(data)
    except Exception as error:
        raise DecodeError(f"truncated or damaged {schema}") from error
    if not growing and _parses(parse, data[: -_MAX_PADDING - 1]):
        raise DecodeError(f"bytes after the end of the {schema}")
    return message


def _parses(parse: _Parser, data: bytes) -> bool:
    try:
        parse(data)
    except Exception:  # noqa: BLE001 - any failure is the answer
        return False
    return True


def _by_definition(schema: str, layouts: Layouts, data: bytes) -> Message:
    try:
        message, end = read_dynamic(schema, layouts, data)
    except (KeyError, ValueError, struct.error) as error:
        raise DecodeError(f"truncated or damaged {schema}") from error
    if len(data) - end > _MAX_PADDING:
        raise DecodeError(f"bytes after the end of the {schema}")
    return message
