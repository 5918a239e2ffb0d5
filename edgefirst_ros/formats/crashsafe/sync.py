"""What every format does so that nothing committed is lost when the power goes."""

from __future__ import annotations

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Have the disk hold a file's bytes, or the names in a folder.

    Raises:
        OSError: as the file system has it.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
