"""What every sensor's datum has in common once it is decoded: topic, frame and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Datum: TypeAlias = object
"""What a message decodes to; which types there are is up to the sensors, see ``sensors.SENSORS``."""


@dataclass(frozen=True, slots=True)
class RawMessage:
    """One message as it arrived, still CDR: what every source yields.

    Times are nanoseconds since 1970 of the receiver's clock; ``arrival`` counts the source's
    messages from 0 in the order they arrived. ``definition`` is the ROS message definition text
    where the source carries one (MCAP does), else empty; ``fault`` says why the source does not trust the
    bytes (a damaged chunk), else empty. ``repeated`` if it came before the recording and was put at its
    beginning, because what it says holds.
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


@dataclass(frozen=True, slots=True)
class Measurement:
    """One sensor's datum at one time of the recording's clock.

    Attributes:
        topic: the name on the wire.
        time_ns: acquisition, in nanoseconds since 1970 of the recording's clock.
        stamp_ns: the header stamp as sent, of whichever clock the sensor uses.
        receive_ns: when it arrived, receiver's clock.
        arrival: running number over the whole source.
        frame_id: the coordinate frame as sent (may be empty: imu, gps).
        datum: the payload; arrays are read-only views of the message.
    """

    topic: str
    time_ns: int
    stamp_ns: int
    receive_ns: int
    arrival: int
    frame_id: str
    datum: Datum
