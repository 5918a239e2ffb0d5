"""Layouts of Foxglove and RViz for a configuration: a panel of each camera, and every cloud in one view."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import Route, TopicMap, find_prefix, full_type
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.untrusted import visible

Viewer = Literal["foxglove", "rviz"]
CLOUDS = {
    Role.LIDAR_POINTS: "lidar",
    Role.RADAR_TARGETS: "radar",
    Role.RADAR_CLUSTERS: "radar",
    Role.LIDAR_CLUSTERS: "lidar",
}
_PICTURES = frozenset({"sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"})
_FOXGLOVE = frozenset({"foxglove_msgs/msg/CompressedVideo", "foxglove_msgs/msg/CompressedImage"})
_POINTS = frozenset({"sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/LaserScan"})
_HEIGHT_M, _SPEED_M_S = (-2, 5), (-15, 15)
"""What colours span: of lidars by height, of radars by speed."""
_CAMERA_STATE = {
    "perspective": True, "distance": 32, "phi": 55, "thetaOffset": 90, "fovy": 45, "near": 0.1, "far": 5000,
    "target": [0, 0, 0], "targetOffset": [0, 0, 0], "targetOrientation": [0, 0, 0, 1],
}  # fmt: skip
"""From behind and above, all that Foxglove keeps of a view."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout as a file's text, and topics that the viewer cannot show, with their types."""

    text: str
    not_shown: Mapping[str, str]


def layout(viewer: Viewer, config: Config, topics: Iterable[tuple[str, str]]) -> Layout:
    """The layout of a viewer for what a configuration takes of these topics, with their types."""
    types = {topic: full_type(kind) for topic, kind in topics}
    routes = TopicMap(config, find_prefix(types, config), [*types.items()])
    routes.choose(types.items())
    found = [route for route in map(routes.route, types) if route is not None and not route.replaced_by]
    shown, lost = [], {}
    for route in sorted(found, key=lambda each: (each.sensor, each.topic)):
        if route.rule.role not in {Role.CAMERA, Role.DEPTH, *CLOUDS}:
            continue
        if _can_show(viewer, route.topic, types[route.topic], is_cloud=route.rule.role in CLOUDS):
            shown.append(route)
        else:
            lost[route.topic] = types[route.topic]
    cameras = [each for each in shown if each.rule.role not in CLOUDS]
    clouds = [each for each in shown if each.rule.role in CLOUDS]
    if viewer == "rviz":
        return Layout(_rviz(config.rig_frame, cameras, clouds, types, lost), lost)
    others = [route for route in found if route.rule.role in {Role.CAMERA_INFO, Role.GPS, Role.IMU}]
    return Layout(_foxglove(config.rig_frame, cameras, clouds, others), lost)


def _can_show(viewer: Viewer, topic: str, kind: str, *, is_cloud: bool) -> bool:
    if is_cloud:
        return kind in _POINTS
    # RViz knows by a topic's name that its pictures are compressed; Foxglove decodes no depth.
    if kind == "sensor_msgs/msg/CompressedImage":
        known = ("/compressed", "/compressedDepth")
        return topic.endswith(known) if viewer == "rviz" else not topic.endswith(known[1:])
    return kind in _PICTURES or (viewer == "foxglove" and kind in _FOXGLOVE)


def _foxglove(rig: str, cameras: Sequence[Route], clouds: Sequence[Route], others: Sequence[Route]) -> str:
    infos = {route.sensor: route.topic for route in others if route.rule.role is Role.CAMERA_INFO}
    panels: dict[str, dict[str, Any]] = {}
    for number, camera in enumerate(cameras, 1):
        mode = {"imageTopic": camera.topic}
        if camera.sensor in infos:
            mode["calibrationTopic"] = infos[camera.sensor]
        panels[f"Image!{number}"] = {"foxglovePanelTitle": visible(camera.sensor), "imageMode": mode}
    pictures = [*panels]
    panels["3D!rig"] = {
        "foxglovePanelTitle": "Lidar and radar",
        "followMode": "follow-pose",
        "followTf": rig,
        "cameraState": _CAMERA_STATE,
        "scene": {"backgroundColor": "#303030"},
        "topics": {
            **{cloud.topic: _foxglove_cloud(CLOUDS[cloud.rule.role]) for cloud in clouds},
            **{topic: {"visible": True} for topic in infos.values()},  # drawn as frustums
        },
    }
    views = ["3D!rig"]
    for route in others:
        if route.rule.role is Role.GPS and "map!place" not in panels:
            panels["map!place"] = {
                "layer": "map",
                "zoomLevel": 17,
                "followTopic": route.topic,
                "disabledTopics": [],
            }
            views.append("map!place")
        if route.rule.role is Role.IMU and "Plot!rotation" not in panels:
            paths = [
                {
                    "value": f"{route.topic}.angular_velocity.{axis}",
                    "label": axis,
                    "enabled": True,
                    "timestampMethod": "receiveTime",
                }
                for axis in "xyz"
            ]
            panels["Plot!rotation"] = {"foxglovePanelTitle": "Rotation, rad/s", "paths": paths}
            views.append("Plot!rotation")
    columns = [_split(each, "column") for each in (pictures, views) if each]
    made = {"configById": panels, "globalVariables": {}, "userNodes": {}, "layout": _split(columns, "row")}
    return json.dumps(made, indent=2) + "\n"


def _foxglove_cloud(kind: str) -> dict[str, Any]:
    low, high = _SPEED_M_S if kind == "radar" else _HEIGHT_M
    by = ("rainbow", "speed", 8) if kind == "radar" else ("turbo", "z", 2)
    return {
        "visible": True, "colorMode": "colormap", "colorMap": by[0], "colorField": by[1], "pointSize": by[2],
        "minValue": low, "maxValue": high,
    }  # fmt: skip


def _split(parts: Sequence[Any], way: Literal["row", "column"]) -> Any:  # noqa: ANN401 - a panel or two parts
    """Panels side by side, halved again and again, each time in the other direction."""
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    other: Literal["row", "column"] = "row" if way == "column" else "column"
    first, second = _split(parts[:half], other), _split(parts[half:], other)
    return {
        "direction": way,
        "splitPercentage": round(100 * half / len(parts)),
        "first": first,
        "second": second,
    }


def _rviz(
    rig: str,
    cameras: Sequence[Route],
    clouds: Sequence[Route],
    types: Mapping[str, str],
    lost: Mapping[str, str],
) -> str:
    displays: list[dict[str, Any]] = [
        {"Class": "rviz_default_plugins/Grid", "Name": "Grid", "Enabled": True, "Cell Size": 5},
        {"Class": "rviz_default_plugins/TF", "Name": "Sensors", "Enabled": True, "Show Names": True},
    ]  # fmt: skip
    displays += [
        {
            "Class": "rviz_default_plugins/Image",
            "Name": visible(c.sensor),
            "Enabled": True,
            "Topic": _topic(c),
        }
        for c in cameras
    ]
    for cloud in clouds:
        is_radar = CLOUDS[cloud.rule.role] == "radar"
        low, high = _HEIGHT_M
        colours: dict[str, Any] = (
            {"Color Transformer": "Intensity", "Channel Name": "speed", "Autocompute Intensity Bounds": True}
            if is_radar
            else {
                "Color Transformer": "AxisColor",
                "Axis": "Z",
                "Autocompute Value Bounds": {"Min Value": low, "Max Value": high, "Value": False},
            }
        )
        displays.append(
            {
                "Class": f"rviz_default_plugins/{types[cloud.topic].rpartition('/')[2]}",
                "Name": visible(cloud.sensor),
                "Enabled": True,
                "Topic": _topic(cloud),
                "Position Transformer": "XYZ",
                "Style": "Spheres" if is_radar else "Points",
                "Size (m)": 0.3 if is_radar else 0.05,
                "Size (Pixels)": 2,
                **colours,
            }
        )
    manager = {
        "Class": "",
        "Name": "root",
        "Enabled": True,
        "Displays": displays,
        "Global Options": {"Fixed Frame": rig, "Frame Rate": 30, "Background Color": "48; 48; 48"},
        "Tools": [{"Class": "rviz_default_plugins/Interact"}, {"Class": "rviz_default_plugins/MoveCamera"}],
        "Transformation": {"Current": {"Class": "rviz_default_plugins/TF"}},
        "Views": {
            "Current": {"Class": "rviz_default_plugins/Orbit", "Distance": 30, "Pitch": 0.6, "Yaw": 3.14}
        },
    }
    text = yaml.safe_dump(
        {"Panels": [{"Class": "rviz_common/Displays", "Name": "Displays"}], "Visualization Manager": manager},
        sort_keys=False,
    )
    notes = [f"# RViz cannot show {visible(topic)} ({visible(kind)}).\n" for topic, kind in lost.items()]
    return "".join(notes) + text


def _topic(route: Route) -> dict[str, Any]:
    """Of either reliability: one that asks for less gets both."""
    return {
        "Value": route.topic,
        "Depth": 5,
        "Reliability Policy": "Best Effort",
        "History Policy": "Keep Last",
    }
