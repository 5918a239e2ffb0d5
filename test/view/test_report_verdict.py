"""The sentence at the top of the page, and what it says was lost."""

from __future__ import annotations

import pytest
from reports import account, ns, report, stream

from edgefirst_ros.view.page.figures import clock
from edgefirst_ros.view.page.reportfile import parsed
from edgefirst_ros.view.page.verdict import Verdict, judge

CAMERA = {"/camera": stream("camera", 0, 180, 30)}


def judged(**topics: dict[str, object]) -> Verdict:
    return judge(parsed(report({**CAMERA, **{f"/{name}": each for name, each in topics.items()}})))


def test_a_drive_without_loss_is_good() -> None:
    assert judged(lidar=stream("lidar_points", 0, 180, 10)).sentence == "good: 540 samples; nothing was lost"


def test_a_short_pause_is_said_with_its_time() -> None:
    found = judged(lidar=stream("lidar_points", 0, 180, 10, ((130, 134),)))
    assert found.sentence == "good: 540 samples; lidar lost 4 s at 02:10"


def test_the_longest_pauses_come_first_and_the_others_are_below() -> None:
    lidar = stream("lidar_points", 0, 180, 10, ((10, 12), (30, 33), (50, 54), (70, 70.5), (90, 91.5)))
    found = judged(lidar=lidar)
    assert found.sentence == (
        "good: 540 samples; lidar lost 4 s at 00:50; lidar lost 3 s at 00:30; lidar lost 2 s at 00:10; "
        "1 more below"
    )
    assert len(found.details) == 4


def test_what_all_sensors_lost_together_is_one_event() -> None:
    pause = ((60.0, 65.0),)
    topics = {
        "/camera": stream("camera", 0, 180, 30, pause),
        "/lidar": stream("lidar_points", 0, 180, 10, ((60.05, 65.1),)),
        "/imu": stream("imu", 0, 180, 100, pause),
        "/tf_static": stream("tf", 0, 180, 1),
    }
    assert judge(parsed(report(topics))).details == ("all sensors lost 5 s at 01:00",)


def test_a_sensor_that_stops_or_begins_late_is_said() -> None:
    found = judged(
        lidar=stream("lidar_points", 0, 60, 10),
        gps=stream("gps", 12, 180, 10),
        tf_static=stream("tf", 0, 2, 5),
    )
    assert found.details == (
        "lidar stopped at 01:00, 120 s before the end",
        "gps began 12 s after the start",
    )
    assert found.grade == "poor"


def test_few_samples_are_said_of_how_many() -> None:
    values = report(CAMERA, samples=300, frames=540)
    assert judge(parsed(values)).sentence.startswith("fair: 300 samples of 540 reference frames")


def test_samples_that_lack_a_sensor_are_no_loss_and_are_said() -> None:
    found = judge(parsed(report(CAMERA) | {"complete": 36}))
    assert found.sentence == "good: 540 samples, 36 of them complete; nothing was lost"
    whole = judge(parsed(report(CAMERA) | {"complete": 540}))
    assert whole.sentence == "good: 540 samples; nothing was lost"


def test_an_empty_dataset_is_said_to_be() -> None:
    values = report({}, samples=0, frames=0)
    assert judge(parsed(values)).sentence == "empty: no samples: nothing was received; nothing was lost"


def test_refusals_are_said_but_not_those_of_repeated_fixes() -> None:
    values = report(CAMERA)
    values["topics"]["/radar"] = account(100) | {"refused": 7}
    values["topics"]["/gps"] = account(100, "sensor_msgs/msg/NavSatFix") | {"refused": 50}
    assert judge(parsed(values)).details == ("7 of 100 messages of radar refused",)


def test_a_recording_would_become_samples() -> None:
    found = parsed(report(CAMERA, samples=100, frames=540))
    found.purpose = "recording"
    assert "100 of 540 reference frames would become samples" in judge(found).sentence


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00"), (130, "02:10"), (3_725, "1:02:05")])
def test_times_are_minutes_and_seconds(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_of_several_drives_the_time_is_since_the_start_of_the_one_that_is_named() -> None:
    values = report(CAMERA)
    day_s = 86_400
    monday = values["sequences"][0]
    streams = {"/lidar": stream("lidar_points", day_s, day_s + 180, 10, ((day_s + 70, day_s + 75),))}
    values["sequences"].append(monday | {"name": "tuesday", "start_ns": ns(day_s), "streams": streams})
    assert judge(parsed(values)).details == ("lidar lost 5 s at 01:10 of tuesday",)


def test_the_start_of_the_drive_is_that_of_its_first_sequence() -> None:
    values = report({**CAMERA, "/lidar": stream("lidar_points", 0, 180, 10, ((130, 134),))})
    later = values["sequences"][0] | {"name": "t", "start_ns": ns(200), "streams": {}}
    values["sequences"].append(later)
    assert "at 02:10" in judge(parsed(values)).sentence
