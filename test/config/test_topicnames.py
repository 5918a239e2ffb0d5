"""What is a name, what a regular expression, and what each means."""

from __future__ import annotations

import re

import pytest
import zenoh
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.names import fits, is_pattern, key_expression
from edgefirst_ros.config.topics import TopicMap, choose_reference, find_prefix, reference_role
from edgefirst_ros.model.sample import Role

CLOUD, IMAGE, JPEG = "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"


@pytest.mark.parametrize("name", ["", "camera/h264", "/points", "~/points", "/a/{node}/b_2", "maivin-7/imu"])
def test_what_a_ros_name_or_a_zenoh_key_may_hold_is_a_name(name: str) -> None:
    assert not is_pattern(name)


@pytest.mark.parametrize("name", ["/a/.*", "/a?b", "(a|b)", "^/a$", r"/\w+/points", "/cam[0-9]/image"])
def test_anything_else_is_a_regular_expression(name: str) -> None:
    assert is_pattern(name)


_PARTS = [
    "a",
    "ab",
    "a.*",
    ".*",
    "[ab]+",
    "[^a]",
    r"\w+",
    r"\W",
    "a?",
    "a/?",
    "(a|b/b)",
    "b{1,2}",
    ".",
    r"\S+",
    "[/b]",
]


@given(st.lists(st.sampled_from(_PARTS), min_size=1, max_size=4), st.text("ab/", min_size=1, max_size=9))
def test_no_key_that_matches_is_missed(parts: list[str], key: str) -> None:
    key = re.sub("/+", "/", key).strip("/")
    pattern = "/" + "/".join(parts)
    if not key or not fits(pattern, key):
        return
    assert zenoh.KeyExpr(key_expression(pattern)).includes(zenoh.KeyExpr(key))
    assert zenoh.KeyExpr(key_expression(pattern, anywhere=True)).includes(zenoh.KeyExpr(f"x/{key}"))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("topic", "there", "taken", "reason"),
    [
        ("/s/.*/points", {"/s/b/points": CLOUD, "/s/a/points": CLOUD}, "/s/a/points", "the first by name"),
        ("/s/.*", {"/s/a": IMAGE, "/s/b": CLOUD}, "/s/b", ""),
        ("/b /a", {"/a": CLOUD, "/b": CLOUD}, "/b", "which is named first"),
        ("/b /a", {"/a": CLOUD, "/c": CLOUD}, "/a", ""),
        ("/b /a", {"/a": CLOUD, "/b": IMAGE}, "/a", "whose type fits"),
        ("/z/.* /s/.*", {"/s/a": CLOUD, "/z/a": CLOUD}, "/z/a", "which is named first"),
        (
            "s/.*",
            {"/rt/s/b": CLOUD, "/rt/s/a": CLOUD, "/rt/imu": "sensor_msgs/msg/Imu"},
            "/rt/s/a",
            "the first",
        ),
    ],
)
def test_one_topic_is_taken_whatever_order_they_come_in(
    topic: str, there: dict[str, str], taken: str, reason: str, turned: bool
) -> None:
    config = build_config({"topics": {"lidar_points": {"topic": topic}}})
    known = list(there.items())[:: -1 if turned else 1]
    routes = TopicMap(config, find_prefix(there, config), known)
    clouds = [t for t in there if (r := routes.route(t)) and r.name == "lidar_points" and not r.replaced_by]
    assert clouds == [taken]
    assert len(routes.notes) == bool(reason)
    assert all(f"lidar_points takes {taken}, {reason}" in note for note in routes.notes)
    for other in set(there) - {taken}:
        route = routes.route(other)
        assert route is None or route.replaced_by == taken or route.name != "lidar_points"


def test_a_reference_may_be_one_of_the_topics_that_match() -> None:
    config = build_config({"reference": "/cam/right/image", "topics": {"camera": {"topic": "/cam/.*/image"}}})
    known = [(f"/cam/{side}/image", IMAGE) for side in ("left", "right")]
    routes = TopicMap(config, "", known)
    names = [topic for topic, _ in known]
    assert choose_reference(config, names, routes) == (Role.CAMERA, {"/cam/right/image"})
    assert reference_role(config) is Role.CAMERA
    assert "which is the reference" in routes.notes[0]
