"""Checks point clouds: header, data length, fields, finite coordinates."""

from __future__ import annotations

import numpy as np

from edgefirst_ros.formats.edgefirst.prepare.pcd import RADAR_FIELDS
from edgefirst_ros.formats.findings import Findings

_KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
_NUMPY = {"F": "f", "I": "i", "U": "u"}
_LONGEST_HEADER = 1 << 16


def check_pcd(kind: str, data: bytes, where: str, findings: Findings) -> None:
    """Check the PCD 0.7 header, the length of the data, x, y, z, and the first fields of radar clouds."""
    try:
        head, begin = _header(data)
        names, row = head["FIELDS"], _row(head)
        width, height, points = (int(head[key][0]) for key in ("WIDTH", "HEIGHT", "POINTS"))
    except (ValueError, KeyError, TypeError) as error:
        findings.error(where, "has no valid PCD 0.7 header", str(error))
        return
    if head["VERSION"][0] not in {"0.7", ".7"} or width * height != points:
        text = f"{head['VERSION'][0]}, {width}x{height}, {points} points"
        findings.error(where, "VERSION, WIDTH, HEIGHT and POINTS do not agree", text)
    if wrong := _wrong_length(head["DATA"][0], data, begin, row.itemsize, points):
        findings.error(where, "data length does not match the header", wrong)
        return
    if missing := [axis for axis in "xyz" if axis not in names]:
        findings.error(where, "point cloud without coordinates", ", ".join(missing))
        return
    if kind == "radar.pcd":
        _check_radar(names, row, where, findings)
    if head["DATA"][0] == "binary":
        table = np.frombuffer(data, row, points, begin)
        if not all(np.isfinite(table[str(names.index(axis))]).all() for axis in "xyz"):
            findings.error(where, "point coordinates are not finite")


def _header(data: bytes) -> tuple[dict[str, list[str]], int]:
    head: dict[str, list[str]] = {}
    at = 0
    while "DATA" not in head:
        end = data.find(b"\n", at, _LONGEST_HEADER)
        if end < 0:
            raise ValueError("no DATA line")
        key, *values = data[at:end].decode("ascii").split() or [""]
        at = end + 1
        if key and not key.startswith("#"):
            if key not in _KEYS or key in head:
                raise ValueError(f"{key} is unknown or repeated")
            head[key] = values
    if missing := [key for key in _KEYS if not head.get(key)]:
        raise ValueError(f"no {', '.join(missing)}")
    return head, at


def _row(head: dict[str, list[str]]) -> np.dtype[np.void]:
    """The dtype of a point; its fields are named by numbers, as names of the header may repeat."""
    scalars = list(zip(head["FIELDS"], head["TYPE"], head["SIZE"], head["COUNT"], strict=True))
    return np.dtype([
        (str(n), f"<{_NUMPY[letter]}{size}", (int(count),))
        for n, (_, letter, size, count) in enumerate(scalars)
    ])  # fmt: skip


def _wrong_length(coding: str, data: bytes, begin: int, each: int, points: int) -> str:
    """How the length of the data differs from the header; empty if it does not."""
    held, plain = len(data) - begin, each * points
    if coding == "binary":
        return "" if held == plain else f"{held:,} bytes, {points:,} points are {plain:,}"
    if coding == "binary_compressed":
        packed, unpacked = np.frombuffer(data, "<u4", 2, begin).tolist() if held >= 8 else (0, -1)
        sound = (packed, unpacked) == (held - 8, plain)
        return "" if sound else f"{unpacked:,} bytes, {points:,} points are {plain:,}"
    if coding == "ascii":
        lines = data.count(b"\n", begin) + (not data.endswith(b"\n"))
        return "" if lines == points else f"{lines:,} lines, {points:,} points"
    return f"unknown DATA {coding}"


def _check_radar(names: list[str], row: np.dtype[np.void], where: str, findings: Findings) -> None:
    single = np.dtype(("<f4", (1,)))
    first = tuple(names[: len(RADAR_FIELDS)])
    if first != RADAR_FIELDS or any(row[n] != single for n in range(len(RADAR_FIELDS))):
        findings.error(
            where, f"its first fields are not {' '.join(RADAR_FIELDS)} as float32", " ".join(first)
        )
