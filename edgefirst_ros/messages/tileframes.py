"""How the coordinate frames of tiles are called: the camera's own frame, and which quarter it is."""

from __future__ import annotations

import re
from typing import Literal

Tile = Literal["", "tl", "tr", "bl", "br"]

TILES: dict[Tile, tuple[int, int]] = {"tl": (0, 0), "tr": (1, 0), "bl": (0, 1), "br": (1, 1)}
"""Column and row of each quarter."""

_SUFFIX = re.compile(
    r"[_./-](?:tile[_./-]?)?(?:(top|upper|bottom|lower)[_./-]?(left|right)|([tb])[_./-]?([lr]))$",
    re.IGNORECASE,
)


def split_tile(frame_id: str) -> tuple[str, Tile]:
    """The camera's frame and the quarter that a frame's name ends with; empty for none.

    The device says ``camera_optical_topleft``; ``_top_left``, ``_tl``, ``-tile-tl`` and the like are the
    same. A camera may be called so for its place on the vehicle: ask only where its frame is not known.
    """
    found = _SUFFIX.search(frame_id)
    if found is None or not found.start():
        return frame_id, ""
    down, across = (found[1] or found[3]).lower(), (found[2] or found[4]).lower()
    name = ("t" if down[0] in "tu" else "b") + across[0]
    return frame_id[: found.start()], next(tile for tile in TILES if tile == name)
