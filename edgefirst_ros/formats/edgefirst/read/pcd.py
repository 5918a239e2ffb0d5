"""Points of binary PCD files as structured arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_KINDS = {"F": "f", "U": "u", "I": "i"}


def read_pcd(data: bytes) -> npt.NDArray[np.void]:
    """Read the points of a binary PCD file into a structured array (N,) with the fields of the file.

    Raises:
        ValueError: it is not a binary PCD file, or shorter than its header says.
    """
    head, found, body = data.partition(b"DATA binary\n")
    if not found:
        raise ValueError("it is not a binary PCD file")
    fields = dict(line.split(" ", 1) for line in head.decode("ascii").splitlines() if " " in line)
    columns = zip(*(fields[key].split() for key in ("FIELDS", "TYPE", "SIZE", "COUNT")), strict=True)
    dtype = np.dtype(
        [
            (name, f"<{_KINDS[kind]}{size}", (int(count),) if int(count) > 1 else ())
            for name, kind, size, count in columns
        ]
    )
    return np.frombuffer(body, dtype, int(fields["POINTS"]))


def positions(points: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    """x, y, z of points as (N, 3), in metres.

    Raises:
        ValueError: they have no such fields, or not numbers in them.
    """
    with np.errstate(invalid="ignore"):  # not every NaN is a quiet one
        return np.stack([points[axis].astype(np.float64) for axis in "xyz"], axis=-1)
