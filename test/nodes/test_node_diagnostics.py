"""What diagnostics say of a capture, and how loudly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.live.status import LiveStatus, OutputStatus
from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.nodes.diagnostics import UNKNOWN, CaptureView, Diagnostic, diagnose, summarise
from edgefirst_ros.nodes.discovery import SubscriptionPlan, TopicMatch
from edgefirst_ros.nodes.parameters import specify

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
    given: tuple[str, ...] = (),
    problem: str = "",
) -> CaptureView:
    return CaptureView(
        state, status, previous or status, plan, config or Config(), given=given, problem=problem
    )


def entry(shown: CaptureView, name: str) -> Diagnostic:
    return next(e for e in diagnose(shown) if e.name == name)


def camera(**more: Any) -> Diagnostic:  # noqa: ANN401 - any column of a topic
    return entry(view(status=replace(STATUS, topics={"/camera/h264": row(**more)})), "/camera/h264")


def test_all_is_well() -> None:
    entries = diagnose(view())
    assert [e.name for e in entries] == ["session", "/camera/h264", "writer edgefirst", "disk"]
    assert all(e.level is Severity.NOTE for e in entries)
    values = dict(entries[1].values)
    assert values["topic"] == "/rt/camera/h264"
    assert values["rate"] == "30.0 Hz"
    assert values["expected"] == "30.0 Hz"
    assert values["latency"] == "24.0 ms"
    assert values["age"] == "0.03 s"
    assert values["queue"] == "1.50 MB"
    assert values["written"] == 90
    assert values["lost upstream"] == 0
    writer = {"items": 90, "bytes": 40000000, "rate": "2.00 MB/s", "shed": "0 of 0"}
    assert dict(entries[2].values) == writer
    disk = dict(entries[3].values)
    assert disk["usable"] == "100000 MB"
    assert disk["left at this rate"] == "833 min"
    assert dict(entries[0].values)["latency to disk"] == "1042.0 ms"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"rate_hz": 20.0}, "slow: 20.0 Hz, expected 30.0"),
        ({"age_s": 7.2}, "silent for 7 s"),
    ],
)
def test_a_topic_that_goes_badly_says_why(more: dict[str, Any], text: str) -> None:
    assert camera(**more).level is Severity.WARNING
    assert text in camera(**more).message


def test_a_topic_of_which_everything_is_refused_is_an_error() -> None:
    said = "60 of the last 60 messages were refused: cut short"
    refused = Finding(Code.REFUSED, said, severity=Severity.ERROR)
    found = entry(view(status=replace(STATUS, findings={"/camera/h264": refused})), "/camera/h264")
    assert (found.level, found.message) == (Severity.ERROR, refused.text)


def test_a_rate_is_held_to_what_was_configured() -> None:
    config = build_config({"topics": {"camera": {"expected_hz": 60.0}}})
    assert "expected 60.0" in entry(view(config=config), "/camera/h264").message
    imu = replace(STATUS, topics={"/imu": row(rate_hz=140.0, usual_hz=140.0)})
    plan = SubscriptionPlan("", frozenset(), (TopicMatch("imu", "/imu", announced=True, canonical="/imu"),))
    documented = entry(view(status=imu, plan=plan), "/imu")
    assert (documented.level, documented.message) == (Severity.NOTE, "140.0 Hz, documented 200")
    asked = replace(view(status=imu, plan=plan), given=["topics.imu.expected_hz"])
    assert entry(asked, "/imu").message == "slow: 140.0 Hz, expected 200.0"
    elsewhere = build_config({"topics": {"imu": {"topic": "/imu/data"}}})
    assert entry(view(status=imu, plan=plan, config=elsewhere), "/imu").message == "140.0 Hz"


@pytest.mark.parametrize(("column", "text"), [("dropped", "dropping"), ("lost_upstream", "losing")])
def test_losses_are_said_while_they_happen(column: str, text: str) -> None:
    before = replace(STATUS, topics={"/camera/h264": row(**{column: 3})})
    now = replace(STATUS, topics={"/camera/h264": row(**{column: 4})})
    assert text in entry(view(status=now, previous=before), "/camera/h264").message
    assert entry(view(status=now, previous=now), "/camera/h264").level is Severity.NOTE
    other = replace(before, session="another")
    assert entry(view(status=now, previous=other), "/camera/h264").level is Severity.NOTE


def test_a_topic_that_samples_cannot_be_without_is_an_error() -> None:
    config = build_config({"topics": {"camera": {"required": "always"}}})
    silent = replace(STATUS, topics={"/camera/h264": row(age_s=60.0)})
    assert entry(view(config=config, status=silent), "/camera/h264").level is Severity.ERROR
    gone = SubscriptionPlan("", frozenset(), (TopicMatch("camera", "/camera/h264", announced=False),))
    nothing = replace(STATUS, topics={})
    assert entry(view(config=config, status=nothing, plan=gone), "/camera/h264").level is Severity.ERROR


def test_topics_that_somebody_named_are_missed_and_others_are_not() -> None:
    absent = SubscriptionPlan("", frozenset(), (TopicMatch("gps", "/gps", announced=False),))
    names = [e.name for e in diagnose(view(plan=absent))]
    assert "/gps" not in names
    asked = view(plan=absent, given=("topics.gps.topic",))
    assert entry(asked, "/gps").message == "no publisher"
    assert entry(asked, "/gps").level is Severity.WARNING
    assert dict(summarise(asked).values)["not there"] == "/gps"
    optional = build_config({"topics": {"gps": {"required": "never"}}})
    done_without = view(plan=absent, given=("topics.gps.topic",), config=optional)
    assert entry(done_without, "/gps").level is Severity.NOTE


def test_what_a_dump_of_all_parameters_lists_is_not_missed_unless_it_was_changed() -> None:
    absent = SubscriptionPlan("", frozenset(), (TopicMatch("gps", "/gps", announced=False),))
    specs = [spec for spec in specify(Config) if spec.name.startswith("topics.gps.")]
    dumped = tuple(spec.name for spec in specs if spec.default != [])
    assert "/gps" not in [e.name for e in diagnose(view(plan=absent, given=dumped))]
    changed = build_config({"topics": {"gps": {"latency_ms": 7.0}}})
    assert entry(view(plan=absent, given=dumped, config=changed), "/gps").level is Severity.WARNING


def test_a_session_without_its_reference_says_so() -> None:
    blind = replace(STATUS, absent=(NO_CAMERA,))
    assert summarise(view(status=blind)).level is Severity.WARNING
    assert summarise(view(status=blind)).message.startswith(NO_CAMERA.text)


def test_trouble_is_an_error_and_comes_first() -> None:
    ended = replace(STATUS, session="", ended="the disk has 12 MB left", topics={}, outputs={})
    said = summarise(view(status=ended, state="inactive"))
    assert said.level is Severity.ERROR
    assert "the disk has 12 MB left" in said.message
    failed = summarise(view(status=replace(STATUS, failure="the disk vanished")))
    assert failed.level is Severity.ERROR
    assert failed.message.startswith("the disk vanished")
    assert summarise(view(problem="bad parameters")).message.startswith("bad parameters")
    unclear = view(plan=SubscriptionPlan("", frozenset(), (), "topics of more than one device"))
    assert summarise(unclear).level is Severity.ERROR


def test_the_disk_is_watched() -> None:
    soon = entry(view(status=replace(STATUS, spare_bytes=600_000_000)), "disk")
    assert soon.level is Severity.WARNING
    assert "full in 5 min" in soon.message
    full = entry(view(status=replace(STATUS, spare_bytes=-1)), "disk")
    assert full.level is Severity.ERROR
    assert dict(full.values)["usable"] == "0 MB"
    none_left = entry(view(status=replace(STATUS, session="", spare_bytes=0)), "disk")
    assert (none_left.level, none_left.message) == (Severity.ERROR, "full")
    ended = entry(view(status=replace(STATUS, session="", bytes_per_s=0.0, spare_bytes=2_400_000)), "disk")
    assert (ended.level, ended.message) == (Severity.WARNING, "nearly full: 2 MB left")
    unknown = entry(view(status=replace(STATUS, session="", free_bytes=UNKNOWN, spare_bytes=0)), "disk")
    assert unknown.level is Severity.NOTE
    idle = entry(view(status=replace(STATUS, bytes_per_s=0.0)), "disk")
    assert dict(idle.values)["left at this rate"] == "unknown"
