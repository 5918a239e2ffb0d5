from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from ncoremade import CALIBRATION, SEQUENCE, START_NS, camera, cloud, drive, lidar, observation, points, pose
from ncoreread import Sequence

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look
from edgefirst_ros.formats.ncore.check import official
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.scenes import NCoreScenes
from edgefirst_ros.formats.ncore.store.base import md5_of
from edgefirst_ros.formats.ncore.store.files import FinishedDirectory
from edgefirst_ros.formats.ncore.store.journal import KEY, consolidate
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import is_metadata
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.sample import EgoPose, PoseBasis, Role

MS = 1_000_000
START_US = START_NS // 1000
LIDAR = f"lidars/lidar/frames/{START_US + 7000}"
RADAR = f"radars/radar/frames/{START_US + 14_000}"


@pytest.fixture(autouse=True)
def _no_official_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "find_python", lambda wanted=None: wanted)


def write(root: Path, seconds: float = 0.13, **options: object) -> Path:
    writer = NCoreWriter(root, NCoreOptions(radar_cube=True, **options))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in drive(seconds):
        if isinstance(step, EgoPose):
            writer.pose(step)
        else:
            writer.write(writer.prepare(step))
    writer.close()
    return root / SEQUENCE.name


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A directory store with everything in it, easy to damage."""
    folder = write(tmp_path, store="directory", profile="single")
    return folder / f"{SEQUENCE.name}.ncore4.zarr"


def judged(store: Path, look: Look = EVERYTHING) -> Check:
    """Check after a change, with consolidated metadata and MD5 brought up to date."""
    metadata = [
        (file.relative_to(store).as_posix(), file.read_bytes())
        for file in sorted(store.rglob("*"))
        if file.is_file() and is_metadata(file.name)
    ]
    (store / KEY).write_bytes(consolidate(metadata))
    meta = store.parent / f"{SEQUENCE.name}.json"
    said = json.loads(meta.read_text())
    said["component_stores"][0]["md5"] = md5_of(store)
    meta.write_text(json.dumps(said))
    (found,) = check(store.parent, look=look)
    return found


def errors(found: Check) -> str:
    return "\n".join(f"{f.where}: {f.what}" for f in found.findings if f.level == "error")


def edit(store: Path, key: str, change: Callable[[Any], None]) -> None:
    path = store / key
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def put(store: Path, key: str, array: np.ndarray) -> None:
    for name, payload in array_records(key, array, None):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(payload)


@pytest.mark.parametrize("kind", ["itar", "directory"])
@pytest.mark.parametrize("profile", ["single", "separate-sensors"])
def test_what_the_writer_makes_is_sound(tmp_path: Path, kind: str, profile: str) -> None:
    folder = write(tmp_path, store=kind, profile=profile)
    for path in (tmp_path, folder, folder / f"{SEQUENCE.name}.json"):
        (found,) = check(path)
        assert found.ok, found.text
        assert (found.errors, found.warnings) == (0, 0)
        assert found.counts["lidars/lidar"] == 2
        assert found.counts["cuboids/default"] == 4
        assert re.search(r"^OK: .*0 errors", found.text, re.MULTILINE)


def _shift(key: str, by: float) -> Callable[[Path], None]:
    return lambda store: put(store, key, Sequence(store.parent).array(key) + np.float32(by))


def _json(key: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda store: edit(store, key, change)


def _set(*path: object, to: object) -> Callable[[Any], None]:
    def change(value: Any) -> None:  # noqa: ANN401  JSON
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = to

    return change


def _remove(key: str) -> Callable[[Path], None]:
    return lambda store: (store / key).unlink()


RIG_WORLD = "('rig', 'world')"
FRAMES = "frames_timestamps_us"
LIDAR_TIMES = "lidars/lidar/frames/.zattrs"
RADAR_TIMES = "radars/radar/frames/.zattrs"
DYNAMIC = "poses/default/dynamic_poses/.zattrs"
STATIC = "poses/default/static_poses/.zattrs"
CAMERA = "intrinsics/default/cameras/camera_optical/.zattrs"
CUBOIDS = ("cuboids/default/cuboids/.zattrs", "cuboid_track_observations")
CLOUDS = "point_clouds/fusion_lidar"
BOXES = f"cameras/camera_optical/frames/{START_US + 100_000}/generic_data/boxes2d"
LABELS = "camera_labels/depth.z@camera_optical"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_shift(f"{LIDAR}/ray_bundle/direction", 0.01), "directions are not unit vectors"),
        (_shift(f"{LIDAR}/ray_bundle_returns/distance_m", -100.0), "distance_m is negative"),
        (_shift(f"{LIDAR}/ray_bundle_returns/intensity", 1.0), "intensity above 1"),
        (_shift(f"{LIDAR}/ray_bundle_returns/intensity", np.nan), "intensity does not match the valid mask"),
        (_remove(f"{LIDAR}/ray_bundle_returns/intensity/0.0"), "chunk is missing"),
        (_remove(f"{LIDAR}/ray_bundle_returns/intensity/.zarray"), "no intensity"),
        (_remove(f"{LIDAR}/ray_bundle/direction/.zarray"), "ray bundle cannot be read"),
        (_json(f"{LIDAR}/ray_bundle/.zattrs", _set("n_rays", to=3)), "different lengths"),
        (_json(LIDAR_TIMES, _set(FRAMES, 0, 0, to=5)), "frames outside the sequence"),
        (_json(LIDAR_TIMES, _set(FRAMES, 0, 0, to=START_US + 9000)), "ends before"),
        (_json(LIDAR_TIMES, _set(FRAMES, to=[])), "no frames"),
        (_json(RADAR_TIMES, lambda v: v[FRAMES].reverse()), "not strictly increasing"),
        (_json("lidars/lidar/.zattrs", _set("component_name", to="radars")), "component_name is 'radars'"),
        (_json("lidars/lidar/.zattrs", lambda v: v.pop("component_version")), "no component_version"),
        (_remove(f"{RADAR}/generic_data/.zgroup"), "frame has no generic_data"),
        (_json(STATIC, lambda v: v.pop("('lidar', 'rig')")), "no frame of this name in the pose graph"),
        (
            _json(STATIC, lambda v: v.update({"('lidar', 'radar')": v["('lidar', 'rig')"]})),
            "do not form a tree",
        ),
        (_json(STATIC, _set("('lidar', 'rig')", "pose", 0, 0, to=0.5)), "not a rotation"),
        (_json(STATIC, _set("('lidar', 'rig')", "pose", 3, 3, to=2.0)), "last row"),
        (_json(STATIC, lambda v: v["('lidar', 'rig')"].pop("dtype")), "pose cannot be read"),
        (_json(STATIC, _set("('world', 'world_global')", "pose", 0, 3, to=0.0)), "no ECEF position"),
        (_json(DYNAMIC, lambda v: v.pop(RIG_WORLD)), "poses do not form a tree"),
        (_json(DYNAMIC, _set(RIG_WORLD, "timestamps_us", 0, to=START_US + 1)), "does not cover the sequence"),
        (_json(DYNAMIC, lambda v: v[RIG_WORLD]["timestamps_us"].reverse()), "not strictly increasing"),
        (_json(DYNAMIC, lambda v: v[RIG_WORLD]["timestamps_us"].pop()), "too few poses or times"),
        (_json(CAMERA, _set("camera_model_parameters", "resolution", to=[10, 10])), "picture size"),
        (_json(CAMERA, _set("camera_model_parameters", "focal_length", to=[0, 1])), "without focal length"),
        (_json(CAMERA, lambda v: v.pop("camera_model_parameters")), "no intrinsics"),
        (_remove("masks/default/cameras/camera_optical/.zattrs"), "no masks"),
        (_json(CUBOIDS[0], _set(CUBOIDS[1], 0, "bbox3", "dim", 1, to=0.0)), "box without extent"),
        (_json(CUBOIDS[0], _set(CUBOIDS[1], 0, "timestamp_us", to=3)), "times outside the sequence"),
        (_json(CUBOIDS[0], _set(CUBOIDS[1], 0, "reference_frame_id", to="moon")), "pose graph: moon"),
        (_json(CUBOIDS[0], lambda v: v.clear()), "no list of observations"),
        (_json(f"{CLOUDS}/pcs/0/.zattrs", _set("reference_frame_id", to="moon")), "pose graph: moon"),
        (
            _json(f"{CLOUDS}/pcs/.zattrs", _set("attribute_schemas", "class", "dtype", to="int8")),
            "does not match its schema",
        ),
        (_remove(f"{CLOUDS}/pcs/1/xyz/.zarray"), "cloud cannot be read"),
        (_remove(f"{CLOUDS}/pc_timestamps_us/.zarray"), "no pc_timestamps_us"),
        (_json(f"{LABELS}/labels/.zattrs", _set("descriptor", "camera_id", to="rear")), "its camera is not"),
        (_remove(f"{LABELS}/timestamps_us/.zarray"), "label cannot be read"),
        (lambda store: put(store, BOXES, np.ones((2, 4), np.float32)), "not left, top, right, bottom"),
        (
            lambda store: put(store, f"{BOXES}_label", np.array(["car"])),
            "with another number of: boxes2d_label",
        ),
        (_remove(f"{BOXES}_score/.zarray"), "with another number of: boxes2d_score"),
        (_json(".zattrs", _set("version", to="v3")), "version is not v4"),
        (_json(".zattrs", _set("sequence_id", to="other")), "sequence_id differs"),
        (lambda store: (store / f"{RADAR}/.zattrs").write_bytes(b"{"), "metadata cannot be read"),
    ],
)  # fmt: skip
@pytest.mark.long(cases=32)
def test_damage_is_found(store: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(store)
    if message == "metadata cannot be read":
        (found,) = check(store.parent)
    else:
        found = judged(store)
    assert message in errors(found), errors(found)
    assert not found.ok
    assert "FAIL" in found.text


def test_a_picture_that_is_none_is_found(store: Path) -> None:
    image = f"cameras/camera_optical/frames/{START_US}/image/0"
    (store / image).write_bytes(bytes(len((store / image).read_bytes()) - 1) + b"x")
    assert "picture cannot be read" in errors(judged(store))


def test_changed_bytes_are_found_by_md5_and_metadata_by_its_copy(store: Path) -> None:
    edit(store, f"{LIDAR}/ray_bundle/.zattrs", _set("more", to=1))
    (found,) = check(store.parent)
    assert "consolidated metadata differs" in errors(found)
    assert "MD5 differs" in errors(found)


@pytest.mark.parametrize("content", [b"", b"not xz", consolidate([])[:-4]])
def test_consolidated_metadata_must_be_there_and_whole(store: Path, content: bytes) -> None:
    (store / KEY).write_bytes(content)
    (found,) = check(store.parent)
    assert "no consolidated metadata" in errors(found)
    (store / KEY).unlink()
    (found,) = check(store.parent)
    assert "no consolidated metadata" in errors(found)


def test_components_that_readers_want_must_be_there(store: Path) -> None:
    for file in sorted((store / "masks").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (store / "masks").rmdir()
    assert "no instance called default" in errors(judged(store))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-512], "no itar trailer"),
        (
            lambda data: data.replace(b"lidars/lidar/frames/.zgroup", b"lidars/lidar/frames/.zgrouq"),
            "not in the index",
        ),
        (lambda data: data[:0], "no itar trailer"),
    ],
)
def test_a_damaged_container_is_found(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    folder = write(tmp_path, profile="separate-sensors")
    path = folder / f"{SEQUENCE.name}.ncore4-lidar.zarr.itar"
    data = bytearray(change(path.read_bytes()))
    _mend_checksums(data)
    path.write_bytes(data)
    (found,) = check(tmp_path)
    assert message in errors(found), errors(found)


def _mend_checksums(data: bytearray) -> None:
    """Make headers whose name was changed valid again."""
    at = data.find(b".zgrouq")
    if at >= 0:
        start = at // 512 * 512
        total = sum(data[start : start + 148]) + 8 * 32 + sum(data[start + 156 : start + 512])
        data[start + 148 : start + 156] = b"%06o\0 " % total


def test_an_index_that_points_elsewhere_is_found(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    other = write(tmp_path / "b", seconds=0.1)
    name = f"{SEQUENCE.name}.ncore4-lidar.zarr.itar"
    (folder / name).write_bytes((other / name).read_bytes())
    (found,) = check(tmp_path / "a")
    text = errors(found)
    assert "sequence_timestamp_interval_us is not that of the other stores" in text
    assert "MD5 differs" in text


def test_two_stores_of_one_group_are_found(tmp_path: Path) -> None:
    folder = write(tmp_path)
    store = folder / f"{SEQUENCE.name}.ncore4-lidar.zarr.itar"
    store.with_name(f"{SEQUENCE.name}.ncore4-copy.zarr.itar").write_bytes(store.read_bytes())
    (found,) = check(tmp_path)
    assert "two stores have the same component group" in errors(found)
    assert "lists other stores than exist" in errors(found)


def test_unfinished_sequences_are_said_to_be(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(lidar(START_NS)))
    writer.abort()
    (found,) = check(tmp_path)
    assert "unfinished; run recover" in errors(found)


def test_paths_without_sequences_are_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="holds no dataset"):
        list(check(tmp_path))


def test_poor_data_is_a_warning(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    writer.pose(pose(START_NS))
    writer.pose(pose(START_NS + 900 * MS))
    wire = points(np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("t", "<u4")]), 2, 1)
    for start in (0, 50):
        wire["t"] = [0, 99 * MS]
        sweep = observation(Role.LIDAR_POINTS, "/l", START_NS + start * MS, cloud(wire.copy()), "lidar")
        writer.write(writer.prepare(sweep))
    writer.write(writer.prepare(camera(START_NS + 900 * MS, calibration=CALIBRATION)))
    writer.close()
    (found,) = check(tmp_path)
    assert found.ok
    warnings = [finding.what for finding in found.findings if finding.level == "warning"]
    assert warnings == ["gap between poses: 900 ms", "frames overlap"]


def test_findings_of_one_kind_are_bounded() -> None:
    findings = Findings()
    for number in range(1000):
        findings.error(f"lidars/lidar@{number}", "directions are not unit vectors")
    findings.error("lidars/lidar@1", "something else")
    assert len(findings.kept) == 6
    assert findings.counts["error"] == 1001


def test_poses_that_nurec_does_not_take_are_a_note(store: Path) -> None:
    assert "float64" not in judged(store).text
    edit(store, STATIC, _set("('lidar', 'rig')", "dtype", to="float64"))
    found = judged(store)
    assert "lidar->rig: pose in float64: NuRec" in found.text
    assert found.ok, "NCore allows it"


def test_the_official_reader_is_a_note_where_it_cannot_run(tmp_path: Path) -> None:
    folder = write(tmp_path, seconds=0.1)
    (found,) = check(folder)
    assert "nvidia-ncore is not installed here" in found.text
    assert found.ok


@pytest.mark.parametrize("program", ["no-such-python", "false"])
def test_an_official_reader_that_was_asked_for_and_cannot_run_is_an_error(
    tmp_path: Path, program: str
) -> None:
    folder = write(tmp_path, seconds=0.1)
    (found,) = check(folder, official_python=Path("/bin") / program)
    assert "official reader not run" in found.text
    assert not found.ok


def test_nothing_but_what_is_named_is_checked(tmp_path: Path) -> None:
    write(tmp_path, seconds=0.1)
    (tmp_path / "drive.mcap").touch()
    for name in ("nowhere", "drive.mcap"):
        with pytest.raises(DatasetNotFound, match=name):
            list(check(tmp_path / name))


def poses_of(sound: Path, change: Callable[[list[Any]], None]) -> None:
    edit(
        sound,
        "poses/default/dynamic_poses/.zattrs",
        lambda attributes: change(attributes["('rig', 'world')"]["poses"]),
    )


def _throw(poses: list[Any]) -> None:
    poses[1][1][3] += 240.0


def test_motion_that_no_vehicle_makes_is_an_error(store: Path) -> None:
    poses_of(store, _throw)
    assert "impossible speed: 240.0 m in 0.0" in errors(judged(store))


def test_what_is_said_to_be_assumed_need_not_move_as_a_vehicle_does(tmp_path: Path) -> None:
    """The rig stands at a placeholder until its first fix, and is elsewhere then."""
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    for ms in range(0, 500, 50):
        now = START_NS + ms * MS
        known = pose(now)
        far = (100.0 + ms / 100, 0.0, 0.0)
        assumed = PoseBasis.ASSUMED if ms < 250 else PoseBasis.MEASURED
        position = (0.0, 0.0, 0.0) if ms < 250 else far
        writer.pose(replace(known, position_m=position, position_basis=assumed))
        writer.write(writer.prepare(lidar(now)))
    writer.close()
    (found,) = check(tmp_path)
    assert not errors(found)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("poses/default/.zattrs", [], "content cannot be read"),
        (f"{LIDAR}/ray_bundle/.zattrs", {"n_rays": "x"}, "ray bundle"),
        (f"{LIDAR}/ray_bundle/direction/.zarray", {}, "cannot be read"),
        ("cuboids/default/cuboids/.zattrs", {"cuboid_track_observations": [1]}, "content cannot be read"),
        (".zattrs", {"sequence_timestamp_interval_us": 3}, "store cannot be read"),
    ],
)
def test_content_of_any_other_shape_is_an_error(store: Path, key: str, value: object, message: str) -> None:
    assert (store / key).is_file()
    (store / key).write_text(json.dumps(value))
    assert message in errors(judged(store))


@pytest.mark.parametrize(
    "sizes", [{"shape": [1 << 40, 3]}, {"chunks": [1 << 40, 3]}, {"shape": [1 << 40, 3], "chunks": [1, 1]}]
)
def test_an_array_larger_than_any_is_neither_made_nor_counted_through(
    store: Path, sizes: dict[str, object]
) -> None:
    edit(store, f"{LIDAR}/ray_bundle/direction/.zarray", lambda meta: meta.update(sizes))
    assert "direction" in errors(judged(store)) or "ray bundle cannot be read" in errors(judged(store))


def test_a_fifo_or_a_link_to_a_folder_in_a_store_is_not_followed(store: Path) -> None:
    os.mkfifo(store / "fifo")
    (found,) = check(store.parent)
    assert "meta file cannot be read: is a FIFO" in errors(found)
    (store / "fifo").unlink()
    (store / "loop").symlink_to(store)
    (found,) = check(store.parent)
    assert "loop is a symbolic link" in errors(found)


def test_an_index_of_rows_outside_of_the_file_is_refused(tmp_path: Path) -> None:
    path = next(write(tmp_path, profile="single").glob("*.itar"))
    data = path.read_bytes()
    _, _, offset, length = struct.unpack_from("<4sIQI", data, len(data) - 512)
    index = cbor2.loads(lzma.decompress(data[offset : offset + length]))
    index["sizes"][0] = 1 << 62
    packed = lzma.compress(cbor2.dumps(index))
    trailer = struct.pack("<4sIQI", b"itar", 1, offset, len(packed)).ljust(512, b"\0")
    path.write_bytes(data[:offset] + packed + bytes(-len(packed) % 512) + trailer)
    (found,) = check(path.parent)
    assert "rows outside of the archive" in errors(found)


def itar_of(root: Path) -> Path:
    return next(write(root, profile="single").glob("*.itar"))


def index_of(path: Path) -> tuple[bytes, int, dict[str, list[Any]]]:
    """All before the index, its offset, and the index."""
    data = path.read_bytes()
    _, _, offset, length = struct.unpack_from("<4sIQI", data, len(data) - 512)
    return data[:offset], offset, cbor2.loads(lzma.decompress(data[offset : offset + length]))


def put_index(path: Path, before: bytes, packed: bytes) -> None:
    trailer = struct.pack("<4sIQI", b"itar", 1, len(before), len(packed)).ljust(512, b"\0")
    path.write_bytes(before + packed + bytes(-len(packed) % 512) + trailer)


def test_a_wrong_byte_in_a_header_of_a_tar_file_is_found(tmp_path: Path) -> None:
    path = itar_of(tmp_path)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    (found,) = check(path.parent)
    assert "tar file cannot be read: bad checksum" in errors(found)


def test_a_header_of_a_tar_file_that_names_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = itar_of(tmp_path)
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    data = path.read_bytes()
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + data[512:])
    (found,) = check(path.parent)
    assert "tar file cannot be read: a header has" in errors(found)


def test_rows_of_an_index_that_overlap_are_refused(tmp_path: Path) -> None:
    path = itar_of(tmp_path)
    before, offset, index = index_of(path)
    index["offset_datas"] = [0] * len(index["items"])
    index["sizes"] = [offset] * len(index["items"])
    put_index(path, before, lzma.compress(cbor2.dumps(index)))
    (found,) = check(path.parent)
    assert "rows that overlap" in errors(found)


@pytest.mark.parametrize(
    "bomb", [b"\x9f" + b"\x80" * 30_000 + b"\xff", b"\xc5\x82\x1b" + b"\x7f" * 8 + b"\1"]
)
def test_an_index_of_lists_or_huge_numbers_is_refused_before_it_is_made(tmp_path: Path, bomb: bytes) -> None:
    path = itar_of(tmp_path)
    put_index(path, index_of(path)[0], lzma.compress(bomb))
    (found,) = check(path.parent)
    assert re.search("holds more than .* values|has tags", errors(found))


def test_pictures_are_decoded_and_only_as_what_they_may_be(store: Path) -> None:
    key = min(file.relative_to(store).as_posix() for file in store.glob("cameras/*/frames/*/image"))
    whole = (store / key / "0").read_bytes()
    (store / key / "0").write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    assert "picture cannot be read" in errors(judged(store))
    assert judged(store, Look(quick=True)).ok
    (store / key / "0").write_bytes(whole)
    edit(store, f"{key}/.zattrs", lambda values: values.update(format="eps"))
    assert "its metadata say eps" in errors(judged(store))


def test_rays_of_a_type_that_multiplies_their_memory_are_refused(store: Path) -> None:
    array = Sequence(store.parent).array(f"{LIDAR}/ray_bundle/direction")
    put(store, f"{LIDAR}/ray_bundle/direction", np.ones(array.shape, np.uint8))
    assert "ray bundle cannot be read" in errors(judged(store))
    shutil.rmtree(store / "cameras")
    scenes = NCoreScenes(store.parent)
    with pytest.raises(DatasetError, match="its elements are uint8"):
        scenes.scene(scenes.moments()[0])


@pytest.mark.parametrize("key", ["(" * 3000 + "1" + ")" * 3000, "-" * 200_000 + "1", "[]", "x"])
def test_keys_of_poses_that_are_no_pair_of_names_are_errors(store: Path, key: str) -> None:
    edit(
        store,
        "poses/default/dynamic_poses/.zattrs",
        lambda values: values.update({key: {"dtype": "float64"}}),
    )
    assert "pose cannot be read" in errors(judged(store))


@pytest.mark.parametrize("dtype", ["O", "U1000000000", ["f8"] * 3])
def test_types_of_poses_are_those_of_the_format(store: Path, dtype: object) -> None:
    def change(values: dict[str, Any]) -> None:
        next(iter(values.values()))["dtype"] = dtype

    edit(store, "poses/default/dynamic_poses/.zattrs", change)
    assert "pose cannot be read" in errors(judged(store))


def test_what_a_name_in_the_metadata_leads_to_is_in_the_store(store: Path, tmp_path: Path) -> None:
    for name, payload in array_records("outside", np.zeros(3), None):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(payload)
    (store / "inside").symlink_to(tmp_path / "outside")
    reading = FinishedDirectory(store)
    for key in ("../../outside/.zarray", "inside/.zarray"):
        with pytest.raises(KeyError):
            reading.get(key)
    os.truncate(store / ".zattrs", 1 << 40)
    with pytest.raises(ValueError, match="bytes"):
        reading.get(".zattrs")
