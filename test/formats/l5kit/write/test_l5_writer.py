"""The writer: what is in the arrays, what is refused, and that the same samples give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
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

from edgefirst_ros.formats.format import LeftOut, Written
from edgefirst_ros.formats.l5kit import ChunkedDataset, L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import Records
from edgefirst_ros.formats.l5kit.write import prepare
from edgefirst_ros.formats.l5kit.write.boxes import Setting
from edgefirst_ros.formats.l5kit.write.clusters import highest, sensor_points
from edgefirst_ros.formats.zarr2.array import ArraySpec
from edgefirst_ros.model.errors import OutputExists, WriteError
from edgefirst_ros.model.sample import Measurement, Role, Sample, SequenceInfo


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
    given = [each for each, _ in drive_samples(3, 4.0, lidar=True)]
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
    assert dataset.points is not None
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
    sweep = cloud(x=np.ones(4, np.float32), y=np.arange(4, dtype=np.float32), z=np.zeros(4, np.float32))
    data = {
        Role.MODEL: boxes(box(), box(track_id="b", distance_m=0.0)),
        Role.LIDAR_POINTS: sweep,
        Role.RADAR_TARGETS: cloud(x=np.zeros(1)),
    }
    first = hand_over(writer, sample(0, data))
    # 30 ms later is beyond the rate, but what follows it is interpolated from there; 10 ms later nothing is.
    between = hand_over(writer, sample(1, data, time_ns=START_NS + 10_000_000))
    second = hand_over(writer, sample(2, {Role.MODEL: boxes(box())}, time_ns=START_NS + 30_000_000))
    last = hand_over(writer, sample(3, data, time_ns=START_NS + STEP_NS + 20_000_000))
    assert not any(each.done() for each in (first, between, second, last)), "frames wait for what follows"
    writer.begin(SequenceInfo("another", "host", START_NS))
    written = first.result()
    assert written.topics == ("/lidar/points", "/model/output")
    assert written.refused == (
        ("/model/output", "box without distance"),
        ("/radar/targets", "point cloud has no field y"),
    )
    frame = schema.FRAME.itemsize + schema.POINT_SPAN.itemsize
    assert written.bytes == frame + schema.AGENT.itemsize + 4 * schema.POINT.itemsize
    assert written.items == 1
    left_out = between.result().left_out
    assert left_out is not None
    assert (left_out.kind, left_out.reason) == ("skipped", "not needed for 10 frames a second")
    assert (between.result().topics, between.result().bytes) == ((), 0)
    assert second.result().topics == ("/model/output",)
    assert (second.result().items, second.result().left_out) == (0, None)
    assert (last.result().topics, last.result().items) == (("/lidar/points", "/model/output"), 1)
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
        box(label="signal", track_id="y"),
        box(track_id="z"),
    )
    dataset = write(tmp_path, [sample(7, {Role.MODEL: lit})], lights={"Signal": "INACTIVE"})
    faces = dataset.tl_faces[:]
    assert faces["face_id"].tolist() == ["tfd0c5087:r", "f00000007.001:-", "tfc0c4ef4:-"]
    assert faces["traffic_light_id"].tolist() == ["tfd0c5087", "f00000007.001", "tfc0c4ef4"]
    assert faces["traffic_light_face_status"].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert len(dataset.agents) == 1
    # A class that is given a label is an agent, whatever it is called.
    dataset = write(tmp_path, [sample(7, {Role.MODEL: lit})], "agent", labels={"traffic light": "DONTCARE"})
    assert len(dataset.tl_faces) == 1
    assert sorted(dataset.agents["label_probabilities"].argmax(axis=1).tolist()) == [1, 2, 3]


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
        {"sizes_m": {"CAR": (0, 1, 1)}},
        {"sources": ("model", "model")},
        {"sources": ("lidar_clusters",)},
        {"points": "some"},
        {"speed": 1},
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        L5KitOptions(**options)


def test_roles_are_what_the_frames_are_made_of() -> None:
    everything = L5KitOptions().roles
    assert {Role.MODEL, Role.BOXES_3D, Role.LIDAR_POINTS, Role.RADAR_TARGETS} < everything
    assert not {Role.RADAR_CUBE, Role.CAMERA, Role.LIDAR_CLUSTERS} & everything
    # Traffic lights come from the model even when agents do not.
    assert L5KitOptions(sources=("boxes3d",), points="none").roles == {Role.BOXES_3D, Role.MODEL}
    assert Role.LIDAR_POINTS not in L5KitOptions(points="radar").roles


def test_points_are_the_highest_of_their_cell_in_the_rigs_frame(tmp_path: Path) -> None:
    sweep = cloud(
        x=np.array([4.05, 4.15, 4.05, -3.0, 400.0, np.nan], np.float32),
        y=np.array([0.05, 0.15, 0.05, 2.0, 0.0, 0.0], np.float32),
        z=np.array([-2.0, -1.0, -1.5, 0.123, 0.0, 0.0], np.float32),
    )
    targets = cloud(x=np.array([-1.0], np.float32), y=np.zeros(1, np.float32), z=np.zeros(1, np.float32))
    data = {Role.LIDAR_POINTS: sweep, Role.RADAR_TARGETS: targets}
    dataset = write(tmp_path, [sample(0, data), sample(1), sample(2, data)])
    assert dataset.points is not None
    assert dataset.point_spans is not None
    assert dataset.point_spans["point_index_interval"].tolist() == [[0, 3], [3, 3], [3, 6]]
    points = dataset.points[:3]
    assert points["position_cm"].tolist() == [[-200, 200, 212], [515, 15, 100], [400, 0, 50]]
    assert points["sensor"].tolist() == [schema.LIDAR, schema.LIDAR, schema.RADAR]
    np.testing.assert_array_equal(dataset.points[3:], points)


@pytest.mark.parametrize(("points", "sensors"), [("lidar", {0}), ("radar", {1}), ("none", set())])
def test_points_are_optional(tmp_path: Path, points: str, sensors: set[int]) -> None:
    spot = cloud(x=np.ones(1, np.float32), y=np.zeros(1, np.float32), z=np.zeros(1, np.float32))
    dataset = write(tmp_path, [sample(0, {Role.LIDAR_POINTS: spot, Role.RADAR_TARGETS: spot})], points=points)
    assert (set() if dataset.points is None else set(dataset.points["sensor"].tolist())) == sensors
    assert dataset.path is not None
    assert [*dataset.path.glob("point*")] == [] or points != "none"


def test_points_of_a_frame_are_bounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    xyz = rng.uniform(-50, 50, (3, 5000)).astype(np.float32)
    sweep = cloud(x=xyz[0], y=xyz[1], z=xyz[2])
    dataset = write(tmp_path, [sample(0, {Role.LIDAR_POINTS: sweep})], points_per_frame=300)
    assert dataset.points is not None
    kept = dataset.points["position_cm"]
    assert len(kept) == 300
    # Spread over all that there was, not one side of it.
    assert (np.ptp(kept[:, :2], axis=0) > 9000).all()


def test_any_number_of_threads_gives_the_same_bytes(tmp_path: Path) -> None:
    given = [each for each, _ in drive_samples(1, 2.0, lidar=True)]
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


def test_what_is_there_may_be_appended_to(tmp_path: Path) -> None:
    write(tmp_path, simple(5))
    with pytest.raises(OutputExists, match="append"):
        L5KitWriter(tmp_path, "ds", L5KitOptions())


def test_what_is_unfinished_may_not_be_appended_to(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(sample(0)))
    writer.abort()
    with pytest.raises(OutputExists, match="recover"):
        L5KitWriter(tmp_path, "ds", L5KitOptions(append=True))


def test_scenes_of_two_recordings_in_one_run_and_in_two_are_the_same(tmp_path: Path) -> None:
    second = SequenceInfo("second", "other", START_NS)
    spot = cloud(x=np.ones(1, np.float32), y=np.zeros(1, np.float32), z=np.zeros(1, np.float32))
    later = [
        sample(i, {Role.LIDAR_POINTS: spot, Role.MODEL: boxes(box())}, sequence=second) for i in range(4)
    ]
    once = write(tmp_path, [*simple(5), *later], "once")
    write(tmp_path, simple(5), "twice")
    before = contents(tmp_path / "twice.zarr")
    writer = L5KitWriter(tmp_path, "twice", L5KitOptions(append=True))
    writer.begin(second)
    for each in later:
        writer.write(writer.prepare(each))
        assert contents(tmp_path / "twice.zarr") == before
    writer.close()
    assert contents(tmp_path / "twice.zarr") == contents(tmp_path / "once.zarr")
    assert once.scenes["frame_index_interval"].tolist() == [[0, 5], [5, 9]]
    assert once.point_spans is not None
    assert once.point_spans["point_index_interval"].tolist() == [[0, 0]] * 5 + [[i, i + 1] for i in range(4)]


@pytest.mark.parametrize("chunk", [1, 2, 5, 6])
def test_appending_shares_whole_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    for name, spec in schema.SPECS.items():
        monkeypatch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (chunk,), spec.compressor))
    second = SequenceInfo("second", "other", START_NS)
    write(tmp_path, [*simple(5), *simple(3, sequence=second)], "once")
    write(tmp_path, simple(5), "twice")
    write(tmp_path, simple(3, sequence=second), "twice", append=True)
    assert contents(tmp_path / "twice.zarr") == contents(tmp_path / "once.zarr")


def test_appending_to_nothing_begins_a_dataset(tmp_path: Path) -> None:
    assert len(write(tmp_path, simple(2), append=True).frames) == 2


def test_scene_of_the_same_name_is_refused(tmp_path: Path) -> None:
    write(tmp_path, simple(2))
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions(append=True))
    with pytest.raises(OutputExists, match=SEQUENCE.name):
        writer.begin(SEQUENCE)
    writer.abort()
    assert len(ChunkedDataset(tmp_path / "ds.zarr").open().frames) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["ds.zarr"]


def test_dataset_packed_otherwise_is_not_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, simple(2))
    for name, spec in schema.SPECS.items():
        monkeypatch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (9,), spec.compressor))
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions(append=True))
    with pytest.raises(ValueError, match="merge others"):
        writer.begin(SequenceInfo("second", "other", START_NS))


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


# ---------------------------------------------------------------- no more work than frames need


@pytest.mark.parametrize("spread", [1, 30, 1 << 45])
@pytest.mark.parametrize("count", [0, 1, 2, 700])
def test_of_every_cell_the_first_of_its_highest_points_is_kept(count: int, spread: int) -> None:
    rng = np.random.default_rng(count)
    cell = rng.integers(-3, 4, (count, 2)) * spread
    height = np.round(rng.normal(size=count), 1)
    height[rng.random(count) < 0.2] = -0.0
    best: dict[tuple[int, int], int] = {}
    for index, (x, y) in enumerate(cell.tolist()):
        if (x, y) not in best or height[index] > height[best[x, y]]:
            best[x, y] = index
    assert highest(*cell.T, height).tolist() == [best[key] for key in sorted(best)]


def test_points_are_made_for_frames_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three samples a frame, every sweep in three of them, as a camera of 30 Hz and a lidar of 10 have it."""
    made: list[int] = []

    def counted(measurement: Measurement, sensor: int, setting: Setting) -> Records:
        made.append(measurement.time_ns)
        return sensor_points(measurement, sensor, setting)

    monkeypatch.setattr(prepare, "sensor_points", counted)
    given = [each for each, _ in drive_samples(1, 2.0, rate_hz=30, lidar=True)]
    sweeps = [given[1 + 3 * (number // 3)].companions[Role.LIDAR_POINTS] for number in range(len(given))]
    given = [
        replace(each, companions={**each.companions, Role.LIDAR_POINTS: sweep})
        for each, sweep in zip(given, sweeps, strict=True)
    ]
    said: dict[str, list[Written]] = {}
    for name in ("lazy", "whole"):
        writer = L5KitWriter(tmp_path, name, L5KitOptions())
        writer.begin(given[0].sequence)
        results = []
        for each in given:
            prepared = writer.prepare(each)
            if name == "whole":
                assert {len(sweep.points) > 0 for sweep in prepared.clouds.values()} == {True}
            results.append(writer.write(prepared))
        writer.close()
        said[name] = [each.result() if isinstance(each, Future) else each for each in results]
        if name == "lazy":
            assert 10 <= len(made) <= len(ChunkedDataset(tmp_path / "lazy.zarr").open().frames)
    assert contents(tmp_path / "lazy.zarr") == contents(tmp_path / "whole.zarr")
    assert said["lazy"] == said["whole"]
