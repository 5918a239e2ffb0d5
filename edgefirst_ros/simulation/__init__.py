"""A drive with known ground truth, as a Maivin recording."""

from edgefirst_ros.simulation.drive import Recording, simulate
from edgefirst_ros.simulation.options import DriveOptions, Latency
from edgefirst_ros.simulation.rig import DeviceClock, MoreSensor
from edgefirst_ros.simulation.truth import Truth

__all__ = [
    "DeviceClock",
    "DriveOptions",
    "Latency",
    "MoreSensor",
    "Recording",
    "Truth",
    "simulate",
]
