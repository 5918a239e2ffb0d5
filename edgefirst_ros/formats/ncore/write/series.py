"""Raw IMU, NavSat and odometry messages as columns for the generic data of poses."""

from __future__ import annotations

import math

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.write.entry import SeriesValue
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.messages.odometry import Odometry
from edgefirst_ros.sample import Observation

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
