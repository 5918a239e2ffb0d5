"""Video whose bytes were damaged on the way: what of it reaches a dataset."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from scenarios import Figure, at_least, driven, exactly, scenario, seconds, told

RUINED_DB = 40.0
"""Of JPEGs of the same picture; what differs less can hardly be seen."""


def pictures(root: Path) -> dict[int, npt.NDArray[np.uint8]]:
    """The camera's pictures of the dataset below ``root``, by frame number."""
    (archive,) = root.rglob("*.zip")
    with zipfile.ZipFile(archive) as opened:
        return {
            int(name.removesuffix(".camera.jpeg").rpartition("_")[2]): np.asarray(
                Image.open(io.BytesIO(opened.read(name)))
            )
            for name in opened.namelist()
            if name.endswith(".camera.jpeg")
        }


def alike(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> bool:
    """Whether two pictures are the same as far as anybody sees."""
    error = float(((one.astype(float) - other) ** 2).mean())
    return error == 0 or 10 * np.log10(255**2 / error) > RUINED_DB


def in_place(folder: Path, codec: str) -> Iterator[Figure]:
    """A drive with damaged access units against the same one without."""
    length_s = seconds(24.0)
    common = {"seconds": length_s, "codec": codec}
    driven(folder / "sound", **common)
    done, truth = driven(folder / "damaged", damage_video=0.08, **common)
    sound, made = pictures(folder / "sound"), pictures(folder / "damaged")
    topic = f"/camera/{codec}"
    damaged = {message for message, _ in truth.data["video"][topic]["damaged"]}
    clean = set(truth.clean_messages(topic))
    ruined = [number for number, picture in made.items() if not alike(picture, sound[number])]
    yield told("access units damaged", len(damaged))
    yield exactly("ruined pictures written", len(ruined), 0)
    caught = 100.0 * len(damaged - set(made)) / max(1, len(damaged))
    yield at_least("damaged access units held back", caught, 90.0, "%")
    yield exactly("sound pictures held back", len(clean - set(made)), 0)
    yield told("samples", done.report["samples"])


@scenario("h265 damaged in place", "H.265: at least 90 % of damage caught, no sound picture refused")
def h265_in_place(folder: Path) -> Iterator[Figure]:
    """Which libavcodec does not find."""
    yield from in_place(folder, "h265")


@scenario("h264 damaged in place", "H.264: at least 90 % of damage caught, no sound picture refused")
def h264_in_place(folder: Path) -> Iterator[Figure]:
    """Which libavcodec finds."""
    yield from in_place(folder, "h264")
