"""Messages as they are received, and measurements: what they decode to, with topic, frame and times."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Datum: TypeAlias = object
"""What a message decodes to, such as ``Imu``: the modules that ``sensors.SENSORS`` names define the types."""


class RawMessage(NamedTuple):
    """One message as received, its payload still encoded; this is what sources yield.

    Attributes:
        topic: its topic, as the source names it.
        schema: its type, ``pkg/msg/Type`` or ``pkg/Type``.
        data: CDR with its encapsulation header.
        receive_ns: time of receipt, in nanoseconds since 1970 of the receiver's clock.
        publish_ns: time of publication in the same unit; the time of receipt if the source has no other.
        arrival: running number over all messages of the source, from 0, in order of receipt.
        definition: text of the ROS message definition; empty if the source has none (MCAP files have).
        fault: why its bytes may be damaged, such as a wrong checksum; empty if nothing is known.
        repeated: received before the recording began and stored at its beginning, because it is still valid.
        vouched: a checksum or the transport vouches for its bytes.
    """

    topic: str
    schema: str
    data: bytes
    receive_ns: int
    publish_ns: int
    arrival: int
    definition: str = ""
    fault: str = ""
    repeated: bool = False
    vouched: bool = False


class Measurement(NamedTuple):
    """One decoded message with its acquisition time.

    Attributes:
        topic: topic of the message.
        time_ns: acquisition, in nanoseconds since 1970 of the recording's clock.
        stamp_ns: the header stamp in nanoseconds, as sent, of whichever clock the sensor uses.
        receive_ns: time of receipt, in nanoseconds since 1970 of the receiver's clock.
        arrival: running number over all messages of the source.
        frame_id: the coordinate frame as sent; may be empty.
        datum: what the message decodes to; its arrays are read-only.
    """

    topic: str
    time_ns: int
    stamp_ns: int
    receive_ns: int
    arrival: int
    frame_id: str
    datum: Datum
