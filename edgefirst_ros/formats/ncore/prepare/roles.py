"""What becomes of each measurement: by role, the parts of a store that it makes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from edgefirst_ros.formats.format import NO_FILE, NoPlace
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.boxes import cuboids_of, flat_boxes, placed_boxes, radar_tracks
from edgefirst_ros.formats.ncore.prepare.camera import camera_entry, depth_entry, mask_entries
from edgefirst_ros.formats.ncore.prepare.parts import Part, Prepared, SeriesValue
from edgefirst_ros.formats.ncore.prepare.scans import cloud_entry, cube_of, lidar_entry, radar_entry
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import NOT_MOVING, Observation, Role
from edgefirst_ros.model.sensors import SENSORS, SensorKind

_NO_CAMERA = NoPlace("image of a lidar, not aligned with a camera")

Outcome = Part | str
"""A part, or why there is none."""

Maker = Callable[[Observation, NCoreOptions], Iterator[Outcome]]


def prepare(observation: Observation, options: NCoreOptions) -> Prepared:
    """The parts of a measurement that NCore stores, compressed, and why the rest is not stored."""
    made = list(_made(observation, options))
    measurement = observation.measurement
    return Prepared(
        topic=measurement.topic,
        role=observation.role,
        time_us=measurement.time_ns // 1000,
        calibration=observation.calibration,
        parts=tuple(outcome for outcome in made if not isinstance(outcome, str)),
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


def _radar(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield radar_entry(observation, options)
    yield from radar_tracks(observation)


def _cube(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    yield cube_of(observation) if options.radar_cube else NoPlace("radar_cube is off")


def _clusters(observation: Observation, _: NCoreOptions) -> Iterator[Outcome]:
    yield cloud_entry(observation)
    yield from radar_tracks(observation)


def _model(observation: Observation, options: NCoreOptions) -> Iterator[Outcome]:
    datum = observation.measurement.datum
    if isinstance(datum, Detections):
        boxes, refused = flat_boxes(observation)
        yield boxes
        yield from refused
        if options.cuboids_of_boxes2d and (placed := placed_boxes(observation)):
            yield placed
    yield from mask_entries(observation, options)


def _cuboids(observation: Observation, _: NCoreOptions) -> Iterator[Outcome]:
    cuboids, refused = cuboids_of(observation)
    yield cuboids
    yield from refused


def _single(make: Callable[[Observation], Outcome]) -> Maker:
    """Of messages that become one part."""
    return lambda observation, _: iter((make(observation),))


_IMU = (
    *(("orientation_xyzw", 4), ("angular_velocity_rad_s", 3), ("linear_acceleration_m_s2", 3)),
    *(
        ("orientation_covariance", 9),
        ("angular_velocity_covariance", 9),
        ("linear_acceleration_covariance", 9),
    ),
)
_NAVSAT = (
    *(("latitude_deg", 1), ("longitude_deg", 1), ("altitude_m", 1), ("status", 1), ("service", 1)),
    *(("position_covariance_m2", 9), ("position_covariance_type", 1)),
)
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
            return SeriesValue("imu", _IMU, time_us, (*orientation, *motion, *datum.covariances))
        case NavSatFix():
            place = datum.latitude_deg, datum.longitude_deg, datum.altitude_m
            fix = *place, float(datum.status), float(datum.service)
            spread = *datum.covariance_m2, float(datum.covariance_type)
            return SeriesValue("navsat", _NAVSAT, time_us, (*fix, *spread))
        case Odometry():
            pose, twist = (
                (*datum.position_m, *datum.orientation_xyzw),
                (*datum.linear_m_s, *datum.angular_rad_s),
            )
            return SeriesValue("odometry", _ODOMETRY, time_us, (*pose, *twist))
        case _:
            raise DecodeError(f"message is {type(datum).__name__}, not of an IMU, receiver or odometer")


_MAKERS: dict[Role, Maker] = {
    Role.CAMERA: lambda seen, options: iter((camera_entry(seen, options),)),
    Role.LIDAR_POINTS: _single(lidar_entry),
    Role.RADAR_TARGETS: _radar,
    Role.RADAR_CUBE: _cube,
    Role.RADAR_CLUSTERS: _clusters,
    **dict.fromkeys((Role.LIDAR_CLUSTERS, Role.FUSION_RADAR, Role.FUSION_LIDAR), _single(cloud_entry)),
    Role.MODEL: _model,
    Role.MASK: mask_entries,
    Role.DEPTH: lambda seen, options: iter((depth_entry(seen, options),)),
    Role.BOXES_3D: _cuboids,
    **dict.fromkeys((Role.IMU, Role.GPS, Role.ODOMETRY), _single(series_value)),
    **dict.fromkeys((Role.LIDAR_DEPTH, Role.LIDAR_REFLECT), _single(lambda _: _NO_CAMERA)),
}
"""Calibration is not here: it is stored with the measurements that come after."""


def is_stored(role: Role) -> bool:
    """Whether messages of the role have a place of their own."""
    return role in _MAKERS
