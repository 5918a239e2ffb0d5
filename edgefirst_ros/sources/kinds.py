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
    if location.suffix.lower() not in BAGS:
        return McapRecording(location)
    from edgefirst_ros.sources.rosbag import RosbagRecording  # noqa: PLC0415 - only where a bag is given

    return RosbagRecording(location)
