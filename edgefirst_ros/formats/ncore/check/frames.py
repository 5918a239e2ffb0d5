"""Checks of sensors: frame times, pictures, ray bundles."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.formats.ncore.store.base import BOX_ARRAYS, FLAT_BOXES
from edgefirst_ros.formats.ncore.store.files import MOST_RAY_BYTES, FinishedStore
from edgefirst_ros.formats.zarr2.array import MOST_BYTES, read_array
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY, ATTRIBUTES_KEY
from edgefirst_ros.model.pictures import open_picture

_UNIT_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a component in a finished store."""

    component: str
    name: str
    store: FinishedStore
    metadata: Mapping[str, Any]
    interval_us: tuple[int, int]

    @property
    def path(self) -> str:
        """Group of the instance."""
        return f"{self.component}/{self.name}"

    def attributes(self, group: str = "") -> Any:  # noqa: ANN401  JSON
        """Attributes of a group below the instance, empty if it has none."""
        where = f"{self.path}/{group}" if group else self.path
        return self.metadata.get(f"{where}/{ATTRIBUTES_KEY}", {})

    def array(self, name: str, kinds: str = "", most_bytes: int = MOST_BYTES) -> npt.NDArray[Any]:
        """An array below the instance; see ``read_array``.

        Raises:
            KeyError: no such array.
            ValueError: it does not decode.
        """
        return read_array(self.store.get, f"{self.path}/{name}", kinds, most_bytes)


def check_times(instance: Instance, findings: Findings) -> npt.NDArray[np.int64]:
    """Check that frames are in order and inside the sequence; return their start and end times (N, 2)."""
    where, (start, stop) = instance.path, instance.interval_us
    times = np.array(instance.attributes("frames").get("frames_timestamps_us", []), np.int64).reshape(-1, 2)
    if not len(times):
        findings.error(where, "no frames: readers refuse the whole sequence")
    if (times[:, 1] < times[:, 0]).any():
        findings.error(where, "a frame ends before it starts")
    for column, what in enumerate(("starts", "ends")):
        if (np.diff(times[:, column]) <= 0).any():
            findings.error(where, f"frame {what} are not strictly increasing")
    if len(times) and (times.min() < start or times.max() >= stop):
        findings.error(where, "frames outside the sequence", f"[{start}, {stop})")
    if (times[1:, 0] < times[:-1, 1]).any():
        findings.warning(where, "frames overlap")
    return times


def check_picture(instance: Instance, end_us: int, size: tuple[int, int] | None, findings: Findings) -> None:
    """Check that a picture has the stated format and the size of the intrinsics."""
    where = f"{instance.path}@{end_us}"
    with reading(findings, where, "picture"), warnings.catch_warnings(action="ignore"):
        data = instance.array(f"frames/{end_us}/image").item()
        findings.look.passed(len(data))
        kind = instance.attributes(f"frames/{end_us}/image").get("format", "")
        with open_picture(data) as image:
            if str(kind).upper() != image.format:
                raise ValueError(f"it is a {image.format}, its metadata say {kind}")
            if size is not None and image.size != size:
                findings.error(where, "picture size", f"{image.size}, intrinsics say {size}")
            if not findings.look.quick:
                image.load()


def check_boxes(instance: Instance, end_us: int, findings: Findings) -> None:
    """Check a picture's 2-D boxes: ordered corners, columns of equal length."""
    where, group = f"{instance.path}@{end_us}", f"frames/{end_us}/generic_data"
    shapes = {name: _shape(instance, f"{group}/{name}") for name in BOX_ARRAYS}
    if shapes[FLAT_BOXES] is None:
        return
    try:
        corners = instance.array(f"{group}/{FLAT_BOXES}")
    except (KeyError, ValueError) as error:
        findings.error(where, "2-D boxes cannot be read", str(error))
        return
    if corners.ndim != 2 or corners.shape[1] != 4 or not (corners[:, :2] < corners[:, 2:]).all():
        findings.error(where, "2-D boxes are not left, top, right, bottom")
    lacking = [name for name, shape in shapes.items() if not shape or shape[0] != len(corners)]
    if lacking:
        findings.error(where, "2-D boxes with another number of", ", ".join(lacking))


def _shape(instance: Instance, name: str) -> list[int] | None:
    """The shape of an array below the instance, None if there is none."""
    found = instance.metadata.get(f"{instance.path}/{name}/{ARRAY_KEY}")
    return None if found is None else list(found["shape"])


def check_rays(instance: Instance, start_us: int, end_us: int, findings: Findings) -> None:
    """Check for unit directions, times inside the frame, and returns consistent with the valid mask."""
    where, frame = f"{instance.path}@{end_us}", f"frames/{end_us}"
    try:
        direction = instance.array(f"{frame}/ray_bundle/direction", "f", MOST_RAY_BYTES)
        times = instance.array(f"{frame}/ray_bundle/timestamp_us", "iu", MOST_RAY_BYTES).astype(np.int64)
        rays = instance.attributes(f"{frame}/ray_bundle")["n_rays"]
        returns = instance.attributes(f"{frame}/ray_bundle_returns")["n_returns"]
        distance = instance.array(f"{frame}/ray_bundle_returns/distance_m", "f", MOST_RAY_BYTES)
        packed = instance.array(f"{frame}/ray_bundle_returns_valid_mask_packed", "u", MOST_RAY_BYTES)
    except (KeyError, ValueError) as error:
        findings.error(where, "ray bundle cannot be read", str(error))
        return
    if direction.shape != (rays, 3) or times.shape != (rays,) or distance.shape != (returns, rays):
        findings.error(where, "ray bundle has arrays of different lengths")
        return
    lengths = np.einsum("ij,ij->i", direction, direction, dtype=np.float64)
    if not (np.abs(lengths - 1) <= _UNIT_TOLERANCE).all():
        findings.error(where, "directions are not unit vectors")
    if rays and (times.min() < start_us or times.max() > end_us):
        findings.error(where, "ray times outside the frame")
    valid = np.unpackbits(packed, count=returns * rays).astype(bool).reshape(returns, rays)
    _check_returns(where, "distance_m", distance, valid, findings)
    if instance.component == "lidars":
        try:
            intensity = instance.array(f"{frame}/ray_bundle_returns/intensity", "f", MOST_RAY_BYTES)
        except (KeyError, ValueError) as error:
            findings.error(where, "no intensity", str(error))
        else:
            _check_returns(where, "intensity", intensity, valid, findings)
            if intensity[valid].size and intensity[valid].max() > 1:
                findings.error(where, "intensity above 1")


def _check_returns(
    where: str, name: str, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_], findings: Findings
) -> None:
    if values.shape != valid.shape or not np.array_equal(~np.isnan(values), valid):
        findings.error(where, f"{name} does not match the valid mask")
    elif values[valid].size and not (np.isfinite(values[valid]).all() and values[valid].min() >= 0):
        findings.error(where, f"{name} is negative or infinite")
    elif name == "distance_m" and (values[valid] == 0).any():
        findings.warning(where, "returns at distance 0")
