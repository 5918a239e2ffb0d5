"""Which files are recordings, and what reads them."""

from __future__ import annotations

from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import Recording

BAGS = (".db3", ".bag")
SUFFIXES = (".mcap", *BAGS)
"""Endings of the names of recordings: MCAP, rosbag2 in SQLite, ROS 1."""


def open_recording(location: Location) -> Recording:
    """The recording in a file; MCAP unless its name says otherwise.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not a recording, or unreadable.
        ExtraNotInstalled: the library that reads it is missing.
    """
    match location.suffix.lower():
        case ".db3":
            from edgefirst_ros.sources.rosbag2 import Rosbag2Recording  # noqa: PLC0415 - only where one is given

            return Rosbag2Recording(location)
        case ".bag":
            from edgefirst_ros.sources.ros1bag import Ros1Recording  # noqa: PLC0415 - likewise

            return Ros1Recording(location)
    return McapRecording(location)
