"""Simulated drives: each is made once for all tests that take one with the same options."""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import shutil
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

from faulty import simulate as make

from edgefirst_ros.simulation import DriveOptions, Recording
from edgefirst_ros.simulation.camera import Pixels, Renderer
from edgefirst_ros.simulation.world import World

KEPT = "EDGEFIRST_TEST_DRIVES"
"""The variable that names a folder which several processes share."""
_drives: dict[str, Recording] = {}
_SMALL_PX, _MOST_PICTURES = 320 * 192, 600
"""Pictures of up to so many pixels are drawn once for the drives that show the same: all kept are 110 MB."""


@cache
def _kept() -> Path:
    if KEPT in os.environ:
        return Path(os.environ[KEPT])
    folder = Path(tempfile.mkdtemp(prefix="edgefirst-drives-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def simulated(options: DriveOptions) -> Recording:
    """A drive that every test shares, for reading only."""
    key = repr(options)
    if key not in _drives:
        folder = _kept() / sha256(key.encode()).hexdigest()[:16]
        made = folder.with_suffix(".made")
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                made.write_bytes(pickle.dumps(make(folder, options)))
        _drives[key] = pickle.loads(made.read_bytes())
    return _drives[key]


def simulate(folder: Path, options: DriveOptions) -> Recording:
    """What the simulator writes into this folder; the files are the test's own."""
    shared = simulated(options)
    place = shared.truth.parent
    shutil.copytree(place, folder, dirs_exist_ok=True)
    return Recording(
        folder / shared.mcap.relative_to(place),
        folder / shared.truth.relative_to(place),
        tuple(folder / path.relative_to(place) for path in shared.files),
    )


_draw = Renderer.picture
_pictures: dict[tuple[World, str, float], Pixels] = {}


def _drawn_once(self: Renderer, time_s: float) -> Pixels:
    lens = self.lens
    if lens.width * lens.height > _SMALL_PX:
        return _draw(self, time_s)
    key = self.world, self.frame, time_s
    if key not in _pictures:
        if len(_pictures) >= _MOST_PICTURES:
            del _pictures[next(iter(_pictures))]
        _pictures[key] = _draw(self, time_s)
        _pictures[key].flags.writeable = False
    return _pictures[key]


Renderer.picture = _drawn_once  # type: ignore[method-assign]
