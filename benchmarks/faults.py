"""The drives with faults that the tests make, and the truth about them, for benchmarks."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

from faulty import BoxErrors, FaultyOptions, GpsErrors, ImuErrors, Latency, Truth, simulate

__all__ = ["BoxErrors", "FaultyOptions", "GpsErrors", "ImuErrors", "Latency", "Truth", "simulate"]
