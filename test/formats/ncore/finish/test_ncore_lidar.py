"""Row models fitted over a sequence, from sweeps that each show only a part; and what intensity 1 means."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ncoremade import SEQUENCE, START_NS, cloud, observation
from ncoreread import Sequence, recover_all
from places import contents

from edgefirst_ros.formats.ncore.finish import sequence as finish
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.lidar import Sweeps, grid_of
from edgefirst_ros.formats.ncore.prepare.parts import rays_of
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.sample import Observation, Role

START_US = START_NS // 1000
POINT = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("reflect", "u1"), ("ring", "<u2")])
ROWS, COLUMNS = 16, 128
ELEVATIONS = np.radians(np.concatenate([np.linspace(14, 2, 6), np.linspace(1, -9, 10)]))
OFFSETS = np.radians(np.tile([3.0, 1.0, -1.0, -3.0], 4))


def wire(
    rng: np.random.Generator, *, lost: float = 0.0, jitter_deg: float = 0.0, clockwise: bool = True
) -> npt.NDArray[np.void]:
    """A sweep of (ROWS, COLUMNS), highest row first, as a driver with zeros for what did not return."""
    turn = np.linspace(0, 2 * np.pi, COLUMNS, endpoint=False) + 0.3
    azimuth = (-turn if clockwise else turn)[None] + OFFSETS[:, None]
    azimuth = azimuth + np.radians(rng.normal(0, jitter_deg, azimuth.shape))
    elevation = ELEVATIONS[:, None] + np.radians(rng.normal(0, jitter_deg, azimuth.shape))
    distance = rng.uniform(3, 40, azimuth.shape)
    distance[rng.random(azimuth.shape) < lost] = 0
    points = np.zeros((ROWS, COLUMNS), POINT)
    points["x"] = distance * np.cos(elevation) * np.cos(azimuth)
    points["y"] = distance * np.cos(elevation) * np.sin(azimuth)
    points["z"] = distance * np.sin(elevation)
    points["ring"] = np.arange(ROWS)[:, None]
    points["reflect"] = 7
    return points


def blind(points: npt.NDArray[np.void], rows: slice, columns: slice = slice(None)) -> npt.NDArray[np.void]:
    for axis in "xyz":
        points[axis][rows, columns] = np.nan
    return points


def sweeps(count: int, make: Callable[[int], npt.NDArray[np.void]]) -> list[Observation]:
    found = []
    for number in range(count):
        points = make(number)
        at = START_NS + number * 100_000_000
        found.append(observation(Role.LIDAR_POINTS, "/l", at, cloud(points.ravel(), len(points)), "lidar"))
    return found


def write(root: Path, steps: list[Observation], *, kill: bool = False, **options: object) -> NCoreWriter:
    writer = NCoreWriter(root, NCoreOptions(**options))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in steps:
        assert not writer.write(writer.prepare(step)).refused
    writer.abort() if kill else writer.close()
    return writer


def elements(sequence: Sequence) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Model elements and directions of the sweeps that have any."""
    found = []
    for _, end_us in sequence.frames("lidars/lidar"):
        base = f"lidars/lidar/frames/{end_us}/ray_bundle"
        if f"{base}/model_element/.zarray" in sequence.records:
            found.append((sequence.array(f"{base}/model_element"), sequence.array(f"{base}/direction")))
    return found


def parameters(sequence: Sequence) -> dict[str, Any]:
    return sequence.attributes("intrinsics/default/lidars/lidar")["lidar_model_parameters"]


def worst_rad(model: dict[str, Any], element: npt.NDArray[Any], direction: npt.NDArray[Any]) -> float:
    """The farthest that a ray is from where its element has it."""
    elevation = np.array(model["row_elevations_rad"])[element[:, 0]]
    azimuth = np.array(model["column_azimuths_rad"])[element[:, 1]]
    azimuth = azimuth + np.array(model["row_azimuth_offsets_rad"])[element[:, 0]]
    plane = np.cos(elevation)
    modelled = np.stack([plane * np.cos(azimuth), plane * np.sin(azimuth), np.sin(elevation)], axis=1)
    return float(np.linalg.norm(modelled - direction, axis=1).max())


def test_sweeps_that_each_lack_rows_and_columns_have_one_model(tmp_path: Path) -> None:
    """The sky above never returns anything at first, the last columns are seen but once."""
    rng = np.random.default_rng(5)

    def make(number: int) -> npt.NDArray[np.void]:
        points = wire(rng, lost=0.4, jitter_deg=0.05)
        points = blind(points, slice(0, 3 if number < 20 else 0))
        return points if number == 25 else blind(points, slice(None), slice(COLUMNS - 2, COLUMNS))

    write(tmp_path, sweeps(30, make))
    sequence = Sequence(tmp_path / SEQUENCE.name)
    found, model = elements(sequence), parameters(sequence)
    assert len(found) == 30
    assert (model["n_rows"], model["n_columns"], model["spinning_direction"]) == (ROWS, COLUMNS, "cw")
    assert np.degrees(np.abs(np.array(model["row_elevations_rad"]) - ELEVATIONS)).max() < 0.05
    assert max(worst_rad(model, *each) for each in found) < np.radians(0.5)


@pytest.mark.parametrize(
    "variant", ["upside down", "shuffled rings", "transposed", "counterclockwise", "deep"]
)
def test_however_a_driver_numbers_its_points(variant: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    order = rng.permutation(ROWS)

    def make(_: int) -> npt.NDArray[np.void]:
        points = wire(rng, lost=0.2, clockwise=variant != "counterclockwise")
        return {
            "upside down": points[::-1],
            "shuffled rings": points[order],
            "transposed": np.ascontiguousarray(points.T),
            "deep": np.ascontiguousarray(points[:, : ROWS + 4]),
        }.get(variant, points)

    write(tmp_path, sweeps(4, make))
    sequence = Sequence(tmp_path / SEQUENCE.name)
    found, model = elements(sequence), parameters(sequence)
    assert len(found) == 4
    assert (np.diff(model["row_elevations_rad"]) < 0).all()
    assert model["spinning_direction"] == ("ccw" if variant == "counterclockwise" else "cw")
    assert max(worst_rad(model, *each) for each in found) < 1e-4


def test_a_row_that_never_returns_is_between_its_neighbours(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    write(tmp_path, sweeps(3, lambda _: blind(blind(wire(rng), slice(0, 1)), slice(8, 9))))
    model = parameters(Sequence(tmp_path / SEQUENCE.name))
    found = np.array(model["row_elevations_rad"])
    assert np.degrees(found[8]) == pytest.approx(np.degrees(ELEVATIONS[[7, 9]].mean()), abs=1e-3)
    assert found[0] > found[1] > found[2]


def test_sweeps_that_follow_no_model_have_no_elements(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    noise = np.zeros((ROWS, COLUMNS), POINT)
    for axis in "xyz":
        noise[axis] = rng.normal(0, 10, noise.shape)
    turned = np.ascontiguousarray(wire(rng)[:, ::-1])
    whole = wire(rng)
    given = [whole, noise, whole, turned, whole]
    write(tmp_path, sweeps(5, given.__getitem__))
    sequence = Sequence(tmp_path / SEQUENCE.name)
    assert len(elements(sequence)) == 3
    write(tmp_path / "none", sweeps(3, lambda _: noise))
    sequence = Sequence(tmp_path / "none" / SEQUENCE.name)
    assert elements(sequence) == []
    assert "intrinsics/default/lidars/lidar/.zattrs" not in sequence.records


def test_a_solid_state_lidar_has_no_grid() -> None:
    points = wire(np.random.default_rng(1)).ravel()
    flat = cloud(points)
    assert grid_of(flat, rays_of(flat)) is None
    assert Sweeps((4, 16)).fit(0) is None


def test_sweeps_have_their_elements_long_before_the_sequence_is_finished(tmp_path: Path) -> None:
    """Whatever waited for the model is on disk by then, so that finishing does not depend on the length."""
    rng = np.random.default_rng(11)
    write(tmp_path, sweeps(80, lambda _: wire(rng, lost=0.3)), kill=True)
    (part,) = tmp_path.rglob("*lidar.zarr.itar.part")
    with tarfile.open(part) as archive:
        names = [member.name for member in archive if member.name.endswith("/model_element/.zarray")]
    assert len(set(names)) == len(names) >= 64


def test_a_ring_that_returns_late_is_in_its_place_or_the_sweep_has_no_elements(tmp_path: Path) -> None:
    """Rings in no order: where one is among them is not known before it was seen."""
    rng = np.random.default_rng(12)
    order = rng.permutation(ROWS)
    steps = sweeps(150, lambda n: blind(wire(rng)[order], slice(5, 6)) if n < 145 else wire(rng)[order])
    write(tmp_path, steps)
    sequence = Sequence(tmp_path / SEQUENCE.name)
    found, model = elements(sequence), parameters(sequence)
    assert len(found) == 145
    assert max(worst_rad(model, *each) for each in found) < 1e-4


def test_what_follows_no_model_for_long_is_given_up(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    noise = np.zeros((2, 8), POINT)
    for axis in "xyz":
        noise[axis] = rng.normal(0, 10, noise.shape)
    write(tmp_path, sweeps(520, lambda n: wire(rng) if n == 519 else noise))
    sequence = Sequence(tmp_path / SEQUENCE.name)
    assert len(sequence.frames("lidars/lidar")) == 520
    assert len(elements(sequence)) == 1


@pytest.mark.parametrize(("store", "count"), [("directory", 6), ("itar", 21), ("itar", 60)])
def test_a_killed_sequence_gets_the_same_model(
    store: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if its first recovery is killed, too."""
    rng = np.random.default_rng(9)
    steps = sweeps(count, lambda n: blind(wire(rng, lost=0.5), slice(0, 0 if n > 30 else 3)))
    write(tmp_path / "closed", steps, store=store)
    write(tmp_path / "killed", steps, store=store, kill=True)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(finish, "write_meta", die)
        with pytest.raises(KeyboardInterrupt):
            recover_all(tmp_path / "killed")
    (done,) = recover_all(tmp_path / "killed")
    assert not +done.lost
    closed, killed = (Sequence(tmp_path / name / SEQUENCE.name) for name in ("closed", "killed"))
    assert len(elements(killed)) == count
    assert parameters(closed) == parameters(killed)
    assert contents(closed.folder) == contents(killed.folder)


def fielded(field: str, dtype: str, values: list[float], number: int = 0) -> Observation:
    points = np.zeros(len(values), [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), (field, dtype)])
    points["x"] = 5
    points[field] = values
    return observation(Role.LIDAR_POINTS, "/l", START_NS + number * 100_000_000, cloud(points), "lidar")


def intensities(sequence: Sequence) -> list[list[float]]:
    frames = sequence.frames("lidars/lidar")
    base = "lidars/lidar/frames/{}/ray_bundle_returns/intensity"
    return [sequence.array(base.format(end_us))[0].tolist() for _, end_us in frames]


@pytest.mark.parametrize(
    ("kind", "values", "expected", "scale"),
    [
        (("reflect", "u1"), [0, 51, 255], [0, 0.2, 1], 255),
        (("reflectivity", "<u2"), [0, 13107, 65535], [0, 0.2, 1], 65535),
        (("reflectivity", "<u4"), [0, 2**31, 2**32 - 1], [0, 0.5, 1], 2**32 - 1),
        (("intensity", "<f4"), [0.0, 0.25, 1.0], [0, 0.25, 1], 1),
        (("intensity", "<f4"), [0.0, 51.0, np.nan, 250.0], [0, 0.2, 0, 250 / 255], 255),
        (("signal", "<f4"), [0.0, 655.35, 2000.0], [0, 0.01, 2000 / 65535], 65535),
    ],
)
def test_full_scale_is_the_types_or_the_convention_that_holds_the_values(
    kind: tuple[str, str], values: list[float], expected: list[float], scale: float, tmp_path: Path
) -> None:
    writer = write(tmp_path, [fielded(*kind, values)])
    sequence = Sequence(tmp_path / SEQUENCE.name)
    assert intensities(sequence) == [pytest.approx(expected, abs=1e-6)]
    meta = sequence.attributes("lidars/lidar")["generic_meta_data"]
    assert (meta["intensity_field"], meta["intensity_max"]) == (kind[0], scale)
    assert meta["intensity_scale"]
    assert not any("clipped" in warning for warning in writer.warnings)


def test_a_floats_scale_is_learnt_once_and_what_exceeds_it_is_said(tmp_path: Path) -> None:
    dark, usual, bright = [0.0, 0.0], [0.0, 200.0], [100.0, 510.0]
    writer = write(tmp_path, [fielded("intensity", "<f4", v, n) for n, v in enumerate((dark, usual, bright))])
    sequence = Sequence(tmp_path / SEQUENCE.name)
    assert intensities(sequence) == [[0, 0], [0, pytest.approx(200 / 255)], [pytest.approx(100 / 255), 1]]
    assert sequence.attributes("lidars/lidar")["generic_meta_data"]["intensity_max"] == 255
    (told,) = (warning for warning in writer.warnings if "clipped" in warning)
    assert told.startswith("1 intensities of lidar were clipped: its intensity reached 510")
    assert "lidar_intensity_max" in told
    writer = write(tmp_path / "set", [fielded("intensity", "<f4", bright)], lidar_intensity_max=510.0)
    assert intensities(Sequence(tmp_path / "set" / SEQUENCE.name)) == [pytest.approx([100 / 510, 1.0])]
    assert not any("clipped" in warning for warning in writer.warnings)


def test_eight_bits_in_sixteen_are_pointed_out(tmp_path: Path) -> None:
    writer = write(tmp_path, [fielded("reflectivity", "<u2", [3, 255])])
    assert any("never exceeds 255 of 65535" in note for note in writer.notes)
