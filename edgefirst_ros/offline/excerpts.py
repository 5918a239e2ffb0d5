"""The calibration in force at the beginning of an excerpt, from messages before it."""

from __future__ import annotations

from collections.abc import Sequence

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.offline.drives import RecordedDrive
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import decoded_for, unwanted
from edgefirst_ros.sample import Calibration
from edgefirst_ros.sources.recording import TopicInfo
from edgefirst_ros.topics import CONTEXT_ROLES, TopicMap, find_prefix, full_type


def calibration_before(
    drive: RecordedDrive, known: Sequence[TopicInfo], config: Config
) -> Calibration | None:
    """What calibration messages said before the drive's window; None if it begins with the drive.

    The device repeats them once a second, a ROS graph may send them only once, at the beginning.
    """
    if not drive.is_excerpt:
        return None
    names = [topic for topic, _ in known]
    routes = TopicMap(config, find_prefix(names, config), known)
    found = {name: routes.route(name) for name in names}
    wanted = {name for name, route in found.items() if route is not None and route.rule.role in CONTEXT_ROLES}
    context = SampleContext(config.ego, has_ego=False, odometry=False)
    for raw in sorted(drive.latched(wanted), key=lambda message: message.receive_ns):
        route = routes.route(raw.topic, full_type(raw.schema))
        if route is None or unwanted(raw, full_type(raw.schema), route) is not None:
            continue
        try:
            decoded = decoded_for(route.rule, raw)
        except DecodeError:
            continue
        if decoded is not None:
            times = raw.receive_ns, decoded.stamp_ns, raw.receive_ns
            context.learn(Measurement(raw.topic, *times, raw.arrival, decoded.frame_id, decoded.datum))
    context.close()
    return context.calibration
