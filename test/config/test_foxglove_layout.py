"""The layout for Foxglove: every panel is there, and every topic is one that is published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from places import REPOSITORY

from edgefirst_ros.config.model import MAIVIN_TOPICS

LAYOUT = json.loads((REPOSITORY / "config" / "foxglove-layout.json").read_text())
RVIZ = yaml.safe_load((REPOSITORY / "config" / "edgefirst.rviz").read_text())
TOPIC = re.compile(r"/[a-z0-9_/]+")


def topics(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Everything that is written like a topic; of a plot's path, what is before the field."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from topics(key)
            yield from topics(each)
    elif isinstance(value, list):
        for each in value:
            yield from topics(each)
    elif isinstance(value, str) and value.startswith("/"):
        name, _, field = value.partition(".")
        assert TOPIC.fullmatch(name), value
        assert not field or re.fullmatch(r"[a-z_.]+", field), value
        yield name


def panels(node: str | dict[str, Any]) -> Iterator[str]:
    """Panels of a layout, those behind tabs too."""
    if isinstance(node, dict):
        for side in ("first", "second"):
            yield from panels(node[side])
        return
    yield node
    for tab in LAYOUT["configById"][node].get("tabs", ()):
        yield from panels(tab["layout"])


def test_every_topic_is_a_preview_or_one_that_the_device_sends() -> None:
    named = set(topics(LAYOUT["configById"]))
    previews = {topic for topic in named if topic.startswith("/capture/")}
    # A launch test holds RViz's to what the node publishes.
    shown = (display.get("Topic", {}).get("Value") for display in RVIZ["Visualization Manager"]["Displays"])
    assert previews == {topic for topic in shown if topic}
    device = {f"/{name}" for rule in MAIVIN_TOPICS.values() for name in rule.plain_names}
    assert named - previews
    assert named - previews <= device


def test_every_panel_is_configured_and_placed_once() -> None:
    placed = list(panels(LAYOUT["layout"]))
    assert len(placed) == len(set(placed))
    assert set(placed) == LAYOUT["configById"].keys()
