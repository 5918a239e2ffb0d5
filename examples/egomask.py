"""Drafts a mask of the vehicle in the pictures of a dataset, so that nobody trains on its bonnet.

    pip install scipy
    python examples/egomask.py DATASET -o ego.png

DATASET is an EdgeFirst dataset of a drive of 80 m or more in daylight; two pictures a second are enough
(convert --rate 2). The vehicle is what hardly changes while the rig drives, reaches the bottom or a side,
and ends at a contour that stays where the world passes. ego.png has 255 there, as `ncore.ego_masks` takes
it. Look at ego_preview.jpg first, and correct the mask with a drawing program: what hangs from the top is
taken for sky, a bonnet that mirrors half the scene is not found, a kerb that stays beside the car may be.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from pymap3d import geodetic2enu
from scipy import ndimage

import edgefirst_ros

APART_M, APART_S = 5.0, 1.0
"""Between two pictures: the road beside a bonnet is another one after that; by time without positions."""
FEWEST, MOST = 16, 64
"""Pictures: with fewer, a few alike make the road look steady; more add nothing new."""
WIDTH = 480
"""Pixels across of what is compared: grain and coding noise average out."""
QUIET = 16.0
"""Levels of 255 within which a place stays where nothing changes."""
OUTLIERS = 0.05
"""Share of the pictures that may be darker by any amount, and brighter: a wiper, a low sun, a shadow."""
STEP = 3.0
"""Levels by which neighbours differ across a contour."""
SEEN, ALIKE, BOUNDED = 0.6, 0.6, 0.5
"""Share of pictures with a contour, how alike its directions are, and its share of the vehicle's border."""
ACROSS = 0.4
"""Cosine between a contour's step and the way of what passes: lane markings lie along it."""
LEAST_AREA, LEAST_CHANGE = 0.002, 0.15
"""Shares of the picture: smaller parts are chance; where less changes nothing can be said."""
REACH = 2
"""Pixels beside a border where its contour may be: a lens blurs what is near, and rigs shake."""


def taken(dataset: edgefirst_ros.EdgeFirstDataset) -> list[int]:
    """Numbers of samples at different places."""
    places = dataset.with_keys(["time_ns"])
    chosen: list[int] = []
    last: tuple[np.ndarray, bool] | None = None
    origin = None
    for number in range(len(places)):
        sample = places[number]
        if sample["location"] is not None:
            origin = sample["location"] if origin is None else origin
            here = np.array(geodetic2enu(*sample["location"], 0.0, *origin, 0.0)), True
        else:
            here = np.array([(sample["time_ns"] or 0) / 1e9]), False
        if last is not None and last[1] == here[1]:
            apart = APART_M if here[1] else APART_S
            if np.linalg.norm(here[0] - last[0]) < apart:
                continue
        chosen.append(number)
        last = here
    if len(chosen) < FEWEST:
        raise SystemExit(f"error: {len(chosen)} places of the drive lie apart; {FEWEST} are needed")
    return [chosen[at] for at in np.linspace(0, len(chosen) - 1, min(len(chosen), MOST)).round().astype(int)]


def same_exposure(pictures: np.ndarray) -> np.ndarray:
    """Pictures (N, rows, columns), as bright as the middle one where they differ least."""
    some = pictures[:, ::4, ::4].reshape(len(pictures), -1).astype(np.float32)
    middle = np.median(some, axis=0)
    gains, steady = np.ones((len(some), 1), np.float32), middle > QUIET
    for _ in range(2):
        if not steady.any():
            break
        gains *= np.median(middle[steady] / np.maximum((gains * some)[:, steady], 1), axis=1, keepdims=True)
        middle = np.median(gains * some, axis=0)
        spread = np.median(np.abs(gains * some - middle), axis=0) / np.maximum(middle, QUIET)
        steady = (middle > QUIET) & (spread <= np.quantile(spread, 0.1))
    return pictures * np.clip(gains, 0.5, 2.0)[:, :, None]


def contour(level: np.ndarray) -> np.ndarray:
    """Where most pictures have a step in one direction, across the way on which everything passes."""
    seen, strength = np.zeros((2, *level.shape[1:]), np.float32)
    doubled = np.zeros(seen.shape, np.complex64)  # a step up and a step down are one direction
    for each in level:
        down, across = np.gradient(each)
        step = np.hypot(across, down)
        seen += step >= STEP
        strength += step
        doubled += (across + 1j * down) ** 2 / np.maximum(step, 1e-6)
    stays = (seen >= SEEN * len(level)) & (np.abs(doubled) >= ALIKE * np.maximum(strength, 1e-6))
    stays &= np.hypot(*np.gradient(np.median(level, axis=0))) >= STEP / 2
    y, x = np.indices(seen.shape)
    way = (seen.shape[1] / 2 - x) + 1j * (seen.shape[0] / 2 - y)  # to the middle, where the rig drives to
    way /= np.maximum(np.abs(way), 1e-6)
    direction = np.exp(0.5j * np.angle(doubled))
    return stays & (np.abs((direction * way.conj()).real) >= ACROSS)


def vehicle(pictures: np.ndarray) -> np.ndarray:
    """The part (rows, columns) of pictures (N, rows, columns) that is the vehicle."""
    level = same_exposure(pictures)
    ordered, few = np.sort(level, axis=0), int(OUTLIERS * len(level))
    quiet = ordered[-1 - few] - ordered[few] <= QUIET
    if 1 - quiet.mean() < LEAST_CHANGE:
        raise SystemExit(
            "error: hardly anything changes in the pictures, as in the dark, or if the rig stands"
        )
    edge = ndimage.binary_dilation(contour(level), np.ones((3, 3)), REACH)
    found = np.zeros_like(quiet)
    for candidates in (~edge, quiet & ~edge):
        parts, count = ndimage.label(candidates)
        for number in range(1, count + 1):
            part = parts == number
            reaches = part[-1].any() or ((part[:, 0].any() or part[:, -1].any()) and not part[0].any())
            border = ndimage.binary_dilation(part, np.ones((3, 3))) & ~part
            if not (reaches and border.any() and part.mean() >= LEAST_AREA and quiet[part].mean() >= 0.6):
                continue
            if edge[border].mean() >= BOUNDED:
                found |= part
    return ndimage.binary_fill_holes(ndimage.binary_dilation(found, np.ones((3, 3)), REACH + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Drafts a mask of the vehicle in a dataset's pictures.")
    parser.add_argument("dataset", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("ego.png"))
    chosen = parser.parse_args()
    try:
        dataset = edgefirst_ros.open(chosen.dataset, keys=["image"])
        images = [Image.fromarray(dataset[n]["image"]) for n in taken(dataset)]
    except edgefirst_ros.EdgeFirstError as error:
        raise SystemExit(f"error: {error}") from error
    first = images[0]
    small = WIDTH, max(1, round(WIDTH * first.height / first.width))
    mask = vehicle(np.stack([np.asarray(each.convert("L").resize(small)) for each in images]))
    whole = Image.fromarray(mask.astype(np.uint8) * 255).resize(first.size).point(lambda v: 255 * (v >= 128))
    whole.save(chosen.output)
    red = Image.composite(Image.new("RGB", first.size, (230, 30, 60)), first, whole)
    Image.blend(first, red, 0.5).save(chosen.output.with_name(f"{chosen.output.stem}_preview.jpg"))
    print(f"{chosen.output}: {mask.mean():.1%} of the picture is masked, from {len(images)} pictures")


if __name__ == "__main__":
    main()
