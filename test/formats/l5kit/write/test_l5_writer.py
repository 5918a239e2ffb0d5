"""The writer: what is in the arrays, what is refused, and that the same samples give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pymap3d
import pytest
from l5_samples import (
    ORIGIN,
    SEQUENCE,
    START_NS,
    STEP_NS,
    box,
    boxes,
    cloud,
    drive_samples,
    hand_over,
    sample,
    write,
)
from oracle import assert_sound
from places import contents
from pydantic import ValidationError

from edgefirst_ros.formats.format import NO_FILE, LeftOut
from edgefirst_ros.formats.l5kit import ChunkedDataset, L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.zarr2 import ArraySpec
from edgefirst_ros.model.errors import WriteError
from edgefirst_ros.model.sample import Role, Sample, SequenceInfo


def simple(count: int, *, sequence: SequenceInfo = SEQUENCE, rate: int = 10) -> Iterator[Sample]:
    """A car driving ahead of the ego, both at 10 m/s."""
    for frame in range(count):
        time_ns = START_NS + frame * 1_000_000_000 // rate
        yield sample(
            frame,
            {Role.MODEL: boxes(box())},
            position_m=(10.0 * frame / rate, 0.0, 0.5),
            sequence=sequence,
            time_ns=time_ns,
        )


def test_arrays_of_a_short_scene(tmp_path: Path) -> None:
    dataset = write(tmp_path, simple(3))
    assert dataset.path == tmp_path / "ds.zarr"
    (scene,) = dataset.scenes
    assert scene["frame_index_interval"].tolist() == [0, 3]
    assert (scene["host"], scene["start_time"], scene["end_time"]) == (
        "maivin",
        START_NS,
        START_NS + 2 * STEP_NS,
    )
    frames = dataset.frames[:]
    assert frames["timestamp"].tolist() == [START_NS, START_NS + STEP_NS, START_NS + 2 * STEP_NS]
    np.testing.assert_array_equal(frames["ego_translation"], [[0, 0, 0.5], [1, 0, 0.5], [2, 0, 0.5]])
    np.testing.assert_array_equal(frames["ego_rotation"], [np.eye(3)] * 3)
    assert frames["agent_index_interval"].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert frames["traffic_light_faces_index_interval"].tolist() == [[0, 0]] * 3
    agents = dataset.agents[:]
    np.testing.assert_allclose(agents["centroid"], [[22.0, 0], [23.0, 0], [24.0, 0]])
    # Seen 4 m wide from behind, as no car is, it is as wide as cars are at most, and in proportion.
    np.testing.assert_allclose(agents["extent"], [[5.75, 2.3, 2.0]] * 3, rtol=1e-6)
    np.testing.assert_allclose(agents["label_probabilities"][:, [1, 3]], [[0.25, 0.75]] * 3)
    assert len(dataset.tl_faces) == 0


def test_root_attributes(tmp_path: Path) -> None:
    attributes = write(tmp_path, simple(1)).attributes
    assert attributes["format_version"] == 2
    assert attributes["labels"] == [*schema.LABELS]
    assert attributes["scene_names"] == [SEQUENCE.name]
    x, y, z = pymap3d.geodetic2ecef(ORIGIN.latitude_deg, ORIGIN.longitude_deg, ORIGIN.altitude_m)
    np.testing.assert_allclose(attributes["scene_origins_ecef_m"], [[x, y, z]])
    assert attributes["scene_origins_lat_lon_alt"] == [[45.5017, -73.5673, 35.0]]


def test_conformance_checker_finds_nothing(tmp_path: Path) -> None:
    given = [each for each, _ in drive_samples(3, 4.0)]
    other = [each for each, _ in drive_samples(4, 2.0, solid=True)]
    second = SequenceInfo("second", "h" * 40, START_NS)
    moved = [
        sample(
            s.frame, {r: m.datum for r, m in s.companions.items()}, sequence=second, calibration=s.calibration
        )
        for s in other
    ]
    lit = boxes(
        box(label="traffic_light_red", track_id="x", distance_m=0.0), box(label="traffic light", track_id="")
    )
    lights = [sample(i, {Role.MODEL: lit}, sequence=SequenceInfo("third", "", START_NS)) for i in range(3)]
    dataset = write(tmp_path, [*given, *moved, *lights])
    assert dataset.path is not None
    assert_sound("l5kit", dataset.path)


def test_frames_come_at_the_rate_asked_for(tmp_path: Path) -> None:
    times = (np.array([s.time_ns for s in simple(31, rate=30)]) - START_NS) / 1e9
    for rate, expected in ((10.0, times[::3]), (0.0, times), (1.0, times[::30])):
        frames = write(tmp_path, simple(31, rate=30), f"r{rate}", rate_hz=rate).frames[:]
        np.testing.assert_allclose((frames["timestamp"] - START_NS) / 1e9, expected, atol=1e-6)


def test_written_says_what_is_in_the_output(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    data = {
        Role.MODEL: boxes(box(), box(track_id="b", distance_m=0.0)),
        Role.LIDAR_POINTS: cloud(x=np.zeros(1)),
    }
    first = hand_over(writer, sample(0, data))
    # 30 ms later is beyond the rate, but what follows it is interpolated from there; 10 ms later nothing is.
    between = hand_over(writer, sample(1, data, time_ns=START_NS + 10_000_000))
    second = hand_over(writer, sample(2, {Role.MODEL: boxes(box())}, time_ns=START_NS + 30_000_000))
    last = hand_over(writer, sample(3, data, time_ns=START_NS + STEP_NS + 20_000_000))
    assert not any(each.done() for each in (first, between, second, last)), "frames wait for what follows"
    writer.begin(SequenceInfo("another", "host", START_NS))
    written = first.result()
    assert written.topics == ("/model/output",)
    assert written.refused == (
        ("/model/output", "box without distance"),
        ("/lidar/points", NO_FILE),
    )
    assert written.bytes == schema.FRAME.itemsize + schema.AGENT.itemsize
    assert written.items == 1
    left_out = between.result().left_out
    assert left_out is not None
    assert (left_out.kind, left_out.reason) == ("skipped", "not needed for 10 frames a second")
    assert (between.result().topics, between.result().bytes) == ((), 0)
    assert second.result().topics == ("/model/output",)
    assert (second.result().items, second.result().left_out) == (0, None)
    assert (last.result().topics, last.result().items) == (("/model/output",), 1)
    writer.abort()


def test_what_an_output_given_up_holds_back_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    held = [hand_over(writer, each) for each in simple(3)]
    assert writer._store is not None

    def full(name: str, rows: np.ndarray) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer._store, "append", full)
    writer.abort()
    for each in held:
        with pytest.raises(WriteError, match="given up"):
            each.result(timeout=0)


def test_samples_without_a_pose_are_counted_and_no_frames(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    lost = sample(0, {Role.MODEL: boxes(box())}, position_m=None)
    first = hand_over(writer, lost)
    nowhere = sample(1, {Role.MODEL: boxes(box())}, position_m=(float("nan"), 0.0, 0.0))
    second = hand_over(writer, nowhere)
    writer.write(writer.prepare(sample(2)))
    writer.begin(SequenceInfo("empty", "host", START_NS))
    written = first.result()
    assert written.refused == (("/model/output", "no ego pose at the frame's time"),)
    assert written.left_out is not None
    assert second.result().topics == ()
    (path,) = writer.close()
    assert writer.warnings == (f"{SEQUENCE.name}: 2 frames left out: no ego pose is known at their times",)
    dataset = ChunkedDataset(path).open()
    assert dataset.scenes["start_time"].tolist() == [START_NS + 2 * STEP_NS]
    assert [note.name for note in dataset.notes] == [SEQUENCE.name]


def test_traffic_lights_become_faces_and_no_agents(tmp_path: Path) -> None:
    lit = boxes(
        box(label="Traffic-Light_Red", track_id="x"),
        box(label="traffic light", track_id=""),
        box(label="traffic light off", track_id="y"),
        box(track_id="z"),
    )
    dataset = write(tmp_path, [sample(7, {Role.MODEL: lit})])
    faces = dataset.tl_faces[:]
    assert faces["face_id"].tolist() == ["tfd0c5087:r", "f00000007.001:-", "tfc0c4ef4:-"]
    assert faces["traffic_light_id"].tolist() == ["tfd0c5087", "f00000007.001", "tfc0c4ef4"]
    assert faces["traffic_light_face_status"].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert len(dataset.agents) == 1
    # A class that is given a label is an agent, whatever it is called.
    dataset = write(tmp_path, [sample(7, {Role.MODEL: lit})], "agent", labels={"traffic light": "DONTCARE"})
    assert len(dataset.tl_faces) == 2
    assert sorted(dataset.agents["label_probabilities"].argmax(axis=1).tolist()) == [2, 3]


def test_labels_are_configurable(tmp_path: Path) -> None:
    data = {
        Role.MODEL: boxes(box(label="Fork_Lift"), box(track_id="b", center_x=0.7, label="car", score=2.0))
    }
    dataset = write(tmp_path, [sample(0, data)], labels={"fork lift": "OTHER_VEHICLE", "car": "VAN"})
    probabilities = dataset.agents["label_probabilities"]
    assert probabilities.argmax(axis=1).tolist() == [9, 4]
    assert probabilities[1].tolist() == [0.0] * 4 + [1.0] + [0.0] * 12


@pytest.mark.parametrize(
    "options",
    [
        {"rate_hz": -1},
        {"labels": {"car": "AUTO"}},
        {"sources": ("model", "model")},
        {"sources": ("lidar_clusters",)},
        {"speed": 1},
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        L5KitOptions(**options)


def test_roles_are_what_the_frames_are_made_of() -> None:
    assert L5KitOptions().roles == {Role.MODEL, Role.BOXES_3D}
    # Traffic lights come from the model even when agents do not.
    assert L5KitOptions(sources=("boxes3d",)).roles == {Role.BOXES_3D, Role.MODEL}
    assert L5KitOptions(sources=("model",)).roles == {Role.MODEL}


def test_any_number_of_threads_gives_the_same_bytes(tmp_path: Path) -> None:
    given = [each for each, _ in drive_samples(1, 2.0)]
    writer = L5KitWriter(tmp_path, "threads", L5KitOptions())
    with ThreadPoolExecutor(4) as pool:
        prepared = [*pool.map(writer.prepare, given)]
    writer.begin(given[0].sequence)
    for each in prepared:
        writer.write(each)
    writer.close()
    write(tmp_path, given, "once")
    assert contents(tmp_path / "threads.zarr") == contents(tmp_path / "once.zarr")


def test_chunks_are_cut_where_l5kit_cuts_them(tmp_path: Path) -> None:
    dataset = write(tmp_path, simple(2))
    assert dataset.path is not None
    for name, chunk in (
        ("scenes", 10_000),
        ("frames", 10_000),
        ("agents", 20_000),
        ("traffic_light_faces", 10_000),
    ):
        meta = json.loads((dataset.path / name / ".zarray").read_text())
        assert (meta["chunks"], meta["filters"], meta["order"]) == ([chunk], None, "C")
        assert meta["compressor"] == {
            "id": "blosc",
            "cname": "lz4",
            "clevel": 5,
            "shuffle": 1,
            "blocksize": 0,
        }


def test_memory_does_not_grow_with_the_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, spec in schema.SPECS.items():
        monkeypatch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (7,), spec.compressor))
    store = GrowingDataset(tmp_path / "x.zarr")
    size = {name: array._rows.nbytes for name, array in store.arrays.items()}
    assert size == {name: 7 * spec.dtype.itemsize for name, spec in schema.SPECS.items()}
    store.discard()
    dataset = write(tmp_path, simple(40))
    assert dataset.path is not None
    assert len([*(dataset.path / "agents").glob("[0-9]*")]) == 6
    np.testing.assert_allclose(dataset.agents["centroid"][:, 0], 22.0 + np.arange(40))


# ---------------------------------------------------------------- what is there already


# ---------------------------------------------------------------- order and failure


def test_samples_out_of_turn_are_refused(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    with pytest.raises(WriteError, match="not being written"):
        writer.write(writer.prepare(sample(0)))
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(sample(1)))
    for late in (sample(1), sample(0)):
        said = writer.write(writer.prepare(late))
        assert (said.topics, said.left_out) == ((), LeftOut("unusable", "not later than the sample before"))
    with pytest.raises(WriteError, match="begin each sequence before its samples"):
        writer.write(writer.prepare(sample(2, sequence=SequenceInfo("other", "h", START_NS))))
    writer.close()


def test_disk_full_is_said_and_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    given = [*simple(3)]
    for each in given[:2]:
        writer.write(writer.prepare(each))

    def full(name: str, rows: np.ndarray) -> int:
        raise OSError(28, "No space left on device")

    assert writer._store is not None
    monkeypatch.setattr(writer._store, "append", full)
    with pytest.raises(WriteError, match="No space left on device; what is committed stays"):
        writer.begin(SequenceInfo("another", "host", START_NS))
    with pytest.raises(WriteError, match="not being written"):
        writer.close()
    assert (tmp_path / "ds.zarr.part").is_dir()


def test_name_is_made_safe(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path / "deep" / "er", "../../evil/..", L5KitOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(sample(0)))
    (path,) = writer.close()
    assert path.parent == tmp_path / "deep" / "er"
