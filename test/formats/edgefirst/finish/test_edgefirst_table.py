"""The Arrow file from the journal, judged by polars and pyarrow."""

from __future__ import annotations

import base64
import gc
import io
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from edgefirst_samples import START_NS
from PIL import Image

from edgefirst_ros.formats.edgefirst import finish as table
from edgefirst_ros.formats.edgefirst.finish import write_table
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.store.journal import Annotation, SampleJournal, SampleRecord
from edgefirst_ros.model.pictures import encode_gray

SQUARE = np.array([0.1, 0.1, 0.2, 0.1, 0.2, 0.2, 0.1, 0.2], "<f4")
TRIANGLE = np.array([0.5, 0.5, 0.75, 0.5, 0.5, 1.0], "<f4")
RINGS = tuple(base64.b64encode(ring.tobytes()).decode() for ring in (SQUARE, TRIANGLE))
RASTER = encode_gray(np.eye(3, dtype=np.bool_))
FULL = Annotation(
    label="person",
    label_index=2,
    object_id="t-1",
    polygons=RINGS,
    mask=base64.b64encode(RASTER).decode(),
    box2d=(0.5, 0.25, 0.5, 0.125),
    box2d_score=0.75,
    box3d=(12.0, 2.0, -0.5, 1.75, 1.75, 1.5),
    box3d_score=0.5,
)
FLAT = Annotation(label="car", box2d=(0.5, 0.5, 1.0, 1.0))


def record(frame: int, *annotations: Annotation, sequence: str = "seq") -> SampleRecord:
    place, pose = (51.0447, -114.0719), (0.5, -1.25, 179.75)
    time_ns = START_NS + frame * 10**8
    return SampleRecord(sequence, frame, time_ns, (640, 480), place, pose, annotations)


def written(folder: Path, records: list[SampleRecord], version: str) -> Path:
    options = EdgeFirstOptions(schema_version=version)  # type: ignore[arg-type]
    journal = SampleJournal(folder / "ds.journal.part")
    journal.start(options)
    for entry in records:
        journal.commit([], entry.to_json())
    rows = write_table(journal, folder / "ds.arrow", options).rows
    journal.close()
    assert rows == sum(max(1, len(entry.annotations)) for entry in records)
    return folder / "ds.arrow"


def metadata(path: Path) -> dict[bytes, bytes]:
    return dict(pa.ipc.open_file(path).schema.metadata)


def test_published_columns_and_types(tmp_path: Path) -> None:
    path = written(tmp_path, [record(0, FULL, FLAT), record(1)], "2025.01")
    frame = pl.read_ipc(path.read_bytes())
    expected = {
        "name": pl.String,
        "frame": pl.UInt64,
        "group": pl.Enum(["train", "val", "test"]),
        "label": pl.Enum(["car", "person"]),
        "mask": pl.List(pl.Float32),
        "box2d": pl.Array(pl.Float32, 4),
        "box3d": pl.Array(pl.Float32, 6),
        "location": pl.Array(pl.Float64, 2),
        "pose": pl.Array(pl.Float64, 3),
        "degradation": pl.Enum(["none", "low", "medium", "high"]),
        "status": pl.Enum(["valid", "edit"]),
    }
    assert dict(frame.schema) == expected
    assert frame.columns == list(expected)
    assert metadata(path) == {b"schema_version": b"2025.01"}
    full, flat, empty = frame.iter_rows(named=True)
    assert (full["name"], full["frame"], full["label"]) == ("seq", 0, "person")
    np.testing.assert_array_equal(full["mask"], [*SQUARE, math.nan, *TRIANGLE])
    assert full["box2d"] == list(FULL.box2d or ())
    assert full["box3d"] == list(FULL.box3d or ())
    assert full["location"] == [-114.0719, 51.0447], "longitude first"
    assert full["pose"] == [0.5, -1.25, 179.75]
    assert (full["status"], flat["status"], empty["status"]) == ("valid", "edit", None)
    assert (flat["mask"], flat["box3d"]) == (None, None)
    nothing = {name for name, value in empty.items() if value is None}
    assert nothing == {"label", "mask", "box2d", "box3d", "degradation", "status"}
    assert full["group"] == flat["group"]


@pytest.mark.parametrize("complete", [True, False])
def test_a_mask_of_a_class_is_the_mask_of_its_objects(tmp_path: Path, complete: bool) -> None:
    box = replace(FULL, polygons=None, mask=None)
    whole = Annotation(label="person", polygons=FULL.polygons)
    other = replace(box, label="car")
    rows = [box, whole, other, *(() if complete else (replace(box, box3d=None),))]
    frame = pl.read_ipc(written(tmp_path, [record(0, *rows)], "2025.01").read_bytes())
    expected = ["valid", "valid", "edit"] if complete else ["valid", "edit", "edit", "edit"]
    assert frame["status"].to_list() == expected


def test_current_columns_and_types(tmp_path: Path) -> None:
    path = written(tmp_path, [record(0, FULL, FLAT), record(1)], "2026.10")
    frame = pl.read_ipc(path.read_bytes())
    expected = {
        "name": pl.String,
        "frame": pl.UInt32,
        "object_id": pl.String,
        "label": pl.Categorical,
        "label_index": pl.UInt64,
        "group": pl.Categorical,
        "polygon": pl.List(pl.List(pl.Float32)),
        "mask": pl.Binary,
        "box2d": pl.Array(pl.Float32, 4),
        "box2d_score": pl.Float32,
        "box3d": pl.Array(pl.Float32, 6),
        "box3d_score": pl.Float32,
        "size": pl.Array(pl.UInt32, 2),
        "location": pl.Array(pl.Float32, 2),
        "pose": pl.Array(pl.Float32, 3),
    }
    assert dict(frame.schema) == expected
    assert frame.columns == list(expected)
    assert metadata(path) == {b"schema_version": b"2026.10", b"labels": b'["car", "person"]'}
    full, flat, empty = frame.iter_rows(named=True)
    assert (full["label"], full["label_index"], full["object_id"]) == ("person", 2, "t-1")
    assert full["polygon"] == [SQUARE.tolist(), TRIANGLE.tolist()]
    with Image.open(io.BytesIO(full["mask"])) as image:
        np.testing.assert_array_equal(np.asarray(image), np.eye(3, dtype=np.bool_))
    assert (full["box2d_score"], full["box3d_score"], full["size"]) == (0.75, 0.5, [640, 480])
    assert full["location"] == pytest.approx([51.0447, -114.0719], abs=1e-5), "latitude first"
    assert (flat["label"], flat["label_index"], flat["polygon"]) == ("car", None, None)
    assert (empty["label"], empty["box2d"], empty["size"]) == (None, None, [640, 480])


def test_what_is_null_throughout_is_left_out_of_the_current_schema(tmp_path: Path) -> None:
    bare = SampleRecord("seq", 0, START_NS, None, None, None, ())
    frame = pl.read_ipc(written(tmp_path, [bare], "2026.10").read_bytes())
    assert frame.columns == ["name", "frame", "group"]
    frame = pl.read_ipc(written(tmp_path, [bare], "2025.01").read_bytes())
    assert len(frame.columns) == 11, "the article's columns stay"
    assert frame.row(0, named=True)["label"] is None


@pytest.mark.parametrize("version", ["2025.01", "2026.10"])
def test_many_batches_read_as_one_table(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [record(i, *[FULL, FLAT][: i % 3], sequence=f"seq{i // 20}") for i in range(40)]
    whole = pl.read_ipc(written(tmp_path, records, version).read_bytes())
    monkeypatch.setattr(table, "BATCH_BYTES", 1500)
    path = written(tmp_path, records, version)
    assert 8 < pa.ipc.open_file(path).num_record_batches < 20
    split = pl.read_ipc(path.read_bytes())
    assert split.schema == whole.schema
    assert split.equals(whole)
    for name in ("seq0", "seq1"):
        assert set(whole.filter(pl.col("name") == name)["group"]) >= {"train", "val"}


def test_where_a_batch_ends_is_what_it_was(tmp_path: Path) -> None:
    """With the sample that reaches 8 MiB: tables of long drives keep their bytes."""
    long = replace(FLAT, object_id="x" * 3_800_000)
    file = pa.ipc.open_file(written(tmp_path, [record(i, long) for i in range(4)], "2026.10"))
    assert [file.get_batch(n).num_rows for n in range(file.num_record_batches)] == [3, 1]


def test_an_empty_dataset_is_a_table_without_rows(tmp_path: Path) -> None:
    data = written(tmp_path, [], "2025.01").read_bytes()
    assert len(pl.read_ipc(data)) == 0
    # Before 1.37 polars takes an Enum without values for a Categorical when it reads the file itself.
    frame = pl.from_arrow(pa.ipc.open_file(data).read_all())
    assert frame.schema["label"] == pl.Enum([])


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "BATCH_BYTES", 20_000)
    peaks = []
    for count in (50, 200, 3000):  # the first fills the libraries' own caches
        gc.collect()
        records = [record(i, FULL, FLAT) for i in range(count)]
        written(tmp_path, records[:1], "2026.10")
        journal = SampleJournal(tmp_path / "ds.journal.part")
        for entry in records:
            journal.commit([], entry.to_json())
        tracemalloc.start()
        write_table(journal, tmp_path / "ds.arrow", EdgeFirstOptions(schema_version="2026.10"))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        journal.close()
    # Rows kept would make it fifteen times as much; what the collector has not got round to yet varies.
    assert peaks[2] < 3 * peaks[1]
