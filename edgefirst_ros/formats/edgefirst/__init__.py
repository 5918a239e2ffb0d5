"""EdgeFirst datasets: a ZIP or folder of sensor files beside an Arrow table of annotations."""

from __future__ import annotations

from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.recover import recover
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter

__all__ = ["EdgeFirstOptions", "EdgeFirstWriter", "recover"]
