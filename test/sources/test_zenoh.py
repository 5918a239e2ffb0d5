"""Zenoh over loopback: names of every generation, encodings, order, what a device that dies leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import zenoh
from livedrive import HOST, messages
from zenoh_loopback import await_condition, free_endpoint

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.config.topics import MAX_UNUSED, OTHER_TOPICS, SHOWN_TOPICS
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.errors import ConfigError, TransportError
from edgefirst_ros.model.sample import RawMessage, Role
from edgefirst_ros.sources import zenohlink
from edgefirst_ros.sources.zenoh import ZenohSource, key_expressions, message_type
from edgefirst_ros.sources.zenohlink import Outlet, open_session

CUBE, CLOUD = "edgefirst_msgs/msg/RadarCube", "sensor_msgs/msg/PointCloud2"


class Heard:
    """A source listening on loopback, and what it took."""

    def __init__(self, config: Config, namespace: str) -> None:
        self.endpoint = free_endpoint()
        self.messages: list[RawMessage] = []
        clock = count(1_000)
        self.source = ZenohSource(
            open_session([], [self.endpoint]),
            config,
            self.messages.append,
            namespace=namespace,
            now_ns=lambda: next(clock),
        )

    def wait(self, number: int) -> list[RawMessage]:
        await_condition(f"message {number}", lambda: len(self.messages) >= number)
        assert len(self.messages) == number
        return self.messages


@contextmanager
def heard(namespace: str = "", config: Config | None = None) -> Iterator[Heard]:
    listening = Heard(config or Config(), namespace)
    with listening.source:
        yield listening


@contextmanager
def device(endpoint: str, *keys: str, wanted: int | None = None) -> Iterator[list[Outlet]]:
    """Somebody who publishes under these keys, once so many of them, or all, are subscribed to."""
    with open_session([endpoint], []) as session:
        outlets = [Outlet(session, key) for key in keys]
        number = len(outlets) if wanted is None else wanted
        await_condition("subscribers", lambda: sum(outlet.wanted for outlet in outlets) >= number)
        yield outlets


@pytest.mark.parametrize(
    ("key", "namespace"),
    [
        ("rt/radar/cube", ""),
        ("radar/cube", ""),
        ("maivin-7/radar/cube", ""),
        ("rt/radar/cube", "rt"),
        ("radar/cube", "rt"),
        ("maivin-7/radar/cube", "maivin-7"),
        ("maivin-7/radar/cube", "/maivin-7/"),
    ],
)
def test_every_generation_of_names_becomes_the_recorders(key: str, namespace: str) -> None:
    with heard(namespace) as listening, device(listening.endpoint, key) as (outlet,):
        outlet.put(CUBE, b"\x00\x01\x00\x00cube")
        (message,) = listening.wait(1)
    assert message.topic == "/radar/cube"
    assert message.schema == CUBE
    assert message.data == b"\x00\x01\x00\x00cube"
    assert message.receive_ns == message.publish_ns == 1_000
    assert message.fault == ""


def test_names_that_begin_with_a_slash_are_taken_as_they_are() -> None:
    config = build_config({"topics": {"camera": {"topic": "/front/image"}}})
    assert key_expressions("/front/image", "maivin-7") == ("front/image",)
    with (
        heard("maivin-7", config) as listening,
        device(listening.endpoint, "front/image", "maivin-7/imu") as (camera, imu),
    ):
        camera.put("sensor_msgs/msg/Image", b"")
        imu.put("sensor_msgs/msg/Imu", b"")
        assert [m.topic for m in listening.wait(2)] == ["/front/image", "/imu"]


def test_a_namespace_keeps_other_devices_out() -> None:
    keys = ("other/radar/cube", "rt/radar/cube", "radar/cube", "maivin-7/radar/cube")
    with heard("maivin-7") as listening, device(listening.endpoint, *keys, wanted=1) as outlets:
        for outlet in outlets:
            outlet.put(CUBE, b"")
        listening.wait(1)
        assert [outlet.wanted for outlet in outlets] == [False, False, False, True]


def test_without_a_namespace_the_first_device_is_taken_and_others_are_named() -> None:
    keys = ("maivin-7/radar/cube", "maivin-8/radar/cube", "rt/radar/cube", "maivin-7/imu")
    with heard() as listening, device(listening.endpoint, *keys) as (ours, theirs, old, imu):
        for outlet in (ours, theirs, theirs, old, imu):
            outlet.put(CUBE, b"")
        topics = [m.topic for m in listening.wait(5)]
        assert listening.source.notes == [
            f"more than one device: maivin-7 is captured, {other} is not; choose with --namespace"
            for other in ("maivin-8", "the one without a prefix")
        ]
    assert topics == ["/radar/cube", "/maivin-8/radar/cube", "/maivin-8/radar/cube", "/rt/radar/cube", "/imu"]


def test_a_device_that_dies_and_returns_is_heard_again() -> None:
    """The source connects, as to a device; the device is away at first, and again in between."""
    endpoint = free_endpoint()
    got: list[RawMessage] = []
    with ZenohSource(open_session([endpoint], []), Config(), got.append) as source:
        assert source.connections == 0
        _live(endpoint, source, got, b"first")
        _live(endpoint, source, got, b"second")
    assert [m.data for m in got] == [b"first", b"second"]


def _live(endpoint: str, source: ZenohSource, got: list[RawMessage], data: bytes) -> None:
    """A device from its start to its end, with one message between."""
    before = len(got)
    with open_session([], [endpoint]) as session:
        outlet = Outlet(session, "rt/imu")
        await_condition("a subscriber", lambda: outlet.wanted)
        outlet.put("sensor_msgs/msg/Imu", data)
        await_condition("the message", lambda: len(got) > before)
        assert source.connections == 1
    await_condition("the end of the connection", lambda: source.connections == 0)


def put_raw(endpoint: str, key: str, encoding: str | None) -> None:
    with open_session([endpoint], []) as session:
        publisher = Outlet(session, key)
        await_condition("a subscriber", lambda: publisher.wanted)
        session.put(key, b"x", encoding=None if encoding is None else zenoh.Encoding(encoding))


@pytest.mark.parametrize(
    ("key", "encoding", "schema", "fault"),
    [
        ("rt/radar/targets", "application/cdr;sensor_msgs/msg/PointCloud2", CLOUD, ""),
        ("rt/radar/targets", "application/cdr;sensor_msgs/PointCloud2", CLOUD, ""),
        ("rt/radar/targets", "application/cdr", CLOUD, ""),
        ("rt/radar/targets", None, CLOUD, ""),
        ("rt/camera/h264", None, "", "the encoding names no type, and camera has 5 possible ones"),
        ("rt/radar/targets", "application/json", "", "encoding application/json, expected application/cdr"),
    ],
)
def test_the_type_is_the_encodings_or_the_only_one_possible(
    key: str, encoding: str | None, schema: str, fault: str
) -> None:
    with heard() as listening:
        put_raw(listening.endpoint, key, encoding)
        (message,) = listening.wait(1)
    assert (message.schema, message.fault) == (schema, fault)


def test_the_type_of_a_schema_in_the_encoding_reads_back() -> None:
    encoding = str(zenoh.Encoding.APPLICATION_CDR.with_schema(CUBE))
    assert message_type(encoding, Role.RADAR_CUBE) == (CUBE, "")
    # A wrong type is the pipeline's to refuse, which counts it.
    assert message_type(encoding, Role.IMU) == (CUBE, "")


@pytest.mark.parametrize(
    ("connect", "listen", "words"),
    [
        (["tcp://10.0.0.1:7447"], [], r"'tcp://10.0.0.1:7447': expected PROTOCOL/ADDRESS"),
        (["192.168.1.5:7447"], ["here"], r"'192.168.1.5:7447'.*'here'"),
        ([], [], "--zenoh"),
    ],
)
def test_endpoints_that_cannot_be_meant_are_all_listed(
    connect: list[str], listen: list[str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        open_session(connect, listen)


def test_a_port_in_use_is_said() -> None:
    endpoint = free_endpoint()
    with open_session([], [endpoint]), pytest.raises(TransportError, match=endpoint):
        open_session([], [endpoint])


@pytest.mark.parametrize(
    ("topic", "namespace", "keys", "names"),
    [
        ("/s/.*/points", "", ["s/b/points", "s/a/points", "x/s/a/points"], ["/s/b/points", "/s/a/points"]),
        ("s/.*/points", "", ["rt/s/b/points", "s/a/points", "s/a/points2"], ["/s/b/points", "/s/a/points"]),
        ("s/[ab]/points", "", ["car/s/b/points", "van/s/a/points"], ["/s/b/points"]),
        ("s/.*/points", "car", ["car/s/b/points", "van/s/a/points"], ["/s/b/points"]),
        ("s/[^/]+/points", "rt", ["rt/s/b/points", "s/a/points"], ["/s/b/points", "/s/a/points"]),
    ],
)
def test_a_regular_expression_hears_each_key_that_it_matches_once(
    topic: str, namespace: str, keys: list[str], names: list[str]
) -> None:
    # The second entry's expression matches as well; the imu's messages are of no type that either takes.
    topics = {"lidar_points": {"topic": topic}, "radar_targets": {"topic": topic}}
    topics["lidar_clusters"] = {"topic": topic.replace("s/", "[s]/")}
    with heard(namespace, build_config({"topics": topics})) as listening:
        with device(listening.endpoint, *keys, f"{namespace}/gps".strip("/"), wanted=1) as (*clouds, end):
            for outlet in clouds:
                outlet.put("sensor_msgs/msg/Imu", b"imu")
                outlet.put(CLOUD, b"cloud")
            end.put("sensor_msgs/msg/NavSatFix", b"end")
            await_condition("the end", lambda: any(m.data == b"end" for m in listening.messages))
        *got, last = [(m.topic, m.data) for m in listening.messages]
        assert (got, last) == ([(name, b"cloud") for name in names], ("/gps", b"end"))


def test_topics_and_notes_of_other_devices_are_bounded() -> None:
    others = MAX_UNUSED + 10
    with heard() as listening, device(listening.endpoint, "rt/radar/cube", wanted=1) as (own,):
        own.put(CUBE, b"own")
        listening.wait(1)
        with open_session([listening.endpoint], []) as session:
            outlets = [Outlet(session, f"device{number}/radar/cube") for number in range(others)]
            await_condition("subscribers", lambda: all(outlet.wanted for outlet in outlets))
            for outlet in outlets:
                outlet.put(CUBE, b"other")
            own.put(CUBE, b"own")
            topics = Counter(message.topic for message in listening.wait(others + 2))
    assert topics["/radar/cube"] == 2
    assert topics[OTHER_TOPICS] == 10
    assert len(topics) == MAX_UNUSED + 2
    assert len(listening.source.notes) == SHOWN_TOPICS


def test_a_message_that_nobody_needs_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zenohlink, "LARGEST_MB", 1)
    with heard() as listening, device(listening.endpoint, "rt/radar/cube") as (outlet,):
        outlet.put(CUBE, b"first")
        outlet.put(CUBE, bytes(2 << 20))
        outlet.put(CUBE, b"last")
        assert [message.data for message in listening.wait(2)] == [b"first", b"last"]


def test_what_is_lost_for_its_size_shows_as_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zenoh says nothing of it; those before and after it do."""
    monkeypatch.setattr(zenohlink, "LARGEST_MB", 1)
    stamped = {name: {"clock": "stamp"} for name in Config().topics}
    endpoint, config = free_endpoint(), build_config({"topics": stamped, "min_free_mb": 0})
    sent = [message for message in messages() if message.topic == "/imu"]
    taking = LiveCapture(config, tmp_path, HOST)
    taking.start()
    with ZenohSource(open_session([], [endpoint]), config, taking.put), device(endpoint, "rt/imu") as (imu,):
        for number, message in enumerate(sent):
            imu.put(message.schema, message.data + bytes(2 << 20 if number in {60, 61, 62} else 0))
        await_condition("the last", lambda: taking.status().received == len(sent) - 3)
    (done,) = taking.stop(60)
    assert done.report["topics"]["/imu"]["lost_upstream"] == 3


def test_odd_encodings_and_attachments_are_only_refused() -> None:
    with heard() as listening, device(listening.endpoint, "rt/radar/cube") as (outlet,):
        outlet.put("x" * 100_000, b"long")
        for text in ("", "\x1b[31m;\u202e", "application/cdr;" + "y" * 150, ";;;", "text/plain"):
            outlet._publisher.put(b"odd", encoding=text, attachment=bytes(1000))
        outlet.put(CUBE, b"last")
        found = listening.wait(7)
    assert found[0].data == b"long"
    assert found[-1].schema == CUBE
    assert not any("\x1b" in f"{m.schema}{m.fault}{m.topic}" for m in found)
