"""L5Kit datasets: written from samples, read as L5Kit reads them, merged, split and recovered."""

from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.formats.l5kit.read.agentmask import AgentFilter
from edgefirst_ros.formats.l5kit.read.config import ReaderConfig
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.l5kit.read.raster import build_rasterizer
from edgefirst_ros.formats.l5kit.read.samples import AgentDataset, EgoDataset
from edgefirst_ros.formats.l5kit.rearrange import merge, split
from edgefirst_ros.formats.l5kit.recover import recover
from edgefirst_ros.formats.l5kit.write.writer import L5KitWriter

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
