"""Sensor data of EdgeFirst Maivin and Raivin to training data: recordings and live messages to datasets."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from edgefirst_ros.config.model import Config as Config
    from edgefirst_ros.formats.edgefirst.export import export_coco as export_coco
    from edgefirst_ros.formats.edgefirst.export import export_hf as export_hf
    from edgefirst_ros.formats.edgefirst.export import export_yolo as export_yolo
    from edgefirst_ros.formats.edgefirst.many import Corpus as Corpus
    from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset as EdgeFirstDataset
    from edgefirst_ros.formats.edgefirst.read.dataset import collate as collate
    from edgefirst_ros.formats.edgefirst.read.decoding import rasterise as rasterise
    from edgefirst_ros.formats.edgefirst.selection import select as select
    from edgefirst_ros.model.errors import EdgeFirstError as EdgeFirstError
    from edgefirst_ros.offline.api import convert as convert
    from edgefirst_ros.offline.copies import catalog as catalog
    from edgefirst_ros.offline.opening import info as info
    from edgefirst_ros.offline.opening import open as open  # noqa: A004 - that is what it does

PUBLIC = {
    "open": "offline.opening",
    "info": "offline.opening",
    "convert": "offline.api",
    "collate": "formats.edgefirst.read.dataset",
    "export_coco": "formats.edgefirst.export",
    "export_yolo": "formats.edgefirst.export",
    "export_hf": "formats.edgefirst.export",
    "catalog": "offline.copies",
    "select": "formats.edgefirst.selection",
    "rasterise": "formats.edgefirst.read.decoding",
    "EdgeFirstDataset": "formats.edgefirst.read.dataset",
    "Corpus": "formats.edgefirst.many",
    "Config": "config.model",
    "EdgeFirstError": "model.errors",
}
"""What Python code calls, and the module that has it, which is imported when it is asked for."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of them
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - only where it is asked for

        return version(__name__)
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted({"__version__", *PUBLIC})


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
                # Messages of ROS 2 Lyrical import the distribution's, which is too old for pydantic.
                sys.modules.pop("typing_extensions", None)
            return


_find_dependencies()
