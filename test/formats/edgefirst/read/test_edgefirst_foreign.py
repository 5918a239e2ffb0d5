"""Datasets of the vendor and of others: which samples there are, and what their columns mean."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from edgefirst_foreign import BOX, boxes, foreign, picture, png

import edgefirst_ros
from edgefirst_ros.formats.edgefirst.read.files import find_stems
from edgefirst_ros.model.errors import ConfigError, DatasetError

Type = type[pl.DataType]
PLACES = [f"s/s_{n:03d}.camera.jpeg" for n in range(1, 6)]


def floats(values: list[float], width: Type = pl.Float32) -> pl.Series:
    return pl.Series([values], dtype=pl.Array(width, len(values)))


@pytest.mark.parametrize(
    ("version", "width", "location", "pose"),
    [
        ("2025.01", pl.Float64, [8.5, 47.5], [1, 2, 3]),
        ("2025.01", pl.Float32, [8.5, 47.5], [1, 2, 3]),
        ("2025.10", pl.Float32, [47.5, 8.5], [3, 2, 1]),
        ("2026.04", pl.Float32, [47.5, 8.5], [3, 2, 1]),
        ("2026.10", pl.Float32, [47.5, 8.5], [1, 2, 3]),
        ("2026.10", pl.Float64, [47.5, 8.5], [1, 2, 3]),
        ("2031.10", pl.Float32, [47.5, 8.5], [1, 2, 3]),
        (None, pl.Float32, [47.5, 8.5], [3, 2, 1]),
        (None, pl.Float64, [8.5, 47.5], [1, 2, 3]),
    ],
)
def test_places_and_angles_have_one_order(
    tmp_path: Path, version: str | None, width: Type, location: list[float], pose: list[float]
) -> None:
    """By the vendor: without a version a file is of 2025.10, and 64-bit floats are those of the article."""
    rows = {"name": ["s"], "frame": [1], "location": floats(location, width), "pose": floats(pose, width)}
    folder = foreign(tmp_path / "ds", rows, PLACES[:1], version and {"schema_version": version})
    opened = edgefirst_ros.open(folder)
    assert opened.schema_version == version
    assert opened[0]["location"].tolist() == [47.5, 8.5]
    assert opened[0]["pose"].tolist() == [1, 2, 3]


def test_pictures_without_rows_are_samples(tmp_path: Path) -> None:
    """The vendor: samples of the archive are the primary source; one without rows has no objects."""
    rows = {"name": ["s"], "frame": [3], "group": ["train"], "label": ["car"], "box2d": boxes(1)}
    opened = edgefirst_ros.open(foreign(tmp_path / "ds", rows, PLACES))
    assert [sample["frame"] for sample in opened] == [1, 2, 3, 4, 5]
    assert [sample["group"] for sample in opened] == [None, None, "train", None, None]
    assert [len(sample["boxes2d"]) for sample in opened] == [0, 0, 1, 0, 0]
    assert all(sample["image"] is not None for sample in opened)
    empty = opened[0]
    assert (empty["boxes2d"].shape, empty["boxes3d"].shape, empty["masks"]) == ((0, 4), (0, 6), [])
    assert (empty["location"], empty["pose"]) == (None, None)
    assert [sample["frame"] for sample in edgefirst_ros.open(tmp_path, group="train")] == [3]
    assert len(opened.to_polars()) == 1


@pytest.mark.parametrize(
    "name",
    [
        "s/s_002.camera.jpeg", "s/s_002.camera.jpg", "s/s_002.jpg", "s/s_002.jpeg", "s/s_2.camera.jpeg",
        "s/s_0002.camera.jpeg", "s_002.camera.jpeg", "s_2.jpg", "s_2_front.camera.jpeg",
        "any/where/s_002.JPG", "s/s_002.camera.JPEG",
    ],
)  # fmt: skip
def test_pictures_are_found_however_they_are_named(tmp_path: Path, name: str) -> None:
    rows = {"name": ["s"], "frame": [2], "label": ["car"], "box2d": boxes(1)}
    folder = foreign(tmp_path / "ds", rows, {name: picture(200), "__MACOSX/s/._s_002.jpg": b"", "r.txt": b""})
    opened = edgefirst_ros.open(folder)
    (sample,) = opened
    assert (sample["name"], sample["frame"]) == ("s_002", 2)
    assert sample["image"].shape == (20, 40, 3)
    assert abs(int(sample["image"].mean()) - 200) < 3
    assert opened.file(0, "camera.jpeg", "camera.jpg", "jpg", "jpeg") == picture(200)


@pytest.mark.parametrize("name", ["s/s_002.camera.png", "s/s_002.png"])
def test_pictures_may_be_png(tmp_path: Path, name: str) -> None:
    rows = {"name": ["s"], "frame": [2]}
    (sample,) = edgefirst_ros.open(foreign(tmp_path / "ds", rows, {name: picture(9, "PNG")}))
    assert sample["image"].mean() == 9


def test_files_of_a_sample_may_differ_in_their_digits(tmp_path: Path) -> None:
    files = {"s/s_2.camera.jpg": picture(1), "s/s_002.depth.png": png(np.full((2, 2), 7, np.uint16))}
    (sample,) = edgefirst_ros.open(foreign(tmp_path / "ds", {"name": ["s"], "frame": [2]}, files))
    assert sample["image"] is not None
    assert sample["depth"].max() == 7


def test_files_of_other_sensors_are_no_pictures(tmp_path: Path) -> None:
    files = {"s/s_002.camera.jpeg": picture(1), "s/s_002.thermal.png": b"heat"}
    opened = edgefirst_ros.open(foreign(tmp_path / "ds", {"name": ["s"], "frame": [2]}, files))
    assert len(opened) == 1
    assert opened.file(0, "thermal.png") == b"heat"


def test_pictures_of_no_sequence_have_no_frame(tmp_path: Path) -> None:
    """Image-based and mixed datasets of the vendor's format: the frame is null, the name is the file's."""
    rows = {
        "name": ["IMG_0007", "beach", "s"],
        "frame": pl.Series([None, None, 4], dtype=pl.UInt32),
        "label": ["dog", "cat", "car"],
        "box2d": boxes(3),
    }
    files = ["IMG_0007.jpg", "beach.png", "holiday_12.jpg", "s/s_004.camera.jpeg", "s/s_005.camera.jpeg"]
    opened = edgefirst_ros.open(foreign(tmp_path / "ds", rows, files), keys=["boxes2d"])
    found = [(each["name"], each["sequence"], each["frame"], len(each["boxes2d"])) for each in opened]
    assert found == [
        ("IMG_0007", "IMG_0007", None, 1),
        ("beach", "beach", None, 1),
        ("holiday_12", "holiday_12", None, 0),
        ("s_004", "s", 4, 1),
        ("s_005", "s", 5, 0),
    ]
    assert all(opened.file(number, "jpg", "png", "camera.jpeg") for number in range(5))


@pytest.mark.parametrize("crowd", ["ignore", "iscrowd"])
@pytest.mark.parametrize("width", [pl.Boolean, pl.UInt8])
def test_what_is_to_be_ignored_is_told_and_what_is_excluded_is_left_out(
    tmp_path: Path, crowd: str, width: Type
) -> None:
    rows = {
        "name": ["s"] * 4,
        "frame": [1] * 4,
        "label": ["car", "person", "zebra", None],
        "box2d": boxes(4),
        "box3d": pl.Series([[1.0] * 6] * 4, dtype=pl.Array(pl.Float32, 6)),
        "polygon": [[[0.1, 0.1, 0.5, 0.1, 0.5, 0.5]]] * 4,
        crowd: pl.Series([None, 1, 0, 1]).cast(width),
        "exclude": pl.Series([None, 0, 1, 0]).cast(width),
    }
    opened = edgefirst_ros.open(foreign(tmp_path / "ds", rows, PLACES[:1]))
    assert opened.labels == ("car", "person")
    for labels, ignore in (("2d", "2d"), ("3d", "3d"), ("_masks", "_masks")):
        assert opened[0][f"labels{labels}"].tolist() == [0, 1, -1]
        assert opened[0][f"ignore{ignore}"].tolist() == [False, True, True]
        assert opened[0][f"ignore{ignore}"].dtype == np.bool_


def masked(
    folder: Path,
    mask: bytes,
    metadata: dict[str, Any] | None = None,
    **columns: Any,  # noqa: ANN401
) -> edgefirst_ros.EdgeFirstDataset:
    rows = {"name": ["s"], "frame": [1], "mask": [mask], **columns}
    return edgefirst_ros.open(foreign(folder, rows, PLACES[:1], metadata), keys=["masks", "boxes2d"])


def raster(opened: edgefirst_ros.EdgeFirstDataset, mask: int = 0) -> list[list[int]]:
    return edgefirst_ros.rasterise(opened[0]["masks"][mask], 2, 4).astype(int).tolist()  # type: ignore[no-any-return]


OBJECT = np.array([[3, 3, 250, 250], [3, 3, 250, 128]])
LEFT_OUT = [[0, 0, 1, 1], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    "values",
    [
        OBJECT.astype(np.uint8),
        (OBJECT * 256).astype(np.uint16),
        OBJECT > 100,
        (OBJECT > 100).astype(np.uint8),
        (OBJECT > 100) * np.uint8(255),
    ],
    ids=["confidence", "16 bits", "1 bit", "0 and 1 in 8 bits", "0 and 255"],
)
def test_a_mask_of_an_object_begins_at_half(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    opened = masked(tmp_path / "ds", png(values), label=["car"], box2d=boxes(1))
    assert len(opened[0]["masks"]) == 1
    assert raster(opened) == LEFT_OUT
    assert opened[0]["labels_masks"].tolist() == [0]


CLASSES = np.array([[0, 1, 1, 0], [0, 2, 2, 255]], np.uint8)


def test_a_mask_without_an_object_is_one_of_classes(tmp_path: Path) -> None:
    notes = {"labels": ["background", "road", "car", *["x"] * 252, "void"], "ignore_index": "255"}
    opened = masked(tmp_path / "ds", png(CLASSES), notes)
    assert opened.labels[:3] == ("background", "road", "car")
    assert [opened.labels[label] for label in opened[0]["labels_masks"]] == ["road", "car"]
    assert [raster(opened, 0), raster(opened, 1)] == [
        [[0, 1, 1, 0], [0, 0, 0, 0]], [[0, 0, 0, 0], [0, 1, 1, 0]]
    ]  # fmt: skip


def test_classes_without_names_are_masks_without_labels(tmp_path: Path) -> None:
    assert masked(tmp_path / "ds", png(CLASSES))[0]["labels_masks"].tolist() == [-1, -1, -1]


def test_the_first_class_is_one_if_the_list_says_so(tmp_path: Path) -> None:
    opened = masked(
        tmp_path / "ds", png(CLASSES), {"labels": ["sky", "road"], "mask_interpretation": "class_index"}
    )
    assert opened[0]["labels_masks"].tolist() == [0, 1, -1, -1]


def test_a_mask_of_few_bits_has_its_values(tmp_path: Path) -> None:
    """By hand: 4 x 1 pixels of 2 bits, 0 1 2 3, which image libraries stretch to 0 85 170 255."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 4, 1, 2, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\x1b"))
    opened = masked(tmp_path / "ds", data + chunk(b"IEND", b""), {"labels": ["background", "a", "b", "c"]})
    assert opened[0]["labels_masks"].tolist() == [1, 2, 3]


def test_a_mask_of_a_part_of_the_picture_is_in_its_place(tmp_path: Path) -> None:
    """The vendor's chunk oFFs: where the tile begins, in pixels of the picture."""
    whole = png(np.ones((1, 2), np.bool_))
    body = b"oFFs" + struct.pack(">iiB", 2, 1, 0)
    tile = whole[:33] + struct.pack(">I", 9) + body + struct.pack(">I", zlib.crc32(body)) + whole[33:]
    size = pl.Series([[4, 2]], dtype=pl.Array(pl.UInt32, 2))
    assert raster(masked(tmp_path / "ds", tile, label=["a"], size=size)) == [[0, 0, 0, 0], [0, 0, 1, 1]]
    with pytest.raises(DatasetError, match=r"ds\.arrow@row 0: column mask cannot be read: .* no size"):
        masked(tmp_path / "other" / "ds", tile, label=["a"])[0]


def test_logits_are_no_outlines(tmp_path: Path) -> None:
    opened = masked(tmp_path / "ds", png(CLASSES), {"mask_interpretation": "logits"}, box2d=boxes(1))
    assert opened[0]["masks"] == []
    assert len(opened[0]["boxes2d"]) == 1


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("polygon", [None, [[0.1, 0.2, 0.3]]], "a ring has 3 numbers"),
        ("mask", [None, [0.1, 0.2, float("nan"), 0.3]], "a ring has 1 numbers"),
        ("mask", [None, b"no PNG"], "it is neither a JPEG nor a PNG"),
        ("box2d", [BOX, BOX[:3]], "it has not 4 numbers"),
        ("box2d", [None, ["a", "b", "c", "d"]], "'a' is no number"),
        ("box2d_score", [None, "high"], "'high' is no number"),
    ],
)
def test_odd_values_are_named_by_row_and_column(
    tmp_path: Path, column: str, values: list[Any], said: str
) -> None:
    folder = foreign(tmp_path / "ds", {"name": ["s", "s"], "frame": [1, 2], column: values}, PLACES[:2])
    opened = edgefirst_ros.open(folder, keys=["boxes2d", "masks"])
    assert opened[0] is not None
    with pytest.raises(DatasetError, match=rf"ds\.arrow@row 1: column {column} cannot be read: {said}"):
        opened[1]


def test_frames_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "ds", {"name": ["s"], "frame": [1.5]}, PLACES[:1])
    with pytest.raises(DatasetError, match=r"ds\.arrow: column frame has no numbers of frames: .*1\.5"):
        edgefirst_ros.open(folder)


def test_a_ring_that_is_null_is_no_ring(tmp_path: Path) -> None:
    rows = {"name": ["s"], "frame": [1], "polygon": [[None, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]]}
    (sample,) = edgefirst_ros.open(foreign(tmp_path / "ds", rows, PLACES[:1]))
    assert [[ring.shape for ring in rings] for rings in sample["masks"]] == [[(3, 2)]]


def test_labels_are_those_that_the_file_lists(tmp_path: Path) -> None:
    rows = pl.DataFrame({"name": ["s"], "frame": [1], "label": ["car"], "box2d": boxes(1)})
    listed = rows.with_columns(pl.col("label").cast(pl.Enum(["truck", "car", "bus"])))
    for folder, table, notes in (
        ("enum", listed, {}),
        ("notes", rows, {"labels": ["truck", "car", "bus"]}),
    ):
        opened = edgefirst_ros.open(foreign(tmp_path / folder, table, PLACES[:1], notes))
        assert opened.labels == ("truck", "car", "bus")
        assert opened[0]["labels2d"].tolist() == [1]


def test_labels_that_are_given_are_the_same_for_all_datasets(tmp_path: Path) -> None:
    drives = [
        foreign(
            tmp_path / label, {"name": ["s"], "frame": [1], "label": [label], "box2d": boxes(1)}, PLACES[:1]
        )
        for label in ("bus", "car")
    ]
    assert [edgefirst_ros.open(drive)[0]["labels2d"].tolist() for drive in drives] == [[0], [0]]
    same = [edgefirst_ros.open(drive, labels=["car", "bus"]) for drive in drives]
    assert [opened[0]["labels2d"].tolist() for opened in same] == [[1], [0]]
    assert {opened.labels for opened in same} == {("car", "bus")}
    with pytest.raises(ConfigError, match=r"labels: .*bus also has bus; add"):
        edgefirst_ros.open(drives[0], labels=["car"])
    listed = {"labels": ["bus", "car", "tram"]}
    rows = {"name": ["s"], "frame": [1], "label": ["car"], "box2d": boxes(1)}
    only = edgefirst_ros.open(foreign(tmp_path / "listed", rows, PLACES[:1], listed), labels=["car"])
    assert only[0]["labels2d"].tolist() == [0]
    classes = masked(tmp_path / "classes", png(CLASSES), {"labels": ["background", "road"]}).path
    with pytest.raises(ConfigError, match=r"labels: .*classes also has road; add it"):
        edgefirst_ros.open(classes, labels=["car"])[0]
    with pytest.raises(ConfigError, match="labels: a name is there twice"):
        edgefirst_ros.open(drives[0], labels=["bus", "bus"])


@pytest.mark.parametrize(
    "notes", [{"labels": "{}"}, {"labels": "[1]"}, {"labels": "["}, {"mask_interpretation": "guess"},
              {"ignore_index": "-"}],
)  # fmt: skip
def test_metadata_that_mean_nothing_are_refused(tmp_path: Path, notes: dict[str, str]) -> None:
    folder = foreign(tmp_path / "ds", {"name": ["s"], "frame": [1]}, PLACES[:1], notes)
    with pytest.raises(DatasetError, match=r"ds\.arrow: its metadata cannot be read"):
        edgefirst_ros.open(folder)


def test_a_radar_cube_without_texts_has_the_layout_of_the_article(tmp_path: Path) -> None:
    """By hand: a grid of 4 receivers by 2 sequences, each cell range by Doppler in (re, im) pairs."""
    cube = np.arange(2 * 4 * 3 * 5 * 2).reshape(2, 4, 3, 5, 2) - 100  # sequence, receiver, range, Doppler
    grid = np.block([[cube[s, r].reshape(3, 10) for r in range(4)] for s in range(2)])
    files = {"s/s_001.radar.png": png((grid + 32768).astype(np.uint16))}
    (sample,) = edgefirst_ros.open(foreign(tmp_path / "ds", {"name": ["s"], "frame": [1]}, files))
    complex_cube = cube[..., 0] + 1j * cube[..., 1]
    assert sample["cube"].dtype == np.complex64
    assert (sample["cube"] == complex_cube.transpose(0, 2, 1, 3)).all()
    assert list(sample["cube_axes"]) == ["sequence", "range", "rxchannel", "doppler"]
    assert np.isnan(sample["cube_axes"]["range"]).all()
    assert sample["cube_axes"]["rxchannel"].tolist() == [0, 1, 2, 3]


HEADER = (
    "VERSION .7\nFIELDS x y z id n\nSIZE 4 4 4 1 8\nTYPE F F F U I\nCOUNT 1 1 1 1 2\nPOINTS 2\nDATA ascii\n"
)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_points_may_be_text(tmp_path: Path, end: str) -> None:
    text = HEADER + "1 2.5 -3e1 255 9007199254740993 -1\n\n4 nan 6 7 8 9\n"
    files = {"s/s_001.lidar.pcd": text.replace("\n", end).encode()}
    (sample,) = edgefirst_ros.open(foreign(tmp_path / "ds", {"name": ["s"], "frame": [1]}, files))
    points = sample["lidar"]
    assert points["x"].tolist() == [1, 4]
    assert points["z"].tolist() == [-30, 6]
    assert np.isnan(points["y"]).tolist() == [False, True]
    assert points["id"].tolist() == [255, 7]
    assert points["n"].tolist() == [[9007199254740993, -1], [8, 9]]


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("lidar.pcd", HEADER.encode() + b"1 2 3 4 5 6\n", "it has 1 points instead of 2"),
        ("lidar.pcd", HEADER.replace("ascii", "binary_compressed").encode(), "points are binary_compressed"),
        ("lidar.pcd", b"POINTS 2\nDATA binary\n", "its header has no FIELDS, SIZE, TYPE"),
        ("radar.png", png(np.zeros((3, 16), np.uint16)), "not a radar.png"),
    ],
)
def test_what_cannot_be_decoded_says_how_to_read_the_rest(
    tmp_path: Path, kind: str, data: bytes, said: str
) -> None:
    folder = foreign(tmp_path / "ds", {"name": ["s"], "frame": [1]}, {f"s/s_001.{kind}": data})
    with pytest.raises(DatasetError, match=rf"{kind}: cannot be decoded .*keys=\[...\] without it.*{said}"):
        edgefirst_ros.open(folder)[0]
    assert edgefirst_ros.open(folder, keys=["image"])[0]["image"] is None


def test_names_that_no_file_system_takes_are_no_samples() -> None:
    assert find_stems(["s_1.camera.jpeg", f"{'_1' * 200_000}_.png"], []) == {("s", 1): ("s_1",)}
