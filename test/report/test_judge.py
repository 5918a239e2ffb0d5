"""The sentence at the top of the page, and what it says was lost."""

from __future__ import annotations

import pytest
from reports import account, ns, report, stream

from edgefirst_ros.cli.shared import exit_code
from edgefirst_ros.model.reasons import Code, Reason
from edgefirst_ros.report.drives import clock
from edgefirst_ros.report.judge import Verdict, judge, warnings_of
from edgefirst_ros.report.models import Report, parsed
from edgefirst_ros.report.shortfalls import losses

CAMERA = {"/camera": stream("camera", 0, 180, 30)}


def judged(**topics: dict[str, object]) -> Verdict:
    return judge(parsed(report({**CAMERA, **{f"/{name}": each for name, each in topics.items()}})))


def fixes(received: int, ignored: dict[str, int], refused: dict[str, int] | None = None) -> dict[str, object]:
    stages = {"skipped": ignored, "refused": refused or {}}
    counts = {stage: sum(reasons.values()) for stage, reasons in stages.items()}
    written = received - sum(counts.values())
    return account(received, "sensor_msgs/msg/NavSatFix") | counts | {"written": written, "reasons": stages}


def lost(**more: object) -> Verdict:
    """Of a drive whose lidar's account has these values."""
    values = report({**CAMERA, "/lidar": stream("lidar_points", 0, 180, 10)})
    values["topics"]["/lidar"] |= more
    return judge(parsed(values))


def brief(found: Verdict) -> tuple[str, list[tuple[Code, str, float]]]:
    """The grade, and of every finding its code, its topics and its share in percent."""
    return found.grade, [(e.code, " ".join(e.topics), round(100 * e.share, 1)) for e in found.findings]


def lidar_lost(grade: str, percent: float) -> tuple[str, list[tuple[Code, str, float]]]:
    return grade, [(Code.MESSAGES_LOST, "/lidar", percent)]


def in_sequences(*parts: tuple[float, float, dict[str, dict[str, object]], str]) -> Verdict:
    """Of a drive in sequences: begin, end, streams, and what ended each."""
    values = report(CAMERA)
    values["sequences"] = [
        {"name": f"s{n}", "start_ns": ns(begin), "reference_frames": 100, "sample": 100, "ended": ended}
        | {"streams": {"/camera": stream("camera", begin, end, 30), **streams}}
        for n, (begin, end, streams, ended) in enumerate(parts)
    ]
    return judge(parsed(values))


def test_a_drive_without_loss_is_good() -> None:
    assert judged(lidar=stream("lidar_points", 0, 180, 10)).sentence == "good: 540 samples; nothing lost"


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
    assert judge(parsed(values)).sentence.startswith("fair: 300 samples of 540 camera frames")


def test_samples_that_lack_a_slow_sensor_are_no_loss() -> None:
    values = report(CAMERA) | {"complete": 36}
    slow = {"paired": 36, "missing": 504, "promised": 0.067}
    values["sequences"][0]["companions"] = {"/radar/cube": slow}
    assert judge(parsed(values)).sentence == "good: 540 samples; nothing lost"


def test_fewer_companions_than_the_rate_promises_are_said_and_graded() -> None:
    values = report(CAMERA)
    values["sequences"][0]["companions"] = {
        "/lidar": {"paired": 3, "missing": 537, "promised": 1.0},
        "/model": {"paired": 200, "missing": 340, "promised": 0.48},
    }
    found = judge(parsed(values))
    assert brief(found) == ("poor", [(Code.FEW_PAIRS, "/lidar", 99.4), (Code.FEW_PAIRS, "/model", 22.8)])
    assert "its rate promises 259" in found.details[1]


def test_an_empty_dataset_is_said_to_be() -> None:
    values = report({}, samples=0, frames=0)
    assert judge(parsed(values)).sentence == "empty: no samples: nothing was received"


def test_refusals_are_said_but_not_those_of_repeated_fixes() -> None:
    values = report(CAMERA)
    values["topics"]["/radar"] = account(100) | {"refused": 7}
    values["topics"]["/gps"] = fixes(100, {Reason.SAME_EPOCH: 50})
    assert brief(judge(parsed(values)))[1] == [(Code.MESSAGES_LOST, "/radar", 7.0)]


def test_losses_in_all_are_without_what_came_twice_and_without_refused_fixes() -> None:
    """A receiver has no fix in a tunnel, and no drive fails for that."""
    values = report({**CAMERA, "/gps": stream("gps", 0, 180, 10)})
    values["topics"]["/gps"] |= fixes(
        1800, {Reason.SAME_EPOCH: 900, Reason.NO_FIX: 200}, {Reason.OUTLYING_FIX: 2}
    )
    values["topics"]["/gps"]["lost_upstream"] = 3
    values["topics"]["/radar"] = account(100) | {"refused": 2}
    values["recordings"] = [{"file": "a", "faults": [{"offset": 0, "bytes": 9, "what": "torn"}]}]
    assert losses(parsed(values)) == {"refused": 2, "never arrived": 3, "unreadable bytes": 9}
    assert exit_code({**values, "recordings": []}, strict=True) == 1
    del values["topics"]["/radar"]
    assert exit_code({**values, "recordings": []}, strict=True) == 0


def test_a_recording_would_become_samples() -> None:
    found = parsed(report(CAMERA, samples=100, frames=540))
    found.purpose = "recording"
    assert "100 of 540 camera frames would become samples" in judge(found).sentence


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


STEPPED = "the wall clock was stepped by +1000 s"


class TestOfAWholeSequence:
    def test_a_sensor_that_is_absent_from_a_sequence_is_lost_in_it(self) -> None:
        lidar = {"/lidar": stream("lidar_points", 0, 60, 10)}
        found = in_sequences((0, 60, lidar, STEPPED), (1060, 1660, {}, "end of the recording"))
        assert brief(found) == ("poor", [(Code.ABSENT, "/lidar", 90.9)])

    def test_one_message_is_no_sensor(self) -> None:
        lidar = stream("lidar_points", 0, 0.1, 10) | {"usual_interval_ms": None}
        assert lidar["messages"] == 1
        found = in_sequences((0, 600, {"/lidar": lidar}, ""))
        assert brief(found) == ("poor", [(Code.END, "/lidar", 100.0)])

    def test_a_sensor_of_another_drive_is_not_expected(self) -> None:
        end = "end of the recording"
        lidar = {"/lidar": stream("lidar_points", 0, 60, 10)}
        assert not in_sequences((0, 60, lidar, end), (1060, 1660, {}, end)).details

    def test_a_leap_of_the_clock_begins_no_other_drive(self) -> None:
        both = [{"/lidar": stream("lidar_points", at, at + 60, 10)} for at in (0, 1e6)]
        late = stream("lidar_points", 1e6, 1e6 + 60, 10, ((1e6 + 20, 1e6 + 25),))
        found = in_sequences((0, 60, both[0], STEPPED), (1e6, 1e6 + 60, {"/lidar": late}, ""))
        assert found.details == ("lidar lost 5 s at 01:20",)

    def test_a_clock_that_leaps_back_begins_no_other_drive(self) -> None:
        late = stream("lidar_points", 0, 60, 10, ((20, 25),))
        first = {"/lidar": stream("lidar_points", 1e6, 1e6 + 60, 10)}
        found = in_sequences((1e6, 1e6 + 60, first, STEPPED), (0, 60, {"/lidar": late}, ""))
        assert found.details == ("lidar lost 5 s at 01:20",)

    def test_a_message_of_before_a_leap_is_no_loss(self) -> None:
        """It was stamped before the clock leapt, and received after it."""
        gps = stream("gps", 0, 1e6 + 60, 10, ((0, 1e6),))
        assert not in_sequences((1e6, 1e6 + 60, {"/gps": gps}, "")).details

    def test_a_short_sequence_counts_too(self) -> None:
        """A clock that is stepped every other second must not hide that the lidar is dead."""
        parts = [(10.0 * n, 10.0 * n + 0.9, {}, STEPPED) for n in range(1, 100)]
        lidar = {"/lidar": stream("lidar_points", 0, 0.9, 10)}
        assert in_sequences((0, 0.9, lidar, STEPPED), *parts).grade == "poor"


class TestOfMessages:
    def test_what_is_refused_is_said_and_graded(self) -> None:
        found = lost(refused=1800, written=0, reasons={"refused": {"too short": 1800}})
        assert brief(found) == lidar_lost("poor", 100.0)

    def test_a_topic_that_is_refused_whole_has_no_stream(self) -> None:
        values = report(CAMERA)
        values["topics"]["/lidar"] = account(6000) | {"refused": 6000, "written": 0}
        assert judge(parsed(values)).grade == "poor"

    def test_what_is_dropped_is_said_and_graded(self) -> None:
        assert brief(lost(dropped=700, written=1100)) == lidar_lost("fair", 38.9)

    def test_what_never_arrived_is_said_and_graded(self) -> None:
        assert brief(lost(lost_upstream=1800)) == lidar_lost("fair", 50.0)

    def test_they_are_counted_together(self) -> None:
        found = lost(lost_upstream=200, dropped=800, refused=400)
        assert brief(found) == lidar_lost("poor", 70.0)
        for words in ("400 of 2,000 messages of lidar refused", "800 dropped", "200 never arrived"):
            assert words in found.details[0]

    def test_a_single_one_is_said(self) -> None:
        assert brief(lost(dropped=1)) == lidar_lost("good", 0.1)

    def test_what_a_pause_is_made_of_is_not_said_again(self) -> None:
        values = report({**CAMERA, "/lidar": stream("lidar_points", 0, 180, 10, ((10, 14),))})
        values["topics"]["/lidar"]["lost_upstream"] = 40
        assert brief(judge(parsed(values))) == ("good", [(Code.PAUSE, "/lidar", 2.2)])

    def test_what_came_twice_is_no_loss(self) -> None:
        found = lost(skipped=600, reasons={"skipped": {Reason.SAME_MESSAGE: 600}})
        assert brief(found) == ("good", [])

    def test_calibration_is_said_and_not_graded(self) -> None:
        values = report({**CAMERA, "/tf_static": stream("tf", 0, 180, 1)})
        values["topics"]["/tf_static"] |= {"refused": 180}
        assert brief(judge(parsed(values))) == ("good", [(Code.MESSAGES_LOST, "/tf_static", 100.0)])

    @pytest.mark.parametrize("reason", [Reason.ZERO_FIX, Reason.NO_FIX])
    def test_no_fix_in_the_whole_drive_is_poor(self, reason: str) -> None:
        values = report({**CAMERA, "/gps": stream("gps", 0, 180, 20)})
        values["topics"]["/gps"] = fixes(1200, {reason: 1200})
        assert brief(judge(parsed(values))) == ("poor", [(Code.MESSAGES_LOST, "/gps", 100.0)])

    def test_the_first_fixes_may_be_none_but_not_later_ones(self) -> None:
        def of(early: int, later: int) -> Verdict:
            values = report({**CAMERA, "/gps": stream("gps", 0, 180, 20)})
            ignored = {Reason.ZERO_FIX: early, Reason.SAME_EPOCH: 500}
            values["topics"]["/gps"] = fixes(1200, ignored, {Reason.ZERO_FIX: later})
            return judge(parsed(values))

        assert brief(of(200, 0)) == ("good", [])
        assert brief(of(0, 200)) == ("fair", [(Code.MESSAGES_LOST, "/gps", 28.6)])


def test_who_stopped_a_conversion_is_told_so_first() -> None:
    values = report(CAMERA) | {"interrupted": "0:17 of 0:20"}
    found = judge(parsed(values))
    assert (found.grade, found.findings[0].code) == ("fair", Code.INTERRUPTED)
    assert found.sentence == "fair: 540 samples; stopped by you at 0:17 of 0:20"


def test_who_stopped_before_the_first_sample_is_told_no_other_cause() -> None:
    stopped = parsed(report({}, samples=0, frames=0) | {"interrupted": "0:00 of 0:20"})
    assert judge(stopped).sentence == "empty: no samples; stopped by you at 0:00 of 0:20"
    assert warnings_of(stopped) == []


class TestOfFormats:
    def test_a_format_that_lacks_most_samples_is_poor(self) -> None:
        values = report(CAMERA, samples=600, frames=600)
        values["formats"]["edgefirst"] = {"samples": 5, "messages": 9, "left_out": {"disk was full": 595}}
        assert brief(judge(parsed(values))) == ("poor", [(Code.SAMPLES_LACKING, "", 99.2)])

    @pytest.mark.parametrize("unit", ["samples", "measurements"])
    def test_what_was_shed_before_it_became_a_sample_is_a_share_of_what_could_be(self, unit: str) -> None:
        values = report(CAMERA, samples=300, frames=1000)
        values["formats"]["ncore"] = {unit: 300, "messages": 9, "left_out": {"shed": 700}}
        found = judge(parsed(values))
        assert (Code.SAMPLES_LACKING, "", 70.0) in brief(found)[1]
        assert any(unit in text for text in found.details)

    def test_samples_that_nobody_accounts_for_are_missing_too(self) -> None:
        values = report(CAMERA)
        values["formats"]["edgefirst"] = {"samples": 400, "messages": 9, "left_out": {}}
        assert brief(judge(parsed(values))) == ("fair", [(Code.SAMPLES_LACKING, "", 25.9)])

    def test_a_format_may_take_fewer_on_purpose(self) -> None:
        values, left = report(CAMERA), {"every other one": 440}
        values["formats"]["l5kit"] = {"frames": 100, "messages": 9, "left_out": left, "thinned": left}
        assert brief(judge(parsed(values))) == ("good", [])


class TestOfManyPauses:
    def test_all_of_them_count(self) -> None:
        pauses = tuple((90.0 * n + 10, 90.0 * n + 20) for n in range(40))
        lidar = stream("lidar_points", 0, 3600, 10, pauses)
        lidar["pauses"]["longest_ns"] = lidar["pauses"]["longest_ns"][:32]
        found = judge(parsed(report({"/camera": stream("camera", 0, 3600, 30), "/lidar": lidar})))
        assert brief(found)[0] == "fair"
        assert brief(found)[1][0] == (Code.PAUSES, "/lidar", 11.1)
        assert len(found.details) == 33

    def test_short_ones_add_up(self) -> None:
        lidar = stream("lidar_points", 0, 900, 10, tuple((1.8 * n, 1.8 * n + 0.9) for n in range(500)))
        lidar["pauses"]["longest_ns"] = lidar["pauses"]["longest_ns"][:32]
        found = judge(parsed(report({"/camera": stream("camera", 0, 900, 30), "/lidar": lidar})))
        assert brief(found) == ("fair", [(Code.PAUSES, "/lidar", 50.0)])
        assert "500 times, 450 s" in found.details[0]

    def test_sensors_that_pause_together_are_said_together(self) -> None:
        pauses = tuple((9.0 * n, 9.0 * n + 0.9) for n in range(20))
        topics = {name: stream(name, 0, 180, 10, pauses) for name in ("camera", "lidar_points", "imu")}
        assert brief(judge(parsed(report(topics))))[1] == [(Code.PAUSES, "camera imu lidar_points", 10.0)]


def test_few_messages_of_a_long_drive_are_a_loss() -> None:
    gps = stream("gps", 0, 10, 0.2) | {"usual_interval_ms": None}
    assert gps["messages"] == 2
    found = judge(parsed(report({"/camera": stream("camera", 0, 60, 30), "/gps": gps})))
    assert brief(found) == ("poor", [(Code.END, "/gps", 83.3)])


def test_a_slow_sensor_is_not_late() -> None:
    gps = stream("gps", 2, 50, 0.1) | {"usual_interval_ms": 10_000}
    assert not judge(parsed(report({"/camera": stream("camera", 0, 60, 30), "/gps": gps}))).details


def test_without_a_report_nothing_is_known() -> None:
    found = judge(
        Report(samples=340, lacking={"topics": "there is no report", "streams": "", "sequences": ""})
    )
    assert found.sentence == "unknown: 340 samples; there is no report"


@pytest.mark.parametrize("interval_ms", [0.0, 5e-324, -1.0, 1e12])
def test_an_absurd_interval_costs_no_verdict(interval_ms: float) -> None:
    lidar = stream("lidar_points", 0, 180, 10, ((10, 14),)) | {"usual_interval_ms": interval_ms}
    assert brief(judge(parsed(report({**CAMERA, "/lidar": lidar}))))[1] == [(Code.PAUSE, "/lidar", 2.2)]


class TestHealthyDrives:
    def test_selected_frames_may_all_lie_between_the_messages_of_a_topic(self) -> None:
        values = report({**CAMERA, "/model": stream("model", 0, 180, 15)}, samples=270)
        values["sequences"][0] |= {"sample": 270, "skipped": 270}
        values["sequences"][0]["companions"] = {"/model": {"paired": 0, "missing": 270, "promised": 0.5}}
        found = judge(parsed(values))
        assert brief(found) == ("good", [(Code.FEW_PAIRS, "/model", 100.0)])

    def test_stamps_that_jitter_about_the_tolerance_are_said_and_not_graded(self) -> None:
        values = report({**CAMERA, "/lidar": stream("lidar_points", 0, 180, 10)})
        for paired, grade in ((475, "good"), (400, "fair")):
            pairs = {"paired": paired, "missing": 540 - paired, "promised": 1.0}
            values["sequences"][0]["companions"] = {"/lidar": pairs}
            share = round(100 * (1 - paired / 540), 1)
            assert brief(judge(parsed(values))) == (grade, [(Code.FEW_PAIRS, "/lidar", share)])

    def test_what_is_outside_of_an_excerpt_is_no_part_of_the_whole(self) -> None:
        reasons = {"skipped": {Reason.OUTSIDE: 1200}, "refused": {"no points": 300}}
        found = lost(refused=300, received=1800, skipped=1200, written=300, reasons=reasons)
        assert brief(found) == lidar_lost("fair", 50.0)

    def test_an_excerpt_begins_between_key_frames(self) -> None:
        reasons = {"skipped": {Reason.OUTSIDE: 1200}, "dropped": {Reason.BEFORE_KEY: 300}}
        found = lost(dropped=300, received=1800, skipped=1200, written=300, reasons=reasons)
        assert brief(found) == ("good", [])

    def test_a_rare_topic_may_send_once_in_a_short_sequence(self) -> None:
        end = "end of the recording"
        once = stream("gps", 3, 4, 1) | {"messages": 1, "last_ns": ns(3), "usual_interval_ms": None}
        assert in_sequences((0, 20, {"/gps": once}, end)).sentence.endswith("nothing lost")
        assert "gps stopped" in in_sequences((0, 120, {"/gps": once}, end)).sentence

    def test_devices_that_recorded_at_the_same_time_are_no_one_drive(self) -> None:
        lidar, end = {"/lidar": stream("lidar_points", 0, 30, 10)}, "end of the recording"
        assert in_sequences((0, 30, lidar, end), (0, 30, {}, end)).sentence.endswith("nothing lost")

    def test_frames_that_became_no_samples_are_something(self) -> None:
        values = report(CAMERA, samples=12)
        values["sequences"][0]["sample"] = 12
        assert judge(parsed(values)).sentence == "poor: 12 samples of 540 camera frames"


def test_the_frame_of_a_role_is_its_sensors_that_most_samples_have() -> None:
    streams = {name: stream("lidar_points", 0, 9, 10) | {"frame_id": name} for name in ("/a", "/b", "/c")}
    values = report({**CAMERA, **streams})
    values["sequences"][0]["companions"] = {"/a": {"paired": 15}, "/b": {"paired": 45}}
    found = parsed(values).sequences[0]
    frames = [each and each.frame_id for each in map(found.stream_of, ("lidar_points", "camera", "imu"))]
    assert frames == ["/b", "camera", None]
    values["sequences"][0]["references"] = ["/c"]
    (lidar,) = filter(None, [parsed(values).sequences[0].stream_of("lidar_points")])
    assert lidar.frame_id == "/c"
