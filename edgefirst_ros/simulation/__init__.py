"""A drive with known ground truth, as a Maivin recording."""

from edgefirst_ros.simulation.drive import Recording, simulate
from edgefirst_ros.simulation.options import DriveOptions, MoreSensor

__all__ = ["DriveOptions", "MoreSensor", "Recording", "simulate"]
