"""What check says of sound datasets, and of ones that were broken on purpose."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from edgefirst_samples import SEQUENCE, full_sample
from PIL import Image

import edgefirst_ros
from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST
from edgefirst_ros.formats.edgefirst.check.dataset import check, zip_files
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.formats.format import Check, Findings, Look
from edgefirst_ros.model.errors import DatasetNotFound

NAME = SEQUENCE.name
FRAMES = 6
Change = Callable[[Path], None]
Columns = Callable[[pl.DataFrame], pl.DataFrame]


def write(root: Path, version: str, container: str, frames: int = FRAMES) -> Path:
    small = EdgeFirstOptions(schema_version=version, container=container, lidar_image_size=(8, 32))  # type: ignore[arg-type]
    writer = EdgeFirstWriter(root, "ds", small)
    writer.begin(SEQUENCE)
    for frame in range(frames):
        writer.write(writer.prepare(full_sample(frame)))
    writer.close()
    report = {"samples": frames, "sequences": [{"name": NAME, "sample": frames}]}
    (root / "ds" / "capture_report.json").write_text(json.dumps(report))
    return root / "ds"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    return {
        (version, container): write(tmp_path_factory.mktemp("sound"), version, container)
        for version in ("2025.01", "2026.10")
        for container in ("zip", "folder")
    }


def copied(dataset: Path, to: Path) -> Path:
    shutil.copytree(dataset, to / "ds")
    return to / "ds"


def said(found: Check) -> str:
    return "\n".join(f"{f.level} {f.where}: {f.what}" for f in found.findings)


@pytest.mark.parametrize("version", ["2025.01", "2026.10"])
@pytest.mark.parametrize("container", ["zip", "folder"])
def test_what_the_writer_makes_is_sound(
    sound: dict[tuple[str, str], Path], version: str, container: str
) -> None:
    found = check(sound[version, container])
    assert found.findings == ()
    assert (found.ok, found.errors, found.warnings) == (True, 0, 0)
    assert found.counts["samples"] == found.counts["camera.jpeg"] == found.counts["radar.png"] == FRAMES
    assert found.counts["rows"] > FRAMES
    assert found.text.startswith("OK: edgefirst/ds, 0 errors, 0 warnings, 6 samples, ")
    assert check(sound[version, container] / "ds.arrow").ok


def file(kind: str, frame: int = 1) -> str:
    return f"ds/{NAME}/{NAME}_{frame:03d}.{kind}"


def put(kind: str, data: bytes, frame: int = 1) -> Change:
    return lambda dataset: (dataset / file(kind, frame)).write_bytes(data) and None


def edit(kind: str, change: Callable[[bytes], bytes], frame: int = 1) -> Change:
    def apply(dataset: Path) -> None:
        path = dataset / file(kind, frame)
        path.write_bytes(change(path.read_bytes()))

    return apply


def move(kind: str, to: str, frame: int = 1) -> Change:
    def apply(dataset: Path) -> None:
        (dataset / to).parent.mkdir(exist_ok=True)
        (dataset / file(kind, frame)).rename(dataset / to)

    return apply


def remove(name: str) -> Change:
    def apply(dataset: Path) -> None:
        path = dataset / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return apply


def new(name: str, data: bytes = b"x") -> Change:
    return lambda dataset: (dataset / name).write_bytes(data) and None


def png(mode: str) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (8, 6)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("ds"), "error ds: no sensor files"),
        (remove("ds.arrow"), "error ds: no annotation table"),
        (new("ds.zip.part"), "error ds.zip.part: unfinished; edgefirst-ros recover can finish it"),
        (new("ds.journal.part"), "unfinished"),
        (new("capture_report.json.part"), "unfinished"),
        (new(f"ds/{NAME}/.DS_Store"), "is not named SEQUENCE_FRAME.SENSOR.EXT"),
        (new(f"ds/{NAME}/notes.txt"), "is not named SEQUENCE_FRAME.SENSOR.EXT"),
        (new(f"ds/{NAME}/{NAME}_001.camera.png", png("RGB")), "its sample has two files of a kind"),
        (put("camera.jpeg", b""), "content cannot be read"),
        (put("camera.jpeg", b"no picture"), "content cannot be read"),
        (put("depth.png", png("RGB")), "content cannot be read: it is a picture of mode"),
        (edit("depth.png", lambda data: data[:-50]), "content cannot be read"),
        (edit("depth.png", lambda data: data.replace(b"IDAT", b"IDAU")), "content cannot be read"),
        (edit("lidar.jpeg", lambda data: data[2:]), "content cannot be read"),
        (edit("lidar.pcd", lambda data: data[:-1]), "content cannot be read"),
        (edit("lidar.pcd", lambda data: data.replace(b"TYPE F", b"TYPE Q")), "content cannot be read"),
        (edit("lidar.pcd", lambda data: data.replace(b"FIELDS x", b"FILES x")), "content cannot be read"),
        (remove(file("camera.jpeg")), "warning " + NAME + ": samples without a camera picture: 1"),
        (new("capture_report.json", b"{"), "is not a capture report"),
        (new("capture_report.json", b'{"samples": 7, "sequences": []}'), "differs: 7 in the report, 6"),
        (new("ds.arrow", b"no table"), "is not a complete Arrow file"),
    ],
)  # fmt: skip
def test_damage_is_found(
    sound: dict[tuple[str, str], Path], tmp_path: Path, damage: Change, message: str
) -> None:
    dataset = copied(sound["2025.01", "folder"], tmp_path)
    damage(dataset)
    found = check(dataset)
    assert message in said(found), said(found)
    if not message.startswith(("note", "warning")):
        assert not found.ok
        assert found.text.splitlines()[-1].startswith("FAIL: edgefirst/ds")


def rewritten(dataset: Path, change: Columns, version: str) -> None:
    """The table with other columns, and no manifest; the key of the file's metadata stays."""
    (dataset / "ds.manifest").unlink(missing_ok=True)
    table = change(pl.read_ipc((dataset / "ds.arrow").read_bytes())).to_arrow()
    table = table.replace_schema_metadata({"schema_version": version})
    with pa.ipc.new_file(dataset / "ds.arrow", table.schema) as out:
        out.write_table(table)


def first(name: str, value: object) -> Columns:
    """Another value in the first row that has one in the column."""

    def apply(frame: pl.DataFrame) -> pl.DataFrame:
        values = frame[name].to_list()
        values[next(n for n, v in enumerate(values) if v is not None)] = value
        return frame.with_columns(pl.Series(name, values, frame.schema[name]))

    return apply


def typed(name: str, dtype: object) -> Columns:
    return lambda frame: frame.with_columns(pl.col(name).cast(dtype))  # type: ignore[arg-type]


def grouped(*groups: str | None) -> Columns:
    return lambda frame: frame.with_columns(
        pl.Series("group", [groups[0], *groups[1:], *["train"] * len(frame)][: len(frame)], pl.Categorical)
    )


OLD, NEW = "2025.01", "2026.10"


@pytest.mark.parametrize(
    ("version", "change", "message"),
    [
        (OLD, lambda f: f.drop("frame"), "error ds.arrow: no column frame"),
        (OLD, lambda f: f.drop("group"), "error ds.arrow: no column group"),
        (OLD, lambda f: f.with_columns(extra=pl.lit(1.0)), "note ds.arrow: column extra is not of schema"),
        (OLD, lambda f: f.with_columns(extra=pl.lit(1, pl.UInt8)), "crashes the vendor's client: UInt8"),
        (OLD, typed("frame", pl.UInt32), "warning ds.arrow: column frame is not of the type"),
        (OLD, typed("frame", pl.Int64), "error ds.arrow: column frame is Int64, expected UInt64"),
        (OLD, typed("box2d", pl.List(pl.Float32)), "column box2d is List(Float32), expected Array"),
        (OLD, typed("location", pl.Array(pl.Float32, 2)), "column location is Array(Float32"),
        (NEW, typed("name", pl.Categorical), "column name is Categorical, expected String"),
        (OLD, lambda f: f.filter(pl.col("frame") != 2), f"ds.arrow@{NAME}_002: sample has no row"),
        (OLD, lambda f: f.with_columns(frame=pl.col("frame") + 1), f"{NAME}_006: its sample has no files"),
        (OLD, grouped("train", "mixed"), "group is not train, val or test: mixed"),
        (OLD, grouped(None), "group is not train, val or test: None"),
        (OLD, first("box2d", [0.5, 0.5, 1.2, 0.1]), "box2d is outside the picture"),
        (OLD, first("box2d", [0.5, 0.5, 0.0, 0.1]), "box2d is outside the picture or has no area"),
        (OLD, first("box2d", [0.5, float("nan"), 0.1, 0.1]), "box2d is outside the picture"),
        (OLD, first("box3d", [1, 2, 3, 4, 5, -1]), "box3d is not finite or has no extent"),
        (OLD, first("box3d", [float("inf"), 2, 3, 4, 5, 1]), "box3d is not finite or has no extent"),
        (OLD, first("mask", [0.1, 0.1, 0.2, 0.2]), "a mask is not a polygon"),
        (OLD, first("mask", [0.1, 0.1, 0.2, 0.2, 0.3, 1.3]), "a mask is not a polygon"),
        (OLD, first("mask", [0.1] * 6 + [float("nan")] + [0.1] * 4), "a mask is not a polygon"),
        (OLD, first("location", [51.0, -114.0]), "location is not a valid latitude and longitude"),
        (OLD, first("location", [0.0, 0.0]), "location is not a valid latitude and longitude"),
        (NEW, first("location", [-114.0, 51.0]), "location is not a valid latitude and longitude"),
        (NEW, first("pose", [0.0, 91.0, 0.0]), "pose is not a valid set of angles"),
        (NEW, first("box2d_score", 1.5), "scores2d are outside 0 to 1"),
        (NEW, first("polygon", [[0.1, 0.1, 0.2]]), "column polygon cannot be read"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_found(
    sound: dict[tuple[str, str], Path], tmp_path: Path, version: str, change: Columns, message: str
) -> None:
    dataset = copied(sound[version, "zip"], tmp_path)
    rewritten(dataset, lambda frame: frame, version)
    assert said(check(dataset)) == f"note ds: {NO_MANIFEST}"
    rewritten(dataset, change, version)
    assert message in said(check(dataset)), said(check(dataset))


def test_a_version_that_is_not_known_is_said(sound: dict[tuple[str, str], Path], tmp_path: Path) -> None:
    dataset = copied(sound["2026.10", "zip"], tmp_path)
    rewritten(dataset, lambda frame: frame, "2031.01")
    assert "warning ds.arrow: unknown schema_version, treated as 2026.10: 2031.01" in said(check(dataset))


def flipped(data: bytes) -> bytes:
    """One bit of the first file's content."""
    at = data.index(b"\xff\xd8") + 400
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def renamed(data: bytes) -> bytes:
    """The first entry's name in its own header only."""
    return data.replace(b"_000.camera", b"_009.camera", 1)


def other_crc(data: bytes) -> bytes:
    """The first entry's CRC-32 in its own header only."""
    return data[:14] + bytes([data[14] ^ 1]) + data[15:]


def without_last_entry(data: bytes) -> bytes:
    """The end record counts one more than there are."""
    end = bytearray(data)
    count = struct.unpack_from("<H", end, len(end) - 12)[0]
    struct.pack_into("<HH", end, len(end) - 14, count + 1, count + 1)
    return bytes(end)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (flipped, f"error ds.zip@{NAME}/{NAME}_000.camera.jpeg: is damaged: its length or CRC-32 is wrong"),
        (renamed, "central directory and local header differ"),
        (other_crc, "central directory and local header differ"),
        (lambda data: b"x" * 64 + data, "directory is not where the end record says: at "),
        (without_last_entry, "number of entries differs"),
        (lambda data: data[:-100], "no directory is at the end of its"),
        (lambda data: data[:0], "no directory is at the end of its 0 bytes"),
        (lambda data: data.replace(b"PK\1\2", b"PK\1\3"), "is not a complete ZIP file"),
        (lambda data: data.replace(b"PK\3\4", b"PK\3\5"), "is damaged: its length or CRC-32 is wrong"),
    ],
)
def test_a_damaged_zip_is_found(
    sound: dict[tuple[str, str], Path], tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    dataset = copied(sound["2025.01", "zip"], tmp_path)
    path = dataset / "ds.zip"
    path.write_bytes(change(path.read_bytes()))
    found = check(dataset)
    assert message in said(found), said(found)
    assert not found.ok


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_from_elsewhere_is_read(
    sound: dict[tuple[str, str], Path], tmp_path: Path, compression: int
) -> None:
    dataset = copied(sound["2025.01", "folder"], tmp_path)
    with zipfile.ZipFile(dataset / "ds.zip", "w", compression) as out:
        for path in sorted((dataset / "ds").rglob("*")):
            out.write(path, path.relative_to(dataset / "ds").as_posix())
    found = check(dataset)
    assert "has a ZIP and a folder of files" in said(found)
    assert ("compressed" in said(found)) == (compression == zipfile.ZIP_DEFLATED)
    assert found.ok
    assert found.counts["samples"] == FRAMES


@pytest.mark.long
def test_a_zip_of_more_files_than_its_end_record_counts_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as out:
        for number in range(1 << 16):
            out.writestr(f"{number}", b"")
    findings = Findings()
    assert sum(data == b"" for _, data in zip_files(tmp_path / "many.zip", findings)) == 1 << 16
    assert not findings.kept


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("name", ["ds.zip", "ds.arrow"])
@pytest.mark.parametrize("version", ["2025.01", "2026.10"])
def test_noise_never_raises(
    sound: dict[tuple[str, str], Path], tmp_path: Path, name: str, version: str
) -> None:
    dataset = copied(sound[version, "zip"], tmp_path)
    whole, rng = (dataset / name).read_bytes(), np.random.default_rng(5)
    failed = 0
    for _ in range(40):
        data = bytearray(whole)
        for at in rng.integers(len(data), size=3):
            data[at] = rng.integers(256)
        (dataset / name).write_bytes(data[: rng.integers(len(data) // 2, 2 * len(data))])
        failed += not check(dataset).ok
    assert failed > 5


def test_names_in_a_container_cannot_steer_the_terminal(
    sound: dict[tuple[str, str], Path], tmp_path: Path
) -> None:
    dataset = copied(sound["2025.01", "folder"], tmp_path)
    (dataset / "ds" / "\x1b[31mred\n.txt").write_bytes(b"x")
    text = check(dataset).text
    assert "\x1b" not in text
    assert "\\x1b[31mred\\n.txt" in text


def test_what_is_no_dataset_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="holds no EdgeFirst dataset"):
        check(tmp_path)
    with pytest.raises(DatasetNotFound, match="no such file or folder"):
        check(tmp_path / "x")


def without_data(data: bytes) -> bytes:
    """A PNG whose chunks and checksums are right, and that lacks most of its rows."""
    at = data.index(b"IDAT")
    rows = zlib.compress(zlib.decompress(data[at + 4 : data.index(b"IEND") - 8])[:100])
    body = b"IDAT" + rows
    idat = struct.pack(">I", len(rows)) + body + struct.pack(">I", zlib.crc32(body))
    return data[: at - 4] + idat + data[data.index(b"IEND") - 4 :]


def without_table(data: bytes) -> bytes:
    """A JPEG whose scan names Huffman tables that it does not have."""
    at = data.index(b"\xff\xda") + 6
    return data[:at] + b"\x33" + data[at + 1 :]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("camera.jpeg", without_table),
        ("depth.png", without_data),
        ("radar.png", without_data),
    ],
)
def test_content_that_does_not_decode_is_found_unless_it_is_to_be_quick(
    sound: dict[tuple[str, str], Path], tmp_path: Path, kind: str, change: Callable[[bytes], bytes]
) -> None:
    dataset = copied(sound["2026.10", "folder"], tmp_path)
    edit(kind, change)(dataset)
    (dataset / "ds.manifest").unlink()  # which would tell that it was changed
    assert f"{kind}: content cannot be read" in said(check(dataset))
    assert check(dataset, Look(quick=True)).ok


def test_a_picture_of_which_readers_show_a_part_is_warned_of_and_opened(
    sound: dict[tuple[str, str], Path], tmp_path: Path
) -> None:
    dataset = copied(sound["2026.10", "folder"], tmp_path)
    edit("camera.jpeg", lambda data: data[: len(data) // 2] + b"\xff\xd9")(dataset)
    assert not check(dataset).ok  # its manifest tells that it was changed
    (dataset / "ds.manifest").unlink()
    found = check(dataset)
    assert found.ok
    assert "camera.jpeg: part of the picture may be lost: Corrupt JPEG data" in said(found)
    with Image.open(dataset / file("camera.jpeg")) as image:
        np.testing.assert_array_equal(edgefirst_ros.open(dataset)[1]["image"], np.array(image))


def test_a_check_tells_how_far_it_is(sound: dict[tuple[str, str], Path]) -> None:
    passed: list[int] = []
    assert check(sound["2026.10", "zip"], Look(passed=passed.append)).ok
    assert sum(passed) > 0.9 * sum(len(data or b"") for _, data in zip_files(
        sound["2026.10", "zip"] / "ds.zip", Findings()
    ))  # fmt: skip


def test_findings_of_any_number_of_kinds_are_counted_and_few_are_kept() -> None:
    findings = Findings()
    for number in range(5000):
        findings.warning(f"place {number}", "is odd")
        findings.error("one place", "is damaged")
    assert findings.counts == {"warning": 5000, "error": 5000}
    assert len(findings.kept) < 1100
    assert findings.kept[1].level == "error"
