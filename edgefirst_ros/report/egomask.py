"""Drafts of ego masks: what each camera of a drive sees of the vehicle itself, to be looked at and kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.datasets import find, refuse_linked
from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.formats.scene import Box2d, Drawable, Instant, Vector, in_colour, opened
from edgefirst_ros.model.camera import Intrinsics
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, OutputExists
from edgefirst_ros.model.pictures import encode_gray
from edgefirst_ros.model.transform import Transform, matrix_of
from edgefirst_ros.model.untrusted import refusing, safe_name
from edgefirst_ros.report.unchanging import AHEAD, WIDTH, Aim, Bits, Luma, at_size, unchanging

APART_M = 5.0
"""Between two pictures: the road that a bonnet borders on is another one after that."""
APART_S = 1.0
"""The same where the dataset does not say where the rig is; in town a second is 5 m and more."""
FEWEST, MOST = 16, 64
"""Pictures of a camera: with fewer, a few alike make the road look steady; more tell nothing new."""
WAIT_NS = 500_000_000
"""How long after its place a camera's picture may come; slower ones are not the rig's eyes."""
LEAST_CHANGE = 0.15
"""Share of a picture that must change: above a bonnet, below a clear sky it is a fifth; standing, a tenth."""
_TINT = np.array([230, 30, 60], np.float32)
_PREVIEW_QUALITY = 90


@dataclass(frozen=True, slots=True)
class Draft:
    """A mask of one camera.

    Attributes:
        camera: its id.
        mask: (height, width) of its pictures, True is the vehicle; None if nothing can be told.
        preview: a picture with the mask over it, JPEG.
        told: what it was made of and what was found, or why there is none.
    """

    camera: str
    mask: Bits | None
    preview: bytes
    told: str

    def save(self, folder: Path, *, overwrite: bool = False) -> tuple[Path, Path]:
        """Write the mask, an 8-bit gray PNG of 0 and 255, and the preview; where they are.

        Raises:
            OutputExists: one of them is there; it may have been corrected by hand.
            WriteError: they cannot be written.
        """
        name = safe_name(self.camera)
        mask, preview = folder / f"{name}.png", folder / f"{name}_preview.jpg"
        for path in (mask, preview):
            if path.exists() and not overwrite:
                raise OutputExists(f"{path}: exists, and may have been corrected by hand")
        gray = np.zeros((1, 1), np.uint8) if self.mask is None else self.mask.astype(np.uint8) * 255
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(mask, encode_gray(gray), sync=False)
            replace_file(preview, self.preview, sync=False)
        return mask, preview


def masked_datasets(path: Path) -> tuple[Format[Any], list[Path]]:
    """The datasets at or below a path whose format takes ego masks, of the first such format.

    Raises:
        DatasetNotFound: there is none.
        DatasetError: a symbolic link is in one, or leads to it.
    """
    found = [(of, dataset) for of, dataset in find(path) if of.ego_masks]
    if not found:
        takers = ", ".join(name for name, of in FORMATS.items() if of.ego_masks)
        raise DatasetNotFound(
            f"{path}: holds no dataset of a format that takes ego masks; convert the drive with "
            f"--format {takers} first, then name that dataset"
        )
    for _, dataset in found:
        refuse_linked(path, dataset)
    return found[0][0], [dataset for of, dataset in found if of is found[0][0]]


def drafts(path: Path) -> Iterator[Draft]:
    """A draft for each camera of a drive, in the order of their names.

    Args:
        path: a dataset, or a folder of several of the same rig.

    Raises:
        DatasetNotFound: there is none of a format that takes ego masks.
        DatasetError: one is damaged, or the rig hardly moved in them.
    """
    of, datasets = masked_datasets(path)
    seen: dict[str, _Seen] = {}
    with refusing(path, DatasetError):
        views = [_View(drawable, seen) for dataset in datasets for drawable in of.drawings(dataset)]
        route = _Route.of(path, views)
        for view, due_ns in zip(views, route.due_ns, strict=True):
            view.look(due_ns)
        for camera in sorted(seen):
            yield _draft(camera, seen[camera], route.told)


@dataclass(slots=True)
class _Seen:
    """What is looked at of one camera.

    Attributes:
        size: of its first picture, width and height; those of other sizes are left out.
        aim: where in its picture the rig drives to.
        pictures: luma, each (rows, columns).
        middle: one of them as it is.
    """

    size: tuple[int, int]
    aim: Aim = AHEAD
    pictures: list[Luma] = field(default_factory=list)
    middle: bytes = b""


class _View:
    """A ``Canvas`` for one sequence that takes pictures of places that were chosen.

    Attributes:
        way: times and places of the rig.
    """

    def __init__(self, drawable: Drawable, seen: dict[str, _Seen]) -> None:
        self._drawable, self._seen = drawable, seen
        self._names: dict[str, str] = {}
        self._lenses: dict[str, Intrinsics] = {}
        self._mounts: dict[str, Transform] = {}
        self._came: set[str] = set()
        self.way: list[tuple[int, Vector]] = []
        drawable.begin(self)

    def instants(self) -> Iterator[tuple[int, Instant]]:
        """Time and drawing of every picture."""
        for each in self._drawable.instants():
            if each.is_sample and each.time_ns is not None:
                yield each.time_ns, each

    def look(self, due_ns: Sequence[int]) -> None:
        """Take every camera's next picture from each of these times on."""
        waiting = iter(due_ns)
        due, cameras = next(waiting, None), max(1, len(self._names))
        for time_ns, instant in self.instants():
            while due is not None and (time_ns > due + WAIT_NS or len(self._came) >= cameras):
                due = next(waiting, None)
                self._came.clear()
            if due is None:
                return
            if time_ns >= due:
                instant.draw(self, 0)

    def picture(self, camera: str, data: bytes, boxes: Iterable[Box2d], size: tuple[int, int]) -> None:  # noqa: ARG002
        """Take a camera's picture, unless it has shown this place."""
        name = self._names.get(camera, camera)
        if name in self._came:
            return
        self._came.add(name)
        seen = self._seen.setdefault(name, _Seen(size, self._aim(camera)))
        if size == seen.size:
            small = WIDTH, max(1, round(WIDTH * size[1] / size[0]))
            luma = in_colour(opened(data)[0]).convert("L").resize(small, Image.Resampling.BOX)
            seen.pictures.append(np.asarray(luma))
            if len(seen.pictures) % 2:
                seen.middle = data

    def camera(self, path: str, intrinsics: Intrinsics, frame: str) -> None:
        self._names[path], self._lenses[path] = frame, intrinsics

    def mount(self, mounts: Iterable[Transform]) -> None:
        """Keep where the cameras look."""
        self._mounts |= {mount.child: mount for mount in mounts}

    def _aim(self, path: str) -> Aim:
        """Where a camera sees the rig drive to, by its mount and its lens."""
        lens, mount = self._lenses.get(path), self._mounts.get(self._names.get(path, ""))
        if lens is None or mount is None:
            return AHEAD
        right, down, ahead = matrix_of(mount.rotation_xyzw)[0].tolist()
        across, along = (
            (focal * part + middle * ahead) / size
            for focal, part, middle, size in zip(
                lens.focal_px, (right, down), lens.principal_px, lens.size, strict=True
            )
        )
        return across, along, ahead

    def pose(self, time_ns: int, position_m: Vector, rotation_xyzw: Any) -> None:  # noqa: ANN401, ARG002
        self.way.append((time_ns, position_m))

    def at(self, time_ns: int | None, sample: int | None = None) -> None: ...
    def mask(self, camera: str, name: str, png: bytes) -> None: ...
    def cloud(
        self,
        path: str,
        points: Any,  # noqa: ANN401
        frame: str,
        speed_m_s: Any = None,  # noqa: ANN401
        times_ns: Any = None,  # noqa: ANN401
    ) -> None: ...
    def boxes_3d(self, path: str, boxes: Iterable[Any], frame: str) -> None: ...
    def place(self, time_ns: int | None, latitude_deg: float, longitude_deg: float) -> None: ...
    def scalars(self, path: str, time_ns: int, values: tuple[float, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Route:
    """Where pictures are taken: times by sequence, and how far that is, for the user."""

    due_ns: Sequence[Sequence[int]]
    told: str

    @classmethod
    def of(cls, path: Path, views: Sequence[_View]) -> _Route:
        """By the way of the rig; by time where no sequence says where that is.

        Raises:
            DatasetError: there are too few places that lie apart.
        """
        if any(math.dist(view.way[0][1], place) > 0 for view in views for _, place in view.way):
            due, unit, apart = [_apart(view.way) for view in views], "m", APART_M
        else:
            times = [[time_ns for time_ns, _ in view.instants()] for view in views]
            due = [list(range(each[0], each[-1] + 1, round(APART_S * 1e9))) if each else [] for each in times]
            unit, apart = "s", APART_S
        count = sum(map(len, due))
        length = apart * max(0, count - len([each for each in due if each]))
        if count < FEWEST:
            what = "the rig hardly moves" if unit == "m" else "the drive is too short"
            raise DatasetError(
                f"{path}: {what}: {length:.0f} {unit}, so what never changes is not only the vehicle; "
                f"take a drive of {apart * FEWEST:.0f} {unit} or more"
            )
        kept = {*np.linspace(0, count - 1, min(count, MOST)).round().astype(int).tolist()}
        numbers = iter(range(count))
        return cls([[t for t in each if next(numbers) in kept] for each in due], f"{length:,.0f} {unit}")


def _apart(way: Iterable[tuple[int, Vector]]) -> list[int]:
    """Times at which the rig is far enough from where it was at the one before."""
    found: list[int] = []
    last: Vector | None = None
    for time_ns, place in way:
        if last is None or math.dist(last, place) >= APART_M:
            found.append(time_ns)
            last = place
    return found


def _draft(camera: str, seen: _Seen, far: str) -> Draft:
    count = len(seen.pictures)
    made = f"from {count} pictures over {far}"
    if count < FEWEST:
        return Draft(camera, None, b"", f"no mask: {made}, {FEWEST} are needed")
    found = unchanging(np.stack(seen.pictures), seen.aim)
    if found.changes < LEAST_CHANGE:
        why = f"only {found.changes:.0%} of the picture changes, as in the dark, or if it stands"
        return Draft(camera, None, b"", f"no mask: {why} ({made})")
    mask = at_size(found.vehicle, seen.size)
    share = float(mask.mean())
    what = f"{share:.1%} of the picture is masked" if share else "nothing of the vehicle is in view"
    return Draft(camera, mask, _preview(seen.middle, found.vehicle), f"{what}, {made}")


def _preview(data: bytes, mask: Bits) -> bytes:
    picture = in_colour(opened(data)[0])
    pixels = np.asarray(picture, np.float32)
    tinted = np.where(at_size(mask, picture.size)[..., None], (pixels + _TINT) / 2, pixels)
    written = BytesIO()
    Image.fromarray(tinted.astype(np.uint8)).save(written, "JPEG", quality=_PREVIEW_QUALITY)
    return written.getvalue()
