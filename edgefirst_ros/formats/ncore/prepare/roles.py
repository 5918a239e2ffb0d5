"""What becomes of each measurement: by role, the parts of a store that it makes.

Custom components: data that NCore has no component for, under a reverse-domain name.

A subclass of Component says which observations it takes and which arrays they become; the writer stores
them crash-safely like everything else::

    class Velocity(Component):
        name = "com.example.velocity"

        def record(self, observation):
            if not isinstance(observation.measurement.datum, Odometry):
                return None
            return OwnRecord({"linear_m_s": np.array(observation.measurement.datum.linear_m_s)})

    NCoreWriter(root, options, components=[Velocity()])

On disk an instance is a zarr group ``<name>/<instance>`` with ``timestamps_us`` (N,) uint64 and, for each of
these times, a group ``records/<timestamp_us>`` of the arrays. Everyone's component reader finds it there::

    class Reader(ncore.data.v4.ComponentReader):
        get_component_name = staticmethod(lambda: "com.example.velocity")
        supports_component_version = staticmethod(lambda version: version == "v1")

        def linear_m_s(self, timestamp_us):
            return self._group["records"][str(timestamp_us)]["linear_m_s"][:]
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import NO_FILE, NoPlace
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.boxes import cuboids_of, flat_boxes, placed_boxes, radar_tracks
from edgefirst_ros.formats.ncore.prepare.camera import camera_entry, depth_entry, mask_entries
from edgefirst_ros.formats.ncore.prepare.lidar import lidar_entry
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, ComponentEntry, Part, Prepared, SeriesValue
from edgefirst_ros.formats.ncore.prepare.radar import cloud_entry, cube_of, radar_entry
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import Record, group
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.errors import ConfigError, DecodeError
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import NOT_MOVING, Observation, Role
from edgefirst_ros.model.sensors import SENSORS, SensorKind

_REVERSE_DOMAIN = re.compile(r"[a-z][a-z0-9-]*(\.[A-Za-z0-9_-]+)+")


_LONGEST = 64


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """What one observation becomes.

    Attributes:
        arrays: by name; any dtype but Python objects.
        attributes: JSON, beside the arrays.
        instance: which instance of the component it belongs to.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    instance: str = "default"


class Component(ABC):
    """A custom component; ``name`` is a reverse domain, ``version`` changes with its layout."""

    name: ClassVar[str]
    version: ClassVar[str] = "v1"

    @abstractmethod
    def record(self, observation: Observation) -> OwnRecord | None:
        """What to store of an observation, None for nothing; pure, called from any thread."""

    def meta(self) -> dict[str, Any]:
        """generic_meta_data of every instance."""
        return {}


def own_entry(component: Component, observation: Observation) -> ComponentEntry | None:
    """The entry that a component makes of an observation."""
    record = component.record(observation)
    if record is None:
        return None
    time_us = observation.measurement.time_ns // 1000
    records: list[Record] = group("")
    for name, array in record.arrays.items():
        records += array_records(name, np.asarray(array, order="C"), COMPRESSOR)
    return ComponentEntry(
        component=component.name,
        collection="records",
        name=record.instance,
        frame_id=observation.measurement.frame_id,
        start_us=time_us,
        end_us=time_us,
        records=tuple(records),
        attributes=dict(record.attributes),
        meta=component.meta(),
        version=component.version,
    )


def check_components(components: Sequence[Component]) -> None:
    """Check that names are reverse domains, so that they clash with no other component.

    Raises:
        ConfigError: naming every component that is not.
    """
    names = [component.name for component in components]
    faults = [
        f"component {name!r} needs a reverse-domain name such as com.example.velocity, up to {_LONGEST} long"
        for name in names
        if not _REVERSE_DOMAIN.fullmatch(name) or len(name) > _LONGEST
    ]
    faults += [f"component {name!r} is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    if faults:
        raise ConfigError(faults)


Outcome = Part | str
"""A part, or why there is none."""

Maker = Callable[[Observation, NCoreOptions], Iterator[Outcome]]


def prepare(observation: Observation, options: NCoreOptions, components: Sequence[Component]) -> Prepared:
    """The parts of a measurement that NCore stores, compressed, and why the rest is not stored."""
    own = [entry for component in components if (entry := own_entry(component, observation)) is not None]
    made = list(_made(observation, options))
    if own:  # a component that takes the message is where the rest of it goes
        made = [outcome for outcome in made if not isinstance(outcome, str)]
    measurement = observation.measurement
    return Prepared(
        topic=measurement.topic,
        role=observation.role,
        time_us=measurement.time_ns // 1000,
        calibration=observation.calibration,
        parts=(*(outcome for outcome in made if not isinstance(outcome, str)), *own),
        refused=tuple(outcome for outcome in made if isinstance(outcome, str)),
        mounted=measurement.mounted if observation.role is Role.TF else NOT_MOVING,
    )


def _made(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    maker = _MAKERS.get(observation.role)
    if maker is None:
        if SENSORS[observation.role].kind is not SensorKind.CALIBRATION:
            yield NO_FILE
        return
    try:
        yield from maker(observation, options)
    except DecodeError as error:
        yield str(error)


def _camera(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield camera_entry(observation, options)


def _lidar(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield lidar_entry(observation, options)


def _radar(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield radar_entry(observation, options)
    yield from radar_tracks(observation)


def _cube(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield cube_of(observation) if options.radar_cube else NoPlace("radar_cube is off")


def _cloud(observation: Observation, _: NCoreOptions) -> Iterator[Outcome]:
    yield cloud_entry(observation)


def _clusters(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield from _cloud(observation, options)
    yield from radar_tracks(observation)


def _masks(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield from mask_entries(observation, options)


def _model(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    datum = observation.measurement.datum
    if isinstance(datum, Detections):
        boxes, refused = flat_boxes(observation)
        yield boxes
        yield from refused
        if options.cuboids_of_boxes2d and (placed := placed_boxes(observation)):
            yield placed
    yield from mask_entries(observation, options)


def _depth(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield depth_entry(observation, options)


def _cuboids(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    del options
    cuboids, refused = cuboids_of(observation)
    yield cuboids
    yield from refused


def _series(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    del options
    yield series_value(observation)


def _lidar_image(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    del observation, options
    yield NoPlace("image of a lidar, not aligned with a camera")


_MAKERS: dict[Role, Maker] = {
    Role.CAMERA: _camera,
    Role.LIDAR_POINTS: _lidar,
    Role.RADAR_TARGETS: _radar,
    Role.RADAR_CUBE: _cube,
    Role.RADAR_CLUSTERS: _clusters,
    Role.LIDAR_CLUSTERS: _cloud,
    Role.FUSION_RADAR: _cloud,
    Role.FUSION_LIDAR: _cloud,
    Role.MODEL: _model,
    Role.MASK: _masks,
    Role.DEPTH: _depth,
    Role.BOXES_3D: _cuboids,
    Role.IMU: _series,
    Role.GPS: _series,
    Role.ODOMETRY: _series,
    Role.LIDAR_DEPTH: _lidar_image,
    Role.LIDAR_REFLECT: _lidar_image,
}
"""Calibration is not here: it is stored with the measurements that come after."""


def is_stored(role: Role) -> bool:
    """Whether messages of the role have a place of their own."""
    return role in _MAKERS


_IMU = (("orientation_xyzw", 4), ("angular_velocity_rad_s", 3), ("linear_acceleration_m_s2", 3))
_NAVSAT = (("latitude_deg", 1), ("longitude_deg", 1), ("altitude_m", 1), ("status", 1))
_ODOMETRY = (("position_m", 3), ("orientation_xyzw", 4), ("linear_m_s", 3), ("angular_rad_s", 3))
_NO_ORIENTATION = (math.nan,) * 4


def series_value(observation: Observation) -> SeriesValue:
    """The message as one row; an orientation that it lacks is NaN.

    Raises:
        DecodeError: a message of no such sensor.
    """
    measurement = observation.measurement
    datum, time_us = measurement.datum, measurement.time_ns // 1000
    match datum:
        case Imu():
            orientation = datum.orientation_xyzw or _NO_ORIENTATION
            motion = (*datum.angular_velocity_rad_s, *datum.linear_acceleration_m_s2)
            return SeriesValue("imu", _IMU, time_us, (*orientation, *motion))
        case NavSatFix():
            fix = (datum.latitude_deg, datum.longitude_deg, datum.altitude_m, float(datum.status))
            return SeriesValue("navsat", _NAVSAT, time_us, fix)
        case Odometry():
            pose, twist = (
                (*datum.position_m, *datum.orientation_xyzw),
                (*datum.linear_m_s, *datum.angular_rad_s),
            )
            return SeriesValue("odometry", _ODOMETRY, time_us, (*pose, *twist))
        case _:
            raise DecodeError(f"message is {type(datum).__name__}, not of an IMU, receiver or odometer")
