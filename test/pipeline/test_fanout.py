"""Every item reaches every writer in order, and every message is counted once, whatever becomes of it."""

from __future__ import annotations

import errno
import gc
import logging
import random
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ClassVar

import pytest
from envelopes import INFO, Keeper, Post
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.formats.format import LeftOut, NoPlace, Written
from edgefirst_ros.model.errors import DecodeError, OutputBusy, WriteError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, CameraImage, EgoPose, Role, Sample, SequenceInfo
from edgefirst_ros.pipeline.delivery import Delivery
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.ledger import Outcome

PICTURE = CameraImage("jpeg", b"jpeg", 4, 4)


def config() -> Config:
    return build_config({})


class Run:
    """A fan-out to some writers, and the outcomes of the samples that go through it."""

    def __init__(self, *writers: Keeper) -> None:
        self.post = Post(config())
        self.outcomes: list[Outcome] = []
        self.made = 0
        self.committed: list[Sample] = []
        self._pool = ThreadPoolExecutor(4)
        self.fanout = FanOut(writers, self._pool, 4, self.post.ledger, self.committed.append)
        self.fanout.begin(INFO)

    def send(
        self,
        number: int,
        *,
        image: Future[CameraImage] | None = None,
        takers: frozenset[str] | None = None,
    ) -> tuple[Envelope, Envelope]:
        camera = self.post.envelope("camera", 100 * number)
        lidar = self.post.envelope("lidar_points", 100 * number + 7)
        make = partial(self._make, number, camera, lidar)
        self.fanout.sample(
            Delivery(make, (camera, lidar), image=image, takers=takers, outcome=self.outcomes.append)
        )
        return camera, lidar

    def _make(self, number: int, camera: Envelope, lidar: Envelope, image: CameraImage | None) -> Sample:
        self.made += 1
        companions = {Role.CAMERA: camera.measurement, Role.LIDAR_POINTS: lidar.measurement}
        ego = EgoPose(camera.time_ns)
        return Sample(INFO, number, camera.time_ns, companions, {}, ego, Calibration(), image)

    def end(self) -> None:
        self.fanout.join()
        self._pool.shutdown()
        totals = dict(self.post.ledger.totals)
        assert totals.pop("received") == sum(totals.values())
        assert self.post.ledger.open == 0


def reasons(run: Run, topic: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = run.post.ledger.snapshot()[topic]["reasons"]
    return found


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 10))
def test_all_writers_get_all_samples_in_order_however_their_pictures_come(seed: int, count: int) -> None:
    one, other = Keeper("one"), Keeper("other")
    run = Run(one, other)
    images: list[Future[CameraImage]] = [Future() for _ in range(count)]
    for number, image in enumerate(images):
        run.send(number, image=image)
    for image in random.Random(seed).sample(images, len(images)):
        image.set_result(PICTURE)
    run.end()
    for writer in (one, other):
        assert writer.begun == [INFO]
        assert [sample.frame for sample in writer.samples] == list(range(len(images)))
        assert all(sample.image is PICTURE for sample in writer.samples)
    assert run.made == len(images), "a sample is made once, whatever the number of writers"
    assert run.committed == one.samples
    assert run.post.ledger.totals["written"] == 2 * len(images)
    assert run.outcomes == [Outcome("sample")] * len(images)


def test_the_formats_that_hold_a_message_are_counted_with_it_and_its_distance() -> None:
    run = Run(
        Keeper("one"), Keeper("other", lambda _: Written(left_out=LeftOut("skipped", "thinned"), items=0))
    )
    _, lidar = run.send(0)
    run.end()
    account = run.post.ledger.snapshot()[lidar.topic]
    assert account["written_to"] == {"one": 1}
    assert account["pairing_error_ms"]["max"] == 7.0
    assert run.fanout.outputs["one"].items == 1
    assert run.fanout.outputs["other"].left_out == {"thinned": 1}


def test_a_picture_that_cannot_be_decoded_drops_its_frame_and_unpairs_its_companions() -> None:
    run = Run(Keeper())
    image: Future[CameraImage] = Future()
    camera, lidar = run.send(0, image=image)
    image.set_exception(DecodeError(Reason.AFTER_LOSS))
    run.end()
    assert reasons(run, camera.topic) == {"dropped": {Reason.AFTER_LOSS: 1}}
    assert reasons(run, lidar.topic) == {"unpaired": {f"its frame was not usable: {Reason.AFTER_LOSS}": 1}}
    assert run.outcomes == [Outcome("unusable", Reason.AFTER_LOSS)]


@pytest.mark.parametrize(
    ("written", "stage", "reason", "outcome"),
    [
        (Written(left_out=LeftOut("skipped", "thinned"), items=0), "skipped", "thinned", "skipped"),
        (Written(left_out=LeftOut("unusable", "no pose"), items=0), "unpaired", "no pose", "unusable"),
        (Written(refused=(("/lidar/points", "no column x"),)), "refused", "no column x", "sample"),
        (Written(refused=(("/lidar/points", NoPlace("no place")),)), "decoded", "no place", "sample"),
        (Written(), "decoded", Reason.FORGOTTEN, "sample"),
    ],
)
def test_what_a_format_says_of_a_message_is_its_stage(
    written: Written, stage: str, reason: str, outcome: str
) -> None:
    run = Run(Keeper("keeper", lambda _: written))
    run.send(0)
    run.end()
    assert reasons(run, "/lidar/points") == {stage: {reason: 1}}
    assert [each.kind for each in run.outcomes] == [outcome]


def test_a_format_without_time_sheds_and_the_other_still_gets_the_sample() -> None:
    one, other = Keeper("one"), Keeper("other")
    run = Run(one, other)
    for number in range(4):
        run.send(number, takers=frozenset({"one", "other"} if number % 2 else {"one"}))
    run.send(4, takers=frozenset())
    run.end()
    assert [sample.frame for sample in one.samples] == [0, 1, 2, 3]
    assert [sample.frame for sample in other.samples] == [1, 3]
    assert [each.kind for each in run.outcomes].count("dropped") == 1
    assert reasons(run, "/lidar/points") == {"dropped": {Reason.SHED: 1}}


def test_a_writer_that_fails_is_raised_and_what_follows_is_dropped() -> None:
    def failing(sample: Sample) -> Written | None:
        if sample.frame == 1:
            raise WriteError("disk full")
        return None

    run = Run(Keeper("keeper", failing))
    for number in range(3):
        run.send(number)
    run.end()
    with pytest.raises(WriteError, match="disk full"):
        run.fanout.raise_failure()
    assert run.post.ledger.totals["written"] == 2
    assert reasons(run, "/lidar/points")["dropped"] == {"disk full": 2}


class Choosy(Keeper):
    """Fails to prepare every third sample, or as it is told."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def prepare(self, sample: Sample) -> Sample:
        if sample.frame % 3 == 1:
            raise self._error
        return sample


@pytest.mark.guarded
@pytest.mark.parametrize(
    "error", [ValueError("cannot convert float NaN"), MemoryError(), OSError("truncated")]
)
def test_what_is_wrong_with_one_sample_costs_that_sample(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "edgefirst_ros")
    other = Keeper("other")
    writer = Choosy(error)
    run = Run(writer, other)
    for number in range(6):
        run.send(number)
    run.end()
    assert [sample.frame for sample in writer.samples] == [0, 2, 3, 5]
    assert [sample.frame for sample in other.samples] == [*range(6)]
    assert run.fanout.outputs["keeper"].left_out == {
        f"preparing it for keeper failed: {type(error).__name__}": 2
    }
    assert run.outcomes == [Outcome("sample")] * 6
    (first, _) = [record for record in caplog.records if record.name == "edgefirst_ros.model.registry"]
    assert first.levelno == logging.DEBUG
    assert first.exc_info is not None
    assert first.exc_info[1] is error


def test_an_error_of_the_disk_while_preparing_ends_the_run() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    run = Run(Choosy(full))
    for number in range(4):
        run.send(number)
    run.fanout.join()
    with pytest.raises(OSError, match="No space left"):
        run.fanout.raise_failure()


class Contended(Keeper):
    """A format whose output one run at a time may have; the first to ask gets it."""

    taken: ClassVar[dict[str, Contended]] = {}

    def begin(self, sequence: SequenceInfo) -> None:
        super().begin(sequence)
        if self.taken.setdefault(self.name, self) is not self:
            raise OutputBusy(f"{self.name} is being written")


def test_of_two_runs_with_the_same_formats_in_any_order_one_gets_all_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Contended, "taken", {})
    begun = [Contended("a"), Contended("b")], [Contended("b"), Contended("a")]
    one = Run(*begun[0])
    with pytest.raises(OutputBusy, match=r"^a is"):
        Run(*begun[1])
    assert [[writer.name for writer in writers if writer.begun] for writers in begun] == [["a", "b"], ["a"]]
    one.end()


def test_messages_are_freed_as_soon_as_their_sample_is_written() -> None:
    """A large picture cannot wait for the garbage collector, which counts objects and no bytes."""

    class Pixels:
        pass

    run = Run(Keeper(left_out=lambda _: Written({"camera": 1}, bytes=1)))
    image: Future[CameraImage] = Future()
    pixels = Pixels()
    gone = weakref.ref(pixels)
    camera = run.post.envelope("camera", 0, pixels)
    camera.image = image
    gc.disable()
    try:
        make = partial(run._make, 0, camera, camera)
        run.fanout.sample(Delivery(make, (camera,), image=image))
        image.set_result(PICTURE)
        run.end()
        assert run.made == 1
        run.committed.clear()
        del camera, image, make, pixels
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("left_out", "in_all"),
    [
        (None, 3),
        (LeftOut("skipped", "not needed for 10 frames a second"), 3),
        (LeftOut("unusable", "no pose"), 2),
        (LeftOut("dropped", "shed"), 2),
    ],
    ids=["written", "thinned", "unusable", "dropped"],
)
def test_a_sample_counts_as_written_once_every_format_has_it(left_out: LeftOut | None, in_all: int) -> None:
    def second(sample: Sample) -> Written | None:
        return None if left_out is None or sample.frame != 1 else Written(left_out=left_out, items=0)

    run = Run(Keeper("one"), Keeper("other", second))
    times = [run.send(number)[0].time_ns for number in range(3)]
    run.end()
    assert run.fanout.samples == len(run.committed) == 3
    assert (run.fanout.mark.samples, run.fanout.mark.time_ns) == (in_all, times[-1])


class Slow(Keeper):
    """A format of measurements that waits until the test lets it go."""

    needs_pose = False

    def __init__(self) -> None:
        super().__init__("slow")
        self.may_write = threading.Event()

    def write(self, prepared: Sample) -> Written:
        assert self.may_write.wait(20)
        return super().write(prepared)

    def pose(self, pose: EgoPose) -> None:
        pass


def test_a_sample_counts_as_written_once_its_measurements_are() -> None:
    """A format of measurements never sees the sample; it may be far behind those that do."""
    slow, quick = Slow(), Keeper("quick")
    run = Run(quick, slow)
    camera = run.post.envelope("camera", 0)
    run.fanout.measurement(Delivery(lambda _: run._make(0, camera, camera, None), (camera,)))  # type: ignore[arg-type, return-value]
    run.send(0)
    while not run.committed:
        threading.Event().wait(0.005)
    assert run.fanout.mark.samples == 0
    slow.may_write.set()
    run.end()
    assert run.fanout.mark.samples == 1
