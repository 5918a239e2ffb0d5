"""Datasets as the vendor's tools and others write them: any names, columns, types and metadata."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from PIL import Image

from edgefirst_ros.model.pictures import encode_gray

BOX = [0.5, 0.5, 0.2, 0.4]


def picture(shade: int = 0, kind: str = "JPEG") -> bytes:
    """A picture of 40 x 20 pixels in one colour."""
    file = io.BytesIO()
    Image.new("RGB", (40, 20), (shade, shade, shade)).save(file, kind)
    return file.getvalue()


def png(values: npt.ArrayLike) -> bytes:
    """A gray PNG of bool, uint8 or uint16 values."""
    return encode_gray(np.asarray(values))


def foreign(
    folder: Path,
    table: pl.DataFrame | Mapping[str, Any],
    files: Mapping[str, bytes] | Iterable[str],
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """A dataset in a ZIP; of files that are only named, each is a picture."""
    folder.mkdir(parents=True)
    contents = files if isinstance(files, Mapping) else {name: picture(n) for n, name in enumerate(files)}
    with zipfile.ZipFile(folder / f"{folder.name}.zip", "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    path = folder / f"{folder.name}.arrow"
    (table if isinstance(table, pl.DataFrame) else pl.DataFrame(table)).write_ipc(path)
    if metadata:
        with pa.memory_map(str(path)) as file:
            stored = pa.ipc.open_file(file).read_all()
        texts = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()
        }
        with pa.ipc.new_file(folder / "new", stored.schema.with_metadata(texts)) as out:
            out.write_table(stored)
        (folder / "new").replace(path)
    return folder


def boxes(count: int) -> pl.Series:
    """That number of equal boxes."""
    return pl.Series([BOX] * count, dtype=pl.Array(pl.Float32, 4))
