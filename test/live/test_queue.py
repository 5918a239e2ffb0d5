"""The live queue against a model: bounded, in order, all accounted for, no video that cannot decode."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

import pytest
from edgefirst.schemas import foxglove_msgs
from edgefirst.schemas.builtin_interfaces import Time
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgefirst_ros.live.queue import OVERHEAD_BYTES, VIDEO, LiveQueue
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import RawMessage

LIMIT = 8_000
CLOUD = "sensor_msgs/msg/PointCloud2"
START = b"\0\0\0\1"


def video(*, key: bool, size: int = 0, schema: str = VIDEO) -> RawMessage:
    unit = START + (b"\x65\x88\x84" if key else b"\x41\x9a\x02") + b"\x11" * size
    data = foxglove_msgs.CompressedVideo(Time.from_nanos(0), "camera", unit, "h264").to_bytes()
    return RawMessage("/camera/h264", schema, data, 0, 0, -1)


def cloud(topic: str, size: int) -> RawMessage:
    return RawMessage(topic, CLOUD, bytes(size), 0, 0, -1)


def nothing() -> None:
    """Stands for any action."""


@dataclass
class Model:
    """What must be true of everything that was put."""

    put: list[tuple[RawMessage, bool, int]] = field(default_factory=list)
    """Message, whether decoding can start there, actions called before it; by arrival without the actions."""
    got: list[RawMessage] = field(default_factory=list)
    told: Counter[tuple[str, int]] = field(default_factory=Counter)
    told_bytes: int = 0
    actions: int = 0
    actions_got: int = 0


class QueueMachine(RuleBasedStateMachine):
    """Any interleaving of callbacks, splits and reading."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = LiveQueue(LIMIT)
        self.model = Model()

    def _put(self, message: RawMessage, *, starts: bool) -> None:
        self.model.put.append((message, starts, self.model.actions))
        self.queue.put(message)

    def _tell(self) -> None:
        for lost in self.queue.dropped():
            self.model.told[lost.topic, self.model.actions_got] += lost.messages
            self.model.told_bytes += lost.bytes

    @rule(key=st.booleans(), size=st.integers(0, 3000))
    def put_video(self, key: bool, size: int) -> None:
        self._put(video(key=key, size=size), starts=key)

    @rule(topic=st.sampled_from(["/lidar", "/radar"]), size=st.sampled_from([0, 10, 900, 4000, LIMIT]))
    def put_cloud(self, topic: str, size: int) -> None:
        self._put(cloud(topic, size), starts=True)

    @rule()
    def call(self) -> None:
        self.model.actions += 1
        self.queue.call(nothing)

    @rule()
    def drop_all(self) -> None:
        self.queue.drop_waiting(0)

    @rule(count=st.integers(1, 4))
    def read(self, count: int) -> None:
        for _ in range(count):
            item = self.queue.get(0)
            if isinstance(item, RawMessage):
                self.model.got.append(item)
            # As the capture does: what went before an action is told before the action runs.
            self._tell()
            self.model.actions_got += item is nothing

    @invariant()
    def holds_no_more_than_its_limit(self) -> None:
        held = [i for i in self.queue._items.values() if isinstance(i, RawMessage)]
        assert sum(len(m.data) + OVERHEAD_BYTES for m in held) == self.queue.bytes <= LIMIT
        assert 0 <= self.queue.fill <= 1

    def teardown(self) -> None:
        while self.queue._items:
            self.read(1)
        self.read(1)
        model = self.model
        arrivals = [m.arrival for m in model.got]
        assert arrivals == sorted(set(arrivals))
        # Arrivals count the actions as well; each put message must come out unchanged or be told as dropped.
        numbered = {n + before: (m, starts, before) for n, (m, starts, before) in enumerate(model.put)}
        taken = Counter((numbered[a][0].topic, numbered[a][2]) for a in arrivals)
        assert taken + model.told == Counter((m.topic, before) for m, _, before in model.put)
        assert model.told_bytes + sum(len(m.data) for m in model.got) == sum(
            len(m.data) for m, _, _ in model.put
        )
        assert all(m.data is numbered[m.arrival][0].data for m in model.got)
        self._video_decodes(numbered, set(arrivals))
        assert {t: f.messages for t, f in self.queue.flows().items()} == Counter(
            m.topic for m, _, _ in model.put
        )
        assert self.queue.bytes == self.queue.drops_waiting() == 0

    @staticmethod
    def _video_decodes(numbered: dict[int, tuple[RawMessage, bool, int]], taken: set[int]) -> None:
        whole = True
        for arrival, (message, starts, _) in numbered.items():
            if message.schema != VIDEO:
                continue
            if arrival not in taken:
                whole = False
            else:
                assert whole or starts, "a packet was delivered that builds on a dropped one"
                whole = True


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_the_topic_that_holds_most_loses_its_oldest() -> None:
    queue = LiveQueue(10 * (100 + OVERHEAD_BYTES))
    for _ in range(3):
        queue.put(cloud("/radar", 100))
    for _ in range(9):
        queue.put(cloud("/lidar", 100))
    kept = [item.arrival for _ in range(10) if isinstance(item := queue.get(0), RawMessage)]
    assert kept == [0, 1, 2, *range(5, 12)]
    assert [(d.topic, d.messages, d.bytes) for d in queue.dropped()] == [("/lidar", 2, 200)]


def test_a_lost_packet_takes_the_rest_of_its_group_along() -> None:
    for schema in (VIDEO, "foxglove_msgs/CompressedVideo"):
        size = len(video(key=True, size=100).data) + OVERHEAD_BYTES
        queue = LiveQueue(6 * size)
        for key in (True, False, False, False, True, False, False):
            queue.put(video(key=key, size=100, schema=schema))
        assert queue.drops_waiting() == 4
        assert [item.arrival for _ in range(3) if isinstance(item := queue.get(0), RawMessage)] == [4, 5, 6]


def test_what_waited_too_long_goes_and_a_group_of_pictures_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    queue = LiveQueue(1_000_000)
    for now_s in range(10):
        queue.put(cloud("/lidar", 10_000))
        queue.put(video(key=now_s in {0, 4, 8}, size=100))
        for topic, times in (("/imu", 4), ("/tf_static", 1)):
            for _ in range(times):
                queue.put(RawMessage(topic, "sensor_msgs/msg/Imu", bytes(324), 0, 0, -1))
    assert queue.waited_s == 9
    queue.drop_waiting(3.5)  # waited for longer: those of 0 to 5
    left = [item for _ in range(50) if isinstance(item := queue.get(0), RawMessage)]
    assert [m.arrival // 7 for m in left if m.topic == "/lidar"] == [6, 7, 8, 9]
    assert [m.arrival // 7 for m in left if m.topic == "/camera/h264"] == [8, 9]
    assert [m.arrival // 7 for m in left if m.topic == "/imu"] == [n for n in (6, 7, 8, 9) for _ in range(4)]
    assert [m.arrival // 7 for m in left if m.topic == "/tf_static"] == [*range(10)]
    assert queue.waited_s == 0
    assert {(d.topic, d.reason, d.messages) for d in queue.dropped()} == {
        ("/lidar", Reason.OUTRUN, 6),
        ("/camera/h264", Reason.OUTRUN, 8),
        ("/imu", Reason.OUTRUN, 24),
    }


def test_the_reader_wakes_for_a_message() -> None:
    queue = LiveQueue(LIMIT)
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.append(queue.get(60)))
    reader.start()
    queue.put(cloud("/lidar", 1))
    reader.join(60)
    assert len(got) == 1
    assert isinstance(got[0], RawMessage)


@given(threads=st.integers(2, 4))
@settings(max_examples=5, deadline=None)
def test_callbacks_of_many_threads_lose_nothing_unaccounted(threads: int) -> None:
    queue = LiveQueue(LIMIT)
    each = 200

    def callback(number: int) -> None:
        for _ in range(each):
            queue.put(cloud(f"/{number}", 100))

    putting = [threading.Thread(target=callback, args=(n,)) for n in range(threads)]
    for thread in putting:
        thread.start()
    got = 0
    while any(thread.is_alive() for thread in putting) or queue._items:
        got += queue.get(0.01) is not None
    for thread in putting:
        thread.join()
    assert got + queue.drops_waiting() == threads * each
