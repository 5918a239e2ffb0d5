"""Frames lie on an even grid of times, and what is in them is interpolated to these."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from l5_samples import SEQUENCE, START_NS, STEP_NS, box, boxes, drive_samples, hand_over, sample, write
from test_l5_drive import compare

from edgefirst_ros.formats.format import LooksAhead, Written
from edgefirst_ros.formats.l5kit import ChunkedDataset, L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.recover import recover
from edgefirst_ros.formats.l5kit.write.boxes import track_key
from edgefirst_ros.formats.l5kit.write.grid import FrameGrid
from edgefirst_ros.formats.l5kit.write.prepare import EgoPath, Pose
from edgefirst_ros.formats.tracks.rays import yaw_of
from edgefirst_ros.model.sample import Role, Sample, SequenceInfo

MS = 1_000_000


def ahead(
    times_ms: list[float], *, speed_m_s: float = 10.0, without: tuple[int, ...] = (), rig_m_s: float = 0.0
) -> Iterator[Sample]:
    """A car that drives ahead of the rig, seen at these times but those without."""
    for number, time_ms in enumerate(times_ms):
        second = time_ms / 1000
        seen = box(
            center_x=0.0,
            center_y=0.0,
            width=1.8,
            height=1.5,
            distance_m=10.0 + (speed_m_s - rig_m_s) * second,
        )
        data = {} if number in without else {Role.BOXES_3D: boxes(seen)}
        yield sample(
            number,
            data,
            position_m=(rig_m_s * second, 0.0, 0.0),
            time_ns=START_NS + round(time_ms * MS),
        )


def milliseconds(dataset: ChunkedDataset) -> list[float]:
    return ((dataset.frames[:]["timestamp"] - START_NS) / MS).tolist()


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("rate_hz", [15, 30, 7, 12])
def test_steps_are_even_and_agents_where_they_were_then(tmp_path: Path, rate_hz: int) -> None:
    drive = [*drive_samples(0, 6.0, rate_hz=rate_hz, solid=True)]
    world = drive[0][1]
    dataset = write(tmp_path, [each for each, _ in drive])
    steps = np.diff(dataset.frames[:]["timestamp"])
    assert set(steps.tolist()) == {STEP_NS}
    assert dataset.frames[0]["timestamp"] == START_NS
    errors = compare(dataset, world)
    assert len(errors["place"]) > 100
    assert np.percentile(errors["place"], 95) < 0.02
    assert np.percentile(errors["yaw"], 50) < np.radians(1.0)
    assert np.percentile(errors["yaw"], 95) < np.radians(6.0)
    for frame in dataset.frames[:]:
        state = world.rig.state((int(frame["timestamp"]) - START_NS) / 1e9)
        np.testing.assert_allclose(frame["ego_translation"], state.position_m, atol=0.02)
        assert abs(yaw_of(frame["ego_rotation"]) - state.yaw_rad) % (2 * np.pi) < 0.003


def test_first_rows_know_the_velocity(tmp_path: Path) -> None:
    drive = [*drive_samples(0, 6.0, rate_hz=15, solid=True)]
    boxes_ = {box_.track_id: box_ for box_ in drive[0][1].boxes}
    dataset = write(tmp_path, [each for each, _ in drive])
    seen: set[int] = set()
    fast = 0
    by_number = {track_key(name): box_ for name, box_ in boxes_.items()}
    for frame in dataset.frames[:]:
        for agent in dataset.agents[slice(*frame["agent_index_interval"])]:
            if int(agent["track_id"]) not in seen:
                seen.add(int(agent["track_id"]))
                second = (int(frame["timestamp"]) - START_NS) / 1e9
                true = by_number[int(agent["track_id"])].motion.state(second).velocity_m_s[:2]
                if np.linalg.norm(true) > 2:
                    fast += 1
                    assert np.linalg.norm(agent["velocity"] - true) < 0.3 * np.linalg.norm(true)
    assert fast > 3


def test_a_moving_rig_is_interpolated_with_what_it_sees(tmp_path: Path) -> None:
    times = [0, 67, 133, 200, 267, 333, 400]
    dataset = write(tmp_path, ahead([float(t) for t in times], rig_m_s=6.0))
    assert milliseconds(dataset) == [0, 100, 200, 300, 400]
    np.testing.assert_allclose(dataset.frames[:]["ego_translation"][:, 0], [0, 0.6, 1.2, 1.8, 2.4], atol=1e-9)
    np.testing.assert_allclose(dataset.agents[:]["centroid"][:, 0], [10, 11, 12, 13, 14], atol=1e-9)
    np.testing.assert_allclose(dataset.agents[:]["velocity"], [[10, 0]] * 5, atol=1e-4)


def test_a_detection_is_placed_from_where_the_rig_was_when_it_was_made(tmp_path: Path) -> None:
    """Its own time counts, not that of the sample that it came with."""
    given = []
    for each in ahead([0.0, 100.0, 200.0, 300.0], rig_m_s=20.0, speed_m_s=20.0):
        measurement = each.companions[Role.BOXES_3D]
        placed = measurement._replace(time_ns=measurement.time_ns + 40 * MS)
        given.append(replace(each, companions={**each.companions, Role.BOXES_3D: placed}))
    agents = write(tmp_path, given).agents[:]
    # Seen 10 m ahead 40 ms later than the frame, from where the rig was 0.8 m further on by then.
    np.testing.assert_allclose(agents["centroid"][:, 0], [10.0, 12.0, 14.0, 16.0], atol=1e-6)


def test_what_was_seen_before_there_were_poses_is_left_out_alone(tmp_path: Path) -> None:
    first, *rest = ahead([0.0, 100.0, 200.0])
    now = first.companions[Role.BOXES_3D]
    old = now._replace(topic="/model/output", time_ns=START_NS - 200 * MS, datum=boxes(box(track_id="old")))
    given = [replace(first, companions={Role.MODEL: old, Role.BOXES_3D: now}), *rest]
    agents = write(tmp_path, given).agents[:]
    np.testing.assert_allclose(agents["centroid"][:, 0], [10.0, 11.0, 12.0], atol=1e-6)


def test_no_one_is_carried_on_for_long(tmp_path: Path) -> None:
    """50 ms beyond what was seen, and across gaps of half a second."""
    times = [float(t) for t in range(0, 2000, 50)]
    missing = tuple(i for i, t in enumerate(times) if not (100 <= t <= 350 or 800 <= t <= 1050 or t >= 1650))
    dataset = write(tmp_path, ahead(times, without=missing))
    shown = [len(range(*frame["agent_index_interval"])) for frame in dataset.frames[:]]
    there = [t for t, count in zip(milliseconds(dataset), shown, strict=True) if count]
    # The gap of 450 ms is bridged, that of 600 ms is not.
    assert there == [*range(100, 1101, 100), *range(1600, 2000, 100)]
    agents = dataset.agents[:]
    np.testing.assert_allclose(agents["centroid"][:, 0], 10.0 + np.array(there) / 100, atol=1e-6)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0, 503.0, 997.0, 1500.0], [0, 500, 1000, 1500]),
        ([0.0, 66.0, 133.0, 1133.0, 1200.0, 1266.0], [0, 100, 1100, 1200]),
        ([0.0, 290.0, 580.0], [0, 100, 200, 300, 400, 500]),
        ([0.0, 2000.0, 4040.0], [0, 2000, 4000]),
        ([7.0], [7]),
    ],
)
def test_where_samples_are_far_apart_only_times_next_to_them_are_frames(
    tmp_path: Path, times: list[float], expected: list[float]
) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    for each in ahead(times, speed_m_s=0.0, rig_m_s=3.0):
        hand_over(writer, each)
    (path,) = writer.close()
    dataset = ChunkedDataset(path).open()
    assert milliseconds(dataset) == expected
    np.testing.assert_allclose(
        dataset.frames[:]["ego_translation"][:, 0], 3.0 * np.array(expected) / 1000, atol=0.02
    )
    gaps = int(np.count_nonzero(np.diff(expected) != 100))
    assert bool(writer.warnings) == bool(gaps)
    if gaps:
        assert f"at {gaps} places" in writer.warnings[0]


def test_frames_without_a_pose_leave_a_hole_that_is_told(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    for number, each in enumerate(ahead([float(t) for t in range(0, 1000, 50)])):
        lost = sample(number, position_m=None, time_ns=each.time_ns)
        hand_over(writer, lost if 6 <= number < 13 else each)
    (path,) = writer.close()
    dataset = ChunkedDataset(path).open()
    assert milliseconds(dataset) == [0, 100, 200, 700, 800, 900]
    assert writer.warnings[0] == f"{SEQUENCE.name}: 4 frames left out: no ego pose is known at their times"
    assert "at 1 places" in writer.warnings[1]


def test_what_has_no_track_is_in_one_frame(tmp_path: Path) -> None:
    given = [
        sample(
            i,
            {Role.MODEL: boxes(box(track_id=""), box(track_id="", label="traffic light"))},
            time_ns=START_NS + t * MS,
        )
        for i, t in enumerate(range(0, 1000, 67))
    ]
    dataset = write(tmp_path, given)
    frames = dataset.frames[:]
    assert np.diff(frames["agent_index_interval"]).tolist() == [[1]] * len(frames)
    assert len(set(dataset.agents[:]["track_id"].tolist())) == len(frames)
    assert np.diff(frames["traffic_light_faces_index_interval"]).tolist() == [[1]] * len(frames)
    assert len(set(dataset.tl_faces[:]["traffic_light_id"].tolist())) == len(frames)


def test_a_message_that_two_samples_have_counts_once(tmp_path: Path) -> None:
    once = [*ahead([0.0, 100.0, 200.0, 300.0, 400.0])]
    twice = []
    for each in once:
        twice.append(each)
        later = sample(each.frame, time_ns=each.time_ns + 33 * MS)
        object.__setattr__(later, "companions", each.companions)
        twice.append(later)
    first, second = write(tmp_path, once, "once"), write(tmp_path, twice, "twice")
    np.testing.assert_array_equal(first.agents[:], second.agents[:])


def test_every_frame_is_on_the_disk_as_soon_as_half_a_second_followed(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    held = []
    for number, each in enumerate(ahead([float(t) for t in range(0, 3000, 50)])):
        held.append(hand_over(writer, each))
        assert writer._store is not None
        # Its own sample's successor is needed to place what is seen in it.
        assert writer._store.length("frames") == max((number * 50 - 550) // 100 + 1, 0)
        waiting = sum(not result.done() for result in held)
        assert waiting <= 24
    writer._store.close()
    found = recover(tmp_path / "ds.zarr")
    assert found.kept["frames"] == 25
    whole = write(tmp_path, ahead([float(t) for t in range(0, 3000, 50)]), "whole")
    recovered = ChunkedDataset(tmp_path / "ds.zarr").open()
    # Of sizes it has what was known by then.
    agents, expected = recovered.agents[:], whole.agents[: len(recovered.agents)]
    for column in ("centroid", "velocity", "track_id", "yaw", "label_probabilities"):
        np.testing.assert_array_equal(agents[column], expected[column])
    np.testing.assert_allclose(agents["extent"], expected["extent"], rtol=0.01)


def test_scenes_of_their_own_have_grids_of_their_own(tmp_path: Path) -> None:
    other = SequenceInfo("other", "host", START_NS)
    later = [sample(i, sequence=other, time_ns=START_NS + (5_033 + 50 * i) * MS) for i in range(5)]
    dataset = write(tmp_path, [*ahead([0.0, 60.0, 120.0]), *later])
    assert milliseconds(dataset) == [0, 100, 5033, 5133, 5233]
    assert dataset.scenes[:]["end_time"].tolist() == [START_NS + 100 * MS, START_NS + 5233 * MS]


def held_ms(root: Path, given: list[Sample], every: int = 1, **options: float) -> tuple[float, list[Written]]:
    """How much later than a sample the one is that sets it free, at most; and what is said of them all.

    But for one in ``every`` they are left out for want of time.
    """
    writer = L5KitWriter(root, "ds", L5KitOptions(**options))
    writer.begin(SEQUENCE)
    held: deque[tuple[int, Future[Written]]] = deque()
    said, longest_ns = [], 0
    for number, each in enumerate(given):
        if number % every:
            writer.pass_by(each.ego)
        else:
            held.append((each.time_ns, hand_over(writer, each)))
        while held and held[0][1].done():
            said.append(held.popleft()[1].result())
        longest_ns = max(longest_ns, each.time_ns - held[0][0] if held else 0)
    writer.close()
    return longest_ns / MS, [*said, *(result.result() for _, result in held)]


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("rate_hz", [0.0, 4.0])
def test_a_sample_is_held_until_its_frames_are_made_and_its_bytes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate_hz: float
) -> None:
    given = [each for each, _ in drive_samples(1, 4.0, rate_hz=30, solid=True)]
    longest_ms, said = held_ms(tmp_path / "soon", given, rate_hz=rate_hz)
    # Half a second that a track may be away, the way to the next frame, and two samples.
    assert longest_ms <= 500 + (1000 / rate_hz if rate_hz else 0) + 2 * 34
    monkeypatch.setattr(FrameGrid, "_needed", lambda _: 0)
    assert said == held_ms(tmp_path / "late", given, rate_hz=rate_hz)[1]


@pytest.mark.parametrize(("every", "rate_hz"), [(3, 10.0), (10, 0.0), (30, 10.0), (60, 0.0)])
def test_samples_that_are_left_out_hold_up_none_that_are_not(
    tmp_path: Path, every: int, rate_hz: float
) -> None:
    given = [each for each, _ in drive_samples(1, 4.0, rate_hz=30, solid=True)]
    longest_ms, said = held_ms(tmp_path, given, every, rate_hz=rate_hz)
    # Between the last frame of one and the first of the next, if that comes soon, a track may be in both.
    assert longest_ms <= 500 + max(100, min(every * 34, 340)) + 2 * 34
    assert isinstance(L5KitWriter(tmp_path, "other", L5KitOptions()), LooksAhead)
    # Frames lie next to the samples, each of which is in one, and the car is where it was.
    dataset = ChunkedDataset(tmp_path / "ds.zarr").open()
    assert all(each.left_out is None for each in said)
    errors = compare(dataset, drive_samples(1, 0.1, solid=True)[0][1])
    assert np.percentile(errors["place"], 95) < 0.05


def rows_by_frame(root: Path, role: Role, of: Sample, at_ns: int, rate_hz: float = 10.0) -> list[int]:
    """Rows that each frame of a drive of 2 s has of one message, measured so long after the start."""
    given = []
    for number in range(21):
        time_ns = START_NS + number * 100 * MS
        plain = sample(number, time_ns=time_ns)
        if time_ns <= START_NS + at_ns < time_ns + 100 * MS:
            measured = of.companions[role]._replace(time_ns=START_NS + at_ns)
            plain = replace(plain, companions={role: measured})
        given.append(plain)
    dataset = write(root, given, rate_hz=rate_hz)
    return [int(count) for count in np.diff(dataset.frames[:]["agent_index_interval"])[:, 0]]


@pytest.mark.parametrize(("more_ns", "shown"), [(0, [9]), (1, [10])])
def test_what_has_no_track_is_in_the_nearest_frame(tmp_path: Path, more_ns: int, shown: list[int]) -> None:
    of = sample(0, {Role.MODEL: boxes(box(track_id=""))})
    rows = rows_by_frame(tmp_path, Role.MODEL, of, 950 * MS + more_ns)
    assert [number for number, count in enumerate(rows) if count] == shown


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0, 300.0], [0, 100, 200, 300]),
        ([0.0, 301.0], [0, 300]),  # only what is next to a sample
        ([0.0, 450.0], [0, 400]),
        ([0.0, 451.0], [0]),
        ([0.0, 50.0, 1000.0], [0, 1000]),
        ([0.0, 51.0, 1000.0], [0, 100, 1000]),
    ],
)
def test_how_long_a_gap_is_bridged(tmp_path: Path, times: list[float], expected: list[float]) -> None:
    assert milliseconds(write(tmp_path, ahead(times, speed_m_s=0.0))) == expected


@pytest.mark.parametrize(
    ("times", "passed_ms", "expected"),
    [
        ([0.0, 60.0], 99.0, [0]),
        ([0.0, 60.0], 100.0, [0, 100]),  # the frame next to a sample needs no other on its far side
        ([0.0, 50.0], 300.0, [0]),  # half a period away is not next to it
        ([0.0, 50.1], 300.0, [0, 100]),
    ],
)
def test_a_sample_that_is_passed_by_bounds_frames(
    tmp_path: Path, times: list[float], passed_ms: float, expected: list[float]
) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    for each in ahead(times, speed_m_s=0.0):
        hand_over(writer, each)
    writer.pass_by(sample(2, time_ns=START_NS + round(passed_ms * MS)).ego)
    (path,) = writer.close()
    assert milliseconds(ChunkedDataset(path).open()) == expected


@pytest.mark.parametrize("second", [1.0, 1.25, 1.5, 1.9])
def test_a_rig_that_accelerates_is_on_its_parabola_between_two_poses(second: float) -> None:
    path = EgoPath()
    for at in (0.0, 1.0, 2.0, 4.0):
        path.add(round(at * 1e9), Pose(np.eye(3), np.array([at**2, -at, 0.0]), None))
    pose = path.at(round(second * 1e9))
    assert pose is not None
    np.testing.assert_allclose(pose.position_m, [second**2, -second, 0.0], atol=1e-9)
