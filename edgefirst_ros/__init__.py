"""Sensor data of EdgeFirst Maivin and Raivin to training data: recordings and live messages to datasets."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _find_dependencies() -> None:
    """Put libraries that `colcon build` installed beside this package first on ``sys.path``; see setup.py.

    This is done here because every process that uses the package gets here before it imports a library.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)):
        found = Path(prefix) / "opt" / "edgefirst_ros" / version
        if found.is_dir():
            if str(found) not in sys.path:
                sys.path.insert(0, str(found))
            return


_find_dependencies()
