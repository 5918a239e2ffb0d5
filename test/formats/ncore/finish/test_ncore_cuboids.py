"""Cuboids have the heading and size of their tracks, solved from the journal when a sequence is finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from ncoremade import CALIBRATION, ORIGIN, SEQUENCE, START_NS, observation
from ncoreread import Sequence as Read
from scipy.spatial.transform import Rotation

from edgefirst_ros.formats.ncore.finish.cuboids import CuboidTable
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.recover import recover
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.formats.tracks.solver import Heading
from edgefirst_ros.formats.zarr2 import json_bytes
from edgefirst_ros.model.detection import Box, Detections, ModelInfo
from edgefirst_ros.model.sample import Calibration, EgoPose, Role

TO_OPTICAL = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Forward, left, up of the camera's body to right, down, ahead."""


@dataclass(frozen=True)
class Truth:
    """An object: place and heading over time, size."""

    place: Callable[[float], tuple[float, float]]
    heading: Callable[[float], float]
    size: tuple[float, float, float] = (4.2, 1.7, 1.5)
    label: str = "car"
    track: str = "a-track"
    lifetime: int = 3


def rig(second: float) -> EgoPose:
    """A circle of 30 m at 9 m/s."""
    angle = 0.3 * second
    return EgoPose(
        START_NS + round(second * 1e9),
        origin=ORIGIN,
        position_m=(30 * np.sin(angle), 30 * (1 - np.cos(angle)), 0.0),
        rotation_xyzw=(0.0, 0.0, float(np.sin(angle / 2)), float(np.cos(angle / 2))),
    )


def parked(second: float) -> EgoPose:
    """A rig that stands still."""
    return replace(rig(0.0), time_ns=START_NS + round(second * 1e9))


def seen(truth: Truth, pose: EgoPose, second: float, frame: str) -> Box:
    """What fusion sends: the middle, and how wide and high the object looks in that frame."""
    _x, _y, z, w = pose.rotation_xyzw  # type: ignore[misc]
    yaw = 2 * np.arctan2(z, w)
    ahead = Rotation.from_euler("z", yaw).as_matrix()
    middle = np.array([*truth.place(second), truth.size[2] / 2]) - pose.position_m  # type: ignore[operator]
    mount = (
        CALIBRATION.transforms[frame].translation_m if frame in CALIBRATION.transforms else (0.0, 0.0, 0.0)
    )
    local = ahead.T @ middle - mount
    turned = truth.heading(second) - yaw
    length, width, height = truth.size
    wide = length * abs(np.sin(turned)) + width * abs(np.cos(turned))
    if frame == "camera_optical":
        local = TO_OPTICAL @ local
        center = (local[0], local[1], local[2])
    else:
        center = (-local[1], -local[2], local[0])
    return Box(
        center[0],
        center[1],
        wide,
        height,
        truth.label,
        0.9,
        center[2],
        0.0,
        truth.track,
        truth.lifetime,
        START_NS,
    )


def written(
    root: Path,
    objects: Sequence[Truth],
    *,
    seconds: float = 3.0,
    pose: Callable[[float], EgoPose] | None = rig,
    frame: str = "base_link",
    calibration: Calibration = CALIBRATION,
    kill: bool = False,
) -> Read:
    writer = NCoreWriter(root, NCoreOptions())
    writer.begin(SEQUENCE)
    for step in range(round(seconds * 15)):
        second = step / 15
        at = (pose or rig)(second)
        if pose is not None:
            writer.pose(at)
        datum = Detections(tuple(seen(truth, at, second, frame) for truth in objects), ())
        sent = observation(
            Role.BOXES_3D, "/fusion/boxes3d", at.time_ns, datum, frame, calibration=calibration
        )
        writer.write(writer.prepare(sent))
    if kill:
        writer.abort()
        recover(root / SEQUENCE.name)
    else:
        writer.close()
    return Read(root / SEQUENCE.name)


def cuboids(sequence: Read) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sequence.attributes("cuboids/default/cuboids")["cuboid_track_observations"]
    return found


def basis(sequence: Read) -> list[Heading]:
    return [Heading(each) for each in sequence.array("cuboids/default/generic_data/heading_basis").tolist()]


def headings(sequence: Read, pose: Callable[[float], EgoPose] = rig, frame: str = "base_link") -> np.ndarray:
    """In the world, as NCore's own code turns a box: 'xyz' Euler angles to the reference frame."""
    yaw = []
    for each in cuboids(sequence):
        x, y, z, w = pose((each["timestamp_us"] - START_NS // 1000) / 1e6).rotation_xyzw  # type: ignore[misc]
        turned = Rotation.from_euler("xyz", each["bbox3"]["rot"]).as_matrix()
        to_rig = TO_OPTICAL.T if frame == "camera_optical" else np.eye(3)
        axes = Rotation.from_quat((x, y, z, w)).as_matrix() @ to_rig @ turned
        np.testing.assert_allclose(axes[:, 2], [0, 0, 1], atol=1e-9)  # upright in the world
        yaw.append(np.arctan2(axes[1, 0], axes[0, 0]))
    return np.array(yaw)


def off_deg(found: np.ndarray, expected: np.ndarray | float) -> np.ndarray:
    return np.degrees(np.abs((found - expected + np.pi) % (2 * np.pi) - np.pi))


def crossing(second: float) -> tuple[float, float]:
    return 25.0, -10.0 + 8.0 * second


@pytest.mark.parametrize("frame", ["base_link", "mast", "camera_optical"])
def test_a_crossing_bus_is_one_from_its_first_cuboid_on(tmp_path: Path, frame: str) -> None:
    bus = Truth(crossing, lambda _: np.pi / 2, (10.5, 2.5, 3.2), "bus")
    sequence = written(tmp_path, [bus], frame=frame)
    assert off_deg(headings(sequence, frame=frame), np.pi / 2).max() < 0.5
    assert set(basis(sequence)) == {Heading.MOTION}
    dims = np.array([each["bbox3"]["dim"] for each in cuboids(sequence)])
    np.testing.assert_allclose(dims, [bus.size] * len(dims), rtol=0.06)
    assert len(np.unique(dims, axis=0)) == 1, "an object does not grow"
    assert {each["source"] for each in cuboids(sequence)} == {"AUTOLABEL"}
    assert {each["track_id"] for each in cuboids(sequence)} == {"a-track"}


def test_who_turns_and_stops_keeps_the_heading(tmp_path: Path) -> None:
    """A quarter of a circle of 6 m at 6 m/s, then a second at rest."""
    angle = np.pi / 2

    def place(second: float) -> tuple[float, float]:
        turned = min(second, angle)
        return 20 + 6 * float(np.sin(turned)), 6 * (1 - float(np.cos(turned)))

    car = Truth(place, lambda second: min(second, angle))
    sequence = written(tmp_path, [car], pose=parked)
    second = np.arange(45) / 15
    off = off_deg(headings(sequence, parked), np.minimum(second, angle))
    assert np.median(off[:23]) < 1.0
    assert off.max() < 10.0
    assert set(basis(sequence)) == {Heading.MOTION, Heading.HELD}
    dims = np.array([each["bbox3"]["dim"] for each in cuboids(sequence)])
    np.testing.assert_allclose(dims[0], car.size, rtol=0.05)


def test_who_never_moves_lies_as_the_views_from_several_sides_say(tmp_path: Path) -> None:
    heading = np.radians(70.0)
    van = Truth(lambda _: (45.0, 20.0), lambda _: heading, (5.6, 2.1, 2.2), "van")
    sequence = written(tmp_path, [van], seconds=4.0)
    assert set(basis(sequence)) == {Heading.VIEWS}
    off = off_deg(headings(sequence), heading)
    assert np.minimum(off, 180.0 - off).max() < 3.0
    np.testing.assert_allclose(cuboids(sequence)[0]["bbox3"]["dim"], van.size, rtol=0.1)


@pytest.mark.parametrize(("heading", "across"), [(0.0, False), (np.pi / 2, True)])
def test_without_anything_to_tell_it_lies_as_it_looks(tmp_path: Path, heading: float, across: bool) -> None:
    for name, pose in (("still", parked), ("blind", None)):
        car = Truth(lambda _: (20.0, 3.0), lambda _: heading)
        sequence = written(tmp_path / name, [car], pose=pose, seconds=1.0)
        assert set(basis(sequence)) == {Heading.ASSUMED}
        for each in cuboids(sequence):
            np.testing.assert_allclose(each["bbox3"]["rot"], [0, 0, np.pi / 2 if across else 0.0], atol=1e-9)
            length, width, height = each["bbox3"]["dim"]
            assert (length, width, height) == pytest.approx((4.5, 1.8 if across else 1.7, 1.5), abs=0.11)


def test_in_an_optical_frame_what_is_assumed_stands_upright(tmp_path: Path) -> None:
    car = Truth(lambda _: (20.0, 3.0), lambda _: np.pi / 2)
    sequence = written(tmp_path, [car], pose=parked, seconds=1.0, frame="camera_optical")
    assert off_deg(headings(sequence, parked, "camera_optical"), np.pi / 2).max() < 1e-6


def test_numbers_given_anew_in_every_message_are_no_tracks(tmp_path: Path) -> None:
    """Two cars in turn called 0: joined they would be one that leaps to and fro."""
    left = Truth(lambda s: (20.0, 3.0 * (-1) ** round(s * 15)), lambda _: 0.0, track="0", lifetime=0)
    sequence = written(tmp_path, [left], pose=parked, seconds=1.0)
    assert set(basis(sequence)) == {Heading.ASSUMED}
    assert {each["track_id"] for each in cuboids(sequence)} == {"0"}


def test_classes_by_number_are_named_by_the_model(tmp_path: Path) -> None:
    calibration = replace(CALIBRATION, model_info=ModelInfo("net", ("background", "bus")))
    bus = Truth(lambda _: (20.0, 0.0), lambda _: 0.0, (10.5, 2.5, 3.2), "1")
    sequence = written(tmp_path, [bus], pose=parked, seconds=0.2, calibration=calibration)
    assert {each["class_id"] for each in cuboids(sequence)} == {"1"}
    np.testing.assert_allclose(cuboids(sequence)[0]["bbox3"]["dim"], [11.0, 2.5, 3.2])


def test_a_track_that_was_away_starts_anew(tmp_path: Path) -> None:
    """Called the same, 4 s apart: a car that drives north, and one that stands."""

    def place(second: float) -> tuple[float, float]:
        return (20.0, 8.0 * second) if second < 1.0 else (60.0, 0.0)

    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    car = Truth(place, lambda _: np.pi / 2)
    for step in range(90):
        second = step / 15
        pose = parked(second)
        writer.pose(pose)
        found = () if 1.0 <= second < 5.0 else (seen(car, pose, second, "base_link"),)
        sent = observation(Role.BOXES_3D, "/fusion/boxes3d", pose.time_ns, Detections(found, ()), "base_link")
        writer.write(writer.prepare(sent))
    writer.close()
    found_basis = basis(Read(tmp_path / SEQUENCE.name))
    assert found_basis == [Heading.MOTION] * 15 + [Heading.ASSUMED] * 15


def test_a_message_without_boxes_is_told_from_none(tmp_path: Path) -> None:
    """The times of all messages are there: who finds nothing has looked."""
    car = Truth(crossing, lambda _: np.pi / 2)
    for name, seen_until, kill in (("some", 1.0, False), ("never", 0.0, False), ("killed", 1.0, True)):
        writer = NCoreWriter(tmp_path / name, NCoreOptions())
        writer.begin(SEQUENCE)
        times_us = []
        for step in range(30):
            second = step / 15
            pose = parked(second)
            writer.pose(pose)
            if step % 2:
                continue
            found = (seen(car, pose, second, "base_link"),) if second < seen_until else ()
            datum = Detections(found, ())
            sent = observation(Role.BOXES_3D, "/fusion/boxes3d", pose.time_ns, datum, "base_link")
            writer.write(writer.prepare(sent))
            times_us.append(pose.time_ns // 1000)
        if kill:
            writer.abort()
            recover(tmp_path / name / SEQUENCE.name)
        else:
            writer.close()
        sequence = Read(tmp_path / name / SEQUENCE.name)
        assert sequence.array("cuboids/default/generic_data/messages_timestamps_us").tolist() == times_us
        assert len(cuboids(sequence)) == (8 if seen_until else 0)


def test_a_killed_sequence_has_the_same_cuboids(tmp_path: Path) -> None:
    car = Truth(crossing, lambda _: np.pi / 2)
    whole = written(tmp_path / "whole", [car])
    killed = written(tmp_path / "killed", [car], kill=True)
    assert cuboids(killed) == cuboids(whole)
    assert basis(killed) == basis(whole)


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    sequence = written(tmp_path, [Truth(crossing, lambda _: np.pi / 2)], seconds=0.5)
    meta = sequence.attributes("cuboids/default")["generic_meta_data"]
    assert meta["heading_basis"] == ["motion", "held", "views", "assumed"]
    assert "typical" in meta["dim"]


def test_observations_are_the_json_and_cbor_that_libraries_make_of_them() -> None:
    random = np.random.default_rng(0)
    table, expected = CuboidTable(), []
    names = ("a", "é", 'quote"', "x" * 30, "y" * 300, "")
    source = {"source": "AUTOLABEL", "source_version": "v1"}
    for message in range(12):
        time_us = (7, 300, 70_000, START_NS // 1000 + message)[message % 4]
        observations = [
            {
                "track_id": names[(message + number) % len(names)],
                "class_id": names[number],
                "timestamp_us": time_us,
                "reference_frame_timestamp_us": time_us,
                "bbox3": {
                    "centroid": [*random.normal(size=2).tolist(), -0.0],
                    "dim": [1.0, 1.0, 1e22],
                    "rot": [0.0] * 3,
                },
                **source,
            }
            for number in range(message % 5)
        ]
        table.add("node", observations, [[0.0] * 4] * len(observations))
        table.mark(["CAR"] * len(observations), [True] * len(observations), optical=False)
        expected += observations
    dims, rotations = (random.normal(size=(len(expected), 3)) for _ in range(2))
    rotations[::2] = 0.0
    for row, each in enumerate(expected):
        each["bbox3"] |= {"dim": dims[row].tolist(), "rot": rotations[row].tolist()}
        each["reference_frame_id"] = "node"
    text, packed = table.attributes(dims, rotations, source)
    assert text == json_bytes({"cuboid_track_observations": expected})
    assert packed == cbor2.dumps(json.loads(text))
    empty = CuboidTable().attributes(np.zeros((0, 3)), np.zeros((0, 3)), source)
    assert empty == (json_bytes({"cuboid_track_observations": []}), cbor2.dumps(json.loads(empty[0])))
    dims[3, 1] = np.nan
    with pytest.raises(ValueError, match="JSON compliant"):
        table.attributes(dims, rotations, source)
