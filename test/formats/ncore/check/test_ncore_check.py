from __future__ import annotations

import json
import lzma
import os
import re
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from ncoremade import SEQUENCE, START_NS, drive, lidar

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look
from edgefirst_ros.formats.ncore.check import official
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.store.base import md5_of
from edgefirst_ros.formats.ncore.store.files import FinishedDirectory
from edgefirst_ros.formats.ncore.store.journal import KEY, consolidate
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.formats.zarr2 import array_records, is_metadata
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound
from edgefirst_ros.model.sample import EgoPose

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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_remove(f"{LIDAR}/ray_bundle_returns/intensity/0.0"), "chunk is missing"),
        (_json(LIDAR_TIMES, _set(FRAMES, 0, 0, to=5)), "frames outside the sequence"),
        (_json(LIDAR_TIMES, _set(FRAMES, 0, 0, to=START_US + 9000)), "frames are not in order of time"),
        (_json(LIDAR_TIMES, _set(FRAMES, to=[])), "no frames"),
        (_json(RADAR_TIMES, lambda v: v[FRAMES].reverse()), "frames are not in order of time"),
        (_json("lidars/lidar/.zattrs", lambda v: v.pop("component_version")), "no component_version"),
        (_remove(f"{RADAR}/generic_data/.zgroup"), "frame has no generic_data"),
        (_json(STATIC, lambda v: v.pop("('lidar', 'rig')")), "no frame of this name in the pose graph"),
        (
            _json(STATIC, lambda v: v.update({"('lidar', 'radar')": v["('lidar', 'rig')"]})),
            "do not form a tree",
        ),
        (_json(STATIC, _set("('lidar', 'rig')", "pose", 0, 0, to=float("nan"))), "a pose is not finite"),
        (_json(STATIC, lambda v: v["('lidar', 'rig')"].pop("dtype")), "pose cannot be read"),
        (_json(DYNAMIC, lambda v: v.pop(RIG_WORLD)), "poses do not form a tree"),
        (_json(DYNAMIC, _set(RIG_WORLD, "timestamps_us", 0, to=START_US + 1)), "does not cover the sequence"),
        (_json(DYNAMIC, lambda v: v[RIG_WORLD]["timestamps_us"].reverse()), "not strictly increasing"),
        (_json(DYNAMIC, lambda v: v[RIG_WORLD]["timestamps_us"].pop()), "too few poses or times"),
        (_json(CAMERA, lambda v: v.pop("camera_model_parameters")), "no intrinsics"),
        (_remove("masks/default/cameras/camera_optical/.zattrs"), "no masks"),
        (_json(CUBOIDS[0], lambda v: v.clear()), "no list of observations"),
        (_json(".zattrs", _set("version", to="v3")), "version is not v4"),
        (_json(".zattrs", _set("sequence_id", to="other")), "sequence_id differs"),
        (lambda store: (store / f"{RADAR}/.zattrs").write_bytes(b"{"), "metadata cannot be read"),
    ],
)  # fmt: skip
@pytest.mark.long(cases=4)
def test_damage_is_found(store: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(store)
    if message == "metadata cannot be read":
        (found,) = check(store.parent)
    else:
        found = judged(store)
    assert message in errors(found), errors(found)
    assert not found.ok
    assert "FAIL" in found.text


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
            "index and member differ",
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
    assert "sequence_timestamp_interval_us differs" in text
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


def test_findings_of_one_kind_are_bounded() -> None:
    findings = Findings()
    for number in range(1000):
        findings.error(f"lidars/lidar@{number}", "directions are not unit vectors")
    findings.error("lidars/lidar@1", "something else")
    assert len(findings.kept) == 6
    assert findings.counts["error"] == 1001


def test_an_official_reader_that_was_asked_for_and_cannot_run_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path, seconds=0.1)
    (found,) = check(folder, official_python=Path("/bin/false"))
    assert "official reader not run" in found.text
    assert not found.ok
    with pytest.raises(ConfigError, match="--official /bin/no-such-python: is no program"):
        list(check(folder, official_python=Path("/bin/no-such-python")))


def test_nothing_but_what_is_named_is_checked(tmp_path: Path) -> None:
    write(tmp_path, seconds=0.1)
    (tmp_path / "drive.mcap").touch()
    for name in ("nowhere", "drive.mcap"):
        with pytest.raises(DatasetNotFound, match=name):
            list(check(tmp_path / name))


@pytest.mark.long(cases=2)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("poses/default/.zattrs", [], "no component_name"),
        (f"{LIDAR}/ray_bundle/direction/.zarray", {}, "cannot be read"),
        ("cuboids/default/cuboids/.zattrs", [], "content cannot be read"),
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


@pytest.mark.long(cases=1)
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
