"""The wall clock is stepped in the middle of a drive: another sequence that knows what the first one knew."""

from __future__ import annotations

import struct

import pytest
from resized import HOST, SMALL, START_NS, spliced

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.sample import RawMessage, Sample
from edgefirst_ros.pipeline.assembly import Pipeline

HOUR_NS = 3_600_000_000_000
STEP_NS = START_NS + 4_000_000_000
VALUES = {
    "topics": {name: {"required": "never"} for name in ("radar_targets", "lidar_points", "model")},
}
ONCE = ("/tf_static", "/camera/info")


def moved(message: RawMessage, by_ns: int) -> RawMessage:
    """A message whose stamp and receipt are moved; all of the drive's begin with their stamp."""
    seconds, nanoseconds = struct.unpack_from("<iI", message.data, 4)
    seconds, nanoseconds = divmod(seconds * 1_000_000_000 + nanoseconds + by_ns, 1_000_000_000)
    data = message.data[:4] + struct.pack("<iI", seconds, nanoseconds) + message.data[12:]
    return message._replace(
        data=data, receive_ns=message.receive_ns + by_ns, publish_ns=message.publish_ns + by_ns
    )


def drive() -> list[RawMessage]:
    """8 s in whose middle the clock is set back by an hour; calibration comes once, at the beginning."""
    content = [
        message if message.receive_ns < STEP_NS else moved(message, -HOUR_NS)
        for message in spliced(*[SMALL] * 4)
    ]
    return [
        message
        for index, message in enumerate(content)
        if message.topic not in ONCE or all(message.topic != before.topic for before in content[:index])
    ]


def samples_of(*sources: list[RawMessage]) -> tuple[Pipeline, list[Sample]]:
    """What the writers would get, without any."""
    made: list[Sample] = []
    pipeline = Pipeline(build_config(VALUES), [], made.append)
    for messages in sources:
        pipeline.begin_source({(m.topic, m.schema) for m in messages}, HOST)
        for number, message in enumerate(messages):
            pipeline.feed(message._replace(arrival=number))
        pipeline.end_source()
    pipeline.complete()
    pipeline.close()
    return pipeline, made


def test_a_step_begins_a_sequence_that_keeps_the_calibration() -> None:
    pipeline, samples = samples_of(drive())
    first, second = (run.name for run in pipeline.sequences)
    assert pipeline.notes == ["new sequence: the receiver's clock was set back"]
    by_name = {name: [s for s in samples if s.sequence.name == name] for name in (first, second)}
    assert min(map(len, by_name.values())) > 20
    for sample in samples[5:]:
        assert sample.calibration.transforms.keys() == samples[5].calibration.transforms.keys() != set()
        assert sample.calibration.camera_info is not None


def simulated(message: RawMessage, first_ns: int) -> RawMessage:
    """A message of a simulation that begins at 0.2 s."""
    return moved(message, 200_000_000 - first_ns)


def received(message: RawMessage) -> int:
    return message.receive_ns


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("calibrated", [False, True])
def test_a_simulation_that_is_reset_is_another_sequence_and_loses_nothing(calibrated: bool) -> None:
    """Every message comes once more, the same at the same simulated time.

    Calibration bears the time at which it was made, twice; and the second one again and again from then on.
    """
    drive = spliced(SMALL, SMALL)
    first_ns = drive[0].receive_ns
    once = [simulated(m, first_ns) for m in drive if m.topic not in ONCE]
    sent = once * 2
    if calibrated:
        (info, *_) = (m for m in drive if m.topic == "/camera/info")
        made = moved(info, -30_000_000_000 - first_ns)
        first = moved(made, -200_000_000)._replace(receive_ns=100_000_000, publish_ns=100_000_000)
        again = [made._replace(receive_ns=ns, publish_ns=ns) for ns in range(3 * 10**8, 4 * 10**9, 10**8)]
        few = [again[0], *(m for m in again if m.receive_ns > 1_250_000_000)]
        sent = [m for said in ([first, *few], again) for m in sorted([*once, *said], key=received)]
    pipeline, samples = samples_of(sent)
    assert pipeline.notes == ["new sequence: the receiver's clock was set back"]
    before, after = (
        sorted(s.time_ns for s in samples if s.sequence.name == run.name) for run in pipeline.sequences
    )
    assert before == after
    assert len(after) == sum(m.topic == "/camera/h264" for m in once)
    reasons = pipeline.report()["topics"]["/camera/h264"].get("reasons", {})
    assert reasons.keys() <= {"written"}


def test_a_step_below_a_second_pairs_nothing_wrong() -> None:
    """All of a device's stamps jump back by 0.7 s, but the receiver's clock does not."""
    at_ns, by_ns = START_NS + 5_000_000_000, -700_000_000
    content = [
        message
        if message.receive_ns < at_ns or message.topic in ONCE
        else moved(message, by_ns)._replace(receive_ns=message.receive_ns, publish_ns=message.publish_ns)
        for message in spliced(*[SMALL] * 5)
    ]
    pipeline, samples = samples_of(content)
    (note,) = pipeline.notes
    assert note.startswith("new sequence: the clock of /camera/h264")
    assert note.endswith("was stepped by -700.0 ms")
    assert len(samples) > 90
    for sample in samples:
        stamps = {m.stamp_ns - m.time_ns for m in sample.companions.values()}
        assert len(stamps) == 1, "what is paired was stamped on one side of the step"
        times = [m.time_ns for m in sample.companions.values()]
        assert max(times) - min(times) < 60_000_000
    before, after = (
        [s.time_ns for s in samples if s.sequence.name == run.name] for run in pipeline.sequences
    )
    assert max(before) < min(after), "the axis of time goes on"
