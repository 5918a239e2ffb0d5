"""The camera's resolution changes on the way: another sequence, nothing lost, everything accounted for."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edgefirst.schemas import sensor_msgs
from edgefirst.schemas.builtin_interfaces import Time
from edgefirst.schemas.std_msgs import Header
from faulty import Latency, read_number
from oracle import assert_sound
from PIL import Image
from resized import FRAMES, HOST, LARGE, SECONDS, SMALL, START_NS, recorded, spliced
from written import Written

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage, Sample
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.pipeline.ledger import COLUMNS
from edgefirst_ros.video.headers import head

FIRST = f"{HOST}_2026_05_01_09_00_00"
SECOND = f"{HOST}_2026_05_01_09_00_02"
OPTIONAL: dict[str, Any] = {"topics": {n: {"required": "never"} for n in ("radar_targets", "model")}}
STREAMS: dict[str, dict[str, Any]] = {
    "h264": {},
    "h265-b": {"codec": "h265", "bframes": 2},
    "jpeg": {"jpeg": True},
    "tiles": {"tiles": True},
}
NOTE = "new sequence: the picture of {} changed from {} to {} at 2026-05-01 09:00:02.020 UTC"


def converted(path: Path, values: dict[str, Any] | None = None) -> Written:
    out = path.parent / "out"
    convert([path], out, build_config(values or OPTIONAL), dataset="d")
    written = Written(out / "edgefirst" / "d")
    for topic, account in written.report["topics"].items():
        assert account["received"] == sum(account[c] for c in COLUMNS), topic
    return written


def pictures(written: Written, sequence: str) -> dict[int, Image.Image]:
    return {
        int(name.removesuffix(".camera.jpeg").rpartition("_")[2]): Image.open(io.BytesIO(data)).convert("RGB")
        for name, data in written.files().items()
        if name.startswith(sequence + "/") and name.endswith(".camera.jpeg")
    }


def numbers(found: dict[int, Image.Image]) -> dict[int, int]:
    return {frame: read_number(np.asarray(picture)) for frame, picture in found.items()}


def kinds(written: Written) -> list[tuple[str, int, int]]:
    return [(s["name"], s["reference_frames"], s["sample"]) for s in written.report["sequences"]]


def samples_of(messages: Iterable[RawMessage], values: dict[str, Any] | None = None) -> list[Sample]:
    """What the writers would get, without any."""
    made: list[Sample] = []
    messages = list(messages)
    pipeline = Pipeline(build_config(values or OPTIONAL), [], made.append)
    pipeline.begin_source({(m.topic, m.schema) for m in messages}, HOST)
    for number, message in enumerate(messages):
        pipeline.feed(message._replace(arrival=number))
    pipeline.end_source()
    pipeline.complete()
    pipeline.close()
    return made


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("name", STREAMS)
def test_another_size_begins_another_sequence_and_nothing_is_lost(name: str, tmp_path: Path) -> None:
    written = converted(recorded(tmp_path / f"{FIRST}.mcap", spliced(SMALL, LARGE, **STREAMS[name])))
    assert kinds(written) == [(FIRST, FRAMES, FRAMES), (SECOND, FRAMES, FRAMES)]
    for sequence, size in ((FIRST, SMALL), (SECOND, LARGE)):
        found = pictures(written, sequence)
        assert {picture.size for picture in found.values()} == {size}
        assert found.keys() == set(range(FRAMES))
        if name != "tiles":  # each tile has its number in its corner
            assert numbers(found) == {frame: frame for frame in range(FRAMES)}
    (note,) = written.report["notes"]
    sizes = ["{}x{}".format(*(n // (1 + (name == "tiles")) for n in size)) for size in (SMALL, LARGE)]
    topic = next(t for t in written.report["topics"] if note.startswith(f"new sequence: the picture of {t} "))
    assert note == NOTE.format(topic, *sizes)
    assert written.report["sequences"][0]["ended"] == note.removeprefix("new sequence: ")
    assert not written.report["warnings"]
    camera = [a for t, a in written.report["topics"].items() if "/camera/" in t and "info" not in t]
    assert all(a["written"] + a["decoded"] == a["received"] == 2 * FRAMES for a in camera)


@pytest.mark.long
def test_what_was_measured_before_the_change_stays_before_it_however_late_it_comes(tmp_path: Path) -> None:
    slow = Latency(lidar=250.0)
    content = spliced(SMALL, LARGE, latency=slow)
    change_ns = START_NS + round(SECONDS * 1e9) + 20_000_000
    late = [m for m in content if m.topic == "/lidar/points" and m.receive_ns > change_ns]
    assert min(decode(m).stamp_ns for m in late) < change_ns
    values = {**OPTIONAL, "ego": {"smoothing": "lag"}}  # poses do not know what comes after the change
    written = converted(recorded(tmp_path / f"{FIRST}.mcap", content), values)
    clouds = [n for n in written.files() if n.endswith(".lidar.pcd")]
    assert sum(n.startswith(FIRST + "/") for n in clouds) == sum(n.startswith(SECOND + "/") for n in clouds)
    whole = converted(recorded(tmp_path / "one" / f"{FIRST}.mcap", spliced(SMALL, latency=slow)), values)
    mine, alone = ({n: d for n, d in w.files().items() if n.startswith(FIRST)} for w in (written, whole))
    assert mine.keys() == alone.keys()
    assert [n for n in mine if mine[n] != alone[n]] == []


@pytest.mark.long
def test_the_same_bytes_whatever_the_workers_and_the_disorder(tmp_path: Path) -> None:
    content = spliced(SMALL, LARGE)
    fixed = {n: {"clock": "stamp", "required": "never"} for n in ("camera", "camera_jpeg", "lidar_points")}
    made = []
    for case, workers in (("plain", 1), ("plain", 4), ("shuffled", 2)):
        order = content if case == "plain" else _shuffled(content)
        path = recorded(tmp_path / f"{case}{workers}" / f"{FIRST}.mcap", order)
        values = {"topics": {**OPTIONAL["topics"], **fixed}, "workers": workers}
        made.append(converted(path, values).files())
    assert made[0] == made[1] == made[2]


def _shuffled(content: list[RawMessage]) -> list[RawMessage]:
    """Pictures and sweeps come up to 0.3 s later than they did, past one another."""
    moved = [
        (
            m.receive_ns
            + (n * 7919 % 300_000_000 if m.topic.startswith(("/camera/h", "/camera/j", "/lidar")) else 0),
            m,
        )
        for n, m in enumerate(content)
    ]
    return [m._replace(receive_ns=at) for at, m in sorted(moved, key=lambda pair: pair[0])]


def _frame(message: RawMessage) -> int:
    return round((decode(message).stamp_ns - START_NS) / 1e9 * 10 - 0.2)


def test_a_lost_key_frame_of_the_new_size_costs_what_builds_on_it(tmp_path: Path) -> None:
    content = [m for m in spliced(SMALL, LARGE) if not (m.topic == "/camera/h264" and _frame(m) == FRAMES)]
    assert sum(m.topic == "/camera/h264" for m in content) == 2 * FRAMES - 1
    written = converted(recorded(tmp_path / f"{FIRST}.mcap", content))
    keys = [_frame(m) for m in content if m.topic == "/camera/h264" and _is_key(m)]
    next_key = min(key for key in keys if key > FRAMES)
    assert [n for _, _, n in kinds(written)] == [FRAMES, 2 * FRAMES - next_key]
    reasons = written.report["topics"]["/camera/h264"]["reasons"]
    assert reasons["dropped"] == {Reason.AFTER_LOSS: next_key - FRAMES - 1}
    assert {p.size for p in pictures(written, FIRST).values()} == {SMALL}


def _is_key(message: RawMessage) -> bool:
    datum = decode(message).datum
    return isinstance(datum, VideoPacket) and any(u.kind in {5, 7} for u in head(datum))


@pytest.mark.parametrize("moved_s", [-0.4, 0.0, 0.3])
def test_camera_info_goes_with_the_pictures_of_its_size(moved_s: float) -> None:
    """The service that sends it learns of the change earlier or later than the camera."""
    change_ns = START_NS + round(SECONDS * 1e9) + round(moved_s * 1e9)
    plain = spliced(SMALL, LARGE)
    small, large = (
        next(m for m in messages if m.topic == "/camera/info") for messages in (plain, reversed(plain))
    )
    content = [m for m in plain if m.topic != "/camera/info"]
    for tick in range(2 * FRAMES):
        at_ns = START_NS + tick * 100_000_000
        source = small if at_ns < change_ns else large
        content.append(source._replace(receive_ns=at_ns, publish_ns=at_ns))
    content.sort(key=lambda m: m.receive_ns)
    samples = samples_of(content)
    assert len(samples) == 2 * FRAMES
    for sample in samples:
        info, image = sample.calibration.camera_info, sample.image
        assert info is not None
        assert image is not None
        assert (info.width, info.height) == (image.width, image.height)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"select": {"keyframes": True}}, None),
        ({"select": {"every": 7}}, [3, 3]),
        ({"select": {"every": 50}}, [1, 1]),
    ],
)
def test_frames_that_nobody_keeps_tell_the_size_too(
    tmp_path: Path, values: dict[str, Any], expected: list[int] | None
) -> None:
    content = spliced(SMALL, LARGE)
    written = converted(recorded(tmp_path / f"{FIRST}.mcap", content), {**OPTIONAL, **values})
    if expected is None:
        keys = [_frame(m) for m in content if m.topic == "/camera/h264" and _is_key(m)]
        expected = [sum(k < FRAMES for k in keys), sum(k >= FRAMES for k in keys)]
    assert [(r, n) for _, r, n in kinds(written)] == [(FRAMES, n) for n in expected]


def test_a_damaged_picture_tells_no_size(tmp_path: Path) -> None:
    content = spliced(SMALL, jpeg=True)
    other = next(m for m in spliced(LARGE, jpeg=True) if m.topic == "/camera/jpeg")
    datum = sensor_msgs.CompressedImage.from_cdr(other.data)
    assert datum.format
    place = [n for n, m in enumerate(content) if m.topic == "/camera/jpeg"][10]
    header = Header(Time.from_nanos(decode(content[place]).stamp_ns), "camera_optical")
    cut = sensor_msgs.CompressedImage(header, "jpeg", bytes(datum.data)[:-200]).to_bytes()
    content[place] = content[place]._replace(data=cut)
    written = converted(recorded(tmp_path / f"{FIRST}.mcap", content))
    assert [name for name, _, _ in kinds(written)] == [FIRST]
    assert written.report["samples"] == FRAMES - 1


def test_what_others_readers_open_is_sound(tmp_path: Path) -> None:
    path = recorded(tmp_path / f"{FIRST}.mcap", spliced(SMALL, LARGE))
    values = {"formats": ("edgefirst", "ncore"), **OPTIONAL}
    convert([path], tmp_path / "out", build_config(values), dataset="d")
    sequences = sorted((tmp_path / "out" / "ncore").glob("*/*.json"))
    assert [meta.stem for meta in sequences] == [FIRST, SECOND]
    assert_sound("edgefirst", tmp_path / "out" / "edgefirst" / "d")
    assert_sound("ncore", *sequences)
