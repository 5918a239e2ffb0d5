"""Clusters and fused clouds to ``point_clouds``: coordinates and typed attributes."""

from __future__ import annotations

import numpy as np

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.extrinsics import node
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, ComponentEntry, Json, generic_data
from edgefirst_ros.formats.ncore.prepare.radar import FIELDS
from edgefirst_ros.formats.ncore.prepare.rays import Rays, other_fields, xyz
from edgefirst_ros.formats.ncore.store.marks import REFERENCE
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import group
from edgefirst_ros.messages.pointcloud import PointCloud, as_type, is_seen
from edgefirst_ros.sample import Observation

_ATTRIBUTES = {
    **FIELDS,
    "vision_class": "class",
    "fusion_class": "fusion_class",
    "instance_id": "instance",
    "track_id": "track",
    "cluster_id": "cluster",
}
_INTEGERS = {"class", "instance", "track", "cluster"}


def cloud_entry(observation: Observation, options: NCoreOptions) -> ComponentEntry:
    """A cloud in its own frame; points too far (``is_seen``) or not finite are left out.

    Raises:
        DecodeError: not a cloud, or one without x, y and z.
    """
    measurement = observation.measurement
    cloud = measurement.datum
    if not isinstance(cloud, PointCloud):
        raise DecodeError(f"message is {type(cloud).__name__}, not a point cloud")
    points = xyz(cloud)
    seen = is_seen(*points.T)
    kept = None if seen.all() else seen
    points = points if kept is None else points[kept]
    columns = Rays(points, np.zeros(len(points), np.float32), kept)
    attributes = other_fields(cloud, columns, {"x", "y", "z"}, _ATTRIBUTES)
    for name in _INTEGERS & attributes.keys():
        if attributes[name].dtype.kind == "f":  # a number of things, sent in a float
            attributes[name] = as_type(attributes[name], np.int32)
    records = [*group(""), *array_records("xyz", points, COMPRESSOR)]
    for name, values in attributes.items():
        records += array_records(name, values, COMPRESSOR)
    schemas: Json = {
        name: {"transform_type": "INVARIANT", "dtype": str(values.dtype), "shape_suffix": [*values.shape[1:]]}
        for name, values in attributes.items()
    }
    time_us = measurement.time_ns // 1000
    return ComponentEntry(
        component="point_clouds",
        collection="pcs",
        name=observation.role.value,
        frame_id=measurement.frame_id,
        start_us=time_us,
        end_us=time_us,
        records=(*records, *generic_data({})),
        attributes={REFERENCE: node(measurement.frame_id, options.rig_frame), "generic_meta_data": {}},
        shared={"coordinate_unit": "METERS", "attribute_schemas": schemas},
    )
