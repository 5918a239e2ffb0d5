"""L5Kit datasets: written from samples, read as L5Kit reads them, merged, split and recovered."""

from edgefirst_ros.formats.l5kit.agentmask import AgentFilter
from edgefirst_ros.formats.l5kit.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.formats.l5kit.raster import build_rasterizer
from edgefirst_ros.formats.l5kit.readerconfig import ReaderConfig
from edgefirst_ros.formats.l5kit.rearrange import merge, split
from edgefirst_ros.formats.l5kit.recover import recover
from edgefirst_ros.formats.l5kit.samples import AgentDataset, EgoDataset
from edgefirst_ros.formats.l5kit.writer import L5KitWriter

__all__ = [
    "AgentDataset",
    "AgentFilter",
    "ChunkedDataset",
    "EgoDataset",
    "L5KitOptions",
    "L5KitWriter",
    "ReaderConfig",
    "build_rasterizer",
    "merge",
    "recover",
    "split",
]
