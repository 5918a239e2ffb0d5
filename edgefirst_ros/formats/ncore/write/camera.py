"""Camera pictures to frames of ``cameras``."""

from __future__ import annotations

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.store.marks import SIZE
from edgefirst_ros.formats.ncore.write.entry import Entry, generic_data
from edgefirst_ros.formats.zarr2.array import blob_records
from edgefirst_ros.formats.zarr2.metadata import group
from edgefirst_ros.sample import Observation


def camera_entry(observation: Observation, options: NCoreOptions) -> Entry:
    """A frame that starts at the picture's time and ends after the readout.

    Raises:
        DecodeError: the packet gave no picture.
    """
    measurement, image = observation.measurement, observation.image
    if image is None or not image.data:
        raise DecodeError("no picture")
    start_us = measurement.time_ns // 1000
    return Entry(
        component="cameras",
        collection="frames",
        name="camera",
        frame_id=measurement.frame_id,
        start_us=start_us,
        end_us=start_us + readout_us(options),
        records=(
            *group(""),
            *generic_data({}),
            *blob_records("image", image.data, {"format": image.format}),
        ),
        attributes={SIZE: [image.width, image.height]},
        size=(image.width, image.height),
    )


def readout_us(options: NCoreOptions) -> int:
    """Duration of a camera frame."""
    return round(options.camera_readout_ms * 1000)
