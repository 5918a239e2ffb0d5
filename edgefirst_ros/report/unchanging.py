"""What never changes in the pictures of a camera that moved: the part of the vehicle that it sees.

Two things together make the vehicle: it hardly changes, and it ends at a contour that stays although the
world behind it passes. Sky and plain road do not change either, and lane markings and kerbs stay as well:
they lie along the way on which everything passes, out of the point that the rig drives to. A contour that
lies across that way, and stays, moves with the camera.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

Bits = npt.NDArray[np.bool_]
Luma = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Complexes = npt.NDArray[np.complex64]
Aim = tuple[float, float, float]
"""The point of the picture that the rig drives to or comes from, in fractions of width and height, as
homogeneous coordinates: the third is 0 for a camera that looks to the side."""

AHEAD: Aim = (0.5, 0.5, 1.0)
"""Of a camera that looks straight ahead."""

WIDTH = 480
"""Pixels across of what is compared: grain and coding noise average out, and a contour is off by 0.2 %."""
QUIET = 16.0
"""Levels of 255 within which a place stays where nothing changes: more than noise, and than what lacquer
reflects of most scenes; markings, kerbs and shadows differ by several times that."""
QUIET_SHARE = 0.6
"""Of the vehicle's pixels; the rest reflects more."""
OUTLIERS = 0.05
"""Share of the pictures that may be darker by any amount, and brighter: a wiper, a low sun, a shadow."""
STEP = 3.0
"""Levels by which neighbours differ across a contour; an even gradient, as of the sky, has a fifth of it."""
SEEN = 0.6
"""Share of the pictures in which a contour is there; what passes is at one place in few of them."""
ALIKE = 0.6
"""How alike a contour's directions are, from 0 to 1: foliage and gravel reach 0.2, a contour 0.9."""
ACROSS = 0.4
"""Cosine between a step and the way of what passes: contours count from 24° off it, as mounts err."""
BOUNDED, BOUNDED_BESIDE = 0.5, 0.7
"""Share of the border within the picture that is contour across the way, of what reaches the bottom and of
what reaches a side alone: sides of a bonnet lie along the way, and where it is as bright as the road there is
no contour. Plain road beside a lane marking, above a bonnet, has up to half."""
NEAR_AIM = 0.04
"""Of the width, around the point that the rig drives to: what is there is far, and no part of the vehicle."""
LEAST_AREA = 0.002
"""Of the picture; smaller ones are chance, and a mask has no use of them."""
_REACH = 2
"""Pixels beside a border where its contour may be: a lens blurs what is near, and rigs shake."""
_SPARSE = 4
"""One of so many pixels each way tells the exposure."""
_STEADY = 0.1
"""Share of the picture that tells the exposure once the whole has told it roughly."""
_DARK = 16.0
"""Levels below which brightness says nothing of the exposure."""


@dataclass(frozen=True, slots=True)
class Unchanging:
    """What pictures have in common.

    Attributes:
        vehicle: (rows, columns) the part of the picture that is the vehicle's.
        changes: share of the picture that changes at all; without it nothing can be told.
    """

    vehicle: Bits
    changes: float


def unchanging(pictures: Luma, aim: Aim = AHEAD) -> Unchanging:
    """Find the vehicle in pictures (N, rows, columns) taken at different places.

    Args:
        pictures: of one camera.
        aim: where the rig drives to.
    """
    level = _same_exposure(pictures)
    ordered = np.sort(level, axis=0)
    few = int(OUTLIERS * len(level))
    quiet = ordered[-1 - few] - ordered[few] <= QUIET
    contour, direction = _contour(level, ordered[len(level) // 2])
    passing, at_aim = _passing(aim, quiet.shape)
    across = np.abs(direction.real * passing.real + direction.imag * passing.imag) >= ACROSS
    near = _grown(contour, _REACH)
    crossing = _grown(contour & across & ~at_aim, _REACH)
    found = np.zeros_like(quiet)
    for parts in (~near, quiet & ~near):
        for part in _regions(parts):
            if quiet[part].mean() >= QUIET_SHARE and not part[at_aim].any() and _is_vehicle(part, crossing):
                found |= part
    if found.any():
        found = _filled(_grown(found, _REACH + 1))
    return Unchanging(found, float(1 - quiet.mean()))


def at_size(mask: Bits, size: tuple[int, int]) -> Bits:
    """A mask at the size (width, height) of the pictures that it is for."""
    whole = Image.fromarray(mask.astype(np.uint8) * 255).resize(size, Image.Resampling.BILINEAR)
    return np.asarray(whole) >= 128


def _same_exposure(pictures: Luma) -> Floats:
    """The pictures, (N, rows, columns), as bright as the middle one where they differ least."""
    some = pictures[:, ::_SPARSE, ::_SPARSE].reshape(len(pictures), -1).astype(np.float32)
    gains = np.ones((len(some), 1), np.float32)
    steady = (middle := np.median(some, axis=0)) > _DARK
    for _ in range(2):
        if not steady.any():
            break
        shown = gains * some
        gains *= np.median(middle[steady] / np.maximum(shown[:, steady], 1.0), axis=1, keepdims=True)
        shown = gains * some
        middle = np.median(shown, axis=0)
        spread = np.median(np.abs(shown - middle), axis=0) / np.maximum(middle, _DARK)
        steady = (middle > _DARK) & (spread <= np.quantile(spread, _STEADY))
    level: Floats = pictures * np.clip(gains, 0.5, 2.0)[:, :, None]
    return level


def _contour(level: Floats, middle: Floats) -> tuple[Bits, Complexes]:
    """Where most pictures have a step, always in one direction, be it up or down; and that direction."""
    seen = np.zeros(level.shape[1:], np.float32)
    strength, doubled = np.zeros_like(seen), np.zeros(seen.shape, np.complex64)
    for each in level:
        down, across = np.gradient(each)
        step = np.hypot(across, down)
        seen += step >= STEP
        strength += step
        # The angle is doubled so that a step up and a step down are one direction.
        doubled += (across + 1j * down) ** 2 / np.maximum(step, 1e-6)
    always = (seen >= SEEN * len(level)) & (np.abs(doubled) >= ALIKE * np.maximum(strength, 1e-6))
    # Far away the road has steps in every picture, but each time between other places.
    stays = np.hypot(*np.gradient(middle)) >= STEP / 2
    return always & stays, np.exp(0.5j * np.angle(doubled)).astype(np.complex64)


def _passing(aim: Aim, shape: tuple[int, ...]) -> tuple[Complexes, Bits]:
    """The direction in which everything passes each pixel, across and down; and what is near the aim."""
    rows, columns = shape
    y, x = np.mgrid[:rows, :columns].astype(np.float32) + 0.5
    across, down, ahead = aim[0] * columns, aim[1] * rows, aim[2]
    way = (across - ahead * x) + 1j * (down - ahead * y)
    length = np.abs(way)
    at_aim: Bits = length < NEAR_AIM * columns * abs(ahead)
    return (way / np.maximum(length, 1e-6)).astype(np.complex64), at_aim


def _is_vehicle(part: Bits, contour: Bits) -> bool:
    """Whether a region ends as the vehicle does, and is not the sky, which reaches the top."""
    below, above = part[-1].any(), part[0].any()
    border = _grown(part, 1) & ~part
    if (above and not below) or not border.any():
        return False
    return bool(contour[border].mean() >= (BOUNDED if below else BOUNDED_BESIDE))


def _grown(mask: Bits, by: int) -> Bits:
    """With all pixels within a square of so many more to each side."""
    wide = np.pad(mask, by)
    rows, columns = mask.shape
    tall = np.logical_or.reduce([wide[:, n : n + columns] for n in range(2 * by + 1)])
    grown: Bits = np.logical_or.reduce([tall[n : n + rows] for n in range(2 * by + 1)])
    return grown


def _filled(mask: Bits) -> Bits:
    """Without holes: what is connected neither to the top nor to a side."""
    free = ~mask
    seeds = np.zeros_like(free)
    seeds[0], seeds[:, 0], seeds[:, -1] = free[0], free[:, 0], free[:, -1]
    return ~_connected(seeds, free)


def _regions(mask: Bits) -> list[Bits]:
    """The connected parts that reach the bottom or a side and are no chance, the largest first."""
    left, found = mask.copy(), []
    rim = np.zeros_like(mask)
    rim[-1], rim[:, 0], rim[:, -1] = True, True, True
    while (at := np.flatnonzero(left & rim)).size:
        seed = np.zeros_like(mask)
        seed.flat[at[0]] = True
        part = _connected(seed, left)
        left &= ~part
        if part.mean() >= LEAST_AREA:
            found.append(part)
    return found


def _connected(seeds: Bits, mask: Bits) -> Bits:
    """The pixels of a mask that are connected to its seeds, across or down."""
    reached = seeds & mask
    before = -1
    while (count := int(reached.sum())) != before:
        before = count
        reached = _along_rows(reached, mask)
        reached = _along_rows(reached.T, mask.T).T
    return reached


def _along_rows(reached: Bits, mask: Bits) -> Bits:
    """Each run of a row of the mask that was reached anywhere, as a whole."""
    begins = mask & ~np.pad(mask, ((0, 0), (1, 0)))[:, :-1]
    runs = np.cumsum(begins.ravel()).reshape(mask.shape) * mask
    hit = np.zeros(int(runs.max(initial=0)) + 1, np.bool_)
    hit[runs[reached]] = True
    hit[0] = False
    return hit[runs]
