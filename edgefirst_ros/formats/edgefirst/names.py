"""Names of samples and files, made safe whatever the recording calls itself."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME_BYTES = 180
"""Leaves room for frame number and extension in the 255 bytes that file systems allow."""


def safe_name(text: str) -> str:
    """A host, sequence or dataset name that can be one path component and nothing else.

    Letters, digits, ``_``, ``-`` and ``.`` stay; runs of anything else become one ``-``; no leading or
    trailing ``.``, ``-`` or ``_``; never empty.
    """
    name = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", text))
    name = name.encode("utf-8", "ignore")[:MAX_NAME_BYTES].decode("utf-8", "ignore")
    return name.strip("._-") or "unnamed"


def sample_name(sequence: str, frame: int) -> str:
    """``{sequence}_{frame}``, the frame padded to three digits (six break the vendor's client)."""
    return f"{sequence}_{frame:03d}"


def file_path(sequence: str, frame: int, kind: str) -> str:
    """Path of a sensor file inside the container; ``kind`` is ``sensor.ext``."""
    return f"{sequence}/{sample_name(sequence, frame)}.{kind}"
