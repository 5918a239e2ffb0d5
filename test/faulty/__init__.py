"""Drives of which something is wrong: what the simulator makes, with faults; and the truth about them."""

from faulty.drive import FaultyDrive, simulate
from faulty.options import (
    BoxErrors,
    DeviceClock,
    FaultyOptions,
    GpsErrors,
    ImuErrors,
    Latency,
    faulty_options,
)
from faulty.truth import Truth
from faulty.video import LABELS, read_number

__all__ = [
    "LABELS",
    "BoxErrors",
    "DeviceClock",
    "FaultyDrive",
    "FaultyOptions",
    "GpsErrors",
    "ImuErrors",
    "Latency",
    "Truth",
    "faulty_options",
    "read_number",
    "simulate",
]
