"""L5Kit datasets: written from samples, read as L5Kit reads them, and recovered."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgefirst_ros.formats.l5kit.options import L5KitOptions
    from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
    from edgefirst_ros.formats.l5kit.read.samples import AgentDataset, EgoDataset, ReaderConfig
    from edgefirst_ros.formats.l5kit.read.sampling import AgentFilter
    from edgefirst_ros.formats.l5kit.write.writer import L5KitWriter

__all__ = [
    "AgentDataset",
    "AgentFilter",
    "ChunkedDataset",
    "EgoDataset",
    "L5KitOptions",
    "L5KitWriter",
    "ReaderConfig",
]
_MODULES = {
    "options": ("L5KitOptions",),
    "read.sampling": ("AgentFilter",),
    "read.dataset": ("ChunkedDataset",),
    "read.samples": ("AgentDataset", "EgoDataset", "ReaderConfig"),
    "write.writer": ("L5KitWriter",),
}


def __getattr__(name: str) -> object:
    """Import what is asked for: options are read by every command, the reader of images is not."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
