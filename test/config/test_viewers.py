"""The shipped layouts against what viewers know: classes, panels and fields as their sources have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from places import REPOSITORY

CLOUD = {
    "Position Transformer", "Color Transformer", "Style", "Size (m)", "Size (Pixels)", "Axis", "Channel Name",
    "Autocompute Value Bounds", "Autocompute Intensity Bounds", "Topic", "Alpha", "Color", "Decay Time",
    "Invert Rainbow", "Use rainbow", "Selectable", "Use Fixed Frame",
}  # fmt: skip
DISPLAYS: dict[str, set[str]] = {
    "rviz_default_plugins/Grid": {
        "Cell Size", "Alpha", "Color", "Line Style", "Normal Cell Count", "Offset", "Plane",
        "Plane Cell Count", "Reference Frame",
    },
    "rviz_default_plugins/TF": {
        "Show Names", "Show Axes", "Show Arrows", "Marker Scale", "Update Interval", "Frame Timeout",
        "Frames", "Tree",
    },
    "rviz_default_plugins/Image": {"Topic", "Normalize Range", "Min Value", "Max Value", "Median window"},
    "rviz_default_plugins/PointCloud2": CLOUD,
    "rviz_default_plugins/LaserScan": CLOUD,
}  # fmt: skip
"""Displays by class, with properties of their own: ros2/rviz, plugins_description.xml and displays/."""
OF_ALL = {"Class", "Name", "Enabled", "Value"}
TOOLS = {
    f"rviz_default_plugins/{name}" for name in ("Interact", "MoveCamera", "Select", "FocusCamera", "Measure")
}
QOS = {
    "Depth": range(1, 1000),
    "History Policy": ("System Default", "Keep Last", "Keep All"),
    "Reliability Policy": ("System Default", "Reliable", "Best Effort"),
    "Durability Policy": ("System Default", "Transient Local", "Volatile"),
}
"""Below a topic: rviz_common, qos_profile_property.cpp."""
TRANSFORMERS = {"AxisColor", "Intensity", "FlatColor", "RGB8"}
STYLES = {"Points", "Squares", "Flat Squares", "Spheres", "Boxes", "Tiles"}
PANELS: dict[str, tuple[set[str], set[str]]] = {
    "3D": ({"cameraState", "followTf", "followMode", "topics"}, {"scene", "layers", "transforms", "publish"}),
    "Image": ({"imageMode"}, set()),
    "map": ({"layer", "followTopic", "disabledTopics"}, {"zoomLevel", "topicColors", "customTileUrl"}),
    "Plot": ({"paths"}, {"showLegend", "xAxisVal", "followingViewWidth"}),
    "Tab": ({"activeTabIdx", "tabs"}, set()),
}
"""Panels by type, with fields that must and may be there: foxglove/studio, panels/, the types of configs."""
CAMERA_STATE = {
    "perspective", "distance", "phi", "thetaOffset", "target", "targetOffset", "targetOrientation", "fovy",
    "near", "far",
}  # fmt: skip
PATH = {"value", "enabled", "timestampMethod"}


def test_rviz_knows_every_class_property_and_value() -> None:
    text = (REPOSITORY / "config" / "edgefirst.rviz").read_text()
    manager = yaml.safe_load(text)["Visualization Manager"]
    assert manager["Displays"]
    for display in manager["Displays"]:
        known = DISPLAYS[display["Class"]]
        assert display.keys() <= known | OF_ALL, display["Class"]
        for name, value in display.get("Topic", {}).items():
            assert name in {"Value", "Filter size"} or value in QOS[name]
        if known is CLOUD:
            assert display["Position Transformer"] == "XYZ"
            assert display["Color Transformer"] in TRANSFORMERS
            assert display["Style"] in STYLES
    assert {tool["Class"] for tool in manager["Tools"]} <= TOOLS
    assert manager["Views"]["Current"]["Class"] == "rviz_default_plugins/Orbit"
    assert manager["Transformation"]["Current"]["Class"] == "rviz_default_plugins/TF"
    assert manager["Global Options"].keys() == {"Fixed Frame", "Frame Rate", "Background Color"}


def placed(node: Any, panels: dict[str, Any]) -> Iterator[str]:  # noqa: ANN401 - a panel, or two parts
    if isinstance(node, str):
        yield node
        for tab in panels[node].get("tabs", ()):
            yield from placed(tab["layout"], panels)
        return
    assert node.keys() <= {"direction", "first", "second", "splitPercentage"}
    assert node["direction"] in {"row", "column"}
    yield from placed(node["first"], panels)
    yield from placed(node["second"], panels)


def test_foxglove_knows_every_panel_and_has_what_it_needs() -> None:
    found = json.loads((REPOSITORY / "config" / "foxglove-layout.json").read_text())
    assert {"configById", "globalVariables", "userNodes", "layout"} <= found.keys()
    panels = found["configById"]
    assert sorted(placed(found["layout"], panels)) == sorted(panels)
    for name, panel in panels.items():
        kind, _, number = name.partition("!")
        needed, more = PANELS[kind]
        assert number
        assert needed <= panel.keys() <= needed | more | {"foxglovePanelTitle"}, name
        for path in panel.get("paths", ()):
            assert PATH <= path.keys() <= PATH | {"label", "color"}
            assert path["timestampMethod"] in {"receiveTime", "headerStamp"}
        if kind == "3D":
            assert panel["cameraState"].keys() == CAMERA_STATE
            assert panel["followMode"] in {"follow-pose", "follow-position", "follow-none"}
            for cloud in panel["topics"].values():
                assert isinstance(cloud["visible"], bool)
                assert cloud.get("colorMode", "colormap") == "colormap"
                assert cloud.get("colorMap", "turbo") in {"turbo", "rainbow"}
        assert panel.get("imageMode", {"imageTopic": ""}).keys() <= {"imageTopic", "calibrationTopic"}
