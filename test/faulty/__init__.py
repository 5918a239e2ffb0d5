"""Drives of which something is wrong: what the simulator makes, with faults."""

from faulty.drive import FaultyDrive, simulate
from faulty.options import BoxErrors, FaultyOptions, GpsErrors, ImuErrors, faulty_options

__all__ = [
    "BoxErrors",
    "FaultyDrive",
    "FaultyOptions",
    "GpsErrors",
    "ImuErrors",
    "faulty_options",
    "simulate",
]
