"""What diagnostics say of a capture, and how loudly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.live.status import LiveStatus, OutputStatus
from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.nodes.diagnostics import UNKNOWN, CaptureView, Diagnostic, Level, diagnose, summarise
from edgefirst_ros.nodes.discovery import SubscriptionPlan, TopicMatch

GB = 1_000_000_000


def row(**more: Any) -> dict[str, Any]:  # noqa: ANN401 - any column of a topic
    return {
        "type": "foxglove_msgs/msg/CompressedVideo",
        "received": 100,
        "decoded": 0,
        "refused": 0,
        "skipped": 0,
        "unpaired": 0,
        "dropped": 0,
        "written": 90,
        "lost_upstream": 0,
        "reasons": {},
        "rate_hz": 30.0,
        "usual_hz": 30.0,
        "age_s": 0.03,
        "latency_ms": 24.0,
        "waiting_bytes": 1_500_000,
        **more,
    }


STATUS = LiveStatus(
    session="car_2026_05_01_09_00_00",
    samples=90,
    received=100,
    dropped=0,
    bytes_written=40_000_000,
    queue_fill=0.01,
    free_bytes=101 * GB,
    topics={"/camera/h264": row()},
    warnings=(),
    failure="",
    elapsed_s=30.0,
    bytes_per_s=2_000_000.0,
    spare_bytes=100 * GB,
    outputs={"edgefirst": OutputStatus(90, 40_000_000, 2_000_000.0)},
    commit_latency_ms=1042.0,
)
NO_CAMERA = Finding(Code.NO_REFERENCE, "no camera yet", ("camera",))
PLAN = SubscriptionPlan("", frozenset(), (TopicMatch("camera", "/rt/camera/h264", announced=True),))


def view(
    *,
    status: LiveStatus = STATUS,
    previous: LiveStatus | None = None,
    plan: SubscriptionPlan = PLAN,
    config: Config | None = None,
    state: str = "active",
    explicit: frozenset[str] = frozenset(),
    problem: str = "",
) -> CaptureView:
    return CaptureView(
        state, status, previous or status, plan, config or Config(), explicit=explicit, problem=problem
    )


def entry(shown: CaptureView, name: str) -> Diagnostic:
    return next(e for e in diagnose(shown) if e.name == name)


def camera(**more: Any) -> Diagnostic:  # noqa: ANN401 - any column of a topic
    return entry(view(status=replace(STATUS, topics={"/camera/h264": row(**more)})), "/camera/h264")


def test_all_is_well() -> None:
    entries = diagnose(view())
    assert [e.name for e in entries] == ["session", "/camera/h264", "writer edgefirst", "disk"]
    assert all(e.level is Level.OK for e in entries)
    values = dict(entries[1].values)
    assert values["topic"] == "/rt/camera/h264"
    assert values["rate"] == "30.0 Hz"
    assert values["expected"] == "30.0 Hz"
    assert values["latency"] == "24.0 ms"
    assert values["age"] == "0.03 s"
    assert values["queue"] == "1.50 MB"
    assert values["written"] == "90"
    assert values["lost upstream"] == "0"
    writer = {"items": "90", "bytes": "40000000", "rate": "2.00 MB/s", "shed": "0 of 0"}
    assert dict(entries[2].values) == writer
    disk = dict(entries[3].values)
    assert disk["usable"] == "100000 MB"
    assert disk["left at this rate"] == "833 min"
    assert dict(entries[0].values)["latency to disk"] == "1042.0 ms"


def test_the_summary_fits_where_it_is_read() -> None:
    long = replace(STATUS, session="maivin-0123456789_2026_05_01_09_00_00-dataset", samples=123456)
    message = summarise(view(status=long)).message
    assert "123456 samples" in message
    assert len(message) <= 128


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"rate_hz": 20.0}, "slow: 20.0 Hz, expected 30.0"),
        ({"age_s": 7.2}, "silent for 7 s"),
    ],
)
def test_a_topic_that_goes_badly_says_why(more: dict[str, Any], text: str) -> None:
    assert camera(**more).level is Level.WARN
    assert text in camera(**more).message


def test_a_topic_of_which_everything_is_refused_is_an_error() -> None:
    said = "60 of the last 60 messages were refused: cut short"
    refused = Finding(Code.REFUSED, said, severity=Severity.ERROR)
    found = entry(view(status=replace(STATUS, findings={"/camera/h264": refused})), "/camera/h264")
    assert (found.level, found.message) == (Level.ERROR, refused.text)


def test_a_rate_is_held_to_what_was_configured() -> None:
    config = build_config({"topics": {"camera": {"expected_hz": 60.0}}})
    assert "expected 60.0" in entry(view(config=config), "/camera/h264").message
    imu = replace(STATUS, topics={"/imu": row(rate_hz=140.0, usual_hz=140.0)})
    plan = SubscriptionPlan("", frozenset(), (TopicMatch("imu", "/imu", announced=True, canonical="/imu"),))
    documented = entry(view(status=imu, plan=plan), "/imu")
    assert (documented.level, documented.message) == (Level.OK, "140.0 Hz, documented 200")
    asked = replace(view(status=imu, plan=plan), rated=frozenset({"imu"}))
    assert entry(asked, "/imu").message == "slow: 140.0 Hz, expected 200.0"
    elsewhere = build_config({"topics": {"imu": {"topic": "/imu/data"}}})
    assert entry(view(status=imu, plan=plan, config=elsewhere), "/imu").message == "140.0 Hz"


def test_a_topic_without_a_usual_rate_is_never_slow() -> None:
    assert camera(rate_hz=0.1, usual_hz=None).level is Level.OK


def test_rates_are_not_judged_before_they_can_be_known() -> None:
    early = replace(STATUS, elapsed_s=2.0, topics={"/camera/h264": row(rate_hz=3.0)})
    assert entry(view(status=early), "/camera/h264").level is Level.OK


@pytest.mark.parametrize(("column", "text"), [("dropped", "dropping"), ("lost_upstream", "losing")])
def test_losses_are_said_while_they_happen(column: str, text: str) -> None:
    before = replace(STATUS, topics={"/camera/h264": row(**{column: 3})})
    now = replace(STATUS, topics={"/camera/h264": row(**{column: 4})})
    assert text in entry(view(status=now, previous=before), "/camera/h264").message
    assert entry(view(status=now, previous=now), "/camera/h264").level is Level.OK
    other = replace(before, session="another")
    assert entry(view(status=now, previous=other), "/camera/h264").level is Level.OK


def test_a_topic_that_samples_cannot_be_without_is_an_error() -> None:
    config = build_config({"topics": {"camera": {"required": "always"}}})
    silent = replace(STATUS, topics={"/camera/h264": row(age_s=60.0)})
    assert entry(view(config=config, status=silent), "/camera/h264").level is Level.ERROR
    gone = SubscriptionPlan("", frozenset(), (TopicMatch("camera", "/camera/h264", announced=False),))
    nothing = replace(STATUS, topics={})
    assert entry(view(config=config, status=nothing, plan=gone), "/camera/h264").level is Level.ERROR


def test_topics_that_somebody_named_are_missed_and_others_are_not() -> None:
    absent = SubscriptionPlan("", frozenset(), (TopicMatch("gps", "/gps", announced=False),))
    names = [e.name for e in diagnose(view(plan=absent))]
    assert "/gps" not in names
    asked = view(plan=absent, explicit=frozenset({"gps"}))
    assert entry(asked, "/gps").message == "no publisher"
    assert entry(asked, "/gps").level is Level.WARN
    assert dict(summarise(asked).values)["not there"] == "/gps"
    optional = build_config({"topics": {"gps": {"required": "never"}}})
    done_without = view(plan=absent, explicit=frozenset({"gps"}), config=optional)
    assert entry(done_without, "/gps").level is Level.OK


def test_a_topic_that_cannot_be_taken_says_why() -> None:
    problem = "is std_msgs/msg/String, expected sensor_msgs/msg/Imu"
    wrong = SubscriptionPlan("", frozenset(), (TopicMatch("imu", "/imu", announced=True, problem=problem),))
    assert entry(view(plan=wrong), "/imu") == Diagnostic(Level.WARN, "/imu", problem, (("topic", "/imu"),))


def test_a_publisher_that_says_nothing_is_noticed() -> None:
    quiet = SubscriptionPlan("", frozenset(), (TopicMatch("gps", "/gps", announced=True),))
    assert entry(view(plan=quiet), "/gps").level is Level.WARN
    assert "nothing received yet" in entry(view(plan=quiet), "/gps").message


def test_a_session_without_its_reference_says_so() -> None:
    blind = replace(STATUS, absent=(NO_CAMERA,))
    assert summarise(view(status=blind)).level is Level.WARN
    assert summarise(view(status=blind)).message.startswith(NO_CAMERA.text)


def test_dropping_is_a_warning_of_the_session() -> None:
    assert summarise(view(status=replace(STATUS, dropped=2), previous=STATUS)).level is Level.WARN
    assert summarise(view(status=replace(STATUS, dropped=2), previous=replace(STATUS, dropped=2))).level == 0


def test_trouble_is_an_error_and_comes_first() -> None:
    ended = replace(STATUS, session="", ended="the disk has 12 MB left", topics={}, outputs={})
    said = summarise(view(status=ended, state="inactive"))
    assert said.level is Level.ERROR
    assert "the disk has 12 MB left" in said.message
    failed = summarise(view(status=replace(STATUS, failure="the disk vanished")))
    assert failed.level is Level.ERROR
    assert failed.message.startswith("the disk vanished")
    assert summarise(view(problem="bad parameters")).message.startswith("bad parameters")
    unclear = view(plan=SubscriptionPlan("", frozenset(), (), "topics of more than one device"))
    assert summarise(unclear).level is Level.ERROR


@pytest.mark.parametrize(
    ("state", "text"), [("unconfigured", "unconfigured"), ("inactive", "inactive"), ("active", "no session")]
)
def test_between_sessions_the_state_is_said(state: str, text: str) -> None:
    idle = replace(STATUS, session="", ended="stopped", topics={}, outputs={})
    assert summarise(view(status=idle, state=state)).message == text
    assert summarise(view(status=idle, state=state)).level is Level.OK


def test_the_disk_is_watched() -> None:
    soon = entry(view(status=replace(STATUS, spare_bytes=600_000_000)), "disk")
    assert soon.level is Level.WARN
    assert "full in 5 min" in soon.message
    full = entry(view(status=replace(STATUS, spare_bytes=-1)), "disk")
    assert full.level is Level.ERROR
    assert dict(full.values)["usable"] == "0 MB"
    none_left = entry(view(status=replace(STATUS, session="", spare_bytes=0)), "disk")
    assert (none_left.level, none_left.message) == (Level.ERROR, "full")
    ended = entry(view(status=replace(STATUS, session="", bytes_per_s=0.0, spare_bytes=2_400_000)), "disk")
    assert (ended.level, ended.message) == (Level.WARN, "nearly full: 2 MB left")
    unknown = entry(view(status=replace(STATUS, session="", free_bytes=UNKNOWN, spare_bytes=0)), "disk")
    assert unknown.level is Level.OK
    idle = entry(view(status=replace(STATUS, bytes_per_s=0.0)), "disk")
    assert dict(idle.values)["left at this rate"] == "unknown"


def test_the_newest_notes_are_shown() -> None:
    noted = replace(STATUS, warnings=tuple(f"finding {n}" for n in range(7)))
    shown = [value for key, value in summarise(view(status=noted)).values if key.startswith("note")]
    assert shown == [f"finding {n}" for n in range(2, 7)]


@pytest.mark.parametrize(
    ("entry_name", "latched", "more", "said"),
    [
        ("tf", True, {"age_s": 100.0, "usual_hz": None, "received": 1}, ""),
        ("tf", False, {"age_s": 100.0, "usual_hz": None, "received": 1}, ""),
        ("camera_info", False, {"age_s": 100.0}, ""),
        ("camera_info", False, {"rate_hz": 1.0}, ""),
        ("lidar_points", True, {"age_s": 100.0, "received": 1}, ""),
        ("boxes3d", False, {"age_s": 100.0, "usual_hz": None, "received": 100}, ""),
        ("lidar_points", False, {"age_s": 100.0}, "silent for 30 s"),
        ("lidar_points", False, {"age_s": 100.0, "usual_hz": None, "received": 3}, "silent for 30 s"),
        ("depth", False, {"age_s": 12.0, "usual_hz": 0.2, "rate_hz": 0.2}, ""),
        ("depth", False, {"age_s": 16.0, "usual_hz": 0.2, "rate_hz": 0.2}, "silent for 16 s"),
    ],
)
def test_what_is_told_once_is_never_silent(
    entry_name: str, latched: bool, more: dict[str, Any], said: str
) -> None:
    plan = SubscriptionPlan(
        "", frozenset(), (TopicMatch(entry_name, "/t", announced=True, canonical="/t", latched=latched),)
    )
    shown = view(status=replace(STATUS, topics={"/t": row(**more)}), plan=plan)
    assert (entry(shown, "/t").level is Level.WARN, entry(shown, "/t").message) == (
        bool(said),
        said or f"{row(**more)['rate_hz']:.1f} Hz",
    )
    held = build_config({"topics": {entry_name: {"expected_hz": 30.0}}})
    if more.get("age_s", 0) > 90:
        assert "silent for 30 s" in entry(replace(shown, config=held), "/t").message


def test_a_second_session_does_not_count_what_was_silent_before_it() -> None:
    status = replace(STATUS, elapsed_s=1.0, topics={"/camera/h264": row(age_s=600.0, rate_hz=0.0)})
    assert all(e.level is Level.OK for e in diagnose(view(status=status)))


@pytest.mark.parametrize("announced", [True, False])
def test_the_first_seconds_of_a_session_say_nothing_yet(announced: bool) -> None:
    found = tuple(TopicMatch(n, f"/{n}", announced=announced) for n in ("camera", "imu", "tf"))
    for elapsed_s, level in ((4.0, Level.OK), (6.0, Level.WARN)):
        absent = (NO_CAMERA,) if elapsed_s > 5 else ()
        status = replace(STATUS, elapsed_s=elapsed_s, topics={}, absent=absent)
        shown = view(
            status=status,
            plan=SubscriptionPlan("", frozenset(), found),
            explicit=frozenset({"camera", "imu"}),
        )
        entries = {e.name: e.level for e in diagnose(shown) if e.name not in {"disk", "writer edgefirst"}}
        assert entries.pop("/tf_static", Level.OK) is Level.OK  # there may be nothing to tell yet
        assert set(entries.values()) == {level}, entries


def test_what_another_topic_stands_in_for_is_not_missed() -> None:
    found = (TopicMatch("odometry", "/odom", announced=False), TopicMatch("gps", "/fix", announced=True))
    config = build_config({"topics": {"odometry": {"topic": "/odom"}}})
    shown = view(
        plan=SubscriptionPlan("", frozenset(), found), config=config, explicit=frozenset({"odometry"})
    )
    assert entry(shown, "/odom").level is Level.OK


def test_a_missing_reference_comes_with_its_hint() -> None:
    text = "/image (sensor_msgs/msg/Image) is there"
    hint = Finding(Code.OTHER_NAME, text, ("camera/h264", "/image"), severity=Severity.ERROR)
    other = Finding(Code.OTHER_NAME, "/imu/data is there", ("imu", "/imu/data"), severity=Severity.NOTE)
    shown = summarise(view(status=replace(STATUS, topics={}, absent=(hint, NO_CAMERA, other))))
    assert shown.level is Level.WARN
    assert shown.message.startswith(f"{NO_CAMERA.text}; {hint.text}; ")
    values = dict(shown.values)
    assert (values["hint 1"], values["hint 2"]) == (hint.text, other.text)


def test_what_is_shed_is_a_warning_that_says_what_would_help() -> None:
    """The session, the topic and the writer say so; messages that no format had time for are no losses."""
    before = replace(STATUS, topics={"/camera/h264": row(dropped=3, shed=3)})
    now = replace(
        STATUS,
        topics={"/camera/h264": row(dropped=8, shed=8)},
        shed={"edgefirst": (8, 98)},
        shedding={"edgefirst": 0.5},
        help="what would help: fewer samples (every_n)",
    )
    session, topic, writer, _ = diagnose(view(status=now, previous=before))
    assert (session.level, session.message.partition(";")[0]) == (
        Level.WARN,
        "shedding edgefirst (50% written)",
    )
    values = dict(session.values)
    assert values["shed"] == "edgefirst 8 of 98 samples"
    assert values["what would help"] == "fewer samples (every_n)"
    assert values["dropped"] == "0"
    assert (topic.level, topic.message) == (Level.WARN, "shedding")
    assert (writer.level, writer.message.partition(";")[0]) == (Level.WARN, "shedding, 50% is written")
    assert dict(writer.values)["shed"] == "8 of 98"
    later = replace(now, topics={"/camera/h264": row(dropped=9, shed=8)})
    _, topic, *_ = diagnose(view(status=later, previous=now))
    assert topic.message == "dropping"
