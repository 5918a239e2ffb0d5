"""Messages that are fed together become what they become one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from drives import simulated
from envelopes import Keeper
from resized import HOST, LARGE, SMALL, spliced
from test_clock_step import VALUES, drive

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.simulation.options import drive_options, rig_options
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.suggest import look_at

Made = tuple[list[RawMessage], dict[str, Any]]
OPTIONAL: dict[str, Any] = {"topics": VALUES["topics"]}
RIG = {
    "clock": "realtime",
    "seconds": 5.0,
    "sensors": {
        "front": {"kind": "camera", "at_m": [1.5, 0, 1.5], "width": 320, "height": 180, "hz": 5},
        "swing": {
            "kind": "lidar",
            "at_m": [1, 0.3, 1.8],
            "points": 300,
            "turns": {"axis": "z", "amplitude_deg": 40, "period_s": 3},
        },
        "imu": {"kind": "imu"},
        "gps": {"kind": "gps"},
    },
}


def late(content: list[RawMessage]) -> list[RawMessage]:
    """Every tenth message comes up to 1.5 s late: some within the look-ahead, some not; some come twice."""
    randomly = random.Random(1)
    delayed = []
    for message in content:
        late_ns = round(randomly.uniform(0, 1.5e9)) if randomly.random() < 0.1 else 0
        time_ns = message.receive_ns + late_ns
        times = 2 if randomly.random() < 0.02 else 1
        delayed += [message._replace(receive_ns=time_ns, publish_ns=time_ns)] * times
    return sorted(delayed, key=lambda message: message.receive_ns)


def turning() -> Made:
    recording = McapRecording(simulated(drive_options(rig_options(RIG, "test"))).mcap)
    return list(recording.messages()), look_at([recording]).suggestion("robot").values


CASES: dict[str, Callable[[], Made]] = {
    "another size, late": lambda: (late(spliced(SMALL, LARGE)), OPTIONAL),
    "B slices, late": lambda: (late(spliced(SMALL, SMALL, bframes=2)), OPTIONAL),
    "tiles, late": lambda: (late(spliced(SMALL, LARGE, tiles=True)), OPTIONAL),
    "a clock that is set back": lambda: (drive(), VALUES),
    "a lidar that turns": turning,
}


def fed(content: list[RawMessage], values: dict[str, Any], size: Callable[[], int]) -> tuple[Any, Any]:
    """The report, and what tells samples apart."""
    keeper = Keeper()
    pipeline = Pipeline(build_config(values), [keeper])
    pipeline.begin_source({(m.topic, m.schema) for m in content}, HOST)
    waiting = [message._replace(arrival=number) for number, message in enumerate(content)]
    while waiting:
        count = size()
        pipeline.feed_all(waiting[:count])
        del waiting[:count]
    pipeline.end_source()
    pipeline.complete()
    pipeline.close()
    samples = [
        (
            *(sample.sequence, sample.frame, sample.time_ns, sample.ego, sample.calibration.transforms),
            {role: (each.arrival, each.mounted) for role, each in sample.companions.items()},
        )
        for sample in keeper.samples
    ]
    return pipeline.report(), samples


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("name", CASES)
def test_messages_fed_together_become_what_they_become_one_by_one(name: str) -> None:
    (content, values), randomly = CASES[name](), random.Random(2)
    alone = fed(content, values, lambda: 1)
    assert len(alone[1]) > 10
    for size in (lambda: 64, lambda: randomly.randint(1, 300)):
        report, samples = fed(content, values, size)
        assert samples == alone[1]
        assert report == alone[0]
