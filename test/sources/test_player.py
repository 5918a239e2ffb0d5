"""Playing a recording: keys, encodings, pace, and what a damaged one leaves out."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from livedrive import HOST, drive, messages
from zenoh_loopback import await_condition, free_endpoint

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources import player as play_module
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.player import Names, Player, key_of, keys_of
from edgefirst_ros.sources.zenohlink import open_session, subscribe

SECOND_NS = 1_000_000_000


class Clock:
    """Time that passes by being waited for, in place of ``time`` and of the event that stops."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.stopped = False
        self.stop_at_s: float | None = None

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, timeout_s: float) -> bool:
        self.now_s += timeout_s
        if self.stop_at_s is not None and self.now_s >= self.stop_at_s:
            self.stopped = True
        return self.stopped

    def is_set(self) -> bool:
        return self.stopped


class FakeOutlet:
    """Notes what is put, and when."""

    sent: list[tuple[str, str, bytes, float]]
    clock: Clock
    busy_s = 0.0
    wanted_from_s: dict[str, float]

    @property
    def wanted(self) -> bool:
        return self.clock.now_s >= self.wanted_from_s.get(self.key, float("inf"))

    def __init__(self, _session: object, key: str) -> None:
        self.key = key

    def put(self, schema: str, data: bytes) -> None:
        self.sent.append((self.key, schema, data, self.clock.now_s))
        self.clock.now_s += self.busy_s


@pytest.fixture
def outlet(monkeypatch: pytest.MonkeyPatch) -> type[FakeOutlet]:
    class Fresh(FakeOutlet):
        sent: list[tuple[str, str, bytes, float]] = []  # noqa: RUF012 - a fresh class for each test
        clock = Clock()
        wanted_from_s: dict[str, float] = {}  # noqa: RUF012

    monkeypatch.setattr(play_module, "Outlet", Fresh)
    monkeypatch.setattr(play_module, "time", SimpleNamespace(monotonic=Fresh.clock.monotonic))
    return Fresh


def recording(*times_ns: int, fault: str = "", topic: str = "/imu") -> McapRecording:
    made = [
        RawMessage(topic, "sensor_msgs/msg/Imu", bytes([n]), t, t, n, fault=fault if n == 1 else "")
        for n, t in enumerate(times_ns)
    ]
    fake: McapRecording = SimpleNamespace(messages=lambda **_: iter(made), position=0, size=0)  # type: ignore[assignment]
    return fake


def played(outlet: type[FakeOutlet], source: McapRecording, rate: float = 1.0) -> list[float]:
    """Seconds after the start at which messages were sent."""
    start_s = outlet.clock.now_s
    stop: threading.Event = outlet.clock  # type: ignore[assignment]
    Player(None, {"/imu": "rt/imu"}).play(source.messages(), rate, stop)  # type: ignore[arg-type]
    return [round(at - start_s, 6) for _, _, _, at in outlet.sent]


def test_the_pace_is_the_recordings(outlet: type[FakeOutlet]) -> None:
    times = [5 * SECOND_NS + round(s * SECOND_NS) for s in (0, 0.25, 1.0, 1.0, 3.5)]
    assert played(outlet, recording(*times)) == [0, 0.25, 1.0, 1.0, 3.5]


def test_the_rate_scales_the_pace(outlet: type[FakeOutlet]) -> None:
    assert played(outlet, recording(0, SECOND_NS, 3 * SECOND_NS), rate=2) == [0, 0.5, 1.5]


def test_damaged_messages_are_left_out_and_counted(outlet: type[FakeOutlet]) -> None:
    source = recording(0, SECOND_NS, 2 * SECOND_NS, fault="damaged")
    done = Player(None, {"/imu": "rt/imu"}).play(source.messages(), 1.0, outlet.clock)  # type: ignore[arg-type]
    assert [data for _, _, data, _ in outlet.sent] == [b"\0", b"\2"]
    assert (done.messages, done.skipped) == (2, 1)


def test_it_stops_between_messages_when_told(outlet: type[FakeOutlet]) -> None:
    outlet.clock.stop_at_s = outlet.clock.now_s + 1.5
    source = recording(0, SECOND_NS, 2 * SECOND_NS)
    stop: threading.Event = outlet.clock  # type: ignore[assignment]
    done = Player(None, {"/imu": "rt/imu"}).play(source.messages(), 1.0, stop)  # type: ignore[arg-type]
    assert (done.messages, done.complete) == (2, False)


def test_it_waits_until_no_more_topics_are_subscribed_to(outlet: type[FakeOutlet]) -> None:
    start_s = outlet.clock.now_s
    outlet.wanted_from_s = {"a": start_s + 0.1, "b": start_s + 0.4}
    stop: threading.Event = outlet.clock  # type: ignore[assignment]
    player = Player(None, {name: name for name in "abc"})  # type: ignore[arg-type]
    assert player.wait_for_subscriber(60.0, stop)
    assert 0.4 + play_module.SETTLED_S <= outlet.clock.now_s - start_s < 1.5


def test_keys_of_every_generation() -> None:
    assert key_of("camera/h264", Names.RT, "maivin-7") == "rt/camera/h264"
    assert key_of("camera/frame", Names.RT, "maivin-7") == "camera/frame"
    assert key_of("camera/h264", Names.BARE, "maivin-7") == "camera/h264"
    assert key_of("camera/h264", Names.HOST, "maivin-7") == "maivin-7/camera/h264"


def test_what_is_played_is_what_was_recorded() -> None:
    """Over the wire: every byte, type and order; as a device it has no Zenoh timestamps."""
    endpoint = free_endpoint()
    source = McapRecording(drive())
    keys = keys_of(source.topics(), Names.HOST, source.host)
    got: list[tuple[str, str, bytes, bool]] = []
    with open_session([], [endpoint]) as playing, open_session([endpoint], []) as listening:
        player = Player(playing, keys)
        assert not player.wait_for_subscriber(0.0, threading.Event())
        subscribe(
            listening,
            f"{HOST}/**",
            lambda s: got.append(
                (str(s.key_expr), str(s.encoding), s.payload.to_bytes(), s.timestamp is not None)
            ),
        )
        assert player.wait_for_subscriber(60.0, threading.Event())
        done = player.play(source.messages(), 1000.0, threading.Event())
        await_condition("the last message", lambda: len(got) == len(messages()))
    assert done.messages == len(messages())
    assert got == [(f"{HOST}{m.topic}", f"application/cdr;{m.schema}", m.data, False) for m in messages()]
