"""Points of PCD files, binary or text, as structured arrays."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import islice
from math import prod

import numpy as np
import numpy.typing as npt

_KINDS = {"F": "f", "U": "u", "I": "i"}
_DATA = re.compile(rb"^DATA[ \t]+(\w+)[ \t]*\r?\n", re.MULTILINE)
_LONGEST_HEADER, _MOST_FIELDS = 1 << 16, 256
_MOST_LINES = 1 << 20
"""Points in text, of which a million take a second; a sweep of the largest lidars has a quarter of that."""
_LINES_AT_ONCE = 1 << 14


def read_pcd(data: bytes) -> npt.NDArray[np.void]:
    """Read the points of a PCD file into a structured array (N,) with the fields of the file.

    Raises:
        ValueError: it is not a PCD file, packed, or shorter than its header says.
    """
    found = _DATA.search(data, 0, _LONGEST_HEADER)
    if found is None:
        raise ValueError("it is not a PCD file")
    fields = dict(
        line.split(maxsplit=1)
        for line in data[: found.start()].decode("ascii").splitlines()
        if len(line.split(maxsplit=1)) == 2
    )
    if missing := {"FIELDS", "TYPE", "SIZE"} - fields.keys():
        raise ValueError(f"its header has no {', '.join(sorted(missing))}")
    names = fields["FIELDS"].split()
    counts = [int(count) for count in fields.get("COUNT", "1 " * len(names)).split()]
    if len(names) > _MOST_FIELDS:
        raise ValueError(f"it has {len(names):,} fields")
    columns = list(zip(names, fields["TYPE"].split(), fields["SIZE"].split(), counts, strict=True))
    dtype = np.dtype(
        [
            (name, f"<{_KINDS[kind]}{size}", (count,) if count > 1 else ())
            for name, kind, size, count in columns
        ]
    )
    number = int(fields.get("POINTS", 0)) or prod(int(fields.get(side, 0)) for side in ("WIDTH", "HEIGHT"))
    body = data[found.end() :]
    if found[1] == b"binary":
        return np.frombuffer(body, dtype, number)
    if found[1] != b"ascii":
        raise ValueError(f"its points are {found[1].decode()}, neither binary nor ascii")
    return _of_text(body, dtype, number)


def _of_text(body: bytes, dtype: np.dtype[np.void], number: int) -> npt.NDArray[np.void]:
    """Points of which each is a line of numbers."""
    if not 0 <= number <= _MOST_LINES:
        raise ValueError(f"it has {number:,} points in text")
    lines = (line for line in BytesIO(body) if line.strip())
    points, done = np.zeros(number, dtype), 0
    while done < number and (some := list(islice(lines, min(_LINES_AT_ONCE, number - done)))):
        points[done : done + len(some)] = np.loadtxt(some, dtype, comments=None, ndmin=1, encoding="ascii")
        done += len(some)
    if done < number:
        raise ValueError(f"it has {done} points instead of {number}")
    return points


def positions(points: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    """x, y, z of points as (N, 3), in metres.

    Raises:
        ValueError: they have no such fields, or not numbers in them.
    """
    with np.errstate(invalid="ignore"):  # not every NaN is a quiet one
        return np.stack([points[axis].astype(np.float64) for axis in "xyz"], axis=-1)
