"""Names of samples and of their files."""

from __future__ import annotations


def sample_name(sequence: str, frame: int) -> str:
    """``{sequence}_{frame}``, the frame padded to three digits (six break the vendor's client)."""
    return f"{sequence}_{frame:03d}"


def file_path(sequence: str, frame: int, kind: str) -> str:
    """Path of a sensor file inside the container; ``kind`` is ``sensor.ext``."""
    return f"{sequence}/{sample_name(sequence, frame)}.{kind}"
