"""In which order a table has the values of ``location`` and ``pose``, which depends on its schema version.

============ ===================== ================= ======================================================
version      location              pose              source
============ ===================== ================= ======================================================
2025.01      longitude, latitude   roll, pitch, yaw  the vendor's published article, in 64-bit floats
2025.10      latitude, longitude   yaw, pitch, roll  the vendor's client of that time, in 32-bit floats
2026.04      latitude, longitude   yaw, pitch, roll  the same, and DATASET_FORMAT.md, which confirms the order
2026.10      latitude, longitude   roll, pitch, yaw  the vendor's client 2.19 (``ImuData``)
============ ===================== ================= ======================================================

A version that is not known yet is read as the newest. By the vendor's rule a table without ``schema_version``
is of 2025.10, unless its columns say otherwise: 64-bit floats are those of the article. One edition of
DATASET_FORMAT.md has roll first in 2025.10; the client that wrote these files never did.
"""

from __future__ import annotations

_PUBLISHED = "2025.01"
_YAW_FIRST = frozenset({"2025.10", "2026.04"})
_UNSTATED = "2025.10"


def is_longitude_first(version: str | None, *, is_double: bool) -> bool:
    """Whether ``location`` is longitude, latitude.

    Args:
        version: the table's ``schema_version``; None if it states none.
        is_double: whether the column has 64-bit floats.
    """
    return _version(version, is_double=is_double) == _PUBLISHED


def is_yaw_first(version: str | None, *, is_double: bool) -> bool:
    """Whether ``pose`` is yaw, pitch, roll; see ``is_longitude_first``."""
    return _version(version, is_double=is_double) in _YAW_FIRST


def _version(version: str | None, *, is_double: bool) -> str:
    return version or (_PUBLISHED if is_double else _UNSTATED)
