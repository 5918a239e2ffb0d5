"""EdgeFirst Maivin/Raivin sensor data to training data: recordings in, datasets out."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _find_dependencies() -> None:
    """Look first where `colcon build` has put what the system's Python lacks or has too old; see setup.py.

    Here, because every process that uses the package comes by, and before it imports anything of that.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)):
        found = Path(prefix) / "opt" / "edgefirst_ros" / version
        if found.is_dir():
            if str(found) not in sys.path:
                sys.path.insert(0, str(found))
            return


_find_dependencies()
