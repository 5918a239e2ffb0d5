"""What `make test-aarch64` takes for the same of two machines, and what not."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from alike import DifferentError, compare
from PIL import Image
from pyarrow import ipc

PIXELS = np.arange(600, dtype=np.uint16).reshape(20, 30)


def write(folder: Path, *, level: int = 1, pixel: int = 0, more: float = 0.0, clock: str = "stamp") -> Path:
    """A dataset of one picture, in which a number is ``more``."""
    folder.mkdir()
    pixels, held = PIXELS.copy(), BytesIO()
    pixels[0, 0] = pixel
    Image.fromarray(pixels).save(held, "PNG", compress_level=level)
    with zipfile.ZipFile(folder / "d.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("d_000.radar.png"), held.getvalue())
        archive.writestr(zipfile.ZipInfo("d_000.camera.jpeg"), b"the same")
    table = pa.table({"name": ["d"], "pose": [[1.0 + more, float("nan")]]})
    with ipc.new_file(folder / "d.arrow", table.schema) as file:
        file.write_table(table)
    told = {"versions": {"python": f"3.{level}"}, "clock": clock}
    (folder / "capture_report.json").write_text(json.dumps(told))
    (folder / "d.manifest").write_bytes(held.getvalue()[:40])
    return folder


def test_equal_bytes_need_no_word(tmp_path: Path) -> None:
    assert not any(compare(write(tmp_path / "a"), write(tmp_path / "b")).values())


def test_what_a_reader_sees_is_the_same(tmp_path: Path) -> None:
    found = compare(write(tmp_path / "a"), write(tmp_path / "b", level=9, more=1e-6))
    assert found["d.zip"] == "1 PNG of equal pixels"
    assert found["d.arrow"] == "numbers to 1e-06"
    assert found["capture_report.json"] == "all but versions and checksums"


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"pixel": 1}, "d.zip/d_000.radar.png"),
        ({"more": 1e-5}, "d.arrow/0/pose/0"),
        ({"clock": "publish"}, "clock"),
    ],
    ids=["pixel", "number", "word"],
)
def test_a_difference_is_found(tmp_path: Path, options: dict[str, float], where: str) -> None:
    ours, theirs = write(tmp_path / "a"), write(tmp_path / "b", **options)
    with pytest.raises(DifferentError, match=where):
        compare(ours, theirs)


def test_files_of_one_machine_are_found(tmp_path: Path) -> None:
    ours, theirs = write(tmp_path / "a"), write(tmp_path / "b")
    (theirs / "d.arrow").unlink()
    with pytest.raises(DifferentError, match=r"d\.arrow"):
        compare(ours, theirs)
